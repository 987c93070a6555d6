/* test_faithful.c: faithful products on a device, every form, edge and kind, against sums in f64;
 * their errors against those of cuBLAS's FP32 on the same data; what is left to FP32, against FP32.
 *
 * All memory is 0xff where no element lies, which is NaN: beside the matrices, in the gaps of their
 * leading dimensions, and in C before it is written. Nothing of it may be read, and but for C's
 * elements nothing written. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../../bench/faithful_data.h"
#include "../random.h"
#include "device/cuda/emulated/emulated.h"
#include "gpu_test.h"

enum { GUARD = 40, KINDS = 3, TABLE = 1 << 16 };

/* The device's, for all of the tests. */
typedef struct bench {
  const target *on;
  cudaStream_t stream;
  int multiprocessors;
  struct cudaDeviceProp facts;
} bench;

static bool cuda_ok(cudaError_t code, const char *what) {
  if (!expect(code == cudaSuccess, what)) printf("  %s\n", cudaGetErrorString(code));
  return code == cudaSuccess;
}

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct matrix {
  int64_t rows, cols;
  mmci_form form;
  size_t bytes;
  int shift; /* elements by which the first is off what an allocation is aligned to */
  float *host, *device;
} matrix;

static float *at(const matrix *x, int64_t r, int64_t c) {
  return x->host + x->shift + (x->form.trans ? c * x->form.ld + r : r * x->form.ld + c);
}

static float *address(const matrix *x) {
  return x->device + x->shift;
}

static bool matrix_create(matrix *x, int64_t rows, int64_t cols, mmci_form form, int shift) {
  *x = (matrix){.rows = rows, .cols = cols, .form = form, .shift = shift};
  x->bytes = ((size_t)((form.trans ? cols : rows) * form.ld + shift) + GUARD) * sizeof(float);
  x->host = malloc(x->bytes);
  if (x->host == NULL) return expect(false, "out of memory");
  memset(x->host, 0xff, x->bytes);
  return cuda_ok(cudaMalloc((void **)&x->device, x->bytes), "cudaMalloc");
}

static void matrix_destroy(matrix *x) {
  free(x->host);
  cuda_ok(cudaFree(x->device), "cudaFree");
}

/* Fills op(A), or with `across` op(B), whose columns have the grades of rows. A large one gets
 * numbers from a table. */
static void matrix_fill(matrix *x, faithful_data data, bool across, uint64_t *random) {
  static float table[TABLE];
  const bool large = x->rows * x->cols > TABLE;
  for (int t = 0; large && t < TABLE; t++) table[t] = (float)faithful_draw(data, random);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      const double down = (double)r / (double)x->rows, along = (double)c / (double)x->cols;
      const float drawn =
          large ? table[random_bits(random) % TABLE] : (float)faithful_draw(data, random);
      *at(x, r, c) = data != FAITHFUL_GRADED_ROWS && data != FAITHFUL_GRADED_K
                         ? drawn
                         : drawn * (float)(faithful_grade_row(data, across ? along : down) *
                                           faithful_grade_k(data, across ? down : along));
    }
}

/* A copy of pageable memory may return before it is done, and the stream of products does not wait.
 */
static bool matrix_up(const matrix *x) {
  return cuda_ok(cudaMemcpy(x->device, x->host, x->bytes, cudaMemcpyHostToDevice), "upload") &&
         cuda_ok(cudaStreamSynchronize(cudaStreamLegacy), "the upload ends");
}

static bool matrix_down(const matrix *x, float *to) {
  return cuda_ok(cudaMemcpy(to, x->device, x->bytes, cudaMemcpyDeviceToHost), "download");
}

/* ---- one product ----------------------------------------------------------------------------- */

/* C = op(A) op(B) with all there is to know of it. */
typedef struct trial {
  mmci_gemm gemm;
  mmci_emulated_kind kind;
  matrix a, b, c;
  uint64_t seed;
} trial;

static mmci_form form_of(bool trans, int64_t rows, int64_t cols, int64_t gap) {
  return (mmci_form){.ld = (trans ? rows : cols) + gap, .trans = trans};
}

