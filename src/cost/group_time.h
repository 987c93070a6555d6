/* group_time.h: the time of several products as one call of a device.
 *
 *     seconds = launch + max(bytes / bandwidth, batch work / width, schedule)
 *
 * bytes is one passage over what comes from outside and over the result. A product is done by one
 * of width workers (blocks of a GPU, threads of a processor), at its share of the peak, or by
 * several when it has as many tiles; its work is that time plus a fixed time for each product. The
 * schedule is a list schedule (Graham 1969) of one chain: products are taken in their order, each
 * by the worker that has the operand which was ready last; an operand that another worker made
 * arrives later, by the time of a hand-over. One worker may do it all. */
#ifndef MMCI_GROUP_TIME_H
#define MMCI_GROUP_TIME_H

#include "cost/roofline.h"

/* An operand is the result of product left (or right) >= 0 of the same call, or comes from
 * outside. */
typedef struct mmci_group_part {
  int64_t m, k, n;
  int32_t left, right;
} mmci_group_part;

typedef struct mmci_group_facts {
  double launch_s, bytes_per_s, flops_per_s; /* rates of the whole device, in small tiles */
  mmci_caches caches;
  double share_s; /* seconds of a worker's from which another takes a part of the batch */
  double product_s, handover_s;
  int32_t width, tile;   /* workers; the rows and columns that keep one busy */
  double error;          /* the relative error that seconds are thought to have at most */
  bool keeps_common;     /* as in mmci_facts */
  int64_t modelled_side; /* sizes for which one call gains, see mmci_facts */
  mmci_pair_gain pairs[MMCI_PAIR_GAINS];
} mmci_group_facts;

/* Returns the facts of calls of a device that tells these facts and whose products keep to this
 * roofline, which gives launch, bandwidth and peak. */
mmci_group_facts mmci_group_facts_of(const mmci_facts *facts, const mmci_roofline *roofline);

/* Says whether the model holds for count products as one call, or they are a pair that was measured
 * to gain by being one. */
bool mmci_group_gains(const mmci_group_facts *facts, int64_t batch, const mmci_group_part *parts,
                      int32_t count);

/* Returns the seconds of count >= 1 products for a batch of chains. Each product comes after those
 * that it reads, and the last one is the result. scratch has mmci_group_scratch_bytes() bytes. */
double mmci_group_seconds(const mmci_group_facts *facts, mmc_dtype dtype, int64_t batch,
                          const mmci_group_part *parts, int32_t count, void *scratch);
size_t mmci_group_scratch_bytes(const mmci_group_facts *facts, int32_t count);

#endif
