/* test_products.cpp: the CUDA module's own kernels for products and copies, run by the CPU: every
 * thread of a block is a fiber, and the order in which they run is shuffled at every barrier. Each
 * element is compared with a sum in f64; what lies beside the elements is NaN and stays it.
 *
 *     test_products [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_kernels.h"
extern "C" {
#include "base/half.h"
#include "device/cuda/product/ordered_complex.h"
#include "device/cuda/product/outer.h"
#include "device/cuda/product/piece_loops.h"
#include "device/cuda/product/vectors.h"
#include "device/ref/ref_integer.h"
#include "device/ref/ref_ordered.h"
}

#include "../elements.h"
#include "../how_many.h"
#include "../random.h"

static int failures = 0, checks = 0;

struct Matrix {
  mmc_dtype dtype;
  int64_t rows, cols;
  mmci_form form;
  std::vector<unsigned char> bytes;

  Matrix(mmc_dtype dtype_, int64_t rows_, int64_t cols_, mmci_form form_)
      : dtype(dtype_), rows(rows_), cols(cols_), form(form_) {
    int64_t lines = form.trans ? cols : rows;
    bytes.assign((size_t)(lines * form.ld + 1) * dtype_facts[dtype].size, 0xff);
  }
  unsigned char *at(int64_t r, int64_t c) {
    return &bytes[(size_t)(form.trans ? c * form.ld + r : r * form.ld + c) *
                  dtype_facts[dtype].size];
  }
  element read(int64_t r, int64_t c) {
    element value = element_read(dtype, at(r, c));
    if (form.conj) value.im = -value.im;
    return value;
  }
  void fill(uint64_t *random) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        element value = {random_unit(random), random_unit(random)};
        element_write(dtype, at(r, c), value);
      }
  }
  /* Says whether all but the elements is as it was made. */
  bool rest_is_untouched() {
    std::vector<unsigned char> rest = bytes;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++)
        memset(&rest[(size_t)(at(r, c) - bytes.data())], 0xff, dtype_facts[dtype].size);
    for (unsigned char byte : rest)
      if (byte != 0xff) return false;
    return true;
  }
};

static mmci_form random_form(uint64_t *random, int64_t rows, int64_t cols) {
  mmci_form form = {};
  form.trans = random_below(random, 2) == 1;
  form.conj = random_below(random, 2) == 1;
  form.ld = (form.trans ? rows : cols) + 1 + random_below(random, 2) * random_below(random, 9);
  return form;
}

static int64_t random_size(uint64_t *random) {
  static const int64_t EDGES[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65};
  return random_below(random, 2) == 0 ? EDGES[random_below(random, 11)] : random_below(random, 90);
}

static void expect(bool held, const char *what, mmc_dtype dtype, int64_t m, int64_t k, int64_t n,
                   uint64_t seed) {
  checks++;
  if (held) return;
  failures++;
  printf("FAILED: %s: %s %" PRId64 " x %" PRId64 " x %" PRId64 ", seed %" PRIu64 "\n", what,
         mmc_dtype_name(dtype), m, k, n, seed);
}

typedef mmc_status (*product_kernel)(cudaStream_t, const mmci_gemm *, const void *, const void *,
                                     void *, mmci_error *);

/* Draws what is left of a product of this dtype and these sizes, and checks what the kernel makes
 * of it. */
static void check_product(product_kernel kernel, mmci_gemm g, uint64_t *random, uint64_t seed) {
  mmci_error error = {};
  g.a = random_form(random, g.m, g.k);
  g.b = random_form(random, g.k, g.n);
  g.ldc = g.n + 1 + random_below(random, 5);
  g.accumulate = random_below(random, 3) == 0;
  mmci_form plain = {};
  plain.ld = g.ldc;
  Matrix a(g.dtype, g.m, g.k, g.a), b(g.dtype, g.k, g.n, g.b), c(g.dtype, g.m, g.n, plain);
  a.fill(random);
  b.fill(random);
  if (g.accumulate) c.fill(random);
  Matrix before = c;
  bool right =
      kernel(nullptr, &g, a.bytes.data(), b.bytes.data(), c.bytes.data(), &error) == MMC_OK;
  const struct dtype_facts *facts = &dtype_facts[g.dtype];
  for (int64_t r = 0; r < g.m; r++)
    for (int64_t q = 0; q < g.n; q++) {
      element exact = {0, 0}, got = c.read(r, q);
      if (g.accumulate) exact = before.read(r, q);
      double sum = fabs(exact.re) + fabs(exact.im);
      for (int64_t d = 0; d < g.k; d++) {
        element x = a.read(r, d), y = b.read(d, q);
        exact.re += x.re * y.re - x.im * y.im;
        exact.im += x.re * y.im + x.im * y.re;
        sum += (fabs(x.re) + fabs(x.im)) * (fabs(y.re) + fabs(y.im));
      }
      double limit = facts->sum_epsilon * (8 * sqrt((double)g.k) + 8) * sum + facts->least +
                     facts->epsilon * (fabs(exact.re) + fabs(exact.im));
      right = right && fabs(got.re - exact.re) <= limit && fabs(got.im - exact.im) <= limit;
    }
  expect(right && c.rest_is_untouched(), "a product", g.dtype, g.m, g.k, g.n, seed);
}

