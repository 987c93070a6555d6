/* ranges.c: the row of factors: made, appended to, changed, cut. */
#include "ranges/ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "chain/copy.h"
#include "chain/scale.h"
#include "ranges/ranges_device.h"
#include "run/matrices.h"

/* ---- making -------------------------------------------------------------------------------- */

static mmc_status check_problem(const mmci_ranges_problem *x, mmci_error *error) {
  if (mmc_dtype_name(x->dtype) == NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "dtype", "number %d is none", (int)x->dtype);
  if (x->side < 0 || x->side > INT64_C(1) << 31)
    return mmci_fail_argument(error, MMC_E_ARG, "n", "expected 0 to 2^31, got %" PRId64, x->side);
  if (x->batch < 1)
    return mmci_fail_argument(error, MMC_E_ARG, "batch", "expected 1 or more, got %" PRId64,
                              x->batch);
  mmc_status status = mmci_semiring_check(x->dtype, x->semiring, error);
  if (status != MMC_OK || !x->scaled) return status;
  if (x->semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_ARG, "scaled", "expected semiring plus-times with it");
  return mmci_scale_check(x->dtype, error);
}

static mmc_status too_large(const mmci_ranges_problem *x, mmci_error *error) {
  return mmci_fail_argument(error, MMC_E_OVERFLOW, x->batch == 1 ? "n" : "batch",
                            "%" PRId64 " matrices with %" PRId64
                            " rows each exceed the address space",
                            x->batch, x->side);
}

static mmc_status open_ranges(mmci_ranges *ranges, mmci_error *error) {
  const mmci_ranges_problem *x = &ranges->problem;
  const mmci_device_ops *ops = ranges->ops;
  int64_t elements;
  if (__builtin_mul_overflow(x->side * x->side, x->batch, &elements)) return too_large(x, error);
  ranges->element = mmc_dtype_size(x->dtype);
  const uint64_t bytes = mmci_result_bytes(elements, 1, ranges->element);
  if (bytes > SIZE_MAX / 2) return too_large(x, error);
  const uint64_t exponents = x->scaled ? mmci_result_bytes(x->batch, 1, sizeof(int64_t)) : 0;
  if (exponents > SIZE_MAX / 2) return too_large(x, error);
  ranges->value_bytes = (size_t)(bytes + exponents);
  ranges->exponents_at = (size_t)bytes;
  if (ranges->on_device) {
    mmc_status opened = mmci_ranges_device_check(ranges, error);
    if (opened == MMC_OK) opened = ops->queue_open(ranges->device, &ranges->queue, error);
    return opened == MMC_OK ? mmci_ranges_device_open(ranges, error) : opened;
  }
  mmci_gemm gemm =
      mmci_gemm_tight(x->dtype, MMCI_NATIVE, x->side, x->side, x->side, MMC_OP_N, MMC_OP_N);
  mmci_gemm_spread(&gemm, x->batch);
  gemm.rule.semiring = x->semiring;
  if (!ops->supports(ranges->device, &gemm))
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "'%s' has no such product",
                              ops->name);
  mmc_status status = ops->queue_open(ranges->device, &ranges->queue, error);
  if (status == MMC_OK) status = ops->prepare(ranges->device, &gemm, &ranges->one, error);
  return status;
}

mmc_status mmci_ranges_create(const mmci_ranges_problem *problem, const mmci_device_ops *ops,
                              mmci_device *device, mmci_ranges **out, mmci_error *error) {
  mmc_status status = check_problem(problem, error);
  if (status != MMC_OK) return status;
  if (ops->enqueue == NULL)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                              "expected one that multiplies, got '%s'", ops->name);
  mmci_ranges *ranges = mmci_alloc_zeroed(1, sizeof *ranges);
  if (ranges == NULL) return mmci_fail_nomem(error, sizeof *ranges);
  ranges->problem = *problem;
  /* Of matrices without elements, one stands for all. */
  if (problem->side == 0 && !problem->scaled) ranges->problem.batch = 1;
  /* Truth values have no other sums and products. */
  if (problem->semiring == MMC_OR_AND) ranges->problem.semiring = MMC_PLUS_TIMES;
  ranges->ops = ops;
  ranges->device = device;
  ranges->on_device = ops->async != NULL;
  status = open_ranges(ranges, error);
  if (status == MMC_OK)
    *out = ranges;
  else
    mmci_ranges_destroy(ranges);
  return status;
}

