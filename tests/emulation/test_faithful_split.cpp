/* test_faithful_split.cpp: split.cu run by the CPU: every element's parts where the tensor cores
 * look for them, zeros beside, and what is found out about each row, against the arithmetic of
 * parts.cuh and bytes.cuh in order. Operands have gaps and lie across k or along it.
 *
 *     test_faithful_split [SEED] */
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

#include "device/cuda/emulated/bytes.cuh"
#include "device/cuda/emulated/emulated_kernels.h"
#include "device/cuda/emulated/parts.cuh"

#include "../../bench/faithful_data.h"
#include "../random.h"

enum {
  CASES = 60,
  HALVES_BLOCK = 2 * MMCI_LINE_ROWS * 128, /* bytes of a block of FP16 parts */
  BYTES_BLOCK = MMCI_BYTES * MMCI_LINE_ROWS * 64
};

static int failures = 0, checks = 0;

static bool expect(bool held, const char *what) {
  checks++;
  if (!held && failures++ < 20) printf("FAILED: %s\n", what);
  return held;
}

/* ---- an operand ------------------------------------------------------------------------------ */

static int64_t round_up(int64_t count, int64_t each) {
  return (count + each - 1) / each * each;
}

struct Operand {
  mmci_emulated_operand to;
  std::vector<float> x; /* NaN where no element lies */
  int64_t ld, shift;
  bool across;
  std::vector<uint32_t> parts;
  std::vector<mmci_emulated_row> rows;
  uint64_t rough;
  std::vector<int32_t> counts;

  Operand(int64_t rows_, int64_t k, bool across_, int64_t gap, int64_t shift_) {
    to = {};
    to.rows = rows_;
    to.k = k;
    to.blocks = round_up(k, MMCI_DEPTH) / MMCI_DEPTH;
    across = across_;
    shift = shift_;
    ld = (across ? rows_ : k) + gap;
    x.assign((size_t)((across ? k : rows_) * ld + shift), std::numeric_limits<float>::quiet_NaN());
    parts.assign((size_t)(round_up(rows_, MMCI_LINE_ROWS) * to.blocks * 64), 0xA5A5A5A5u);
    rows.assign((size_t)rows_, mmci_emulated_row{});
    rough = 0;
    counts.assign((size_t)(round_up(rows_, MMCI_LINE_ROWS) / MMCI_LINE_ROWS + 1), 0);
    to.parts = parts.data();
    to.row = rows.data();
    to.rough = &rough;
    to.arrived = counts.data();
    to.left = &counts.back();
  }
  float *at(int64_t r, int64_t k) {
    return &x[(size_t)(shift + (across ? k * ld + r : r * ld + k))];
  }
  const unsigned char *block(int64_t r, int64_t k, int64_t block_bytes) const {
    return (const unsigned char *)parts.data() +
           (r / MMCI_LINE_ROWS * to.blocks + k / MMCI_DEPTH) * block_bytes;
  }
  mmci_parts halves(int64_t r, int64_t k) const {
    const unsigned char *line = block(r, k, HALVES_BLOCK) +
                                (k % MMCI_DEPTH / 32 * MMCI_LINE_ROWS + r % MMCI_LINE_ROWS) * 128;
    mmci_parts got;
    memcpy(&got.hi, line + 2 * (k % 32), 2);
    memcpy(&got.lo, line + 64 + 2 * (k % 32), 2);
    return got;
  }
  int digit(int64_t r, int64_t k, int which) const {
    return (int8_t)block(
        r, k, BYTES_BLOCK)[(which * MMCI_LINE_ROWS + r % MMCI_LINE_ROWS) * 64 + k % MMCI_DEPTH];
  }
};

static uint32_t most_of(Operand &o, int64_t r) {
  uint32_t most = 0;
  for (int64_t k = 0; k < o.to.k; k++) most = std::max(most, mmci_magnitude(*o.at(r, k)));
  return most;
}

/* Says whether facts are so near a limit that the order of a sum may decide. */
static bool is_near(double x, double limit) {
  return std::fabs(x - limit) <= 1e-4 * limit;
}

/* ---- what the kernels found ------------------------------------------------------------------ */

static void check_bytes(Operand &o) {
  bool right = true, near = false;
  uint64_t rough = 0;
  for (int64_t r = 0; r < round_up(o.to.rows, MMCI_LINE_ROWS); r++) {
    const uint32_t most = r < o.to.rows ? most_of(o, r) : 0;
    mmci_row_facts facts = {};
    for (int64_t k = 0; k < o.to.blocks * MMCI_DEPTH; k += 4) {
      uint32_t words[MMCI_BYTES];
      float four[4];
      for (int e = 0; e < 4; e++) four[e] = r < o.to.rows && k + e < o.to.k ? *o.at(r, k + e) : 0;
      mmci_bytes_cut(four, mmci_bytes_scale(most), words, facts);
      for (int e = 0; e < 4 && most < 0x7f800000u; e++)
        for (int w = 0; w < MMCI_BYTES; w++)
          right = right && o.digit(r, k + e, w) == (int8_t)(words[w] >> 8 * e & 0xff);
    }
    if (r >= o.to.rows) continue;
    facts.poor -= (int)(o.to.blocks * MMCI_DEPTH - o.to.k);
    const uint64_t each = mmci_bytes_roughness(most, facts, o.to.k);
    const double top = (double)MMCI_BYTES_TOP, need = MMCI_ROUGH * (double)MMCI_BYTES_SPREAD *
                                                      std::sqrt((double)o.to.k) * top * top;
    near = near || is_near((double)facts.squares * MMCI_ROUGH_MOST, need);
    rough += each;
    right = right && o.rows[(size_t)r].unit == mmci_bytes_unit(most);
  }
  expect(right, "digits are where they belong");
  const double off = std::fabs((double)o.rough - (double)rough);
  expect(near || off <= 1e-4 * (double)rough + (double)o.to.rows, "roughness is that of the rows");
}

