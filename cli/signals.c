/* signals.c: handlers of signals, which call only what POSIX allows in them. They read tables of
 * fixed size; what finds no room there is left out: a temporary file stays, a message names no
 * file. */
#include "signals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum { TEMPORARIES = 8, MAPPED = 1024 };

typedef struct mapped {
  const char *volatile begin;
  size_t size;
  const char *path;
} mapped;

static const char *volatile temporaries[TEMPORARIES];
static mapped mappings[MAPPED];

/* ---- the tables ------------------------------------------------------------------------------ */

void cli_temporary_remember(const char *name) {
  for (int t = 0; t < TEMPORARIES; t++)
    if (temporaries[t] == NULL) {
      temporaries[t] = name;
      return;
    }
}

void cli_temporary_forget(const char *name) {
  for (int t = 0; t < TEMPORARIES; t++)
    if (temporaries[t] == name) temporaries[t] = NULL;
}

void cli_mapped_remember(const void *data, size_t size, const char *path) {
  for (int m = 0; m < MAPPED && data != NULL && size > 0; m++)
    if (mappings[m].begin == NULL) {
      mappings[m].size = size;
      mappings[m].path = path;
      mappings[m].begin = data;
      return;
    }
}

void cli_mapped_forget(const void *data) {
  for (int m = 0; m < MAPPED && data != NULL; m++)
    if (mappings[m].begin == data) mappings[m].begin = NULL;
}

/* ---- the handlers ---------------------------------------------------------------------------- */

void cli_temporaries_remove(void) {
  for (int t = 0; t < TEMPORARIES; t++)
    if (temporaries[t] != NULL) unlink(temporaries[t]);
}

static pthread_t main_thread;

bool cli_signals_pass(int number) {
  return !pthread_equal(pthread_self(), main_thread) && pthread_kill(main_thread, number) == 0;
}

static void (*volatile last_words)(void);

void cli_signals_tell(void (*tell)(void)) {
  last_words = tell;
}

/* The signal is raised again when this returns, and then has its default action. */
void cli_signals_end(int number) {
  cli_temporaries_remove();
  if (last_words != NULL) last_words();
  signal(number, SIG_DFL);
  raise(number);
}

static void on_end(int number) {
  if (!cli_signals_pass(number)) cli_signals_end(number);
}

static void say(const char *text) {
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

/* Handles a read of a page that a file has lost, by whichever thread, even one of the BLAS. Of
 * several threads the first one tells; the others wait for the end of the process. */
static void on_lost_page(int number, siginfo_t *info, void *context) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  (void)context;
  const char *address = info->si_addr, *path = NULL;
  for (int m = 0; m < MAPPED && path == NULL; m++)
    if (mappings[m].begin != NULL && address >= mappings[m].begin &&
        (size_t)(address - mappings[m].begin) < mappings[m].size)
      path = mappings[m].path;
  if (info->si_code != BUS_ADRERR) { /* a fault of ours, not of a file */
    cli_signals_end(number);
    return;
  }
  while (atomic_flag_test_and_set(&is_told)) pause();
  cli_temporaries_remove();
  say("mmchain: ");
  say(path != NULL ? path : "a file");
  say(": changed while being read\n");
  _exit(CLI_BAD);
}

void cli_signals_catch(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_end}, before;
  main_thread = pthread_self();
  sigemptyset(&action.sa_mask);
  for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
    sigaction(ends[e], &action, &before);
    if (before.sa_handler == SIG_IGN) sigaction(ends[e], &before, NULL);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  struct sigaction lost = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO};
  sigemptyset(&lost.sa_mask);
  sigaction(SIGBUS, &lost, NULL);
}

/* ---- holding --------------------------------------------------------------------------------- */

void cli_signals_hold(sigset_t *before) {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGHUP);
  sigaddset(&ending, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &ending, before);
}

void cli_signals_release(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}
