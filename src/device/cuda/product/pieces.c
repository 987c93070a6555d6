#include "device/cuda/product/pieces.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/product/piece_loops.h"

enum { AMPERE = 8 };

/* Full pieces of one real product are cuBLASLt's, a round of them at a time, where it has an
 * algorithm that adds up in order: those of rounds, and those of the last one, which are fewer. */
struct mmci_long_product {
  mmci_gemm gemm;
  mmci_piece_rounds rounds;
  mmci_in_order *full, *rest;
  int64_t rest_count; /* pieces of rest */
  bool has_tensors;
};

static bool may_be_in_order(const mmci_gemm *gemm, int64_t count) {
  const mmci_gemm batch = mmci_pieces_as_batch(gemm, MMCI_PIECE_TERMS, count);
  return count > 0 && gemm->batch <= 1 && mmci_in_order_pays(&batch);
}

/* Leaves *out NULL where loops compute the pieces. */
static mmc_status prepare_pieces(mmci_device *device, const mmci_gemm *gemm, int64_t count,
                                 mmci_in_order **out, mmci_error *error) {
  const bool is_half = mmci_cuda_element_bytes(gemm->dtype) == 2;
  if (!may_be_in_order(gemm, count) || (is_half && device->properties.major < AMPERE))
    return MMC_OK;
  const mmci_gemm batch = mmci_pieces_as_batch(gemm, MMCI_PIECE_TERMS, count);
  const mmc_status status = mmci_in_order_prepare(device, &batch, true, out, error);
  return status == MMC_E_NOMEM || status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

mmc_status mmci_long_product_prepare(mmci_device *device, const mmci_gemm *gemm, size_t bytes,
                                     mmci_long_product **out, mmci_error *error) {
  const mmci_piece_rounds rounds = mmci_piece_rounds_of(gemm, bytes);
  if (rounds.at_once == 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "sums in pieces: expected up to %d elements",
                     MMCI_LONG_ELEMENTS);
  mmci_long_product *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  const int64_t full = gemm->k / MMCI_PIECE_TERMS, at_once = rounds.at_once;
  x->gemm = *gemm;
  x->rounds = rounds;
  x->has_tensors = device->properties.major >= AMPERE;
  x->rest_count = full % at_once;
  mmc_status status = prepare_pieces(device, gemm, full >= at_once ? at_once : 0, &x->full, error);
  if (status == MMC_OK) status = prepare_pieces(device, gemm, x->rest_count, &x->rest, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_long_product_release(x);
  return status;
}

void mmci_long_product_release(mmci_long_product *x) {
  if (x == NULL) return;
  mmci_in_order_release(x->full);
  mmci_in_order_release(x->rest);
  free(x);
}

/* Computes pieces of a round by cuBLASLt where it takes them, and by loops. */
static mmc_status compute_parts(const void *user, cudaStream_t stream, const mmci_gemm *gemm,
                                const mmci_piece_range *range, const void *a, const void *b,
                                void *parts, mmci_error *error) {
  const mmci_long_product *x = user;
  const int64_t full = gemm->k / MMCI_PIECE_TERMS - range->first,
                count = full < range->count ? full : range->count;
  const mmci_in_order *by = count == x->rounds.at_once ? x->full
                            : count == x->rest_count   ? x->rest
                                                       : NULL;
  const size_t size = mmci_cuda_element_bytes(gemm->dtype), each = size == 2 ? sizeof(float) : size;
  const char *first_a = mmci_piece_of_a(gemm, range->first, a),
             *first_b = mmci_piece_of_b(gemm, range->first, b);
  if (by == NULL || !mmci_in_order_takes(first_a, first_b, parts))
    return mmci_loops_compute_parts(&x->has_tensors, stream, gemm, range, a, b, parts, error);
  mmc_status status = mmci_in_order_enqueue(stream, by, first_a, first_b, parts, error);
  if (status != MMC_OK || count == range->count) return status;
  const mmci_piece_range last = {range->first + count, range->count - count};
  return mmci_loops_compute_parts(&x->has_tensors, stream, gemm, &last, a, b,
                                  (char *)parts + (size_t)(count * gemm->m * gemm->n) * each,
                                  error);
}

mmc_status mmci_long_product_enqueue(const mmci_long_product *x, cudaStream_t stream,
                                     const mmci_piece_room *room, const void *a, const void *b,
                                     void *c, mmci_error *error) {
  const mmci_piece_way way = {compute_parts, x};
  return mmci_piece_rounds_enqueue(stream, &x->gemm, &way, room, a, b, c, error);
}
