/* test_faithful_sums.cpp: errors of emulated products against those of FP32 on the same data, by a
 * model of the sums of Hopper's tensor cores: sixteen products of FP16 numbers and the sum before
 * are cut 2^-25 below the largest of them, added up, and cut to FP32's 24 bits, all towards zero
 * (measured by Li et al. 2024, FTTN). FP32 is one chain of fused multiply-adds over k.
 *
 *     test_faithful_sums [SEED] [all]
 *
 * With `all` it prints every case. */
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/emulated/bytes.cuh"
#include "device/cuda/emulated/parts.cuh"

#include "../../bench/faithful_data.h"

enum {
  SAMPLE = 24,    /* rows of A, and columns of B */
  STEP = 16,      /* k's of an instruction */
  KEPT_BITS = 25, /* below the largest product or sum, in an instruction */
  LONG_RUN = 256  /* k's in the tensor cores' sums, which are too many for data of one sign */
};

/* ---- the tensor core ------------------------------------------------------------------------- */

/* Cuts x towards zero to a multiple of 2^bit. */
static double cut_off(double x, int bit) {
  return std::ldexp(std::trunc(std::ldexp(x, -bit)), bit);
}

static int exponent_of(double x) {
  int exponent;
  std::frexp(x, &exponent);
  return exponent - 1;
}

/* Returns sum plus STEP products, as an instruction adds them. */
static float add_step(float sum, const float *a, const float *b) {
  int top = sum != 0 ? exponent_of((double)sum) : -1000;
  double all = 0;
  for (int e = 0; e < STEP; e++)
    if (a[e] != 0 && b[e] != 0) top = std::max(top, exponent_of((double)a[e] * (double)b[e]));
  if (top == -1000) return 0;
  for (int e = 0; e < STEP; e++) all += cut_off((double)a[e] * (double)b[e], top - KEPT_BITS);
  all += cut_off((double)sum, top - KEPT_BITS);
  return all == 0 ? 0 : (float)cut_off(all, exponent_of(all) - 23);
}

/* ---- rows and columns ------------------------------------------------------------------------ */

/* A row of op(A) or a column of op(B), scaled, in parts and digits. */
struct Line {
  std::vector<float> x, hi, lo;
  std::vector<int> digits[MMCI_BYTES];
  uint32_t most;
  int exponent; /* or MMCI_PARTS_LEFT */
  uint64_t rough;
  double unit;
};

static void split_line(Line &line) {
  const size_t k = line.x.size();
  line.most = 0;
  for (float x : line.x) line.most = std::max(line.most, mmci_magnitude(x));
  mmci_row_facts facts = {}, byte_facts = {};
  const mmci_scale scale = mmci_parts_scale(mmci_parts_exponent(line.most));
  const mmci_scale byte_scale = mmci_bytes_scale(line.most);
  line.hi.resize(k);
  line.lo.resize(k);
  for (auto &digits : line.digits) digits.resize(k);
  for (size_t t = 0; t < k; t += 4) {
    uint32_t words[MMCI_BYTES];
    const float four[4] = {line.x[t], line.x[t + 1], line.x[t + 2], line.x[t + 3]};
    mmci_bytes_cut(four, byte_scale, words, byte_facts);
    for (int e = 0; e < 4; e++) {
      const float scaled = four[e] * scale.first * scale.second;
      mmci_row_facts_add(facts, scaled);
      const mmci_parts parts = mmci_parts_of(scaled);
      line.hi[t + e] = mmci_f16_element::read(parts.hi, false);
      line.lo[t + e] = mmci_f16_element::read(parts.lo, false);
      for (int d = 0; d < MMCI_BYTES; d++)
        line.digits[d][t + e] = (int8_t)(words[d] >> 8 * e & 0xff);
    }
  }
  line.exponent = mmci_parts_judge(line.most, facts, (int64_t)k);
  line.rough = mmci_bytes_roughness(line.most, byte_facts, (int64_t)k);
  line.unit = mmci_bytes_unit(line.most);
}

/* ---- one element by each way ----------------------------------------------------------------- */

static double by_fp64(const Line &a, const Line &b, double &magnitudes) {
  double sum = 0;
  magnitudes = 0;
  for (size_t t = 0; t < a.x.size(); t++) {
    const double product = (double)a.x[t] * (double)b.x[t];
    sum += product;
    magnitudes += std::fabs(product);
  }
  return sum;
}

static float by_fp32(const Line &a, const Line &b) {
  float sum = 0;
  for (size_t t = 0; t < a.x.size(); t++) sum = std::fmaf(a.x[t], b.x[t], sum);
  return sum;
}

