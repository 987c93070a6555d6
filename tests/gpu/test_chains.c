/* test_chains.c: chains on a device, through the public API alone.
 *
 *     test_chains MODULE [MODE [DEVICE]]
 *
 * MODE is "small", "race" or "full". DEVICE is "cuda:0"; another one, as "blas", runs all of it but
 * what only a device with memory of its own can do.
 *
 * Matrices hold one of two kinds of values. Whole ones, so few in a row that every sum of every
 * order is exact in the dtype: then R t = A1 (A2 (... (An t))) must hold exactly for a t without
 * zeros, which no single wrong element leaves standing, at any size. Real ones: every element is
 * held against device "ref" in f64. All memory is 0xff where no element lies, which is NaN in every
 * dtype: nothing of it may be read, and but for the result's elements nothing written. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "../elements.h"
#include "../random.h"
#include "gpu_test.h"

typedef struct setting {
  mmc_context *context;
  const char *module_dir, *device;
  bool own_memory; /* the device's is not the host's */
  bool small, race;
} setting;

static bool succeeded(const setting *on, mmc_status status, const char *what) {
  char text[512];
  if (status == MMC_OK) return true;
  printf("  %s: status %d: %s\n", what, (int)status,
         mmc_context_message(on->context, text, sizeof text));
  return false;
}

static void *allocate(size_t size) {
  void *memory = calloc(1, size + 1);
  if (memory != NULL) return memory;
  printf("FAILED: the test is out of memory\n");
  exit(1);
}

/* ---- matrices -------------------------------------------------------------------------------- */

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

static size_t place(const held *h, int64_t r, int64_t c) {
  return h->first + (size_t)(h->by_columns ? c * h->ld + r : r * h->ld + c) * h->size;
}

static unsigned char *line_of(const held *h, unsigned char *room, int64_t line) {
  return room + h->first + (size_t)(line * h->ld) * h->size;
}

/* Of op(A), from a copy of the room. */
static element held_get(const held *h, const unsigned char *room, int64_t r, int64_t c) {
  element value = element_read(h->dtype, room + place(h, r, c));
  if (h->op == MMC_OP_H) value.im = -value.im;
  return value;
}

static void held_put(held *h, int64_t r, int64_t c, element value) {
  element_write(h->dtype, h->content + place(h, r, c), value);
}

/* Content to the room. */
static bool held_write(const setting *on, const held *h) {
  if (h->host == NULL)
    return succeeded(on, mmc_memory_write(h->memory, 0, h->content, h->bytes), "mmc_memory_write");
  memcpy(h->host, h->content, h->bytes);
  return true;
}

/* A copy of the room, the caller's. NULL: that failed. */
static unsigned char *held_read(const setting *on, const held *h) {
  unsigned char *copy = allocate(h->bytes);
  if (h->host != NULL) {
    memcpy(copy, h->host, h->bytes);
  } else if (!succeeded(on, mmc_memory_read(h->memory, 0, copy, h->bytes), "mmc_memory_read")) {
    free(copy);
    return NULL;
  }
  return copy;
}

static bool held_create(const setting *on, held *h, mmc_location location, uint64_t *random) {
  mmc_matrix *x = &h->matrix;
  x->rows = h->op == MMC_OP_N ? h->rows : h->cols;
  x->cols = h->op == MMC_OP_N ? h->cols : h->rows;
  x->layout = (mmc_layout)random_below(random, 2);
  x->location = location;
  h->size = mmc_dtype_size(h->dtype);
  h->by_columns = (x->layout == MMC_COL_MAJOR) != (h->op != MMC_OP_N);
  h->lines = h->by_columns ? h->cols : h->rows;
  h->length = h->by_columns ? h->rows : h->cols;
  h->ld = h->length > 0 ? h->length : 1;
  if (random_below(random, 2) == 0) h->ld = x->ld = h->ld + random_below(random, 9);
  /* Now and then no more aligned than the real type asks for. */
  int64_t shift = random_below(random, 3) == 0 ? random_below(random, 5) : 0;
  h->first = GUARD * h->size + (size_t)shift * dtype_facts[h->dtype].real_size;
  h->bytes = h->first + ((size_t)(h->lines * h->ld) + GUARD) * h->size;
  h->content = allocate(h->bytes);
  memset(h->content, NAN_BYTE, h->bytes);
  unsigned char *room = NULL;
  if (location == MMC_HOST) {
    room = h->host = allocate(h->bytes);
  } else {
    if (!succeeded(on, mmc_memory_create(on->context, on->device, h->bytes, &h->memory),
                   "mmc_memory_create"))
      return false;
    room = mmc_memory_address(h->memory);
  }
  x->data = room + h->first;
  if (h->rows * h->cols == 0 && shift == 1) x->data = NULL;
  return true;
}

