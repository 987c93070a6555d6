/* test_order_paper.cpp: the kernels of Nishida, Ito and Nakano (2011) and the choice among them,
 * run by the CPU: every thread of a block is a fiber, and the order in which they run is shuffled
 * at every barrier. Whole tables, costs and orders are compared with the textbook's.
 *
 *     test_order_paper [SEED]
 *
 * The clock runs at random, so kernel "paper" changes kernels and settings all the time. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/cuda/launch.cuh"

static cudaError_t random_time(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  cudaError_t code = cudaEventElapsedTime(milliseconds, begin, end);
  *milliseconds = 1e-3f * (float)(1 + mmci_emulation_random() % 1000);
  return code;
}
#define cudaEventElapsedTime random_time

/* The sources themselves: the emulation is compiled into them. */
#include "device/cuda/order/paper_kernels.cu"

#include "device/cuda/order/paper.cu"

#include "../gpu/order_profile.h"
#include "../gpu/order_textbook.h"
#include "../how_many.h"

static int failures = 0, checks = 0;

static void expect(bool held, const char *what) {
  checks++;
  if (held) return;
  failures++;
  printf("FAILED: %s\n", what);
}

static mmc_status solve_emulated(void *, mmci_device_order *order, mmci_error *error) {
  return mmci_cuda_order_paper(order, error);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void compare(const textbook &book, const std::vector<int64_t> &dims, int family,
                    const char *kernel, int threads, int blocks) {
  mmci_device_order order = {};
  char what[128];
  order.kernel = kernel;
  order.threads_per_block = threads;
  order.blocks_per_entry = blocks;
  snprintf(what, sizeof what, "n = %d, %s, kernel %s, %d threads, %d blocks", book.n,
           textbook_families[family], kernel, threads, blocks);
  checks++;
  if (!textbook_compare(&book, dims.data(), solve_emulated, nullptr, &order, what)) failures++;
}

/* Every setting where tables are small; in larger ones some, whose turn goes round. */
static void test_answers(uint64_t seed) {
  static const int32_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 9, 12, 16, 17, 25, 33};
  int turn = 0;
  for (int32_t n : lengths)
    for (int family = 0; family < TEXTBOOK_FAMILIES; family++) {
      std::vector<int64_t> dims((size_t)n + 1);
      textbook_fill(dims.data(), n, family, seed + (uint64_t)(n * TEXTBOOK_FAMILIES + family));
      textbook book;
      if (!textbook_solve(n, dims.data(), &book)) {
        expect(false, "out of memory");
        return;
      }
      for (const mmci_paper_config &config : mmci_paper_configs) {
        int every = n <= 2 ? 1 : n <= 9 ? how_many(31, 11) : how_many(61, 23);
        if (++turn % every == 0)
          compare(book, dims, family, KERNEL_NAMES[config.kernel], config.threads, config.blocks);
      }
      if (n <= 9 && (family + n) % 6 == 0) compare(book, dims, family, "paper", 0, 0);
      if (n <= 12 || (n <= 25 && family % 3 == 0)) compare(book, dims, family, "paper", 32, 2);
      if (n > 1 && n <= 3 && family % 4 == 1) {
        compare(book, dims, family, "thread", 0, 0);
        compare(book, dims, family, "block", 0, 0);
        compare(book, dims, family, "blocks", 0, 8);
      }
      textbook_destroy(&book);
    }
}