static void try_product(uint64_t seed) {
  uint64_t random = seed;
  mmci_gemm g = {};
  g.dtype = (mmc_dtype)random_below(&random, DTYPES);
  g.m = random_size(&random);
  g.k = random_size(&random);
  g.n = random_size(&random);
  const bool by_tensor_cores =
      (g.dtype == MMC_F16 || g.dtype == MMC_BF16) && random_below(&random, 2) == 1;
  check_product(by_tensor_cores ? mmci_cuda_ordered_half : mmci_cuda_plain_product, g, &random,
                seed);
}

/* Few elements of long sums: vectors, edges that are no multiples of a tile, and more terms than a
 * block has threads. */
static void try_thin(uint64_t seed) {
  static const int64_t SIDES[] = {1, 1, 2, 3, 4, 5, 7, 8, 13};
  static const int64_t TERMS[] = {1, 2, 31, 32, 33, 63, 64, 65, 128, 511, 512, 513, 1025, 2500};
  uint64_t random = seed;
  mmci_gemm g = {};
  g.dtype = (mmc_dtype)random_below(&random, DTYPES);
  g.m = SIDES[random_below(&random, 9)];
  g.n = SIDES[random_below(&random, 9)];
  g.k = TERMS[random_below(&random, 14)];
  check_product(mmci_cuda_thin_product, g, &random, seed);
}

/* A batch of matrices, some elements after each line, matrix and the begin of memory; all between
 * is NaN. */
struct Batch {
  mmc_dtype dtype;
  int64_t rows, cols, batch, first;
  mmci_form form;
  std::vector<unsigned char> all;

  Batch(uint64_t *random, mmc_dtype type, int64_t r, int64_t c, int64_t count, bool may_be_turned)
      : dtype(type), rows(r), cols(c), batch(count), form() {
    const int64_t EVEN[] = {0, 0, 1, 2, 8};
    form.trans = may_be_turned && random_below(random, 2) == 1;
    form.conj = form.trans && mmci_dtype_is_complex(type) && random_below(random, 2) == 1;
    form.ld = (form.trans ? rows : cols) + EVEN[random_below(random, 5)];
    form.stride = (form.trans ? cols : rows) * form.ld + EVEN[random_below(random, 5)];
    first = EVEN[random_below(random, 5)];
    all.assign((size_t)(first + batch * form.stride) * dtype_facts[dtype].size, 0xff);
  }
  unsigned char *at(int64_t t, int64_t r, int64_t c) {
    return &all[(size_t)(first + t * form.stride +
                         (form.trans ? c * form.ld + r : r * form.ld + c)) *
                dtype_facts[dtype].size];
  }
  element read(int64_t t, int64_t r, int64_t c) {
    element value = element_read(dtype, at(t, r, c));
    if (form.conj) value.im = -value.im;
    return value;
  }
  void fill(uint64_t *random) {
    for (int64_t t = 0; t < batch; t++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
          const double re = random_unit(random), im = random_unit(random);
          element_write(dtype, at(t, r, c), element{re, im});
        }
  }
};

/* Draws the forms and elements of a batch of this dtype and these sizes, and compares what the
 * kernel makes of it with sums in double precision, and what lies between with what was there. */
static void check_batch(bool (*supports)(const mmci_gemm *), product_kernel multiply, mmci_gemm g,
                        uint64_t *random, const char *what, uint64_t seed) {
  mmci_error error = {};
  const struct dtype_facts *facts = &dtype_facts[g.dtype];
  Batch a(random, g.dtype, g.m, g.k, g.batch, true), b(random, g.dtype, g.k, g.n, g.batch, true),
      c(random, g.dtype, g.m, g.n, g.batch, false);
  a.fill(random);
  b.fill(random);
  g.a = a.form;
  g.b = b.form;
  g.ldc = c.form.ld;
  g.c_stride = c.form.stride;
  bool right = supports(&g) &&
               multiply(nullptr, &g, a.at(0, 0, 0), b.at(0, 0, 0), c.at(0, 0, 0), &error) == MMC_OK;
  for (int64_t t = 0; t < g.batch; t++)
    for (int64_t r = 0; r < g.m; r++)
      for (int64_t q = 0; q < g.n; q++) {
        element exact = {0, 0};
        double sum = 0;
        for (int64_t d = 0; d < g.k; d++) {
          const element x = a.read(t, r, d), y = b.read(t, d, q);
          exact.re += x.re * y.re - x.im * y.im;
          exact.im += x.re * y.im + x.im * y.re;
          sum += (fabs(x.re) + fabs(x.im)) * (fabs(y.re) + fabs(y.im));
        }
        const element got = c.read(t, r, q);
        const double limit = facts->sum_epsilon * (8 * sqrt((double)g.k) + 8) * sum + facts->least +
                             facts->epsilon * (fabs(exact.re) + fabs(exact.im));
        right = right && fabs(got.re - exact.re) <= limit && fabs(got.im - exact.im) <= limit;
        memset(c.at(t, r, q), 0xff, facts->size);
      }
  for (unsigned char byte : c.all) right = right && byte == 0xff;
  expect(right, what, g.dtype, g.m, g.k, g.n, seed);
}

