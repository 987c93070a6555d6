/* plan.h: the type _mmchain.Plan and its runs. */
#ifndef MMCP_PLAN_H
#define MMCP_PLAN_H

#include "state.h"

/* A chain and how to multiply it. What the library holds for it is made when first needed, again in
 * a forked process. Runs serve one execution at a time; idle ones wait here for the next. */
typedef struct mmcp_plan {
  PyObject_HEAD mmc_chain *chain;
  PyObject *objective, *device, *precision, *solver, *order; /* str, or None for the default */
  PyObject *saved;        /* bytes of a saved plan, which is planned again, or NULL */
  PyObject *asked_device; /* the device that the cache knows it by, or NULL */
  int array_device;       /* the arrays' device that the cache knows it by */
  bool repeats;           /* whether factors are the same, which the cache tells apart too */
  bool has_ops;           /* whether factors have ops, as these */
  bool has_shared;        /* whether all chains share some of the factors, and it is told which */
  uint64_t memory_limit_bytes;
  double max_slowdown;   /* the most times the least seconds, as in mmc_plan_options */
  mmc_location location; /* where the arrays are, most likely */
  bool scaled;           /* as in mmc_plan_options */

  struct mmcp_plan *stacked; /* the plan for the last stack or ops, same options; or NULL */
  /* For a batch in the cache whose products are rows of one product: the plan of that product where
   * it is predicted to take less, or NULL; and whether that was looked at. */
  struct mmcp_plan *as_rows;
  bool has_seen_rows;

  mmc_plan *plan; /* the plan, when it is of this generation; else NULL */
  uint64_t generation;
  bool asynchronous; /* runs may still be at work when they are idle */
  double multiplications;
  uint64_t workspace_bytes;
  mmc_run **idle;
  size_t idle_count, idle_capacity;

  uint64_t hash; /* what the cache finds the plan by */
  bool cached;   /* whether it is there */
  bool touched;  /* whether the plan was used since the cache looked last */
  bool recalled; /* whether calls may be kept for it (recall.h) */
} mmcp_plan;

extern PyTypeObject mmcp_plan_type;

/* The options that the key of the cache has beside the chain. */
typedef struct mmcp_options {
  PyObject *objective, *device, *precision; /* interned str; device may be None: where arrays are */
} mmcp_options;

/* A chain as the cache knows it; batch to checked as in mmc_chain_options. */
typedef struct mmcp_problem {
  mmc_dtype dtype;
  int64_t n;
  const int64_t *dims;
  int64_t batch;
  const int64_t *same;
  const mmc_op *ops;  /* NULL: none */
  const bool *shared; /* as in mmc_chain_options, where something is computed once; else NULL */
  uint64_t modulus;
  bool checked;
  mmc_semiring semiring;
  bool scaled;      /* the plan is, see mmc_plan_options */
  int array_device; /* MMCP_HOST or a CUDA device's number */
  /* What needs no plan the first times it comes: chains with up to so many multiplications on the
   * host (0: none but those of src/planner/little.h), and those that PyTorch can multiply. */
  double most_at_once;
  bool may_be_torchs;
} mmcp_problem;

/* Return the problem's chain, and a chain's text; NULL with an exception set on failure. */
mmc_chain *mmcp_chain_new(const mmcp_problem *problem);
PyObject *mmcp_chain_text(const mmc_chain *chain);

/* Returns the dims of a chain of *n factors from a sequence of int, which the caller frees; NULL
 * with an exception set on failure. */
int64_t *mmcp_read_dims(PyObject *sequence, int64_t *n);

/* Returns a plan for a batch of chains with these ops and shared factors, NULL for none, by the
 * options of one for a single chain, as a new reference; NULL with an exception set on failure. */
mmcp_plan *mmcp_plan_stacked(mmcp_plan *plan, int64_t batch, const mmc_op *ops, const bool *shared);

/* Says whether a plan that the cache or mmcp_plan_stacked() made is for these ops and shared
 * factors. */
bool mmcp_has_ops(const mmcp_plan *plan, const mmc_op *ops);
bool mmcp_has_shared(const mmcp_plan *plan, const bool *shared);

/* Writes the plan of one product, the problem, to *out as a new reference where it is predicted to
 * take less than plan, a batch of its rows; else NULL. Returns -1 with an exception set. */
int mmcp_plan_as_rows(mmcp_plan *plan, const mmcp_problem *problem, const mmcp_options *options,
                      mmcp_plan **out);

/* Says whether a precision's bits must not depend on how many products there are. */
bool mmcp_is_reproducible(PyObject *precision);

/* Makes the plan of a chain of arrays, as a new reference; NULL with an exception set on failure.
 */
mmcp_plan *mmcp_plan_for_arrays(const mmcp_problem *problem, const mmcp_options *options);

/* Ends the counting of the plan's idle runs among those of cached plans. */
void mmcp_plan_uncache(mmcp_plan *plan);

/* Takes an idle run or makes one; gives it back. The first returns NULL with an exception set. */
mmc_run *mmcp_plan_take_run(mmcp_plan *plan);
void mmcp_plan_give_run(mmcp_plan *plan, mmc_run *run);

/* Plans now, where that has not been done. Returns -1 with an exception set. */
int mmcp_plan_ensure(mmcp_plan *plan);

/* Says whether a plan is one for nothing but time or multiplications, where the arrays are, of
 * factors as they are given. */
bool mmcp_plan_is_usual(const mmcp_plan *plan);

/* Says whether a device can still be used; returns -1 with an exception set for CUDA that a fork
 * has lost. */
int mmcp_check_device(const char *device);

#endif
