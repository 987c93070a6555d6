/* running_parts.h: what a running product is made of. */
#ifndef MMCI_RUNNING_PARTS_H
#define MMCI_RUNNING_PARTS_H

#include "base/interrupt.h"
#include "scan/levels.h"
#include "scan/running.h"
#include "scan/scaled.h"
#include "scan/steps.h"

/* The operands, in the order of mmc_scan_operands. */
enum { MMCI_FACTORS, MMCI_INITIAL, MMCI_ADDEND, MMCI_OUT, MMCI_OPERANDS };

/* One operand: a matrix, of which there are `count` in each scan of the batch. */
typedef struct mmci_operand {
  const char *name;
  mmc_matrix matrix; /* ld is never 0 */
  int64_t step, count;
} mmci_operand;

struct mmci_running {
  mmci_running_problem problem;
  mmci_running_way way;
  mmci_opened on;
  mmci_queue *queue;
  /* What is prepared: `scan`, by one of these four. */
  mmci_scan scan;
  mmci_scan_kernel *kernel;
  mmci_levels *levels;
  mmci_steps *steps;
  mmci_scaled *scaled;
  void
      *identity; /* n x n in the device's memory, of exclusive products without an initial matrix */
  void *staged[MMCI_OPERANDS]; /* memory of the device for operands on the host; else NULL */
  mmci_event *done;            /* the end of what was enqueued; NULL where nothing is enqueued */
  bool pending;
  mmci_interrupt interrupt; /* asks nobody where the device has memory of its own */
};

/* Says whether the problem has this operand. */
bool mmci_running_has(const mmci_running_problem *problem, int operand);

/* Reads and checks the caller's operands. Sets *on_host where they are not in the device's
 * memory. */
mmc_status mmci_operands_read(const mmci_running_problem *problem, const mmc_scan_operands *given,
                              mmci_operand operands[MMCI_OPERANDS], bool *on_host,
                              mmci_error *error);
/* Reads where exponents go; NULL where there are none. */
mmc_status mmci_exponents_read(const mmci_running_problem *problem, const mmc_scan_operands *given,
                               int64_t **out, mmci_error *error);
/* Returns operands without gaps, with no data. */
void mmci_operands_tight(const mmci_running_problem *problem, mmci_operand operands[MMCI_OPERANDS]);

/* Makes the scan of such operands, and where it begins; `first`, unless NULL, becomes the place of
 * the first result of an exclusive one, which the scan leaves alone. */
mmci_scan mmci_running_scan(const mmci_running_problem *problem,
                            const mmci_operand operands[MMCI_OPERANDS], mmci_scan_places *places,
                            void **first);

/* Copies a matrix in the device's memory: rows x cols, to row-major lines ld apart. */
mmc_status mmci_running_copy(const mmci_opened *on, mmci_queue *queue, mmc_dtype dtype,
                             int64_t rows, int64_t cols, const void *from, const mmci_form *form,
                             void *to, int64_t ld, mmci_error *error);

#endif