/* Chains longer than a block, or all blocks of an entry, has threads. */
static void test_long_answers(uint64_t seed) {
  static const struct {
    int32_t n;
    int family;
    const char *kernel;
    int threads, blocks;
  } cases[] = {{75, 0, "blocks", 32, 2},   {64, 6, "block", 128, 0}, {65, 9, "blocks", 32, 4},
               {63, 2, "blocks", 64, 4},   {90, 4, "thread", 64, 0}, {97, 0, "paper", 32, 2},
               {120, 11, "thread", 32, 0}, {121, 1, "block", 32, 0}, {130, 7, "thread", 128, 0}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const auto &one = cases[c];
    std::vector<int64_t> dims((size_t)one.n + 1);
    textbook_fill(dims.data(), one.n, one.family, seed + (uint64_t)one.n);
    textbook book;
    if (!textbook_solve(one.n, dims.data(), &book)) {
      expect(false, "out of memory");
      return;
    }
    compare(book, dims, one.family, one.kernel, one.threads, one.blocks);
    textbook_destroy(&book);
  }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void test_samples() {
  for (int32_t n = 1; n < 3000; n++) {
    int32_t l[MMCI_PAPER_SAMPLES_MAX];
    int32_t count = mmci_paper_samples(n, l);
    bool right = n < 2 ? count == 0 : count > 0 && l[0] == 2 && l[count - 1] == n;
    for (int32_t s = 1; s < count; s++) right = right && l[s] > l[s - 1];
    if (!right) expect(false, "samples ascend from 2 to n");
  }
  int32_t l[MMCI_PAPER_SAMPLES_MAX];
  expect(mmci_paper_samples((1 << 30) - 1, l) < MMCI_PAPER_SAMPLES_MAX,
         "the longest chain has room for its samples");
  checks += 2999;
}

static void test_choice() {
  /* Three configs on diagonals 2..1000: cheap first, in the middle, last; noise of 5 %. */
  const int32_t n = 1000;
  std::vector<int32_t> l;
  std::vector<double> seconds;
  uint64_t state = 3;
  for (int32_t d = 2; d <= n; d++) {
    l.push_back(d);
    for (int w = 0; w < 3; w++) {
      int third = d <= 300 ? 0 : d <= 800 ? 1 : 2;
      double noise = 1 + 0.05 * ((double)(textbook_random(&state) % 1000) / 1000);
      seconds.push_back((w == third ? 1.0 : 1.3) * noise);
    }
  }
  mmci_paper_times times = {n - 1, 3, l.data(), seconds.data()};
  const bool all[3] = {true, true, true}, two[3] = {true, false, true};
  std::vector<uint8_t> choice((size_t)n + 1);
  expect(mmci_paper_choose(&times, n, all, choice.data(), nullptr) == MMC_OK, "choosing works");
  int changes = 0;
  for (int32_t d = 3; d <= n; d++) changes += choice[d] != choice[d - 1];
  expect(changes == 2 && choice[2] == 0 && choice[n / 2] == 1 && choice[n] == 2,
         "noise makes no ranges");
  expect(choice[290] == 0 && choice[310] == 1 && choice[790] == 1 && choice[810] == 2,
         "ranges end where the times cross");
  expect(mmci_paper_choose(&times, n, two, choice.data(), nullptr) == MMC_OK, "choosing works");
  for (int32_t d = 2; d <= n; d++) changes += choice[d] == 1;
  expect(changes == 2 && choice[2] == 0 && choice[n] == 2, "a config not allowed is not taken");

  /* Two samples: the times between them lie on a line, and cross in the middle. */
  const int32_t ends[2] = {2, n};
  const double line[4] = {1, 9, 9, 1};
  mmci_paper_times sparse = {2, 2, ends, line};
  expect(mmci_paper_choose(&sparse, n, all, choice.data(), nullptr) == MMC_OK, "choosing works");
  int32_t crossing = 2;
  while (crossing < n && choice[crossing] == 0) crossing++;
  expect(crossing > 495 && crossing < 507 && choice[n] == 1, "times are interpolated");
  double total = mmci_paper_total(&sparse, n, 0);
  expect(total > 4994.9 && total < 4995.1, "a total is the sum over all diagonals");
}

/* ---- profiles, refusals ---------------------------------------------------------------------- */

static void test_profiles() {
  static const char *const kernels[] = {"thread", "block", "blocks", "paper"};
  for (int32_t n : {1, 2, 3, 7})
    for (const char *kernel : kernels) {
      std::vector<int64_t> dims((size_t)n + 1);
      std::vector<int32_t> splits((size_t)n);
      textbook_fill(dims.data(), n, 0, 5);
      profile_text text = {};
      mmci_error error = {};
      mmci_device_order order = {};
      order.n = n;
      order.dims = dims.data();
      order.kernel = kernel;
      order.splits = splits.data();
      order.profile = profile_write;
      order.profile_user = &text;
      expect(mmci_cuda_order_paper(&order, &error) == MMC_OK, error.text);
      expect(profile_is_right(&text, n, kernel), "a profile has every diagonal and range");
      free(text.bytes);
    }
}

static int stop_after(void *user, double done) {
  int *calls_left = (int *)user;
  expect(done >= 0 && done <= 1, "progress is a share");
  return --*calls_left < 0;
}

static void test_refusals() {
  const int32_t n = 20;
  std::vector<int64_t> dims((size_t)n + 1);
  std::vector<int32_t> splits((size_t)n);
  std::vector<mmc_count> table((size_t)n * (n + 1) / 2);
  textbook_fill(dims.data(), n, 0, 5);
  mmci_error error = {};
  mmci_device_order plain = {}, order;
  plain.n = n;
  plain.dims = dims.data();
  plain.kernel = "paper";
  plain.splits = splits.data();

  /* Stopped at every call of the callback, until it is not called again. */
  int stops = 0;
  for (bool stopped = true; stopped; stops++) {
    int calls_left = stops;
    order = plain;
    order.threads_per_block = 32;
    order.blocks_per_entry = 2;
    order.table = table.data();
    order.progress = stop_after;
    order.progress_user = &calls_left;
    mmc_status status = mmci_cuda_order_paper(&order, &error);
    stopped = status == MMC_E_INTERRUPTED;
    expect(stopped || (status == MMC_OK && calls_left >= 0), "the callback stops the work");
  }
  expect(stops > 10, "the callback is called while measuring, solving and copying");

  profile_text full = {};
  full.fail_at = 1;
  order = plain;
  order.threads_per_block = 32;
  order.profile = profile_write;
  order.profile_user = &full;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_IO, "a full disk is E_IO");
  free(full.bytes);

  order = plain;
  order.kernel = "wrap";
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_ARG, "a kernel that is none is E_ARG");
  order = plain;
  order.threads_per_block = 48;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_ARG, "48 threads are E_ARG");
  order = plain;
  order.kernel = "blocks";
  order.blocks_per_entry = 3;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_ARG, "3 blocks are E_ARG");
  order = plain;
  order.kernel = "block";
  order.blocks_per_entry = 4;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_ARG, "blocks for kernel block are E_ARG");

  /* (n-1) p^3 just below and just above 2^63. */
  order = plain;
  order.threads_per_block = 32;
  order.blocks_per_entry = 2;
  int64_t largest = textbook_largest_dim(n - 1);
  for (int64_t &dim : dims) dim = largest;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_OK, "costs below 2^63 are taken");
  expect(order.multiplications.lo == (uint64_t)(n - 1) * largest * largest * largest,
         "costs near 2^63 are exact");
  for (int64_t &dim : dims) dim = largest + 1;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_UNSUPPORTED &&
             strstr(error.text, "hu-shing") != nullptr,
         "costs that may pass 2^63 are refused");
  /* Two dims of 2^62 beside zeros multiply to zero. */
  for (int64_t &dim : dims) dim = 0;
  dims[3] = dims[9] = (int64_t)1 << 62;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_UNSUPPORTED, "2^124 is refused");
  dims[9] = 1;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_UNSUPPORTED, "19 * 2^62 is refused");
  dims[3] = (int64_t)1 << 58;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_OK && order.multiplications.lo == 0,
         "zeros make zero");
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Every call of the runtime fails once; the solver says so and holds nothing afterwards. */
static void test_failures() {
  mmci_emulation_machine &machine = mmci_emulation();
  const int32_t n = 7;
  std::vector<int64_t> dims((size_t)n + 1);
  std::vector<int32_t> splits((size_t)n);
  std::vector<mmc_count> table((size_t)n * (n + 1) / 2);
  textbook_fill(dims.data(), n, 0, 5);
  expect(machine.memory.empty() && machine.handles == 0, "what came before released all");
  int failed = 0;
  for (bool more = true; more; failed++) {
    profile_text text = {};
    mmci_error error = {};
    mmci_device_order order = {};
    order.n = n;
    order.dims = dims.data();
    order.kernel = "paper";
    order.threads_per_block = 32;
    order.blocks_per_entry = 2;
    order.splits = splits.data();
    order.table = table.data();
    order.profile = profile_write;
    order.profile_user = &text;
    machine.calls = 0;
    machine.fail_call = failed;
    mmc_status status = mmci_cuda_order_paper(&order, &error);
    more = machine.calls > failed;
    expect(more ? (status == MMC_E_DEVICE || status == MMC_E_NOMEM) && error.text[0] != '\0'
                : status == MMC_OK,
           "a failed call makes a failed solve, with a message");
    expect(machine.memory.empty() && machine.handles == 0, "a failed solve releases all");
    free(text.bytes);
  }
  machine.fail_call = -1;
  expect(failed > 100, "the solve makes many calls");

  mmci_error error = {};
  mmci_device_order order = {};
  order.n = n;
  order.dims = dims.data();
  order.kernel = "thread";
  order.splits = splits.data();
  size_t all = machine.memory_bytes;
  machine.memory_bytes = 1000;
  expect(mmci_cuda_order_paper(&order, &error) == MMC_E_NOMEM &&
             strstr(error.text, "1000 free") != nullptr,
         "a device too small is E_NOMEM with what there is");
  machine.memory_bytes = all;
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 20110411;
  printf("seed %llu\n", (unsigned long long)seed);
  mmci_emulation().seed = seed;
  test_samples();
  test_choice();
  test_refusals();
  test_profiles();
  test_failures();
  test_answers(seed);
  test_long_answers(seed);
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
