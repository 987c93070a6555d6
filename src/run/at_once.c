#include "run/at_once.h"

#include "base/alloc.h"
#include "run/matrices.h"

/* The most products, and the bytes of all intermediates. */
enum { MOST = 16, ROOM_BYTES = 64 << 10 };

/* An operand: where it lies, how, and its sizes as the product reads it. */
typedef struct value {
  const void *data;
  mmci_form form;
  int64_t rows, cols;
} value;

static value factor_of(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix) {
  return (value){matrix->data, mmci_factor_form(chain, i, matrix, mmci_matrix_ld(matrix), 0),
                 chain->dims[i], chain->dims[i + 1]};
}

static size_t aligned(size_t bytes) {
  return (bytes + MMCI_ALIGNMENT - 1) / MMCI_ALIGNMENT * MMCI_ALIGNMENT;
}

/* Computes the products one after the other; returns false where one cannot be computed so. */
static bool multiply(const mmci_device_ops *ops, mmci_device *device, const mmc_chain *chain,
                     const mmci_product *products, const int *variants, const mmc_matrix *factors,
                     const mmc_matrix *out) {
  _Alignas(MMCI_ALIGNMENT) char room[ROOM_BYTES];
  value results[MOST];
  size_t used = 0;
  const int32_t n = chain->n;
  for (int32_t t = 0; t < n - 1; t++) {
    const mmci_product p = products[t];
    const value a = p.left < n ? factor_of(chain, p.left, &factors[p.left]) : results[p.left - n];
    const value b =
        p.right < n ? factor_of(chain, p.right, &factors[p.right]) : results[p.right - n];
    const bool is_last = t == n - 2;
    const int64_t tight = b.cols > 0 ? b.cols : 1;
    const size_t bytes = (size_t)a.rows * (size_t)b.cols * mmc_dtype_size(chain->dtype);
    if (!is_last && bytes > sizeof room - used) return false;
    void *c = is_last ? out->data : room + used;
    const mmci_gemm gemm = {.dtype = chain->dtype,
                            .m = a.rows,
                            .k = a.cols,
                            .n = b.cols,
                            .a = a.form,
                            .b = b.form,
                            .ldc = is_last ? mmci_matrix_ld(out) : tight,
                            .batch = 1,
                            .variant = variants[t]};
    if (!ops->at_once(device, &gemm, a.data, b.data, c)) return false;
    results[t] = (value){c, {.ld = tight}, a.rows, b.cols};
    if (!is_last) used += aligned(bytes);
  }
  return true;
}

mmc_status mmci_multiply_at_once(const mmci_device_ops *ops, mmci_device *device,
                                 const mmc_chain *chain, const mmci_product *products,
                                 const int *variants, const mmc_matrix *factors,
                                 const mmc_matrix *out, bool *done, mmci_error *error) {
  *done = false;
  if (ops->at_once == NULL || chain->n < 2 || chain->n - 1 > MOST || chain->batch != 1)
    return MMC_OK;
  mmc_status status = mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  if (out->layout != MMC_ROW_MAJOR || mmci_matrices_have_addresses(chain->n, factors, out))
    return MMC_OK;
  *done = multiply(ops, device, chain, products, variants, factors, out);
  return MMC_OK;
}
