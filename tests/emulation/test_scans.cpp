/* test_scans.cpp: the CUDA module's kernels for running products, run by the CPU: every thread of a
 * block is a fiber, and the order in which they run is shuffled at every barrier. States are
 * compared with products from left to right in f64; factors are of one sign, so that a state is as
 * large as the product of sizes. What lies beside the states is NaN and stays it.
 *
 *     test_scans [SEED] */
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

#include "device/cuda/scan/scan_kernels.h"

#include "../elements.h"
#include "../how_many.h"
#include "../random.h"

/* So many words behind the flags stay as they are. */
enum { GAP = 3, BEYOND = 16384 };

static int failures = 0, checks = 0;

struct Stack;
static bool is_right(Stack &factors, Stack *initial, Stack &states);

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

/* Scans by passes over tiles, whose products are swept. */
static bool scan_tiles(Stack &factors, Stack *initial, Stack &states, int64_t run) {
  mmci_error error = {};
  mmci_cuda_tiles pass = {};
  const int64_t n = factors.n, chains = mmci_cuda_tiles_chains(factors.dtype, n), size = n * n;
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
  mmci_cuda_sweep above = {};
  above.dtype = pass.dtype;
  above.n = n;
  above.length = pass.tiles;
  above.batch = pass.batch;
  above.run = above.tiles = 1;
  const int64_t more = (pass.tiles - 1) / mmci_cuda_sweep_shape_of(pass.dtype, n).chains;
  above.tiles = 1 + more;
  above.processors = 2;
  above.initial = pass.initial;
  above.factors = {totals.data(), n, size, size * pass.tiles, false};
  above.states = {carries.data(), n, size, size * pass.tiles, false};
  std::vector<unsigned> flags(mmci_cuda_sweep_words(&above), 0);
  above.flags = flags.data();
  if (pass.tiles == 1) return mmci_cuda_tiles_finish(nullptr, &pass, &error) == MMC_OK;
  return mmci_cuda_tiles_reduce(nullptr, &pass, &error) == MMC_OK &&
         mmci_cuda_sweep_run(nullptr, &above, &error) == MMC_OK &&
         mmci_cuda_tiles_finish(nullptr, &pass, &error) == MMC_OK;
}

/* Scans by long strands, the products of which are followed by strands of few factors, or are
 * multiplied by the strands themselves, where these walk the first. */
static bool scan_long(Stack &factors, Stack *initial, Stack &states, int64_t run,
                      bool walks_first) {
  mmci_error error = {};
  mmci_cuda_tiles pass = {};
  const int64_t n = factors.n, size = n * n;
  pass.dtype = factors.dtype;
  pass.n = n;
  pass.length = factors.count;
  pass.batch = factors.batch;
  pass.run = run;
  pass.tiles = (pass.length + pass.run - 1) / pass.run;
  pass.factors = factors.form;
  pass.states = states.form;
  if (initial != nullptr) pass.initial = initial->form;
  std::vector<double> totals((size_t)(pass.tiles * pass.batch * size), (double)NAN),
      carries = totals;
  pass.totals = totals.data();
  pass.carries = carries.data();
  if (pass.tiles == 1) return mmci_cuda_long_strands_finish(nullptr, &pass, &error) == MMC_OK;
  if (walks_first) {
    pass.carries = nullptr;
    pass.walks_first = true;
    return mmci_cuda_long_strands_reduce(nullptr, &pass, &error) == MMC_OK &&
           mmci_cuda_long_strands_finish(nullptr, &pass, &error) == MMC_OK;
  }
  mmci_cuda_sweep above = {};
  above.dtype = pass.dtype;
  above.n = n;
  above.length = pass.tiles;
  above.batch = pass.batch;
  above.run = 2;
  above.tiles = (pass.tiles + 2 * MMCI_CUDA_FEW_STRANDS - 1) / (2 * MMCI_CUDA_FEW_STRANDS);
  above.initial = pass.initial;
  above.factors = {totals.data(), n, size, size * pass.tiles, false};
  above.states = {carries.data(), n, size, size * pass.tiles, false};
  size_t work_bytes = 0, flag_count = 0;
  mmci_cuda_strands_room(&above, &work_bytes, &flag_count);
  std::vector<double> work(work_bytes / sizeof(double) + 2, (double)NAN);
  std::vector<unsigned> flags(flag_count, 0);
  above.work = (void *)(((uintptr_t)work.data() + 15) / 16 * 16);
  above.flags = flags.data();
  return mmci_cuda_long_strands_reduce(nullptr, &pass, &error) == MMC_OK &&
         mmci_cuda_strands_run(nullptr, &above, MMCI_CUDA_FEW_STRANDS, &error) == MMC_OK &&
         mmci_cuda_long_strands_finish(nullptr, &pass, &error) == MMC_OK;
}