/* Makes matrices as the product says, off their alignment by so many elements. */
static bool trial_fill(trial *t, const int shifts[3], faithful_data how, uint64_t *random) {
  const mmci_gemm *g = &t->gemm;
  if (!matrix_create(&t->a, g->m, g->k, g->a, shifts[0]) ||
      !matrix_create(&t->b, g->k, g->n, g->b, shifts[1]) ||
      !matrix_create(&t->c, g->m, g->n, (mmci_form){.ld = g->ldc}, shifts[2]))
    return false;
  matrix_fill(&t->a, how, false, random);
  matrix_fill(&t->b, how, true, random);
  if (g->accumulate) matrix_fill(&t->c, FAITHFUL_NORMAL, false, random);
  return true;
}

/* Forms, gaps, addresses and the rest at random when ragged. */
static bool trial_create(trial *t, int64_t m, int64_t k, int64_t n, bool ragged, faithful_data how,
                         uint64_t seed) {
  uint64_t random = seed;
  int shifts[3] = {0, 0, 0};
  mmci_gemm *g = &t->gemm;
  *t = (trial){.seed = seed};
  *g = mmci_gemm_tight(MMC_F32, MMCI_FAITHFUL, m, k, n, MMC_OP_N, MMC_OP_N);
  t->kind = (mmci_emulated_kind)random_below(&random, KINDS);
  if (ragged) {
    g->a = form_of(random_below(&random, 2) == 1, m, k,
                   random_below(&random, 2) * random_below(&random, 9));
    g->b = form_of(random_below(&random, 2) == 1, k, n,
                   random_below(&random, 2) * random_below(&random, 9));
    g->ldc = n + random_below(&random, 2) * random_below(&random, 9);
    g->accumulate = random_below(&random, 3) == 0;
    for (int x = 0; x < 3; x++) shifts[x] = (int)random_below(&random, 5);
  }
  return trial_fill(t, shifts, how, &random);
}

/* Without gaps. */
static bool trial_create_tight(trial *t, const int64_t shape[3], faithful_data how, bool a_trans,
                               bool b_trans, uint64_t seed) {
  static const int none[3] = {0, 0, 0};
  uint64_t random = seed;
  *t = (trial){.seed = seed};
  t->gemm = mmci_gemm_tight(MMC_F32, MMCI_FAITHFUL, shape[0], shape[1], shape[2],
                            a_trans ? MMC_OP_T : MMC_OP_N, b_trans ? MMC_OP_T : MMC_OP_N);
  return trial_fill(t, none, how, &random);
}

static void trial_destroy(trial *t) {
  matrix_destroy(&t->a);
  matrix_destroy(&t->b);
  matrix_destroy(&t->c);
}

static void describe_trial(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  printf("  %" PRId64 " x %" PRId64 " x %" PRId64 ", A%s ld %" PRId64 ", B%s ld %" PRId64
         ", ldc %" PRId64 "%s, kind %d, shifts %d %d %d, seed %" PRIu64 "\n",
         g->m, g->k, g->n, g->a.trans ? " trans" : "", g->a.ld, g->b.trans ? " trans" : "", g->b.ld,
         g->ldc, g->accumulate ? ", accumulated" : "", (int)t->kind, t->a.shift, t->b.shift,
         t->c.shift, t->seed);
}

/* C's buffer afterwards; NULL on failure. */
static float *compute(const bench *with, const trial *t) {
  mmci_error error = {0};
  mmci_emulated *emulated = NULL;
  float *got = malloc(t->c.bytes);
  if (got == NULL || !matrix_up(&t->a) || !matrix_up(&t->b) || !matrix_up(&t->c)) {
    free(got);
    return NULL;
  }
  mmc_status status =
      mmci_emulated_prepare(&t->gemm, t->kind, with->multiprocessors, &emulated, &error);
  if (status == MMC_OK)
    status = mmci_emulated_enqueue(with->stream, emulated, address(&t->a), address(&t->b),
                                   address(&t->c), &error);
  bool right = expect_ok(status, &error, "a product") &&
               cuda_ok(cudaStreamSynchronize(with->stream), "a product ends") &&
               matrix_down(&t->c, got);
  mmci_emulated_release(emulated);
  if (right) return got;
  free(got);
  return NULL;
}

