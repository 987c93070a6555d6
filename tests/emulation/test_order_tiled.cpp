/* test_order_tiled.cpp: the tiled kernels under the emulation of CUDA, against the textbook table.
 *
 * Every entry of the table, the cost and the splits of chains of several families and sizes around
 * the edges of tiles; every number type; too little memory; every runtime call failing in turn. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

extern "C" {
#include "base/status.h"
#include "order/order.h"
}
#include "../how_many.h"
#include "cuda_emulation.h"
#include "device/cuda/order/cuda_order.h"

__extension__ typedef unsigned __int128 u128;

static int failures = 0;
static uint64_t random_state = 12345;

static uint64_t next_random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

/* The textbook table in 128 bits, and the splits by the rule of ties of order.h. */
struct Textbook {
  int n;
  std::vector<int64_t> dims;
  std::vector<u128> table;
  std::vector<int32_t> splits;

  u128 &at(int i, int j) { return table[(size_t)i * (size_t)(n + 1) + (size_t)j]; }
  u128 cost(int i, int k, int j) {
    return at(i, k) + at(k, j) +
           (u128)(uint64_t)dims[(size_t)i] * (uint64_t)dims[(size_t)k] * (uint64_t)dims[(size_t)j];
  }
  int split(int i, int j) {
    int best = -1;
    for (int k = i + 1; k < j; k++)
      if (cost(i, k, j) == at(i, j) &&
          (best < 0 || mmci_tie_goes_before(dims.data(), i, j, k, best)))
        best = k;
    return best;
  }
  explicit Textbook(const std::vector<int64_t> &dims_) : n((int)dims_.size() - 1), dims(dims_) {
    table.assign((size_t)(n + 1) * (size_t)(n + 1), 0);
    for (int length = 2; length <= n; length++)
      for (int i = 0, j = length; j <= n; i++, j++) {
        u128 least = ~(u128)0;
        for (int k = i + 1; k < j; k++) least = std::min(least, cost(i, k, j));
        at(i, j) = least;
      }
    std::vector<std::pair<int, int>> stack;
    if (n >= 2) stack.push_back({0, n});
    while (!stack.empty()) {
      auto [i, j] = stack.back();
      stack.pop_back();
      int k = split(i, j);
      splits.push_back(k);
      if (k - i >= 2) stack.push_back({i, k});
      if (j - k >= 2) stack.push_back({k, j});
    }
  }
};

static std::vector<int64_t> make_dims(const std::string &family, int n) {
  std::vector<int64_t> dims((size_t)n + 1);
  for (int i = 0; i <= n; i++) {
    int64_t &p = dims[(size_t)i];
    uint64_t r = next_random() >> 11;
    if (family == "random")
      p = 1 + (int64_t)(r % 1000);
    else if (family == "small")
      p = 1 + (int64_t)(r % 10);
    else if (family == "zeros")
      p = (int64_t)(r % 4);
    else if (family == "ties")
      p = 1 + (int64_t)(r % 2);
    else if (family == "near ties")
      p = 999 + (int64_t)(r % 2);
    else if (family == "equal")
      p = 7;
    else if (family == "ones")
      p = 1;
    else if (family == "up")
      p = 1 + i;
    else if (family == "down")
      p = 1 + n - i;
    else if (family == "valley")
      p = 1 + abs(i - n / 2);
    else if (family == "mountain")
      p = 1 + n - abs(i - n / 2);
    else if (family == "alternating")
      p = i % 2 ? 4000 : 1 + i % 3;
    else if (family == "powers")
      p = (int64_t)1 << (r % 12);
    else if (family == "near 2^53")
      p = 20000 + (int64_t)(r % 5000);
    else if (family == "above 2^53")
      p = 200000 + (int64_t)(r % 65537);
    else if (family == "large and small")
      p = (i % 2 ? 1 : (int64_t)1 << 27) + (int64_t)(r % 3);
    else if (family == "near 2^63")
      p = (int64_t)cbrt(0x1p63 / (n > 1 ? n - 1 : 1)) - 1 - (int64_t)(r % 5);
    else if (family == "one large")
      p = i == n / 2 ? (int64_t)1 << 55 : 1 + (int64_t)(r % 3);
    else if (family == "large between zeros")
      p = i % 2 ? 0 : ((int64_t)1 << 62) - (int64_t)(r % 999);
    else
      abort();
  }
  return dims;
}

static int refuse(void *, double) {
  return 1;
}
static int agree(void *, double) {
  return 0;
}

static mmc_status run(const std::vector<int64_t> &dims, std::vector<int32_t> &splits,
                      std::vector<mmc_count> *table, mmci_device_order &order, mmci_error &error) {
  int n = (int)dims.size() - 1;
  order.n = n;
  order.dims = dims.data();
  order.kernel = "tiled";
  splits.assign((size_t)n, -1);
  order.splits = splits.data();
  if (table != nullptr) {
    table->assign((size_t)n * (size_t)(n + 1) / 2, mmc_count());
    order.table = table->data();
  }
  memset(&error, 0, sizeof error);
  return mmci_cuda_order_tiled(&order, &error);
}

static void expect_clean(const char *what) {
  mmci_emulation_machine &m = mmci_emulation();
  if (m.memory.empty() && m.handles == 0) return;
  failures++;
  fprintf(stderr, "%s: %zu allocations and %d handles not released\n", what, m.memory.size(),
          m.handles);
}

static bool same(mmc_count count, u128 value) {
  return count.lo == (uint64_t)value && count.hi == (uint64_t)(value >> 64);
}