/* Few terms of 16 bits: lines that begin and end anywhere, and tiles of several bands. */
static void try_outer(uint64_t seed) {
  static const int64_t COLS[] = {1, 7, 8, 9, 16, 31, 64, 65, 128, 129, 136, 255, 256, 257, 300};
  static const int64_t TERMS[] = {1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32};
  uint64_t random = seed;
  mmci_gemm g = {};
  g.dtype = random_below(&random, 2) == 0 ? MMC_F16 : MMC_BF16;
  g.m = random_below(&random, 9) == 0 ? 300 : 1 + random_below(&random, 40);
  g.n = COLS[random_below(&random, 15)];
  g.k = TERMS[random_below(&random, 11)];
  g.batch = 1 + random_below(&random, 3);
  check_batch(mmci_outer_supports, mmci_cuda_outer_product, g, &random, "a product of few terms",
              seed);
}

/* Matrices by vectors and vectors by matrices: sums along lines and across them, of one thread, of
 * a warp and of a block, in words and element by element, and tiles of several products. */
static void try_vectors(uint64_t seed) {
  static const int64_t SIDES[] = {1, 2, 3, 4, 5, 17, 31, 32, 33, 64, 65, 127, 129, 260, 1500};
  uint64_t random = seed;
  mmci_gemm g = {};
  g.dtype = (mmc_dtype)random_below(&random, MMC_BF16 + 1);
  const int64_t side = SIDES[random_below(&random, 14)];
  const bool is_row = random_below(&random, 2) == 0;
  g.m = is_row ? 1 : side;
  g.n = is_row ? side : 1;
  g.k = SIDES[random_below(&random, 15)];
  /* As many sums as a card has threads are shared out otherwise. */
  g.batch = random_below(&random, 40) == 0 ? 140000 / side + 1 : 1 + random_below(&random, 20);
  if (g.batch > 100 && g.k > 5) g.k = 1 + g.k % 5;
  check_batch(mmci_vectors_supports, mmci_cuda_vectors_product, g, &random, "a batch of vectors",
              seed);
}

static uint64_t word_at(const std::vector<unsigned char> &from, int64_t i, size_t size) {
  uint64_t word = 0;
  memcpy(&word, from.data() + (size_t)i * size, size);
  return word;
}

/* Integers wrap around; truth values are taken as 0 or not. */
static void try_integers(uint64_t seed) {
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  g.dtype = (mmc_dtype)(MMC_I8 + random_below(&random, MMC_BOOL - MMC_I8 + 1));
  const bool truth = g.dtype == MMC_BOOL;
  const size_t size = mmc_dtype_size(g.dtype);
  g.m = random_size(&random);
  g.k = random_size(&random);
  g.n = random_size(&random);
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  g.ldc = g.n + 1 + random_below(&random, 5);
  g.accumulate = random_below(&random, 3) == 0;
  std::vector<unsigned char> a((size_t)((g.a.trans ? g.k : g.m) * g.a.ld) * size + 8),
      b((size_t)((g.b.trans ? g.n : g.k) * g.b.ld) * size + 8), c((size_t)(g.m * g.ldc) * size + 8);
  for (std::vector<unsigned char> *x : {&a, &b, &c})
    for (unsigned char &byte : *x)
      byte = truth && random_below(&random, 8) > 0 ? 0 : (unsigned char)random_bits(&random);
  std::vector<unsigned char> expected = c;
  for (int64_t r = 0; r < g.m; r++)
    for (int64_t q = 0; q < g.n; q++) {
      uint64_t sum = g.accumulate ? word_at(c, r * g.ldc + q, size) : 0;
      for (int64_t d = 0; d < g.k; d++) {
        const uint64_t x = word_at(a, g.a.trans ? d * g.a.ld + r : r * g.a.ld + d, size),
                       y = word_at(b, g.b.trans ? q * g.b.ld + d : d * g.b.ld + q, size);
        sum += truth ? (uint64_t)(x != 0 && y != 0) : x * y;
      }
      if (truth) sum = sum != 0;
      memcpy(expected.data() + (size_t)(r * g.ldc + q) * size, &sum, size);
    }
  const bool right =
      mmci_cuda_plain_product(nullptr, &g, a.data(), b.data(), c.data(), &error) == MMC_OK;
  checks++;
  if (right && c == expected) return;
  failures++;
  printf("FAILED: a product of %s, seed %" PRIu64 "\n", mmc_dtype_name(g.dtype), seed);
}

