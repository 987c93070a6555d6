/* reference.h: checks products over a semiring, and running products of integers, against those
 * that the device "ref" computes from left to right by plain loops. No vector finds a wrong element
 * of such a product: of a greatest sum it sees one term. */
#ifndef MMC_CLI_REFERENCE_H
#define MMC_CLI_REFERENCE_H

#include "residual.h"

/* Compares the product of a chain. value is the greatest difference of two elements, relative to
 * the sum of the factors' greatest elements: rounding in sums is relative to that. Integers agree,
 * or the value is infinite; they are not meaningful where sums may have left their range, as their
 * order matters then. Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_reference_chain(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                        cli_residual *out);

/* Does the same with all running products, of one problem. */
int cli_reference_scan(cli_call *call, mmc_dtype dtype, int64_t n, int64_t length,
                       const mmc_scan_options *options, const mmc_scan_operands *operands,
                       cli_residual *out);

/* Tells what came out. Returns CLI_DONE, or the exit status where results are not to be written. */
int cli_reference_tell(cli_call *call, const cli_residual *residual);

#endif
