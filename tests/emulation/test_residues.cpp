/* test_residues.cpp: split.cu and combine.cu of products by 8-bit integers, run by the CPU, which
 * multiplies the planes of bytes itself. Results of doubles are held against the bound of
 * docs/faithful.md, those of integers against exact ones. Operands have gaps and lie both ways.
 *
 *     test_residues [SEED] */
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"
extern "C" {
#include "device/whole/whole.h"
}

#include "device/cuda/residues/moduli.cuh"
#include "device/cuda/residues/residues_kernels.h"

#include "../../bench/faithful_data.h"
#include "../random.h"

enum { CASES = 18 };

static int failures = 0, checks = 0;

static bool expect(bool held, const char *what) {
  checks++;
  if (!held && failures++ < 20) printf("FAILED: %s\n", what);
  return held;
}

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

/* ---- an operand and its planes ------------------------------------------------------------------
 */

template <class Element>
struct Operand {
  mmci_residue_operand to = {};
  int64_t ld;
  bool across;
  std::vector<Element> x;
  std::vector<int8_t> planes;
  std::vector<mmci_residue_row> rows;
  mmci_residue_seen seen = {};

  Operand(int64_t count, int64_t k, bool across_, int64_t gap, int planes_)
      : ld((across_ ? count : k) + gap), across(across_) {
    to.rows = count;
    to.k = k;
    to.lines = blocks_of(k, MMCI_LINE);
    x.assign((size_t)(ld * (across ? k : count)), Element(1));
    planes.assign((size_t)(planes_ * count * to.lines * MMCI_LINE), (int8_t)0x5a);
    rows.assign((size_t)count, mmci_residue_row{});
    to.planes = planes.data();
    to.row = rows.data();
    to.seen = &seen;
  }
  Element &at(int64_t r, int64_t k) { return x[(size_t)(across ? k * ld + r : r * ld + k)]; }
  const int8_t *line(int plane, int64_t r) const {
    return planes.data() + (plane * to.rows + r) * to.lines * MMCI_LINE;
  }
};

template <class Element>
struct Product {
  int64_t m, k, n;
  Operand<Element> a, b;
  mmci_residue_state state = {};
  mmci_moduli moduli;
  mmci_residue_product product = {};
  std::vector<int8_t> residues;
  std::vector<Element> c, before;

  Product(mmc_dtype dtype, int64_t m_, int64_t k_, int64_t n_, int planes, uint64_t *random)
      : m(m_),
        k(k_),
        n(n_),
        a(m_, k_, random_below(random, 2) != 0, random_below(random, 3), planes),
        b(n_, k_, random_below(random, 2) != 0, random_below(random, 3), planes) {
    mmci_moduli_fill(&moduli);
    mmci_gemm &g = product.gemm;
    g.dtype = dtype;
    g.m = m;
    g.k = k;
    g.n = n;
    g.a.ld = a.ld;
    g.a.trans = a.across;
    g.b.ld = b.ld;
    g.b.trans = !b.across;
    g.ldc = n + random_below(random, 3);
    g.accumulate = random_below(random, 2) != 0;
    product.a = a.to;
    product.b = b.to;
    product.state = &state;
    product.moduli = &moduli;
    product.planes = planes;
    const int64_t tiles = blocks_of(m, 2 * MMCI_PRODUCT_ROWS) * 2 * blocks_of(n, MMCI_PRODUCT_COLS);
    residues.assign((size_t)(planes * tiles * MMCI_PRODUCT_ROWS * MMCI_PRODUCT_COLS), 0);
    product.residues = residues.data();
    c.resize((size_t)(m * g.ldc));
    for (Element &x : c) x = (Element)(int64_t)random_below(random, 1000);
    before = c;
  }