/* Each row of B is followed by the same times i. */
static void try_spread(const mmci_gemm &g, Matrix &b, uint64_t seed) {
  mmci_error error = {};
  mmci_form plain = {};
  plain.ld = 2 * g.n + 4;
  const mmc_dtype real = g.dtype == MMC_C64 ? MMC_F32 : MMC_F64;
  Matrix rows(real, 2 * g.k, 2 * g.n, plain), expected(real, 2 * g.k, 2 * g.n, plain);
  for (int64_t p = 0; p < g.k; p++)
    for (int64_t q = 0; q < g.n; q++) {
      const element z = b.read(p, q);
      element_write(real, expected.at(2 * p, 2 * q), element{z.re, 0});
      element_write(real, expected.at(2 * p, 2 * q + 1), element{z.im, 0});
      element_write(real, expected.at(2 * p + 1, 2 * q), element{-z.im, 0});
      element_write(real, expected.at(2 * p + 1, 2 * q + 1), element{z.re, 0});
    }
  bool right =
      mmci_cuda_spread(nullptr, &g, b.bytes.data(), rows.bytes.data(), plain.ld, &error) == MMC_OK;
  expect(right && rows.bytes == expected.bytes, "rows and those times i", g.dtype, 0, g.k, g.n,
         seed);
}

/* Checked products are those of plain loops on the host, and say what exceeds; where a bound says
 * that nothing does, what is there stays. */
static void try_checked(uint64_t seed) {
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  g.dtype = (mmc_dtype)((uint64_t)MMC_I8 + random_below(&random, 8));
  g.m = 1 + random_size(&random) % 20;
  g.k = 1 + random_size(&random) % 20;
  g.n = 1 + random_size(&random) % 20;
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  g.ldc = g.n + 1 + random_below(&random, 5);
  g.accumulate = random_below(&random, 3) == 0;
  g.rule.checked = true;
  const size_t size = mmc_dtype_size(g.dtype);
  const int bits = 8 * (int)size, a_bits = 1 + (int)random_below(&random, bits),
            b_bits = 1 + (int)random_below(&random, bits - a_bits + 1);
  std::vector<unsigned char> a, b, c;
  const auto fill = [&](std::vector<unsigned char> *x, int64_t count, int width) {
    x->resize((size_t)count * size);
    for (int64_t i = 0; i < count; i++) {
      const uint64_t drawn = random_bits(&random);
      const uint64_t value = mmci_dtype_is_signed(g.dtype)
                                 ? (uint64_t)((int64_t)drawn >> (64 - width))
                                 : drawn >> (64 - width);
      memcpy(x->data() + (size_t)i * size, &value, size);
    }
  };
  fill(&a, g.a.ld * (g.a.trans ? g.k : g.m), a_bits);
  fill(&b, g.b.ld * (g.b.trans ? g.n : g.k), b_bits);
  fill(&c, g.ldc * g.m, 1 + (int)random_below(&random, bits));
  std::vector<unsigned char> expected = c, found = c;
  const bool fits = mmci_ref_integer_gemm(&g, a.data(), b.data(), expected.data());
  int32_t exceeds = 0;
  bool right = mmci_cuda_checked_product(nullptr, &g, nullptr, &exceeds, a.data(), b.data(),
                                         found.data(), &error) == MMC_OK;
  expect(right && (exceeds == 0) == fits && found == expected, "a checked product", g.dtype, g.m,
         g.k, g.n, seed);
  /* The greatest magnitudes whose bound holds, and the least whose does not. */
  const uint64_t greatest = ~UINT64_C(0) >> (64 - bits + (mmci_dtype_is_signed(g.dtype) ? 1 : 0));
  for (uint64_t over = 0; over < 2; over++) {
    const uint64_t most[2] = {greatest / (uint64_t)g.k + over, 1};
    if (most[0] == 0) continue; /* nothing exceeds one product of that magnitude */
    found = c;
    right = mmci_cuda_checked_product(nullptr, &g, most, &exceeds, a.data(), b.data(), found.data(),
                                      &error) == MMC_OK;
    expect(right && found == (over ? expected : c), "a bound", g.dtype, g.m, g.k, g.n, seed);
  }
}

/* Reproducible products have the bits of their definition, also where elements are zeros, denormal,
 * huge, infinite or NaN; so has what is settled. */
static void try_ordered(uint64_t seed) {
  static const double ODD[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, -1e300, 6e-8, 1, INFINITY, NAN};
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  g.dtype = (mmc_dtype)random_below(&random, DTYPES);
  g.precision = MMCI_REPRODUCIBLE;
  g.m = random_size(&random);
  g.k = random_size(&random);
  g.n = random_size(&random);
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  g.ldc = g.n + 1 + random_below(&random, 5);
  g.accumulate = random_below(&random, 3) == 0;
  g.turned = random_below(&random, 2) == 0;
  mmci_form plain = {};
  plain.ld = g.ldc;
  Matrix a(g.dtype, g.m, g.k, g.a), b(g.dtype, g.k, g.n, g.b), c(g.dtype, g.m, g.n, plain);
  a.fill(&random);
  b.fill(&random);
  c.fill(&random);
  const int64_t odd = random_below(&random, 3) * random_below(&random, 8);
  for (int64_t t = 0; t < odd && g.m > 0 && g.k > 0; t++)
    element_write(g.dtype, a.at(random_below(&random, g.m), random_below(&random, g.k)),
                  element{ODD[random_below(&random, 10)], ODD[random_below(&random, 10)]});
  Matrix expected = c;
  if (g.m > 0 && g.n > 0)
    mmci_ref_ordered(&g, a.bytes.data(), b.bytes.data(), expected.bytes.data());
  bool right = mmci_cuda_ordered_product(nullptr, &g, a.bytes.data(), b.bytes.data(),
                                         c.bytes.data(), &error) == MMC_OK;
  expect(right && c.bytes == expected.bytes, "a reproducible product", g.dtype, g.m, g.k, g.n,
         seed);
  if (g.k > 0 && g.n > 0 && (g.dtype == MMC_C64 || g.dtype == MMC_C128)) try_spread(g, b, seed);
  if (g.m == 0 || g.n == 0 || g.dtype == MMC_C64 || g.dtype == MMC_C128) return;
  /* A sum below what 16 bits hold is rounded to a zero with its sign. */
  for (int64_t r = 0; r < g.m; r++)
    for (int64_t q = 0; q < g.n; q++)
      if (expected.read(r, q).re == 0) memset(expected.at(r, q), 0, dtype_facts[g.dtype].size);
  element_write(g.dtype, c.at(0, 0), element{-0.0, 0});
  right = mmci_cuda_settle(nullptr, &g, c.bytes.data(), &error) == MMC_OK;
  right = right && !std::signbit(c.read(0, 0).re);
  memcpy(c.at(0, 0), expected.at(0, 0), dtype_facts[g.dtype].size);
  expect(right && c.bytes == expected.bytes, "a settled result", g.dtype, g.m, g.k, g.n, seed);
}