static void check(const std::string &family, int n, const char *kernel) {
  uint64_t seed = random_state;
  std::vector<int64_t> dims = make_dims(family, n);
  Textbook book(dims);
  std::vector<int32_t> splits;
  std::vector<mmc_count> table;
  mmci_device_order order = mmci_device_order();
  mmci_error error;
  order.progress = agree;
  mmc_status status = run(dims, splits, &table, order, error);
  size_t bad = 0, bad_splits = 0;
  if (status == MMC_OK) {
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = i + 1; j <= n; j++)
        bad += !same(table[(size_t)(i * n - i * (i - 1) / 2 + j - i - 1)], book.at((int)i, (int)j));
    for (int t = 0; t < n - 1; t++) bad_splits += splits[(size_t)t] != book.splits[(size_t)t];
  }
  bool wrong_kernel =
      kernel != nullptr && (order.kernel_used == nullptr || strcmp(order.kernel_used, kernel) != 0);
  if (status != MMC_OK || bad != 0 || bad_splits != 0 || wrong_kernel ||
      !same(order.multiplications, book.at(0, n))) {
    failures++;
    fprintf(stderr,
            "%s n=%d seed %" PRIu64 ": status %d %s, %zu entries and %zu splits differ, %s\n",
            family.c_str(), n, seed, (int)status, error.text, bad, bad_splits,
            order.kernel_used != nullptr ? order.kernel_used : "no kernel");
  }
  expect_clean(family.c_str());
}

/* Each call of the runtime fails once: an error comes back and nothing stays behind. */
static void check_failures() {
  mmci_emulation_machine &m = mmci_emulation();
  std::vector<int64_t> dims = make_dims("random", 330);
  std::vector<int32_t> splits;
  std::vector<mmc_count> table;
  long calls = 1;
  for (long k = -1; k < calls; k += k < 40 || k > calls - 20 ? 1 : 7) {
    mmci_device_order order = mmci_device_order();
    mmci_error error;
    m.calls = 0;
    m.fail_call = k;
    mmc_status status = run(dims, splits, &table, order, error);
    m.fail_call = -1;
    if (k < 0) calls = m.calls;
    if ((k < 0) != (status == MMC_OK) || (k >= 0 && error.text[0] == 0)) {
      /* Waits while releasing have nobody to tell. */
      if (k >= 0 && k >= calls - 2 && status == MMC_OK) continue;
      failures++;
      fprintf(stderr, "runtime call %ld of %ld fails: status %d \"%s\"\n", k, calls, (int)status,
              error.text);
    }
    expect_clean("failing call");
  }
}

static void check_limits() {
  mmci_emulation_machine &m = mmci_emulation();
  std::vector<int64_t> dims = make_dims("random", 300);
  std::vector<int32_t> splits;
  mmci_error error;
  size_t before = m.memory_bytes;

  m.memory_bytes = 200 * 1000;
  mmci_device_order order = mmci_device_order();
  mmc_status status = run(dims, splits, nullptr, order, error);
  if (status != MMC_E_NOMEM || strstr(error.text, "needs") == nullptr) {
    failures++;
    fprintf(stderr, "without memory: status %d %s\n", (int)status, error.text);
  }
  m.memory_bytes = before;

  order = mmci_device_order();
  order.progress = refuse;
  status = run(dims, splits, nullptr, order, error);
  if (status != MMC_E_INTERRUPTED) {
    failures++;
    fprintf(stderr, "interrupted: status %d %s\n", (int)status, error.text);
  }

  dims[100] = dims[200] = dims[201] = (int64_t)1 << 40;
  order = mmci_device_order();
  std::vector<int64_t> large(4, (int64_t)3 << 40);
  large[1]++;
  status = run(large, splits, nullptr, order, error);
  if (status != MMC_E_UNSUPPORTED) {
    failures++;
    fprintf(stderr, "too large: status %d %s\n", (int)status, error.text);
  }
  /* A common factor is taken out first. */
  std::vector<int64_t> common(300, (int64_t)1 << 40);
  order = mmci_device_order();
  status = run(common, splits, nullptr, order, error);
  if (status != MMC_OK || !same(order.multiplications, (u128)298 << 120)) {
    if (status != MMC_E_OVERFLOW) {
      failures++;
      fprintf(stderr, "common factor: status %d %s\n", (int)status, error.text);
    }
  }
  expect_clean("limits");
}

int main(int argc, char **argv) {
  if (argc > 1) random_state = strtoull(argv[1], nullptr, 10);
  mmci_emulation().seed = random_state;
  printf("seed %" PRIu64 "\n", random_state);
  const char *families[] = {"random", "small", "zeros",  "ties",     "near ties",   "equal", "ones",
                            "up",     "down",  "valley", "mountain", "alternating", "powers"};
  for (int n : {1, 2, 3, 4, 5, 7, 62, 63, 64, 65, 100, 127, 128, 129}) check("random", n, nullptr);
  for (const char *family : families) {
    for (int n : {6, 66, 135}) check(family, n, nullptr);
    check(family, how_many(100, 250) + (int)(next_random() % 90), nullptr);
  }
  check("random", 330, "tiled f64");
  check("small", 200, "tiled u32");
  check("near 2^53", 260, "tiled f64");
  check("above 2^53", 330, "tiled u64");
  check("above 2^53", 64, "tiled u64");
  check("large and small", 130, "tiled u64 saturating");
  for (int n : {3, 64, 200}) check("near 2^63", n, nullptr);
  check("one large", 270, nullptr);
  check("large between zeros", 150, nullptr);
  check("near ties", how_many(260, 450), nullptr);
  /* Diagonals from 16 on are computed without tests where nearly nothing is decided. */
  if (is_in_full()) check("ties", 1250, nullptr);
  check_limits();
  check_failures();
  printf("%d failures\n", failures);
  return failures != 0;
}
