/* test_semirings.cpp: the CUDA module's kernels for products over semirings, run by the CPU: every
 * thread of a block is a fiber, and the order in which they run is shuffled at every barrier. Each
 * element is compared with that of the reference device; what lies beside the elements is NaN and
 * stays it.
 *
 *     test_semirings [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "base/status.h"
#include "device/ref/ref_semiring.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_kernels.h"

#include "../how_many.h"
#include "../random.h"

static int failures = 0, checks = 0;

static const struct {
  mmc_dtype dtype;
  mmc_semiring semiring;
} rings[] = {{MMC_F32, MMC_MAX_PLUS}, {MMC_F32, MMC_MIN_PLUS}, {MMC_F32, MMC_LOG_SUM_EXP},
             {MMC_F64, MMC_MAX_PLUS}, {MMC_F64, MMC_MIN_PLUS}, {MMC_F64, MMC_LOG_SUM_EXP},
             {MMC_I64, MMC_MAX_PLUS}, {MMC_I64, MMC_MIN_PLUS}};
enum { RINGS = sizeof rings / sizeof rings[0] };

/* What a matrix is filled with: small numbers, zeros of the semiring among them, infinities, NaN
 * and integers at the ends of their range, and numbers whose exponentials vanish beside others. */
enum Filling { SMALL_NUMBERS, WITH_ZEROS, WITH_ALL, FAR_APART, FILLINGS };

struct Number {
  double real;
  int64_t integer;
};

static Number random_number(uint64_t *random, bool least, int filling) {
  const int64_t small = random_below(random, 2001) - 1000, chance = random_below(random, 400);
  const Number zero = {least ? INFINITY : -INFINITY, least ? INT64_MAX : INT64_MIN};
  if ((filling == WITH_ZEROS || filling == WITH_ALL) && chance < 100) return zero;
  if (filling == WITH_ALL && chance == 100) return {-zero.real, least ? INT64_MIN : INT64_MAX};
  if (filling == WITH_ALL && chance == 101) return {NAN, INT64_MAX / 2};
  if (filling == FAR_APART && chance < 200)
    return {random_unit(random) * 3000, (int64_t)(random_bits(random) >> 3) - (INT64_C(1) << 60)};
  return {(double)small / 64, small};
}

static void write(mmc_dtype dtype, void *to, int64_t at, Number x) {
  if (dtype == MMC_F32) static_cast<float *>(to)[at] = (float)x.real;
  if (dtype == MMC_F64) static_cast<double *>(to)[at] = x.real;
  if (dtype == MMC_I64) static_cast<int64_t *>(to)[at] = x.integer;
}

static bool same(mmc_dtype dtype, const void *x, const void *y, int64_t at, double tolerance) {
  if (dtype == MMC_I64)
    return static_cast<const int64_t *>(x)[at] == static_cast<const int64_t *>(y)[at];
  const double a = dtype == MMC_F32 ? (double)static_cast<const float *>(x)[at]
                                    : static_cast<const double *>(x)[at],
               b = dtype == MMC_F32 ? (double)static_cast<const float *>(y)[at]
                                    : static_cast<const double *>(y)[at];
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == 0 && b == 0) return std::signbit(a) == std::signbit(b);
  return a == b || std::fabs(a - b) <= tolerance;
}

static int64_t random_size(uint64_t *random, int64_t most) {
  static const int64_t EDGES[] = {0, 1, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65};
  if (random_below(random, 2) == 0) return EDGES[random_below(random, 12)] % (most + 1);
  return random_below(random, most + 1);
}

static mmci_form random_form(uint64_t *random, int64_t rows, int64_t cols) {
  mmci_form form = {};
  form.trans = random_below(random, 2) == 1;
  form.ld =
      (form.trans ? rows : cols) + (random_below(random, 2) == 0 ? 0 : random_below(random, 9));
  /* Whole pieces of 16 bytes, often. */
  if (random_below(random, 2) == 0) form.ld = (form.ld + 3) / 4 * 4;
  if (form.ld == 0) form.ld = 1;
  const int64_t lines = form.trans ? cols : rows;
  form.stride = lines * form.ld + random_below(random, 2) * 4;
  if (random_below(random, 6) == 0) form.stride = 0;
  return form;
}

static int64_t length_of(const mmci_form &form, int64_t rows, int64_t cols, int64_t batch) {
  return (batch - 1) * form.stride + (form.trans ? cols : rows) * form.ld + 8;
}

static std::vector<double> random_matrices(uint64_t *random, mmc_dtype dtype, bool least,
                                           int filling, int64_t length) {
  std::vector<double> x((size_t)length);
  for (int64_t i = 0; i < length; i++)
    write(dtype, x.data(), i, random_number(random, least, filling));
  return x;
}

