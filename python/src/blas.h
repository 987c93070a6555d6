/* blas.h: which OpenBLAS the library inside the module calls.
 *
 * OpenBLAS's threads wait for the next product for tens of milliseconds without sleeping. NumPy's
 * wheels bring an OpenBLAS of their own, so where products by NumPy and by mmchain take turns, each
 * would find the other's threads on its cores. So the module calls NumPy's where there is one: one
 * pool for both. What Debian's NumPy calls is one library for both as it is. */
#ifndef MMCP_BLAS_H
#define MMCP_BLAS_H

/* Looks for the OpenBLAS of a wheel of NumPy in the process, unless the environment says
 * MMCHAIN_BLAS=own. Once, after NumPy was imported and before anything is multiplied. */
void mmcp_blas_find(void);

#endif
