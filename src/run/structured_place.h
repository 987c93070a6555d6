/* structured_place.h: where the matrices of a chain with structure are multiplied: in the host's
 * memory, where each call is done when it returns, or in that of a device, where work is enqueued
 * and pivots are read beside it.
 *
 * On a device, factors on the host are brought to a room of its memory, and a result that is wanted
 * on the host goes back once the pivots have been seen. */
#ifndef MMCI_STRUCTURED_PLACE_H
#define MMCI_STRUCTURED_PLACE_H

#include "device/device.h"
#include "plan/plan.h"

/* A step computes so many products at most: it forms two inverses, multiplies, and inverts. */
enum { MMCI_STEP_PRODUCTS = 4 };

/* What is wrong where a pivot is not 0: factors first to last, counted from 0, are not to be
 * inverted. */
typedef struct mmci_structured_blame {
  int32_t first, last;
  bool definite;
} mmci_structured_blame;

/* A product that is prepared on the device. */
typedef struct mmci_structured_kept {
  mmci_structured product;
  mmci_structured_kernel *kernel;
} mmci_structured_kept;

typedef struct mmci_structured_place {
  const mmci_plan *plan;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  bool on_device; /* the rest is for devices with memory of their own */
  int32_t products;
  mmci_structured_kept *kept;    /* products */
  mmci_structured_blame *blames; /* products */
  int32_t *pivots, *told;        /* products, on the device and on the host */
  mmci_queue
      *aside; /* brings pivots to the host while the work goes on; opened when one is asked */
  mmci_event *told_last; /* the last pivot that was asked for is there */
  int32_t asked;         /* pivots that this chain has asked for */
  bool is_asked;         /* the last product asked for one */
  char *room;
  uint64_t room_bytes;
  mmc_matrix *here;     /* n + 1 matrices as they are read, the result last */
  const void **brought; /* n: what the room has of each factor */
  int32_t *same;        /* n: the first factor that is the same matrix */
  bool to_host;         /* the result goes to the host */
} mmci_structured_place;

/* Fills a place; plan, device and queue must outlive it. After a failure it may be destroyed. */
mmc_status mmci_place_create(const mmci_plan *plan, const mmci_device_ops *ops, mmci_device *device,
                             mmci_queue *queue, mmci_structured_place *out, mmci_error *error);
void mmci_place_destroy(mmci_structured_place *place);

/* Bring a chain's matrices to where they are multiplied. begin forgets those of the execution
 * before, and takes room for these; *here becomes the factors, with the result behind them. */
mmc_status mmci_place_begin(mmci_structured_place *place, const mmc_matrix *factors,
                            const mmc_matrix *out, mmci_error *error);
mmc_status mmci_place_bring(mmci_structured_place *place, const mmc_matrix *factors,
                            const mmc_matrix *out, int64_t number, const mmc_matrix **here,
                            mmci_error *error);
/* Sees whether a matrix could not be inverted: *pivot becomes 0, or the first pivot and its blame.
 * Then carries the result to the host, where it is wanted there. */
mmc_status mmci_place_settle(mmci_structured_place *place, const mmc_matrix *out, int64_t number,
                             int64_t *pivot, mmci_structured_blame *blame, mmci_error *error);

/* Copies an operand to where element (r, c) is at r * ld + c, or at c * ld + r when by_columns. */
mmc_status mmci_place_copy(const mmci_structured_place *place, int64_t rows, int64_t cols,
                           const void *from, const mmci_form *form, void *to, int64_t ld,
                           bool by_columns, mmci_error *error);
mmc_status mmci_place_zeros(const mmci_structured_place *place, void *data, int64_t lines,
                            int64_t length, int64_t ld, mmci_error *error);
/* Computes a product, the number-th of the chain. Its pivot is 0 where it is not known yet. */
mmc_status mmci_place_compute(mmci_structured_place *place, int32_t number,
                              const mmci_structured *product, void *z, void *s, int64_t *pivot,
                              mmci_error *error);
/* Says what is wrong where the pivot of the last product is not 0. */
void mmci_place_blame(mmci_structured_place *place, int32_t first, int32_t last, bool definite);

#endif