  void look() {
    mmci_error error = {};
    mmci_gemm &g = product.gemm;
    expect(mmci_residues_range(nullptr, &product, &product.a, a.x.data(), g.a.ld, a.across,
                               &error) == MMC_OK &&
               mmci_residues_range(nullptr, &product, &product.b, b.x.data(), g.b.ld, b.across,
                                   &error) == MMC_OK &&
               mmci_residues_choose(nullptr, &product, a.x.data(), b.x.data(), &error) == MMC_OK,
           "operands are looked at");
  }
  void split() {
    mmci_error error = {};
    mmci_gemm &g = product.gemm;
    expect(mmci_residues_split(nullptr, &product, &product.a, a.x.data(), g.a.ld, a.across,
                               &error) == MMC_OK &&
               mmci_residues_split(nullptr, &product, &product.b, b.x.data(), g.b.ld, b.across,
                                   &error) == MMC_OK,
           "operands are split");
  }
  /* Returns the sum of the products of two planes. */
  int64_t sum(int a_plane, int b_plane, int64_t i, int64_t j) const {
    const int8_t *x = a.line(a_plane, i), *y = b.line(b_plane, j);
    int64_t sum = 0;
    for (int64_t d = 0; d < a.to.lines * MMCI_LINE; d++) sum += (int)x[d] * y[d];
    return sum;
  }
  /* Writes residues in the order in which a warpgroup's threads hold sums of 64 x 256. */
  void multiply() {
    const int64_t across = blocks_of(n, MMCI_PRODUCT_COLS),
                  down = blocks_of(m, 2 * MMCI_PRODUCT_ROWS) * 2;
    for (int p = 0; p < state.planes; p++)
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          const mmci_modulus &modulus = moduli.modulus[p];
          const int r = mmci_residue_of((int)sum(p, p, i, j), modulus.modulus, modulus.reciprocal);
          const int64_t tile = (p * down + i / MMCI_PRODUCT_ROWS) * across + j / MMCI_PRODUCT_COLS;
          const int64_t row = i % 64, col = j % MMCI_PRODUCT_COLS;
          const int64_t thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
          const int64_t held = col / 8 * 4 + row % 16 / 8 * 2 + col % 2;
          residues[(size_t)((((2 * tile + i / 64 % 2) * 8 + held / 16) * 128 + thread) * 16 +
                            held % 16)] = (int8_t)r;
        }
  }
  void combine() {
    mmci_error error = {};
    expect(mmci_residues_combine(nullptr, &product, c.data(), &error) == MMC_OK,
           "residues are combined");
  }
  void rest() {
    mmci_error error = {};
    expect(mmci_residues_rest(nullptr, &product, 1 + (int)(m % 3), a.x.data(), b.x.data(), c.data(),
                              &error) == MMC_OK,
           "what is left is computed");
  }
  Element &result(int64_t i, int64_t j) { return c[(size_t)(i * product.gemm.ldc + j)]; }
  Element was(int64_t i, int64_t j) const {
    return product.gemm.accumulate ? before[(size_t)(i * product.gemm.ldc + j)] : Element(0);
  }
  void expect_gaps() {
    bool kept = true;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = n; j < product.gemm.ldc; j++)
        kept = kept && memcmp(&c[(size_t)(i * product.gemm.ldc + j)],
                              &before[(size_t)(i * product.gemm.ldc + j)], sizeof(Element)) == 0;
    expect(kept, "nothing is written beside C");
  }
};

/* ---- doubles ------------------------------------------------------------------------------------
 */

/* Says whether an element is as near to the exact one as the scales allow. */
static bool is_near(Product<double> &p, int64_t i, int64_t j) {
  const double unit_a = p.a.rows[(size_t)i].unit[0], unit_b = p.b.rows[(size_t)j].unit[0];
  long double sum = 0, all = 0;
  double left = 0, right = 0;
  for (int64_t d = 0; d < p.k; d++) {
    const long double product = (long double)p.a.at(i, d) * (long double)p.b.at(j, d);
    sum += product;
    all += fabsl(product);
    left += fabs(p.a.at(i, d));
    right += fabs(p.b.at(j, d));
  }
  const long double expected = sum + (long double)p.was(i, j);
  const double rounding = 0.5 * (1 + 0x1p-8);
  const double bound =
      rounding * (unit_a * right + unit_b * left) + rounding * (double)p.k * unit_a * unit_b;
  /* Elements are rounded when they are scaled, and so is the result. */
  return fabsl(p.result(i, j) - expected) <= bound + 0x1p-52L * (fabsl(expected) + 2 * all);
}

/* Says whether an element is off by no more than a part of the lengths of its row and column. */
static bool is_within(Product<double> &p, int64_t i, int64_t j, double part) {
  long double sum = p.was(i, j), left = 0, right = 0;
  for (int64_t d = 0; d < p.k; d++) {
    const long double x = p.a.at(i, d), y = p.b.at(j, d);
    sum += x * y;
    left += x * x;
    right += y * y;
  }
  const long double rounding = 0x1p-52L * fabsl((long double)p.was(i, j));
  return fabsl(p.result(i, j) - sum) <= part * sqrtl(left * right) + rounding;
}