/* Matrices of a batch in one array, a stride apart or found by their addresses; what lies beside
 * their elements is NaN. */
struct Stack {
  Matrix like;
  size_t shift; /* bytes before the first of them */
  std::vector<unsigned char> bytes;
  std::vector<const void *> addresses;

  Stack(mmc_dtype dtype, int64_t rows, int64_t cols, int64_t batch, mmci_form *form,
        uint64_t *random)
      : like(dtype, rows, cols, *form) {
    const size_t size = dtype_facts[dtype].size;
    form->stride =
        (form->trans ? cols : rows) * form->ld + random_below(random, 3) * random_below(random, 5);
    shift = random_below(random, 3) == 0 ? dtype_facts[dtype].real_size : 0;
    bytes.assign(shift + (size_t)(batch * form->stride + 1) * size, 0xff);
    for (int64_t i = 0; i < batch; i++) {
      like.fill(random);
      memcpy(at(i, *form), like.bytes.data(), like.bytes.size() - size);
    }
    /* These are in another order than the matrices. */
    for (int64_t i = 0; i < batch && form->gathered; i++)
      addresses.push_back(at(batch - 1 - i, *form));
  }
  unsigned char *at(int64_t i, const mmci_form &form) {
    return bytes.data() + shift + (size_t)(i * form.stride) * dtype_facts[like.dtype].size;
  }
  const void *data(const mmci_form &form) {
    return form.gathered ? (const void *)addresses.data() : at(0, form);
  }
  const void *matrix(int64_t i, const mmci_form &form) {
    return form.gathered ? addresses[(size_t)i] : at(i, form);
  }
};

/* Computes a product of 16 bits as tensor cores do: 16 exact products at a time to a sum in f32, or
 * to that of a piece, which is added to those before it. */
static void sum_by_sixteens(const mmci_gemm &g, const void *a, const void *b, unsigned char *c) {
  enum { STEP = 16, BYTES = 2 };
  const bool is_f16 = g.dtype == MMC_F16;
  const auto read = [&](const void *x, int64_t at) {
    return element_read(g.dtype, static_cast<const unsigned char *>(x) + at * BYTES).re;
  };
  for (int64_t r = 0; r < g.m; r++)
    for (int64_t q = 0; q < g.n; q++) {
      unsigned char *to = c + (r * g.ldc + q) * BYTES;
      const bool in_pieces = g.sums == MMCI_SUMS_PIECES;
      const float before = g.accumulate ? (float)read(to, 0) : 0;
      float sum = in_pieces ? 0 : before, total = 0;
      for (int64_t k = 0; k < g.k; k += STEP) {
        if (in_pieces && k > 0 && k % MMCI_PIECE_TERMS == 0) {
          total = k == MMCI_PIECE_TERMS ? sum : total + sum;
          sum = 0;
        }
        double all = sum;
        for (int64_t d = k; d < k + STEP && d < g.k; d++)
          all += read(a, g.a.trans ? d * g.a.ld + r : r * g.a.ld + d) *
                 read(b, g.b.trans ? q * g.b.ld + d : d * g.b.ld + q);
        sum = (float)all;
      }
      if (in_pieces) sum = total + sum;
      if (in_pieces && g.accumulate) sum = before + sum;
      uint16_t bits = is_f16 ? mmci_f16_round(sum) : mmci_bf16_round(sum);
      if (sum != sum) bits = is_f16 ? 0x7e00 : 0x7fc0;
      if ((bits & 0x7fff) == 0) bits = 0;
      memcpy(to, &bits, BYTES);
    }
}

/* Long products and batches have the bits of their definition, however many of their pieces are
 * there at a time; those of 16 bits by tensor cores and by loops. */
