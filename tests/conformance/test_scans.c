/* test_scans.c: running products and recurrences on a device, against left to right in float64.
 *
 * Factors have elements of one sign, or one phase where they are complex, so that a state is as
 * large as the product of absolute values. To that, an element may be off by an epsilon for every
 * term summed on the way and every product that is rounded (Higham 2002, section 3.1), in whatever
 * order the products are taken. Operands lie in any layout, with gaps, on the host or on the
 * device; everything between and around the results stays as it was. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../complex_number.h"
#include "../elements.h"
#include "../how_many.h"
#include "../random.h"
#include "../run/fake_device.h"
#include "devices.h"
#include "scan/running.h"

static const uint64_t seed = 230023;
enum { GUARD = 256, POISON = 0xff };

/* ---- operands -------------------------------------------------------------------------------- */

/* Matrices of one operand: bytes here and, where they are on the device, there. */
typedef struct block {
  size_t bytes;
  unsigned char *host, *before, *device;
  mmc_matrix matrix;
  int64_t step, count;
} block;

static void must(bool held, const char *what) {
  if (expect(held, what)) return;
  printf("seed %" PRIu64 "\n", seed);
  exit(1);
}

static void move(const subject *on, const block *x, bool there) {
  mmci_error error;
  const mmci_transfer all = {.to = there ? x->device : x->host,
                             .from = there ? x->host : x->device,
                             .lines = 1,
                             .line_bytes = (int64_t)x->bytes};
  must(on->ops->async != NULL, "a device without memory of its own");
  must((there ? on->ops->async->upload : on->ops->async->download)(on->queue, &all, &error) ==
               MMC_OK &&
           on->ops->sync(on->queue, &error) == MMC_OK,
       "a transfer");
}

/* Lays matrices out at random, one axis of steps within the other; all bytes are poison. */
static block lay_out(const subject *on, mmc_dtype dtype, int64_t rows, int64_t cols, int64_t count,
                     int64_t batch, mmc_location location, uint64_t *random) {
  block x = {.count = count};
  mmc_matrix *m = &x.matrix;
  *m = (mmc_matrix){.rows = rows, .cols = cols, .location = location};
  m->layout = random_below(random, 3) == 0 ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
  const int64_t length = m->layout == MMC_ROW_MAJOR ? cols : rows;
  const int64_t lines = m->layout == MMC_ROW_MAJOR ? rows : cols;
  const bool tight = random_below(random, 2) == 0;
  m->ld = length + (tight ? 0 : random_below(random, 4));
  const int64_t one = m->ld * lines + (tight ? 0 : random_below(random, 3));
  const bool inner = random_below(random, 3) > 0;
  x.step = inner ? one : one * batch;
  m->stride = inner ? one * count : one;
  x.bytes = (size_t)(one * count * batch) * mmc_dtype_size(dtype) + 2 * GUARD;
  x.host = malloc(x.bytes);
  x.before = malloc(x.bytes);
  must(x.host != NULL && x.before != NULL, "memory");
  memset(x.host, POISON, x.bytes);
  x.device = x.host;
  if (location == MMC_DEVICE && on->ops->async != NULL) {
    void *memory = NULL;
    mmci_error error;
    must(on->ops->alloc(on->device, x.bytes, &memory, &error) == MMC_OK, "memory of the device");
    x.device = memory;
  }
  m->data = x.device + GUARD;
  return x;
}

static void let_go(const subject *on, block *x) {
  if (x->device != x->host) on->ops->dealloc(on->device, x->device);
  free(x->host);
  free(x->before);
}

/* Returns where element (r, c) of matrix t of scan b lies on the host. */
static unsigned char *element_at(const block *x, mmc_dtype dtype, int64_t b, int64_t t, int64_t r,
                                 int64_t c) {
  const mmc_matrix *m = &x->matrix;
  const int64_t place = m->layout == MMC_ROW_MAJOR ? r * m->ld + c : c * m->ld + r;
  return x->host + GUARD + (size_t)(b * m->stride + t * x->step + place) * mmc_dtype_size(dtype);
}

