/* scan_kernels.h: running products of a stack in one launch, and recurrences, as C sees them.
 *
 * A tile is as many factors as a block of threads keeps in shared memory: of each of its chains a
 * run. Blocks tell each other the products of their tiles, so that factors are read once. */
#ifndef MMCI_CUDA_SCAN_KERNELS_H
#define MMCI_CUDA_SCAN_KERNELS_H

#ifndef MMCI_EMULATE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "chain/scan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrices of a stack in device memory. Element (r, c) of a state is at r * ld + c, or at c * ld +
 * r when turned; of factors too. */
typedef struct mmci_cuda_stack {
  const void *data; /* NULL when there is none */
  int64_t ld, step, stride;
  bool turned;
} mmci_cuda_stack;

/* Matrices of more rows are of the kernel of scan walks. */
enum { MMCI_CUDA_SWEEP_SIDE = 16 };

/* States are multiplied by factors from the right. */
typedef struct mmci_cuda_sweep {
  mmc_dtype dtype;
  int64_t n, length, batch;
  int64_t run;        /* how many factors a chain takes, one after the other */
  int64_t tiles;      /* of each scan */
  int64_t processors; /* multiprocessors of the chip; strands do without */
  mmci_cuda_stack factors, states, initial;
  /* What blocks tell each other: words that are 0 before the first execution and then as the last
   * left them. One execution uses them at a time. Strands have products in work besides. */
  void *work;
  unsigned *flags; /* at a multiple of 16 bytes */
} mmci_cuda_sweep;

/* Says whether there is a kernel for matrices of this size. */
bool mmci_cuda_sweep_can(mmc_dtype dtype, int64_t n);

/* What a block of threads takes: the bytes of shared memory are fixed_bytes + run * run_bytes. */
typedef struct mmci_cuda_sweep_shape {
  int64_t chains, group, run_bytes, fixed_bytes; /* a group is of so many tiles */
  int64_t letters;                               /* that tell a matrix */
  int64_t together;                              /* tiles that are in a multiprocessor at once */
} mmci_cuda_sweep_shape;
mmci_cuda_sweep_shape mmci_cuda_sweep_shape_of(mmc_dtype dtype, int64_t n);
/* Returns the number of flags; there is no work. */
size_t mmci_cuda_sweep_words(const mmci_cuda_sweep *pass);
/* Writes all states. */
mmc_status mmci_cuda_sweep_run(cudaStream_t stream, const mmci_cuda_sweep *pass, mmci_error *error);

/* These do what the sweeps above do by tensor cores of doubles, on a chip of such a compute
 * capability: a tile is so many strands, few or many, of pass->run factors each, which a warp
 * follows. work is of so many bytes, at a multiple of 16, and there are as many flags, 0 before the
 * first execution. */
enum { MMCI_CUDA_FEW_STRANDS = 8, MMCI_CUDA_MANY_STRANDS = 16 };
bool mmci_cuda_strands_can(int major, int minor, mmc_dtype dtype, int64_t n);
void mmci_cuda_strands_room(const mmci_cuda_sweep *pass, size_t *work_bytes, size_t *flags);
mmc_status mmci_cuda_strands_run(cudaStream_t stream, const mmci_cuda_sweep *pass, int strands,
                                 mmci_error *error);

/* A pass over tiles of a long scan: the product of every tile, or every state once the state before
 * each tile is known. What is between is the running products of the tiles, a shorter scan. One
 * tile needs no more than the second. Totals and carries are n x n without gaps, one a tile, all of
 * a scan and then those of the next one. */
typedef struct mmci_cuda_tiles {
  mmc_dtype dtype;
  int64_t n, length, batch;
  int64_t run;   /* how many factors a chain takes, one after the other */
  int64_t tiles; /* of each scan */
  mmci_cuda_stack factors, states, initial;
  const void *carries; /* the state after each tile; NULL where there is one */
  void *totals;
  /* Reducing keeps here, for every chain of every tile, the product of the tile's chains up to it,
   * for finishing; n x n each without gaps. NULL where there is one tile. */
  void *parts;
  /* For long strands, of which a scan has at least two: the first pass writes the states of the
   * first tile and the products of those before the last one, and the second finds the states
   * before the other tiles itself, without carries. */
  bool walks_first;
  bool overlaps; /* the second pass of these may start before the first has ended */
} mmci_cuda_tiles;

