/* test_residues.c: products by 8-bit integers on a device: of integers of every dtype, form and
 * edge, against exact sums; of doubles, against the bound of docs/faithful.md and against the
 * errors of cuBLAS's FP64 on the same data.
 *
 * Memory is 0xff where no element lies: in the gaps of leading dimensions and, for doubles, which
 * then are NaN, in C before it is written. Nothing of it may be read or written. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "../../bench/faithful_data.h"
#include "../random.h"
#include "base/dtype.h"
#include "device/cuda/residues/residues.h"
#include "device/ref/ref_integer.h"
#include "gpu_test.h"

enum { ROWS_COMPARED = 24 };

typedef struct bench {
  const target *on;
  cudaStream_t stream;
  int multiprocessors;
} bench;

static bool cuda_ok(cudaError_t code, const char *what) {
  if (!expect(code == cudaSuccess, what)) printf("  %s\n", cudaGetErrorString(code));
  return code == cudaSuccess;
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* op(A), op(B) or C, on the host and on the device. */
typedef struct matrix {
  int64_t rows, cols;
  mmci_form form;
  size_t size, bytes; /* of an element, of all */
  unsigned char *host, *device;
} matrix;

static void *at(const matrix *x, int64_t r, int64_t c) {
  const int64_t i = x->form.trans ? c * x->form.ld + r : r * x->form.ld + c;
  return x->host + (size_t)i * x->size;
}

static bool matrix_create(matrix *x, mmc_dtype dtype, int64_t rows, int64_t cols, mmci_form form) {
  *x = (matrix){.rows = rows, .cols = cols, .form = form, .size = mmc_dtype_size(dtype)};
  x->bytes = (size_t)((form.trans ? cols : rows) * form.ld) * x->size;
  x->host = malloc(x->bytes);
  if (!expect(x->host != NULL, "memory")) return false;
  memset(x->host, 0xff, x->bytes);
  return cuda_ok(cudaMalloc((void **)&x->device, x->bytes), "cudaMalloc");
}

static void matrix_destroy(matrix *x) {
  free(x->host);
  cuda_ok(cudaFree(x->device), "cudaFree");
}

/* A copy of pageable memory may return before it is done, and the stream of products does not wait.
 */
static bool matrix_up(const matrix *x) {
  return cuda_ok(cudaMemcpy(x->device, x->host, x->bytes, cudaMemcpyHostToDevice), "upload") &&
         cuda_ok(cudaStreamSynchronize(cudaStreamLegacy), "the upload ends");
}

/* Fills it with bits, so many of them, of both signs. */
static void fill_integers(matrix *x, int bits, uint64_t *random) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      const int64_t value = (int64_t)random_bits(random) >> (64 - bits);
      memcpy(at(x, r, c), &value, x->size);
    }
}

/* Fills op(A), or with `across` op(B), whose columns have the grades of rows. */
static void fill_doubles(matrix *x, faithful_data data, bool across, uint64_t *random) {
  enum { TABLE = 1 << 14 };
  static double table[TABLE];
  for (int t = 0; t < TABLE; t++) table[t] = faithful_draw(data, random);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      const double down = (double)r / (double)x->rows, along = (double)c / (double)x->cols;
      *(double *)at(x, r, c) = table[random_bits(random) % TABLE] *
                               faithful_grade_row(data, across ? along : down) *
                               faithful_grade_k(data, across ? down : along);
    }
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct trial {
  mmci_gemm gemm;
  matrix a, b, c;
  unsigned char *before; /* C as it was */
} trial;

static mmci_form form_of(bool trans, int64_t rows, int64_t cols, int64_t gap) {
  return (mmci_form){.ld = (trans ? rows : cols) + gap, .trans = trans};
}

static bool trial_create(trial *t, mmc_dtype dtype, int64_t m, int64_t k, int64_t n, bool ragged,
                         uint64_t *random) {
  *t = (trial){.gemm = mmci_gemm_tight(dtype, MMCI_FAITHFUL, m, k, n, MMC_OP_N, MMC_OP_N)};
  mmci_gemm *g = &t->gemm;
  if (ragged) {
    g->a = form_of(random_below(random, 2) == 1, m, k, random_below(random, 4));
    g->b = form_of(random_below(random, 2) == 1, k, n, random_below(random, 4));
    g->ldc = n + (n % 8 == 0 ? 8 * random_below(random, 2) : random_below(random, 4));
    g->accumulate = random_below(random, 3) == 0;
  }
  return matrix_create(&t->a, dtype, m, k, g->a) && matrix_create(&t->b, dtype, k, n, g->b) &&
         matrix_create(&t->c, dtype, m, n, (mmci_form){.ld = g->ldc});
}

static void trial_destroy(trial *t) {
  matrix_destroy(&t->a);
  matrix_destroy(&t->b);
  matrix_destroy(&t->c);
  free(t->before);
}

static void describe_trial(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  printf("  %s %" PRId64 "x%" PRId64 "x%" PRId64 ", A%s ld %" PRId64 ", B%s ld %" PRId64
         ", ldc %" PRId64 "%s\n",
         mmc_dtype_name(g->dtype), g->m, g->k, g->n, g->a.trans ? " trans" : "", g->a.ld,
         g->b.trans ? " trans" : "", g->b.ld, g->ldc, g->accumulate ? ", accumulated" : "");
}

