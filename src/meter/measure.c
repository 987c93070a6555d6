/* measure.c: measures idle power first, then repeats the work while the meter is sampled.
 *
 * Runs are done in batches of some 50 ms, so that waiting for the end of one leaves the device idle
 * for next to nothing; the number of runs within the window is counted by time, with fractions. */
#include "meter/measure.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/monotonic.h"
#include "meter/window.h"

static const double sample_s = 0.002, batch_least_s = 0.025, batch_most_s = 0.1;

enum { STATE_EVERY = 4, BATCH_MOST = 1 << 20 };

/* ---- the machine's clock ------------------------------------------------------------------- */

static double machine_now(void *user) {
  (void)user;
  return mmci_now_s();
}

/* Sleeps for less than a second. */
static void machine_rest(void *user, double seconds) {
  (void)user;
  struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
  nanosleep(&t, NULL);
}

static const mmci_clock machine_clock = {.now = machine_now, .rest = machine_rest};

/* ---- sampling ------------------------------------------------------------------------------ */

typedef struct sampler {
  const mmci_meter_ops *ops;
  mmci_meter *meter;
  const mmci_clock *clock;
  bool threaded;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the fields below, when there is a thread */
  bool stop;
  mmci_window window;
  /* The fields below belong to the function that polls. */
  uint64_t polls;
  double joules;
} sampler;

static double now_s(const sampler *s) {
  return s->clock->now(s->clock->user);
}

/* Reads the meter and tells the window. Power, clocks and temperature take longer to read, so they
 * are read now and then, and at every tick, which may be an end of the window. */
static void poll_meter(sampler *s) {
  mmci_error error;
  mmci_meter_state state;
  double before_s = now_s(s), joules = NAN;
  mmc_status status = s->ops->joules(s->meter, before_s, &joules, &error);
  double took_s = now_s(s) - before_s, time_s = before_s + took_s / 2;
  bool with_state = status == MMC_OK && s->ops->state != NULL &&
                    (s->polls++ % STATE_EVERY == 0 || joules != s->joules);
  if (with_state) s->ops->state(s->meter, time_s, &state);
  s->joules = joules;
  pthread_mutex_lock(&s->lock);
  if (status == MMC_OK)
    mmci_window_add(&s->window, time_s, took_s, joules, with_state ? &state : NULL);
  else
    mmci_window_fail(&s->window, &error);
  pthread_mutex_unlock(&s->lock);
}

static bool stopped(sampler *s) {
  pthread_mutex_lock(&s->lock);
  bool stop = s->stop || s->window.phase == MMCI_WINDOW_FAILED;
  pthread_mutex_unlock(&s->lock);
  return stop;
}

static void *sample_until_stopped(void *user) {
  sampler *s = user;
  while (!stopped(s)) {
    poll_meter(s);
    s->clock->rest(s->clock->user, sample_s);
  }
  return NULL;
}

