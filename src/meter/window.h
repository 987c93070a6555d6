/* window.h: what a counter that moves in ticks says about a stretch of time.
 *
 * A counter of energy is brought up to date now and then: NVML's about every 100 ms, RAPL's every
 * millisecond. A reading is up to a tick old, so a window goes from tick to tick: it opens at the
 * first change of the counter and closes at the first change after at least least_s. The moment of
 * a tick is known to lie between two samples, which bounds the error of the window.
 *
 * The room does arithmetic alone: samples come in as arguments, in order of time, and nothing else
 * is looked at. */
#ifndef MMCI_WINDOW_H
#define MMCI_WINDOW_H

#include "meter/meter.h"

/* A window is cut into slices from tick to tick, at least so many seconds long, whose powers give
 * the spread. */
#define MMCI_SLICE_S 0.25
/* A counter that has not moved for so many seconds does not move at all. */
#define MMCI_STALL_S 3.0

typedef enum mmci_window_phase {
  MMCI_WINDOW_WAITING, /* waits for the first tick */
  MMCI_WINDOW_OPEN,
  MMCI_WINDOW_CLOSED,
  MMCI_WINDOW_FAILED /* the window failed for good, for the reason in error */
} mmci_window_phase;

/* Numbers that are kept to be sorted. */
typedef struct mmci_numbers {
  double *values;
  size_t count, capacity;
} mmci_numbers;

/* It begins as {0} and mmci_window_begin(). All fields but error hold from OPEN on. */
typedef struct mmci_window {
  mmci_window_phase phase;
  mmci_error error;
  double least_s;
  double begin_s, begin_joules;
  double end_s, end_joules; /* the last tick so far */
  double begin_late_s;      /* seconds that the first tick may have been seen late, at most */
  double late_s; /* seconds that the first and the last tick may have been seen late together */
  int64_t ticks; /* intervals between ticks */
  /* The power of slices, in watts. */
  int64_t slices;
  double slice_s, slice_joules; /* the time and the counter at which the slice began */
  double watts_min, watts_max;
  /* The sampled power, integrated by the trapezoidal rule over the time where it is known. */
  double sampled_joules, sampled_s;
  /* Seconds and watts of the last sample; watts are NaN when unknown. */
  double power_s, power_watts;
  mmci_numbers sm_mhz, memory_mhz;
  double celsius_max; /* NaN when unknown */
  int64_t throttle;   /* bits of all reasons for throttling that were seen; -1 when unknown */
  /* The last sample, NaN before the first one, and when the counter last changed. */
  double seen_s, seen_took_s, seen_joules, changed_s;
} mmci_window;

/* Waits for the first tick of a new window. A window that has failed stays so. */
void mmci_window_begin(mmci_window *window, double least_s);
void mmci_window_free(mmci_window *window);

/* Adds a sample, read within took_s around time_s; state may be NULL. A window that is closed or
 * has failed ignores it. */
void mmci_window_add(mmci_window *window, double time_s, double took_s, double joules,
                     const mmci_meter_state *state);
/* Lets the window fail, because the meter did. */
void mmci_window_fail(mmci_window *window, const mmci_error *error);

double mmci_window_seconds(const mmci_window *window);
double mmci_window_joules(const mmci_window *window);
/* Returns the mean power in watts by the counter, between the ticks. */
double mmci_window_watts(const mmci_window *window);
/* Returns the mean sampled power divided by that of the counter, less 1. It is NaN when power was
 * known for less than half of the window. */
double mmci_window_crosscheck(const mmci_window *window);
/* Writes the least and the most power of a slice; NaN when there are fewer than two. */
void mmci_window_spread(const mmci_window *window, double *watts_min, double *watts_max);
/* Writes the least, the median and the largest number; NaN when there are none. It sorts them. */
void mmci_numbers_summary(mmci_numbers *numbers, double *min, double *median, double *max);
/* Writes "power cap, thermal", "none", or "unknown", with a final NUL, cut to size. */
void mmci_throttle_text(int64_t throttle, char *text, size_t size);

/* ---- runs ------------------------------------------------------------------------------------ */

/* So many runs one after the other, of which nothing is known but when the first began and the last
 * ended. */
typedef struct mmci_batch {
  double begin_s, end_s;
  double runs;
} mmci_batch;

/* Returns how many runs fall between two moments, with fractions by time. */
double mmci_batches_within(const mmci_batch *batches, size_t count, double begin_s, double end_s);

#endif
