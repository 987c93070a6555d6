/* test_scans.cpp: the CUDA module's kernels for running products, run by the CPU: every thread of a
 * block is a fiber, and the order in which they run is shuffled at every barrier. States are
 * compared with products from left to right in f64; factors are of one sign, so that a state is as
 * large as the product of sizes. What lies beside the states is NaN and stays it.
 *
 *     test_scans [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/scan/scan_kernels.h"

#include "../elements.h"
#include "../random.h"

enum { CASES = 60, GAP = 3 };

static int failures = 0, checks = 0;

/* Matrices of a stack, with gaps that are NaN. */
struct Stack {
  mmci_cuda_stack form;
  mmc_dtype dtype;
  int64_t n, count, batch;
  std::vector<unsigned char> bytes;

  Stack(mmc_dtype dtype_, int64_t n_, int64_t count_, int64_t batch_, bool tight, bool turned)
      : form(), dtype(dtype_), n(n_), count(count_), batch(batch_) {
    form.turned = turned;
    form.ld = n + (tight ? 0 : GAP);
    form.step = form.ld * n;
    form.stride = form.step * count + (tight ? 0 : GAP);
    bytes.assign((size_t)(form.stride * batch) * dtype_facts[dtype].size, 0xff);
    form.data = bytes.data();
  }
  unsigned char *at(int64_t b, int64_t t, int64_t r, int64_t c) {
    const int64_t place = form.turned ? c * form.ld + r : r * form.ld + c;
    return &bytes[(size_t)(b * form.stride + t * form.step + place) * dtype_facts[dtype].size];
  }
  double read(int64_t b, int64_t t, int64_t r, int64_t c) {
    return element_read(dtype, at(b, t, r, c)).re;
  }
  void fill(uint64_t *random) {
    for (int64_t b = 0; b < batch; b++)
      for (int64_t t = 0; t < count; t++) {
        const double sign = random_below(random, 2) == 0 ? 1 : -1;
        for (int64_t r = 0; r < n; r++)
          for (int64_t c = 0; c < n; c++)
            element_write(dtype, at(b, t, r, c), {sign * (1 + random_unit(random)) / (double)n, 0});
      }
  }
  bool rest_is_untouched() {
    std::vector<unsigned char> rest = bytes;
    for (int64_t b = 0; b < batch; b++)
      for (int64_t t = 0; t < count; t++)
        for (int64_t r = 0; r < n; r++)
          for (int64_t c = 0; c < n; c++)
            memset(&rest[(size_t)(at(b, t, r, c) - bytes.data())], 0xff, dtype_facts[dtype].size);
    for (unsigned char byte : rest)
      if (byte != 0xff) return false;
    return true;
  }
};

static void expect(bool held, const char *what, uint64_t seed) {
  checks++;
  if (held) return;
  failures++;
  printf("FAILED: %s, seed %" PRIu64 "\n", what, seed);
}

/* Scans two levels: tiles, and one tile of their products. */
static bool scan(Stack &factors, Stack *initial, Stack &states, int64_t run) {
  mmci_error error = {};
  mmci_cuda_scan_pass pass = {};
  const int64_t n = factors.n, chains = mmci_cuda_scan_chains(factors.dtype, n), size = n * n;
  pass.dtype = factors.dtype;
  pass.n = n;
  pass.length = factors.count;
  pass.batch = factors.batch;
  pass.run = run;
  pass.tiles = (pass.length + chains * run - 1) / (chains * run);
  pass.factors = factors.form;
  pass.states = states.form;
  if (initial != nullptr) pass.initial = initial->form;
  std::vector<double> totals((size_t)(pass.tiles * pass.batch * size), (double)NAN),
      carries = totals, parts((size_t)(pass.tiles * pass.batch * size * chains), (double)NAN);
  pass.totals = totals.data();
  pass.carries = carries.data();
  pass.parts = parts.data();
  if (pass.tiles > 1) {
    mmci_cuda_scan_pass above = pass;
    above.length = pass.tiles;
    above.run = (pass.tiles + chains - 1) / chains;
    above.tiles = 1;
    above.factors = {totals.data(), n, size, size * pass.tiles, false};
    above.states = {carries.data(), n, size, size * pass.tiles, false};
    if (mmci_cuda_scan_reduce(nullptr, &pass, &error) != MMC_OK ||
        mmci_cuda_scan_finish(nullptr, &above, &error) != MMC_OK)
      return false;
  }
  return mmci_cuda_scan_finish(nullptr, &pass, &error) == MMC_OK;
}

