/* test_toy_kernel.cpp: the kernel of docs/howto-kernel.md, run by the CPU, against sums in f64.
 * What lies beside the elements is NaN and stays it.
 *
 *     test_toy_kernel [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "../howto/toy_kernel.h"
#include "../random.h"

enum { CASES = 60, GUARD = 8 };

static const double UNIT_ROUNDOFF = 0x1p-24;

struct Matrix {
  int64_t rows, cols, ld;
  std::vector<float> all; /* NaN but for the elements, GUARD of them before and behind */

  Matrix(int64_t rows_, int64_t cols_, int64_t gap)
      : rows(rows_),
        cols(cols_),
        ld(cols_ + gap > 0 ? cols_ + gap : 1),
        all((size_t)(rows_ * ld + 2 * GUARD), NAN) {}
  float *data() { return &all[GUARD]; }
  float &at(int64_t r, int64_t c) { return all[(size_t)(GUARD + r * ld + c)]; }
  void fill(uint64_t *random) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) at(r, c) = (float)random_unit(random);
  }
  bool rest_is_untouched() {
    std::vector<float> rest = all;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) rest[(size_t)(GUARD + r * ld + c)] = NAN;
    for (float x : rest)
      if (!std::isnan(x)) return false;
    return true;
  }
};

static bool is_right(Matrix &a, Matrix &b, Matrix &c) {
  for (int64_t i = 0; i < a.rows; i++)
    for (int64_t j = 0; j < b.cols; j++) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < a.cols; l++) {
        double term = (double)a.at(i, l) * b.at(l, j);
        sum += term;
        size += std::fabs(term);
      }
      double tolerance = 2 * (double)(a.cols + 1) * UNIT_ROUNDOFF * size;
      if (!(std::fabs(c.at(i, j) - sum) <= tolerance)) return false;
    }
  return c.rest_is_untouched();
}

static bool check_case(uint64_t *random) {
  static const int64_t EDGES[] = {0, 1, 15, 16, 17, 31, 32, 33};
  const int64_t m = EDGES[random_below(random, 8)], k = EDGES[random_below(random, 8)],
                n = EDGES[random_below(random, 8)];
  Matrix a(m, k, random_below(random, 3)), b(k, n, random_below(random, 3)),
      c(m, n, random_below(random, 3));
  a.fill(random);
  b.fill(random);
  mmci_gemm gemm = {};
  gemm.dtype = MMC_F32;
  gemm.m = m;
  gemm.k = k;
  gemm.n = n;
  gemm.a.ld = a.ld;
  gemm.b.ld = b.ld;
  gemm.ldc = c.ld;
  mmci_error error = {};
  if (toy_kernel_enqueue(nullptr, &gemm, a.data(), b.data(), c.data(), &error) == MMC_OK &&
      is_right(a, b, c))
    return true;
  std::printf("FAILED: %" PRId64 "x%" PRId64 "x%" PRId64 ": %s\n", m, k, n, error.text);
  return false;
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 0) : 1;
  uint64_t random = seed;
  int failures = 0;
  for (int i = 0; i < CASES; i++) failures += !check_case(&random);
  std::printf("%d cases, %d failed, seed %" PRIu64 "\n", CASES, failures, seed);
  return failures > 0;
}
