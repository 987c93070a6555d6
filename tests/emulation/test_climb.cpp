/* test_climb.cpp: products on the way from a leaf of a tree to its root, by the CUDA module's
 * kernels run by the CPU: every thread of a cluster is a fiber. Each product is compared with the
 * one below it, as it was written, times the sibling in f64; a NaN in a sibling must be in all rows
 * or columns of it; what lies beside the products stays as it was.
 *
 *     test_climb [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_kernels.h"

#include "../how_many.h"
#include "../random.h"

enum { AROUND = 3 };

static int failures = 0;

static void fail(const char *what, int64_t step, uint64_t seed) {
  if (failures++ < 10) printf("%s, step %" PRId64 ", seed %" PRIu64 "\n", what, step, seed);
}

/* Matrices of a batch somewhere in a room, of which `before` elements come first. */
template <typename Real>
struct Matrices {
  std::vector<Real> room;
  size_t before;

  Matrices(uint64_t *random, int64_t elements, bool is_filled) {
    before = (size_t)random_below(random, 2) * (size_t)(1 + random_below(random, AROUND));
    room.assign(before + (size_t)elements + AROUND, (Real)NAN);
    for (int64_t e = 0; e < elements && is_filled; e++) at()[e] = (Real)random_unit(random);
  }
  Real *at() { return room.data() + before; }
  bool rest_is_nan(int64_t elements) const {
    for (size_t e = 0; e < room.size(); e++)
      if ((e < before || e >= before + (size_t)elements) && !std::isnan(room[e])) return false;
    return true;
  }
};

template <typename Real>
static void test_case(uint64_t seed, double epsilon) {
  uint64_t state = seed, *random = &state;
  static const int64_t SIDES[] = {1, 2, 15, 16, 17, 31, 32, 33, 36, 48, 63, 64};
  const int64_t side =
      random_below(random, 2) ? SIDES[random_below(random, 12)] : 1 + random_below(random, 64);
  const int64_t batch = 1 + random_below(random, 2), one = side * side, all = one * batch;
  const int64_t most = random_below(random, 8) == 0 ? MMCI_CLIMB_STEPS : 13;
  mmci_climb x = {};
  x.side = side;
  x.count = 1 + random_below(random, most);
  const bool has_result = random_below(random, 2) == 1, has_nan = random_below(random, 4) == 0;
  const int64_t kind = random_below(random, 4); /* all left, all right, or any */
  Matrices<Real> first(random, all, true), result(random, all, false);
  std::vector<Matrices<Real>> siblings, outs;
  for (int64_t s = 0; s < x.count; s++) {
    siblings.emplace_back(random, all, true);
    outs.emplace_back(random, all, false);
    /* So that long products neither overflow nor vanish. */
    for (int64_t e = 0; e < all; e++)
      siblings.back().at()[e] *= (Real)(2 / std::sqrt((double)side));
  }
  if (has_nan)
    siblings[(size_t)random_below(random, x.count)].at()[random_below(random, one)] = NAN;
  x.first = first.at();
  x.result = has_result ? result.at() : nullptr;
  for (int64_t s = 0; s < x.count; s++)
    x.steps[s] = {siblings[(size_t)s].at(), outs[(size_t)s].at(),
                  kind < 2 ? kind : (int64_t)random_below(random, 2)};
  const bool has_clusters = side > 32 || random_below(random, 2) == 1;
  mmci_error error = {};
  const mmc_status status = mmci_cuda_climb(nullptr, sizeof(Real) == 4 ? MMC_F32 : MMC_F64,
                                            has_clusters, &x, batch, &error);
  if (status != MMC_OK) {
    fail(error.text, -1, seed);
    return;
  }
  for (int64_t s = 0; s < x.count; s++) {
    const Real *below = s == 0 ? first.at() : outs[(size_t)s - 1].at();
    const Real *sibling = siblings[(size_t)s].at(), *got = outs[(size_t)s].at();
    const bool is_left = x.steps[s].sibling_is_left != 0;
    for (int64_t e = 0; e < all; e++) {
      const int64_t t = e / one * one, r = e % one / side, c = e % side;
      const Real *a = (is_left ? sibling : below) + t, *b = (is_left ? below : sibling) + t;
      double sum = 0, bound = 0;
      for (int64_t d = 0; d < side; d++) {
        sum += (double)a[r * side + d] * (double)b[d * side + c];
        bound += std::fabs((double)a[r * side + d] * (double)b[d * side + c]);
      }
      if (std::isnan(sum) ? std::isnan(got[e])
                          : std::fabs((double)got[e] - sum) <= (double)(side + 4) * epsilon * bound)
        continue;
      fail("a product is wrong", s, seed);
      break;
    }
    if (!outs[(size_t)s].rest_is_nan(all)) fail("something beside a product has changed", s, seed);
  }
  const Real *last = outs.back().at(), *copy = result.at();
  for (int64_t e = 0; e < all; e++)
    if (has_result ? memcmp(&copy[e], &last[e], sizeof(Real)) != 0 : !std::isnan(copy[e])) {
      fail("the result is wrong", x.count, seed);
      break;
    }
  if (!result.rest_is_nan(all)) fail("something beside the result has changed", x.count, seed);
}

/* What the kernel does not do is an error, with nothing launched. */
static void test_refused() {
  mmci_climb x = {};
  mmci_error error = {};
  x.side = 33;
  x.count = 1;
  if (mmci_cuda_climb(nullptr, MMC_F32, false, &x, 1, &error) != MMC_E_UNSUPPORTED)
    fail("a card without clusters", 0, 0);
  if (mmci_cuda_climb(nullptr, MMC_C64, true, &x, 1, &error) != MMC_E_UNSUPPORTED)
    fail("complex elements", 0, 0);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 0) : 1;
  const uint64_t cases = (uint64_t)how_many(20, 60);
  for (uint64_t i = 0; i < cases / 2; i++) {
    test_case<float>(seed * 1000 + i, 0x1p-23);
    test_case<double>(seed * 1000 + 500 + i, 0x1p-52);
  }
  test_refused();
  printf("seed %" PRIu64 ": %d cases, %d failures\n", seed, (int)cases, failures);
  return failures > 0 ? 1 : 0;
}