/* Sums of hi parts leave the tensor cores after every run; those with lo are kept to the end. */
static float by_parts(const Line &a, const Line &b, size_t run) {
  float sum = 0, lo = 0;
  for (size_t first = 0; first < a.x.size(); first += run) {
    float hi = 0;
    for (size_t t = first; t < first + run; t += STEP) {
      hi = add_step(hi, &a.hi[t], &b.hi[t]);
      lo = add_step(lo, &a.hi[t], &b.lo[t]);
      lo = add_step(lo, &a.lo[t], &b.hi[t]);
    }
    sum += hi;
  }
  return mmci_parts_unscale(std::fmaf(lo, 1.0f / (1 << MMCI_PARTS_LO_BITS), sum),
                            a.exponent + b.exponent);
}

static float by_bytes(const Line &a, const Line &b) {
  int64_t sums[MMCI_BYTES] = {};
  for (size_t t = 0; t < a.x.size(); t++)
    for (int d = 0; d < MMCI_BYTES; d++)
      for (int e = 0; d + e < MMCI_BYTES; e++) sums[d + e] += a.digits[d][t] * b.digits[e][t];
  const int64_t sum = sums[0] * 65536 + sums[1] * 256 + sums[2];
  return (float)((double)sum * 0x1p16 * a.unit * b.unit);
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct Errors {
  double off = 0, largest = 0;
  void add(float got, double exact, double magnitudes) {
    const double d = std::fabs((double)got - exact);
    off += d * d;
    if (d > 0) largest = std::max(largest, d / magnitudes);
  }
};

static int failures = 0, checks = 0;
static bool print_all = false;

/* Expects errors to be no larger than FP32's, or to be larger. */
static void compare(const char *way, faithful_data data, size_t k, const Errors &ours,
                    const Errors &theirs, bool larger) {
  const double norm = ours.off == 0 ? 0 : std::sqrt(ours.off / theirs.off),
               largest = ours.largest == 0 ? 0 : ours.largest / theirs.largest;
  const bool right = larger ? norm > 1 : norm <= 1 && largest <= 1;
  checks++;
  failures += !right;
  if (!right || print_all)
    printf("%s%s, k %zu, %s: norm %.2f, largest %.2f of FP32's\n",
           right ? "" : "FAILED: ", faithful_data_name(data), k, way, norm, largest);
}

static std::vector<Line> draw_lines(faithful_data data, size_t k, uint64_t *random) {
  std::vector<Line> lines(SAMPLE);
  for (size_t r = 0; r < SAMPLE; r++) {
    for (size_t t = 0; t < k; t++)
      lines[r].x.push_back(
          (float)(faithful_draw(data, random) * faithful_grade_row(data, (double)r / SAMPLE) *
                  faithful_grade_k(data, (double)t / (double)k)));
    split_line(lines[r]);
  }
  return lines;
}

static bool bytes_are_enough(const std::vector<Line> &lines) {
  uint64_t rough = 0;
  for (const Line &line : lines) rough += line.rough;
  return rough <= MMCI_ROUGH * (uint64_t)SAMPLE;
}

static void test_data(faithful_data data, size_t k, uint64_t *random) {
  const std::vector<Line> a = draw_lines(data, k, random), b = draw_lines(data, k, random);
  Errors fp32, parts, long_parts, bytes;
  for (const Line &x : a)
    for (const Line &y : b) {
      double magnitudes;
      const double exact = by_fp64(x, y, magnitudes);
      const bool left = x.exponent == MMCI_PARTS_LEFT || y.exponent == MMCI_PARTS_LEFT;
      fp32.add(by_fp32(x, y), exact, magnitudes);
      parts.add(left ? (float)exact : by_parts(x, y, MMCI_PARTS_RUN), exact, magnitudes);
      long_parts.add(left ? (float)exact : by_parts(x, y, LONG_RUN), exact, magnitudes);
      bytes.add(by_bytes(x, y), exact, magnitudes);
    }
  compare("FP16 parts", data, k, parts, fp32, false);
  if (data == FAITHFUL_UNIFORM_01)
    compare("FP16 parts in long runs", data, k, long_parts, fp32, true);
  if (k >= 2048 && bytes_are_enough(a) && bytes_are_enough(b))
    compare("bytes", data, k, bytes, fp32, false);
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20261123, random = seed;
  print_all = argc > 2;
  for (int data = 0; data < FAITHFUL_DATA; data++)
    for (size_t k : {512, 2048}) test_data((faithful_data)data, k, &random);
  printf("%d checks, %d failed, seed %" PRIu64 "\n", checks, failures, seed);
  return failures == 0 ? 0 : 1;
}