/* Computes C by so many moduli, 0 for what the data needs, and brings it back. */
static bool compute(const bench *with, trial *t, int planes) {
  mmci_error error = {0};
  mmci_residues *residues = NULL;
  t->before = malloc(t->c.bytes);
  if (!expect(t->before != NULL, "memory")) return false;
  memcpy(t->before, t->c.host, t->c.bytes);
  if (!matrix_up(&t->a) || !matrix_up(&t->b) || !matrix_up(&t->c)) return false;
  mmc_status status =
      mmci_residues_prepare(&t->gemm, planes, with->multiprocessors, &residues, &error);
  if (status == MMC_OK)
    status = mmci_residues_enqueue(with->stream, residues, t->a.device, t->b.device, t->c.device,
                                   &error);
  const bool right =
      expect_ok(status, &error, "a product") &&
      cuda_ok(cudaStreamSynchronize(with->stream), "a product ends") &&
      cuda_ok(cudaMemcpy(t->c.host, t->c.device, t->c.bytes, cudaMemcpyDeviceToHost), "download");
  mmci_residues_release(residues);
  return right;
}

static const void *was(const trial *t, int64_t r, int64_t c) {
  return t->before + (size_t)(r * t->gemm.ldc + c) * t->c.size;
}

static void expect_gaps(const trial *t) {
  bool kept = true;
  for (int64_t r = 0; r < t->gemm.m; r++)
    for (int64_t c = t->gemm.n; c < t->gemm.ldc; c++)
      kept = kept && memcmp(at(&t->c, r, c), was(t, r, c), t->c.size) == 0;
  if (!expect(kept, "nothing is written beside C")) describe_trial(t);
}

/* ---- integers -------------------------------------------------------------------------------- */

static uint64_t read_integer(const void *from, size_t size) {
  uint64_t value = 0; /* what lies above the dtype's bits does not count */
  memcpy(&value, from, size);
  return value;
}

__extension__ typedef unsigned __int128 u128;

/* Returns an integer's residue, from 0. */
static uint64_t residue_of(const trial *t, const void *from) {
  const uint64_t p = t->gemm.rule.modulus, bits = read_integer(from, t->c.size);
  const bool is_signed = t->gemm.dtype >= MMC_I8 && t->gemm.dtype <= MMC_I64;
  const int unused = 64 - 8 * (int)t->c.size;
  if (!is_signed) return bits % p;
  const int64_t rest = (int64_t)(bits << unused) >> unused;
  return (uint64_t)(rest % (int64_t)p < 0 ? rest % (int64_t)p + (int64_t)p : rest % (int64_t)p);
}

static bool is_exact_modulo(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  const uint64_t p = g->rule.modulus;
  const int64_t rows = g->m < ROWS_COMPARED ? g->m : ROWS_COMPARED;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t r = i < rows / 2 ? i : g->m - rows + i;
    for (int64_t c = 0; c < g->n; c++) {
      uint64_t sum = g->accumulate ? residue_of(t, was(t, r, c)) : 0;
      for (int64_t d = 0; d < g->k; d++)
        sum = (uint64_t)(((u128)residue_of(t, at(&t->a, r, d)) * residue_of(t, at(&t->b, d, c)) +
                          sum) %
                         p);
      if (sum != read_integer(at(&t->c, r, c), t->c.size)) return false;
    }
  }
  return true;
}

/* Says whether rows of C are exact, modulo 2^bits or what the rule says. */
static bool is_exact(const trial *t) {
  const mmci_gemm *g = &t->gemm;
  if (g->rule.modulus != 0) return is_exact_modulo(t);
  const int64_t rows = g->m < ROWS_COMPARED ? g->m : ROWS_COMPARED;
  const uint64_t mask = t->c.size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * t->c.size) - 1;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t r = i < rows / 2 ? i : g->m - rows + i;
    for (int64_t c = 0; c < g->n; c++) {
      uint64_t sum = g->accumulate ? read_integer(was(t, r, c), t->c.size) : 0;
      for (int64_t d = 0; d < g->k; d++)
        sum += read_integer(at(&t->a, r, d), t->a.size) * read_integer(at(&t->b, d, c), t->b.size);
      if (((sum ^ read_integer(at(&t->c, r, c), t->c.size)) & mask) != 0) return false;
    }
  }
  return true;
}

static void test_integers(const bench *with, uint64_t *random) {
  static const mmc_dtype DTYPES[] = {MMC_I8,  MMC_U8,  MMC_I16, MMC_U16,
                                     MMC_I32, MMC_U32, MMC_I64, MMC_U64};
  const int cases = with->on->small ? 8 : 80;
  for (int i = 0; i < cases; i++) {
    const mmc_dtype dtype = DTYPES[i % 8];
    const int64_t most = with->on->small ? 150 : 700;
    trial t;
    /* Eight bytes of a row are written at once where they may be. */
    const int64_t n = 1 + random_below(random, most), eights = (n + 7) / 8 * 8;
    if (!trial_create(&t, dtype, 1 + random_below(random, most), 1 + random_below(random, most),
                      random_below(random, 2) == 0 ? n : eights, true, random))
      return;
    const int bits = 8 * (int)mmc_dtype_size(dtype);
    fill_integers(&t.a, i % 3 == 0 ? 1 + (int)random_below(random, bits) : bits, random);
    fill_integers(&t.b, i % 3 == 0 ? 1 + (int)random_below(random, bits) : bits, random);
    fill_integers(&t.c, bits, random);
    if (compute(with, &t, 0)) {
      if (!expect(is_exact(&t), "integers are exact")) describe_trial(&t);
      expect_gaps(&t);
    }
    trial_destroy(&t);
  }
}

/* Returns a modulus of some 1 to `bits` - 1 bits, often one of the greatest. */
static uint64_t random_modulus(int bits, uint64_t *random) {
  const uint64_t most = (UINT64_C(1) << (bits - 1)) - 1;
  const uint64_t kind = random_below(random, 4);
  if (kind == 0) return most - random_below(random, 3);
  return 1 + random_bits(random) % ((most >> random_below(random, bits - 2)) + (kind == 1));
}