/* Says whether there are kernels for matrices of this size. */
bool mmci_cuda_tiles_can(mmc_dtype dtype, int64_t n);
/* Returns how many chains a tile has. */
int64_t mmci_cuda_tiles_chains(mmc_dtype dtype, int64_t n);
/* Writes the product of every tile to totals. */
mmc_status mmci_cuda_tiles_reduce(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                  mmci_error *error);
/* Writes all states. */
mmc_status mmci_cuda_tiles_finish(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                  mmci_error *error);

/* These run the passes above by tensor cores of doubles, where a warp follows a tile of pass->run
 * factors, of 9 to 16 rows; parts are not used. */
bool mmci_cuda_long_strands_can(int major, int minor, mmc_dtype dtype, int64_t n);
/* Says whether lines of factors begin at multiples of 16 bytes, if the first one does: these are
 * moved fast. */
bool mmci_cuda_long_strands_have_pieces(const mmci_cuda_tiles *pass);
/* Says whether there are kernels for just such factors and states, cut so, if the first ones begin
 * at multiples of 16 bytes. */
bool mmci_cuda_long_strands_have_side(const mmci_cuda_tiles *pass);
/* Returns how many tiles a multiprocessor follows at once. */
int64_t mmci_cuda_long_strands_at_once(mmc_dtype dtype);
mmc_status mmci_cuda_long_strands_reduce(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                         mmci_error *error);
mmc_status mmci_cuda_long_strands_finish(cudaStream_t stream, const mmci_cuda_tiles *pass,
                                         mmci_error *error);

/* A pass over tiles of a scan of wider matrices: their products, or their states. The products of
 * tiles are a shorter scan, whose states are what is before the tiles. */
typedef struct mmci_cuda_walk {
  mmc_dtype dtype;
  int64_t n, length, batch;
  int64_t run, tiles;                       /* factors of a tile, tiles of each scan */
  mmci_cuda_stack factors, states, initial; /* states and initial where it finishes */
  /* The state after each tile, n x n without gaps. Without it every tile but the first begins with
   * its first factor. */
  const void *carries;
  /* Where a group is not 0, carries are those within groups of so many tiles, and these, alike, are
   * the state after each group but the last one. */
  int64_t group;
  const void *group_carries;
  void *totals; /* the product of each tile, alike; where it does not finish */
  bool finishes;
  bool splits_rows; /* blocks take eight rows each */
} mmci_cuda_walk;

/* Says whether there is a kernel for matrices of this size. */
bool mmci_cuda_walk_can(mmc_dtype dtype, int64_t n);
mmc_status mmci_cuda_walk_run(cudaStream_t stream, const mmci_cuda_walk *walk, mmci_error *error);

/* These walk matrices of f32 by tensor cores of doubles, where a chip of such a compute capability
 * has them and all lines of factors and states begin at multiples of 16 bytes; sums are in f64. */
bool mmci_cuda_tensor_walk_can(int major, int minor, const mmci_cuda_walk *walk);
/* Says whether it can take groups: where a block takes all rows, 32 or 64, without gaps. */
bool mmci_cuda_tensor_walk_groups(const mmci_cuda_walk *walk);
mmc_status mmci_cuda_tensor_walk_run(cudaStream_t stream, const mmci_cuda_walk *walk,
                                     mmci_error *error);

/* A recurrence: states of width rows are multiplied by factors from the right, and addends added.
 */
typedef struct mmci_cuda_recurrence {
  mmc_dtype dtype;
  int64_t n, width, length, batch;
  mmci_cuda_stack factors, states, initial, addends;
  /* Each scan is followed in pieces of run factors, the last of which may have fewer; one piece
   * needs no work. */
  int64_t pieces, run;
  void *work; /* of so many bytes as mmci_cuda_recurrence_room() says */
} mmci_cuda_recurrence;

/* Says whether there is a kernel for such a recurrence. */
bool mmci_cuda_recurrence_can(mmc_dtype dtype, int64_t n, int64_t width);
size_t mmci_cuda_recurrence_room(const mmci_cuda_recurrence *x);
/* Writes all states, each piece by a block of threads. */
mmc_status mmci_cuda_recurrence_follow(cudaStream_t stream, const mmci_cuda_recurrence *x,
                                       mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
