#include "meter/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ascending.h"

/* ---- numbers ------------------------------------------------------------------------------- */

/* Keeps a number unless it is NaN. Returns false when memory is short. */
static bool keep_number(mmci_numbers *numbers, double value) {
  if (!isfinite(value)) return true;
  if (numbers->count == numbers->capacity) {
    size_t capacity = 2 * numbers->capacity + 64;
    double *grown = realloc(numbers->values, capacity * sizeof *grown);
    if (grown == NULL) return false;
    numbers->values = grown;
    numbers->capacity = capacity;
  }
  numbers->values[numbers->count++] = value;
  return true;
}

void mmci_numbers_summary(mmci_numbers *numbers, double *min, double *median, double *max) {
  *min = *median = *max = NAN;
  size_t count = numbers->count;
  if (count == 0) return;
  qsort(numbers->values, count, sizeof(double), mmci_ascending_doubles);
  *min = numbers->values[0];
  *max = numbers->values[count - 1];
  *median = (numbers->values[(count - 1) / 2] + numbers->values[count / 2]) / 2;
}

/* ---- the window ---------------------------------------------------------------------------- */

void mmci_window_begin(mmci_window *window, double least_s) {
  if (window->phase == MMCI_WINDOW_FAILED) return;
  mmci_window_free(window);
  *window = (mmci_window){
      .least_s = least_s,
      .watts_min = INFINITY,
      .watts_max = -INFINITY,
      .power_watts = NAN,
      .celsius_max = NAN,
      .throttle = -1,
      .seen_s = NAN,
      .seen_joules = NAN,
  };
}

void mmci_window_free(mmci_window *window) {
  free(window->sm_mhz.values);
  free(window->memory_mhz.values);
  window->sm_mhz = window->memory_mhz = (mmci_numbers){0};
}

void mmci_window_fail(mmci_window *window, const mmci_error *error) {
  if (window->phase == MMCI_WINDOW_FAILED) return;
  window->phase = MMCI_WINDOW_FAILED;
  window->error = *error;
}

static void fail_window(mmci_window *window, mmc_status status, const char *what, double a,
                        double b) {
  window->phase = MMCI_WINDOW_FAILED;
  mmci_fail(&window->error, status, "%s: from %.17g to %.17g", what, a, b);
}

static void open_window(mmci_window *w, double time_s, double joules) {
  w->phase = MMCI_WINDOW_OPEN;
  w->begin_s = w->end_s = w->slice_s = w->power_s = time_s;
  w->begin_joules = w->end_joules = w->slice_joules = joules;
}

/* Takes note that the counter has changed. */
static void tick(mmci_window *w, double time_s, double took_s, double joules) {
  double late_s = time_s + took_s / 2 - (w->seen_s - w->seen_took_s / 2);
  if (w->phase == MMCI_WINDOW_WAITING) {
    w->begin_late_s = late_s;
    open_window(w, time_s, joules);
    return;
  }
  w->late_s = fmax(w->begin_late_s, late_s);
  w->ticks++;
  w->end_s = time_s;
  w->end_joules = joules;
  if (time_s - w->slice_s >= MMCI_SLICE_S) {
    double watts = (joules - w->slice_joules) / (time_s - w->slice_s);
    w->watts_min = fmin(w->watts_min, watts);
    w->watts_max = fmax(w->watts_max, watts);
    w->slices++;
    w->slice_s = time_s;
    w->slice_joules = joules;
  }
  if (time_s - w->begin_s >= w->least_s) w->phase = MMCI_WINDOW_CLOSED;
}

static void add_state(mmci_window *w, double time_s, const mmci_meter_state *state) {
  double before_s = time_s - w->power_s, sum = w->power_watts + state->watts;
  if (isfinite(sum) && before_s > 0) {
    w->sampled_joules += sum / 2 * before_s;
    w->sampled_s += before_s;
  }
  w->power_s = time_s;
  w->power_watts = state->watts;
  w->celsius_max = fmax(w->celsius_max, state->celsius);
  if (state->throttle >= 0) w->throttle = (w->throttle >= 0 ? w->throttle : 0) | state->throttle;
  if (!keep_number(&w->sm_mhz, state->sm_mhz) || !keep_number(&w->memory_mhz, state->memory_mhz)) {
    w->phase = MMCI_WINDOW_FAILED;
    mmci_fail_nomem(&w->error, 2 * sizeof(double) * w->sm_mhz.count);
  }
}