/* Lets what C holds be residues, as products that go on from it leave them. */
static void reduce_c(trial *t) {
  for (int64_t r = 0; r < t->gemm.m; r++)
    for (int64_t c = 0; c < t->gemm.n; c++) {
      const uint64_t value = residue_of(t, at(&t->c, r, c));
      memcpy(at(&t->c, r, c), &value, t->c.size);
    }
}

static void test_modulo(const bench *with, uint64_t *random) {
  const int cases = with->on->small ? 6 : 60;
  for (int i = 0; i < cases; i++) {
    const int64_t most = with->on->small ? 150 : 700;
    trial t;
    if (!trial_create(&t, i % 2 == 0 ? MMC_I64 : MMC_U64, 1 + random_below(random, most),
                      1 + random_below(random, most), 1 + random_below(random, most), true, random))
      return;
    t.gemm.rule.modulus = i % 5 == 0 ? (UINT64_C(1) << 61) - 1 : random_modulus(64, random);
    const int bits = i % 3 == 0 ? 1 + (int)random_below(random, 64) : 64;
    fill_integers(&t.a, bits, random);
    fill_integers(&t.b, bits, random);
    fill_integers(&t.c, 64, random);
    reduce_c(&t);
    if (compute(with, &t, 0)) {
      if (!expect(is_exact(&t), "sums modulo a number are exact")) {
        printf("  modulo %" PRIu64 "\n", t.gemm.rule.modulus);
        describe_trial(&t);
      }
      expect_gaps(&t);
    }
    trial_destroy(&t);
  }
}

/* Sums of the greatest magnitude there is, over a long k. */
static void test_hostile(const bench *with, uint64_t *random) {
  for (int i = 0; i < 2; i++) {
    const mmc_dtype dtype = i == 0 ? MMC_I64 : MMC_I32;
    trial t;
    if (!trial_create(&t, dtype, 30, i == 0 ? 20000 : 70000, 40, false, random)) return;
    for (int64_t d = 0; d < t.gemm.k; d++) {
      const int64_t least = INT64_MIN >> (i == 0 ? 0 : 32);
      for (int64_t r = 0; r < 30; r++) memcpy(at(&t.a, r, d), &least, t.a.size);
      for (int64_t c = 0; c < 40; c++) {
        const int64_t value = c % 2 == 0 ? least : -1 - least;
        memcpy(at(&t.b, d, c), &value, t.b.size);
      }
    }
    *(unsigned char *)at(&t.a, 3, 5) = 1;
    if (compute(with, &t, 0) && !expect(is_exact(&t), "extreme integers are exact"))
      describe_trial(&t);
    trial_destroy(&t);
  }
}

/* The module's own products: loops, batches, bool. */
static void test_module(const bench *with, uint64_t *random) {
  const mmci_device_ops *ops = with->on->ops;
  for (int i = 0; i < 54; i++) {
    const mmc_dtype dtype = (mmc_dtype)(MMC_I8 + i % 9);
    trial t;
    mmci_error error = {0};
    mmci_kernel *kernel = NULL;
    mmci_queue *queue = NULL;
    if (!trial_create(&t, dtype, 1 + random_below(random, 90), random_below(random, 90),
                      1 + random_below(random, 90), true, random))
      return;
    const int bits = 8 * (int)mmc_dtype_size(dtype);
    fill_integers(&t.a, bits, random);
    fill_integers(&t.b, bits, random);
    fill_integers(&t.c, bits, random);
    for (int64_t r = 0; dtype == MMC_BOOL && r < t.gemm.m; r++)
      for (int64_t d = 0; d < t.gemm.k; d++)
        *(uint8_t *)at(&t.a, r, d) = random_below(random, 40) == 0;
    if (i >= 27 && dtype != MMC_BOOL) {
      t.gemm.rule.modulus = random_modulus(bits, random);
      reduce_c(&t);
    }
    t.before = malloc(t.c.bytes);
    if (!expect(t.before != NULL, "memory")) return;
    memcpy(t.before, t.c.host, t.c.bytes);
    bool right = matrix_up(&t.a) && matrix_up(&t.b) && matrix_up(&t.c);
    right =
        right && expect(ops->supports(with->on->device, &t.gemm), "integers are supported") &&
        expect_ok(ops->queue_open(with->on->device, &queue, &error), &error, "a queue") &&
        expect_ok(ops->prepare(with->on->device, &t.gemm, &kernel, &error), &error, "prepare") &&
        expect_ok(ops->enqueue(queue, kernel, t.a.device, t.b.device, t.c.device, &error), &error,
                  "enqueue") &&
        expect_ok(ops->sync(queue, &error), &error, "sync") &&
        cuda_ok(cudaMemcpy(t.c.host, t.c.device, t.c.bytes, cudaMemcpyDeviceToHost), "download");
    bool exact = right;
    for (int64_t r = 0; right && dtype == MMC_BOOL && r < t.gemm.m; r++)
      for (int64_t c = 0; c < t.gemm.n; c++) {
        bool any = t.gemm.accumulate && *(const uint8_t *)was(&t, r, c) != 0;
        for (int64_t d = 0; d < t.gemm.k; d++)
          any = any || (*(uint8_t *)at(&t.a, r, d) != 0 && *(uint8_t *)at(&t.b, d, c) != 0);
        exact = exact && *(uint8_t *)at(&t.c, r, c) == any;
      }
    if (right && dtype != MMC_BOOL) exact = is_exact(&t);
    if (!expect(exact, "small products of integers are exact")) describe_trial(&t);
    expect_gaps(&t);
    if (kernel != NULL) ops->release(kernel);
    if (queue != NULL) ops->queue_close(queue);
    trial_destroy(&t);
  }
  mmci_gemm gemm = mmci_gemm_tight(MMC_BOOL, MMCI_NATIVE, 8, 8, 8, MMC_OP_N, MMC_OP_N);
  gemm.rule = (mmci_rule){.checked = true};
  expect(!ops->supports(with->on->device, &gemm), "nothing of bool is checked");
}