static void test_doubles(uint64_t *random, int number) {
  const faithful_data data = (faithful_data)(number % FAITHFUL_DATA);
  const int fixed = number % 3 == 0 ? (int)(4 + random_below(random, 13)) : 0;
  const double tolerance =
      number % 3 == 1 ? pow(10, -2 - (double)random_below(random, 100) / 10) : 0;
  Product<double> p(MMC_F64, 1 + random_below(random, 140), 1 + random_below(random, 150),
                    1 + random_below(random, 270), MMCI_MODULI_F64, random);
  p.product.fixed = fixed;
  p.product.tolerance = tolerance;
  for (int64_t d = 0; d < p.k; d++) {
    for (int64_t i = 0; i < p.m; i++)
      p.a.at(i, d) =
          faithful_draw(data, random) * faithful_grade_row(data, (double)i / (double)p.m);
    for (int64_t j = 0; j < p.n; j++)
      p.b.at(j, d) =
          faithful_draw(data, random) * faithful_grade_row(data, (double)j / (double)p.n);
  }
  const int64_t special = random_below(random, p.m);
  if (number % 5 == 1) p.a.at(special, 0) = std::numeric_limits<double>::quiet_NaN();
  if (number % 5 == 2) p.a.at(special, p.k - 1) = std::numeric_limits<double>::infinity();
  if (number % 5 == 3)
    for (int64_t d = 0; d < p.k; d++) p.a.at(special, d) = 0;
  if (number % 5 == 4) p.a.at(special, 0) = 0x1p500;
  const mmci_gemm &g = p.product.gemm;
  p.look();
  expect(fixed == 0 || p.state.planes == fixed || p.state.planes == 0, "as many as were asked");
  int32_t left = 0;
  for (const mmci_residue_row &row : p.a.rows) left += row.left != 0;
  expect(left == p.state.rows_left, "rows that are left are counted");
  if (number % 5 == 1 || number % 5 == 2 || number % 5 == 4)
    expect(p.a.rows[(size_t)special].left != 0, "rows that cannot be scaled are left");
  p.split();
  p.multiply();
  p.combine();
  bool near = true;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      const bool computed =
          p.state.planes > 0 && p.a.rows[(size_t)i].left == 0 && p.b.rows[(size_t)j].left == 0;
      const double untouched = p.before[(size_t)(i * g.ldc + j)];
      near =
          near && (computed ? is_near(p, i, j) && (tolerance == 0 || is_within(p, i, j, tolerance))
                            : p.result(i, j) == untouched);
    }
  expect(near, "elements are within the bound");
  expect(tolerance == 0 || p.state.planes > 0, "there are moduli for a tolerance");
  p.expect_gaps();
  if (failures > 0 && failures <= 20)
    printf("  case %d: %" PRId64 "x%" PRId64 "x%" PRId64 ", %d moduli, %s\n", number, p.m, p.k, p.n,
           p.state.planes, faithful_data_name(data));
}

