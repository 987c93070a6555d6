/* facts.c: the facts of a data centre's GPU of 2022, with the number of multiprocessors of this
 * one. */
#include "device/cuda/facts.h"

#include "base/dtype.h"

/* Groups of no larger dimension run in shared memory. */
enum { SIDE = 128 };

/* These are for f32 and c64 that may be multiplied as TF32. */
static const double TF32_FLOPS_PER_S = 4e14, TF32_JOULES_PER_FLOP = 1e-12;

static const double FLOPS_PER_S[] = {[MMC_F32] = 5e13,  [MMC_F64] = 5e13, [MMC_C64] = 5e13,
                                     [MMC_C128] = 5e13, [MMC_F16] = 8e14, [MMC_BF16] = 8e14};
static const double JOULES_PER_FLOP[] = {[MMC_F32] = 8e-12,  [MMC_F64] = 8e-12, [MMC_C64] = 8e-12,
                                         [MMC_C128] = 8e-12, [MMC_F16] = 5e-13, [MMC_BF16] = 5e-13};
/* Operations on integers a second, two a multiplication, and the joules of one. They are those of
 * the loops, which do the products that are not large. */
static const double INTEGERS_PER_S = 1e13, JOULES_PER_INTEGER = 1e-11;

/* Pairs for which group/fused.cu took at most 1 / 1.3 of two calls of cuBLAS in one graph, for all
 * such shapes that were measured on an H100 (docs/benchmarks.md). Fewer rows were not measured, or
 * were not enough. */
static const mmci_pair_gain F32_PAIRS[MMCI_PAIR_GAINS] = {{2048, 16, 16, 16}};
/* The second: pairs of TF32 by group/fused_tf32.cu; which of them gain is left to its model. */
static const mmci_pair_gain TF32_PAIRS[MMCI_PAIR_GAINS] = {{131072, 32, 32, 16},
                                                           {65536, 256, 256, 256}};
static const mmci_pair_gain F64_PAIRS[MMCI_PAIR_GAINS] = {{2048, 16, 32, 32}, {2048, 32, 16, 16}};
/* Pairs of f16 and bf16 by group/fused_half.cu; which of them gain is left to its model. */
static const mmci_pair_gain HALF_PAIRS[MMCI_PAIR_GAINS] = {{16384, 256, 1024, 1024}};
static const mmci_pair_gain NO_PAIRS[MMCI_PAIR_GAINS];

mmci_facts mmci_cuda_facts_of(int multiprocessors, mmc_dtype dtype, mmci_precision precision) {
  const bool integers = mmci_dtype_is_integer(dtype);
  const bool tf32 = precision == MMCI_FAST && (dtype == MMC_F32 || dtype == MMC_C64);
  const bool half = dtype == MMC_F16 || dtype == MMC_BF16;
  const mmci_pair_gain *pairs = dtype == MMC_F64   ? F64_PAIRS
                                : half             ? HALF_PAIRS
                                : dtype != MMC_F32 ? NO_PAIRS
                                : tf32             ? TF32_PAIRS
                                                   : F32_PAIRS;
  return (mmci_facts){.flops_per_s = tf32       ? TF32_FLOPS_PER_S
                                     : integers ? INTEGERS_PER_S
                                                : FLOPS_PER_S[dtype],
                      .bytes_per_s = 2.5e12,
                      .launch_s = 5e-6,
                      .half_mn = 64,
                      .half_k = 64,
                      .overlap = 1,
                      .static_w = 120,
                      .joules_per_flop = tf32       ? TF32_JOULES_PER_FLOP
                                         : integers ? JOULES_PER_INTEGER
                                                    : JOULES_PER_FLOP[dtype],
                      .joules_per_byte = 4e-11,
                      .group_share = 0.6,
                      .product_s = 4e-7,
                      .handover_s = 1.5e-6,
                      .workers = multiprocessors,
                      .tile = 64,
                      .modelled_side = SIDE,
                      .pairs = {pairs[0], pairs[1]}};
}