/* Compares a checked product on the device with loops on the host: its status and, where nothing
 * exceeds the dtype, its elements. Returns whether it fits. */
static bool try_checked(const bench *with, trial *t) {
  const mmci_device_ops *ops = with->on->ops;
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  mmci_queue *queue = NULL;
  t->before = malloc(t->c.bytes);
  bool right = expect(t->before != NULL, "memory");
  if (right) memcpy(t->before, t->c.host, t->c.bytes);
  right = right && matrix_up(&t->a) && matrix_up(&t->b) && matrix_up(&t->c) &&
          expect_ok(ops->queue_open(with->on->device, &queue, &error), &error, "queue_open") &&
          expect_ok(ops->prepare(with->on->device, &t->gemm, &kernel, &error), &error, "prepare");
  const bool fits = right && mmci_ref_integer_gemm(&t->gemm, t->a.host, t->b.host, t->c.host);
  mmc_status status = MMC_E_DEVICE;
  if (right) status = ops->enqueue(queue, kernel, t->a.device, t->b.device, t->c.device, &error);
  if (!expect(status == (fits ? MMC_OK : MMC_E_OVERFLOW), "an overflow is told")) describe_trial(t);
  unsigned char *found = malloc(t->c.bytes);
  right = right && expect(found != NULL, "memory") &&
          cuda_ok(cudaMemcpy(found, t->c.device, t->c.bytes, cudaMemcpyDeviceToHost), "download");
  if (right && fits &&
      !expect(memcmp(found, t->c.host, t->c.bytes) == 0, "checked integers are exact"))
    describe_trial(t);
  free(found);
  if (kernel != NULL) ops->release(kernel);
  if (queue != NULL) ops->queue_close(queue);
  return fits;
}

static void test_checked(const bench *with) {
  uint64_t state = 20261124, *random = &state;
  const int cases = with->on->small ? 32 : 160;
  int fit = 0, exceed = 0;
  for (int i = 0; i < cases; i++) {
    /* Some are large enough for residues. */
    const bool large = i % 16 == 15;
    const mmc_dtype dtype = (mmc_dtype)((int)MMC_I8 + i % 8);
    const int bits = 8 * (int)mmc_dtype_size(large ? MMC_I32 : dtype);
    const int64_t base = large ? 512 : 1, most = large ? 40 : 60;
    trial t;
    if (!trial_create(&t, large ? MMC_I32 : dtype, base + random_below(random, most),
                      base + random_below(random, most), base + random_below(random, most), true,
                      random))
      return;
    t.gemm.rule = (mmci_rule){.checked = true};
    /* Sums come near the greatest number of the dtype, from either side. */
    const int a_bits = 1 + (int)random_below(random, bits - 2),
              b_bits = bits - a_bits - (int)random_below(random, 8);
    fill_integers(&t.a, a_bits, random);
    fill_integers(&t.b, b_bits < 1 ? 1 : b_bits, random);
    fill_integers(&t.c, 1 + (int)random_below(random, bits), random);
    if (try_checked(with, &t))
      fit++;
    else
      exceed++;
    trial_destroy(&t);
  }
  expect(fit > cases / 10 && exceed > cases / 10, "sums lie on both sides");
  /* One element that is one too much, and one that is not. */
  for (int over = 0; over < 2; over++) {
    trial t;
    if (!trial_create(&t, MMC_I64, 70, 2, 90, false, random)) return;
    memset(t.a.host, 0, t.a.bytes);
    memset(t.b.host, 0, t.b.bytes);
    const int64_t half = INT64_C(1) << 62, one = 1, rest = over ? half : half - 1;
    memcpy(at(&t.a, 66, 0), &half, 8);
    memcpy(at(&t.b, 0, 81), &one, 8);
    memcpy(at(&t.a, 66, 1), &rest, 8);
    memcpy(at(&t.b, 1, 81), &one, 8);
    t.gemm.rule = (mmci_rule){.checked = true};
    expect(try_checked(with, &t) == (over == 0), "2^63 is one too much");
    trial_destroy(&t);
  }
}

/* ---- doubles --------------------------------------------------------------------------------- */

/* Says whether rows of C are within rounding of scaled elements, by so many moduli. */
static bool is_near(const trial *t, int planes) {
  static mmci_moduli moduli;
  mmci_moduli_fill(&moduli);
  const mmci_gemm *g = &t->gemm;
  const int64_t rows = g->m < ROWS_COMPARED ? g->m : ROWS_COMPARED;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t r = i < rows / 2 ? i : g->m - rows + i;
    for (int64_t c = 0; c < g->n; c++) {
      long double sum = 0, squares_a = 0, squares_b = 0, left = 0, right = 0, all = 0;
      for (int64_t d = 0; d < g->k; d++) {
        const long double x = *(double *)at(&t->a, r, d), y = *(double *)at(&t->b, d, c);
        sum += x * y;
        all += fabsl(x * y);
        squares_a += x * x;
        squares_b += y * y;
        left += fabsl(x);
        right += fabsl(y);
      }
      const long double before = g->accumulate ? *(const double *)was(t, r, c) : 0;
      /* Scales of four bits are up to an eighth less than asked for. */
      const long double reach = 0.87L * (long double)moduli.reach[planes],
                        unit_a = sqrtl(squares_a) / reach, unit_b = sqrtl(squares_b) / reach;
      const long double bound = 0.501L * (unit_a * right + unit_b * left) +
                                (long double)g->k * unit_a * unit_b +
                                0x1p-50L * (all + fabsl(before));
      if (!(fabsl((long double)*(double *)at(&t->c, r, c) - before - sum) <= bound)) return false;
    }
  }
  return true;
}