static void try_product(uint64_t seed) {
  uint64_t random = seed;
  mmci_gemm g = {};
  mmci_error error = {};
  const int ring = (int)random_below(&random, RINGS);
  const int filling = (int)random_below(&random, FILLINGS), processors[] = {1, 4, 132};
  const int64_t most = random_below(&random, 8) == 0 ? 140 : 40;
  const bool is_long = random_below(&random, 3) == 0; /* k is cut into parts */
  g.dtype = rings[ring].dtype;
  g.rule.semiring = rings[ring].semiring;
  g.m = random_size(&random, most);
  g.k = is_long ? 100 + random_below(&random, 900) : random_size(&random, most);
  g.n = random_size(&random, most);
  if (random_below(&random, 4) == 0) (random_below(&random, 2) == 0 ? g.m : g.n) = 1;
  g.a = random_form(&random, g.m, g.k);
  g.b = random_form(&random, g.k, g.n);
  g.ldc = g.n + 1 + random_below(&random, 5);
  g.batch = most > 40 || random_below(&random, 2) == 0 ? 0 : 1 + random_below(&random, 4);
  g.accumulate = random_below(&random, 3) == 0;
  const int64_t batch = g.batch > 0 ? g.batch : 1, c_length = g.m * g.ldc + 3;
  g.c_stride = c_length;
  const bool least = g.rule.semiring == MMC_MIN_PLUS;
  const auto a = random_matrices(&random, g.dtype, least, filling, length_of(g.a, g.m, g.k, batch)),
             b = random_matrices(&random, g.dtype, least, filling, length_of(g.b, g.k, g.n, batch));
  auto c = random_matrices(&random, g.dtype, least, filling, batch * c_length);
  const size_t size = mmc_dtype_size(g.dtype);
  std::vector<double> expected = c;
  const char *a_bytes = (const char *)a.data(), *b_bytes = (const char *)b.data();
  for (int64_t i = 0; i < batch; i++)
    mmci_ref_semiring_gemm(&g, a_bytes + (size_t)(i * g.a.stride) * size,
                           b_bytes + (size_t)(i * g.b.stride) * size,
                           (char *)expected.data() + (size_t)(i * g.c_stride) * size);
  std::vector<const void *> a_table, b_table;
  const void *a_data = a.data(), *b_data = b.data();
  mmci_gemm asked = g;
  if (random_below(&random, 6) == 0) {
    for (int64_t i = 0; i < batch; i++) {
      a_table.push_back(a_bytes + (size_t)(i * g.a.stride) * size);
      b_table.push_back(b_bytes + (size_t)(i * g.b.stride) * size);
    }
    asked.a.gathered = asked.b.gathered = true;
    a_data = a_table.data();
    b_data = b_table.data();
  }
  /* Memory for parts, of which nobody reads what was not written, and guards behind it. */
  static const size_t ROOMS[] = {0, 5000, 100000, 4000000};
  std::vector<unsigned char> memory(ROOMS[random_below(&random, 4)] + 64, 0xff);
  const mmci_cuda_semiring_room room = {processors[random_below(&random, 3)], memory.data(),
                                        memory.size() - 64};
  bool right = mmci_cuda_semiring_product(nullptr, &asked, &room, a_data, b_data, c.data(),
                                          &error) == MMC_OK;
  for (size_t i = room.bytes; i < memory.size(); i++) right = right && memory[i] == 0xff;
  const double epsilon = g.dtype == MMC_F32 ? 0x1p-23 : 0x1p-52,
               scale = filling == FAR_APART ? 6000 : 32;
  const double tolerance = g.rule.semiring == MMC_LOG_SUM_EXP ? 8 * epsilon * scale : 0;
  for (int64_t i = 0; i < batch * c_length; i++)
    right = right && same(g.dtype, c.data(), expected.data(), i, tolerance);
  checks++;
  if (right) return;
  failures++;
  printf("FAILED: %s of %s, filling %d, %" PRId64 " x %" PRId64 " x %" PRId64 " batch %" PRId64
         ", seed %" PRIu64 "\n",
         mmc_semiring_name(g.rule.semiring), mmc_dtype_name(g.dtype), filling, g.m, g.k, g.n, batch,
         seed);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
  for (uint64_t i = 0; i < (uint64_t)how_many(400, 900); i++) try_product(seed * 100000 + i);
  printf("%d of %d products over semirings failed, seed %" PRIu64 "\n", failures, checks, seed);
  return failures != 0;
}
