#include "device/cuda/product/pieces.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/product/piece_loops.h"

enum { AMPERE = 8, TILE = 128 };
/* Kernels of cuBLASLt have tiles of so many rows and columns. Where there are fewer of them than
 * this, most multiprocessors wait for a few: loops have smaller ones. */
static const int64_t TILES_MIN = 16;

/* Pieces of one real product are cuBLASLt's, a round of them at a time, where it has an algorithm
 * that adds up in order: those of rounds, those of the last one, which are fewer, and the last
 * piece where it has fewer terms. */
struct mmci_long_product {
  mmci_gemm gemm;
  mmci_piece_rounds rounds;
  mmci_in_order *full, *rest, *last;
  int64_t rest_count; /* pieces of rest */
  bool has_tensors;
};

static bool pays(const mmci_gemm *gemm) {
  const int64_t tiles = mmci_quotient_up(gemm->m, TILE) * mmci_quotient_up(gemm->n, TILE);
  return gemm->batch <= 1 && !mmci_cuda_takes_dots(gemm) &&
         tiles * (gemm->k / MMCI_PIECE_TERMS) >= TILES_MIN;
}

/* Prepares so many pieces of so many terms; leaves *out NULL where loops compute them. */
static mmc_status prepare_pieces(mmci_device *device, const mmci_gemm *gemm, int64_t terms,
                                 int64_t count, mmci_in_order **out, mmci_error *error) {
  const bool is_half = mmci_cuda_element_bytes(gemm->dtype) == 2;
  const mmci_gemm batch = mmci_pieces_as_batch(gemm, terms, count);
  if (count == 0 || terms == 0 || !pays(gemm) || !mmci_in_order_pays(&batch) ||
      (is_half && device->properties.major < AMPERE))
    return MMC_OK;
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
  mmc_status status = prepare_pieces(device, gemm, MMCI_PIECE_TERMS, full >= at_once ? at_once : 0,
                                     &x->full, error);
  if (status == MMC_OK)
    status = prepare_pieces(device, gemm, MMCI_PIECE_TERMS, x->rest_count, &x->rest, error);
  if (status == MMC_OK)
    status = prepare_pieces(device, gemm, gemm->k % MMCI_PIECE_TERMS, 1, &x->last, error);
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
  mmci_in_order_release(x->last);
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
  const char *last_a = mmci_piece_of_a(gemm, last.first, a),
             *last_b = mmci_piece_of_b(gemm, last.first, b);
  char *last_part = (char *)parts + (size_t)(count * gemm->m * gemm->n) * each;
  if (x->last != NULL && mmci_in_order_takes(last_a, last_b, last_part))
    return mmci_in_order_enqueue(stream, x->last, last_a, last_b, last_part, error);
  return mmci_loops_compute_parts(&x->has_tensors, stream, gemm, &last, a, b, last_part, error);
}

mmc_status mmci_long_product_enqueue(const mmci_long_product *x, cudaStream_t stream,
                                     const mmci_piece_room *room, const void *a, const void *b,
                                     void *c, mmci_error *error) {
  const mmci_piece_way way = {compute_parts, x};
  return mmci_piece_rounds_enqueue(stream, &x->gemm, &way, room, a, b, c, error);
}