static void try_long(uint64_t seed) {
  uint64_t random = seed;
  auto some = [&]() { return random_below(&random, 2) == 0; };
  const mmc_dtype dtype = some() ? MMC_F32 : MMC_F64;
  const int64_t n = some() ? 16 : some() ? 12 : 9 + random_below(&random, 8);
  const bool whole = some(); /* no gaps, nothing turned */
  const bool is_one = random_below(&random, 3) == 0;
  const int64_t batch = 1 + random_below(&random, 3), most = 1 + random_below(&random, 40);
  /* About the powers of two in every fourth case, else any length. */
  const int64_t length = random_below(&random, 4) == 0
                             ? (2 << random_below(&random, 5)) - 1 + random_below(&random, 3)
                             : 1 + random_below(&random, 40 * most < 200 ? 40 * most : 200);
  const bool walks_first = some();
  const int64_t parts = 2 + random_below(&random, 9); /* of strands that walk the first */
  const int64_t run = is_one ? length : walks_first ? (length + parts - 1) / parts : most;
  Stack factors(dtype, n, length, batch, whole || some(), !whole && some());
  Stack states(dtype, n, length, batch, whole || some(), !whole && some());
  Stack initial(dtype, n, 1, batch, some(), some());
  factors.fill(&random);
  initial.fill(&random);
  Stack *before = some() ? &initial : nullptr;
  expect(scan_long(factors, before, states, run, walks_first) && is_right(factors, before, states),
         "a scan by long strands", seed);
}

/* Positive factors of one scan of two, one element of which is no number or infinite: the states
 * before it and all of the other scan are right, its own hold it in that column, and later ones
 * everywhere. */
static void try_long_poison(uint64_t seed, mmc_dtype dtype, int64_t n, int64_t run,
                            bool walks_first, double poison) {
  uint64_t random = seed;
  const int64_t length = 61, batch = 2, at = 33, row = n / 3, col = n / 2;
  Stack factors(dtype, n, length, batch, true, false), states(dtype, n, length, batch, true, false);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < length; t++)
      for (int64_t e = 0; e < n * n; e++)
        element_write(dtype, factors.at(b, t, e / n, e % n),
                      {(1 + random_unit(&random)) / (double)n, 0});
  Stack clean = factors, plain(dtype, n, length, batch, true, false);
  clean.form.data = clean.bytes.data();
  element_write(dtype, factors.at(1, at, row, col), {poison, 0});
  bool right = scan_long(factors, nullptr, states, run, walks_first) &&
               scan_long(clean, nullptr, plain, run, walks_first) &&
               is_right(clean, nullptr, plain);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < length; t++)
      for (int64_t e = 0; e < n * n; e++) {
        const double x = states.read(b, t, e / n, e % n), y = plain.read(b, t, e / n, e % n);
        const bool is_number = b == 0 || t < at || (t == at && e % n != col);
        right = right && (is_number ? x == y : !std::isfinite(x));
      }
  expect(right && states.rest_is_untouched(), "long strands with what is no number", seed);
}