void mmci_ranges_destroy(mmci_ranges *ranges) {
  if (ranges == NULL) return;
  mmci_ranges_device_close(ranges);
  mmci_ranges_tree_free(ranges, &ranges->tree);
  for (int i = 0; i < MMCI_RANGES_BATCHES; i++)
    if (ranges->many[i] != NULL) ranges->ops->group_release(ranges->many[i]);
  if (ranges->one != NULL) ranges->ops->release(ranges->one);
  if (ranges->queue != NULL) ranges->ops->queue_close(ranges->queue);
  free(ranges);
}

void mmci_ranges_on_stream(mmci_ranges *ranges, void *stream) {
  ranges->on_stream = true;
  ranges->stream = stream;
}

/* ---- factors ------------------------------------------------------------------------------- */

mmc_status mmci_ranges_check(const mmci_ranges *ranges, const char *name, int64_t i,
                             const mmc_matrix *matrix, mmci_error *error) {
  const int64_t side = ranges->problem.side;
  const mmc_chain like = {.dtype = ranges->problem.dtype, .n = 1, .batch = ranges->problem.batch};
  mmci_error found = {0};
  mmc_status status = i < 0 ? mmci_matrix_check_result(&like, "", matrix, side, side, &found)
                            : mmci_matrix_check(&like, "", matrix, side, side, &found);
  int64_t bytes; /* of a line more than there is, which a copy may come to count */
  if (status == MMC_OK && (__builtin_mul_overflow(side, mmci_matrix_ld(matrix), &bytes) ||
                           __builtin_mul_overflow(bytes, (int64_t)ranges->element, &bytes)))
    status = mmci_fail(&found, MMC_E_ARG, ": ld exceeds the address space");
  if (status == MMC_OK && ranges->on_device && matrix != NULL &&
      (matrix->location != MMC_DEVICE || matrix->addresses != NULL))
    status = mmci_fail(&found, MMC_E_ARG,
                       ": expected a matrix in the device's memory, of a batch with a stride");
  if (status == MMC_OK) return MMC_OK;
  if (status == MMC_E_NOMEM) return mmci_fail(error, status, "%s", found.text);
  if (i >= 0) return mmci_fail_argument(error, status, name, "number %" PRId64 "%s", i, found.text);
  return mmci_fail_argument(error, status, name, "%s", found.text + strlen(": "));
}

static mmc_status check_factors(const mmci_ranges *ranges, int64_t count, const mmc_matrix *factors,
                                mmci_error *error) {
  if (count < 0)
    return mmci_fail_argument(error, MMC_E_ARG, "count", "expected 0 or more, got %" PRId64, count);
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK; i++)
    status = mmci_ranges_check(ranges, "factors", i, factors != NULL ? &factors[i] : NULL, error);
  return status;
}

/* Writes a factor in the host's memory. */
static void write_factor(mmci_ranges *ranges, int64_t position, const mmc_matrix *factor) {
  const mmci_ranges_problem *x = &ranges->problem;
  char *to = mmci_ranges_value(ranges, 0, position);
  const mmci_form form = {.ld = mmci_matrix_ld(factor), .trans = factor->layout == MMC_COL_MAJOR};
  for (int64_t t = 0; t < x->batch; t++) {
    const mmc_matrix from = mmci_matrix_of_batch(factor, x->dtype, t);
    mmci_copy(x->dtype, x->side, x->side, from.data, &form, to, x->side, false);
    to += (size_t)x->side * (size_t)x->side * ranges->element;
  }
  if (!x->scaled) return;
  to = mmci_ranges_value(ranges, 0, position);
  for (int64_t t = 0; t < x->batch; t++) mmci_ranges_exponents(ranges, to)[t] = 0;
  mmci_ranges_scale(ranges, to);
}