static void try_pieces(uint64_t seed) {
  static const int64_t TERMS[] = {4096, 4097, 5120, 5121, 6000, 4111};
  static const double ODD[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, -1e300, 1, INFINITY, NAN};
  static const mmc_dtype TYPES[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  g.dtype = TYPES[random_below(&random, 6)];
  g.precision = MMCI_REPRODUCIBLE;
  g.m = 1 + random_below(&random, random_below(&random, 4) == 0 ? 70 : 9);
  g.n = 1 + random_below(&random, random_below(&random, 4) == 0 ? 70 : 9);
  g.k = TERMS[random_below(&random, 6)];
  g.batch = 1 + random_below(&random, 3);
  if (random_below(&random, 25) == 0) { /* so many tiles that they are larger */
    g.m = 130 + random_below(&random, 20);
    g.n = 130 + random_below(&random, 20);
    g.batch = 3;
  }
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  g.a.gathered = random_below(&random, 4) == 0;
  g.b.gathered = random_below(&random, 4) == 0;
  g.ldc = g.n + random_below(&random, 5);
  g.accumulate = random_below(&random, 3) == 0;
  g.turned = random_below(&random, 2) == 0;
  g.sums = MMCI_SUMS_PIECES;
  mmci_form plain = {};
  plain.ld = g.ldc;
  Stack a(g.dtype, g.m, g.k, g.batch, &g.a, &random), b(g.dtype, g.k, g.n, g.batch, &g.b, &random),
      c(g.dtype, g.m, g.n, g.batch, &plain, &random);
  g.c_stride = plain.stride;
  const size_t size = dtype_facts[g.dtype].size;
  for (int64_t t = random_below(&random, 3) * random_below(&random, 8); t > 0; t--) {
    const int64_t row = random_below(&random, g.m), col = random_below(&random, g.k);
    const element odd = {ODD[random_below(&random, 9)], ODD[random_below(&random, 9)]};
    element_write(g.dtype,
                  a.at(random_below(&random, g.batch), g.a) +
                      (size_t)(g.a.trans ? col * g.a.ld + row : row * g.a.ld + col) * size,
                  odd);
  }
  const bool has_tensors = size == 2 && random_below(&random, 2) == 0;
  std::vector<unsigned char> expected = c.bytes;
  mmci_gemm one = g;
  one.batch = 1;
  one.a.gathered = one.b.gathered = false;
  for (int64_t i = 0; i < g.batch; i++) {
    unsigned char *to = expected.data() + (c.at(i, plain) - c.bytes.data());
    if (has_tensors)
      sum_by_sixteens(one, a.matrix(i, g.a), b.matrix(i, g.b), to);
    else
      mmci_ref_ordered(&one, a.matrix(i, g.a), b.matrix(i, g.b), to);
  }
  /* Room for the sums and one part at least. */
  const size_t each = (size_t)(g.m * g.n) * (size == 2 ? 4 : size);
  const size_t bytes = 2 * each + 256 + each * (size_t)random_below(&random, 20);
  std::vector<uint64_t> memory(bytes / 8 + 3, ~UINT64_C(0));
  const size_t shift = (uintptr_t)memory.data() % 16 == 0 ? 0 : 1;
  const mmci_piece_room room = {memory.data() + shift, bytes};
  const mmci_piece_way way = {mmci_loops_compute_parts, &has_tensors};
  const bool right = mmci_piece_rounds_enqueue(nullptr, &g, &way, &room, a.data(g.a), b.data(g.b),
                                               c.at(0, plain), &error) == MMC_OK;
  expect(right && c.bytes == expected && memory.back() == ~UINT64_C(0), "a long product", g.dtype,
         g.m, g.k, g.n, seed);
}

static int tiles_taken[MMCI_ORDERED_COMPLEX_TILES];

/* Products and batches whose pieces are copied ahead, complex ones by any of their tiles,
 * and those of 16 bits, have the bits of their definition, whatever the addresses of their matrices
 * are multiples of. */
static void try_ordered_stacks(uint64_t seed) {
  static const int PROCESSORS[] = {1, 2, 5, 40};
  static const double ODD[] = {0.0, -0.0, 1e-310, -1e-41, 3e38, -1e300, 1, INFINITY, NAN};
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  static const mmc_dtype DTYPES_AHEAD[] = {MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  g.dtype = DTYPES_AHEAD[random_below(&random, 4)];
  const bool is_complex = mmci_dtype_is_complex(g.dtype);
  g.precision = MMCI_REPRODUCIBLE;
  g.m = 1 + random_size(&random);
  g.k = random_size(&random);
  g.n = 1 + random_size(&random);
  /* Some sums are longer than all pieces that are there at a time. */
  if (random_below(&random, 8) == 0) {
    g.m = 1 + g.m % 20;
    g.n = 1 + g.n % 20;
    g.k = 200 + random_below(&random, 500);
  }
  g.batch = 1 + random_below(&random, 4);
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  for (mmci_form *form : {&g.a, &g.b}) /* lines are multiples of any word, half of the time */
    if (random_below(&random, 2) == 0) form->ld = (form->ld + 7) / 8 * 8;
  if (random_below(&random, 2) == 0) {
    const int64_t word = INT64_C(1) << random_below(&random, 4);
    g.m = (g.m + word - 1) / word * word, g.k = (g.k + word - 1) / word * word;
    g.n = (g.n + word - 1) / word * word;
    g.a.ld = (g.a.trans ? g.m : g.k) + word * random_below(&random, 3);
    g.b.ld = (g.b.trans ? g.k : g.n) + word * random_below(&random, 3);
    if (g.a.ld == 0) g.a.ld = 1;
    if (g.b.ld == 0) g.b.ld = 1;
  }
  g.a.gathered = random_below(&random, 4) == 0;
  g.b.gathered = random_below(&random, 4) == 0;
  g.ldc = g.n + random_below(&random, 5);
  g.accumulate = random_below(&random, 3) == 0;
  g.turned = random_below(&random, 2) == 0;
  mmci_form plain = {};
  plain.ld = g.ldc;
  Stack a(g.dtype, g.m, g.k, g.batch, &g.a, &random), b(g.dtype, g.k, g.n, g.batch, &g.b, &random),
      c(g.dtype, g.m, g.n, g.batch, &plain, &random);
  g.c_stride = plain.stride;
  const size_t size = dtype_facts[g.dtype].size;
  for (int64_t t = random_below(&random, 3) * random_below(&random, 8); t > 0 && g.k > 0; t--) {
    const int64_t row = random_below(&random, g.m), col = random_below(&random, g.k);
    const element odd = {ODD[random_below(&random, 9)], ODD[random_below(&random, 9)]};
    element_write(g.dtype,
                  a.at(random_below(&random, g.batch), g.a) +
                      (size_t)(g.a.trans ? col * g.a.ld + row : row * g.a.ld + col) * size,
                  odd);
  }
  std::vector<unsigned char> expected = c.bytes;
  mmci_gemm one = g;
  one.batch = 1;
  one.a.gathered = one.b.gathered = false;
  for (int64_t i = 0; i < g.batch; i++) {
    unsigned char *to = expected.data() + (c.at(i, plain) - c.bytes.data());
    if (is_complex)
      mmci_ref_ordered(&one, a.matrix(i, g.a), b.matrix(i, g.b), to);
    else
      sum_by_sixteens(one, a.matrix(i, g.a), b.matrix(i, g.b), to);
  }
  mmci_emulation().multiprocessors = PROCESSORS[random_below(&random, 4)];
  /* -1 is for the tile that is chosen. */
  const int tile = (int)random_below(&random, MMCI_ORDERED_COMPLEX_TILES + 1) - 1;
  if (is_complex)
    tiles_taken[tile >= 0 ? tile
                          : mmci_ordered_complex_choose(&g, mmci_emulation().multiprocessors)]++;
  const bool right = (is_complex ? mmci_cuda_ordered_complex_by(nullptr, &g, tile, a.data(g.a),
                                                                b.data(g.b), c.at(0, plain), &error)
                                 : mmci_cuda_ordered_half(nullptr, &g, a.data(g.a), b.data(g.b),
                                                          c.at(0, plain), &error)) == MMC_OK;
  mmci_emulation().multiprocessors = 2;
  expect(right && c.bytes == expected, "a reproducible batch", g.dtype, g.m, g.k, g.n, seed);
}

/* Results without gaps, of any bits: zeros become +0, and NaN the positive quiet one. */
static void try_settle(uint64_t seed) {
  static const struct {
    mmc_dtype dtype;
    int size, mantissa; /* bytes, and bits of the mantissa */
  } TYPES[] = {{MMC_F32, 4, 23}, {MMC_F64, 8, 52}, {MMC_F16, 2, 10}, {MMC_BF16, 2, 7}};
  uint64_t random = seed;
  mmci_error error = {};
  mmci_gemm g = {};
  const auto &type = TYPES[random_below(&random, 4)];
  g.dtype = type.dtype;
  g.m = 1 + random_below(&random, 70);
  g.n = g.ldc = 8 * (1 + random_below(&random, 40));
  g.k = 1;
  const uint64_t sign = UINT64_C(1) << (8 * type.size - 1),
                 infinity = sign - (UINT64_C(1) << type.mantissa),
                 quiet = infinity | UINT64_C(1) << (type.mantissa - 1);
  const uint64_t odd[] = {0,     sign,         infinity,     sign | infinity,
                          quiet, sign | quiet, infinity + 1, sign | (quiet + 1),
                          1,     sign | 1};
  const size_t size = (size_t)type.size, count = (size_t)(g.m * g.n);
  std::vector<uint64_t> result(count * size / 8), expected(count * size / 8);
  for (size_t e = 0; e < count; e++) {
    uint64_t x = random_bits(&random) & (2 * sign - 1);
    if (random_below(&random, 40) == 0) x = odd[random_below(&random, 10)];
    memcpy((char *)result.data() + e * size, &x, size);
    if ((x & ~sign) > infinity) x = quiet;
    if ((x & ~sign) == 0) x = 0;
    memcpy((char *)expected.data() + e * size, &x, size);
  }
  const bool right = mmci_cuda_settle(nullptr, &g, result.data(), &error) == MMC_OK;
  expect(right && result == expected, "a settled result without gaps", g.dtype, g.m, 1, g.n, seed);
}

static void try_copy(uint64_t seed) {
  uint64_t random = seed;
  mmci_error error = {};
  mmc_dtype dtype = (mmc_dtype)random_below(&random, DTYPES);
  int64_t rows = random_size(&random), cols = random_size(&random);
  mmci_form form = random_form(&random, rows, cols), to_form = random_form(&random, rows, cols);
  to_form.conj = false;
  Matrix from(dtype, rows, cols, form), to(dtype, rows, cols, to_form);
  from.fill(&random);
  bool right = mmci_cuda_copy_tiles(nullptr, dtype, rows, cols, from.bytes.data(), &form,
                                    to.bytes.data(), to_form.ld, to_form.trans, &error) == MMC_OK;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      element x = from.read(r, c), y = to.read(r, c);
      right = right && x.re == y.re && x.im == y.im;
    }
  expect(right && to.rest_is_untouched(), "a copy", dtype, rows, 0, cols, seed);
}

/* Any byte but 0 stands for true, and is copied as 1. */
static void try_truths(uint64_t seed) {
  uint64_t random = seed;
  mmci_error error = {};
  const int64_t rows = random_size(&random), cols = random_size(&random);
  mmci_form form = {};
  form.trans = random_below(&random, 2) == 1;
  form.ld = form.trans ? rows : cols;
  std::vector<unsigned char> from((size_t)(rows * cols)), to(from.size());
  for (unsigned char &byte : from) byte = (unsigned char)(random_below(&random, 3) * 100);
  bool right = mmci_cuda_copy_tiles(nullptr, MMC_BOOL, rows, cols, from.data(), &form, to.data(),
                                    cols, false, &error) == MMC_OK;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      right = right && to[(size_t)(r * cols + c)] ==
                           (from[(size_t)(form.trans ? c * rows + r : r * cols + c)] != 0);
  expect(right, "a copy of truths", MMC_BOOL, rows, 0, cols, seed);
}

/* Any bits at all, lines anywhere, several matrices at once. */
static void try_resize(uint64_t seed) {
  uint64_t random = seed;
  mmci_error error = {};
  mmc_dtype dtype = (mmc_dtype)random_below(&random, DTYPES);
  const size_t size = dtype_facts[dtype].size, real = dtype_facts[dtype].real_size;
  int count = 1 + (int)random_below(&random, MMCI_RESIZED);
  std::vector<std::vector<unsigned char>> from((size_t)count), to((size_t)count);
  std::vector<mmci_resizing> matrices((size_t)count);
  std::vector<std::vector<unsigned char>> expected((size_t)count);
  for (int i = 0; i < count; i++) {
    mmci_resizing *x = &matrices[(size_t)i];
    x->lines = random_size(&random), x->length = random_size(&random);
    x->to_lines = random_size(&random), x->to_length = random_size(&random);
    x->ld = x->length + random_below(&random, 5) + (x->length == 0);
    x->to_ld = x->to_length + random_below(&random, 5) + (x->to_length == 0);
    const size_t shift = real * (size_t)random_below(&random, 5);
    from[(size_t)i].resize((size_t)(x->lines * x->ld) * size + 64);
    for (unsigned char &byte : from[(size_t)i]) byte = (unsigned char)random_bits(&random);
    to[(size_t)i].assign((size_t)(x->to_lines * x->to_ld) * size + 64, 0xa5);
    expected[(size_t)i] = to[(size_t)i];
    x->from = from[(size_t)i].data() + shift / 2 / real * real;
    x->to = to[(size_t)i].data() + shift;
    for (int64_t r = 0; r < x->to_lines; r++)
      for (int64_t c = 0; c < x->to_length; c++) {
        unsigned char *at = expected[(size_t)i].data() + shift + (size_t)(r * x->to_ld + c) * size;
        if (r < x->lines && c < x->length)
          memcpy(at, (const unsigned char *)x->from + (size_t)(r * x->ld + c) * size, size);
        else
          memset(at, 0, size);
      }
  }
  bool right = mmci_cuda_resize(nullptr, dtype, matrices.data(), count, &error) == MMC_OK;
  for (int i = 0; i < count; i++)
    expect(right && to[(size_t)i] == expected[(size_t)i], "a resized matrix", dtype,
           matrices[(size_t)i].lines, matrices[(size_t)i].to_lines, matrices[(size_t)i].to_length,
           seed);
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 20260711;
  const int cases = how_many(110, 600);
  for (int t = 0; t < cases; t++) {
    try_product(seed + (uint64_t)t);
    try_thin(seed + (uint64_t)t);
    if (t % 4 == 0) try_outer(seed + (uint64_t)t);
    if (t % 2 == 0) try_vectors(seed + (uint64_t)t);
    try_integers(seed + (uint64_t)t);
    try_ordered(seed + (uint64_t)t);
    try_ordered_stacks(seed + (uint64_t)t);
    if (t % 6 == 0) try_pieces(seed + (uint64_t)t);
    try_settle(seed + (uint64_t)t);
    try_checked(seed + (uint64_t)t);
    try_copy(seed + (uint64_t)t);
    try_truths(seed + (uint64_t)t);
    try_resize(seed + (uint64_t)t);
  }
  for (int taken : tiles_taken)
    expect(taken >= cases / 40, "tiles of every size", MMC_C64, 0, 0, 0, seed);
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