/* Returns how many factors a tile has. */
static int64_t tile_of(mmc_dtype dtype, int64_t n, int64_t run, int strands) {
  return run * (strands > 0 ? strands : mmci_cuda_sweep_shape_of(dtype, n).chains);
}

/* Scans twice with the same flags, which must do as well the second time, by so many strands of a
 * tile or by sweeps. */
static bool scan(Stack &factors, Stack *initial, Stack &states, int64_t run, int strands) {
  mmci_error error = {};
  mmci_cuda_sweep pass = {};
  pass.dtype = factors.dtype;
  pass.n = factors.n;
  pass.length = factors.count;
  pass.batch = factors.batch;
  pass.run = run;
  pass.processors = 2;
  const int64_t tile = tile_of(pass.dtype, pass.n, run, strands);
  pass.tiles = (pass.length + tile - 1) / tile;
  pass.factors = factors.form;
  pass.states = states.form;
  if (initial != nullptr) pass.initial = initial->form;
  size_t work_bytes = 0, flag_count = 0;
  if (strands > 0)
    mmci_cuda_strands_room(&pass, &work_bytes, &flag_count);
  else
    flag_count = mmci_cuda_sweep_words(&pass);
  std::vector<double> work(work_bytes / sizeof(double) + 2, (double)NAN);
  std::vector<unsigned> flags(flag_count + BEYOND, 0);
  for (size_t i = flag_count; i < flags.size(); i++) flags[i] = 1234;
  const std::vector<unsigned> beyond(flags.end() - BEYOND, flags.end());
  pass.work = (void *)(((uintptr_t)work.data() + 15) / 16 * 16);
  pass.flags = flags.data();
  const auto run_once = [&]() {
    return (strands > 0 ? mmci_cuda_strands_run(nullptr, &pass, strands, &error)
                        : mmci_cuda_sweep_run(nullptr, &pass, &error)) == MMC_OK;
  };
  if (!run_once()) return false;
  memset(pass.work, 0xff, work_bytes);
  const std::vector<unsigned char> once = states.bytes;
  return run_once() && once == states.bytes &&
         std::equal(beyond.begin(), beyond.end(), flags.end() - BEYOND);
}

/* States near the ends of f32's range are not compared, nor what follows from them. */
static bool is_right(Stack &factors, Stack *initial, Stack &states) {
  const int64_t n = factors.n;
  const double epsilon = dtype_facts[factors.dtype].epsilon;
  std::vector<double> state((size_t)(n * n)), next = state;
  for (int64_t b = 0; b < factors.batch; b++) {
    for (int64_t e = 0; e < n * n; e++)
      state[(size_t)e] = initial != nullptr ? initial->read(b, 0, e / n, e % n) : e / n == e % n;
    bool in_range = true;
    for (int64_t t = 0; t < factors.count && in_range; t++) {
      for (int64_t e = 0; e < n * n && in_range; e++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
          sum += state[(size_t)(e / n * n + k)] * factors.read(b, t, k, e % n);
        next[(size_t)e] = sum;
        in_range = std::fabs(sum) > 1e-30 && std::fabs(sum) < 1e30;
        if (!in_range) break;
        const double tolerance = 2 * (double)((t + 2) * (n + 2)) * epsilon * std::fabs(sum);
        if (!(std::fabs(states.read(b, t, e / n, e % n) - sum) <= tolerance)) return false;
      }
      state.swap(next);
    }
  }
  return states.rest_is_untouched();
}