static void test_doubles(const bench *with, uint64_t *random) {
  const int cases = with->on->small ? 6 : 60;
  for (int i = 0; i < cases; i++) {
    const int64_t most = with->on->small ? 150 : 900;
    const int planes = i % 4 == 0 ? 5 + (int)random_below(random, 12) : 0;
    trial t;
    if (!trial_create(&t, MMC_F64, 1 + random_below(random, most), 1 + random_below(random, most),
                      1 + random_below(random, most), true, random))
      return;
    fill_doubles(&t.a, (faithful_data)(i % FAITHFUL_DATA), false, random);
    fill_doubles(&t.b, (faithful_data)(i % FAITHFUL_DATA), true, random);
    if (t.gemm.accumulate) fill_doubles(&t.c, FAITHFUL_NORMAL, false, random);
    if (compute(with, &t, planes)) {
      /* Where it is native, it is nearer. */
      if (!expect(is_near(&t, planes > 0 ? planes : 13), "doubles are within the bound")) {
        printf("  %s, %d moduli\n", faithful_data_name((faithful_data)(i % FAITHFUL_DATA)), planes);
        describe_trial(&t);
      }
      expect_gaps(&t);
    }
    trial_destroy(&t);
  }
}

/* Rows and columns that are not finite, or cannot be scaled, come out as FP64 has them. */
static void test_left(const bench *with, uint64_t *random) {
  trial t;
  if (!trial_create(&t, MMC_F64, 300, 600, 400, false, random)) return;
  fill_doubles(&t.a, FAITHFUL_NORMAL, false, random);
  fill_doubles(&t.b, FAITHFUL_NORMAL, true, random);
  *(double *)at(&t.a, 7, 100) = (double)NAN;
  *(double *)at(&t.a, 8, 100) = (double)INFINITY;
  *(double *)at(&t.b, 100, 9) = 0x1p600;
  for (int64_t d = 0; d < 600; d++) *(double *)at(&t.a, 11, d) = d == 5 ? 1 : 0;
  for (int64_t d = 0; d < 600; d++) *(double *)at(&t.a, 12, d) = 0;
  if (compute(with, &t, 0)) {
    bool right = true;
    for (int64_t c = 0; c < 400; c++) {
      const double infinite = *(double *)at(&t.c, 8, c);
      right = right && isnan(*(double *)at(&t.c, 7, c)) && isinf(infinite) &&
              *(double *)at(&t.c, 11, c) == *(double *)at(&t.b, 5, c) &&
              *(double *)at(&t.c, 12, c) == 0;
    }
    for (int64_t r = 0; r < 300; r++) {
      const double x = *(double *)at(&t.a, r, 100), got = *(double *)at(&t.c, r, 9);
      if (r != 7 && r != 8 && r != 11 && r != 12)
        right = right && fabs(got - x * 0x1p600) <= 1e-14 * fabs(x) * 0x1p600;
    }
    expect(right, "what residues cannot hold is left to FP64");
  }
  trial_destroy(&t);
}

/* Errors of rows of C, in norm and the largest, against sums of 64 bits of mantissa. */
static void errors_of(const trial *t, double *norm, double *most) {
  const mmci_gemm *g = &t->gemm;
  long double squares = 0, largest = 0;
  for (int64_t i = 0; i < 8; i++) {
    const int64_t r = i * g->m / 8;
    for (int64_t c = 0; c < g->n; c++) {
      long double sum = 0;
      for (int64_t d = 0; d < g->k; d++)
        sum += (long double)*(double *)at(&t->a, r, d) * *(double *)at(&t->b, d, c);
      const long double off = fabsl((long double)*(double *)at(&t->c, r, c) - sum);
      squares += off * off;
      largest = off > largest ? off : largest;
    }
  }
  *norm = (double)sqrtl(squares);
  *most = (double)largest;
}

static void test_errors(const bench *with, uint64_t *random) {
  const mmci_device_ops *ops = with->on->ops;
  for (int data = 0; data < FAITHFUL_DATA; data++) {
    trial t;
    double norm, most, native_norm, native_most;
    mmci_error error = {0};
    mmci_kernel *kernel = NULL;
    mmci_queue *queue = NULL;
    if (!trial_create(&t, MMC_F64, 2048, 2048, 2048, false, random)) return;
    fill_doubles(&t.a, (faithful_data)data, false, random);
    fill_doubles(&t.b, (faithful_data)data, true, random);
    mmci_gemm native = t.gemm;
    native.precision = MMCI_NATIVE;
    const bool right =
        compute(with, &t, 0) &&
        expect_ok(ops->queue_open(with->on->device, &queue, &error), &error, "a queue") &&
        expect_ok(ops->prepare(with->on->device, &native, &kernel, &error), &error, "prepare");
    if (right) {
      errors_of(&t, &norm, &most);
      expect_ok(ops->enqueue(queue, kernel, t.a.device, t.b.device, t.c.device, &error), &error,
                "enqueue");
      expect_ok(ops->sync(queue, &error), &error, "sync");
      cuda_ok(cudaMemcpy(t.c.host, t.c.device, t.c.bytes, cudaMemcpyDeviceToHost), "download");
      errors_of(&t, &native_norm, &native_most);
      if (!expect(norm <= 1.02 * native_norm && most <= 1.05 * native_most,
                  "errors are not above FP64's"))
        printf("  %s: %.3g of FP64's in norm, %.3g the largest\n",
               faithful_data_name((faithful_data)data), norm / native_norm, most / native_most);
    }
    if (kernel != NULL) ops->release(kernel);
    if (queue != NULL) ops->queue_close(queue);
    trial_destroy(&t);
  }
}