/* Sums of whole numbers have the bits of the CPU's definition, row by row. */
template <class Element>
static void test_whole(mmc_dtype dtype, uint64_t *random, int number) {
  const faithful_data data = (faithful_data)(number % FAITHFUL_DATA);
  const bool is_single = dtype == MMC_F32;
  Product<Element> p(dtype, 1 + random_below(random, 140), 1 + random_below(random, 300),
                     1 + random_below(random, 270),
                     is_single ? MMCI_WHOLE_PLANES_F32 : MMCI_WHOLE_PLANES_F64, random);
  p.product.fixed = p.product.planes;
  p.product.peak = is_single ? MMCI_WHOLE_PEAK_F32 : MMCI_WHOLE_PEAK_F64;
  p.product.gemm.turned = random_below(random, 2) != 0;
  for (Operand<Element> *x : {&p.a, &p.b})
    for (int64_t r = 0; r < x->to.rows; r++)
      for (int64_t d = 0; d < p.k; d++) {
        double value = faithful_draw(data, random) * (r % 7 == 3 ? 0x1p-90 : 1);
        if (r % 29 == 9) value *= is_single ? 0x1p-135 : 0x1p-390; /* of floats denormal */
        if (r % 5 == 1) value = rint(4 * value);
        if (r % 31 == 4 && d == 0)
          value = r % 2 == 0 ? std::numeric_limits<double>::infinity() : NAN;
        if (r % 37 == 6 || (r % 41 == 7 && d % 3 != 0)) value = 0;
        if (r % 43 == 8 && d == 0) value = 1e30;
        x->at(r, d) = (Element)value;
      }
  p.look();
  p.split();
  p.multiply();
  p.combine();
  p.rest();
  std::vector<mmci_whole> holder(1);
  mmci_whole &whole = holder[0];
  mmci_whole_open(&whole, &p.product.gemm);
  expect(p.state.planes == 0 || p.state.planes == whole.planes, "as many moduli as are fixed");
  std::vector<std::vector<double>> lines[2];
  std::vector<mmci_whole_row> rows[2];
  for (int w = 0; w < 2; w++) {
    Operand<Element> &x = w == 0 ? p.a : p.b;
    for (int64_t r = 0; r < x.to.rows; r++) {
      std::vector<double> line((size_t)p.k);
      mmci_whole_read(&whole, whole.turned ? 1 - w : w, x.x.data(), r, 1, line.data());
      rows[w].push_back(mmci_whole_judge(&whole, line.data()));
      lines[w].push_back(line);
      expect(rows[w].back().left == (x.rows[(size_t)r].left != 0), "the same rows are left");
    }
  }
  bool same = true;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      const mmci_whole_row &a = rows[0][(size_t)i], &b = rows[1][(size_t)j];
      std::vector<Element> row(p.before.begin() + i * p.product.gemm.ldc,
                               p.before.begin() + i * p.product.gemm.ldc + j + 1);
      const bool turned = whole.turned;
      double result = 0;
      if (p.state.planes > 0 && !a.left && !b.left) {
        mmci_i128 sum = 0;
        for (int64_t d = 0; d < p.k; d++)
          sum += (mmci_i128)mmci_whole_number(lines[0][(size_t)i][(size_t)d], &a) *
                 mmci_whole_number(lines[1][(size_t)j][(size_t)d], &b);
        result = mmci_whole_result(&whole, turned ? &b : &a, turned ? &a : &b, sum);
      } else {
        for (int64_t d = 0; d < p.k; d++)
          result = fma(lines[0][(size_t)i][(size_t)d], lines[1][(size_t)j][(size_t)d], result);
      }
      mmci_whole_write(&whole, row.data(), turned ? j : 0, turned ? 0 : j, result);
      const Element expected = row[(size_t)j];
      same = same && memcmp(&expected, &p.result(i, j), sizeof expected) == 0;
    }
  if (!expect(same, "bits of whole numbers"))
    printf("  %s %" PRId64 "x%" PRId64 "x%" PRId64 ", %s, turned %d\n", mmc_dtype_name(dtype), p.m,
           p.k, p.n, faithful_data_name(data), p.product.gemm.turned);
  p.expect_gaps();
}

/* Small integers come out exactly. */
static void test_whole_numbers(uint64_t *random) {
  Product<double> p(MMC_F64, 40, 200, 70, MMCI_MODULI_F64, random);
  p.product.gemm.accumulate = false;
  for (int64_t d = 0; d < p.k; d++) {
    for (int64_t i = 0; i < p.m; i++) p.a.at(i, d) = (double)random_below(random, 9);
    for (int64_t j = 0; j < p.n; j++) p.b.at(j, d) = 3 * (double)random_below(random, 5);
  }
  p.look();
  p.split();
  p.multiply();
  p.combine();
  bool exact = p.state.planes > 0;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      double sum = 0;
      for (int64_t d = 0; d < p.k; d++) sum += p.a.at(i, d) * p.b.at(j, d);
      exact = exact && p.result(i, j) == sum;
    }
  expect(exact, "whole numbers come out exactly");
  expect(p.state.planes == 4 && p.a.seen.whole == 1 && p.b.seen.whole == 1,
         "whole numbers take few moduli");
}

