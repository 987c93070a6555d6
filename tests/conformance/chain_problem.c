#include "chain_problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

mmc_status context_create(const char *module_dir, mmc_context **out) {
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.module_dir = module_dir;
  options.wisdom_path = "";
  return mmc_context_create(&options, out);
}

void with_setting(const subject *subject, void (*test)(const setting *on)) {
  setting on = {.module_dir = subject->module_dir,
                .device = subject->name,
                .own_memory = has_own_memory(subject),
                .small = subject->small,
                .race = subject->race};
  for (int dtype = 0; dtype < DTYPES; dtype++)
    on.dtypes[dtype] = supports_dtype(subject, (mmc_dtype)dtype);
  if (!expect(context_create(on.module_dir, &on.context) == MMC_OK, "a context")) return;
  test(&on);
  mmc_context_destroy(on.context);
}

bool succeeded(const setting *on, mmc_status status, const char *what) {
  char text[512];
  if (status == MMC_OK) return true;
  printf("  %s: status %d: %s\n", what, (int)status,
         mmc_context_message(on->context, text, sizeof text));
  return false;
}

void *allocate(size_t size) {
  void *memory = calloc(1, size + 1);
  if (memory != NULL) return memory;
  printf("FAILED: the test is out of memory\n");
  exit(1);
}

/* ---- matrices -------------------------------------------------------------------------------- */

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

/* Sets element (r, c) of op(A) as it must be. */
static void held_put(held *h, int64_t r, int64_t c, element value) {
  element_write(h->dtype, h->content + place(h, r, c), value);
}

static element held_content(const held *h, int64_t r, int64_t c) {
  return element_read(h->dtype, h->content + place(h, r, c));
}

/* Content to the room. */
bool held_write(const setting *on, const held *h) {
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

static int to_stdout(void *user, const char *bytes, size_t size) {
  (void)user;
  return fwrite(bytes, 1, size, stdout) == size ? 0 : -1;
}

/* Prints the chain and where its matrices lie. */
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

bool problem_fill(problem *p, uint64_t *random) {
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

bool problem_create(const setting *on, const shape *s, problem *p) {
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

void problem_destroy(problem *p) {
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
bool problem_know(problem *p) {
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
bool problem_check(const problem *p, double share, poisoned nan) {
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
char *explained(const setting *on, const mmc_plan *plan, mmc_format format, const char *name) {
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

bool job_create(const problem *p, const mmc_plan_options *options, job *j) {
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

void job_destroy(job *j) {
  mmc_run_destroy(j->run);
  mmc_plan_destroy(j->plan);
}

mmc_plan_options options_for(const setting *on) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = on->device;
  return options;
}

mmc_status start(const problem *p, mmc_run *run, bool enqueue) {
  return enqueue ? mmc_enqueue(run, NULL, p->factors, &p->out)
                 : mmc_execute(run, p->factors, &p->out);
}

/* One execution into NaN, checked. */
bool execute_with(const problem *p, mmc_run *run, double share, bool enqueue, poisoned nan) {
  const setting *on = p->on;
  bool right = held_write(on, &p->held[p->shape.n]) &&
               succeeded(on, start(p, run, enqueue), "an execution") &&
               (!enqueue || succeeded(on, mmc_wait(run), "mmc_wait")) &&
               problem_check(p, share, nan);
  if (!right) problem_describe(p);
  return right;
}

bool execute(const problem *p, const job *j) {
  return execute_with(p, j->run, j->share, false, (poisoned){-1, -1});
}

/* ---- random chains --------------------------------------------------------------------------- */

shape random_shape(const setting *on, uint64_t seed, int64_t most) {
  uint64_t random = seed;
  shape s = {.seed = seed};
  do s.dtype = (mmc_dtype)random_below(&random, DTYPES);
  while (!on->dtypes[s.dtype]);
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

/* Says whether a NaN in the first factor must reach a row of the result, and one in the last a
 * column.
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
    before[e] = held_content(ends[e], rows[e], cols[e]);
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
bool try_thoroughly(problem *p, const job *j, uint64_t *random) {
  bool right = problem_know(p);
  for (int64_t t = random_below(random, 4); right && t >= 0; t--)
    right = execute_with(p, j->run, j->share, random_below(random, 2) == 0, (poisoned){-1, -1});
  right = right && nan_keeps_to_itself(p, j, random);
  return right && problem_fill(p, random) && problem_know(p) && execute(p, j) && execute(p, j);
}

void test_random_chains(const setting *on, int count, int64_t most, uint64_t *random) {
  static const char *const SOLVERS[] = {"auto", "left-to-right", "brute"};
  for (int t = 0; t < count; t++) {
    problem p;
    job j = {0};
    const shape s = random_shape(on, random_bits(random), most);
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
