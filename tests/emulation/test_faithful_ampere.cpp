/* test_faithful_ampere.cpp: FP32 products by two FP16 parts on the tensor cores of Ampere, split
 * and multiplied by the CPU: elements of rows and columns that are not left are within the bound of
 * docs/faithful.md, others and gaps untouched. Operands have gaps and lie across k or along it.
 *
 *     test_faithful_ampere [SEED] */
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/parts.cuh"

#include "../../bench/faithful_data.h"
#include "../how_many.h"
#include "../random.h"

static int failures = 0, checks = 0;

static bool expect(bool held, const char *what) {
  checks++;
  if (!held && failures++ < 20) printf("FAILED: %s\n", what);
  return held;
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

struct Operand {
  mmci_emulated_operand to = {};
  int64_t ld;
  bool across;
  std::vector<float> x; /* NaN where no element lies */
  std::vector<uint32_t> parts;
  std::vector<mmci_emulated_row> rows;
  uint64_t rough = 0;
  std::vector<int32_t> counts;

  Operand(int64_t count, int64_t k, bool across_, int64_t gap)
      : ld((across_ ? count : k) + gap), across(across_) {
    const int64_t groups = blocks_of(count, MMCI_LINE_ROWS);
    to.rows = count;
    to.k = k;
    to.blocks = blocks_of(k, MMCI_DEPTH);
    x.assign((size_t)(ld * (across ? k : count)), std::numeric_limits<float>::quiet_NaN());
    parts.assign((size_t)(groups * MMCI_LINE_ROWS * to.blocks * 64), 0xA5A5A5A5u);
    rows.assign((size_t)count, mmci_emulated_row{});
    counts.assign((size_t)groups + 1, 0);
    to.parts = parts.data();
    to.row = rows.data();
    to.rough = &rough;
    to.arrived = counts.data();
    to.left = &counts.back();
  }
  float &at(int64_t r, int64_t k) { return x[(size_t)(across ? k * ld + r : r * ld + k)]; }
};

static void fill(Operand &o, faithful_data data, uint64_t *random) {
  for (int64_t r = 0; r < o.to.rows; r++)
    for (int64_t k = 0; k < o.to.k; k++) {
      const double grade = r % 9 == 4 ? 0x1p-70 : r % 9 == 5 ? 0x1p40 : 1;
      o.at(r, k) = (float)(faithful_draw(data, random) * grade);
      if (r % 23 == 6 && k == 0) o.at(r, k) = r % 2 == 0 ? INFINITY : NAN;
      if (r % 31 == 7 && k > 2) o.at(r, k) = 0;
      if (r % 37 == 8) o.at(r, k) = 0;
    }
}

/* Says whether an element is as near to the exact one as parts and sums allow. */
static bool is_near(Operand &a, Operand &b, int64_t i, int64_t j, double before, double got) {
  const double u = 0x1p-24, k = (double)a.to.k;
  double sum = before, all = 0, left = 0, right = 0, most_a = 0, most_b = 0;
  for (int64_t d = 0; d < a.to.k; d++) {
    const double x = (double)a.at(i, d), y = (double)b.at(j, d);
    sum += x * y;
    all += std::fabs(x * y);
    left += std::fabs(x);
    right += std::fabs(y);
    most_a = std::max(most_a, std::fabs(x));
    most_b = std::max(most_b, std::fabs(y));
  }
  const double bound = (8 * u + 21 * u + k / 32 * u) * all +
                       0x1p-50 * (most_a * right + most_b * left) +
                       2 * u * (std::fabs(sum) + std::fabs(before)) + 0x1p-148;
  return std::fabs(got - sum) <= bound;
}

static void test_product(uint64_t *random, int number) {
  const faithful_data data = (faithful_data)(number % FAITHFUL_DATA);
  const int64_t m = 1 + random_below(random, 150), k = 1 + random_below(random, 330),
                n = 1 + random_below(random, 290);
  Operand a(m, k, random_below(random, 2) != 0, random_below(random, 3)),
      b(n, k, random_below(random, 2) != 0, random_below(random, 3));
  fill(a, data, random);
  fill(b, data, random);
  mmci_emulated_product product = {};
  mmci_gemm &g = product.gemm;
  g.dtype = MMC_F32;
  g.m = m;
  g.k = k;
  g.n = n;
  g.ldc = n + random_below(random, 3);
  g.accumulate = random_below(random, 2) != 0;
  product.a = a.to;
  product.b = b.to;
  std::vector<float> c((size_t)(m * g.ldc));
  for (float &x : c) x = (float)random_unit(random);
  const std::vector<float> before = c;
  mmci_error error = {};
  expect(mmci_emulated_split(nullptr, &product, &product.a, false, a.x.data(), a.ld, a.across,
                             &error) == MMC_OK &&
             mmci_emulated_split(nullptr, &product, &product.b, false, b.x.data(), b.ld, b.across,
                                 &error) == MMC_OK &&
             mmci_emulated_multiply_ampere(nullptr, &product, c.data(), &error) == MMC_OK,
         "a product is computed");
  const bool most = 2 * (*a.to.left * n + *b.to.left * m) >= m * n;
  bool near = true, kept = true;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < g.ldc; j++) {
      const size_t at = (size_t)(i * g.ldc + j);
      const bool computed = j < n && !most && a.rows[(size_t)i].exponent != MMCI_PARTS_LEFT &&
                            b.rows[(size_t)j].exponent != MMCI_PARTS_LEFT;
      if (computed)
        near = near && is_near(a, b, i, j, g.accumulate ? (double)before[at] : 0, (double)c[at]);
      else
        kept = kept && memcmp(&c[at], &before[at], sizeof c[at]) == 0;
    }
  const bool fine = expect(near, "elements are within the bound");
  if (!expect(kept, "nothing else is written") || !fine)
    printf("  case %d: %" PRId64 "x%" PRId64 "x%" PRId64 ", %s\n", number, m, k, n,
           faithful_data_name(data));
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20261128, random = seed;
  mmci_emulation().seed = seed;
  for (int t = 0; t < how_many(9, 26); t++) test_product(&random, t);
  printf("%d checks, %d failed, seed %" PRIu64 "\n", checks, failures, seed);
  return failures == 0 ? 0 : 1;
}