static void try_scan(uint64_t seed) {
  uint64_t random = seed;
  const mmc_dtype dtype = random_below(&random, 2) == 0 ? MMC_F32 : MMC_F64;
  const int64_t n =
      random_below(&random, 3) == 0 ? 1 + random_below(&random, 16) : 4 << random_below(&random, 3);
  const int64_t run = 1 + random_below(&random, 3);
  const int strands = random_below(&random, 2) == 0 || !mmci_cuda_strands_can(9, 0, dtype, n) ? 0
                      : random_below(&random, 2) == 0 ? MMCI_CUDA_FEW_STRANDS
                                                      : MMCI_CUDA_MANY_STRANDS;
  const int64_t tile = tile_of(dtype, n, run, strands);
  const int64_t batch = 1 + random_below(&random, 3);
  const int64_t tiles = random_below(&random, 8) == 0 ? 300 : random_below(&random, 2) ? 3 : 20;
  const int64_t most = strands > 0 ? 500 : 6000;
  const int64_t length = 1 + random_below(&random, tiles * tile < most ? tiles * tile : most);
  auto some = [&]() { return random_below(&random, 2) == 0; };
  Stack factors(dtype, n, length, batch, some(), some());
  Stack states(dtype, n, length, batch, some(), some());
  Stack initial(dtype, n, 1, batch, some(), some());
  factors.fill(&random);
  initial.fill(&random);
  Stack *before = some() ? &initial : nullptr;
  const bool passes = strands == 0 && mmci_cuda_tiles_can(dtype, n) && some();
  expect((passes ? scan_tiles(factors, before, states, run)
                 : scan(factors, before, states, run, strands)) &&
             is_right(factors, before, states),
         strands > 0 ? "a scan by strands" : "a scan", seed);
}

/* Scans in more than a row of groups of tiles, by strands or by sweeps, where one factor holds an
 * element that is no number: states before it know nothing of it, its own in that column, and later
 * ones all. */
static void try_poison(uint64_t seed, mmc_dtype dtype, int64_t n, bool by_strands, double poison) {
  const int64_t few = by_strands || n > 8 ? 16 : 32, tiles = few * few + 4;
  const int strands = by_strands ? MMCI_CUDA_FEW_STRANDS : 0;
  const int64_t length = tiles * tile_of(dtype, n, 1, strands) - 3, at = length - 40;
  const int64_t row = n / 3, col = n / 2;
  Stack factors(dtype, n, length, 1, true, false), states(dtype, n, length, 1, true, false);
  for (int64_t t = 0; t < length; t++)
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++)
        element_write(dtype, factors.at(0, t, r, c), {r == (c + 1) % n ? 1.0 : 0.0, 0});
  element_write(dtype, factors.at(0, at, row, col), {poison, 0});
  bool right = scan(factors, nullptr, states, 1, strands);
  for (int64_t t = 0; t < length; t++)
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++) {
        const double x = states.read(0, t, r, c);
        const bool is_number = t < at || (t == at && c != col);
        right = right && (is_number ? x == (r == (c + t + 1) % n ? 1 : 0) : !std::isfinite(x));
      }
  expect(right && states.rest_is_untouched(), "a factor that holds no number", seed);
}

/* A pass, by tensor cores where these can and are wanted. */
static bool pass_through(const mmci_cuda_walk &x, bool by_tensor) {
  mmci_error error = {};
  return (by_tensor && mmci_cuda_tensor_walk_can(9, 0, &x)
              ? mmci_cuda_tensor_walk_run(nullptr, &x, &error)
              : mmci_cuda_walk_run(nullptr, &x, &error)) == MMC_OK;
}

/* Walks through tiles, and one tile of their products; or through groups of these where there is a
 * group, and then through the products of groups. */
