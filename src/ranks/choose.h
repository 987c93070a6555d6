/* choose.h: the layout of every intermediate of a plan on several ranks, and the way of every
 * product: the cheapest by a table over the plan's tree.
 *
 * The table holds, for each step and each layout, the least price of having the step's result in
 * that layout. It takes O(steps * layouts * (layouts + ways)) prices, some microseconds for a few
 * ranks. A result that several steps read is given the layout that is cheapest for itself.
 *
 * There is a table for all ranks, one for half of them, a quarter, down to one. Where both operands
 * of a step are results, they may be computed at the same time, each by half of the ranks: each
 * half goes by its own table (Lee, Kim, Hong and Lee, IEEE TPDS 14(4), 2003). */
#ifndef MMCI_RANKS_CHOOSE_H
#define MMCI_RANKS_CHOOSE_H

#include "base/status.h"
#include "ranks/algorithms.h"

/* One product of the plan. An operand below the number of factors is a factor, n + t is the result
 * of step t, as in mmc_step. */
typedef struct mmci_ranks_product {
  int64_t m, k, n;
  int64_t left, right;
} mmci_ranks_product;

/* What ranks take: measured, or assumed. Seconds are of one rank of those that work at once. */
typedef struct mmci_ranks_rates {
  double flops_per_s;         /* real flops of one rank, all ranks busy */
  double word_bytes_s;        /* seconds that a byte travels between two ranks: beta */
  double message_s;           /* seconds of a message, however short: alpha */
  double memory_bytes_s;      /* seconds that a rank takes to read or write a byte of its memory */
  double flop_j, word_byte_j; /* joules of a flop and of a byte sent */
  double rank_watts;          /* watts of a rank, whatever it does */
  bool calibrated;            /* measured here; else assumed */
  /* Ranks multiply what they have by the device blas where that is faster. It is the same on all
   * ranks, whose hosts may differ. */
  bool replaces;
} mmci_ranks_rates;

/* Returns rates of a current core and a network of 10 Gbit/s. */
mmci_ranks_rates mmci_ranks_assumed(void);

typedef enum mmci_ranks_goal {
  MMCI_RANKS_SECONDS,
  MMCI_RANKS_JOULES,
  MMCI_RANKS_WORDS
} mmci_ranks_goal;

typedef struct mmci_ranks_problem {
  int64_t factor_count, step_count;
  const int64_t *dims;                /* factor_count + 1 */
  const mmci_ranks_product *products; /* step_count products, operands before those who read them */
  mmc_dtype dtype;
  int32_t ranks;  /* how many there are, 1 to MMCI_MAX_RANKS */
  bool all_ranks; /* use all of them, even where fewer are faster */
  /* Operands of a step may be computed at the same time, each by half of the ranks, where that
   * takes fewer seconds: for the goal of seconds, with free factors and without a limit, unless a
   * result is read twice or the plan is reproducible. */
  bool halves;
  /* Layouts of the factors. NULL: they are free, as of files, but that one which is wanted whole is
   * made so from its pieces. */
  const mmci_layout *given;
  const mmci_layout *asked; /* the layout of the result; NULL means any */
  const mmc_op *ops;        /* of the factors: a rank copies what it conjugates; NULL means none */
  uint64_t limit_bytes;     /* what a rank may hold, factors and result among it; UINT64_MAX: any */
  mmci_ranks_goal goal;
  mmci_ranks_rates rates;
  /* The bits of the result do not depend on the ranks: no sums of partial products. */
  bool reproducible;
} mmci_ranks_problem;

enum { MMCI_MAX_RANKS = 1 << 16 };

/* How a step gets an operand: it has layout `from` and is changed to the way's. */
typedef struct mmci_ranks_operand {
  mmci_layout from;
  mmci_u128 words; /* words that all ranks send for it */
} mmci_ranks_operand;

/* How one step is computed. */
typedef struct mmci_ranks_step {
  mmci_way way;
  mmci_ranks_operand left, right;
  mmci_u128 words; /* words of all ranks: both operands' and the way's own */
  bool apart;      /* its operands were computed at the same time, each by half of its ranks */
  double predicted_s, communication_s;
  double predicted_j;
  uint64_t rank_bytes; /* the most that a rank holds while the step runs */
} mmci_ranks_step;

typedef struct mmci_ranks_plan {
  int32_t ranks; /* how many ranks work; those after them have nothing */
  mmci_ranks_step *steps;
  /* Layouts of the factors: as given, else as a step reads each. A factor that is read twice may be
   * read in two layouts, which the steps say. */
  mmci_layout *factors;
  mmci_layout result;
  mmci_ranks_operand last; /* how the result is changed to the layout asked for */
  mmci_u128 words;
  double predicted_s, communication_s, predicted_j;
  uint64_t rank_bytes; /* the most that a rank holds at once */
} mmci_ranks_plan;

/* Chooses. Returns E_ARG (no such number of ranks), E_MEMORY_LIMIT (the message says what the
 * leanest plan found needs), E_NOMEM. */
mmc_status mmci_ranks_choose(const mmci_ranks_problem *problem, mmci_ranks_plan *out,
                             mmci_error *error);
void mmci_ranks_plan_destroy(mmci_ranks_plan *plan);

/* Returns the words of the plan that keeps every matrix on one grid, as engines are used with. */
mmci_u128 mmci_ranks_fixed_grid_words(const mmci_ranks_problem *problem, int32_t grid_rows,
                                      int32_t grid_cols);

#endif
