/* test_structured.cpp: the kernels of the CUDA module for products with structure, run by the CPU
 * as those of test_products.cpp are, against loops; what lies beside the elements stays what it is.
 *
 *     test_structured [SEED] */
#include <cinttypes>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/structured/structured_kernels.h"

#include "../elements.h"
#include "../random.h"

typedef std::complex<double> number;

enum { CASES = 400, KINDS = 8 };

static int failures = 0, checks = 0;

/* Element (l, i) at l * ld + i, and NaN behind every line. */
struct Lines {
  mmc_dtype dtype;
  int64_t lines, length, ld;
  std::vector<unsigned char> bytes;

  Lines(mmc_dtype dtype_, int64_t lines_, int64_t length_, uint64_t *random)
      : dtype(dtype_), lines(lines_), length(length_), ld(length_ + random_below(random, 4)) {
    if (ld == 0) ld = 1;
    bytes.assign((size_t)(lines * ld + 1) * dtype_facts[dtype].size, 0xff);
    for (int64_t l = 0; l < lines; l++)
      for (int64_t i = 0; i < length; i++)
        put(l, i, number(2 + 0.5 * random_unit(random), random_unit(random)));
  }
  unsigned char *at(int64_t l, int64_t i) {
    return &bytes[(size_t)(l * ld + i) * dtype_facts[dtype].size];
  }
  number get(int64_t l, int64_t i) {
    const element e = element_read(dtype, at(l, i));
    return number(e.re, mmci_dtype_is_complex(dtype) ? e.im : 0);
  }
  void put(int64_t l, int64_t i, number value) {
    element_write(dtype, at(l, i), element{value.real(), value.imag()});
  }
  bool guards_are_kept() {
    const size_t size = dtype_facts[dtype].size, line = (size_t)ld * size;
    for (size_t b = 0; b < bytes.size(); b++)
      if ((b >= (size_t)lines * line || b % line >= (size_t)length * size) && bytes[b] != 0xff)
        return false;
    return true;
  }
};

static number conj_if(number x, bool conj) {
  return conj ? std::conj(x) : x;
}

/* What each kind of case expects. */
typedef std::vector<number> expected;