static void check_halves(Operand &o) {
  bool right = true, judged = true, near = false;
  int left = 0;
  for (int64_t r = 0; r < round_up(o.to.rows, MMCI_LINE_ROWS); r++) {
    const uint32_t most = r < o.to.rows ? most_of(o, r) : 0;
    const mmci_scale scale = mmci_parts_scale(most < 0x7f800000u ? mmci_parts_exponent(most) : 0);
    mmci_row_facts facts = {};
    for (int64_t k = 0; k < o.to.blocks * MMCI_DEPTH; k++) {
      const float value = r < o.to.rows && k < o.to.k ? *o.at(r, k) : 0;
      const float scaled = value * scale.first * scale.second;
      mmci_row_facts_add(facts, scaled);
      if (most >= 0x7f800000u) continue;
      const mmci_parts expected = mmci_parts_of(scaled), got = o.halves(r, k);
      right = right && got.hi == expected.hi && got.lo == expected.lo;
    }
    if (r >= o.to.rows) continue;
    const int exponent = mmci_parts_judge(most, facts, o.to.k);
    const float largest = mmci_bits_float(most) * scale.first * scale.second;
    const bool at_limit =
        is_near((double)facts.squares, MMCI_PARTS_SPREAD * (double)largest * (double)largest);
    near = near || at_limit;
    judged = judged && (at_limit || o.rows[(size_t)r].exponent == exponent);
    left += exponent == MMCI_PARTS_LEFT;
  }
  expect(right, "parts are where they belong");
  expect(judged, "rows are judged");
  expect(near || *o.to.left == left, "rows that are left are counted");
  for (size_t b = 0; b + 1 < o.counts.size(); b++) judged = judged && o.counts[b] == 0;
  expect(judged, "no block of threads is counted any more");
}

static void split(Operand &o, const mmci_emulated_product &product, bool bytes) {
  mmci_error error = {};
  expect(mmci_emulated_split(nullptr, &product, &o.to, bytes, o.x.data() + o.shift, o.ld, o.across,
                             &error) == MMC_OK,
         "a split is launched");
}

/* Split into bytes, if they are tried, and then into FP16 parts, if those are not enough. */
static void test_case(uint64_t *random, int number) {
  static const int64_t SIZES[] = {1, 3, 31, 32, 33, 64, 65, 127, 128, 130, 200, 257};
  enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };
  const faithful_data data = (faithful_data)(number % FAITHFUL_DATA);
  const int64_t rows = SIZES[random_below(random, SIZE_COUNT)],
                k = number % 10 == 0 ? 9000 + 4 * random_below(random, 20)
                                     : SIZES[random_below(random, SIZE_COUNT)];
  const int64_t fours = random_below(random, 2) == 0 ? 4 : 1;
  const bool across = random_below(random, 2) == 0, bytes = random_below(random, 3) > 0;
  Operand o(number % 10 == 0 ? rows % 5 + 1 : rows, fours * ((k + fours - 1) / fours), across,
            fours * random_below(random, 3), fours * random_below(random, 3));
  for (int64_t r = 0; r < o.to.rows; r++)
    for (int64_t d = 0; d < o.to.k; d++)
      *o.at(r, d) = (float)(faithful_draw(data, random) *
                            faithful_grade_row(data, (double)r / (double)o.to.rows));
  const int64_t special = random_below(random, o.to.rows);
  if (number % 4 == 1)
    *o.at(special, random_below(random, o.to.k)) = std::numeric_limits<float>::quiet_NaN();
  if (number % 4 == 2)
    for (int64_t d = 0; d < o.to.k; d++) *o.at(special, d) = 0;
  mmci_emulated_product product = {};
  product.a = product.b = o.to;
  product.bytes = bytes;
  if (bytes) {
    split(o, product, true);
    check_bytes(o);
  }
  const std::vector<uint32_t> before = o.parts;
  split(o, product, false);
  if (bytes && o.rough <= MMCI_ROUGH * (uint64_t)o.to.rows)
    expect(o.parts == before, "bytes that are enough are kept");
  else
    check_halves(o);
  if (failures > 0 && failures <= 20)
    printf("  case %d: %" PRId64 " rows, k %" PRId64 ", ld %" PRId64 "%s%s, %s\n", number,
           o.to.rows, o.to.k, o.ld, across ? ", across" : "", bytes ? ", bytes first" : "",
           faithful_data_name(data));
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20261123, random = seed;
  mmci_emulation().seed = seed;
  for (int t = 0; t < CASES && failures == 0; t++) test_case(&random, t);
  printf("%d checks, %d failed, seed %" PRIu64 "\n", checks, failures, seed);
  return failures == 0 ? 0 : 1;
}
