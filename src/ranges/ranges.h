/* ranges.h: products of ranges of a row of square factors that change, by a tree of products.
 *
 * Factors are numbered by their position: how many were appended before. Node q of level l stands
 * for the positions q 2^l to (q + 1) 2^l - 1, and holds the product of those of them that are in
 * the row. The nodes of level 0 are the factors; levels below the lowest that is stored, whose
 * nodes are called blocks, are computed anew, from left to right, each time that they are needed.
 *
 * Every level keeps as many nodes as a row of `capacity` factors can touch, in a ring, so that a
 * row that is appended to at one end and cut at the other moves no matrix. A node remembers which
 * positions its matrix is the product of. Those are no longer the ones that it stands for when the
 * row has grown or was cut there, and none when one of its factors has changed: then the node is
 * stale, and so are all above it. Stale nodes are computed when a product needs them, level by
 * level, each level as one batch. */
#ifndef MMCI_RANGES_H
#define MMCI_RANGES_H

#include "device/device.h"

typedef struct mmci_ranges mmci_ranges;

/* The fields are those of mmc_ranges_options; batch is at least 0. */
typedef struct mmci_ranges_problem {
  mmc_dtype dtype;
  int64_t side, batch;
  uint64_t memory_limit_bytes;
  bool scaled;
  mmc_semiring semiring;
} mmci_ranges_problem;

/* These do what the functions of mmchain.h do whose names they have. */
void mmci_ranges_on_stream(mmci_ranges *ranges, void *stream);
mmc_status mmci_ranges_create(const mmci_ranges_problem *problem, const mmci_device_ops *ops,
                              mmci_device *device, mmci_ranges **out, mmci_error *error);
void mmci_ranges_destroy(mmci_ranges *ranges);
mmc_status mmci_ranges_append(mmci_ranges *ranges, int64_t count, const mmc_matrix *factors,
                              mmci_error *error);
mmc_status mmci_ranges_update(mmci_ranges *ranges, int64_t count, const int64_t *indices,
                              const mmc_matrix *factors, mmci_error *error);
mmc_status mmci_ranges_pop_front(mmci_ranges *ranges, int64_t count, mmci_error *error);
mmc_status mmci_ranges_product(mmci_ranges *ranges, int64_t first, int64_t end,
                               const mmc_matrix *out, int64_t *exponents, mmci_error *error);
void mmci_ranges_describe(const mmci_ranges *ranges, mmc_ranges_info *out);

#endif
