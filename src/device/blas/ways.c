#include "device/blas/ways.h"

#include "base/alloc.h"
#include "base/monotonic.h"
#include "device/blas/crowd.h"

/* Looking takes about a microsecond. */
static const double least_job_s = 5e-5;

/* In a crowd one goes at most so long, in seconds, before looking again. */
static const double stretch_s = 5e-3;

/* The mean of a way moves by the first share towards what was measured, by the second after another
 * way was gone, and by no more than as if it had taken twice as long. The mean of a way that is not
 * gone fades at each stretch of another, and is at most twice the least one: so it is tried again
 * after some 180 stretches at most. */
static const double share = 0.3, share_anew = 0.7, fading = 1.0 / 256, most_times = 2;

/* Threads of a CBLAS that would fall asleep are kept awake by calls of it. When nobody else seems
 * to call it for half as long as our calls take, it is left alone after so many seconds of calls
 * for as long as OpenBLAS's threads look for work: then helpers have the processors. */
static const double calls_s = 0.05, rest_s = 0.12;

/* A crowd that was seen is taken to be there for so many seconds more. */
static const double lasts_s = 0.01;

bool mmci_ways_pay(double serial_s) {
  return serial_s >= least_job_s;
}

mmc_status mmci_ways_create(bool has_library, mmci_ways **out, mmci_error *error) {
  mmci_ways *ways = mmci_alloc_zeroed(1, sizeof *ways);
  if (ways == NULL) return mmci_fail_nomem(error, sizeof *ways);
  ways->has_library = has_library;
  *out = ways;
  return MMC_OK;
}

mmci_way mmci_ways_choose(const mmci_ways *ways, bool is_crowd, double now_s) {
  static const mmci_way in_turn[] = {MMCI_ALONE, MMCI_LIBRARY, MMCI_SHARED};
  mmci_way best = MMCI_ALONE;
  if (!is_crowd) return MMCI_SHARED;
  for (int i = 0; i < MMCI_WAY_COUNT; i++) {
    const mmci_way way = in_turn[i];
    if (way == MMCI_LIBRARY && (!ways->has_library || now_s < ways->rest_until_s)) continue;
    if (ways->seconds[way] == 0) return way;
    if (ways->seconds[way] < ways->seconds[best]) best = way;
  }
  return best;
}

static void note_calls(mmci_ways *ways, double begin_s, double end_s) {
  if (begin_s - ways->library_end_s > (end_s - begin_s) / 2) ways->library_begin_s = begin_s;
  ways->library_end_s = end_s;
  if (end_s - ways->library_begin_s > calls_s) ways->rest_until_s = end_s + rest_s;
}

void mmci_ways_note(mmci_ways *ways, mmci_way way, int64_t pieces, double begin_s, double end_s) {
  const double known_s = ways->seconds[way], weight = way == ways->last ? share : share_anew;
  double measured_s = (end_s - begin_s) / (double)pieces, least_s = 0;
  for (int w = 0; w < MMCI_WAY_COUNT; w++) {
    if (w == (int)way || ways->seconds[w] == 0) continue;
    ways->seconds[w] *= 1 - fading;
    if (least_s == 0 || ways->seconds[w] < least_s) least_s = ways->seconds[w];
  }
  if (known_s > 0 && measured_s > most_times * known_s) measured_s = most_times * known_s;
  double mean_s = known_s == 0 ? measured_s : known_s + weight * (measured_s - known_s);
  if (least_s > 0 && mean_s > most_times * least_s) mean_s = most_times * least_s;
  ways->last = way;
  ways->seconds[way] = mean_s;
  if (way == MMCI_LIBRARY) note_calls(ways, begin_s, end_s);
}

/* Returns how many of the pieces left are computed before the next look. */
static int64_t stretch_of(const mmci_ways *ways, mmci_way way, int64_t left) {
  if (way == MMCI_SHARED) return left;
  const double pieces = ways->seconds[way] > 0 ? stretch_s / ways->seconds[way] : 1;
  return pieces < 1 ? 1 : pieces < (double)left ? (int64_t)pieces : left;
}

static bool has_crowd(mmci_ways *ways, int threads) {
  if (ways->crowd_until_s > 0 && mmci_now_s() < ways->crowd_until_s) return true;
  const bool is_there = mmci_crowd_is_there(threads);
  ways->crowd_until_s = is_there ? mmci_now_s() + lasts_s : 0;
  return is_there;
}

void mmci_ways_compute(mmci_ways *ways, const mmci_ways_job *job) {
  if (ways == NULL) {
    job->compute(job->user, MMCI_SHARED, 0, job->pieces);
    return;
  }
  for (int64_t done = 0; done < job->pieces;) {
    const bool is_crowd = has_crowd(ways, job->threads);
    const double begin_s = is_crowd ? mmci_now_s() : 0;
    const mmci_way way = mmci_ways_choose(ways, is_crowd, begin_s);
    const int64_t count = stretch_of(ways, way, job->pieces - done);
    job->compute(job->user, way, done, done + count);
    if (is_crowd) mmci_ways_note(ways, way, count, begin_s, mmci_now_s());
    done += count;
  }
}
