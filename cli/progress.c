#include "progress.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "signals.h"
#include "timing.h"

static volatile sig_atomic_t interrupted = 0;

/* The alarm is for parts of the work that do not ask whether to go on. */
static void on_alarm(int number) {
  static const char message[] = "\nmmchain: interrupted\n";
  if (cli_signals_pass(number)) return;
  cli_temporaries_remove();
  ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  (void)written;
  _exit(CLI_INTERRUPTED);
}

static void on_interrupt(int number) {
  if (cli_signals_pass(number)) return;
  if (interrupted != 0) cli_signals_end(number); /* the second time ends it at once */
  interrupted = 1;
  alarm(1);
}

void cli_interrupt_catch(void) {
  /* Without SA_RESTART, reading from a terminal ends too. */
  struct sigaction action = {.sa_handler = on_interrupt};
  struct sigaction before;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before);
  if (before.sa_handler == SIG_IGN) { /* in the background, Ctrl-C is not for us */
    sigaction(SIGINT, &before, NULL);
    return;
  }
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
}

bool cli_interrupted(void) {
  return interrupted != 0;
}

static const double patience_s = 0.5, bar_every_s = 0.1, line_every_s = 5;

cli_progress cli_progress_start(const cli_call *call) {
  bool terminal = isatty(STDERR_FILENO) == 1;
  return (cli_progress){.call = call,
                        .terminal = terminal,
                        .next_s = cli_now_s() + (terminal ? patience_s : line_every_s)};
}

int cli_progress_show_words(cli_progress *progress, double done, const char *words) {
  if (cli_interrupted()) return 1;
  double now_s = cli_now_s();
  if (now_s < progress->next_s) return 0;
  progress->next_s = now_s + (progress->terminal ? bar_every_s : line_every_s);
  double percent = done >= 0 && done <= 1 ? floor(100 * done) : 0; /* 100 stands for all */
  const char *name = progress->call->self->name;
  if (progress->terminal) {
    char bar[41] = {0};
    memset(bar, '.', sizeof bar - 1);
    memset(bar, '#', (size_t)(percent / 100 * (double)(sizeof bar - 1)));
    fprintf(stderr, "\rmmchain %s [%s] %3.0f %% %s\033[K", name, bar, percent, words);
    progress->drawn = true;
  } else {
    fprintf(stderr, "mmchain %s: %.0f %% %s\n", name, percent, words);
  }
  return 0;
}

int cli_progress_show_left(cli_progress *progress, double done, double left_s) {
  char words[40] = "done";
  if (isfinite(left_s)) snprintf(words, sizeof words, "done, %.0f s left", ceil(left_s));
  return cli_progress_show_words(progress, done, words);
}

int cli_progress_show(void *user, double done) {
  return cli_progress_show_words(user, done, "done");
}

void cli_progress_end(cli_progress *progress) {
  if (progress->drawn) fprintf(stderr, "\r\033[K");
  progress->drawn = false;
}