void mmci_window_add(mmci_window *w, double time_s, double took_s, double joules,
                     const mmci_meter_state *state) {
  if (w->phase == MMCI_WINDOW_CLOSED || w->phase == MMCI_WINDOW_FAILED) return;
  if (!isfinite(joules)) {
    fail_window(w, MMC_E_DEVICE, "the counter is no number", w->seen_joules, joules);
  } else if (isnan(w->seen_s)) {
    w->changed_s = time_s;
  } else if (!(time_s >= w->seen_s)) {
    fail_window(w, MMC_E_DEVICE, "the clock went back", w->seen_s, time_s);
  } else if (joules < w->seen_joules) {
    fail_window(w, MMC_E_DEVICE, "the energy counter fell", w->seen_joules, joules);
  } else if (joules > w->seen_joules) {
    w->changed_s = time_s;
    tick(w, time_s, took_s, joules);
  } else if (time_s - w->changed_s > MMCI_STALL_S) {
    w->phase = MMCI_WINDOW_FAILED;
    mmci_fail(&w->error, MMC_E_DEVICE, "the energy counter has not moved for %.3g s",
              time_s - w->changed_s);
  }
  w->seen_s = time_s;
  w->seen_took_s = took_s;
  w->seen_joules = joules;
  if (state != NULL && (w->phase == MMCI_WINDOW_OPEN || w->phase == MMCI_WINDOW_CLOSED))
    add_state(w, time_s, state);
}

/* ---- what it says -------------------------------------------------------------------------- */

double mmci_window_seconds(const mmci_window *window) {
  return window->end_s - window->begin_s;
}

double mmci_window_joules(const mmci_window *window) {
  return window->end_joules - window->begin_joules;
}

double mmci_window_watts(const mmci_window *window) {
  return mmci_window_joules(window) / mmci_window_seconds(window);
}

double mmci_window_crosscheck(const mmci_window *window) {
  if (!(window->sampled_s >= mmci_window_seconds(window) / 2)) return NAN;
  return window->sampled_joules / window->sampled_s / mmci_window_watts(window) - 1;
}

void mmci_window_spread(const mmci_window *window, double *watts_min, double *watts_max) {
  bool known = window->slices >= 2;
  *watts_min = known ? window->watts_min : NAN;
  *watts_max = known ? window->watts_max : NAN;
}

void mmci_throttle_text(int64_t throttle, char *text, size_t size) {
  static const struct {
    int64_t bit;
    const char *name;
  } reasons[] = {
      {MMCI_THROTTLE_IDLE, "idle"},
      {MMCI_THROTTLE_APPLICATION_CLOCKS, "application clocks"},
      {MMCI_THROTTLE_POWER_CAP, "power cap"},
      {MMCI_THROTTLE_HARDWARE, "hardware slowdown"},
      {MMCI_THROTTLE_SYNC_BOOST, "sync boost"},
      {MMCI_THROTTLE_THERMAL, "thermal"},
      {MMCI_THROTTLE_HARDWARE_THERMAL, "hardware thermal"},
      {MMCI_THROTTLE_POWER_BRAKE, "power brake"},
      {MMCI_THROTTLE_DISPLAY_CLOCKS, "display clocks"},
  };
  snprintf(text, size, "%s", throttle < 0 ? "unknown" : throttle == 0 ? "none" : "");
  if (throttle <= 0) return;
  size_t used = 0;
  for (size_t r = 0; r < sizeof reasons / sizeof reasons[0]; r++) {
    if ((throttle & reasons[r].bit) == 0) continue;
    throttle &= ~reasons[r].bit;
    snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", reasons[r].name);
    used += strlen(text + used);
  }
  if (throttle != 0)
    snprintf(text + used, size - used, "%s0x%" PRIx64, used > 0 ? ", " : "", (uint64_t)throttle);
}

/* ---- runs ---------------------------------------------------------------------------------- */

double mmci_batches_within(const mmci_batch *batches, size_t count, double begin_s, double end_s) {
  double runs = 0;
  for (size_t b = 0; b < count; b++) {
    double length_s = batches[b].end_s - batches[b].begin_s;
    double within_s = fmin(batches[b].end_s, end_s) - fmax(batches[b].begin_s, begin_s);
    if (length_s > 0 && within_s > 0) runs += batches[b].runs * (within_s / length_s);
  }
  return runs;
}