/* Says whether elements of rows of C are off by no more than the tolerance says. */
static bool is_within(const trial *t, double tolerance) {
  const mmci_gemm *g = &t->gemm;
  for (int64_t i = 0; i < 8; i++) {
    const int64_t r = i * g->m / 8;
    for (int64_t c = 0; c < g->n; c++) {
      long double sum = 0, left = 0, right = 0;
      for (int64_t d = 0; d < g->k; d++) {
        const long double x = *(double *)at(&t->a, r, d), y = *(double *)at(&t->b, d, c);
        sum += x * y;
        left += x * x;
        right += y * y;
      }
      const long double off = fabsl((long double)*(double *)at(&t->c, r, c) - sum);
      if (!(off <= (long double)tolerance * sqrtl(left * right))) return false;
    }
  }
  return true;
}

static void test_tolerance(const bench *with, uint64_t *random) {
  struct cudaDeviceProp facts;
  if (!cuda_ok(cudaGetDeviceProperties(&facts, 0), "cudaGetDeviceProperties")) return;
  for (int i = 0; i < 24; i++) {
    trial t;
    if (!trial_create(&t, MMC_F64, 1 + random_below(random, 300), 1 + random_below(random, 2000),
                      1 + random_below(random, 300), true, random))
      return;
    t.gemm.accumulate = false;
    t.gemm.rule.tolerance = pow(10, -1 - (double)random_below(random, 120) / 10);
    fill_doubles(&t.a, (faithful_data)(i % FAITHFUL_DATA), false, random);
    fill_doubles(&t.b, (faithful_data)(i % FAITHFUL_DATA), true, random);
    /* Rows that are left to FP64 are off by so much, whatever the moduli. */
    const double least = mmci_gemm_error_bound(&t.gemm);
    const bool there = mmci_residues_supports(&facts, &t.gemm);
    if (!expect(there == (t.gemm.rule.tolerance > 1.01 * least) ||
                    fabs(t.gemm.rule.tolerance / least - 1) < 0.01,
                "there are moduli for a tolerance that FP64 keeps"))
      describe_trial(&t);
    if (there)
      expect(mmci_residues_error_bound(&t.gemm) <= t.gemm.rule.tolerance, "the bound is kept");
    if (there && compute(with, &t, 0) &&
        !expect(is_within(&t, t.gemm.rule.tolerance), "elements are within the tolerance")) {
      printf("  %s, %g\n", faithful_data_name((faithful_data)(i % FAITHFUL_DATA)),
             t.gemm.rule.tolerance);
      describe_trial(&t);
    }
    trial_destroy(&t);
  }
  mmci_gemm never = mmci_gemm_tight(MMC_F64, MMCI_FAITHFUL, 9, 4096, 9, MMC_OP_N, MMC_OP_N);
  never.rule.tolerance = 1e-17;
  expect(!mmci_residues_supports(&facts, &never), "no moduli keep 1e-17");
}

/* ---- shared operands ---------------------------------------------------------------------------
 */

/* Products of one operand, in any two of their places, by the module: those that share what is made
 * of it have the bits of those that do not. */
static void test_shared(const bench *with, uint64_t *random) {
  enum { SIDE = 2900, LONG = 2500 }; /* as many multiplications as residues pay from */
  const mmci_device_ops *ops = with->on->ops;
  mmci_error error = {0};
  mmci_queue *queue = NULL;
  if (!expect_ok(ops->queue_open(with->on->device, &queue, &error), &error, "a queue")) return;
  /* X = A B, Y = A C, Z = A A^T. */
  matrix a, b, c[3] = {{0}}, plain[3] = {{0}};
  const mmci_form form = {.ld = LONG}, narrow = {.ld = SIDE};
  if (!matrix_create(&a, MMC_F64, SIDE, LONG, form) ||
      !matrix_create(&b, MMC_F64, LONG, SIDE, narrow))
    return;
  fill_doubles(&a, FAITHFUL_NORMAL, false, random);
  fill_doubles(&b, FAITHFUL_UNIFORM, true, random);
  mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_FAITHFUL, SIDE, LONG, SIDE, MMC_OP_N, MMC_OP_N);
  mmci_gemm square = gemm;
  square.b = (mmci_form){.ld = LONG, .trans = true};
  mmci_kernel *kernels[3] = {NULL, NULL, NULL};
  bool right = matrix_up(&a) && matrix_up(&b);
  for (int i = 0; i < 3 && right; i++)
    right = matrix_create(&c[i], MMC_F64, SIDE, SIDE, narrow) &&
            matrix_create(&plain[i], MMC_F64, SIDE, SIDE, narrow) &&
            expect_ok(ops->prepare(with->on->device, i == 2 ? &square : &gemm, &kernels[i], &error),
                      &error, "prepare");
  for (int pass = 0; pass < 2 && right; pass++) {
    if (pass == 1) {
      expect(ops->share(kernels[1], 0, kernels[0], 0), "A is shared");
      expect(ops->share(kernels[1], 1, kernels[0], 1), "B is shared");
      expect(ops->share(kernels[2], 0, kernels[1], 0), "what is shared is shared again");
      expect(ops->share(kernels[2], 1, kernels[2], 0), "A is its own B");
      expect(!ops->share(kernels[0], 0, kernels[1], 1), "rows are not columns");
    }
    for (int i = 0; i < 3 && right; i++) {
      const matrix *to = pass == 0 ? &plain[i] : &c[i];
      right = expect_ok(ops->enqueue(queue, kernels[i], a.device, i == 2 ? a.device : b.device,
                                     to->device, &error),
                        &error, "enqueue") &&
              expect_ok(ops->sync(queue, &error), &error, "sync") &&
              cuda_ok(cudaMemcpy(to->host, to->device, to->bytes, cudaMemcpyDeviceToHost), "down");
    }
  }
  for (int i = 0; i < 3 && right; i++)
    expect(memcmp(plain[i].host, c[i].host, c[i].bytes) == 0, "sharing changes no bit");
  for (int i = 0; i < 3; i++) {
    if (kernels[i] != NULL) ops->release(kernels[i]);
    matrix_destroy(&c[i]);
    matrix_destroy(&plain[i]);
  }
  ops->queue_close(queue);
  matrix_destroy(&a);
  matrix_destroy(&b);
}