/* Starts with a window that has not begun. */
static mmc_status start_sampler(sampler *s, mmci_error *error) {
  if (pthread_mutex_init(&s->lock, NULL) != 0) return mmci_fail_nomem(error, sizeof s->lock);
  s->window.phase = MMCI_WINDOW_CLOSED;
  poll_meter(s);
  if (!s->threaded) return MMC_OK;
  /* Signals are left to the program's own threads. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int code = pthread_create(&s->thread, NULL, sample_until_stopped, s);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (code == 0) return MMC_OK;
  pthread_mutex_destroy(&s->lock);
  return mmci_fail(error, MMC_E_NOMEM, "no thread can be started to read the meter");
}

static void stop_sampler(sampler *s) {
  if (s->threaded) {
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
  }
  pthread_mutex_destroy(&s->lock);
}

static void begin_window(sampler *s, double least_s) {
  pthread_mutex_lock(&s->lock);
  mmci_window_begin(&s->window, least_s);
  pthread_mutex_unlock(&s->lock);
}

/* Returns the phase of the window, after a sample where no thread takes them. */
static mmci_window_phase look_at_window(sampler *s) {
  if (!s->threaded) poll_meter(s);
  pthread_mutex_lock(&s->lock);
  mmci_window_phase phase = s->window.phase;
  pthread_mutex_unlock(&s->lock);
  return phase;
}

/* ---- idle ---------------------------------------------------------------------------------- */

/* Returns whether idle power is known; otherwise the window has failed. */
static bool measure_idle(sampler *s, double idle_s, mmc_energy *out) {
  begin_window(s, idle_s);
  mmci_window_phase phase;
  while ((phase = look_at_window(s)) != MMCI_WINDOW_CLOSED && phase != MMCI_WINDOW_FAILED)
    s->clock->rest(s->clock->user, sample_s);
  if (phase == MMCI_WINDOW_FAILED) return false;
  pthread_mutex_lock(&s->lock);
  out->idle_watts = mmci_window_watts(&s->window);
  mmci_window_spread(&s->window, &out->idle_watts_min, &out->idle_watts_max);
  pthread_mutex_unlock(&s->lock);
  return true;
}

/* ---- work ---------------------------------------------------------------------------------- */

typedef struct batches {
  mmci_batch *all;
  size_t count, capacity;
} batches;

static mmc_status keep_batch(batches *b, const mmci_batch *batch, mmci_error *error) {
  if (b->count == b->capacity) {
    size_t capacity = 2 * b->capacity + 64;
    mmci_batch *grown = realloc(b->all, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    b->all = grown;
    b->capacity = capacity;
  }
  b->all[b->count++] = *batch;
  return MMC_OK;
}

static mmc_status run_batch(const mmc_energy_options *options, int runs, mmci_error *error) {
  for (int r = 0; r < runs; r++)
    if (options->work(options->user) != 0)
      return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the work callback");
  if (options->wait != NULL && options->wait(options->user) != 0)
    return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the wait callback");
  return MMC_OK;
}

/* Works until the window has closed or failed. Batches that end before the window begins are not
 * kept. */
static mmc_status work_through_window(sampler *s, const mmc_energy_options *options, batches *kept,
                                      mmci_error *error) {
  double start_s = now_s(s);
  bool warm = false;
  for (int runs = 1;;) {
    mmci_batch batch = {.begin_s = now_s(s), .runs = runs};
    mmc_status status = run_batch(options, runs, error);
    batch.end_s = now_s(s);
    if (status == MMC_OK && warm) status = keep_batch(kept, &batch, error);
    if (status != MMC_OK) return status;
    mmci_window_phase phase = look_at_window(s);
    if (phase == MMCI_WINDOW_FAILED || (warm && phase == MMCI_WINDOW_CLOSED)) return MMC_OK;
    double taken_s = batch.end_s - batch.begin_s;
    if (taken_s < batch_least_s && runs < BATCH_MOST) runs *= 2;
    if (taken_s > batch_most_s && runs > 1) runs /= 2;
    if (!warm && batch.end_s - start_s >= options->warm_s) {
      warm = true;
      begin_window(s, options->min_s);
    }
  }
}

/* Writes what the window says of a run; a window in which no run fell has failed. */
static void tell_energy(mmci_window *window, const batches *kept, mmc_energy *out) {
  double seconds = mmci_window_seconds(window);
  double runs = mmci_batches_within(kept->all, kept->count, window->begin_s, window->end_s);
  if (!(runs > 0)) {
    mmci_error error;
    mmci_fail(&error, MMC_E_DEVICE, "no run fell into the window of %.3g s", seconds);
    mmci_window_fail(window, &error);
    return;
  }
  out->runs = runs;
  out->joules = mmci_window_joules(window) / runs;
  out->seconds = seconds / runs;
  out->watts = mmci_window_watts(window);
  mmci_window_spread(window, &out->watts_min, &out->watts_max);
  out->window_s = seconds;
  out->ticks = window->ticks;
  out->tick_error = window->late_s / seconds;
  out->crosscheck = mmci_window_crosscheck(window);
  mmci_numbers_summary(&window->sm_mhz, &out->sm_mhz_min, &out->sm_mhz_median, &out->sm_mhz_max);
  mmci_numbers_summary(&window->memory_mhz, &out->memory_mhz_min, &out->memory_mhz_median,
                       &out->memory_mhz_max);
  out->celsius_max = window->celsius_max;
  mmci_throttle_text(window->throttle, out->throttle, sizeof out->throttle);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static mmc_energy nothing_known(const char *meter) {
  mmc_energy energy = {
      .joules = NAN,
      .seconds = NAN,
      .watts = NAN,
      .watts_min = NAN,
      .watts_max = NAN,
      .idle_watts = NAN,
      .idle_watts_min = NAN,
      .idle_watts_max = NAN,
      .window_s = NAN,
      .runs = NAN,
      .tick_error = NAN,
      .crosscheck = NAN,
      .sm_mhz_min = NAN,
      .sm_mhz_median = NAN,
      .sm_mhz_max = NAN,
      .memory_mhz_min = NAN,
      .memory_mhz_median = NAN,
      .memory_mhz_max = NAN,
      .celsius_max = NAN,
  };
  snprintf(energy.meter, sizeof energy.meter, "%s", meter);
  mmci_throttle_text(-1, energy.throttle, sizeof energy.throttle);
  return energy;
}

mmc_status mmci_measure(const mmci_meter_ops *ops, mmci_meter *meter,
                        const mmc_energy_options *options, const mmci_clock *clock, mmc_energy *out,
                        mmci_error *error) {
  sampler s = {
      .ops = ops,
      .meter = meter,
      .clock = clock != NULL ? clock : &machine_clock,
      .threaded = clock == NULL,
      .joules = NAN,
  };
  batches kept = {0};
  mmc_energy energy = nothing_known(ops->name);
  mmc_status status = start_sampler(&s, error);
  if (status != MMC_OK) return status;
  if ((options->idle_s <= 0 || measure_idle(&s, options->idle_s, &energy)) &&
      look_at_window(&s) != MMCI_WINDOW_FAILED && options->work != NULL)
    status = work_through_window(&s, options, &kept, error);
  stop_sampler(&s);
  if (status == MMC_OK && s.window.phase == MMCI_WINDOW_CLOSED && options->work != NULL)
    tell_energy(&s.window, &kept, &energy);
  energy.measured = s.window.phase == MMCI_WINDOW_CLOSED;
  if (status == MMC_OK && s.window.error.status == MMC_E_NOMEM)
    status = mmci_fail(error, MMC_E_NOMEM, "%s", s.window.error.text);
  if (!energy.measured) snprintf(energy.reason, sizeof energy.reason, "%s", s.window.error.text);
  if (status == MMC_OK) *out = energy;
  mmci_window_free(&s.window);
  free(kept.all);
  return status;
}
