/* test_nodes.cpp: products of the levels of trees, forwards and back, by the CUDA module's kernel
 * run by the CPU: every thread of a block is a fiber. Cotangents go to places of their own, to
 * those of the operands, or to that of the product. Each element is compared with a sum in f64;
 * what lies beside the elements stays as it was.
 *
 *     test_nodes [SEED] */
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

#include "../elements.h"
#include "../random.h"

enum { CASES = 120, NODES = 3, BATCH = 2 };

static int failures = 0;

/* A matrix for each chain of a batch, in a room of its own. */
struct Matrix {
  mmc_dtype dtype;
  int64_t rows, cols;
  mmci_node_matrix where;
  std::vector<unsigned char> *room;

  unsigned char *at(int64_t t, int64_t r, int64_t c) const {
    const int64_t e = t * where.stride + (where.trans ? c * where.ld + r : r * where.ld + c);
    return room->data() + (size_t)e * dtype_facts[dtype].size;
  }
  element read(int64_t t, int64_t r, int64_t c) const {
    element value = element_read(dtype, at(t, r, c));
    if (where.conj) value.im = -value.im;
    return value;
  }
};

static Matrix lay(uint64_t *random, mmc_dtype dtype, int64_t rows, int64_t cols, int64_t batch,
                  std::vector<unsigned char> *room) {
  Matrix x = {dtype, rows, cols, {}, room};
  x.where.trans = random_below(random, 2) == 1;
  x.where.conj = random_below(random, 2) == 1;
  x.where.ld = (x.where.trans ? rows : cols) + 1 + random_below(random, 2) * 3;
  x.where.stride = (x.where.trans ? cols : rows) * x.where.ld + random_below(random, 3);
  room->assign((size_t)(batch * x.where.stride + 1) * dtype_facts[dtype].size, 0xff);
  x.where.data = room->data();
  return x;
}

static void fill(uint64_t *random, const Matrix &x, int64_t batch) {
  for (int64_t t = 0; t < batch; t++)
    for (int64_t r = 0; r < x.rows; r++)
      for (int64_t c = 0; c < x.cols; c++) {
        element value = {random_unit(random), random_unit(random)};
        element_write(x.dtype, x.at(t, r, c), value);
      }
}

/* Values of a matrix, read before anything is written. */
static std::vector<element> values_of(const Matrix &x, int64_t batch) {
  std::vector<element> out;
  for (int64_t t = 0; t < batch; t++)
    for (int64_t r = 0; r < x.rows; r++)
      for (int64_t c = 0; c < x.cols; c++) out.push_back(x.read(t, r, c));
  return out;
}

/* Compares with the sum over d of left(r, d) right(d, c). */
template <typename Left, typename Right>
static void expect(const Matrix &got, int64_t batch, int64_t depth, Left left, Right right,
                   const char *what, uint64_t seed) {
  const double sums = dtype_facts[got.dtype].sum_epsilon, stored = dtype_facts[got.dtype].epsilon;
  for (int64_t t = 0; t < batch; t++)
    for (int64_t r = 0; r < got.rows; r++)
      for (int64_t c = 0; c < got.cols; c++) {
        element sum = {0, 0};
        double bound = 0;
        for (int64_t d = 0; d < depth; d++) {
          const element a = left(t, r, d), b = right(t, d, c);
          sum.re += a.re * b.re - a.im * b.im;
          sum.im += a.re * b.im + a.im * b.re;
          bound += (fabs(a.re) + fabs(a.im)) * (fabs(b.re) + fabs(b.im));
        }
        const element value = got.read(t, r, c);
        /* fmax() would take the other part in place of a NaN. */
        const double error = fabs(value.re - sum.re) + fabs(value.im - sum.im);
        if (error <= 2 * ((double)(depth + 4) * sums + stored) * bound) continue;
        if (failures++ < 10)
          printf("%s: element %" PRId64 ", %" PRId64 " is off by %g, seed %" PRIu64 "\n", what, r,
                 c, error, seed);
      }
}

/* Says whether only elements of the matrix have changed in its room. */
static void expect_rest(const Matrix &x, int64_t batch, std::vector<unsigned char> before,
                        const char *what, uint64_t seed) {
  std::vector<unsigned char> after = *x.room;
  for (int64_t t = 0; t < batch; t++)
    for (int64_t r = 0; r < x.rows; r++)
      for (int64_t c = 0; c < x.cols; c++) {
        const size_t at = (size_t)(x.at(t, r, c) - x.room->data());
        memset(&after[at], 0, dtype_facts[x.dtype].size);
        memset(&before[at], 0, dtype_facts[x.dtype].size);
      }
  if (after == before) return;
  failures++;
  printf("%s: something beside the elements has changed, seed %" PRIu64 "\n", what, seed);
}

