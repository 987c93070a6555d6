/* interval_dp.h: what the files of the interval dynamic program share.
 *
 * The table holds the least cost c[a][b] of the sub-chain between the vertices a < b:
 *
 *     c[a][a+1] = 0,    c[a][b] = min over a < v < b of c[a][v] + c[v][b] + price(a, v, b)
 *
 * It is cut into tiles of 64 x 64 cells. Tile (I, J), I <= J, holds the entries between a vertex a
 * of block I, 64 I <= a < 64 I + 64, and a vertex b of block J. Vertices past n are copies of
 * vertex n, so that no loop has a ragged edge: c[a][b] = c[a][n] for b > n. Cells with b <= a, or
 * with a >= n, are infinite: no candidate through them is ever the least.
 *
 *     interval_dp.c         the solver: which kernel is sound for these dims, and the answer
 *     interval_dp_sweep.c   the tiles, in an order that several threads can follow
 *     interval_dp_trace.c   the splits, found again from the table
 *     interval_dp_table.c   the memory
 *     interval_dp_body.h    the arithmetic on tiles, included by the kernels for counts of
 *                           multiplications: interval_dp_<instruction set>_<cell type>.c
 *     interval_dp_price.c   the kernel for a price of the caller's
 *     interval_dp_small.c   such a price and few factors, without all this */
#ifndef MMCI_INTERVAL_DP_H
#define MMCI_INTERVAL_DP_H

#include <stdatomic.h>

#include "order/order.h"

enum { MMCI_DP_TILE = 64, MMCI_DP_CELLS = MMCI_DP_TILE * MMCI_DP_TILE };

typedef struct mmci_dp_kernel mmci_dp_kernel;

/* The tiles, one column of tiles after the other. A table that the caller keeps outlives the
 * solve. */
typedef struct mmci_dp_table {
  mmci_order_table base; /* the functions entry() and destroy() */
  const mmci_dp_kernel *kernel;
  unsigned char *cells;
  size_t size_bytes;
  int32_t n, tiles; /* factors in the chain, and tiles along a side of the table */
} mmci_dp_table;

static inline void *mmci_dp_tile(const mmci_dp_table *table, int32_t I, int32_t J,
                                 size_t cell_bytes) {
  size_t index = (size_t)J * ((size_t)J + 1) / 2 + (size_t)I;
  return table->cells + index * MMCI_DP_CELLS * cell_bytes;
}

/* A solve, as all threads see it. */
typedef struct mmci_dp_run {
  const mmci_order_problem *problem;
  const mmci_dp_kernel *kernel;
  mmci_dp_table *table;
  void *chain;             /* the dims as the kernel wants them */
  int32_t *lightest;       /* the leftmost vertex of least dim in each block */
  mmci_u128 ceiling;       /* an upper bound of all entries */
  atomic_bool stop;        /* set once, by the thread that sees a reason */
  atomic_bool interrupted; /* the reason is the progress callback */
  atomic_flag bad_price;   /* the reason is a price; who sets it first writes the next lines */
  int32_t bad_i, bad_k, bad_j;
  double bad_value;
  double steps;             /* products of tiles in the whole sweep */
  atomic_ullong steps_done; /* products of tiles that are done */
} mmci_dp_run;

/* Counts the vertices of block J. */
static inline int mmci_dp_vertices(const mmci_dp_run *run, int32_t J) {
  int32_t rest = run->table->n + 1 - J * MMCI_DP_TILE;
  return rest < MMCI_DP_TILE ? rest : MMCI_DP_TILE;
}

/* What one thread has of its own. */
typedef struct mmci_dp_work {
  mmci_dp_run *run;
  unsigned char *columns; /* the kernel's state of each column of tiles in the strip at hand */
  int32_t first_column;   /* the strip's first column of tiles */
  bool is_caller;         /* the thread that may call the caller's progress function */
  double next_report;     /* when to report next, in seconds of the monotonic clock */
} mmci_dp_work;

/* Says whether to stop. On the caller's thread it also reports progress when it is time; it costs
 * about 50 ns there and a load elsewhere. */
bool mmci_dp_should_stop(mmci_dp_work *work);

/* The arithmetic of one type of cell. The sweep calls, for each tile (I, J) of a column J, I
 * descending:
 *     diagonal                          when I = J, and otherwise
 *     start, products for each K between I and J, finish
 * start is told how many tiles of row I, from (I, I) to (I, left), are finished by then. */
struct mmci_dp_kernel {
  const char *name; /* "avx512 f64", as the answer says it */
  size_t cell_bytes;
  size_t (*chain_bytes)(int32_t tiles);    /* of run->chain; NULL: it is not used */
  size_t (*column_bytes)(int32_t tiles);   /* of work->columns, each; NULL: they are not used */
  void (*prepare)(const mmci_dp_run *run); /* optional: fills run->chain */
  void (*diagonal)(mmci_dp_work *work, int32_t I);
  void (*start)(mmci_dp_work *work, int32_t I, int32_t J, int32_t left);
  /* Takes the candidates through block K into the tiles (I, J) to (I, J + count - 1). */
  void (*products)(mmci_dp_work *work, int32_t I, int32_t K, int32_t J, int32_t count);
  void (*finish)(mmci_dp_work *work, int32_t I, int32_t J);
  /* Says which of the candidates v = first .. first+count-1, count <= 64, equal c[a][b]; bit 0 is
   * first. All of them lie in one block. */
  uint64_t (*matches)(const mmci_dp_run *run, int32_t a, int32_t b, int32_t first, int32_t count);
  mmci_u128 (*entry)(const mmci_dp_table *table, int32_t a, int32_t b);
};

extern const mmci_dp_kernel mmci_dp_portable_f64, mmci_dp_portable_i64, mmci_dp_portable_i128,
    mmci_dp_saturating_u128, mmci_dp_price;
#if defined(__x86_64__)
extern const mmci_dp_kernel mmci_dp_avx2_f64, mmci_dp_avx2_i64, mmci_dp_avx512_f64,
    mmci_dp_avx512_i64;
#endif

/* Returns the price of the whole chain, after the sweep with mmci_dp_price
 * (interval_dp_price.c). */
double mmci_dp_price_of(const mmci_dp_run *run);

/* Makes a table, whose base the caller fills in (interval_dp_table.c). */
mmc_status mmci_dp_table_create(int32_t n, const mmci_dp_kernel *kernel, mmci_dp_table **out,
                                mmci_error *error);
void mmci_dp_table_destroy(mmci_dp_table *table);

/* Fills the table (interval_dp_sweep.c). Returns E_NOMEM, E_INTERRUPTED, E_ARG (a bad price). */
mmc_status mmci_dp_sweep(mmci_dp_run *run, mmci_error *error);

/* Solves with a price and at most so many factors, 0 < n (interval_dp_small.c). */
enum { MMCI_DP_SMALL = 64 };
mmc_status mmci_dp_solve_small(const mmci_order_problem *problem, mmci_order_answer *out,
                               mmci_error *error);

/* Finds the order that order.h's rule takes among those of least cost (interval_dp_trace.c). */
mmc_status mmci_dp_trace(mmci_dp_run *run, mmci_tree *out, mmci_error *error);

#endif