/* An element in f64, and what its products' absolute values add up to. */
typedef struct exact_element {
  double value, sum, sum_a, sum_b;
} exact_element;

static exact_element exactly(const trial *t, int64_t r, int64_t c) {
  exact_element e = {t->gemm.accumulate ? (double)*at(&t->c, r, c) : 0, 0, 0, 0};
  e.sum = fabs(e.value);
  for (int64_t d = 0; d < t->gemm.k; d++) {
    double x = (double)*at(&t->a, r, d), y = (double)*at(&t->b, d, c);
    e.value += x * y;
    e.sum += fabs(x * y);
    e.sum_a += fabs(x);
    e.sum_b += fabs(y);
  }
  return e;
}

/* NaN for NaN, and infinity where a float has no other word for it. */
static bool same_float(float got, double exact) {
  return isnan(exact) ? isnan(got) : got == (float)exact;
}

/* Within the bound of docs/faithful.md, or as good as FP64. */
static bool element_is_right(const trial *t, int64_t r, int64_t c, float got, double most_a,
                             double most_b) {
  const exact_element e = exactly(t, r, c);
  double limit = 0x1p-19 * e.sum + 0x1p-50 * (most_a * e.sum_b + most_b * e.sum_a) + 0x1p-149;
  if (fabs((double)got - e.value) <= limit || same_float(got, e.value)) return true;
  printf("  C(%" PRId64 ", %" PRId64 ") is %.9g, not %.17g, off by more than %g\n", r, c,
         (double)got, e.value, limit);
  return false;
}

/* Rounded once. */
static bool element_is_left(const trial *t, int64_t r, int64_t c, float got) {
  const exact_element e = exactly(t, r, c);
  double limit = 0x1.001p-24 * fabs(e.value) + 0x1p-43 * e.sum + 0x1p-149;
  return fabs((double)got - e.value) <= limit || same_float(got, e.value);
}

static double most_of(const matrix *x, int64_t line, bool row) {
  double most = 0;
  for (int64_t d = 0; d < (row ? x->cols : x->rows); d++)
    most = fmax(most, fabs((double)(row ? *at(x, line, d) : *at(x, d, line))));
  return most;
}

static bool elements_are_right(const trial *t, const float *got) {
  for (int64_t r = 0; r < t->gemm.m; r++) {
    double most_a = most_of(&t->a, r, true);
    for (int64_t c = 0; c < t->gemm.n; c++)
      if (!element_is_right(t, r, c, got[at(&t->c, r, c) - t->c.host], most_a,
                            most_of(&t->b, c, false)))
        return false;
  }
  return true;
}

/* No byte but C's elements has changed. */
static bool rest_is_left_alone(const trial *t, const float *got) {
  const int64_t count = (int64_t)(t->c.bytes / sizeof *got);
  for (int64_t e = 0; e < count; e++) {
    int64_t from = e - t->c.shift;
    bool inside = from >= 0 && from / t->gemm.ldc < t->gemm.m && from % t->gemm.ldc < t->gemm.n;
    uint32_t bits, before;
    memcpy(&bits, got + e, sizeof bits);
    memcpy(&before, t->c.host + e, sizeof before);
    if (!inside && bits != before) return false;
  }
  return true;
}

