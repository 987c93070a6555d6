/* paper_select.c: Table II of Nishida, Ito and Nakano (2011) as a shortest path.
 *
 * The paper gives each range of diagonals the kernel that was fastest there. Taken diagonal by
 * diagonal, noise would chop the ranges up wherever two kernels are about as fast. So the choice is
 * the cheapest path through the diagonals, one config at each, with a charge for changing the
 * config. */
#include "device/cuda/order/paper_select.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* A change of config costs so many times the diagonal where it happens. */
static const double CHANGE = 8.0;

int32_t mmci_paper_samples(int32_t n, int32_t l[MMCI_PAPER_SAMPLES_MAX]) {
  if (n < 2) return 0;
  /* These are distances from the nearer end, up to the middle: 0, 1, 2, 3, 4, 6, 9, 13, 19 ... */
  int32_t distances[MMCI_PAPER_SAMPLES_MAX / 2], count = 0;
  int32_t middle = (n - 2) / 2;
  for (int32_t d = 0; d <= middle && count<MMCI_PAPER_SAMPLES_MAX / 2; d += d> 2 ? d / 2 : 1)
    distances[count++] = d;
  int32_t used = 0;
  for (int32_t s = 0; s < count; s++) l[used++] = 2 + distances[s];
  for (int32_t s = count; s-- > 0;)
    if (n - distances[s] > l[used - 1]) l[used++] = n - distances[s];
  return used;
}

/* Walks the diagonals in ascending order and tells each config's time there. */
typedef struct cursor {
  const mmci_paper_times *times;
  int32_t next; /* the first sample at or after the diagonal */
} cursor;

static void advance_cursor(cursor *at, int32_t l) {
  while (at->next < at->times->count && at->times->l[at->next] < l) at->next++;
}

static double time_of(const cursor *at, int32_t l, int32_t w) {
  const mmci_paper_times *times = at->times;
  int32_t after = at->next < times->count ? at->next : times->count - 1;
  int32_t before = times->l[after] > l && after > 0 ? after - 1 : after;
  double low = times->seconds[(size_t)before * times->configs + w];
  double high = times->seconds[(size_t)after * times->configs + w];
  if (before == after) return low;
  double share = (double)(l - times->l[before]) / (double)(times->l[after] - times->l[before]);
  return low + (high - low) * share;
}

double mmci_paper_total(const mmci_paper_times *times, int32_t n, int32_t w) {
  if (times->count == 0) return 0;
  cursor at = {times, 0};
  double total = 0;
  for (int32_t l = 2; l <= n; l++) {
    advance_cursor(&at, l);
    total += time_of(&at, l, w);
  }
  return total;
}

mmc_status mmci_paper_choose(const mmci_paper_times *times, int32_t n, const bool *allowed,
                             uint8_t *choice, mmci_error *error) {
  int32_t configs = times->configs;
  if (times->count == 0) {
    int32_t first = 0;
    while (!allowed[first]) first++;
    memset(choice, first, (size_t)n + 1);
    return MMC_OK;
  }
  /* from[l * configs + w] is the config of diagonal l - 1 on the cheapest path to config w at l. */
  size_t rows = (size_t)n + 1;
  uint8_t *from = mmci_alloc_array(rows * (size_t)configs, 1);
  double *cost = mmci_alloc_zeroed((size_t)configs, sizeof *cost);
  mmc_status status = MMC_OK;
  if (from == NULL || cost == NULL) {
    status = mmci_fail_nomem(error, rows * (uint64_t)configs + (uint64_t)configs * sizeof *cost);
  } else {
    cursor at = {times, 0};
    for (int32_t l = 2; l <= n; l++) {
      advance_cursor(&at, l);
      int32_t cheapest = -1;
      double least = INFINITY;
      for (int32_t w = 0; w < configs; w++) {
        if (!allowed[w]) continue;
        double seconds = time_of(&at, l, w);
        if (seconds < least) least = seconds;
        if (cheapest < 0 || cost[w] < cost[cheapest]) cheapest = w;
      }
      double changed = cost[cheapest] + (l > 2 ? CHANGE * least : 0);
      for (int32_t w = 0; w < configs; w++) {
        if (!allowed[w]) continue;
        bool change = changed < cost[w];
        from[(size_t)l * configs + w] = (uint8_t)(change ? cheapest : w);
        cost[w] = (change ? changed : cost[w]) + time_of(&at, l, w);
      }
    }
    int32_t best = -1;
    for (int32_t w = 0; w < configs; w++)
      if (allowed[w] && (best < 0 || cost[w] < cost[best])) best = w;
    for (int32_t l = n; l >= 2; l--) {
      choice[l] = (uint8_t)best;
      best = from[(size_t)l * configs + best];
    }
  }
  free(from);
  free(cost);
  return status;
}