/* Fills matrices with numbers from 0 to `most`, those of a matrix in one direction. */
static void fill(const block *x, mmc_dtype dtype, int64_t batch, double most, uint64_t *random) {
  static const element directions[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < x->count; t++) {
      const element way = directions[random_below(random, mmci_dtype_is_complex(dtype) ? 4 : 2)];
      for (int64_t r = 0; r < x->matrix.rows; r++)
        for (int64_t c = 0; c < x->matrix.cols; c++) {
          const double size = most * (0.5 + 0.5 * random_unit(random));
          element_write(dtype, element_at(x, dtype, b, t, r, c),
                        (element){way.re * size, way.im * size});
        }
    }
}

/* ---- left to right in float64 ---------------------------------------------------------------- */

/* A state, and the one whose operands are the absolute values. */
typedef struct value {
  double complex sum;
  double size;
} value;

static value read_value(const block *x, mmc_dtype dtype, int64_t b, int64_t t, int64_t r,
                        int64_t c) {
  const element e = element_read(dtype, element_at(x, dtype, b, t, r, c));
  return (value){CMPLX(e.re, e.im), fabs(e.re) + fabs(e.im)};
}

typedef struct trial {
  mmci_running_problem problem;
  mmci_running_way way;
  block factors, initial, addend, out;
} trial;

static int64_t cols_of(const trial *x) {
  return x->problem.columns > 0 ? x->problem.columns : x->problem.n;
}

/* Multiplies the state of scan b by factor t, on the side where it belongs. */
static void step(const trial *x, int64_t b, int64_t t, const value *state, value *next) {
  const mmci_running_problem *p = &x->problem;
  const int64_t n = p->n, cols = cols_of(x);
  const bool left = p->reverse || p->columns > 0;
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < cols; c++) {
      value sum = {0, 0};
      if (p->addend) sum = read_value(&x->addend, p->dtype, b, t, r, c);
      for (int64_t k = 0; k < n; k++) {
        const value a = left ? read_value(&x->factors, p->dtype, b, t, r, k)
                             : read_value(&x->factors, p->dtype, b, t, k, c);
        const value s = left ? state[k * cols + c] : state[r * cols + k];
        sum.sum += a.sum * s.sum;
        sum.size += a.size * s.size;
      }
      next[r * cols + c] = sum;
    }
}

/* Says whether the result at t is the state after so many factors. */
static bool is_near(const trial *x, int64_t b, int64_t t, int64_t after, const value *state) {
  const mmci_running_problem *p = &x->problem;
  const struct dtype_facts *facts = &dtype_facts[p->dtype];
  const double each = (double)(p->n + 2) * facts->sum_epsilon + 2 * facts->epsilon;
  /* A complex product has four terms, in a sum of absolute values that is twice as large. */
  const double relative = (double)(after + 1) * each * (mmci_dtype_is_complex(p->dtype) ? 4 : 1);
  for (int64_t r = 0; r < p->n; r++)
    for (int64_t c = 0; c < cols_of(x); c++) {
      const value want = state[r * cols_of(x) + c];
      const value got = read_value(&x->out, p->dtype, b, t, r, c);
      const double tolerance = relative * want.size + (double)(p->n * (after + 1)) * facts->least;
      if (cabs(got.sum - want.sum) <= tolerance) continue;
      if (isnan(creal(want.sum)) && isnan(creal(got.sum))) continue;
      printf("%s n %" PRId64 " length %" PRId64 " batch %" PRId64 " columns %" PRId64
             " reverse %d exclusive %d initial %d addend %d way %d: scan %" PRId64
             " result %" PRId64 " (%" PRId64 ", %" PRId64
             "): %g + %gi, expected %g + %gi within %g\n",
             facts->name, p->n, p->length, p->batch, p->columns, p->reverse, p->exclusive,
             p->initial, p->addend, (int)x->way, b, t, r, c, creal(got.sum), cimag(got.sum),
             creal(want.sum), cimag(want.sum), tolerance);
      return false;
    }
  return true;
}

static void start(const trial *x, int64_t b, value *state) {
  const mmci_running_problem *p = &x->problem;
  for (int64_t r = 0; r < p->n; r++)
    for (int64_t c = 0; c < cols_of(x); c++)
      state[r * cols_of(x) + c] =
          p->initial ? read_value(&x->initial, p->dtype, b, 0, r, c) : (value){r == c, r == c};
}