/* Where one operand has few bits, the other one is scaled to what they leave. */
static void test_few_bits(uint64_t *random) {
  for (int which = 0; which < 2; which++) {
    int planes[2];
    for (int bits = 0; bits < 2; bits++) { /* with less and with more of them */
      Product<double> p(MMC_F64, 30, 300, 50, MMCI_MODULI_F64, random);
      p.product.tolerance = bits == 0 ? 1e-11 : 0;
      const double grain = ldexp(1, (int)random_below(random, 200) - 100);
      Operand<double> &few = which == 0 ? p.a : p.b, &many = which == 0 ? p.b : p.a;
      for (int64_t d = 0; d < p.k; d++) {
        for (int64_t i = 0; i < few.to.rows; i++)
          few.at(i, d) = grain * ((double)random_below(random, 255) - 127);
        for (int64_t i = 0; i < many.to.rows; i++)
          many.at(i, d) = faithful_draw(FAITHFUL_NORMAL, random);
      }
      p.look();
      p.split();
      p.multiply();
      p.combine();
      planes[bits] = p.state.planes;
      expect(few.seen.whole == 1 && many.seen.whole == 0, "few bits stay whole");
      bool near = true;
      for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++)
          near = near && is_near(p, i, j) && is_within(p, i, j, bits == 0 ? 1e-11 : 0x1p-52);
      expect(near, "elements beside few bits are within the bound");
    }
    expect(planes[0] >= 4 && planes[0] < planes[1] && planes[1] < 12, "few bits take few moduli");
  }
}

/* A second product uses what the first has made of A, or of B for both, where that is enough. */
static void test_shared(uint64_t *random, int number) {
  const bool alike = number % 3 == 2, harder = number % 3 == 1;
  Product<double> first(MMC_F64, 70, 900, 50, MMCI_MODULI_F64, random);
  Product<double> p(MMC_F64, 70, 900, alike ? 70 : 60, MMCI_MODULI_F64, random);
  for (int64_t d = 0; d < 900; d++) {
    for (int64_t i = 0; i < 70; i++) first.a.at(i, d) = faithful_draw(FAITHFUL_NORMAL, random);
    for (int64_t j = 0; j < 50; j++) first.b.at(j, d) = faithful_draw(FAITHFUL_NORMAL, random);
  }
  first.look();
  first.split();
  Operand<double> &made = first.a;
  p.a.x = made.x;
  p.a.ld = p.product.gemm.a.ld = made.ld;
  p.a.across = p.product.gemm.a.trans = made.across;
  p.product.a = made.to;
  p.product.shared = 1;
  if (alike) {
    p.b.x = made.x;
    p.b.ld = p.product.gemm.b.ld = made.ld;
    p.b.across = made.across;
    p.product.gemm.b.trans = !made.across;
    p.product.b = made.to;
    p.product.alike = true;
    if (number % 2 == 0) p.product.shared = 0;
    if (number % 2 == 0) made.seen = {};
  } else {
    for (int64_t j = 0; j < 60; j++)
      for (int64_t d = 0; d < 900; d++) {
        /* Sums that outliers make need more moduli. */
        const double grade = harder ? (d % 90 == 0 ? 300 : 1) : 1;
        p.b.at(j, d) = grade * faithful_draw(FAITHFUL_NORMAL, random);
      }
  }
  const std::vector<int8_t> before = made.planes;
  mmci_error error = {};
  mmci_gemm &g = p.product.gemm;
  if (p.product.shared == 0)
    expect(mmci_residues_range(nullptr, &p.product, &p.product.a, p.a.x.data(), g.a.ld, p.a.across,
                               &error) == MMC_OK,
           "A is looked at");
  if (!alike)
    expect(mmci_residues_range(nullptr, &p.product, &p.product.b, p.b.x.data(), g.b.ld, p.b.across,
                               &error) == MMC_OK,
           "B is looked at");
  expect(mmci_residues_choose(nullptr, &p.product, p.a.x.data(), p.b.x.data(), &error) == MMC_OK &&
             mmci_residues_split(nullptr, &p.product, &p.product.a, p.a.x.data(), g.a.ld,
                                 p.a.across, &error) == MMC_OK &&
             (alike || mmci_residues_split(nullptr, &p.product, &p.product.b, p.b.x.data(), g.b.ld,
                                           p.b.across, &error) == MMC_OK),
         "operands are split");
  expect(p.state.kept == (harder || p.product.shared == 0 ? 0
                          : alike                         ? 3
                                                          : 1),
         "residues are kept where they are enough");
  expect((p.state.kept == 0) == (made.planes != before) || p.product.shared == 0,
         "residues that are kept are left alone");
  p.a.planes = made.planes;
  p.a.rows = made.rows;
  if (alike) {
    p.b.planes = made.planes;
    p.b.rows = made.rows;
  }
  p.multiply();
  p.combine();
  bool near = p.state.planes > 0;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) near = near && is_near(p, i, j);
  if (!expect(near, "elements of shared operands are within the bound"))
    printf("  shared case %d, %d moduli\n", number, p.state.planes);
}

