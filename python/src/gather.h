/* gather.h: arrays of the host that cannot be read as they lie, written out for a call. */
#ifndef MMCP_GATHER_H
#define MMCP_GATHER_H

#include "view.h"

/* Finds the dtype that elements of both become, as NumPy promotes them; false where this is not one
 * that mmcp_gather() makes of both. */
bool mmcp_promote(mmc_dtype a, mmc_dtype b, mmc_dtype *out);

/* Writes out a view of the host in another dtype, or in its own, and in this machine's byte order.
 * The view becomes that of the copy,
 * which it holds: of matrices by rows or by columns, whichever the array's memory is nearer to, one
 * after the other. Where a stack repeats its matrices, the copy does so too. Returns 1; 0 where
 * there is no conversion; -1 with an exception set. */
int mmcp_gather(mmcp_view *view, mmc_dtype dtype);

#endif
