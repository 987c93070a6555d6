/* paper_select.h: chooses which diagonals to measure, and which kernel each diagonal gets.
 *
 * It is arithmetic on measured times; nothing here touches a device. A config is one kernel with
 * one setting of threads and blocks; configs are numbered 0..configs-1. */
#ifndef MMCI_CUDA_ORDER_PAPER_SELECT_H
#define MMCI_CUDA_ORDER_PAPER_SELECT_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* At most so many diagonals are sampled, at any n. */
enum { MMCI_PAPER_SAMPLES_MAX = 128 };

/* The times of every config on some diagonals. seconds[s * configs + w] is what config w takes on
 * diagonal l[s]; l ascends. Between two samples a config's time is interpolated, outside them it is
 * that of the nearest. */
typedef struct mmci_paper_times {
  int32_t count;
  int32_t configs;
  const int32_t *l;
  const double *seconds;
} mmci_paper_times;

/* Fills l with the diagonals to sample, ascending in 2..n, and returns how many. They lie dense
 * where the shape of the work changes fast: at both ends, in geometric progression towards the
 * middle. */
int32_t mmci_paper_samples(int32_t n, int32_t l[MMCI_PAPER_SAMPLES_MAX]);

/* Returns the seconds of config w on all diagonals 2..n. */
double mmci_paper_total(const mmci_paper_times *times, int32_t n, int32_t w);

/* Chooses a config for every diagonal 2..n, choice[l], so that the time of all diagonals is least,
 * where every change of config from one diagonal to the next is charged eight times what the
 * diagonal takes, so that noise makes no ranges. Only configs with allowed[w] are taken; at least
 * one is. Returns E_NOMEM. */
mmc_status mmci_paper_choose(const mmci_paper_times *times, int32_t n, const bool *allowed,
                             uint8_t *choice, mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