/* ---- integers -----------------------------------------------------------------------------------
 */

/* Bytes keep their order, with zeros behind them. */
static bool is_in_order(const Operand<int8_t> &x) {
  Operand<int8_t> &from = const_cast<Operand<int8_t> &>(x);
  for (int64_t r = 0; r < x.to.rows; r++)
    for (int64_t k = 0; k < x.to.lines * MMCI_LINE; k++)
      if (x.line(0, r)[k] != (k < x.to.k ? from.at(r, k) : 0)) return false;
  return true;
}
template <class Element>
static bool is_in_order(const Operand<Element> &) {
  return true;
}

template <class Element>
static void test_integers(mmc_dtype dtype, uint64_t *random) {
  const bool digits = sizeof(Element) < 8;
  Product<Element> p(dtype, 1 + random_below(random, 140), 1 + random_below(random, 150),
                     1 + random_below(random, 270), digits ? (int)sizeof(Element) : 17, random);
  const int64_t bits = 8 * sizeof(Element);
  const bool whole = random_below(random, 2) == 0;
  const int64_t a_shift = 64 - (whole ? bits : 1 + random_below(random, bits)),
                b_shift = 64 - (whole ? bits : 1 + random_below(random, bits));
  for (Element &x : p.a.x) x = (Element)((int64_t)random_bits(random) >> a_shift);
  for (Element &x : p.b.x) x = (Element)((int64_t)random_bits(random) >> b_shift);
  if (whole) {
    p.a.x[0] = std::numeric_limits<Element>::max();
    p.b.x[0] = std::numeric_limits<Element>::min();
  }
  if (digits) p.product.moduli = nullptr;
  p.look();
  p.split();
  if (!digits) {
    p.multiply();
    p.combine();
  }
  bool exact = true;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      uint64_t expected = (uint64_t)p.was(i, j), got = (uint64_t)p.was(i, j);
      for (int64_t d = 0; d < p.k; d++)
        expected += (uint64_t)(int64_t)p.a.at(i, d) * (uint64_t)(int64_t)p.b.at(j, d);
      if (digits)
        for (int s = 0; s < p.state.digits[0]; s++)
          for (int e = 0; e + s < p.product.planes && e < p.state.digits[1]; e++)
            got += (uint64_t)p.sum(s, e, i, j) << 8 * (s + e);
      else
        got = (uint64_t)p.result(i, j);
      exact = exact && (Element)expected == (Element)got;
    }
  expect(exact, "integers are exact");
  expect(is_in_order(p.a) && is_in_order(p.b), "bytes keep their order");
  if (!digits) p.expect_gaps();
  if (failures > 0 && failures <= 20)
    printf("  %d bytes: %" PRId64 "x%" PRId64 "x%" PRId64 "\n", (int)sizeof(Element), p.m, p.k,
           p.n);
}

/* Bytes across are turned whatever may be read at once: 16, 4 or 1 of them. */
static void test_turned_bytes(int word, uint64_t *random) {
  const int64_t rows = 1 + random_below(random, 300), k = 1 + random_below(random, 300),
                lines = (k + MMCI_LINE - 1) / MMCI_LINE,
                ld = (rows + random_below(random, 40) + word - 1) / word * word + (word == 1);
  std::vector<int8_t> x((size_t)(ld * k + 32)), planes((size_t)(rows * lines * MMCI_LINE + 16), 77);
  for (int8_t &byte : x) byte = (int8_t)random_bits(random);
  const int8_t *from = x.data() + word % 16;
  mmci_residue_product product = {};
  mmci_residue_state state = {};
  mmci_error error = {};
  product.gemm.dtype = MMC_I8;
  product.state = &state;
  state.digits[0] = state.digits[1] = 1;
  product.a = {rows, k, lines, planes.data(), nullptr, nullptr};
  bool right = mmci_residues_split(nullptr, &product, &product.a, from, ld, true, &error) == MMC_OK;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t d = 0; d < lines * MMCI_LINE; d++)
      right =
          right && planes[(size_t)(r * lines * MMCI_LINE + d)] == (d < k ? from[d * ld + r] : 0);
  for (int e = 0; e < 16; e++) right = right && planes[planes.size() - 1 - (size_t)e] == 77;
  if (!expect(right, "bytes across are turned"))
    printf("  %d at once: %" PRId64 " rows, k %" PRId64 ", ld %" PRId64 "\n", word, rows, k, ld);
}