static bool walk(Stack &factors, Stack *initial, Stack &states, int64_t run, int64_t group,
                 bool splits_rows, bool by_tensor) {
  mmci_cuda_walk x = {};
  const int64_t n = factors.n, size = n * n;
  x.dtype = factors.dtype;
  x.n = n;
  x.length = factors.count;
  x.batch = factors.batch;
  x.run = run;
  x.tiles = (x.length + run - 1) / run;
  x.factors = factors.form;
  x.states = states.form;
  x.splits_rows = splits_rows && group == 0;
  if (initial != nullptr) x.initial = initial->form;
  std::vector<double> totals((size_t)(x.tiles * x.batch * size), (double)NAN),
      carries = totals, group_carries = totals;
  x.totals = totals.data();
  x.carries = carries.data();
  if (x.tiles > 1) {
    mmci_cuda_walk above = x;
    above.length = above.run = x.tiles;
    above.tiles = 1;
    above.splits_rows = !splits_rows;
    above.factors = {totals.data(), n, size, size * x.tiles, false};
    above.states = {carries.data(), n, size, size * x.tiles, false};
    above.finishes = true;
    above.carries = nullptr;
    if (group > 0) {
      above.run = group;
      above.tiles = (x.tiles + group - 1) / group;
    }
    if (!pass_through(x, by_tensor) || !pass_through(above, by_tensor)) return false;
    if (above.tiles > 1) {
      mmci_cuda_walk groups = above;
      groups.length = groups.run = above.tiles - 1;
      groups.tiles = 1;
      groups.initial = {};
      const float *first = reinterpret_cast<const float *>(carries.data()) + (group - 1) * size;
      groups.factors = {first, n, size * group, size * x.tiles, false};
      groups.states = {group_carries.data(), n, size, size * above.tiles, false};
      if (!pass_through(groups, by_tensor)) return false;
    }
    x.group = group;
    x.group_carries = group_carries.data();
  }
  x.finishes = true;
  return pass_through(x, by_tensor);
}

static void try_walk(uint64_t seed) {
  uint64_t random = seed;
  auto some = [&]() { return random_below(&random, 2) == 0; };
  const bool whole = some(); /* no gaps, nothing turned, and sides that are not filled up */
  const mmc_dtype dtype = whole || some() ? MMC_F32 : MMC_F64;
  const int64_t n = whole || random_below(&random, 3) == 0 ? 32 << random_below(&random, 2)
                    : some()                               ? 20 + 4 * random_below(&random, 12)
                                                           : 17 + random_below(&random, 48);
  const int64_t run = 1 + random_below(&random, 4), batch = 1 + random_below(&random, 2);
  const bool groups = whole && some();
  const int64_t length = 1 + random_below(&random, (groups ? 12 : 4) * run);
  Stack factors(dtype, n, length, batch, whole || some(), !whole && some());
  Stack states(dtype, n, length, batch, whole || some(), !whole && some());
  Stack initial(dtype, n, 1, batch, some(), some());
  factors.fill(&random);
  initial.fill(&random);
  Stack *before = some() ? &initial : nullptr;
  const int64_t group = groups ? 1 + random_below(&random, 5) : 0;
  expect(walk(factors, before, states, run, group, some(), whole || some()) &&
             is_right(factors, before, states),
         group > 0 ? "a walk by groups" : "a walk", seed);
}

/* A recurrence of square states, whose addends are factors of their own. In pieces its states are
 * compared with those followed from the first, as sizes of sums. */
static void try_recurrence(uint64_t seed) {
  uint64_t random = seed;
  const mmc_dtype dtype = random_below(&random, 2) == 0 ? MMC_F32 : MMC_F64;
  const int64_t n = 1 + random_below(&random, random_below(&random, 4) == 0 ? 16 : 8);
  const int64_t batch = 1 + random_below(&random, 3), length = 1 + random_below(&random, 80);
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
  x.run = some() ? length : 1 + random_below(&random, length);
  x.pieces = (length + x.run - 1) / x.run;
  std::vector<double> work(mmci_cuda_recurrence_room(&x) / sizeof(double) + 1, (double)NAN);
  x.work = work.data();
  bool right = mmci_cuda_recurrence_follow(nullptr, &x, &error) == MMC_OK;
  const double epsilon = dtype_facts[dtype].epsilon;
  std::vector<double> state((size_t)(n * n)), next = state, size = state, next_size = state;
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t e = 0; e < n * n; e++) {
      state[(size_t)e] = initial.read(b, 0, e / n, e % n);
      size[(size_t)e] = std::fabs(state[(size_t)e]);
    }
    for (int64_t t = 0; t < length; t++) {
      for (int64_t e = 0; e < n * n; e++) {
        const int64_t r = e / n, c = e % n;
        double sum = x.addends.data != nullptr ? addends.read(b, t, r, c) : 0,
               sizes = std::fabs(sum);
        for (int64_t k = 0; k < n; k++) {
          const double a = factors.read(b, t, k, c);
          sum += state[(size_t)(r * n + k)] * a;
          sizes += size[(size_t)(r * n + k)] * std::fabs(a);
        }
        next[(size_t)e] = sum;
        next_size[(size_t)e] = sizes;
        const double off = std::fabs(states.read(b, t, r, c) - sum);
        right = right && off <= 2 * (double)((t + 2) * (n + 2)) * epsilon * sizes;
      }
      state.swap(next);
      size.swap(next_size);
    }
  }
  expect(right && states.rest_is_untouched(), "a recurrence", seed);
}