static bool check_scan(const trial *x, int64_t b) {
  const mmci_running_problem *p = &x->problem;
  const size_t elements = (size_t)(p->n * cols_of(x));
  value *state = calloc(2 * elements + 1, sizeof *state), *next = state + elements;
  bool holds = state != NULL;
  if (holds) start(x, b, state);
  for (int64_t i = 0; i < p->length && holds; i++) {
    const int64_t t = p->reverse ? p->length - 1 - i : i;
    if (p->exclusive) holds = is_near(x, b, t, i, state);
    step(x, b, t, state, next);
    memcpy(state, next, elements * sizeof *state);
    if (!p->exclusive) holds = is_near(x, b, t, i + 1, state);
  }
  free(state);
  return holds;
}

/* ---- one trial ------------------------------------------------------------------------------- */

static trial make_trial(const subject *on, const mmci_running_problem *problem,
                        mmci_running_way way, bool on_device, uint64_t *random) {
  trial x = {.problem = *problem, .way = way};
  const mmci_running_problem *p = &x.problem;
  const int64_t n = p->n, cols = cols_of(&x);
  const mmc_location where = on_device ? MMC_DEVICE : MMC_HOST;
  x.factors = lay_out(on, p->dtype, n, n, p->length, p->batch, where, random);
  x.initial = lay_out(on, p->dtype, n, cols, 1, p->batch, where, random);
  x.addend = lay_out(on, p->dtype, n, cols, p->length, p->batch, where, random);
  x.out = lay_out(on, p->dtype, n, cols, p->length, p->batch, where, random);
  fill(&x.factors, p->dtype, p->batch, n > 0 ? 2.0 / (double)n : 1, random);
  fill(&x.initial, p->dtype, p->batch, 1, random);
  fill(&x.addend, p->dtype, p->batch, 1, random);
  return x;
}

static void free_trial(const subject *on, trial *x) {
  let_go(on, &x->factors);
  let_go(on, &x->initial);
  let_go(on, &x->addend);
  let_go(on, &x->out);
}

static mmc_scan_operands operands_of(const trial *x) {
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = x->factors.matrix;
  operands.factors_step = x->factors.step;
  operands.initial = x->initial.matrix;
  operands.addend = x->addend.matrix;
  operands.addend_step = x->addend.step;
  operands.out = x->out.matrix;
  operands.out_step = x->out.step;
  return operands;
}

/* Says whether everything but results is as it was. */
static bool is_intact(trial *x) {
  const mmci_running_problem *p = &x->problem;
  const size_t size = mmc_dtype_size(p->dtype);
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t t = 0; t < p->length; t++)
      for (int64_t r = 0; r < p->n; r++)
        for (int64_t c = 0; c < cols_of(x); c++)
          memset(element_at(&x->out, p->dtype, b, t, r, c), POISON, size);
  for (size_t i = 0; i < x->out.bytes; i++)
    if (x->out.host[i] != POISON) return false;
  return true;
}

static void compute(const subject *on, trial *x) {
  const mmci_opened opened = {.ops = on->ops, .device = on->device, .name = on->name};
  const bool moved = x->out.device != x->out.host;
  block *blocks[] = {&x->factors, &x->initial, &x->addend, &x->out};
  mmci_running *running;
  mmci_error error = {0};
  for (int i = 0; i < 4 && moved; i++) move(on, blocks[i], true);
  mmc_status status = mmci_running_create(&x->problem, &opened, x->way, &running, &error);
  if (!expect_ok(status, &error, "mmci_running_create")) exit(1);
  const mmc_scan_operands operands = operands_of(x);
  /* The second time nothing is prepared, and the results are the same. */
  for (int i = 0; i < 2 && status == MMC_OK; i++) {
    status = mmci_running_execute(running, &operands, &error);
    if (!expect_ok(status, &error, "mmci_running_execute")) exit(1);
    if (moved) move(on, &x->out, false);
    if (i == 0) memcpy(x->out.before, x->out.host, x->out.bytes);
  }
  must(memcmp(x->out.before, x->out.host, x->out.bytes) == 0, "the same bits again");
  mmci_running_destroy(running);
}

