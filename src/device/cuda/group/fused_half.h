/* fused_half.h: two products of f16 or bf16 in one kernel of Hopper's tensor cores, as C sees it.
 *
 * A left fuse, (A B) C, keeps T = A B in registers, up to MMCI_FUSED_HALF_WIDTH columns of it,
 * hands it from one block of a cluster to another (fused_relay.cu), or keeps it in shared memory
 * (fused_wide.cu). A right fuse, A (B C), is the left fuse of the transposed matrices,
 * ((C' B') A')'. T is rounded to the dtype as a product of
 * its own is, sums are in f32, nothing is added by atomics. */
#ifndef MMCI_CUDA_GROUP_FUSED_HALF_H
#define MMCI_CUDA_GROUP_FUSED_HALF_H

#ifdef MMCI_EMULATE_CUDA
#include "cuda_emulation_c.h"
#else
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_FUSED_HALF_WIDTH = 256,  /* the widest intermediate that registers keep, in columns */
  MMCI_FUSED_WIDEST_HALF = 512, /* the widest one that shared memory keeps, of as many terms */
  MMCI_FUSED_WIDE_TERMS = 32,   /* terms of B and C that fused_wide.cu loads at once */
  MMCI_FUSED_HALF_BOX = 64,     /* rows and columns of what is loaded and stored at once */
  MMCI_FUSED_HALF_BOXES = 28    /* boxes that shared memory holds */
};

/* A matrix as the kernel multiplies it, rows x cols; its rows lie ld elements apart, or its columns
 * when by_columns, and the next one of a batch stride elements further. */
typedef struct mmci_fused_half_matrix {
  int64_t rows, cols, ld, stride;
  bool by_columns;
} mmci_fused_half_matrix;

typedef struct mmci_fused_half {
  mmc_dtype dtype;
  bool right;          /* the operands have changed places */
  int64_t m, k, w, n;  /* A m x k, B k x w, C w x n */
  int64_t batch;       /* >= 1 */
  int first, last;     /* the operands of the chain that are A and C */
  int multiprocessors; /* multiprocessors of the device */
  mmci_fused_half_matrix a, b, c, d;
} mmci_fused_half;

/* What the kernel is started with: tensor maps, of boxes of 64 x 64 elements but for B and C of
 * fused_wide.cu, and sizes. */
typedef struct mmci_fused_half_maps {
  CUtensorMap a, b, c, d;
} mmci_fused_half_maps;

/* Says whether the chain is two products of three operands, nothing gathered, and fills out. */
bool mmci_fused_pair_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out);
/* Says whether tensor copies can read and write the matrices of a batch: none is empty, and there
 * are whole 16 bytes from line to line. */
bool mmci_fused_is_mappable(const mmci_fused_half_matrix *x, mmc_dtype dtype, int64_t batch);
/* Says whether the kernel can compute the chain on Hopper: two products of three operands of f16 or
 * bf16, nothing empty or gathered, whole 16 bytes from line to line, and an intermediate that is
 * narrow enough. Fills out. */
bool mmci_fused_half_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out);
/* Returns static text: "fused left bf16 128x128". */
const char *mmci_fused_half_name(const mmci_fused_half *fused);
/* Returns the microseconds that the kernel is predicted to take, by what was measured on an H200.
 */
double mmci_fused_half_us(const mmci_fused_half *fused);
/* Tells the most that the kernel takes by two plain calls of cuBLAS, by what was measured on an
 * H200; returns false where it is not surely faster. */
bool mmci_fused_half_share(const mmci_fused_half *fused, mmci_group_share *out);

/* Lets the kernel have, on the current device, the shared memory that it needs. */
mmc_status mmci_fused_half_prepare(const mmci_fused_half *fused, mmci_error *error);
/* Enqueues the kernel; operands are those of the chain. Fails with MMC_E_UNSUPPORTED where an
 * address is not a multiple of 16 bytes. */
mmc_status mmci_fused_half_enqueue(cudaStream_t stream, const mmci_fused_half *fused,
                                   const void *const *operands, void *out, mmci_error *error);

/* What the kernels in fused_half.cu share with the host. */
typedef struct mmci_fused_half_job {
  int m, n, w;            /* elements */
  int k_blocks, w_blocks; /* blocks of 64 */
  int chunks;             /* pieces of the columns of C */
  int rounds, blocks; /* rounds of rows of one matrix of the batch, and clusters that share them */
  int stages, kept;   /* pieces of B and C in all, and those that stay in shared memory */
  int slots, a_stages, outs; /* places for such pieces, for blocks of A, and results of a group */
  bool a_by_columns, b_by_columns, c_by_columns, d_by_columns;
  bool is_repeated[4]; /* A, B, C and D: one matrix for the whole batch */
  /* Tensor copies would write whole 16 bytes past the end of D's lines where d_ragged; the last
   * ones are written element by element. */
  bool d_ragged;
  int d_length, d_lines; /* elements of a line, and lines */
  int64_t d_ld, d_stride;
  void *d;
} mmci_fused_half_job;

/* Whose multiprocessor has what: one has all of a block's rows; one of a cluster has T and the
 * other one D; or each of a cluster has rows of its own and half of what is loaded of B and C. */
typedef enum mmci_fused_way {
  MMCI_FUSED_BY_ONE,
  MMCI_FUSED_BY_RELAY,
  MMCI_FUSED_BY_WIDE
} mmci_fused_way;

/* Kernels by width of T, columns of C that are worked on at once, and dtype; a slot holds a piece
 * of B or C, and so many groups of a cluster of blocks work on 64 rows each. A multiprocessor does
 * so many flops in a microsecond. */
typedef struct mmci_fused_half_kernel {
  int width, chunk, groups, slot_bytes, cluster;
  mmci_fused_way way;
  double flops;
  const char *left[2], *right[2];
  const void *function[2]; /* f16, bf16; not of fused_wide.cu */
} mmci_fused_half_kernel;
enum { MMCI_FUSED_HALF_KERNELS = 5 };
extern const mmci_fused_half_kernel mmci_fused_half_kernels[MMCI_FUSED_HALF_KERNELS];
/* The kernel of fused_relay.cu, which takes the same job, for as many terms, columns of T and of C
 * as it is wide. */
extern const mmci_fused_half_kernel mmci_fused_relay;
/* The kernel of fused_wide.cu, which takes the same job, for as many terms and columns of T as it
 * is wide, and more columns than registers keep. It has a function for each dtype and layout: of
 * the layout's bits 1 says that A is by columns, 2 that B is and 4 that C is. */
enum { MMCI_FUSED_WIDE_LAYOUTS = 8 };
extern const void *const mmci_fused_wide_functions[2][MMCI_FUSED_WIDE_LAYOUTS];
extern const mmci_fused_half_kernel mmci_fused_wide;

#ifdef __cplusplus
}
#endif

#endif