mmc_status mmci_ranges_append(mmci_ranges *ranges, int64_t count, const mmc_matrix *factors,
                              mmci_error *error) {
  const int64_t length = ranges->row.end - ranges->row.first;
  mmc_status status = check_factors(ranges, count, factors, error);
  if (status == MMC_OK && count > INT64_MAX - length)
    status = mmci_fail_argument(
        error, MMC_E_OVERFLOW, "count",
        "the row has %" PRId64 " factors, and %" PRId64 " more are too many", length, count);
  if (status != MMC_OK || !ranges->on_device) {
    if (status == MMC_OK) status = mmci_ranges_reserve(ranges, length + count, error);
    for (int64_t i = 0; i < count && status == MMC_OK; i++)
      write_factor(ranges, ranges->row.end++, &factors[i]);
    return status;
  }
  status = mmci_ranges_device_begin(ranges, error);
  if (status != MMC_OK) return status;
  status = mmci_ranges_reserve(ranges, length + count, error);
  if (status == MMC_OK)
    status = mmci_ranges_device_write(ranges, ranges->row.end, count, factors, error);
  if (status == MMC_OK) ranges->row.end += count;
  return mmci_ranges_device_end(ranges, status, error);
}

/* Nodes that hold a product with this factor hold nothing from now on. */
static void forget_products(mmci_ranges *ranges, int64_t position) {
  const mmci_ranges_tree *tree = &ranges->tree;
  for (int l = tree->block; l <= tree->top; l++)
    tree->levels[l].spans[(position >> l) % tree->levels[l].slots] = (mmci_span){-1, -1};
}

mmc_status mmci_ranges_update(mmci_ranges *ranges, int64_t count, const int64_t *indices,
                              const mmc_matrix *factors, mmci_error *error) {
  const int64_t length = ranges->row.end - ranges->row.first;
  mmc_status status = check_factors(ranges, count, factors, error);
  if (status != MMC_OK) return status;
  if (indices == NULL && count > 0)
    return mmci_fail_argument(error, MMC_E_ARG, "indices", "expected numbers, got NULL");
  for (int64_t i = 0; i < count; i++)
    if (indices[i] < 0 || indices[i] >= length)
      return mmci_fail_argument(error, MMC_E_ARG, "indices",
                                "expected numbers from 0 to less than %" PRId64 ", got %" PRId64,
                                length, indices[i]);
  if (ranges->on_device) status = mmci_ranges_device_begin(ranges, error);
  if (status != MMC_OK) return status;
  for (int64_t i = 0; i < count && status == MMC_OK; i++) {
    const int64_t position = ranges->row.first + indices[i];
    forget_products(ranges, position);
    if (ranges->on_device)
      status = mmci_ranges_device_write(ranges, position, 1, &factors[i], error);
    else
      write_factor(ranges, position, &factors[i]);
  }
  return ranges->on_device ? mmci_ranges_device_end(ranges, status, error) : status;
}

mmc_status mmci_ranges_pop_front(mmci_ranges *ranges, int64_t count, mmci_error *error) {
  const int64_t length = ranges->row.end - ranges->row.first;
  if (count < 0 || count > length)
    return mmci_fail_argument(error, MMC_E_ARG, "count", "expected 0 to %" PRId64 ", got %" PRId64,
                              length, count);
  ranges->row.first += count;
  return MMC_OK;
}

void mmci_ranges_describe(const mmci_ranges *ranges, mmc_ranges_info *out) {
  *out = (mmc_ranges_info){.length = ranges->row.end - ranges->row.first,
                           .block = INT64_C(1) << ranges->tree.block,
                           .products = ranges->products,
                           .bytes = ranges->tree.bytes};
}