/* One node: its operands, and where its cotangents go. */
struct Node {
  std::vector<unsigned char> rooms[5];
  Matrix a, b, c, da, db;
  std::vector<element> was_a, was_b, was_c;
  bool has_da, has_db;
};

static void test_case(uint64_t seed) {
  static const mmc_dtype DTYPES[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  uint64_t state = seed, *random = &state;
  const mmc_dtype dtype = DTYPES[random_below(random, 6)];
  const int64_t most = random_below(random, 3) == 0 ? 64 : 1 + random_below(random, 40);
  const int64_t count = 1 + random_below(random, NODES), batch = 1 + random_below(random, BATCH);
  const bool back = random_below(random, 2) == 1;
  Node nodes[NODES];
  mmci_tree_node given[NODES] = {};
  for (int64_t i = 0; i < count; i++) {
    Node &x = nodes[i];
    int64_t dims[3];
    for (int64_t &dim : dims)
      dim = random_below(random, 12) == 0 ? 0 : 1 + random_below(random, most);
    if (random_below(random, 3) == 0) dims[0] = dims[1] = dims[2] = most;
    const int64_t m = dims[0], k = dims[1], n = dims[2];
    x.a = lay(random, dtype, m, k, batch, &x.rooms[0]);
    x.b = lay(random, dtype, k, n, batch, &x.rooms[1]);
    x.c = lay(random, dtype, m, n, batch, &x.rooms[2]);
    fill(random, x.a, batch);
    fill(random, x.b, batch);
    if (back) fill(random, x.c, batch);
    x.was_a = values_of(x.a, batch);
    x.was_b = values_of(x.b, batch);
    x.was_c = values_of(x.c, batch);
    /* In the operand's place, in the product's where it has the shape, or elsewhere. */
    x.da = random_below(random, 2) ? x.a : lay(random, dtype, m, k, batch, &x.rooms[3]);
    if (k == n && random_below(random, 3) == 0) x.da = x.c;
    x.db = random_below(random, 2) ? x.b : lay(random, dtype, k, n, batch, &x.rooms[4]);
    x.has_da = random_below(random, 5) > 0;
    x.has_db = random_below(random, 5) > 0;
    given[i].m = m;
    given[i].k = k;
    given[i].n = n;
    given[i].a = x.a.where;
    given[i].b = x.b.where;
    given[i].c = x.c.where;
    if (x.has_da) given[i].da = x.da.where;
    if (x.has_db) given[i].db = x.db.where;
  }
  std::vector<unsigned char> before[NODES][5];
  for (int64_t i = 0; i < count; i++)
    for (int r = 0; r < 5; r++) before[i][r] = nodes[i].rooms[r];
  mmci_error error = {};
  const mmc_status status =
      mmci_cuda_nodes(nullptr, dtype, (int)most, given, count, batch, back, &error);
  if (status != MMC_OK) {
    failures++;
    printf("status %d: %s, seed %" PRIu64 "\n", (int)status, error.text, seed);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    const Node &x = nodes[i];
    const int64_t m = given[i].m, k = given[i].k, n = given[i].n;
    const auto a = [&](int64_t t, int64_t r, int64_t c) {
      return x.was_a[(size_t)((t * m + r) * k + c)];
    };
    const auto b = [&](int64_t t, int64_t r, int64_t c) {
      return x.was_b[(size_t)((t * k + r) * n + c)];
    };
    const auto c = [&](int64_t t, int64_t r, int64_t q) {
      return x.was_c[(size_t)((t * m + r) * n + q)];
    };
    const auto b_h = [&](int64_t t, int64_t r, int64_t q) {
      element value = b(t, q, r);
      return element{value.re, -value.im};
    };
    const auto a_h = [&](int64_t t, int64_t r, int64_t q) {
      element value = a(t, q, r);
      return element{value.re, -value.im};
    };
    if (!back) {
      expect(x.c, batch, k, a, b, "c", seed);
      expect_rest(x.c, batch, before[i][2], "c", seed);
      continue;
    }
    if (x.has_da) {
      expect(x.da, batch, n, c, b_h, "da", seed);
      for (int r = 0; r < 5; r++)
        if (x.da.room == &x.rooms[r]) expect_rest(x.da, batch, before[i][r], "da", seed);
    }
    if (x.has_db) {
      expect(x.db, batch, m, a_h, c, "db", seed);
      for (int r = 0; r < 5; r++)
        if (x.db.room == &x.rooms[r]) expect_rest(x.db, batch, before[i][r], "db", seed);
    }
  }
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 0) : 1;
  for (uint64_t i = 0; i < CASES; i++) test_case(seed * 1000 + i);
  printf("seed %" PRIu64 ": %d cases, %d failures\n", seed, (int)CASES, failures);
  return failures > 0 ? 1 : 0;
}
