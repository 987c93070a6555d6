/* ref_whole.c: products of whole numbers as they are defined, element by element. */
#include "device/ref/ref_whole.h"

#include <math.h>

#include "base/alloc.h"
#include "device/whole/whole.h"

/* Returns the element of C that two lines have together. */
static double multiply(const mmci_whole *x, const double *left, const double *right) {
  const mmci_whole_row a = mmci_whole_judge(x, left), b = mmci_whole_judge(x, right);
  mmci_i128 whole = 0;
  double sum = 0;
  if (a.left || b.left) {
    for (int64_t k = 0; k < x->k; k++) sum = fma(left[k], right[k], sum);
    return sum;
  }
  for (int64_t k = 0; k < x->k; k++)
    whole += (mmci_i128)mmci_whole_number(left[k], &a) * mmci_whole_number(right[k], &b);
  return mmci_whole_result(x, &a, &b, whole);
}

mmc_status mmci_ref_whole(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                          mmci_error *error) {
  if (!mmci_whole_supports(gemm))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "sums of whole numbers: expected k up to %d",
                     MMCI_WHOLE_K);
  mmci_whole *x = mmci_alloc_zeroed(1, sizeof *x);
  double *lines = mmci_alloc_array(4 * (size_t)(gemm->k > 0 ? gemm->k : 1), sizeof *lines);
  if (x == NULL || lines == NULL) {
    free(x);
    free(lines);
    return mmci_fail_nomem(error, sizeof *x + 4 * sizeof *lines * (uint64_t)gemm->k);
  }
  mmci_whole_open(x, gemm);
  double *left = lines, *right = lines + x->k;
  const void *of_a = x->turned ? b : a, *of_b = x->turned ? a : b;
  for (int64_t i = 0; i < x->m; i++) {
    mmci_whole_read(x, 0, of_a, i, 1, left);
    for (int64_t j = 0; j < x->n; j++) {
      mmci_whole_read(x, 1, of_b, j, 1, right);
      mmci_whole_write(x, c, i, j, multiply(x, left, right));
    }
  }
  free(x);
  free(lines);
  return MMC_OK;
}
