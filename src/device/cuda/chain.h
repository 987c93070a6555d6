/* chain.h: chains of small factors in one launch: what chain.c and its kernels share.
 *
 * steps    any tree or DAG of up to MMCI_STEPS products: a group of threads takes a chain of the
 *          batch, its operands and intermediates in shared memory (chain_steps.c, chain_steps.cu)
 * alone    one chain of a few factors, f32 or f64 (chain_alone.c, chain_alone.cu)
 * equal    f32 squares of a few sizes from left to right, for large batches (chain_equal.cu)
 * spines   one chain of any length, its products on the whole device (chain_spines.c,
 *          chain_spines.cu) */
#ifndef MMCI_CUDA_CHAIN_H
#define MMCI_CUDA_CHAIN_H

#ifdef MMCI_EMULATE_CUDA
#include "cuda_emulation_c.h"
#else
#include <cuda_runtime_api.h>
#endif

#include <stdalign.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_CHAIN_SIDE = 128, /* no dimension exceeds this */
  MMCI_STEPS = 16,
  MMCI_STEPS_LOADS = 32,
  MMCI_EQUAL_FACTORS = 8,
  MMCI_ALONE_WARPS = 8, /* and operands at most */
  MMCI_ALONE_PRODUCTS = 7
};

/* What the device has for chains. */
typedef struct mmci_chain_limits {
  int multiprocessors;
  size_t shared_bytes; /* that a block may have */
  bool overlap;        /* a launch may begin while the one before it ends */
} mmci_chain_limits;

/* ---- steps ----------------------------------------------------------------------------------- */

/* A part of an operand on its way to the arena, the chain's shared memory. As it is stored, the
 * operand is lines x length; in the arena it has rows of pitch elements and zeros up to multiples
 * of four both ways. */
typedef struct mmci_steps_load {
  const void *data;
  int64_t ld, stride;
  uint32_t magic;          /* for quotients by across */
  uint32_t at, begin, end; /* in elements: its place; which of lines * across, padded */
  uint16_t lines, length, across, pitch;
  uint8_t operand, trans, conj, gathered;
  uint8_t wide; /* 16 bytes at once */
} mmci_steps_load;

/* A product in the arena. Tiles of 1 x 4 or 4 x 4 elements, their sums over k by 2^split lanes. */
typedef struct mmci_steps_product {
  uint32_t magic;    /* for quotients by tiles_across */
  uint32_t a, b, to; /* places */
  uint16_t a_pitch, b_pitch, to_pitch, m, n, k4, tiles_across, work; /* k4: k / 4, padded */
  uint8_t tall, split;
  uint8_t loads; /* so many are given by now: the next product's too, or, when late, its own */
  uint8_t pad;
} mmci_steps_product;

typedef struct mmci_steps {
  int64_t batch, ldc, c_stride;
  void *c;
  bool c_gathered, late; /* late: operands come when they are needed, not a product before */
  uint8_t count, loads_first, loads; /* products; loads before the first; all loads */
  uint8_t groups;                    /* chains of a block at a time */
  uint16_t threads;                  /* of a group, a multiple of 32 */
  uint32_t arena_bytes;              /* of a group */
  mmci_steps_product products[MMCI_STEPS];
  mmci_steps_load load[MMCI_STEPS_LOADS];
} mmci_steps;

/* Lays the chain out; false when it does not fit. */
bool mmci_steps_plan(const mmci_chain_limits *limits, const mmci_device_chain *chain,
                     mmci_steps *out);
/* Makes the kernel ready for what steps asks. */
mmc_status mmci_steps_prepare(mmc_dtype dtype, const mmci_steps *steps, mmci_error *error);
mmc_status mmci_steps_launch(cudaStream_t stream, const mmci_chain_limits *limits, mmc_dtype dtype,
                             const mmci_steps *steps, mmci_error *error);

/* ---- alone ----------------------------------------------------------------------------------- */