static void check_case(uint64_t seed) {
  uint64_t random = seed;
  const mmc_dtype dtype = (mmc_dtype)random_below(&random, 4);
  const int kind = (int)random_below(&random, KINDS);
  const bool is_square = kind != 1 && kind != 6 && kind != 7;
  const int64_t n = random_below(&random, 90), m = is_square ? n : random_below(&random, 90);
  const bool a = random_below(&random, 2) != 0, b = random_below(&random, 2) != 0,
             c = random_below(&random, 2) != 0;
  const bool conj = a && mmci_dtype_is_complex(dtype);
  Lines z(dtype, n, m, &random), other(dtype, n, m, &random);
  const int64_t side = b ? n : m;
  Lines s(dtype, side, side, &random);
  expected wanted((size_t)(n * m) + 1);
  mmci_error error = {};
  mmc_status status = MMC_OK;
  for (int64_t l = 0; l < n; l++)
    for (int64_t i = 0; i < m; i++) wanted[(size_t)(l * m + i)] = z.get(l, i);
  const mmci_device_lines to = {z.bytes.data(), n, m, z.ld};
  int32_t pivot = -1, first = 0;
  switch (kind) {
    case 0: /* halves: b says that the late one is copied */
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < n; i++)
          if (b ? l < i : l > i) wanted[(size_t)(l * n + i)] = conj_if(z.get(i, l), conj);
      status = mmci_cuda_mirror(nullptr, dtype, z.bytes.data(), n, z.ld, b, conj, &error);
      break;
    case 1: { /* a diagonal: b says that lines have a number each, c that they are divided */
      const mmci_diagonal d = {s.bytes.data(), side, s.ld + 1, conj, b};
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < m; i++) {
          const number x = conj_if(s.get(b ? l : i, b ? l : i), conj);
          wanted[(size_t)(l * m + i)] = c ? other.get(l, i) / x : other.get(l, i) * x;
        }
      status = mmci_cuda_scale(nullptr, dtype, &to, other.bytes.data(), other.ld, &d, c, &error);
      break;
    }
    case 2:
      for (int64_t i = 0; i < n && a; i++)
        if (random_below(&random, 30) == 0) {
          z.put(i, i, number(-0.0, 0));
          wanted[(size_t)(i * n + i)] = 0;
          if (first == 0) first = (int32_t)i + 1;
        }
      {
        const mmci_diagonal d = {z.bytes.data(), n, z.ld + 1, false, false};
        status = mmci_cuda_find_zero(nullptr, dtype, &d, &pivot, &error);
      }
      if (pivot != first) {
        printf("seed %" PRIu64 ": zero at %d, found at %d\n", seed, first, pivot);
        failures++;
      }
      break;
    case 3:
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < n; i++) wanted[(size_t)(l * n + i)] = l == i ? 1 : 0;
      status = mmci_cuda_identity(nullptr, dtype, z.bytes.data(), n, z.ld, &error);
      break;
    case 4:
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < n; i++) wanted[(size_t)(l * n + i)] = std::conj(z.get(i, l));
      status = mmci_cuda_transpose_square(nullptr, dtype, z.bytes.data(), n, z.ld, &error);
      break;
    case 5:
      for (int64_t i = 0; i < n; i++) wanted[(size_t)(i * n + i)] = 1.0 / z.get(i, i);
      status = mmci_cuda_invert_diagonal(nullptr, dtype, z.bytes.data(), n, z.ld, &error);
      break;
    case 6: { /* a permutation: b says that lines are taken, c that it is read by places */
      std::vector<int64_t> from((size_t)side + 1), index((size_t)side + 1, -1);
      for (int64_t i = 0; i < side; i++) from[(size_t)i] = i;
      for (int64_t i = side; i > 1; i--)
        std::swap(from[(size_t)i - 1], from[(size_t)random_below(&random, i)]);
      for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < side; j++)
          s.put(c ? j : i, c ? i : j, from[(size_t)i] == j ? 1 : 0);
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < m; i++)
          wanted[(size_t)(l * m + i)] =
              b ? other.get(from[(size_t)l], i) : other.get(l, from[(size_t)i]);
      status =
          mmci_cuda_find_ones(nullptr, dtype, s.bytes.data(), side, s.ld, c, index.data(), &error);
      if (status == MMC_OK)
        status = mmci_cuda_gather(nullptr, dtype, &to, other.bytes.data(), other.ld, index.data(),
                                  !b, &error);
      break;
    }
    default: { /* a band: b says that rows are lines, c that it lies transposed */
      const mmc_band band = {random_below(&random, 9), random_below(&random, 9)};
      const mmci_device_band x = {s.bytes.data(), side, c ? 1 : s.ld, c ? s.ld : 1, conj, band};
      for (int64_t l = 0; l < n; l++)
        for (int64_t i = 0; i < m; i++) {
          const int64_t row = b ? l : i;
          number sum = 0;
          for (int64_t j = 0; j < side; j++)
            if (row - j <= band.below && j - row <= band.above)
              sum += conj_if(c ? s.get(j, row) : s.get(row, j), conj) *
                     (b ? other.get(j, i) : other.get(l, j));
          wanted[(size_t)(l * m + i)] = sum;
        }
      status = mmci_cuda_band(nullptr, dtype, &to, other.bytes.data(), other.ld, &x, !b, &error);
    }
  }
  double most = 0, scale = 1;
  for (int64_t l = 0; l < n; l++)
    for (int64_t i = 0; i < m; i++) {
      const double d = std::abs(z.get(l, i) - wanted[(size_t)(l * m + i)]);
      if (!(d <= most)) most = d;
      scale = std::fmax(scale, std::abs(wanted[(size_t)(l * m + i)]));
    }
  const double tolerance = 64 * scale * dtype_facts[dtype].epsilon;
  checks++;
  if (status == MMC_OK && most <= tolerance && z.guards_are_kept() && other.guards_are_kept() &&
      s.guards_are_kept())
    return;
  printf("seed %" PRIu64 ": kind %d, %s %" PRId64 "x%" PRId64
         " (%d %d %d): status %d, differs by %g\n",
         seed, kind, dtype_facts[dtype].name, n, m, a, b, c, (int)status, most);
  failures++;
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
  for (uint64_t i = 0; i < CASES && failures < 20; i++) check_case(seed + i);
  printf("%d cases from seed %" PRIu64 ", %d failures\n", checks, seed, failures);
  return failures != 0;
}