static void check_trial(const bench *with, const trial *t) {
  float *got = compute(with, t);
  bool right = got != NULL && expect(elements_are_right(t, got), "elements are right") &&
               expect(rest_is_left_alone(t, got), "what is beside C is left alone");
  if (!right) describe_trial(t);
  free(got);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void test_shapes(const bench *with, uint64_t *random) {
  static const int64_t SIZES[] = {1,   2,   31,  32,  33,  63,  64,  65,  101, 127,
                                  128, 129, 191, 192, 193, 211, 255, 256, 257, 307};
  enum { COUNT = sizeof SIZES / sizeof *SIZES };
  for (int s = 0; s < (with->on->race ? 4 : with->on->small ? 16 : 150); s++) {
    trial t;
    if (trial_create(&t, SIZES[random_below(random, COUNT)], SIZES[random_below(random, COUNT)],
                     SIZES[random_below(random, COUNT)], true,
                     (faithful_data)random_below(random, FAITHFUL_DATA), random_bits(random)))
      check_trial(with, &t);
    trial_destroy(&t);
  }
}

static void test_long(const bench *with, uint64_t *random) {
  static const int64_t SHAPES[][3] = {
      {3, 20011, 5}, {1, 11000, 300}, {300, 10241, 1}, {67, 3001, 91}};
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++) {
    trial t;
    if (trial_create(&t, SHAPES[s][0], SHAPES[s][1], SHAPES[s][2], true, FAITHFUL_NORMAL,
                     random_bits(random)))
      check_trial(with, &t);
    trial_destroy(&t);
  }
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Every row and column of its own size, from denormals to the largest floats. */
static void test_scales(const bench *with, uint64_t *random) {
  for (int s = 0; s < (with->on->small ? 2 : 12); s++) {
    trial t;
    if (trial_create(&t, 150, 300, 140, true, FAITHFUL_NORMAL, random_bits(random))) {
      for (int64_t r = 0; r < t.gemm.m; r++) {
        int exponent = s % 3 == 0 ? -140 : (int)random_below(random, 260) - 140;
        for (int64_t d = 0; d < t.gemm.k; d++) *at(&t.a, r, d) = ldexpf(*at(&t.a, r, d), exponent);
      }
      for (int64_t c = 0; c < t.gemm.n; c++) {
        int exponent = s % 3 == 0 ? 120 : (int)random_below(random, 100) - 110;
        for (int64_t d = 0; d < t.gemm.k; d++) *at(&t.b, d, c) = ldexpf(*at(&t.b, d, c), exponent);
      }
      check_trial(with, &t);
    }
    trial_destroy(&t);
  }
}

/* Rows and columns that parts cannot hold: each of their elements is FP64's, rounded once. */
static void test_left(const bench *with, uint64_t *random) {
  static const float VALUES[] = {NAN, INFINITY, -INFINITY, 1e38f, 1e30f, -3e38f};
  for (int s = 0; s < (with->on->small ? 2 : 18); s++) {
    trial t;
    if (trial_create(&t, 200, 310, 270, true, FAITHFUL_NORMAL, random_bits(random))) {
      const int64_t row = random_below(random, t.gemm.m), col = random_below(random, t.gemm.n),
                    deep = random_below(random, t.gemm.k);
      *at(&t.a, row, deep) = VALUES[s % 6];
      if (s % 2 == 1) *at(&t.b, random_below(random, t.gemm.k), col) = VALUES[s / 2 % 6];
      for (int64_t d = 0; d < t.gemm.k; d++) *at(&t.a, (row + 1) % t.gemm.m, d) = 0;
      float *got = compute(with, &t);
      bool right = got != NULL && expect(elements_are_right(&t, got), "elements are right") &&
                   expect(rest_is_left_alone(&t, got), "what is beside C is left alone");
      for (int64_t c = 0; right && c < t.gemm.n; c++)
        right = element_is_left(&t, row, c, got[at(&t.c, row, c) - t.c.host]);
      if (!expect(right, "a row that is left is FP64's")) describe_trial(&t);
      free(got);
    }
    trial_destroy(&t);
  }
}

/* ---- bytes or FP16 parts --------------------------------------------------------------------- */

/* Rows whose elements are near `unit` but for a peak of so many units and some that are small. */
typedef struct row_data {
  float peak;
  int small;
} row_data;

enum { TIER_M = 139, TIER_K = 600, TIER_N = 261 };

static void fill_row(const matrix *x, int64_t r, row_data data, float unit, uint64_t *random) {
  for (int64_t c = 0; c < x->cols; c++) {
    float near = 1 - (float)(random_unit(random) + 1) / 100;
    float value = c < data.small ? near / 64 : c == data.small ? data.peak : near;
    *at(x, r, c) = random_below(random, 2) == 0 ? value * unit : -value * unit;
  }
}

/* Says whether C comes from bytes: then it is not that of FP16 parts, bit for bit. */
static bool from_bytes(const bench *with, trial *t, bool *right) {
  t->kind = MMCI_INT8;
  float *ours = compute(with, t);
  t->kind = MMCI_HALVES;
  float *halves = compute(with, t);
  bool same = false;
  *right = ours != NULL && halves != NULL;
  if (*right) {
    same = memcmp(ours, halves, t->c.bytes) == 0;
    *right = expect(elements_are_right(t, ours), "elements are right") &&
             expect(rest_is_left_alone(t, ours), "what is beside C is left alone");
  }
  free(ours);
  free(halves);
  return !same;
}

/* Each case's rows but one, that one, and whether bytes are enough. A row's squares must add up to
 * 2.1 sqrt(600) = 51.4 times the greatest, on average, and to 21.4 at least; scales take up to 0.79
 * of it. One element in four may be small. */
static void test_tiers(const bench *with, uint64_t *random) {
  static const struct {
    const char *name;
    row_data rows, one;
    float times; /* one element of the one row */
    bool bytes;
  } CASES[] = {{"even rows", {1, 0}, {1, 0}, 1, true},
               {"all rows just even enough", {3, 0}, {3, 0}, 1, true},
               {"all rows not quite even enough", {3.5f, 0}, {3.5f, 0}, 1, false},
               {"one row just even enough", {1, 0}, {4.5f, 0}, 1, true},
               {"one row not quite even enough", {1, 0}, {5.5f, 0}, 1, false},
               {"as many small elements as may be", {1, 150}, {1, 150}, 1, true},
               {"one small element more in one row", {1, 150}, {1, 151}, 1, false},
               {"a row of zeros", {1, 0}, {0, TIER_K}, 0, true},
               {"a row with a NaN", {1, 0}, {1, 0}, NAN, false},
               {"a row with an infinity", {1, 0}, {1, 0}, INFINITY, false}};
  for (size_t s = 0; s < sizeof CASES / sizeof *CASES; s++)
    for (int side = 0; side < (with->on->small ? 1 : 4); side++) {
      trial t;
      bool right =
          trial_create(&t, TIER_M, TIER_K, TIER_N, true, FAITHFUL_UNIFORM, random_bits(random));
      if (side >= 2) t.gemm.accumulate = false; /* so small products would not show in C */
      /* The columns of B as rows. */
      matrix b = t.b, *of = side % 2 == 0 ? &t.a : &b;
      b.rows = t.b.cols;
      b.cols = t.b.rows;
      b.form.trans = !t.b.form.trans;
      for (int x = 0; right && x < 2; x++) {
        const matrix *each = x == 0 ? &t.a : &b;
        for (int64_t r = 0; r < each->rows; r++)
          fill_row(each, r, each == of ? CASES[s].rows : (row_data){1, 0},
                   ldexpf(1, (int)random_below(random, 100) - (side < 2 ? 50 : 110)), random);
      }
      const int64_t row = random_below(random, of->rows);
      if (right) {
        fill_row(of, row, CASES[s].one, 1, random);
        const float times = CASES[s].times;
        for (int64_t c = 0; c < (times == 0 ? TIER_K : 1); c++) *at(of, row, c) *= times;
        bool bytes = from_bytes(with, &t, &right);
        right = right && expect(bytes == CASES[s].bytes, CASES[s].name);
      }
      if (!right) {
        printf("  %s, of %s\n", CASES[s].name, side % 2 == 0 ? "A" : "B");
        describe_trial(&t);
      }
      trial_destroy(&t);
    }
}

/* Floats of 11 bits have products and sums that FP32 has exactly, and so has this. */
static void test_exact(const bench *with, mmci_emulated_kind kind, uint64_t *random) {
  trial t;
  bool right = trial_create(&t, 130, 500, 200, true, FAITHFUL_UNIFORM, random_bits(random));
  t.kind = kind;
  if (right) {
    for (int64_t r = 0; r < t.gemm.m; r++)
      for (int64_t d = 0; d < t.gemm.k; d++)
        *at(&t.a, r, d) = (float)random_below(random, 129) - 64;
    for (int64_t d = 0; d < t.gemm.k; d++)
      for (int64_t c = 0; c < t.gemm.n; c++)
        *at(&t.b, d, c) = (float)random_below(random, 257) - 128;
    for (int64_t r = 0; t.gemm.accumulate && r < t.gemm.m; r++)
      for (int64_t c = 0; c < t.gemm.n; c++) *at(&t.c, r, c) = 1;
    float *got = compute(with, &t);
    right = got != NULL;
    for (int64_t r = 0; right && r < t.gemm.m; r++)
      for (int64_t c = 0; right && c < t.gemm.n; c++)
        right = same_float(got[at(&t.c, r, c) - t.c.host], exactly(&t, r, c).value);
    free(got);
  }
  if (!expect(right, "integers are exact")) describe_trial(&t);
  trial_destroy(&t);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Captured, launched twice, on data that is split the first time and left the second. */
static void test_graph(const bench *with, mmci_emulated_kind kind, uint64_t *random) {
  mmci_error error = {0};
  mmci_emulated *emulated = NULL;
  cudaGraph_t recorded = NULL;
  cudaGraphExec_t graph = NULL;
  trial t;
  /* Uniform: split into bytes the first time, if so prepared. */
  if (!trial_create(&t, 257, 320, 129, false, FAITHFUL_UNIFORM, random_bits(random))) return;
  t.kind = kind;
  float *got = malloc(t.c.bytes);
  mmc_status status =
      mmci_emulated_prepare(&t.gemm, t.kind, with->multiprocessors, &emulated, &error);
  bool right =
      expect_ok(status, &error, "prepare") && got != NULL &&
      cuda_ok(cudaStreamBeginCapture(with->stream, cudaStreamCaptureModeThreadLocal), "capture");
  if (right) {
    status = mmci_emulated_enqueue(with->stream, emulated, address(&t.a), address(&t.b),
                                   address(&t.c), &error);
    right = cuda_ok(cudaStreamEndCapture(with->stream, &recorded), "the capture ends") &&
            expect_ok(status, &error, "a captured product") &&
            cuda_ok(cudaGraphInstantiate(&graph, recorded, 0), "a graph");
  }
  for (int launch = 0; right && launch < 2; launch++) {
    if (launch == 1) *at(&t.a, 3, 5) = NAN;
    right = matrix_up(&t.a) && matrix_up(&t.b) &&
            cuda_ok(cudaGraphLaunch(graph, with->stream), "a launch") &&
            cuda_ok(cudaStreamSynchronize(with->stream), "a launch ends") &&
            matrix_down(&t.c, got) && expect(elements_are_right(&t, got), "a graph's elements");
  }
  if (!right) describe_trial(&t);
  if (graph != NULL) cuda_ok(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  if (recorded != NULL) cuda_ok(cudaGraphDestroy(recorded), "cudaGraphDestroy");
  mmci_emulated_release(emulated);
  free(got);
  trial_destroy(&t);
}

/* ---- errors against cuBLAS's ----------------------------------------------------------------- */

typedef struct errors {
  double norm, component; /* |d|_F / |C|_F; the greatest |d| / (|A| |B|) */
} errors;

/* C of dtype by the module, of matrices without gaps on the device. */
static bool by_module(const bench *with, const mmci_gemm *gemm, const void *a, const void *b,
                      void *c) {
  const mmci_device_ops *ops = with->on->ops;
  mmci_error error = {0};
  mmci_queue *queue = NULL;
  mmci_kernel *kernel = NULL;
  mmc_status status = ops->queue_open(with->on->device, &queue, &error);
  if (status == MMC_OK) status = ops->prepare(with->on->device, gemm, &kernel, &error);
  if (status == MMC_OK) status = ops->enqueue(queue, kernel, a, b, c, &error);
  if (status == MMC_OK) status = ops->sync(queue, &error);
  ops->release(kernel);
  ops->queue_close(queue);
  return expect_ok(status, &error, "a product of the module");
}

/* x, or its absolute values, as f64 on the device; NULL on failure. */
static double *widen(const matrix *x, bool absolute) {
  double *device = NULL, *host = malloc((size_t)(x->rows * x->cols) * sizeof *host);
  if (host == NULL) return NULL;
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      double value = (double)*at(x, r, c);
      host[r * x->cols + c] = absolute ? fabs(value) : value;
    }
  const size_t bytes = (size_t)(x->rows * x->cols) * sizeof *host;
  if (cuda_ok(cudaMalloc((void **)&device, bytes), "cudaMalloc"))
    cuda_ok(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "upload");
  cuda_ok(cudaStreamSynchronize(cudaStreamLegacy), "the upload ends");
  free(host);
  return device;
}

/* A B, or |A| |B|, in f64. */
static double *exact_product(const bench *with, const trial *t, bool absolute) {
  const mmci_gemm *g = &t->gemm;
  const mmci_gemm wide =
      mmci_gemm_tight(MMC_F64, MMCI_NATIVE, g->m, g->k, g->n, MMC_OP_N, MMC_OP_N);
  const size_t bytes = (size_t)(g->m * g->n) * sizeof(double);
  double *a = widen(&t->a, absolute), *b = widen(&t->b, absolute), *c = NULL, *host = malloc(bytes);
  bool right = host != NULL && a != NULL && b != NULL &&
               cuda_ok(cudaMalloc((void **)&c, bytes), "cudaMalloc") &&
               by_module(with, &wide, a, b, c) &&
               cuda_ok(cudaMemcpy(host, c, bytes, cudaMemcpyDeviceToHost), "download");
  cuda_ok(cudaFree(a), "cudaFree");
  cuda_ok(cudaFree(b), "cudaFree");
  cuda_ok(cudaFree(c), "cudaFree");
  if (right) return host;
  free(host);
  return NULL;
}

static errors errors_of(const trial *t, const float *got, const double *exact, const double *sums) {
  double off = 0, all = 0;
  errors e = {0, 0};
  for (int64_t r = 0; r < t->gemm.m; r++)
    for (int64_t c = 0; c < t->gemm.n; c++) {
      int64_t i = r * t->gemm.n + c;
      double d = fabs((double)got[at(&t->c, r, c) - t->c.host] - exact[i]);
      if (!(d <= 1e300)) d = 1e300;
      off += d * d;
      all += exact[i] * exact[i];
      if (sums[i] > 0) e.component = fmax(e.component, d / sums[i]);
    }
  e.norm = sqrt(off / all);
  return e;
}

static void compare_errors(const bench *with, trial *t, faithful_data how) {
  mmci_gemm native = t->gemm;
  native.precision = MMCI_NATIVE;
  double *exact = exact_product(with, t, false), *sums = exact_product(with, t, true);
  float *theirs = malloc(t->c.bytes);
  bool right = exact != NULL && sums != NULL && theirs != NULL && matrix_up(&t->a) &&
               matrix_up(&t->b) &&
               by_module(with, &native, address(&t->a), address(&t->b), address(&t->c)) &&
               matrix_down(&t->c, theirs);
  for (int kind = 0; right && kind < KINDS; kind++) {
    /* Not chosen for short sums, or few. */
    if (kind == MMCI_INT8 && mmci_emulated_choose(&with->facts, &t->gemm) != MMCI_INT8) continue;
    t->kind = (mmci_emulated_kind)kind;
    float *ours = compute(with, t);
    if (ours == NULL) break;
    errors mine = errors_of(t, ours, exact, sums), other = errors_of(t, theirs, exact, sums);
    printf("%" PRId64 " x %" PRId64 " x %" PRId64
           ", %s, kind %d: norm %.3e (cuBLAS FP32 %.3e), "
           "component %.3e (%.3e)\n",
           t->gemm.m, t->gemm.k, t->gemm.n, faithful_data_name(how), kind, mine.norm, other.norm,
           mine.component, other.component);
    right = expect(mine.norm <= other.norm, "no more error than cuBLAS's FP32, in norm") &&
            expect(mine.component <= other.component, "nor of any element");
    free(ours);
  }
  if (!right) describe_trial(t);
  free(exact);
  free(sums);
  free(theirs);
}

static void test_errors_of(const bench *with, const int64_t shape[3], faithful_data how,
                           bool a_trans, bool b_trans, uint64_t *random) {
  trial t;
  if (trial_create_tight(&t, shape, how, a_trans, b_trans, random_bits(random)))
    compare_errors(with, &t, how);
  trial_destroy(&t);
}

/* All kinds of data by both kinds of arithmetic, all ops; bench_faithful --table has more. */
static void test_errors(const bench *with, uint64_t *random) {
  static const int64_t SHAPES[][3] = {{2048, 520, 2048}, {2900, 2100, 2950}},
                       LONG[] = {1950, 4100, 2000};
  for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
    for (int how = 0; how < FAITHFUL_DATA; how++) {
      const int ops = (how + (int)s) % 4;
      test_errors_of(with, SHAPES[s], (faithful_data)how, ops % 2 == 1, ops >= 2, random);
    }
  test_errors_of(with, LONG, FAITHFUL_EXPONENTIAL, false, false, random);
}

/* ---- the module's choice --------------------------------------------------------------------- */

static void test_choice(const bench *with) {
  const mmci_device_ops *ops = with->on->ops;
  const struct {
    mmc_dtype dtype;
    mmci_precision precision;
    int64_t size;
    const char *name; /* NULL stands for the native product's */
  } CASES[] = {{MMC_F32, MMCI_FAITHFUL, 8192, mmci_emulated_name(MMCI_INT8)},
               {MMC_F32, MMCI_FAITHFUL, 2048, mmci_emulated_name(MMCI_HALVES)},
               {MMC_F32, MMCI_FAITHFUL, 1536, "cublas sgemm"},
               {MMC_F32, MMCI_FAITHFUL, 2304, "cublas sgemm"},
               {MMC_F32, MMCI_FAITHFUL, 128, NULL},
               {MMC_F32, MMCI_FAST, 8192, "cublas tf32"},
               {MMC_F32, MMCI_NATIVE, 8192, "cublas sgemm"},
               {MMC_C64, MMCI_FAITHFUL, 8192, "emulated 3xint8"},
               {MMC_C64, MMCI_NATIVE, 8192, "cublas cgemm"}};
  for (size_t s = 0; s < sizeof CASES / sizeof *CASES; s++) {
    const int64_t n = CASES[s].size;
    mmci_gemm gemm =
        mmci_gemm_tight(CASES[s].dtype, CASES[s].precision, n, n, n, MMC_OP_N, MMC_OP_N);
    const char *name = ops->kernel_name(with->on->device, &gemm), *expected = CASES[s].name;
    gemm.precision = MMCI_NATIVE;
    if (expected == NULL) expected = ops->kernel_name(with->on->device, &gemm);
    expect(strcmp(name, expected) == 0, name);
  }
  /* What there are no kernels for. */
  struct cudaDeviceProp facts;
  if (!cuda_ok(cudaGetDeviceProperties(&facts, 0), "cudaGetDeviceProperties")) return;
  mmci_gemm gemm = mmci_gemm_tight(MMC_F32, MMCI_FAITHFUL, 2048, 2048, 2048, MMC_OP_N, MMC_OP_N);
  expect(mmci_emulated_supports(&facts, &gemm), "one product is supported");
  gemm.b.gathered = true;
  expect(!mmci_emulated_supports(&facts, &gemm), "gathered matrices are not");
  gemm.b.gathered = false;
  mmci_gemm_spread(&gemm, 2);
  expect(mmci_emulated_supports(&facts, &gemm), "a batch is");
}

static void test_all(const target *on) {
  bench with = {.on = on};
  struct cudaDeviceProp facts;
  uint64_t random = 20261121;
  const mmci_gemm any = mmci_gemm_tight(MMC_F32, MMCI_FAITHFUL, 1, 1, 1, MMC_OP_N, MMC_OP_N);
  if (!cuda_ok(cudaGetDeviceProperties(&facts, 0), "cudaGetDeviceProperties")) return;
  if (!mmci_emulated_supports(&facts, &any)) {
    printf("no kernels for compute capability %d.%d\n", facts.major, facts.minor);
    return;
  }
  with.multiprocessors = facts.multiProcessorCount;
  with.facts = facts;
  if (!cuda_ok(cudaStreamCreateWithFlags(&with.stream, cudaStreamNonBlocking), "a stream")) return;
  test_shapes(&with, &random);
  if (!on->race) {
    test_long(&with, &random);
    test_scales(&with, &random);
    test_left(&with, &random);
    test_tiers(&with, &random);
    for (int kind = 0; kind < KINDS; kind++) test_exact(&with, (mmci_emulated_kind)kind, &random);
    for (int kind = 0; kind < KINDS; kind++) test_graph(&with, (mmci_emulated_kind)kind, &random);
  }
  if (!on->small) {
    test_errors(&with, &random);
    test_choice(&with);
  }
  cuda_ok(cudaStreamDestroy(with.stream), "cudaStreamDestroy");
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