/* What a warp loads: elements begin to end of an operand, rows of across elements, into rows of
 * pitch in the arena, zeros beyond rows x cols. */
typedef struct mmci_alone_load {
  const void *data;
  int32_t ld;
  uint32_t magic; /* for quotients by across */
  uint16_t at, begin, end;
  uint8_t rows, cols, across, pitch, operand, wide; /* wide: 16 bytes at once */
} mmci_alone_load;

/* A product in the arena, by warps threads / 32 side by side. Tiles of 1 x 4 elements, their sums
 * over k by 2^split lanes. */
typedef struct mmci_alone_product {
  alignas(16) uint32_t magic; /* for quotients by tiles_across */
  uint16_t a, b, to, work, a_pitch, b_pitch, to_pitch, m, n, tiles_across, first, threads;
  uint8_t k4, split;
} mmci_alone_product;

typedef struct mmci_alone {
  void *c;
  int64_t ldc;
  int32_t count, rounds;
  uint32_t arena_bytes;
  mmci_alone_load loads[MMCI_ALONE_WARPS];
  uint8_t turns[MMCI_ALONE_PRODUCTS][MMCI_ALONE_WARPS]; /* the product of a round and warp */
  mmci_alone_product products[MMCI_ALONE_PRODUCTS];
} mmci_alone;

/* Lays the chain out; false when it is none for that way. */
bool mmci_alone_plan(const mmci_chain_limits *limits, const mmci_device_chain *chain,
                     mmci_alone *out);
mmc_status mmci_alone_prepare(mmc_dtype dtype, const mmci_alone *alone, mmci_error *error);
mmc_status mmci_alone_launch(cudaStream_t stream, const mmci_chain_limits *limits, mmc_dtype dtype,
                             const mmci_alone *alone, mmci_error *error);

/* ---- equal ----------------------------------------------------------------------------------- */

/* R = A1 ... An, all side x side and tight; strides in elements. */
typedef struct mmci_equal {
  const float *data[MMCI_EQUAL_FACTORS];
  int64_t stride[MMCI_EQUAL_FACTORS];
  float *c;
  int64_t c_stride, batch;
  int n;
} mmci_equal;

bool mmci_equal_has(int64_t side);
mmc_status mmci_equal_prepare(int64_t side, mmci_error *error);
mmc_status mmci_equal_launch(cudaStream_t stream, const mmci_chain_limits *limits, int64_t side,
                             const mmci_equal *equal, mmci_error *error);

/* ---- spines -----------------------------------------------------------------------------------
 */

/* A spine is a run of products from left to right, x0 x1 ... xn, each of which reads the result of
 * the one before as its left operand and nothing else does; xi is an operand or the result of
 * another spine. Its rows are independent of each other, so a spine may be cut into pieces of rows;
 * a piece waits until the spines that it reads are whole. Any tree is cut into spines. What runs
 * well has few levels: a single spine from left to right; or, of n equal factors, runs that are
 * combined in runs and so on, one for every multiprocessor first, then a quarter as many, and fewer
 * still: 132, 33 and 5 of 1000 on 132. Trees of twos take a quarter as long again and more, their
 * levels being eight or ten. */
typedef struct mmci_spines mmci_spines;

/* Whether the chain is one for that way, and whether it is one chain large enough to gain. */
bool mmci_spines_can(const mmci_device_chain *chain);
bool mmci_spines_suit(const mmci_chain_limits *limits, const mmci_device_chain *chain);

mmc_status mmci_spines_create(const mmci_chain_limits *limits, const mmci_device_chain *chain,
                              mmci_spines **out, mmci_error *error);
void mmci_spines_destroy(mmci_spines *spines);
/* Launches of the same spines follow each other: their intermediates lie in one place. */
mmc_status mmci_spines_launch(cudaStream_t stream, const mmci_chain_limits *limits,
                              const mmci_spines *spines, const void *const *operands, void *c,
                              mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
