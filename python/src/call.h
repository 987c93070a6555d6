/* call.h: one call of multi_dot, or of a plan: its factors as they are read (factors.c), its stack
 * (stacks.c), and what is made of them (execute.c). */
#ifndef MMCP_CALL_H
#define MMCP_CALL_H

#include "recall.h"
#include "view.h"

/* Factors first to last, whose product is a factor of fewer matrices than the stack has. */
typedef struct mmcp_part {
  int first, last;
} mmcp_part;

enum { MMCP_MOST_PARTS = 8 };

typedef struct mmcp_call {
  int64_t n;
  mmcp_view *views;     /* the factors, then the result; of a stack that is the chain the first */
  mmcp_view *result;    /* the last of views */
  mmc_matrix *matrices; /* the factors, then the result, of the stack's first product */
  int64_t *dims;
  int64_t *same; /* each factor's first one that is the same array, when repeats */
  bool repeats;
  /* Of the factors, when has_ops: H of those that are conjugated lazily, which lie transposed, and
   * on a GPU T of others that do. */
  mmc_op *ops;
  bool has_ops;
  bool *shared; /* which factors are one matrix for all products of the stack, when has_shared */
  bool has_shared;
  bool gathers;  /* some are of other dtypes than the call, or cannot be read as they lie */
  int64_t *seen; /* the different factors, by address: 2^seen_bits places, at least half are -1 */
  int seen_bits;
  int acquired;     /* views that hold something */
  bool is_chain;    /* one stack is the chain */
  mmcp_view stack;  /* the stack that is the chain, with all of its axes */
  int64_t step;     /* elements from one factor of that stack to the next */
  bool row, column; /* whether the result has these dimensions: its end is no vector */
  mmc_dtype dtype;
  int device;
  int stack_ndim;
  int64_t stack_shape[MMCP_MAX_NDIM];
  int64_t stack_count; /* products; 1 once they are rows of one */
  int64_t together;    /* products that are rows of one, else 1 */
  /* Shape and strides of a factor of the stack that is the chain. */
  int64_t shape[MMCP_MAX_NDIM], strides[MMCP_MAX_NDIM];
  mmc_run *run;        /* NULL where the chain is multiplied without a plan */
  PyObject *objective; /* as the caller gave it */
  uint64_t modulus;    /* as in mmc_chain_options */
  bool checked;        /* as there */
  mmc_semiring semiring;
  int64_t *exponents; /* where those of a scaled product go; NULL where it is none */
  /* Floating-point exceptions, as fetestexcept() has them, when the factors are NumPy's. */
  int errors;
  bool on_stream; /* the work goes to stream and need not be done on return */
  void *stream;
  const mmcp_asked *asked;  /* what is kept when it comes again, or NULL */
  bool is_finished;         /* another library has made the result, which no view holds */
  bool may_be_torchs;       /* PyTorch may multiply what has no plan, on a GPU */
  bool seeks_parts;         /* whether parts may be multiplied by themselves first */
  const mmc_chain *planned; /* the chain of the caller's plan, or NULL */
  int part_count;           /* those that are to be: then nothing else has been done */
  mmcp_part parts[MMCP_MOST_PARTS];
} mmcp_call;

/* Returns the view of factor i, or of the result, which is i = n. */
static inline const mmcp_view *mmcp_view_of(const mmcp_call *c, int64_t i) {
  return i == c->n ? c->result : &c->views[c->is_chain ? 0 : i];
}

/* Returns the axes of the stack of a factor, or of the result. */
static inline int64_t mmcp_stack_ndim(const mmcp_call *c, int64_t i) {
  int64_t core = 2;
  if (i == 0 || i == c->n) core -= !c->row;
  if (i == c->n - 1 || i == c->n) core -= !c->column;
  return mmcp_view_of(c, i)->ndim - core;
}

/* Functions below that return an int return 1; 0 when the arrays cannot be multiplied here; -1 with
 * an exception set. */

/* Read all factors, or those of a stack that is the chain. What is of another dtype than the call,
 * or cannot be read as it lies, is written out. */
int mmcp_acquire_factors(mmcp_call *c, PyObject *const *items, mmcp_want want);
int mmcp_read_chain(mmcp_call *c);
/* Writes out factors of a call that may be PyTorch's, which waited for that. */
int mmcp_write_out(mmcp_call *c, PyObject *const *items);
/* Finds the dims of the chain, when neighbours fit; beside a plan of them, which is NULL otherwise,
 * lines may stand for matrices. */
int mmcp_find_dims(mmcp_call *c, const mmc_plan *plan);
/* Reads the matrix of factor i; false where it cannot be read as it lies. Its rows and columns are
 * set all the same. */
bool mmcp_read_matrix(mmcp_call *c, int64_t i);
/* Says whether factor i is one matrix for all products of the stack. */
bool mmcp_is_shared(const mmcp_call *c, int64_t i);
/* Has the array's library make of factor i what its method returns, where it has one, and reads
 * that instead: a call whose factor is new each time is not worth keeping. */
int mmcp_replace_factor(mmcp_call *c, int64_t i, PyObject *array, const char *method);
/* Says whether a view is of the library that the first factor is of. */
bool mmcp_is_of_one_library(const mmcp_call *c, const mmcp_view *view);
/* Says whether neighbours are an array and its transposed, whose product has a plan of its own. */
bool mmcp_has_twins(const mmcp_call *c);

/* Says whether the products of a stack are rows of one product: only the first factors differ, and
 * their rows follow each other. The order of a reproducible one may not depend on how many there
 * are. */
bool mmcp_may_be_rows(const mmcp_call *c, PyObject *precision);
void mmcp_make_rows(mmcp_call *c);
/* Make matrix i, or all, stand for stacks, broadcast; what is the same stays so. They return false
 * when a table of addresses does not fit into memory, or with an exception set. */
bool mmcp_spread(mmcp_call *c, int64_t i);
bool mmcp_spread_all(mmcp_call *c);
void mmcp_free_addresses(mmcp_call *c);

/* Chains of few factors, as most are, need no memory from the heap. */
enum { MMCP_FEW_FACTORS = 8, MMCP_FEW_BITS = 4 };

typedef struct mmcp_few {
  mmcp_view views[MMCP_FEW_FACTORS + 1];
  mmc_matrix matrices[MMCP_FEW_FACTORS + 1];
  int64_t dims[MMCP_FEW_FACTORS + 1], same[MMCP_FEW_FACTORS], seen[1 << MMCP_FEW_BITS];
  mmc_op ops[MMCP_FEW_FACTORS];
  bool shared[MMCP_FEW_FACTORS];
} mmcp_few;

/* Begins a call for n arrays, or for those of a stack, which it takes over, in `room` or in *block.
 * False: an exception. */
bool mmcp_call_open(mmcp_call *c, Py_ssize_t n, mmcp_view *stack, mmcp_few *room, char **block);
/* Lets go of what the call holds, and of the block. */
void mmcp_call_close(mmcp_call *c, char *block);
/* Looks at an array whose matrices are the chain. Returns how many they are, and holds the array in
 * *out; 0 when it is none, and -1 with an exception set. */
Py_ssize_t mmcp_acquire_chain(PyObject *array, mmcp_want want, mmcp_view *out);

#endif
