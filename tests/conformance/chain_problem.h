/* chain_problem.h: a chain through the public interface: its matrices in memory, what must come
 * out, and executions that are checked.
 *
 * Matrices hold one of two kinds of values. Whole ones, so few in a row that every sum of every
 * order is exact in the dtype: then R t = A1 (A2 (... (An t))) must hold exactly for a t without
 * zeros, which no single wrong element leaves standing, at any size. Real ones: every element is
 * held against device "ref" in f64. All memory is 0xff where no element lies, which is NaN in every
 * dtype: nothing of it may be read, and nothing but the elements of the result may be written. */
#ifndef MMC_TEST_CHAIN_PROBLEM_H
#define MMC_TEST_CHAIN_PROBLEM_H

#include "../elements.h"
#include "../random.h"
#include "devices.h"

/* A context, and the device that plans of it are for. */
typedef struct setting {
  mmc_context *context;
  const char *module_dir, *device;
  bool own_memory; /* the device's is not the host's */
  bool small, race;
  bool dtypes[DTYPES]; /* which it multiplies */
} setting;

typedef enum values { WHOLE, REAL } values;
typedef enum where { ON_HOST, ON_DEVICE, ANYWHERE, PICKED } where;

enum { FACTORS_MAX = 10, GUARD = 64, NAN_BYTE = 0xff };

/* A matrix in a room of its own. */
typedef struct held {
  mmc_dtype dtype;
  mmc_matrix matrix;
  mmc_op op;
  int64_t rows, cols; /* of op(A) */
  bool by_columns;    /* op(A): its columns are the lines in memory */
  int64_t lines, length, ld;
  size_t size, bytes, first; /* of an element, of the room; where element (0, 0) lies in it */
  unsigned char *content;    /* of the room, as it must be */
  unsigned char *host;       /* the room; NULL: it is in memory */
  mmc_memory *memory;
  int same; /* the factor whose room it is, itself for most */
} held;

/* A chain, and what its matrices are to be. */
typedef struct shape {
  mmc_dtype dtype;
  int n;
  int64_t dims[FACTORS_MAX + 1];
  mmc_op ops[FACTORS_MAX];
  values values;
  where where;
  /* PICKED: bit i says that factor i is on the device, bit n the result; and whether factors that
   * can be one matrix are, which is left to chance otherwise. */
  unsigned on_device;
  bool shared;
  uint64_t seed;
} shape;

/* The matrices of an execution. */
typedef struct problem {
  const setting *on;
  shape shape;
  mmc_chain *chain;
  held held[FACTORS_MAX + 1]; /* the last is the result */
  mmc_matrix factors[FACTORS_MAX], out;
  /* Of real values: what must come out, and the square of what is usual for an element: the product
   * of the factors' squares. */
  double *want, *usual2;
} problem;

/* A row of the first factor or a column of the last that is NaN; -1: none. */
typedef struct poisoned {
  int64_t row, col;
} poisoned;

typedef struct job {
  mmc_plan *plan;
  mmc_run *run;
  bool streamed;
  double share; /* that an element of this plan may be off, see real_result_is_right() */
} job;

/* Runs a test in a context of its own. */
void with_setting(const subject *subject, void (*test)(const setting *on));
/* Creates a context without wisdom. */
mmc_status context_create(const char *module_dir, mmc_context **out);
/* Says which call failed and why. Returns whether it has not. */
bool succeeded(const setting *on, mmc_status status, const char *what);
/* Returns zeros, to be freed; it ends the test when memory is short. */
void *allocate(size_t size);

/* Copies what a matrix must hold to where it lies. */
bool held_write(const setting *on, const held *h);

/* Makes a chain and its matrices. Returns false where a call failed, after saying which;
 * problem_destroy() releases such a problem too. */
bool problem_create(const setting *on, const shape *s, problem *p);
void problem_destroy(problem *p);
/* Puts other values in the same place. */
bool problem_fill(problem *p, uint64_t *random);
/* Computes the right result. It must be called once the values are set, and before threads share
 * the problem. */
bool problem_know(problem *p);
/* Checks everything that an execution has left: factors untouched, the result right, NaN around it.
 * share says how far off an element may be, as a part of what is usual for an element. */
bool problem_check(const problem *p, double share, poisoned nan);

/* Returns what stands behind `name` where the plan explains itself, "" when nothing does; to be
 * freed. */
char *explained(const setting *on, const mmc_plan *plan, mmc_format format, const char *name);

mmc_plan_options options_for(const setting *on);
bool job_create(const problem *p, const mmc_plan_options *options, job *j);
void job_destroy(job *j);
/* Executes, or enqueues on the default stream. */
mmc_status start(const problem *p, mmc_run *run, bool enqueue);
/* These execute once, into a result of NaN, and check the result. */
bool execute_with(const problem *p, mmc_run *run, double share, bool enqueue, poisoned nan);
bool execute(const problem *p, const job *j);

/* Returns a shape of up to 10 factors with sides up to most, some far longer, some zero. */
shape random_shape(const setting *on, uint64_t seed, int64_t most);
/* Executes again and again, with other values in the same place, and with NaN in the first factor
 * and the last. */
bool try_thoroughly(problem *p, const job *j, uint64_t *random);
/* Tests count random chains, by any solver, precision and place. */
void test_random_chains(const setting *on, int count, int64_t most, uint64_t *random);

#endif