/* ---- complex elements ------------------------------------------------------------------------ */

static void read_complex(const matrix *x, int64_t r, int64_t c, long double out[2]) {
  const void *from = at(x, r, c);
  for (int i = 0; i < 2; i++)
    out[i] = x->size == 16 ? (long double)((const double *)from)[i]
                           : (long double)((const float *)from)[i];
  if (x->form.conj) out[1] = -out[1];
}

static void fill_complex(matrix *x, faithful_data data, uint64_t *random) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      for (int i = 0; i < 2; i++) {
        const double value = faithful_draw(data, random);
        if (x->size == 16)
          ((double *)at(x, r, c))[i] = value;
        else
          ((float *)at(x, r, c))[i] = (float)value;
      }
}

/* Computes C by the module, and returns the errors of some rows of it in norm. */
static double complex_error(const bench *with, trial *t, mmci_precision precision) {
  enum { ROWS = 4 };
  const mmci_device_ops *ops = with->on->ops;
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  mmci_queue *queue = NULL;
  mmci_gemm gemm = t->gemm;
  gemm.precision = precision;
  long double squares = 0;
  const bool done =
      expect_ok(ops->queue_open(with->on->device, &queue, &error), &error, "a queue") &&
      expect_ok(ops->prepare(with->on->device, &gemm, &kernel, &error), &error, "prepare") &&
      expect_ok(ops->enqueue(queue, kernel, t->a.device, t->b.device, t->c.device, &error), &error,
                "enqueue") &&
      expect_ok(ops->sync(queue, &error), &error, "sync") &&
      cuda_ok(cudaMemcpy(t->c.host, t->c.device, t->c.bytes, cudaMemcpyDeviceToHost), "download");
  for (int64_t i = 0; done && i < ROWS; i++)
    for (int64_t c = 0; c < gemm.n; c++) {
      long double sum[2] = {0, 0}, x[2], y[2];
      for (int64_t d = 0; d < gemm.k; d++) {
        read_complex(&t->a, i * gemm.m / ROWS, d, x);
        read_complex(&t->b, d, c, y);
        sum[0] += x[0] * y[0] - x[1] * y[1];
        sum[1] += x[0] * y[1] + x[1] * y[0];
      }
      read_complex(&t->c, i * gemm.m / ROWS, c, x);
      squares += (x[0] - sum[0]) * (x[0] - sum[0]) + (x[1] - sum[1]) * (x[1] - sum[1]);
    }
  if (kernel != NULL) ops->release(kernel);
  if (queue != NULL) ops->queue_close(queue);
  return done ? (double)sqrtl(squares) : (double)INFINITY;
}

/* Large complex products are emulated, wherever operands lie, with errors not above native's. */
static void test_complex(const bench *with, uint64_t *random) {
  static const faithful_data DATA[] = {FAITHFUL_NORMAL, FAITHFUL_UNIFORM};
  for (int i = 0; i < 4; i++) {
    const mmc_dtype dtype = i % 2 == 0 ? MMC_C64 : MMC_C128;
    const int64_t side = dtype == MMC_C64 ? 2304 : 2320;
    trial t;
    const mmci_form a = {.ld = side + i, .trans = i == 2, .conj = i == 2},
                    b = {.ld = side, .trans = i > 1, .conj = i == 3};
    t = (trial){.gemm =
                    mmci_gemm_tight(dtype, MMCI_FAITHFUL, side, side, side, MMC_OP_N, MMC_OP_N)};
    t.gemm.a = a;
    t.gemm.b = b;
    if (!matrix_create(&t.a, dtype, side, side, a) || !matrix_create(&t.b, dtype, side, side, b) ||
        !matrix_create(&t.c, dtype, side, side, (mmci_form){.ld = side}))
      return;
    fill_complex(&t.a, DATA[i / 2], random);
    fill_complex(&t.b, DATA[i / 2], random);
    if (matrix_up(&t.a) && matrix_up(&t.b)) {
      const char *name = with->on->ops->kernel_name(with->on->device, &t.gemm);
      expect(strncmp(name, "emulated", 8) == 0, "a complex product is emulated");
      const double faithful = complex_error(with, &t, MMCI_FAITHFUL),
                   native = complex_error(with, &t, MMCI_NATIVE);
      if (!expect(faithful <= 1.02 * native, "errors are not above those of complex products"))
        printf("  %s, case %d: %.3g of native's\n", mmc_dtype_name(dtype), i, faithful / native);
    }
    trial_destroy(&t);
  }
}

