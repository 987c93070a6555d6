#include "progress.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
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

/* Returns how long to wait before anything is shown. Tests have less patience. */
static double patience(bool terminal) {
  const char *told = getenv("MMCHAIN_PATIENCE_S");
  double seconds = told != NULL ? atof(told) : -1;
  return seconds >= 0 ? seconds : terminal ? patience_s : line_every_s;
}

cli_progress cli_progress_start(const cli_call *call) {
  bool terminal = isatty(STDERR_FILENO) == 1;
  return (cli_progress){
      .call = call, .terminal = terminal, .next_s = cli_now_s() + patience(terminal)};
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

int cli_progress_show(void *user, double done) {
  return cli_progress_show_words(user, done, "done");
}

void cli_progress_end(cli_progress *progress) {
  if (progress->drawn) fprintf(stderr, "\r\033[K");
  progress->drawn = false;
}

/* ---- work in stages -------------------------------------------------------------------------- */

void cli_stage_begin(cli_call *call, cli_stage *stage, double from, double to, const char *words) {
  if (call->stage == NULL) stage->progress = cli_progress_start(call);
  call->stage = stage;
  stage->from = from;
  stage->to = to;
  snprintf(stage->words, sizeof stage->words, "%s", words);
}

int cli_stage_show(void *user, double done) {
  cli_stage *stage = ((cli_call *)user)->stage;
  if (stage == NULL) return 0;
  return cli_progress_show_words(&stage->progress, stage->from + done * (stage->to - stage->from),
                                 stage->words);
}

void cli_stage_end(cli_call *call) {
  if (call->stage != NULL) cli_progress_end(&call->stage->progress);
}

struct cli_watch {
  cli_stage *stage;
  double start_s, predicted_s;
  _Atomic double share; /* of the work, as far as it tells; 0 before it does */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ended;
};

/* Shows how long the work has taken. */
static void show_time(cli_watch *w) {
  cli_stage *stage = w->stage;
  char words[128];
  const double taken_s = cli_now_s() - w->start_s, share = atomic_load(&w->share);
  const bool told = share > 0.01;
  double done = told ? share : taken_s / w->predicted_s;
  if (told)
    snprintf(words, sizeof words, "%s, %.0f s of some %.0f s", stage->words, taken_s,
             taken_s / share);
  else if (!isfinite(done))
    snprintf(words, sizeof words, "%s, %.0f s", stage->words, taken_s);
  else
    snprintf(words, sizeof words, "%s, %.0f s of %.2g s predicted", stage->words, taken_s,
             w->predicted_s);
  /* Only the end of the work is all of it. */
  done = isfinite(done) ? fmin(done, 0.99) : 0;
  cli_progress_show_words(&stage->progress, stage->from + done * (stage->to - stage->from), words);
}

static void *watch(void *user) {
  cli_watch *w = user;
  pthread_mutex_lock(&w->lock);
  while (!w->ended) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * bar_every_s);
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
    pthread_cond_timedwait(&w->changed, &w->lock, &until);
    if (!w->ended) show_time(w);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

int cli_watch_tell(void *user, double done) {
  cli_watch *w = user;
  if (w != NULL) atomic_store(&w->share, done);
  return 0;
}

cli_watch *cli_watch_begin(cli_call *call, double predicted_s) {
  cli_watch *w = call->stage != NULL ? calloc(1, sizeof *w) : NULL;
  if (w == NULL) return NULL;
  w->stage = call->stage;
  w->start_s = cli_now_s();
  w->predicted_s = predicted_s;
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->changed, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_init(&w->lock, NULL);
  /* Signals are for the thread that works. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int code = pthread_create(&w->thread, NULL, watch, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code == 0) return w;
  free(w);
  return NULL;
}

void cli_watch_end(cli_watch *w) {
  if (w == NULL) return;
  pthread_mutex_lock(&w->lock);
  w->ended = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  free(w);
}