static void held_destroy(held *h) {
  mmc_memory_destroy(h->memory);
  free(h->host);
  free(h->content);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* 1, -1, and for complex ones i and -i. */
static element whole_unit(mmc_dtype dtype, uint64_t *random) {
  uint64_t bits = random_bits(random);
  double sign = (bits & 1) != 0 ? 1 : -1;
  return mmci_dtype_is_complex(dtype) && (bits & 2) != 0 ? (element){0, sign} : (element){sign, 0};
}

/* No more than `most` a row, so that no product of n has a row whose magnitudes sum up to more than
 * most to the nth. */
static void fill_whole(held *h, int64_t most, uint64_t *random) {
  for (int64_t line = 0; line < h->lines; line++) {
    unsigned char *to = line_of(h, h->content, line);
    memset(to, 0, (size_t)h->length * h->size);
    for (int64_t at = 0; most >= h->cols && at < h->length; at++)
      element_write(h->dtype, to + (size_t)at * h->size, whole_unit(h->dtype, random));
  }
  for (int64_t t = 0; most < h->cols && t < most * h->rows; t++)
    held_put(h, t / most, random_below(random, h->cols), whole_unit(h->dtype, random));
}

/* Products stay near 1 when so many are summed up. */
static void fill_real(held *h, uint64_t *random) {
  double scale =
      sqrt((mmci_dtype_is_complex(h->dtype) ? 1.5 : 3) / (double)(h->cols > 0 ? h->cols : 1));
  for (int64_t r = 0; r < h->rows; r++)
    for (int64_t c = 0; c < h->cols; c++)
      held_put(h, r, c, (element){scale * random_unit(random), scale * random_unit(random)});
}

/* ---- problems -------------------------------------------------------------------------------- */

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

static int to_stdout(void *user, const char *bytes, size_t size) {
  (void)user;
  return fwrite(bytes, 1, size, stdout) == size ? 0 : -1;
}

static void problem_describe(const problem *p) {
  printf("  ");
  mmc_chain_write(p->chain, to_stdout, NULL);
  printf(", %s values, ", p->shape.values == WHOLE ? "whole" : "real");
  for (int i = 0; i <= p->shape.n; i++) {
    const held *h = &p->held[i];
    printf("%s%c%c+%" PRId64, i == p->shape.n ? " to " : " ", h->host != NULL ? 'H' : 'D',
           h->matrix.layout == MMC_ROW_MAJOR ? 'r' : 'c', h->ld - h->length);
  }
  printf(" (host or device, by rows or columns, gap), seed %" PRIu64 "\n", p->shape.seed);
}

static bool problem_fill(problem *p, uint64_t *random) {
  static const double BITS[] = {[MMC_F32] = 24,  [MMC_F64] = 40, [MMC_C64] = 24,
                                [MMC_C128] = 40, [MMC_F16] = 11, [MMC_BF16] = 8};
  const shape *s = &p->shape;
  bool right = true;
  for (int i = 0; i < s->n; i++) {
    held *h = &p->held[i];
    if (h->same != i) continue;
    if (s->values == WHOLE)
      fill_whole(h, (int64_t)pow(2, BITS[s->dtype] / s->n), random);
    else
      fill_real(h, random);
    right = held_write(p->on, h) && right;
  }
  free(p->want);
  free(p->usual2);
  p->want = p->usual2 = NULL;
  return right;
}

/* An earlier factor of this form, now and then, or i. */
static int same_as(const problem *p, int i, uint64_t *random) {
  const held *h = &p->held[i];
  for (int j = 0; j < i; j++) {
    const held *x = &p->held[j];
    if (x->same != j || x->rows != h->rows || x->cols != h->cols || x->op != h->op) continue;
    if (p->shape.where == PICKED ? p->shape.shared : random_below(random, 3) == 0) return j;
  }
  return i;
}

static bool problem_create(const setting *on, const shape *s, problem *p) {
  uint64_t random = s->seed;
  *p = (problem){.on = on, .shape = *s};
  bool right = succeeded(
      on, mmc_chain_create(on->context, s->dtype, s->n, s->dims, s->ops, &p->chain), "a chain");
  for (int i = 0; i <= s->n && right; i++) {
    held *h = &p->held[i];
    bool is_result = i == s->n;
    *h = (held){.dtype = s->dtype,
                .op = is_result ? MMC_OP_N : s->ops[i],
                .rows = s->dims[is_result ? 0 : i],
                .cols = s->dims[is_result ? s->n : i + 1],
                .same = i};
    mmc_location location = s->where == ON_HOST ? MMC_HOST : MMC_DEVICE;
    if (s->where == ANYWHERE) location = (mmc_location)random_below(&random, 2);
    if (s->where == PICKED) location = (s->on_device >> i & 1) != 0 ? MMC_DEVICE : MMC_HOST;
    int same = is_result ? i : same_as(p, i, &random);
    if (same != i)
      *h = p->held[same];
    else
      right = held_create(on, h, location, &random);
    *(is_result ? &p->out : &p->factors[i]) = h->matrix;
  }
  return right && problem_fill(p, &random);
}

static void problem_destroy(problem *p) {
  for (int i = 0; i <= p->shape.n; i++)
    if (p->held[i].same == i) held_destroy(&p->held[i]);
  mmc_chain_destroy(p->chain);
  free(p->want);
  free(p->usual2);
}

/* ---- what must come out ---------------------------------------------------------------------- */

/* The chain of plain matrices by device "ref", in f64 or c128; of the squares of the magnitudes, if
 * asked for. */
static double *reference(const problem *p, bool squares) {
  const shape *s = &p->shape;
  const setting *on = p->on;
  const int parts = mmci_dtype_is_complex(s->dtype) && !squares ? 2 : 1;
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = "ref";
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix matrices[FACTORS_MAX + 1];
  for (int i = 0; i <= s->n; i++) {
    const held *h = &p->held[i];
    double *to = allocate((size_t)(h->rows * h->cols * parts) * sizeof *to);
    matrices[i] = (mmc_matrix){.data = to, .rows = h->rows, .cols = h->cols};
    for (int64_t at = 0; i < s->n && at < h->rows * h->cols; at++) {
      element x = held_get(h, h->content, at / h->cols, at % h->cols);
      to[at * parts] = squares ? x.re * x.re + x.im * x.im : x.re;
      if (parts == 2) to[at * parts + 1] = x.im;
    }
  }
  mmc_status status =
      mmc_chain_create(on->context, parts == 2 ? MMC_C128 : MMC_F64, s->n, s->dims, NULL, &chain);
  if (status == MMC_OK) status = mmc_plan_create(on->context, chain, &options, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, matrices, &matrices[s->n]);
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  for (int i = 0; i < s->n; i++) free(matrices[i].data);
  if (succeeded(on, status, "device ref")) return matrices[s->n].data;
  free(matrices[s->n].data);
  return NULL;
}

/* Must be called once the values are set, and before threads share the problem. */
static bool problem_know(problem *p) {
  if (p->shape.values == WHOLE || p->want != NULL) return true;
  p->want = reference(p, false);
  p->usual2 = reference(p, true);
  return p->want != NULL && p->usual2 != NULL;
}

/* y = M x, in the order in which M's elements lie. */
static void apply(const held *h, unsigned char *room, const element *x, element *y) {
  for (int64_t r = 0; r < h->rows; r++) y[r] = (element){0, 0};
  for (int64_t line = 0; line < h->lines; line++) {
    const unsigned char *from = line_of(h, room, line);
    for (int64_t at = 0; at < h->length; at++) {
      const int64_t r = h->by_columns ? at : line, c = h->by_columns ? line : at;
      element a = element_read(h->dtype, from + (size_t)at * h->size);
      if (h->op == MMC_OP_H) a.im = -a.im;
      y[r].re += a.re * x[c].re - a.im * x[c].im;
      y[r].im += a.re * x[c].im + a.im * x[c].re;
    }
  }
}

static bool whole_result_is_right(const problem *p, unsigned char *room) {
  const shape *s = &p->shape;
  int64_t longest = 0;
  for (int i = 0; i <= s->n; i++) longest = s->dims[i] > longest ? s->dims[i] : longest;
  element *x = allocate((size_t)longest * sizeof *x), *y = allocate((size_t)longest * sizeof *y);
  element *got = allocate((size_t)longest * sizeof *got);
  uint64_t random = s->seed + 1;
  for (int64_t c = 0; c < s->dims[s->n]; c++)
    x[c] = (element){(double)(2 * random_below(&random, 256) - 255), 0};
  apply(&p->held[s->n], room, x, got);
  for (int i = s->n - 1; i >= 0; i--) {
    apply(&p->held[i], p->held[i].content, x, y);
    element *swap = x;
    x = y;
    y = swap;
  }
  bool right = true;
  for (int64_t r = 0; r < s->dims[0] && right; r++) {
    right = got[r].re == x[r].re && got[r].im == x[r].im;
    if (!right)
      printf("  row %" PRId64 " of R t is (%.17g, %.17g), not (%.17g, %.17g)\n", r, got[r].re,
             got[r].im, x[r].re, x[r].im);
  }
  free(x);
  free(y);
  free(got);
  return right;
}

/* A row of the first factor or a column of the last that is NaN; -1: none. */
typedef struct poisoned {
  int64_t row, col;
} poisoned;

/* share: of what is usual for an element, how far off it may be. */
static bool real_result_is_right(const problem *p, const unsigned char *room, double share,
                                 poisoned nan) {
  const shape *s = &p->shape;
  const held *out = &p->held[s->n];
  const bool is_complex = mmci_dtype_is_complex(s->dtype);
  /* Where numbers are denormal, a rounding is off by half of this, and later factors add it up. */
  const double least = 256 * (s->n - 1) * dtype_facts[s->dtype].least;
  for (int64_t r = 0; r < out->rows; r++)
    for (int64_t c = 0; c < out->cols; c++) {
      const int64_t at = r * out->cols + c;
      element got = held_get(out, room, r, c);
      element want =
          is_complex ? (element){p->want[2 * at], p->want[2 * at + 1]} : (element){p->want[at], 0};
      double limit = share * sqrt(p->usual2[at]) + least;
      bool right = fabs(got.re - want.re) <= limit && fabs(got.im - want.im) <= limit;
      if (r == nan.row || c == nan.col) right = isnan(got.re) && (!is_complex || isnan(got.im));
      if (right) continue;
      printf("  element (%" PRId64 ", %" PRId64
             ") is (%.9g, %.9g), not (%.9g, %.9g) within %.3g%s\n",
             r, c, got.re, got.im, want.re, want.im, limit,
             r == nan.row || c == nan.col ? ", but NaN" : "");
      return false;
    }
  return true;
}

/* Everything that an execution has left: factors untouched, the result right, NaN around it. */
static bool problem_check(const problem *p, double share, poisoned nan) {
  const int n = p->shape.n;
  for (int i = 0; i < n; i++) {
    const held *h = &p->held[i];
    if (h->same != i) continue;
    unsigned char *room = held_read(p->on, h);
    bool same = room != NULL && memcmp(room, h->content, h->bytes) == 0;
    free(room);
    if (same) continue;
    printf("  factor %d was written to\n", i);
    return false;
  }
  const held *out = &p->held[n];
  unsigned char *room = held_read(p->on, out);
  if (room == NULL) return false;
  bool right = p->shape.values == WHOLE ? whole_result_is_right(p, room)
                                        : real_result_is_right(p, room, share, nan);
  for (int64_t line = 0; line < out->lines; line++)
    memset(line_of(out, room, line), NAN_BYTE, (size_t)out->length * out->size);
  bool alone = memcmp(room, out->content, out->bytes) == 0;
  if (!alone) printf("  written beside the result\n");
  free(room);
  return right && alone;
}

/* ---- plans and runs -------------------------------------------------------------------------- */

typedef struct text {
  char bytes[32768];
  size_t size;
} text;

static int to_text(void *user, const char *bytes, size_t size) {
  text *t = user;
  if (size >= sizeof t->bytes - t->size) return -1;
  memcpy(t->bytes + t->size, bytes, size);
  t->size += size;
  t->bytes[t->size] = '\0';
  return 0;
}

/* What stands behind `name` where the plan explains itself, "" when nothing does; the caller's. */
static char *explained(const setting *on, const mmc_plan *plan, mmc_format format,
                       const char *name) {
  text *t = allocate(sizeof *t);
  t->size = 0;
  bool right = succeeded(on, mmc_plan_explain(plan, format, to_text, t), "mmc_plan_explain");
  const char *at = right ? strstr(t->bytes, name) : NULL;
  at = at != NULL ? at + strlen(name) : "";
  char *behind = allocate(strlen(at));
  memcpy(behind, at, strlen(at) + 1);
  free(t);
  return behind;
}

static bool is_streamed(const setting *on, const mmc_plan *plan) {
  char *value = explained(on, plan, MMC_JSON, "\"streamed\": ");
  bool streamed = strncmp(value, "true", 4) == 0;
  free(value);
  return streamed;
}

typedef struct job {
  mmc_plan *plan;
  mmc_run *run;
  bool streamed;
  double share; /* that an element of this plan may be off, see real_result_is_right() */
} job;

/* Roundings are off in either direction as it comes: those of k partial sums add up to u sqrt(k/2)
 * of what is usual for an element, the rounding of an element to u of it, and later factors change
 * neither share. 8 stands for the tails of both. */
static double share_allowed(const problem *p, const job *j, const char *precision) {
  const mmc_dtype dtype = p->shape.dtype;
  const struct dtype_facts *facts = &dtype_facts[dtype];
  double share = 0;
  for (int64_t t = 0; t < mmc_plan_step_count(j->plan); t++) {
    mmc_step step = {0};
    if (mmc_plan_step(j->plan, t, &step) != MMC_OK) return NAN;
    /* Sums of halves are rounded at every panel of k. */
    double pieces = j->streamed ? 1 + (double)step.k / 64 : 1;
    share += 8 * facts->sum_epsilon * (sqrt((double)step.k) + 1) + 8 * facts->epsilon * pieces;
    /* TF32 keeps 10 bits of a fraction: two factors, rounded or cut. */
    if (precision != NULL && strcmp(precision, "fast") == 0 && facts->real_size == 4)
      share += 8 * 2 * 0x1p-10;
  }
  return mmci_dtype_is_complex(dtype) ? 2 * share : share;
}

static bool job_create(const problem *p, const mmc_plan_options *options, job *j) {
  const setting *on = p->on;
  *j = (job){0};
  bool right =
      succeeded(on, mmc_plan_create(on->context, p->chain, options, &j->plan), "mmc_plan_create") &&
      succeeded(on, mmc_run_create(j->plan, &j->run), "mmc_run_create");
  if (right) j->streamed = is_streamed(on, j->plan);
  if (right) j->share = share_allowed(p, j, options->precision);
  if (!right) problem_describe(p);
  return right;
}

static void job_destroy(job *j) {
  mmc_run_destroy(j->run);
  mmc_plan_destroy(j->plan);
}

static mmc_plan_options options_for(const setting *on) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = on->device;
  return options;
}

