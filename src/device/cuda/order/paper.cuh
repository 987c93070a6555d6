/* paper.cuh: the three kernels of Nishida, Ito and Nakano (2011), as paper.cu sees
 * them. */
#ifndef MMCI_CUDA_ORDER_PAPER_CUH
#define MMCI_CUDA_ORDER_PAPER_CUH

#include <stdint.h>

#include "device/cuda/launch.cuh"

enum mmci_paper_kernel { MMCI_PAPER_THREAD, MMCI_PAPER_BLOCK, MMCI_PAPER_BLOCKS };
enum { MMCI_PAPER_KERNELS = 3 };

/* One kernel with one setting, which is a cell of the paper's Table I. */
struct mmci_paper_config {
  mmci_paper_kernel kernel;
  int threads;      /* threads in a block */
  int blocks;       /* blocks for an entry; 0 when the kernel has no such setting */
  const char *text; /* "blocks 8x64" */
};
enum {
  MMCI_PAPER_CONFIGS = 24,
  MMCI_PAPER_BLOCKS_MAX = 16,
  MMCI_PAPER_THREADS_MAX = 256,
  MMCI_PAPER_TRACE_THREADS_MAX = 1024
};
extern const mmci_paper_config mmci_paper_configs[MMCI_PAPER_CONFIGS];

/* A split k of some entry, and the cost of the entry with it. */
struct mmci_paper_candidate {
  uint64_t q;
  int32_t k;
};

/* Tables m and s in device memory, laid out by diagonals (Figure 6c): the entry of the sub-chain
 * (i, i + l) of l factors is number (l-1) * n + i, so threads that work on neighbouring entries of
 * a diagonal touch neighbouring words. s holds the first vertex k where splitting the sub-chain
 * costs least. */
struct mmci_paper_tables {
  int32_t n;
  uint64_t *m;
  int32_t *s;
  const uint64_t *p;           /* the n+1 dims */
  mmci_paper_candidate *found; /* n * 16 entries: what the blocks of an entry found */
};

/* Each function enqueues its kernels on the default stream and returns what launching gave. */

/* Fills diagonal 1 with cost 0 and no split. */
cudaError_t mmci_paper_start(const mmci_paper_tables *tables);
/* Fills diagonal l, 2 <= l <= n, when those before are done. Doing it again changes nothing. */
cudaError_t mmci_paper_diagonal(const mmci_paper_tables *tables, int32_t l,
                                const mmci_paper_config *config);
/* Walks the tree from (0, n) down and writes the n-1 splits, parents before children, right child
 * before left; of equally cheap ones it takes the one that mmc_order_create() states. n >= 2; stack
 * has room for 2n numbers. */
cudaError_t mmci_paper_trace(const mmci_paper_tables *tables, int32_t *stack, int32_t *splits);

#endif