/* Factors diag(4, 1/4): their products overflow, and vanish, in f32, while states that begin with
 * 0 there, or 1, must not become NaN. */
static void try_range(uint64_t seed) {
  const int64_t length = 300;
  Stack factors(MMC_F32, 2, length, 1, true, false), states(MMC_F32, 2, length, 1, true, false),
      initial(MMC_F32, 2, 1, 1, true, false);
  for (int64_t t = 0; t < length; t++)
    for (int64_t e = 0; e < 4; e++)
      element_write(MMC_F32, factors.at(0, t, e / 2, e % 2), {e == 0 ? 4 : e == 3 ? 0.25 : 0, 0});
  const double before[] = {0, 1e30, 1e-30, 0};
  for (int64_t e = 0; e < 4; e++)
    element_write(MMC_F32, initial.at(0, 0, e / 2, e % 2), {before[e], 0});
  mmci_cuda_recurrence x = {};
  mmci_error error = {};
  x.dtype = MMC_F32;
  x.n = x.width = 2;
  x.length = length;
  x.batch = 1;
  x.factors = factors.form;
  x.states = states.form;
  x.initial = initial.form;
  x.run = 90;
  x.pieces = 4;
  std::vector<double> work(mmci_cuda_recurrence_room(&x) / sizeof(double) + 1, (double)NAN);
  x.work = work.data();
  bool right = mmci_cuda_recurrence_follow(nullptr, &x, &error) == MMC_OK;
  for (int64_t t = 0; t < length && t < 95; t++) {
    const double up = std::ldexp((double)(float)1e-30, 2 * (int)(t + 1)),
                 down = std::ldexp((double)(float)1e30, -2 * (int)(t + 1));
    right = right && states.read(0, t, 0, 0) == 0 && states.read(0, t, 1, 1) == 0 &&
            states.read(0, t, 1, 0) == up && states.read(0, t, 0, 1) == down;
  }
  right = right && states.read(0, length - 1, 0, 0) == 0 && states.read(0, length - 1, 0, 1) == 0;
  expect(right, "products beyond the range of f32", seed);
}

/* Returns whether states of a recurrence are right that begins with ones, in pieces. */
static bool recur(Stack &factors, Stack &states, int64_t run) {
  mmci_cuda_recurrence x = {};
  mmci_error error = {};
  Stack initial(factors.dtype, factors.n, 1, 1, true, false);
  for (int64_t e = 0; e < factors.n * factors.n; e++)
    element_write(factors.dtype, initial.at(0, 0, e / factors.n, e % factors.n), {1, 0});
  x.dtype = factors.dtype;
  x.n = x.width = factors.n;
  x.length = factors.count;
  x.batch = 1;
  x.factors = factors.form;
  x.states = states.form;
  x.initial = initial.form;
  x.run = run;
  x.pieces = (x.length + run - 1) / run;
  std::vector<double> work(mmci_cuda_recurrence_room(&x) / sizeof(double) + 1, (double)NAN);
  x.work = work.data();
  return mmci_cuda_recurrence_follow(nullptr, &x, &error) == MMC_OK;
}