static mmc_status start(const problem *p, mmc_run *run, bool enqueue) {
  return enqueue ? mmc_enqueue(run, NULL, p->factors, &p->out)
                 : mmc_execute(run, p->factors, &p->out);
}

/* One execution into NaN, checked. */
static bool execute_with(const problem *p, mmc_run *run, double share, bool enqueue, poisoned nan) {
  const setting *on = p->on;
  bool right = held_write(on, &p->held[p->shape.n]) &&
               succeeded(on, start(p, run, enqueue), "an execution") &&
               (!enqueue || succeeded(on, mmc_wait(run), "mmc_wait")) &&
               problem_check(p, share, nan);
  if (!right) problem_describe(p);
  return right;
}

static bool execute(const problem *p, const job *j) {
  return execute_with(p, j->run, j->share, false, (poisoned){-1, -1});
}

/* ---- random chains --------------------------------------------------------------------------- */

static shape random_shape(uint64_t seed, int64_t most) {
  uint64_t random = seed;
  shape s = {.seed = seed};
  s.dtype = (mmc_dtype)random_below(&random, DTYPES);
  s.n = 1 + (int)random_below(&random, FACTORS_MAX);
  s.values = (values)random_below(&random, 2);
  s.where = (where)random_below(&random, 3);
  int family = (int)random_below(&random, 8);
  int64_t few[2] = {1 + random_below(&random, most), 1 + random_below(&random, most)};
  for (int i = 0; i <= s.n; i++) {
    s.dims[i] = 1 + random_below(&random, most);
    if (family == 0) s.dims[i] = few[random_below(&random, 2)];
    if (family == 1) s.dims[i] = random_below(&random, 4) == 0 ? 0 : s.dims[i];
    if (family == 2) s.dims[i] = 1 + random_below(&random, i % 2 == 0 ? 7 * most : 5);
    if (i < s.n) s.ops[i] = (mmc_op)random_below(&random, 3);
  }
  return s;
}

