/* running.h: running products of a stack on a device, behind mmc_scan.
 *
 * What the caller asks for, in whatever layout, becomes one mmci_scan: prefixes, suffixes and
 * recurrences differ in the side on which a factor stands and in the direction of their steps, and
 * column-major results are the row-major results of the transposed problem. A device computes that
 * by a kernel of its own, or by products: step by step, or in levels of a tree. */
#ifndef MMCI_RUNNING_H
#define MMCI_RUNNING_H

#include "device/device.h"

typedef struct mmci_running_problem {
  mmc_dtype dtype;
  int64_t n, length, batch;
  int64_t columns; /* of a recurrence's states; 0 means products of matrices */
  bool reverse, exclusive, initial, addend;
  mmc_semiring semiring;
  bool scaled;
} mmci_running_problem;

/* By which means; automatic is the cheapest that there is. */
typedef enum mmci_running_way {
  MMCI_RUNNING_AUTO,
  MMCI_RUNNING_STEPS,
  MMCI_RUNNING_LEVELS
} mmci_running_way;

typedef struct mmci_running mmci_running;

/* Prepares for matrices without gaps. The device must outlive it. Levels need square states and no
 * addend. */
mmc_status mmci_running_create(const mmci_running_problem *problem, const mmci_opened *on,
                               mmci_running_way way, mmci_running **out, mmci_error *error);
void mmci_running_destroy(mmci_running *running);

/* Do what mmc_scan_execute(), mmc_scan_enqueue() and mmc_scan_wait() say. */
mmc_status mmci_running_execute(mmci_running *running, const mmc_scan_operands *operands,
                                mmci_error *error);
mmc_status mmci_running_enqueue(mmci_running *running, void *stream,
                                const mmc_scan_operands *operands, mmci_error *error);
mmc_status mmci_running_wait(mmci_running *running, mmci_error *error);

/* Does what mmc_scan_progress() says. */
void mmci_running_progress(mmci_running *running, mmc_progress_fn progress, void *user);

/* Does what mmc_scan_explain() says. */
mmc_status mmci_running_explain(const mmci_running *running, mmc_format format, mmc_write_fn write,
                                void *user, mmci_error *error);

#endif
