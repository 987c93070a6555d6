#include "run/at_once.h"

#include "base/alloc.h"
#include "run/matrices.h"

/* The most products, and the bytes of all intermediates: on the stack, and of memory that is taken
 * for them. */
enum { MOST = 16, ROOM_BYTES = 64 << 10, MOST_BYTES = 8 << 20 };

/* How an operand lies, and its sizes as the product reads it. */
typedef struct value {
  mmci_form form;
  int64_t rows, cols;
} value;

static value factor_of(const mmc_chain *chain, int32_t i, const mmc_matrix *matrix) {
  const int64_t stride = chain->batch > 1 ? matrix->stride : 0;
  value x = {mmci_factor_form(chain, i, matrix, mmci_matrix_ld(matrix), stride), chain->dims[i],
             chain->dims[i + 1]};
  x.form.gathered = matrix->addresses != NULL;
  return x;
}

/* A product, and where its result goes among the intermediates. */
typedef struct product {
  mmci_gemm gemm;
  size_t offset;
  const mmci_recipe *recipe; /* of several calls, or NULL */
} product;

/* Says whether the device takes every call of the product. */
static bool takes(const mmci_device_ops *ops, const mmci_device *device, const product *x,
                  bool beside) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  if (x->recipe == NULL) return ops->takes_at_once(device, &x->gemm, beside);
  const int count = mmci_recipe_pieces(x->recipe, &x->gemm, pieces);
  for (int p = 0; p < count; p++)
    if (!ops->takes_at_once(device, &pieces[p].gemm, beside)) return false;
  return true;
}

static void compute(const mmci_device_ops *ops, mmci_device *device, const product *x,
                    const char *a, const char *b, char *c) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  if (x->recipe == NULL) {
    ops->at_once(device, &x->gemm, a, b, c);
    return;
  }
  const int64_t size = (int64_t)mmc_dtype_size(x->gemm.dtype);
  const int count = mmci_recipe_pieces(x->recipe, &x->gemm, pieces);
  for (int p = 0; p < count; p++)
    ops->at_once(device, &pieces[p].gemm, a + pieces[p].a * size, b + pieces[p].b * size,
                 c + pieces[p].c * size);
}

/* Writes the products and the bytes of all intermediates; returns false where some are not computed
 * so. */
static bool lay_out(const mmci_device_ops *ops, const mmci_device *device, const mmc_chain *chain,
                    const mmci_product *pairs, const mmci_recipe *recipes,
                    const mmc_matrix *factors, const mmc_matrix *out, product *products,
                    size_t *bytes) {
  const int32_t n = chain->n, count = n - 1;
  int32_t of_factors = 0; /* products of two factors; more than one do not wait for each other */
  for (int32_t t = 0; t < count; t++) of_factors += pairs[t].left < n && pairs[t].right < n;
  value results[MOST];
  const bool in_batch = chain->batch > 1;
  *bytes = 0;
  for (int32_t t = 0; t < count; t++) {
    const mmci_product p = pairs[t];
    const value a = p.left < n ? factor_of(chain, p.left, &factors[p.left]) : results[p.left - n],
                b = p.right < n ? factor_of(chain, p.right, &factors[p.right])
                                : results[p.right - n];
    const bool is_last = t == count - 1;
    const int64_t tight = b.cols > 0 ? b.cols : 1;
    products[t] = (product){.gemm = {.dtype = chain->dtype,
                                     .m = a.rows,
                                     .k = a.cols,
                                     .n = b.cols,
                                     .a = a.form,
                                     .b = b.form,
                                     .ldc = is_last ? mmci_matrix_ld(out) : tight,
                                     .c_stride = !in_batch ? 0
                                                 : is_last ? out->stride
                                                           : a.rows * b.cols,
                                     .batch = chain->batch},
                            .offset = *bytes};
    if (recipes[t].count > 1) {
      if (a.form.gathered || b.form.gathered) return false;
      products[t].recipe = &recipes[t];
    } else {
      products[t].gemm.variant = recipes[t].nodes[0].variant;
    }
    if (!takes(ops, device, &products[t], of_factors > 1)) return false;
    results[t] = (value){{.ld = tight, .stride = products[t].gemm.c_stride}, a.rows, b.cols};
    if (!is_last)
      *bytes += mmci_aligned_size((size_t)(chain->batch * a.rows * b.cols) *
                                  mmc_dtype_size(chain->dtype));
    if (*bytes > MOST_BYTES) return false;
  }
  return true;
}

static const void *operand(const product *products, const mmc_matrix *factors, int32_t n,
                           int32_t number, const char *room) {
  if (number >= n) return room + products[number - n].offset;
  const mmc_matrix *factor = &factors[number];
  return factor->addresses != NULL ? (const void *)factor->addresses : factor->data;
}

static void multiply(const mmci_device_ops *ops, mmci_device *device, int32_t n,
                     const product *products, const mmci_product *pairs, const mmc_matrix *factors,
                     const mmc_matrix *out, char *room) {
  for (int32_t t = 0; t < n - 1; t++)
    compute(ops, device, &products[t], operand(products, factors, n, pairs[t].left, room),
            operand(products, factors, n, pairs[t].right, room),
            t == n - 2 ? out->data : room + products[t].offset);
}

mmc_status mmci_multiply_at_once(const mmci_device_ops *ops, mmci_device *device,
                                 const mmc_chain *chain, const mmci_product *products,
                                 const mmci_recipe *recipes, const mmc_matrix *factors,
                                 const mmc_matrix *out, bool *done, mmci_error *error) {
  *done = false;
  product laid_out[MOST];
  size_t bytes;
  if (ops->at_once == NULL || chain->n < 2 || chain->n - 1 > MOST || chain->batch < 1)
    return MMC_OK;
  mmc_status status = mmci_matrices_check(chain, factors, out, error);
  if (status != MMC_OK) return status;
  if (out->layout != MMC_ROW_MAJOR || out->addresses != NULL ||
      !lay_out(ops, device, chain, products, recipes, factors, out, laid_out, &bytes))
    return MMC_OK;
  _Alignas(MMCI_ALIGNMENT) char room[ROOM_BYTES];
  char *memory = bytes > sizeof room ? mmci_alloc_aligned(bytes, 1) : room;
  if (memory == NULL) return mmci_fail_nomem(error, bytes);
  multiply(ops, device, chain->n, laid_out, products, factors, out, memory);
  if (memory != room) free(memory);
  *done = true;
  return MMC_OK;
}
