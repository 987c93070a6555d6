#include "chain/gemm.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/sizes.h"

/* Says whether a product is so large that sums of whole numbers take less time than others on
 * tensor cores. */
static bool pays_whole(const mmci_gemm *gemm) {
  enum { LEAST_K = 1024, MOST_K = 1 << 15, LEAST_SIDE = 512 };
  static const double LEAST_SINGLE = 6e9, LEAST_DOUBLE = 4.3e10; /* multiplications */
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  const bool is_single = gemm->dtype == MMC_F32 || gemm->dtype == MMC_C64;
  if (!is_single && gemm->dtype != MMC_F64 && gemm->dtype != MMC_C128) return false;
  const int64_t parts = is_complex ? 2 : 1, k = gemm->k <= MOST_K ? gemm->k * parts : MOST_K + 1;
  return gemm->rule.semiring == MMC_PLUS_TIMES && k >= LEAST_K && k <= MOST_K &&
         gemm->m >= LEAST_SIDE && gemm->n >= LEAST_SIDE &&
         mmci_gemm_mkn(gemm) * (double)(parts * parts) >= (is_single ? LEAST_SINGLE : LEAST_DOUBLE);
}

/* Says whether a reproducible product of floating point has few elements and many terms. */
static bool is_long(const mmci_gemm *gemm) {
  return !mmci_dtype_is_integer(gemm->dtype) && gemm->rule.semiring == MMC_PLUS_TIMES &&
         gemm->k >= MMCI_LONG_TERMS && (gemm->n == 0 || gemm->m <= MMCI_LONG_ELEMENTS / gemm->n);
}

mmci_sums mmci_gemm_defined_sums(const mmci_gemm *gemm) {
  if (gemm->precision == MMCI_REPRODUCIBLE_FAITHFUL && pays_whole(gemm)) return MMCI_SUMS_WHOLE;
  return is_long(gemm) ? MMCI_SUMS_PIECES : MMCI_SUMS_CHAIN;
}

bool mmci_gemm_keeps_k(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_F16 || gemm->dtype == MMC_BF16 || gemm->sums != MMCI_SUMS_CHAIN;
}

mmci_gemm mmci_gemm_tight(mmc_dtype dtype, mmci_precision precision, int64_t m, int64_t k,
                          int64_t n, mmc_op op_a, mmc_op op_b) {
  mmci_gemm gemm = {
      .dtype = dtype, .precision = precision, .m = m, .k = k, .n = n, .ldc = n > 0 ? n : 1};
  mmci_form_tighten(&gemm.a, dtype, m, k, op_a);
  mmci_form_tighten(&gemm.b, dtype, k, n, op_b);
  return gemm;
}

/* Returns the leading dimension of an operand with lines of length elements; it keeps its own where
 * nothing of it is to grow. */
static int64_t padded_ld(int64_t multiple, int64_t ld, bool grows, int64_t length) {
  if (!grows && ld % multiple == 0) return ld;
  return length > 0 ? mmci_multiple_up(length, multiple) : multiple;
}

mmci_gemm mmci_gemm_padded(int multiple, const mmci_gemm *gemm) {
  mmci_gemm padded = *gemm;
  const bool a_trans = gemm->a.trans, b_trans = gemm->b.trans;
  padded.n = mmci_multiple_up(gemm->n, multiple);
  if (!a_trans || b_trans) padded.k = mmci_multiple_up(gemm->k, multiple);
  if (a_trans) padded.m = mmci_multiple_up(gemm->m, multiple);
  const bool m = padded.m != gemm->m, k = padded.k != gemm->k, n = padded.n != gemm->n;
  padded.a.ld = padded_ld(multiple, gemm->a.ld, m || k, a_trans ? padded.m : padded.k);
  padded.b.ld = padded_ld(multiple, gemm->b.ld, k || n, b_trans ? padded.k : padded.n);
  padded.ldc = padded_ld(multiple, gemm->ldc, m || n, padded.n);
  return padded;
}

bool mmci_gemm_lies_as(const mmci_gemm *gemm, const mmci_gemm *other) {
  return gemm->m == other->m && gemm->k == other->k && gemm->n == other->n &&
         gemm->a.ld == other->a.ld && gemm->b.ld == other->b.ld && gemm->ldc == other->ldc;
}

uint64_t mmci_padded_bytes(int multiple, mmc_dtype dtype, int64_t rows, int64_t cols) {
  uint64_t bytes, most = UINT64_MAX / 4;
  if (__builtin_mul_overflow((uint64_t)mmci_multiple_up(rows, multiple),
                             (uint64_t)mmci_multiple_up(cols, multiple), &bytes) ||
      __builtin_mul_overflow(bytes, (uint64_t)mmc_dtype_size(dtype), &bytes) ||
      bytes > most - MMCI_ALIGNMENT)
    return most;
  return mmci_aligned_size(bytes);
}

uint64_t mmci_padding_bytes(int multiple, mmc_dtype dtype, int64_t m, int64_t k, int64_t n) {
  const int64_t shapes[][2] = {{m, k}, {k, n}, {m, n}};
  uint64_t all = 0, most = UINT64_MAX / 4;
  for (int i = 0; i < 3; i++) {
    uint64_t bytes = mmci_padded_bytes(multiple, dtype, shapes[i][0], shapes[i][1]);
    all = bytes < most - all ? all + bytes : most;
  }
  return all;
}

int64_t mmci_elements(int64_t rows, int64_t cols) {
  int64_t elements;
  return __builtin_mul_overflow(rows, cols, &elements) ? 0 : elements;
}

void mmci_gemm_spread(mmci_gemm *gemm, int64_t batch) {
  gemm->batch = batch;
  gemm->a.stride = batch > 1 ? mmci_elements(gemm->m, gemm->k) : 0;
  gemm->b.stride = batch > 1 ? mmci_elements(gemm->k, gemm->n) : 0;
  gemm->c_stride = batch > 1 ? mmci_elements(gemm->m, gemm->n) : 0;
}