static bool is_right(Stack &factors, Stack *initial, Stack &states) {
  const int64_t n = factors.n;
  const double epsilon = dtype_facts[factors.dtype].epsilon;
  std::vector<double> state((size_t)(n * n)), next = state;
  for (int64_t b = 0; b < factors.batch; b++) {
    for (int64_t e = 0; e < n * n; e++)
      state[(size_t)e] = initial != nullptr ? initial->read(b, 0, e / n, e % n) : e / n == e % n;
    for (int64_t t = 0; t < factors.count; t++) {
      for (int64_t e = 0; e < n * n; e++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
          sum += state[(size_t)(e / n * n + k)] * factors.read(b, t, k, e % n);
        next[(size_t)e] = sum;
        const double tolerance = 2 * (double)((t + 2) * (n + 2)) * epsilon * std::fabs(sum);
        if (!(std::fabs(states.read(b, t, e / n, e % n) - sum) <= tolerance)) return false;
      }
      state.swap(next);
    }
  }
  return states.rest_is_untouched();
}

static void try_scan(uint64_t seed) {
  static const int64_t sizes[] = {4, 8, 16};
  uint64_t random = seed;
  const mmc_dtype dtype = random_below(&random, 2) == 0 ? MMC_F32 : MMC_F64;
  const int64_t n = sizes[random_below(&random, 3)], run = 1 + random_below(&random, 4);
  const int64_t tile = run * mmci_cuda_scan_chains(dtype, n), batch = 1 + random_below(&random, 3);
  const int64_t length = 1 + random_below(&random, 3 * tile);
  Stack factors(dtype, n, length, batch, random_below(&random, 2) == 0,
                random_below(&random, 2) == 0);
  Stack states(dtype, n, length, batch, random_below(&random, 2) == 0,
               random_below(&random, 2) == 0);
  Stack initial(dtype, n, 1, batch, random_below(&random, 2) == 0, random_below(&random, 2) == 0);
  factors.fill(&random);
  initial.fill(&random);
  Stack *before = random_below(&random, 2) == 0 ? &initial : nullptr;
  expect(scan(factors, before, states, run) && is_right(factors, before, states), "a scan", seed);
}

/* A recurrence of square states, whose addends are factors of their own. */
static void try_recurrence(uint64_t seed) {
  uint64_t random = seed;
  const mmc_dtype dtype = random_below(&random, 2) == 0 ? MMC_F32 : MMC_F64;
  const int64_t n = 1 + random_below(&random, 12), batch = 1 + random_below(&random, 2);
  const int64_t length = 1 + random_below(&random, 80);
  auto some = [&]() { return random_below(&random, 2) == 0; };
  Stack factors(dtype, n, length, batch, some(), some()),
      states(dtype, n, length, batch, some(), some()), initial(dtype, n, 1, batch, some(), some()),
      addends(dtype, n, length, batch, some(), some());
  factors.fill(&random);
  initial.fill(&random);
  addends.fill(&random);
  mmci_cuda_recurrence x = {};
  mmci_error error = {};
  x.dtype = dtype;
  x.n = x.width = n;
  x.length = length;
  x.batch = batch;
  x.factors = factors.form;
  x.states = states.form;
  x.initial = initial.form;
  if (some()) x.addends = addends.form;
  bool right = mmci_cuda_recurrence_follow(nullptr, &x, &error) == MMC_OK;
  const double epsilon = dtype_facts[dtype].epsilon;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < length; t++)
      for (int64_t e = 0; e < n * n; e++) {
        /* Each step from the state before as it was computed: its own error is all there is. */
        const int64_t r = e / n, c = e % n;
        double sum = x.addends.data != nullptr ? addends.read(b, t, r, c) : 0,
               size = std::fabs(sum);
        for (int64_t k = 0; k < n; k++) {
          const double s = t > 0 ? states.read(b, t - 1, r, k) : initial.read(b, 0, r, k);
          sum += s * factors.read(b, t, k, c);
          size += std::fabs(s * factors.read(b, t, k, c));
        }
        const double off = std::fabs(states.read(b, t, r, c) - sum);
        right = right && off <= 2 * (double)(n + 2) * epsilon * size;
      }
  expect(right && states.rest_is_untouched(), "a recurrence", seed);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 2323;
  printf("seed %" PRIu64 "\n", seed);
  for (uint64_t i = 0; i < CASES; i++) {
    try_scan(seed + i);
    try_recurrence(seed + i);
  }
  expect(mmci_cuda_scan_can(MMC_F32, 16) && !mmci_cuda_scan_can(MMC_C64, 16) &&
             !mmci_cuda_scan_can(MMC_F32, 5),
         "what there are kernels for", seed);
  printf("%d checks, %d failed\n", checks, failures);
  return failures > 0;
}