/* ---- integers modulo a number -------------------------------------------------------------------
 */

__extension__ typedef unsigned __int128 u128;

template <class Element>
static uint64_t residue_from_0(Element x, uint64_t modulus) {
  if (Element(-1) > Element(0)) return (uint64_t)x % modulus;
  const int64_t r = (int64_t)x % (int64_t)modulus;
  return r < 0 ? (uint64_t)(r + (int64_t)modulus) : (uint64_t)r;
}

template <class Element>
static void test_modulo(mmc_dtype dtype, uint64_t modulus, uint64_t *random) {
  Product<Element> p(dtype, 1 + random_below(random, 140), 1 + random_below(random, 150),
                     1 + random_below(random, 70), 18, random);
  p.product.gemm.rule.modulus = modulus;
  mmci_moduli_take_sums(&p.moduli, modulus);
  const int64_t shift = random_below(random, 2) == 0 ? 0 : random_below(random, 63);
  for (Element &x : p.a.x) x = (Element)((int64_t)random_bits(random) >> shift);
  for (Element &x : p.b.x) x = (Element)((int64_t)random_bits(random) >> shift);
  for (Element &x : p.c) x = (Element)(random_bits(random) % modulus);
  p.before = p.c;
  p.look();
  p.split();
  p.multiply();
  p.combine();
  bool exact = true;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      uint64_t expected = (uint64_t)p.was(i, j);
      for (int64_t d = 0; d < p.k; d++)
        expected = (uint64_t)(((u128)residue_from_0(p.a.at(i, d), modulus) *
                                   residue_from_0(p.b.at(j, d), modulus) +
                               expected) %
                              modulus);
      exact = exact && expected == (uint64_t)p.result(i, j);
    }
  if (!expect(exact, "sums modulo a number are exact"))
    printf("  modulo %" PRIu64 ": %" PRId64 "x%" PRId64 "x%" PRId64 "\n", modulus, p.m, p.k, p.n);
  p.expect_gaps();
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20261123, random = seed;
  mmci_emulation().seed = seed;
  for (int t = 0; t < CASES && failures == 0; t++) test_doubles(&random, t);
  for (int t = 0; t < 2 * FAITHFUL_DATA && failures == 0; t++) {
    test_whole<float>(MMC_F32, &random, t);
    test_whole<double>(MMC_F64, &random, t);
  }
  test_whole_numbers(&random);
  test_few_bits(&random);
  for (int t = 0; t < 6; t++) test_shared(&random, t);
  for (int t = 0; t < 3 && failures == 0; t++) {
    test_integers<int64_t>(MMC_I64, &random);
    test_integers<int32_t>(MMC_I32, &random);
    test_integers<int16_t>(MMC_I16, &random);
    for (int i = 0; i < 4; i++) test_integers<int8_t>(MMC_I8, &random);
  }
  for (int word : {16, 4, 1})
    for (int t = 0; t < 4; t++) test_turned_bytes(word, &random);
  const uint64_t largest = UINT64_MAX / 2;
  const std::vector<uint64_t> moduli = {1,
                                        2,
                                        97,
                                        (UINT64_C(1) << 61) - 1,
                                        largest,
                                        largest - 1,
                                        1 + random_bits(&random) % largest,
                                        1 + random_bits(&random) % 1000000007};
  for (uint64_t modulus : moduli) {
    test_modulo<int64_t>(MMC_I64, modulus, &random);
    test_modulo<uint64_t>(MMC_U64, modulus, &random);
  }
  printf("%d checks, %d failed, seed %" PRIu64 "\n", checks, failures, seed);
  return failures == 0 ? 0 : 1;
}