static void check_trial(const subject *on, const mmci_running_problem *problem,
                        mmci_running_way way, bool on_device, uint64_t *random) {
  trial x = make_trial(on, problem, way, on_device, random);
  compute(on, &x);
  bool holds = true;
  for (int64_t b = 0; b < problem->batch && holds; b++) holds = check_scan(&x, b);
  if (on->is_fake) must(fake_fault(on->device)[0] == '\0', fake_fault(on->device));
  must(holds, "results as left to right");
  must(is_intact(&x), "nothing but results is written");
  free_trial(on, &x);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static mmc_dtype any_dtype(const subject *on, uint64_t *random) {
  for (;;) {
    const mmc_dtype dtype = (mmc_dtype)random_below(random, DTYPES);
    if (supports_dtype(on, dtype)) return dtype;
  }
}

static mmci_running_way any_way(const mmci_running_problem *p, uint64_t *random) {
  const int64_t way = random_below(random, 4);
  if (way == 0) return MMCI_RUNNING_STEPS;
  return way == 1 && p->columns == 0 ? MMCI_RUNNING_LEVELS : MMCI_RUNNING_AUTO;
}

static void random_scans(const subject *on) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 33, 64, 70, 100};
  static const int64_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 129};
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  const int trials = on->small ? 40 : how_many(20, 400);
  for (int i = 0; i < trials; i++) {
    mmci_running_problem p = {.dtype = any_dtype(on, &random),
                              .n = sizes[random_below(&random, 15)],
                              .length = lengths[random_below(&random, 17)],
                              .batch = random_below(&random, 5),
                              .reverse = random_below(&random, 2) == 0,
                              .exclusive = random_below(&random, 3) == 0,
                              .initial = random_below(&random, 2) == 0};
    if (random_below(&random, 3) == 0) {
      p.columns = 1 + random_below(&random, 5);
      p.initial = true;
      p.addend = random_below(&random, 2) == 0;
    }
    if (p.n > 20 && p.length > 33) p.length = 33;
    check_trial(on, &p, any_way(&p, &random), random_below(&random, 2) == 0, &random);
  }
}

/* Says whether scans are fewer and shorter than a GPU has to see. */
static bool is_few(const subject *on) {
  return on->small || on->is_fake || !(on->is_cuda || is_in_full());
}

/* More scans than threads, where not as many as a GPU has multiprocessors. */
static int64_t several(const subject *on, int64_t many) {
  return on->small || on->is_fake ? 3 : is_few(on) ? 7 : many;
}

/* Lengths at which blocks begin and end elsewhere. The fake device's time is that of pairs of its
 * operations. */
static void long_scans(const subject *on) {
  const int64_t lengths[] = {on->is_fake ? how_many(255, 1023) : 1023, 1024, 1025, 20000};
  static const int64_t sizes[] = {2, 4, 8, 16};
  uint64_t random = seed;
  for (int s = 0; s < 4; s++)
    for (int i = 0; i < (on->small || on->is_fake ? 1 : 4); i++) {
      if (lengths[i] * sizes[s] > 100000) continue;
      mmci_running_problem p = {
          .dtype = i % 2 == 0 ? MMC_F64 : MMC_F32, .n = sizes[s], .length = lengths[i], .batch = 1};
      if (!supports_dtype(on, p.dtype)) continue;
      for (int r = 0; r < 6; r++) { /* the last two are recurrences */
        p.reverse = r % 2 == 1;
        p.initial = r >= 2;
        p.exclusive = r == 1;
        p.columns = r >= 4 ? 1 : 0;
        p.addend = r == 5;
        check_trial(on, &p, MMCI_RUNNING_AUTO, r == 2, &random);
      }
    }
}

/* Scans that are more than a GPU's multiprocessors, and fewer that are long together. */
static void many_scans(const subject *on) {
  uint64_t random = seed;
  for (int i = 0; i < 8; i++) {
    mmci_running_problem p = {.dtype = i % 2 == 0 ? MMC_F32 : MMC_F64,
                              .n = i % 4 < 2 ? 16 : 12,
                              .length = i < 4 ? 2 + 7 * i : 1 + i,
                              .batch = several(on, 500),
                              .reverse = i % 3 == 1,
                              .exclusive = i % 3 == 2,
                              .initial = i % 4 > 1};
    if (supports_dtype(on, p.dtype))
      check_trial(on, &p, MMCI_RUNNING_AUTO, random_below(&random, 2) == 0, &random);
  }
  mmci_running_problem few = {.dtype = MMC_F32, .n = 12, .length = 1025, .batch = 60};
  if (is_few(on)) few.batch = 1;
  if (supports_dtype(on, few.dtype)) check_trial(on, &few, MMCI_RUNNING_AUTO, true, &random);
}

/* Scans that are more than a GPU's multiprocessors but too few for a warp each, and those of wide
 * matrices in more tiles than one level takes. */
