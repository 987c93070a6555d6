#include "device/cuda/product/piece_loops.h"

#include "device/cuda/element_bytes.h"

enum { ALIGNED = 256 };

static size_t aligned(size_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Returns the bytes of one sum. */
static size_t sum_bytes(const mmci_gemm *gemm) {
  const size_t size = mmci_cuda_element_bytes(gemm->dtype);
  return size == 2 ? sizeof(float) : size;
}

static int64_t batch_of(const mmci_gemm *gemm) {
  return gemm->batch > 1 ? gemm->batch : 1;
}

/* Sums of one product lie before the parts where these are not all there at once. */
mmci_piece_rounds mmci_piece_rounds_of(const mmci_gemm *gemm, size_t bytes) {
  const size_t each = (size_t)(gemm->m * gemm->n) * sum_bytes(gemm);
  const int64_t pieces = (gemm->k + MMCI_PIECE_TERMS - 1) / MMCI_PIECE_TERMS;
  const int64_t most = each > 0 ? (int64_t)(bytes / each) : pieces;
  mmci_piece_rounds x = {.pieces = pieces, .at_once = pieces, .products = 1};
  if (most >= pieces) {
    x.products = most / pieces < batch_of(gemm) ? most / pieces : batch_of(gemm);
    return x;
  }
  const size_t sums = aligned(each);
  x.at_once = sums < bytes ? (int64_t)((bytes - sums) / each) : 0;
  return x;
}

mmci_gemm mmci_pieces_as_batch(const mmci_gemm *gemm, int64_t terms, int64_t pieces) {
  mmci_gemm to = *gemm;
  to.k = terms;
  to.sums = MMCI_SUMS_CHAIN;
  to.batch = pieces * batch_of(gemm);
  to.a.stride = terms * (gemm->a.trans ? gemm->a.ld : 1);
  to.b.stride = terms * (gemm->b.trans ? 1 : gemm->b.ld);
  to.ldc = gemm->n;
  to.c_stride = gemm->m * gemm->n;
  to.accumulate = false;
  return to;
}

const char *mmci_piece_of_a(const mmci_gemm *gemm, int64_t piece, const void *a) {
  const int64_t step = gemm->a.trans ? gemm->a.ld : 1;
  return (const char *)a +
         piece * MMCI_PIECE_TERMS * step * (int64_t)mmci_cuda_element_bytes(gemm->dtype);
}
const char *mmci_piece_of_b(const mmci_gemm *gemm, int64_t piece, const void *b) {
  const int64_t step = gemm->b.trans ? 1 : gemm->b.ld;
  return (const char *)b +
         piece * MMCI_PIECE_TERMS * step * (int64_t)mmci_cuda_element_bytes(gemm->dtype);
}

mmc_status mmci_loops_compute_parts(const void *user, cudaStream_t stream, const mmci_gemm *gemm,
                                    const mmci_piece_range *range, const void *a, const void *b,
                                    void *parts, mmci_error *error) {
  const bool *has_tensors = user;
  if (mmci_cuda_takes_dots(gemm))
    return mmci_cuda_piece_dots(stream, gemm, range, a, b, parts, error);
  if (*has_tensors && mmci_cuda_element_bytes(gemm->dtype) == 2)
    return mmci_cuda_ordered_half_pieces(stream, gemm, range, a, b, parts, error);
  return mmci_cuda_ordered_pieces(stream, gemm, range, a, b, parts, error);
}

/* Returns matrices number i on of an operand, or their table. */
static const void *matrices_from(const mmci_gemm *gemm, const mmci_form *form, const void *data,
                                 int64_t i) {
  if (form->gathered) return (const void *const *)data + i;
  return (const char *)data + i * form->stride * (int64_t)mmci_cuda_element_bytes(gemm->dtype);
}

mmc_status mmci_piece_rounds_enqueue(cudaStream_t stream, const mmci_gemm *gemm,
                                     const mmci_piece_way *way, const mmci_piece_room *room,
                                     const void *a, const void *b, void *c, mmci_error *error) {
  const mmci_piece_rounds rounds = mmci_piece_rounds_of(gemm, room->bytes);
  const bool all_at_once = rounds.at_once == rounds.pieces;
  const size_t each = (size_t)(gemm->m * gemm->n) * sum_bytes(gemm);
  char *sums = room->memory, *parts = sums + (all_at_once ? 0 : aligned(each));
  mmc_status status = MMC_OK;
  if (rounds.at_once == 0) return mmci_fail(error, MMC_E_UNSUPPORTED, "sums in pieces: no room");
  for (int64_t i = 0; i < batch_of(gemm) && status == MMC_OK; i += rounds.products) {
    mmci_gemm some = *gemm;
    some.batch = batch_of(gemm) - i < rounds.products ? batch_of(gemm) - i : rounds.products;
    const void *of_a = matrices_from(gemm, &gemm->a, a, i),
               *of_b = matrices_from(gemm, &gemm->b, b, i);
    char *of_c = (char *)c + i * gemm->c_stride * (int64_t)mmci_cuda_element_bytes(gemm->dtype);
    for (int64_t p = 0; p < rounds.pieces && status == MMC_OK; p += rounds.at_once) {
      const int64_t rest = rounds.pieces - p;
      const mmci_piece_range range = {p, rest < rounds.at_once ? rest : rounds.at_once};
      status = way->compute(way->user, stream, &some, &range, of_a, of_b, parts, error);
      if (status == MMC_OK)
        status = mmci_cuda_add_pieces(stream, &some, &range, parts, sums, of_c, error);
    }
  }
  return status;
}