/* Whether a NaN in the first factor must reach a row of the result, and one in the last a column.
 */
static bool nan_must_pass(const problem *p) {
  for (int i = 0; i <= p->shape.n; i++)
    if (p->shape.dims[i] == 0) return false;
  return p->shape.values == REAL && p->shape.n > 1;
}

/* NaN in a row, then in a column besides, and then neither again. */
static bool nan_keeps_to_itself(problem *p, const job *j, uint64_t *random) {
  held *ends[] = {&p->held[0], &p->held[p->shape.n - 1]};
  if (!nan_must_pass(p) || p->held[p->shape.n - 1].same != p->shape.n - 1) return true;
  for (int i = 0; i < p->shape.n; i++)
    if (i > 0 && p->held[i].same == 0) return true;
  poisoned nan = {-1, -1};
  element before[2];
  bool right = true;
  int64_t rows[2], cols[2];
  for (int e = 0; e < 2 && right; e++) {
    rows[e] = random_below(random, ends[e]->rows);
    cols[e] = random_below(random, ends[e]->cols);
    before[e] = element_read(ends[e]->dtype, ends[e]->content + place(ends[e], rows[e], cols[e]));
    held_put(ends[e], rows[e], cols[e], (element){NAN, NAN});
    if (e == 0) nan.row = rows[0];
    if (e == 1) nan.col = cols[1];
    right = held_write(p->on, ends[e]) && execute_with(p, j->run, j->share, false, nan);
  }
  for (int e = 0; e < 2 && right; e++) {
    held_put(ends[e], rows[e], cols[e], before[e]);
    right = held_write(p->on, ends[e]);
  }
  return right && execute(p, j);
}

/* Again and again, with other values in the same place, with NaN. */
static bool try_thoroughly(problem *p, const job *j, uint64_t *random) {
  bool right = problem_know(p);
  for (int64_t t = random_below(random, 4); right && t >= 0; t--)
    right = execute_with(p, j->run, j->share, random_below(random, 2) == 0, (poisoned){-1, -1});
  right = right && nan_keeps_to_itself(p, j, random);
  return right && problem_fill(p, random) && problem_know(p) && execute(p, j) && execute(p, j);
}

static void test_random(const setting *on, int count, int64_t most, uint64_t *random) {
  static const char *const SOLVERS[] = {"auto", "left-to-right", "brute"};
  for (int t = 0; t < count; t++) {
    problem p;
    job j = {0};
    const shape s = random_shape(random_bits(random), most);
    mmc_plan_options options = options_for(on);
    options.solver = SOLVERS[s.n > 6 ? 0 : random_below(random, 3)];
    options.precision = random_below(random, 2) == 0 ? "native" : "faithful";
    options.location = (mmc_location)random_below(random, 2);
    expect(problem_create(on, &s, &p) && job_create(&p, &options, &j) &&
               try_thoroughly(&p, &j, random),
           "a random chain");
    job_destroy(&j);
    problem_destroy(&p);
  }
}

/* Six sets of matrices of one plan, more than are kept as graphs, in any order, and values that
 * change between. */