/* Positive factors, one element of which is infinite: states before it are finite, its own are
 * infinite in that column, and later ones everywhere, but for rows that do not meet it. None is
 * NaN, also where kernels fill up sides with zeros. */
static void try_infinity(uint64_t seed) {
  uint64_t random = seed;
  auto some = [&]() { return random_below(&random, 2) == 0; };
  const mmc_dtype dtype = some() ? MMC_F32 : MMC_F64;
  const int64_t n = 1 + random_below(&random, some() ? 16 : 64);
  const int64_t length = 1 + random_below(&random, 60), at = random_below(&random, length);
  const int64_t row = random_below(&random, n), col = random_below(&random, n);
  Stack factors(dtype, n, length, 1, some(), some()), states(dtype, n, length, 1, some(), some());
  for (int64_t t = 0; t < length; t++)
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++)
        element_write(dtype, factors.at(0, t, r, c), {(1 + random_unit(&random)) / (double)n, 0});
  element_write(dtype, factors.at(0, at, row, col), {(double)INFINITY, 0});
  const bool recurs = mmci_cuda_recurrence_can(dtype, n, n) && random_below(&random, 3) == 0;
  const bool strands = mmci_cuda_strands_can(9, 0, dtype, n) && some();
  bool right = false;
  if (recurs)
    right = recur(factors, states, 1 + random_below(&random, length));
  else if (n > MMCI_CUDA_SWEEP_SIDE)
    right = walk(factors, nullptr, states, 1 + random_below(&random, 6), 0, some(), some());
  else if (mmci_cuda_tiles_can(dtype, n) && some())
    right = scan_tiles(factors, nullptr, states, 2);
  else
    right = scan(factors, nullptr, states, 2, strands ? MMCI_CUDA_FEW_STRANDS : 0);
  for (int64_t t = 0; t < length; t++)
    for (int64_t r = 0; r < n; r++)
      for (int64_t c = 0; c < n; c++) {
        const double x = states.read(0, t, r, c);
        const bool meets = (recurs || at > 0 || r == row) && (t > at || (t == at && c == col));
        right = right && (meets ? std::isinf(x) && x > 0 : std::isfinite(x));
      }
  expect(right && states.rest_is_untouched(), "an infinite element among positive ones", seed);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 2323;
  printf("seed %" PRIu64 "\n", seed);
  for (uint64_t i = 0; i < (uint64_t)how_many(12, 60); i++) {
    try_scan(seed + i);
    try_recurrence(seed + i);
    try_infinity(seed + i);
    if (i % 2 == 0) try_walk(seed + i);
    try_long(seed + i);
  }
  try_range(seed);
  const mmc_dtype dtype = seed % 2 == 1 ? MMC_F32 : MMC_F64;
  const double poison = seed % 4 < 2 ? (double)INFINITY : (double)NAN;
  try_poison(seed, dtype, 12, true, poison);
  for (int64_t n = 3; n <= 12; n += 4) try_poison(seed, dtype, n, false, poison);
  try_poison(seed, dtype, 8, false, poison);
  for (int64_t run : {7, 61}) {
    try_long_poison(seed, MMC_F32, 16, run, false, (double)INFINITY);
    try_long_poison(seed, MMC_F64, 11, run, false, (double)NAN);
    try_long_poison(seed, MMC_F32, 12, run, false, poison);
    try_long_poison(seed, MMC_F32, 16, run + 4, true, poison);
    try_long_poison(seed, MMC_F64, 13, run - 4, true, poison);
  }
  expect(mmci_cuda_sweep_can(MMC_F32, 16) && !mmci_cuda_sweep_can(MMC_C64, 16) &&
             mmci_cuda_sweep_can(MMC_F32, 5) && !mmci_cuda_sweep_can(MMC_F32, 17),
         "what there are kernels for", seed);
  printf("%d checks, %d failed\n", checks, failures);
  return failures > 0;
}