static void scans_in_parts(const subject *on) {
  static const int64_t sizes[] = {16, 12, 13, 16, 9, 14};
  uint64_t random = seed;
  for (int i = 0; i < 12; i++) {
    const mmci_running_problem p = {.dtype = i % 4 < 2 ? MMC_F32 : MMC_F64,
                                    .n = sizes[i % 6],
                                    .length = 97 + i,
                                    .batch = several(on, 200),
                                    .reverse = i % 5 == 1,
                                    .exclusive = i % 5 == 2,
                                    .initial = i % 5 == 3};
    if (supports_dtype(on, p.dtype))
      check_trial(on, &p, MMCI_RUNNING_AUTO, random_below(&random, 2) == 0, &random);
  }
  for (int i = 0; i < 6; i++) {
    const mmci_running_problem p = {.dtype = MMC_F32,
                                    .n = i % 2 == 0 ? 64 : 32,
                                    .length = is_few(on) ? 20 : 299 + i,
                                    .batch = 1 + i / 4,
                                    .initial = i % 3 == 1};
    if (supports_dtype(on, p.dtype)) check_trial(on, &p, MMCI_RUNNING_AUTO, true, &random);
  }
}

/* NaN in one factor is in all results that hold it, and in no others. */
static void nan_poisons_what_holds_it(const subject *on) {
  enum { N = 4 };
  const int64_t length = on->is_fake ? how_many(200, 1000) : 1000;
  uint64_t random = seed;
  for (int i = 0; i < 12; i++) {
    mmci_running_problem p = {
        .dtype = MMC_F64, .n = N, .length = length, .batch = 1, .reverse = i % 2 == 1};
    const mmci_running_way way = i % 3 == 2 ? MMCI_RUNNING_LEVELS : MMCI_RUNNING_AUTO;
    trial x = make_trial(on, &p, way, i % 4 == 0, &random);
    const int64_t bad = random_below(&random, length), c = random_below(&random, N);
    for (int64_t r = 0; r < N; r++)
      element_write(p.dtype, element_at(&x.factors, p.dtype, 0, bad, r, c),
                    (element){(double)NAN, 0});
    compute(on, &x);
    bool exact = true;
    for (int64_t t = 0; t < length; t++) {
      const bool holds = p.reverse ? t <= bad : t >= bad;
      bool any = false;
      for (int64_t e = 0; e < N * N; e++)
        any = any || isnan(creal(read_value(&x.out, p.dtype, 0, t, e / N, e % N).sum));
      exact = exact && any == holds;
    }
    must(exact, "NaN where its factor is, and nowhere else");
    free_trial(on, &x);
  }
}

/* A rotation by one part of a full turn comes back to where it was, 10^6 factors later. */
static void a_million_factors(const subject *on) {
  const mmci_opened opened = {.ops = on->ops, .device = on->device, .name = on->name};
  const int64_t length = on->small || on->is_fake ? 1000 : 1000000;
  const double angle = 2 * acos(-1) / 1000;
  double factor[] = {cos(angle), -sin(angle), sin(angle), cos(angle)};
  double *out = malloc((size_t)length * sizeof factor);
  mmci_running_problem p = {.dtype = MMC_F64, .n = 2, .length = length, .batch = 1};
  mmci_running *running;
  mmci_error error = {0};
  if (!supports_dtype(on, p.dtype)) return;
  must(out != NULL, "memory");
  mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  operands.factors = (mmc_matrix){.data = factor, .rows = 2, .cols = 2};
  operands.out = (mmc_matrix){.data = out, .rows = 2, .cols = 2};
  operands.out_step = 4;
  expect_ok(mmci_running_create(&p, &opened, MMCI_RUNNING_AUTO, &running, &error), &error,
            "create");
  expect_ok(mmci_running_execute(running, &operands, &error), &error, "execute");
  bool holds = true;
  for (int64_t t = 0; t < length; t++) {
    const double off = fabs(out[4 * t] - cos(angle * (double)((t + 1) % 1000)));
    /* An error of every product adds up, and so does that of the angle. */
    holds = holds && off <= 8 * 0x1p-53 * (double)(t + 2);
  }
  must(holds, "rotations within rounding");
  mmci_running_destroy(running);
  free(out);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"random scans", random_scans, false},
      {"long scans", long_scans, false},
      {"many scans", many_scans, false},
      {"scans in parts", scans_in_parts, false},
      {"NaN", nan_poisons_what_holds_it, false},
      {"a million factors", a_million_factors, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