static void test_sets(const setting *on, int rounds, uint64_t *random) {
  enum { SETS = 6 };
  problem sets[SETS];
  job j = {0};
  shape s = {.dtype = MMC_F32, .n = 5, .dims = {60, 90, 33, 70, 121, 64}, .where = ON_DEVICE};
  mmc_plan_options options = options_for(on);
  options.location = MMC_DEVICE;
  bool right = true;
  for (int t = 0; t < SETS; t++) {
    s.seed = random_bits(random);
    s.values = (values)(t % 2);
    right = problem_create(on, &s, &sets[t]) && problem_know(&sets[t]) && right;
  }
  right = right && job_create(&sets[0], &options, &j);
  for (int t = 0; t < rounds && right; t++) {
    problem *p = &sets[t < 2 * SETS ? t % SETS : (int)random_below(random, SETS)];
    if (random_below(random, 4) == 0) right = problem_fill(p, random) && problem_know(p);
    right = right && execute(p, &j);
  }
  expect(right, "sets of matrices in turns");
  job_destroy(&j);
  for (int t = 0; t < SETS; t++) problem_destroy(&sets[t]);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Many executions on CUDA's default stream before anybody waits; then two runs on it, of which the
 * second reads what the first writes. */
static void test_enqueue(const setting *on, uint64_t *random) {
  const int64_t d = on->small ? 70 : 700;
  const shape s = {.dtype = MMC_F32,
                   .n = 3,
                   .dims = {d, d + 3, d - 5, d + 1},
                   .ops = {MMC_OP_T, MMC_OP_N, MMC_OP_T},
                   .where = ON_DEVICE,
                   .seed = random_bits(random)};
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  bool right = problem_create(on, &s, &p) && job_create(&p, &options, &j) &&
               held_write(on, &p.held[s.n]) && succeeded(on, mmc_wait(j.run), "mmc_wait before");
  for (int t = 0; t < 7 && right; t++) right = succeeded(on, start(&p, j.run, true), "mmc_enqueue");
  right = right && succeeded(on, mmc_wait(j.run), "mmc_wait") &&
          problem_check(&p, 0, (poisoned){-1, -1});
  expect(right && execute(&p, &j), "executions on the default stream");

  mmc_memory *memory = NULL;
  mmc_chain *chains[2] = {NULL, NULL};
  mmc_plan *plans[2] = {NULL, NULL};
  mmc_run *runs[2] = {NULL, NULL};
  const int64_t dims[] = {d, d - 5, d + 1};
  const size_t bytes = (size_t)(dims[0] * dims[1]) * sizeof(float);
  right = right && held_write(on, &p.held[s.n]) &&
          succeeded(on, mmc_memory_create(on->context, on->device, bytes, &memory), "memory") &&
          succeeded(on, mmc_chain_create(on->context, s.dtype, 2, s.dims, s.ops, &chains[0]),
                    "a chain") &&
          succeeded(on,
                    mmc_chain_create(on->context, s.dtype, 2, dims, (mmc_op[]){MMC_OP_N, s.ops[2]},
                                     &chains[1]),
                    "a chain");
  for (int t = 0; t < 2 && right; t++)
    right = succeeded(on, mmc_plan_create(on->context, chains[t], &options, &plans[t]), "a plan") &&
            succeeded(on, mmc_run_create(plans[t], &runs[t]), "a run");
  if (right) {
    const mmc_matrix between = {.data = mmc_memory_address(memory),
                                .rows = dims[0],
                                .cols = dims[1],
                                .location = MMC_DEVICE};
    const mmc_matrix second[] = {between, p.factors[2]};
    for (int t = 0; t < 3 && right; t++)
      right = succeeded(on, mmc_enqueue(runs[0], NULL, p.factors, &between), "the first run") &&
              succeeded(on, mmc_enqueue(runs[1], NULL, second, &p.out), "the second run");
    right = right && succeeded(on, mmc_wait(runs[1]), "mmc_wait") &&
            problem_check(&p, 0, (poisoned){-1, -1}) &&
            succeeded(on, mmc_wait(runs[0]), "mmc_wait");
  }
  expect(right, "two runs on the default stream");
  for (int t = 0; t < 2; t++) {
    mmc_run_destroy(runs[t]);
    mmc_plan_destroy(plans[t]);
    mmc_chain_destroy(chains[t]);
  }
  mmc_memory_destroy(memory);
  job_destroy(&j);
  problem_destroy(&p);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Two panels of 64 x 64 of each kind: enough for any product. */
static uint64_t least_panels_bytes(mmc_dtype dtype) {
  return 6 * 64 * 64 * (uint64_t)mmc_dtype_size(dtype);
}

/* The same matrices with all memory, and with so little that every product passes in panels. */
static bool streamed_is_right(problem *p, uint64_t bytes, uint64_t *random) {
  mmc_plan_options options = options_for(p->on);
  job free_job = {0}, j = {0};
  bool right = problem_know(p) && job_create(p, &options, &free_job) && execute(p, &free_job);
  job_destroy(&free_job);
  options.device_memory_bytes = bytes;
  right = right && job_create(p, &options, &j);
  if (right && p->on->own_memory) right = expect(j.streamed, "little memory is streamed");
  right = right && try_thoroughly(p, &j, random);
  job_destroy(&j);
  return right;
}

static void test_streamed(const setting *on, int count, uint64_t *random) {
  for (int t = 0; t < count; t++) {
    problem p;
    shape s = random_shape(random_bits(random), 10);
    s.n = 2 + (int)random_below(random, on->small ? 2 : 3);
    s.dtype = (mmc_dtype)(t % DTYPES);
    for (int i = 0; i <= s.n; i++) s.dims[i] = 150 + random_below(random, on->small ? 20 : 150);
    const uint64_t least = least_panels_bytes(s.dtype);
    expect(
        problem_create(on, &s, &p) &&
            streamed_is_right(&p, least + (uint64_t)random_below(random, (int64_t)least), random),
        "a streamed chain");
    problem_destroy(&p);
  }
}

/* The numbers that the message names must be true: with so much it fits, with a byte less not. */
static void test_too_little(const setting *on, uint64_t *random) {
  const shape s = {
      .dtype = MMC_F64, .n = 3, .dims = {300, 40, 250, 100}, .seed = random_bits(random)};
  problem p;
  mmc_plan *plan = NULL;
  mmc_plan_options options = options_for(on);
  options.device_memory_bytes = 0;
  mmc_status status = MMC_E_MEMORY_LIMIT;
  expect(problem_create(on, &s, &p), "a chain");
  for (int t = 0; t < 6 && status == MMC_E_MEMORY_LIMIT; t++) {
    char message[512];
    uint64_t given = options.device_memory_bytes;
    status = mmc_plan_create(on->context, p.chain, &options, &plan);
    if (status == MMC_OK) break;
    mmc_context_message(on->context, message, sizeof message);
    const char *need = strstr(message, "need "), *used = strstr(message, " bytes; ");
    const char *missing = strstr(message, "used, ");
    bool right = status == MMC_E_MEMORY_LIMIT && need != NULL && used != NULL && missing != NULL;
    if (right) {
      options.device_memory_bytes = strtoull(need + 5, NULL, 10);
      right = strtoull(used + 8, NULL, 10) == given &&
              strtoull(missing + 6, NULL, 10) == options.device_memory_bytes - given &&
              options.device_memory_bytes > given;
    }
    if (!expect(right, "how much memory is missing is said")) {
      printf("  status %d, given %" PRIu64 ": %s\n", (int)status, given, message);
      break;
    }
  }
  job j = {0};
  expect(status == MMC_OK && options.device_memory_bytes > 0, "as much as asked for is enough");
  if (status == MMC_OK)
    expect(job_create(&p, &options, &j) && j.streamed && execute(&p, &j),
           "a chain in the least memory");
  mmc_plan_destroy(plan);
  options.device_memory_bytes--;
  plan = NULL;
  expect(
      mmc_plan_create(on->context, p.chain, &options, &plan) == MMC_E_MEMORY_LIMIT && plan == NULL,
      "a byte less is not enough");
  job_destroy(&j);
  problem_destroy(&p);
}

/* Less and less workspace, until no order fits. */
static void test_workspace_limit(const setting *on, uint64_t *random) {
  const shape s = {.dtype = MMC_F64,
                   .n = 6,
                   .dims = {160, 150, 200, 140, 210, 130, 190}, /* too large for one call */
                   .where = ANYWHERE,
                   .seed = random_bits(random)};
  problem p;
  mmc_plan_options options = options_for(on);
  mmc_status status = MMC_OK;
  int limits = 0;
  bool right = problem_create(on, &s, &p);
  for (; right && status == MMC_OK && limits < 100; limits++) {
    job j = {0};
    mmc_plan *plan = NULL;
    status = mmc_plan_create(on->context, p.chain, &options, &plan);
    uint64_t bytes = plan != NULL ? mmc_plan_workspace_bytes(plan) : 0;
    mmc_plan_destroy(plan);
    if (status != MMC_OK) break;
    right = bytes <= options.memory_limit_bytes && job_create(&p, &options, &j) && execute(&p, &j);
    job_destroy(&j);
    options.memory_limit_bytes = bytes > 0 ? bytes - 1 : 0;
  }
  char message[512];
  mmc_context_message(on->context, message, sizeof message);
  expect(right && limits > 1 && status == MMC_E_MEMORY_LIMIT && message[0] != '\0',
         "less and less workspace");
  problem_destroy(&p);
}

static void test_memory(const setting *on, uint64_t *random) {
  enum { BYTES = 3000017 };
  mmc_memory *memory = NULL, *empty = NULL;
  unsigned char *content = allocate(BYTES), *copy = allocate(BYTES);
  for (int t = 0; t < BYTES; t++) content[t] = (unsigned char)(t * 31 + t / 251);
  bool right =
      succeeded(on, mmc_memory_create(on->context, on->device, BYTES, &memory), "memory") &&
      succeeded(on, mmc_memory_create(on->context, on->device, 0, &empty), "no memory") &&
      succeeded(on, mmc_memory_write(memory, 0, content, BYTES), "mmc_memory_write");
  if (right) right = (uintptr_t)mmc_memory_address(memory) % 64 == 0;
  for (int t = 0; right && t < 40; t++) {
    size_t at = (size_t)random_below(random, BYTES);
    size_t size = (size_t)random_below(random, (int64_t)(t % 2 == 0 ? 100 : BYTES - at) + 1);
    if (size > BYTES - at) size = BYTES - at;
    for (size_t b = at; b < at + size; b += 1 + b % 7) content[b] = (unsigned char)(b + (size_t)t);
    right = succeeded(on, mmc_memory_write(memory, at, content + at, size), "mmc_memory_write");
    if (t % 8 != 7 || !right) continue;
    right = succeeded(on, mmc_memory_read(memory, 0, copy, BYTES), "mmc_memory_read") &&
            memcmp(copy, content, BYTES) == 0;
    memset(copy, 0, BYTES);
    right = right && succeeded(on, mmc_memory_read(memory, at, copy, size), "mmc_memory_read") &&
            memcmp(copy, content + at, size) == 0;
  }
  expect(right, "memory holds what is written");
  if (right)
    expect(mmc_memory_write(memory, 1, content, BYTES) == MMC_E_ARG &&
               mmc_memory_read(memory, BYTES + 1, copy, 0) == MMC_E_ARG &&
               mmc_memory_read(memory, SIZE_MAX, copy, 2) == MMC_E_ARG &&
               mmc_memory_write(memory, 0, NULL, 1) == MMC_E_ARG &&
               mmc_memory_write(empty, 0, content, 1) == MMC_E_ARG &&
               mmc_memory_write(empty, 0, NULL, 0) == MMC_OK &&
               mmc_memory_read(memory, BYTES, copy, 0) == MMC_OK,
           "what is beyond memory is E_ARG");
  mmc_memory_destroy(memory);
  mmc_memory_destroy(empty);
  /* Tools that check every call take a refusal for an error. */
  memory = NULL;
  if (on->own_memory && !on->small)
    expect(mmc_memory_create(on->context, on->device, (size_t)1 << 50, &memory) == MMC_E_NOMEM &&
               memory == NULL,
           "a pebibyte is E_NOMEM");
  free(content);
  free(copy);
}

/* ---- large matrices -------------------------------------------------------------------------- */

/* Factors and results of more than 32 MiB that come from the host or go there: a product is cut
 * along m, or along k when both factors come for it alone and the result stays. */
static void test_cut(const setting *on, shape s, uint64_t *random) {
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  s.where = PICKED;
  s.seed = random_bits(random);
  for (int i = 0; i < s.n; i++) s.ops[i] = s.shared ? MMC_OP_T : (mmc_op)random_below(random, 3);
  expect(problem_create(on, &s, &p) && job_create(&p, &options, &j) && execute(&p, &j) &&
             execute(&p, &j),
         "large matrices");
  job_destroy(&j);
  problem_destroy(&p);
}

static void test_cuts(const setting *on, uint64_t *random) {
  static const shape THIN[] = {{.dtype = MMC_F32, .n = 2, .dims = {1100, 8200, 2}},
                               {.dtype = MMC_F32, .n = 2, .dims = {2, 4200100, 2}},
                               {.dtype = MMC_C64, .n = 3, .dims = {1, 4200100, 1, 2}}};
  static const shape WIDE[] = {{.dtype = MMC_F64, .n = 2, .dims = {2500, 2100, 2300}},
                               {.dtype = MMC_F32, .n = 3, .dims = {3000, 3100, 2900, 3200}},
                               {.dtype = MMC_F16, .n = 2, .dims = {4100, 4200, 4300}}};
  shape square = {.dtype = MMC_F32, .n = 2, .dims = {4096, 4096, 4096}};
  for (int t = 0; t < 3; t++)
    for (unsigned result = 0; result < 2; result++) {
      shape s = THIN[t];
      s.on_device = result << s.n;
      test_cut(on, s, random);
      if (on->small) continue;
      s = WIDE[t];
      s.on_device = result << s.n;
      test_cut(on, s, random);
    }
  if (on->small) return;
  for (square.on_device = 0; square.on_device < 8; square.on_device++) test_cut(on, square, random);
  square.shared = true;
  for (square.on_device = 0; square.on_device < 8; square.on_device += 4)
    test_cut(on, square, random);
}

static void test_large(const setting *on, uint64_t *random) {
  static const int64_t DIMS[][4] = {{1500, 700, 1900, 1100}, {513, 2049, 1025, 257}};
  for (int t = 0; t < 2 * DTYPES; t++) {
    problem p;
    job j = {0};
    shape s = {.dtype = (mmc_dtype)(t % DTYPES), .n = 3, .where = ANYWHERE};
    s.seed = random_bits(random);
    memcpy(s.dims, DIMS[t / DTYPES], sizeof DIMS[0]);
    for (int i = 0; i < s.n; i++) s.ops[i] = (mmc_op)random_below(random, 3);
    mmc_plan_options options = options_for(on);
    expect(problem_create(on, &s, &p) && job_create(&p, &options, &j) && execute(&p, &j) &&
               execute(&p, &j),
           "a large chain");
    /* The same in an eighth of the memory that the factors take. */
    job_destroy(&j);
    options.device_memory_bytes = (uint64_t)(1100 * 1900) / 4 * mmc_dtype_size(s.dtype);
    expect(job_create(&p, &options, &j) && (j.streamed || !on->own_memory) && execute(&p, &j),
           "a large chain, streamed");
    job_destroy(&j);
    problem_destroy(&p);
  }
}

/* ---- precision ------------------------------------------------------------------------------- */

static void test_precision(const setting *on, uint64_t *random) {
  static const char *const NAMES[] = {"native", "faithful", "fast"};
  for (int t = 0; t < 3 * DTYPES; t++) {
    problem p;
    job j = {0};
    shape s = {.dtype = (mmc_dtype)(t / 3), .n = 3, .values = REAL, .where = ANYWHERE};
    const int64_t d = on->small ? 40 : 250;
    for (int i = 0; i <= s.n; i++) s.dims[i] = d + random_below(random, d);
    s.seed = random_bits(random);
    mmc_plan_options options = options_for(on);
    options.precision = NAMES[t % 3];
    expect(problem_create(on, &s, &p) && problem_know(&p) && job_create(&p, &options, &j) &&
               execute(&p, &j),
           NAMES[t % 3]);
    job_destroy(&j);
    problem_destroy(&p);
  }
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

/* Spoils the matrices in one way of several, and says what the message must name; NULL past the
 * last. */
static const char *spoil(int way, const problem *p, mmc_matrix *factors, mmc_matrix *out) {
  switch (way) {
    case 0:
      factors[1].rows++;
      return "factors[1]";
    case 1:
      factors[2].cols--;
      return "factors[2]";
    case 2:
      out->rows++;
      return "out";
    case 3:
      factors[0].ld = 1;
      return "factors[0]";
    case 4:
      out->ld = -1;
      return "out";
    case 5:
      factors[1].data = NULL;
      return "factors[1]";
    case 6:
      factors[1].data = (char *)factors[1].data + 1;
      return "factors[1]";
    case 7:
      out->layout = (mmc_layout)2;
      return "out";
    case 8:
      factors[2].location = (mmc_location)2;
      return "factors[2]";
    case 9:
      out->data = factors[0].data;
      return "factors[0]";
    case 10:
      factors[1].data = (char *)out->data + mmc_dtype_size(p->shape.dtype) * 3;
      return "factors[1]";
    case 11:
      factors[0].ld = INT64_MAX / 2;
      return "factors[0]";
    default:
      return NULL;
  }
}

/* Refused, with a message; what came before and comes after is right. */
static void test_wrong_matrices(const setting *on, where where, uint64_t *random) {
  const shape s = {.dtype = MMC_F64,
                   .n = 3,
                   .dims = {31, 47, 52, 44},
                   .values = REAL,
                   .where = where,
                   .seed = random_bits(random)};
  problem p;
  job j = {0};
  mmc_plan_options options = options_for(on);
  bool right = problem_create(on, &s, &p) && problem_know(&p) && job_create(&p, &options, &j);
  for (int way = 0; right; way++) {
    mmc_matrix factors[FACTORS_MAX], out = p.out;
    char message[512] = "";
    memcpy(factors, p.factors, sizeof factors);
    const char *name = spoil(way, &p, factors, &out);
    if (name == NULL) break;
    for (int enqueue = 0; enqueue < 2; enqueue++) {
      mmc_status status = enqueue == 1 ? mmc_enqueue(j.run, NULL, factors, &out)
                                       : mmc_execute(j.run, factors, &out);
      mmc_context_message(on->context, message, sizeof message);
      if (expect(status == MMC_E_ARG && strstr(message, name) != NULL, "wrong matrices are E_ARG"))
        continue;
      printf("  way %d, status %d: %s\n", way, (int)status, message);
    }
    right = execute(&p, &j);
  }
  if (right)
    expect(mmc_execute(j.run, NULL, &p.out) == MMC_E_ARG &&
               mmc_execute(j.run, p.factors, NULL) == MMC_E_ARG &&
               mmc_enqueue(j.run, NULL, NULL, &p.out) == MMC_E_ARG &&
               mmc_enqueue(j.run, NULL, p.factors, NULL) == MMC_E_ARG &&
               mmc_execute(NULL, p.factors, &p.out) == MMC_E_ARG && mmc_wait(NULL) == MMC_E_ARG,
           "NULL is E_ARG");
  expect(right && execute(&p, &j) && execute(&p, &j), "wrong matrices leave a run as it was");
  job_destroy(&j);
  problem_destroy(&p);
}

static void test_wrong_options(const setting *on) {
  static const struct {
    const char *device, *precision, *solver;
    int location;
    mmc_status status;
    const char *named;
  } CASES[] = {{"cuda:x", NULL, NULL, 0, MMC_E_ARG, "device"},
               {"cuda:", NULL, NULL, 0, MMC_E_ARG, "device"},
               {"cuda:9999", NULL, NULL, 0, MMC_E_UNSUPPORTED, "cuda:9999"},
               {NULL, "exact", NULL, 0, MMC_E_ARG, "precision"},
               {NULL, NULL, "best", 0, MMC_E_ARG, "solver"},
               {NULL, NULL, NULL, 7, MMC_E_ARG, "location"}};
  mmc_chain *chain = NULL;
  if (!expect(mmc_chain_parse(on->context, "f32:3x4x5", &chain) == MMC_OK, "a chain")) return;
  for (size_t t = 0; t < sizeof CASES / sizeof *CASES; t++) {
    char message[512];
    mmc_plan *plan = NULL;
    mmc_plan_options options = options_for(on);
    if (CASES[t].device != NULL) options.device = CASES[t].device;
    options.precision = CASES[t].precision;
    options.solver = CASES[t].solver;
    options.location = (mmc_location)CASES[t].location;
    mmc_status status = mmc_plan_create(on->context, chain, &options, &plan);
    mmc_context_message(on->context, message, sizeof message);
    if (!expect(
            status == CASES[t].status && plan == NULL && strstr(message, CASES[t].named) != NULL,
            "wrong options are refused"))
      printf("  case %zu, status %d: %s\n", t, (int)status, message);
    mmc_plan_destroy(plan);
  }
  mmc_memory *memory = NULL;
  expect(mmc_memory_create(on->context, "cuda:9999", 8, &memory) == MMC_E_UNSUPPORTED &&
             mmc_memory_create(on->context, "gpu", 8, &memory) == MMC_E_ARG &&
             mmc_memory_create(on->context, on->device, 8, NULL) == MMC_E_ARG && memory == NULL,
         "memory of no device is refused");
  mmc_chain_destroy(chain);
  mmc_memory_destroy(NULL);
  mmc_run_destroy(NULL);
  mmc_plan_destroy(NULL);
}

/* ---- many ------------------------------------------------------------------------------------ */

/* How much memory a plan may use, a share of what is free; 0 where the device has none of its own.
 * The plan of a chain that fits nowhere tells. */
static uint64_t usable_bytes(const setting *on) {
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  const mmc_plan_options options = options_for(on);
  uint64_t bytes = 0;
  if (succeeded(on, mmc_chain_parse(on->context, "f32:1000000x1000000x1000000", &chain),
                "a huge chain") &&
      succeeded(on, mmc_plan_create(on->context, chain, &options, &plan), "a huge plan")) {
    char *told = explained(on, plan, MMC_TEXT, "all at once would take ");
    const char *at = strstr(told, "bytes, ");
    if (at != NULL) bytes = strtoull(at + 7, NULL, 10);
    free(told);
  }
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return bytes;
}

/* Plans and runs come and go, and leave no memory taken. */
static void test_many(const setting *on, int count, uint64_t *random) {
  enum { WARM = 12, LOST = 64 << 20 };
  problem p[2];
  uint64_t before = 0;
  bool right = true;
  for (int t = 0; t < 2; t++) {
    shape s = {.dtype = MMC_F32, .n = 3, .dims = {130, 140, 150, 131}, .seed = random_bits(random)};
    s.where = t == 0 ? ON_DEVICE : ON_HOST;
    right = problem_create(on, &s, &p[t]) && right;
  }
  for (int t = 0; t < WARM + count && right; t++) {
    const problem *one = &p[t / 4 % 2];
    job j = {0};
    mmc_plan_options options = options_for(on);
    if (t == WARM) before = usable_bytes(on);
    if (t % 4 == 3) options.device_memory_bytes = least_panels_bytes(MMC_F32);
    right = job_create(one, &options, &j) && execute(one, &j);
    job_destroy(&j);
  }
  const uint64_t after = usable_bytes(on);
  expect(right, "many plans and runs");
  if (!expect(after + LOST >= before && (after > 0) == on->own_memory,
              "many plans and runs leave no memory taken"))
    printf("  %" PRIu64 " bytes before, %" PRIu64 " after\n", before, after);
  for (int t = 0; t < 2; t++) problem_destroy(&p[t]);
}

/* ---- threads, contexts, devices -------------------------------------------------------------- */

typedef struct worker {
  const setting *on;
  const mmc_plan *plan;
  problem *problem;
  double share;
  int rounds;
  bool right;
} worker;

static void *work(void *user) {
  worker *me = user;
  mmc_run *run = NULL;
  bool right = succeeded(me->on, mmc_run_create(me->plan, &run), "a thread's run");
  for (int t = 0; t < me->rounds && right; t++)
    right = execute_with(me->problem, run, me->share, t % 3 == 2, (poisoned){-1, -1});
  mmc_run_destroy(run);
  me->right = right;
  return NULL;
}

/* Two threads, each with a run and matrices of its own; of one plan where the settings are one. */
static void test_two(const setting *first, const setting *second, const char *what,
                     uint64_t *random) {
  const setting *ons[] = {first, second};
  problem p[2];
  job jobs[2] = {{0}, {0}};
  worker workers[2];
  pthread_t threads[2];
  bool right = true;
  for (int t = 0; t < 2; t++) {
    shape s = {.dtype = MMC_C64, .n = 4, .dims = {90, 140, 60, 133, 99}, .values = REAL};
    s.where = t == 0 ? ON_DEVICE : ANYWHERE;
    s.seed = random_bits(random);
    const mmc_plan_options options = options_for(ons[t]);
    right = problem_create(ons[t], &s, &p[t]) && problem_know(&p[t]) && right;
    right = right && job_create(&p[t], &options, &jobs[t]);
    const job *of = first == second ? &jobs[0] : &jobs[t];
    workers[t] = (worker){ons[t], of->plan, &p[t], of->share, first->small ? 4 : 40, false};
  }
  int started = 0;
  while (right && started < 2 &&
         pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
    started++;
  for (int t = 0; t < started; t++) pthread_join(threads[t], NULL);
  right = right && started == 2 && workers[0].right && workers[1].right;
  /* One thread in turns, so that the current device must change. */
  for (int t = 0; t < 6 && right; t++) right = execute(&p[t % 2], &jobs[t % 2]);
  expect(right, what);
  for (int t = 0; t < 2; t++) {
    job_destroy(&jobs[t]);
    problem_destroy(&p[t]);
  }
}

static mmc_status context_create(const char *module_dir, mmc_context **out) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.module_dir = module_dir;
  options.wisdom_path = "";
  return mmc_context_create(&options, out);
}

/* A second context works beside the first, which outlives it; and so once more. */
static void test_contexts(const setting *on, uint64_t *random) {
  for (int t = 0; t < 2; t++) {
    setting second = *on;
    if (!expect(context_create(on->module_dir, &second.context) == MMC_OK, "a second context"))
      return;
    test_two(on, &second, "two contexts", random);
    mmc_context_destroy(second.context);
    test_random(on, 2, 60, random);
  }
}

/* Whether a device is there; what stands in for it in the list says why not. */
static bool find_device(mmc_context *context, const char *name, char *why, size_t size) {
  mmc_device_info info;
  const size_t kind = strcspn(name, ":");
  snprintf(why, size, "there is no such device");
  for (int d = 0; mmc_device_describe(context, d, &info) == MMC_OK; d++) {
    bool same = strcmp(info.name, name) == 0;
    if (same || (!info.available && strncmp(info.name, name, kind) == 0))
      snprintf(why, size, "%s", info.description);
    if (same) return info.available;
  }
  return false;
}

static void test_devices(const setting *on, uint64_t *random) {
  char why[512];
  setting second = *on;
  second.device = "cuda:1";
  if (!find_device(on->context, second.device, why, sizeof why)) {
    printf("no second GPU: two are not tested (%s)\n", why);
    return;
  }
  test_two(on, &second, "two devices", random);
  test_random(&second, on->small ? 2 : 20, 150, random);
  test_streamed(&second, 2, random);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say(const char *what, double *since) {
  double end = now();
  printf("%-20s %6.2f s\n", what, end - *since);
  fflush(stdout);
  *since = end;
}

static void test_all(const setting *on, uint64_t seed) {
  uint64_t random = seed;
  double since = now();
  test_random(on,
              on->race    ? 3
              : on->small ? 10
                          : 250,
              on->race    ? 40
              : on->small ? 80
                          : 200,
              &random);
  say("random chains", &since);
  test_sets(on, on->race ? 8 : on->small ? 16 : 80, &random);
  test_enqueue(on, &random);
  say("sets, streams", &since);
  if (on->race) return;
  test_streamed(on, on->small ? 3 : 48, &random);
  if (on->own_memory) test_too_little(on, &random);
  test_workspace_limit(on, &random);
  test_memory(on, &random);
  say("memory", &since);
  test_precision(on, &random);
  test_wrong_matrices(on, ON_HOST, &random);
  test_wrong_matrices(on, ON_DEVICE, &random);
  test_wrong_options(on);
  say("precision, arguments", &since);
  test_many(on, on->small ? 100 : 1000, &random);
  say("many plans", &since);
  test_two(on, on, "two threads, one plan", &random);
  test_contexts(on, &random);
  test_devices(on, &random);
  say("threads, contexts", &since);
  test_cuts(on, &random);
  if (!on->small) test_large(on, &random);
  say("large matrices", &since);
}

/* A module that cannot be loaded, or is of another build, is no reason to skip. */
static bool module_is_sound(const char *path, const char *why) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) {
    printf("FAILED: %s\n", dlerror());
    return false;
  }
  dlclose(module);
  if (strstr(why, "mmchain-cuda.so") == NULL) return true;
  printf("FAILED: %s\n", why);
  return false;
}

int main(int argc, char **argv) {
  static const uint64_t SEED = 20261121;
  if (argc < 2) {
    printf("usage: %s MODULE [small | race | full [DEVICE]]\n", argv[0]);
    return 2;
  }
  const char *mode = argc > 2 ? argv[2] : "full", *slash = strrchr(argv[1], '/');
  char module_dir[4096], why[512];
  snprintf(module_dir, sizeof module_dir, "%.*s", slash != NULL ? (int)(slash - argv[1]) : 1,
           slash != NULL ? argv[1] : ".");
  setting on = {.module_dir = module_dir, .device = argc > 3 ? argv[3] : "cuda:0"};
  on.race = strcmp(mode, "race") == 0;
  on.small = on.race || strcmp(mode, "small") == 0;
  on.own_memory = strncmp(on.device, "cuda", 4) == 0;
  if (context_create(module_dir, &on.context) != MMC_OK) {
    printf("FAILED: no context\n");
    return 1;
  }
  if (!find_device(on.context, on.device, why, sizeof why)) {
    bool sound = !on.own_memory || module_is_sound(argv[1], why);
    if (sound) printf("skipped: %s: %s\n", on.device, why);
    mmc_context_destroy(on.context);
    return sound ? TEST_SKIPPED : 1;
  }
  printf("%s: %s\nseed %" PRIu64 "\n", on.device, why, SEED);
  test_all(&on, SEED);
  mmc_context_destroy(on.context);
  if (on.small && on.own_memory) expect_context_ends();
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
