/* chain.h: the problem: n factors, their dims, dtype and ops. */
#ifndef MMCI_CHAIN_H
#define MMCI_CHAIN_H

#include "chain/gemm.h"

/* A chain never changes. All that it points at lies behind the struct, in one allocation. */
struct mmc_chain {
  mmc_dtype dtype;
  int32_t n;
  int64_t batch; /* how many such chains are multiplied together; may be 0 */
  int64_t *dims; /* n+1 dims */
  mmc_op *ops;   /* n ops */
  /* For each of n factors, the first that is the same matrix and op; NULL when unknown. */
  int32_t *same;
  /* For each of n factors, the first from there on that is not one matrix for all chains of the
   * batch; NULL where no product but the whole chain has only such factors. */
  int32_t *shared;
  /* These are of chains with structure, and NULL and 0 for all others, even where callers gave them
   * and nothing can be gained by them. */
  uint32_t *traits;      /* n closed sets, see traits.h */
  mmc_band *bands;       /* n; zeros where a set has no MMC_BANDED */
  int32_t *stored;       /* n: the first factor that is stored in the same matrix */
  mmc_inverse *inverses; /* inverse_count */
  int32_t inverse_count;
  mmci_rule rule; /* zeros where numbers are added and multiplied */
};

/* Limits that keep every index in 32 bits and every product of two dims in 128. */
#define MMCI_MAX_DIM ((int64_t)1 << 62)
#define MMCI_MAX_BATCH ((int64_t)1 << 62)
enum { MMCI_MAX_FACTORS = (1 << 30) - 1 };
/* A chain whose text has ^ has at most so many factors, which are planned within a second and 100
 * MB. */
enum { MMCI_MAX_FACTORS_OF_POWERS = 1 << 17 };
/* Groups are compared with each other; the chains that are planned with structure have no more. */
enum { MMCI_MAX_INVERSES = 255 };

mmc_status mmci_chain_create(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                             mmc_chain **out, mmci_error *error);
/* Makes a chain for a batch, with the batch and same of mmc_chain_options. */
mmc_status mmci_chain_create_batch(mmc_dtype dtype, int64_t n, const int64_t *dims,
                                   const mmc_op *ops, int64_t batch, const int64_t *same,
                                   mmc_chain **out, mmci_error *error);
/* Does the same with all that options say. */
mmc_status mmci_chain_create_as(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                                const mmc_chain_options *options, mmc_chain **out,
                                mmci_error *error);
/* Says whether all chains of the batch share factor i. */
static inline bool mmci_chain_shares(const mmc_chain *chain, int64_t i) {
  return chain->shared != NULL && chain->shared[i] > i;
}
/* Returns how often the product of factors i..j-1 is computed, for all chains together. The last
 * product is written for every chain, whatever its factors. */
static inline int64_t mmci_chain_product_batch(const mmc_chain *chain, int64_t i, int64_t j) {
  const bool is_once = chain->shared != NULL && chain->shared[i] >= j && j - i < chain->n;
  return is_once ? 1 : chain->batch;
}
/* Says whether some product can be computed once for all chains, as its factors are shared. */
static inline bool mmci_chain_has_once(const mmc_chain *chain) {
  bool has = false;
  for (int32_t i = 0; chain->shared != NULL && chain->n > 2 && i < chain->n; i++)
    has = has || chain->shared[i] > i + 1;
  return has;
}
/* Says whether factor j is the transposed factor i, or conjugated too, by what is known. */
bool mmci_chain_transposes(const mmc_chain *chain, int32_t i, int32_t j, bool conjugated);
/* Says whether something is claimed of a factor, or a group is inverted. */
bool mmci_chain_claims(const mmc_chain *chain);
/* Has a chain that nobody else has yet, and of which nothing is claimed, no longer know which
 * factors are stored in the same matrix. */
void mmci_chain_forget_structure(mmc_chain *chain);
/* Gives a chain that nobody else has yet a rule of integers. Returns: E_ARG, where its dtype cannot
 * have it. */
mmc_status mmci_chain_set_rule(mmc_chain *chain, mmci_rule rule, mmci_error *error);
/* Copies a chain. Returns E_NOMEM. */
mmc_status mmci_chain_copy(const mmc_chain *chain, mmc_chain **out, mmci_error *error);
mmc_status mmci_chain_parse(const char *text, mmc_chain **out, mmci_error *error);

/* Checks n and dims as mmci_chain_create() does. */
mmc_status mmci_dims_check(int64_t n, const int64_t *dims, mmci_error *error);

/* Writes the product of the factors i..k-1 by k..j-1, counted from 0, whose operands are row-major
 * and without gaps. */
void mmci_chain_product(const mmc_chain *chain, mmci_precision precision, int64_t i, int64_t k,
                        int64_t j, mmci_gemm *out);
/* Makes of any such product of the chain this one; its precision and batch stay. */
void mmci_chain_product_turn(const mmc_chain *chain, int64_t i, int64_t k, int64_t j,
                             mmci_gemm *gemm);

#endif