/* ---- graphs and choices ---------------------------------------------------------------------- */

/* A product in a graph, which is launched twice, has the same bits. */
static void test_graph(const bench *with, mmc_dtype dtype, uint64_t *random) {
  trial t;
  mmci_error error = {0};
  mmci_residues *residues = NULL;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  if (!trial_create(&t, dtype, 256, 512, 256, false, random)) return;
  if (dtype == MMC_F64) {
    fill_doubles(&t.a, FAITHFUL_NORMAL, false, random);
    fill_doubles(&t.b, FAITHFUL_NORMAL, true, random);
  } else {
    fill_integers(&t.a, 64, random);
    fill_integers(&t.b, 64, random);
  }
  unsigned char *again = malloc(t.c.bytes);
  if (again != NULL && compute(with, &t, 0) &&
      expect_ok(mmci_residues_prepare(&t.gemm, 0, with->multiprocessors, &residues, &error), &error,
                "prepare")) {
    cuda_ok(cudaStreamBeginCapture(with->stream, cudaStreamCaptureModeThreadLocal), "capture");
    expect_ok(
        mmci_residues_enqueue(with->stream, residues, t.a.device, t.b.device, t.c.device, &error),
        &error, "enqueue");
    cuda_ok(cudaStreamEndCapture(with->stream, &graph), "captured");
    cuda_ok(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
    for (int i = 0; i < 2; i++) {
      cuda_ok(cudaMemsetAsync(t.c.device, 0xff, t.c.bytes, with->stream), "memset");
      cuda_ok(cudaGraphLaunch(ready, with->stream), "launch");
      cuda_ok(cudaStreamSynchronize(with->stream), "a graph ends");
      cuda_ok(cudaMemcpy(again, t.c.device, t.c.bytes, cudaMemcpyDeviceToHost), "download");
      expect(memcmp(again, t.c.host, t.c.bytes) == 0, "a graph has the same bits");
    }
    cuda_ok(cudaGraphExecDestroy(ready), "destroy");
    cuda_ok(cudaGraphDestroy(graph), "destroy");
  }
  mmci_residues_release(residues);
  free(again);
  trial_destroy(&t);
}

static void test_choice(const bench *with) {
  const struct {
    mmc_dtype dtype;
    mmci_precision precision;
    int64_t m, k, n;
    const char *name;
  } CASES[] = {{MMC_F64, MMCI_FAITHFUL, 8192, 8192, 8192, mmci_residues_name(MMC_F64)},
               {MMC_F64, MMCI_NATIVE, 8192, 8192, 8192, "cublas dgemm"},
               {MMC_F64, MMCI_FAITHFUL, 512, 512, 512, "cublas dgemm"},
               {MMC_F64, MMCI_FAITHFUL, 2800, 2800, 2800, mmci_residues_name(MMC_F64)},
               {MMC_F64, MMCI_FAITHFUL, 2500, 2500, 2500, "cublas dgemm"},
               /* Sums that cuBLAS may cut into pieces. */
               {MMC_F64, MMCI_FAITHFUL, 1024, 16000, 4000, "cublas dgemm"},
               {MMC_F64, MMCI_FAITHFUL, 2000, 20000, 5000, mmci_residues_name(MMC_F64)},
               {MMC_I32, MMCI_NATIVE, 8192, 8192, 8192, mmci_residues_name(MMC_I32)},
               {MMC_U64, MMCI_NATIVE, 8192, 8192, 8192, mmci_residues_name(MMC_U64)},
               {MMC_I32, MMCI_NATIVE, 64, 64, 64, "plain"},
               {MMC_BOOL, MMCI_NATIVE, 8192, 8192, 8192, "plain"}};
  for (size_t s = 0; s < sizeof CASES / sizeof *CASES; s++) {
    mmci_gemm gemm = mmci_gemm_tight(CASES[s].dtype, CASES[s].precision, CASES[s].m, CASES[s].k,
                                     CASES[s].n, MMC_OP_N, MMC_OP_N);
    const char *name = with->on->ops->kernel_name(with->on->device, &gemm);
    expect(strcmp(name, CASES[s].name) == 0, name);
  }
}

static void test_all(const target *on) {
  bench with = {.on = on};
  struct cudaDeviceProp facts;
  uint64_t random = 20261123;
  const mmci_gemm any = mmci_gemm_tight(MMC_F64, MMCI_FAITHFUL, 1, 1, 1, MMC_OP_N, MMC_OP_N);
  if (!cuda_ok(cudaGetDeviceProperties(&facts, 0), "cudaGetDeviceProperties")) return;
  if (!on->race) test_module(&with, &random);
  if (!mmci_residues_supports(&facts, &any)) {
    printf("no kernels for compute capability %d.%d\n", facts.major, facts.minor);
    return;
  }
  with.multiprocessors = facts.multiProcessorCount;
  if (!cuda_ok(cudaStreamCreateWithFlags(&with.stream, cudaStreamNonBlocking), "a stream")) return;
  test_integers(&with, &random);
  test_modulo(&with, &random);
  test_checked(&with);
  test_doubles(&with, &random);
  if (!on->race) {
    test_left(&with, &random);
    test_graph(&with, MMC_F64, &random);
    test_graph(&with, MMC_I64, &random);
    test_graph(&with, MMC_I32, &random);
  }
  if (!on->small) {
    test_hostile(&with, &random);
    test_errors(&with, &random);
    test_tolerance(&with, &random);
    test_shared(&with, &random);
    test_complex(&with, &random);
    test_choice(&with);
  }
  cuda_ok(cudaStreamDestroy(with.stream), "cudaStreamDestroy");
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
