/* test_ranges.cpp: products of ranges of a row on a device with memory of its own, by the CUDA
 * module's kernels run by the CPU, after random changes, against the same products from left to
 * right in f64; how many launches they take; what such a device does not keep is an error.
 *
 *     test_ranges [SEED] */
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "base/status.h"
#include "chain/copy.h"
#include "ranges/ranges.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/cuda_kernels.h"

#include "../elements.h"
#include "../random.h"

enum { CASES = 24, OPERATIONS = 40, MOST = 40 };

static int failures = 0;

static void fail(const char *what, uint64_t seed) {
  if (failures++ < 10) printf("%s, seed %" PRIu64 "\n", what, seed);
}

/* ---- a device that works at once, in the host's memory -------------------------------------- */

static int64_t levels, climbs, held, waits, records;
static bool has_clusters = true;

/* Which work comes before which: after[s][t] is how many works of stream t are done before the next
 * one of stream s. Stream 0 is the queue's own, 1 the default one. */
enum { STREAMS = 4 };
typedef std::vector<int64_t> Clock;
static std::vector<Clock> after(STREAMS, Clock(STREAMS));
static Clock recorded(STREAMS);
static char streams[STREAMS];
static int on = 0; /* the stream that the queue stands for */

static void work() {
  for (int t = 0; t < STREAMS; t++)
    if (after[on][t] < after[t][t]) fail("work overtakes what was enqueued before", 0);
  after[on][on]++;
}

static mmc_status done() {
  return MMC_OK;
}
static const mmci_device_async *async_of() {
  static mmci_device_async async = {};
  async.queues = 1;
  async.queue_attach = [](mmci_queue *, void *stream) {
    on = stream == nullptr ? 1 : (int)((char *)stream - streams);
  };
  async.queue_detach = [](mmci_queue *) { on = 0; };
  async.upload = [](mmci_queue *, const mmci_transfer *t, mmci_error *) {
    work();
    memcpy(t->to, t->from, (size_t)(t->lines * t->line_bytes));
    return done();
  };
  async.copy = [](mmci_queue *, mmc_dtype dtype, int64_t rows, int64_t cols, const void *from,
                  const mmci_form *form, void *to, int64_t to_ld, bool to_trans, mmci_error *) {
    work();
    mmci_copy(dtype, rows, cols, from, form, to, to_ld, to_trans);
    return done();
  };
  async.event_create = [](mmci_device *, mmci_event **out, mmci_error *) {
    *out = (mmci_event *)&held;
    return done();
  };
  async.event_destroy = [](mmci_event *) {};
  async.event_record = [](mmci_queue *, mmci_event *, mmci_error *) {
    records++;
    recorded = after[on];
    return done();
  };
  async.event_wait = [](mmci_queue *, mmci_event *, mmci_error *) {
    waits++;
    for (int t = 0; t < STREAMS; t++) after[on][t] = std::max(after[on][t], recorded[t]);
    return done();
  };
  async.is_capturing = [](mmci_device *, void *stream) { return stream == &held; };
  return &async;
}

static const mmci_device_ops *ops_of() {
  static mmci_device_ops ops = {};
  ops.name = "emulated";
  ops.queue_open = [](mmci_device *, mmci_queue **out, mmci_error *) {
    *out = (mmci_queue *)&held;
    return done();
  };
  ops.queue_close = [](mmci_queue *) {};
  ops.enqueue = [](mmci_queue *, const mmci_kernel *, const void *, const void *, void *,
                   mmci_error *) { return MMC_E_DEVICE; };
  ops.sync = [](mmci_queue *, mmci_error *) {
    for (Clock &clock : after) /* the host has waited, and what it enqueues comes later */
      for (int t = 0; t < STREAMS; t++) clock[t] = std::max(clock[t], after[on][t]);
    return done();
  };
  ops.alloc = [](mmci_device *, size_t bytes, void **out, mmci_error *) {
    held++;
    *out = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(*out, 0xff, bytes);
    return done();
  };
  ops.dealloc = [](mmci_device *, void *memory) {
    held--;
    free(memory);
  };
  ops.nodes_enqueue = [](mmci_queue *, mmc_dtype dtype, int side, const mmci_tree_node *nodes,
                         int64_t count, int64_t batch, bool back, mmci_error *error) {
    levels++;
    work();
    return mmci_cuda_nodes(nullptr, dtype, side, nodes, count, batch, back, error);
  };
  ops.climb_supports = [](const mmci_device *, mmc_dtype dtype, int64_t side) {
    return mmci_cuda_climbs(dtype, has_clusters, side);
  };
  ops.climb_enqueue = [](mmci_queue *, mmc_dtype dtype, const mmci_climb *climb, int64_t batch,
                         mmci_error *error) {
    climbs++;
    work();
    return mmci_cuda_climb(nullptr, dtype, has_clusters, climb, batch, error);
  };
  ops.async = async_of();
  return &ops;
}

/* ---- one row -------------------------------------------------------------------------------- */

struct Row {
  uint64_t seed, state;
  mmc_dtype dtype;
  int64_t side, batch;
  mmci_ranges *ranges = nullptr;
  std::vector<std::vector<element>> factors; /* of each, batch matrices */

  int64_t one() const { return side * side; }
  std::vector<element> draw() {
    std::vector<element> x((size_t)(one() * batch));
    const bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
    for (element &e : x) {
      e.re = 1.5 * random_unit(&state) / std::sqrt((double)side);
      e.im = is_complex ? 1.5 * random_unit(&state) / std::sqrt((double)side) : 0;
    }
    return x;
  }
};

/* A caller's matrices, lying as a form says, in memory of their own. */
struct Given {
  std::vector<unsigned char> room;
  std::vector<mmc_matrix> matrices;
};

/* Lays matrices one after the other, with gaps or without, and fills them with values as they come
 * back from the dtype. */
static Given lay(Row &x, size_t count, std::vector<element> *values) {
  Given out;
  const bool is_even = random_below(&x.state, 2) == 1;
  const int64_t ld = x.side + (is_even ? 0 : random_below(&x.state, 3));
  const int64_t stride = x.side * ld + (is_even ? 0 : random_below(&x.state, 3));
  const size_t size = dtype_facts[x.dtype].size, each = (size_t)(stride * x.batch) * size;
  out.room.assign(each * count + 64, 0xff);
  for (size_t i = 0; i < count; i++) {
    mmc_matrix m = {};
    m.rows = m.cols = x.side;
    m.ld = ld;
    m.stride = stride;
    m.layout = !is_even && random_below(&x.state, 2) ? MMC_COL_MAJOR : MMC_ROW_MAJOR;
    m.location = MMC_DEVICE;
    m.data = out.room.data() + i * each;
    out.matrices.push_back(m);
    for (int64_t e = 0; values != nullptr && e < x.one() * x.batch; e++) {
      const int64_t t = e / x.one(), r = e % x.one() / x.side, c = e % x.side;
      const int64_t at = t * stride + (m.layout == MMC_COL_MAJOR ? c * ld + r : r * ld + c);
      unsigned char *to = (unsigned char *)m.data + (size_t)at * size;
      element_write(x.dtype, to, values[i][(size_t)e]);
      values[i][(size_t)e] = element_read(x.dtype, to);
    }
  }
  return out;
}

static void expect_ok(const Row &x, mmc_status status, const mmci_error &error) {
  if (status != MMC_OK) fail(error.text, x.seed);
}

static void append(Row &x, size_t count) {
  mmci_error error = {};
  std::vector<std::vector<element>> values;
  for (size_t i = 0; i < count; i++) values.push_back(x.draw());
  const Given given = lay(x, count, values.data());
  expect_ok(x, mmci_ranges_append(x.ranges, (int64_t)count, given.matrices.data(), &error), error);
  for (auto &value : values) x.factors.push_back(value);
}

static void update(Row &x, size_t count) {
  mmci_error error = {};
  std::vector<std::vector<element>> values;
  std::vector<int64_t> indices;
  for (size_t i = 0; i < count; i++) {
    values.push_back(x.draw());
    indices.push_back(random_below(&x.state, (int64_t)x.factors.size()));
  }
  const Given given = lay(x, count, values.data());
  expect_ok(
      x,
      mmci_ranges_update(x.ranges, (int64_t)count, indices.data(), given.matrices.data(), &error),
      error);
  for (size_t i = 0; i < count; i++) x.factors[(size_t)indices[i]] = values[i];
}

/* The product from left to right, and the same of absolute values. */
static void product_of(const Row &x, int64_t first, int64_t end, std::vector<element> *product,
                       std::vector<double> *bound) {
  for (int64_t t = 0; t < x.batch; t++) {
    std::vector<element> p((size_t)x.one());
    std::vector<double> q((size_t)x.one());
    for (int64_t d = 0; d < x.side; d++)
      p[(size_t)(d * x.side + d)].re = q[(size_t)(d * x.side + d)] = 1;
    for (int64_t i = first; i < end; i++) {
      std::vector<element> next((size_t)x.one());
      std::vector<double> above((size_t)x.one());
      const element *f = x.factors[(size_t)i].data() + t * x.one();
      for (int64_t r = 0; r < x.side; r++)
        for (int64_t d = 0; d < x.side; d++)
          for (int64_t c = 0; c < x.side; c++) {
            const element a = p[(size_t)(r * x.side + d)], b = f[d * x.side + c];
            element &sum = next[(size_t)(r * x.side + c)];
            sum.re += a.re * b.re - a.im * b.im;
            sum.im += a.re * b.im + a.im * b.re;
            above[(size_t)(r * x.side + c)] +=
                q[(size_t)(r * x.side + d)] * (std::fabs(b.re) + std::fabs(b.im));
          }
      p = next;
      q = above;
    }
    product->insert(product->end(), p.begin(), p.end());
    bound->insert(bound->end(), q.begin(), q.end());
  }
}

static void expect_product(Row &x, int64_t first, int64_t end) {
  mmci_error error = {};
  std::vector<element> expected;
  std::vector<double> bound;
  Given given = lay(x, 1, nullptr);
  const mmc_matrix *m = given.matrices.data();
  expect_ok(x, mmci_ranges_product(x.ranges, first, end, m, nullptr, &error), error);
  product_of(x, first, end, &expected, &bound);
  const double epsilon = dtype_facts[x.dtype].epsilon;
  for (int64_t e = 0; e < x.one() * x.batch; e++) {
    const int64_t t = e / x.one(), r = e % x.one() / x.side, c = e % x.side;
    const int64_t at = t * m->stride + (m->layout == MMC_COL_MAJOR ? c * m->ld + r : r * m->ld + c);
    const element got = element_read(
        x.dtype, (const unsigned char *)m->data + (size_t)at * dtype_facts[x.dtype].size);
    const double off =
        std::fabs(got.re - expected[(size_t)e].re) + std::fabs(got.im - expected[(size_t)e].im);
    if (off <= 3 * (double)((end - first) * (x.side + 4)) * epsilon * bound[(size_t)e] + 1e-300)
      continue;
    fail("a product is wrong", x.seed);
    return;
  }
}

static void test_case(uint64_t seed) {
  static const mmc_dtype DTYPES[] = {MMC_F32, MMC_F64, MMC_F32, MMC_F64, MMC_C64, MMC_C128};
  static const size_t LENGTHS[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33};
  Row x;
  x.seed = x.state = seed;
  uint64_t *random = &x.state;
  mmci_error error = {};
  has_clusters = random_below(random, 2) == 1;
  x.dtype = DTYPES[random_below(random, 6)];
  x.side =
      random_below(random, 4) == 0 ? 33 + random_below(random, 32) : 1 + random_below(random, 20);
  x.batch = 1 + random_below(random, 2);
  mmci_ranges_problem problem = {};
  problem.dtype = x.dtype;
  problem.side = x.side;
  problem.batch = x.batch;
  problem.memory_limit_bytes = MMC_NO_LIMIT;
  const mmc_status status = mmci_ranges_create(&problem, ops_of(), nullptr, &x.ranges, &error);
  expect_ok(x, status, error);
  if (status != MMC_OK) return;
  if (random_below(random, 2)) mmci_ranges_on_stream(x.ranges, nullptr);
  append(x, LENGTHS[random_below(random, 13)]);
  expect_product(x, 0, (int64_t)x.factors.size());
  const int operations = x.side > 32 ? OPERATIONS / 4 : OPERATIONS;
  for (int o = 0; o < operations; o++) {
    const size_t length = x.factors.size();
    const int64_t stream = random_below(random, 6);
    if (stream > 0 && stream < STREAMS)
      mmci_ranges_on_stream(x.ranges, stream == 1 ? nullptr : &streams[stream]);
    switch (random_below(random, 5)) {
      case 0:
        if (length < MOST) append(x, 1 + (size_t)random_below(random, 3));
        break;
      case 1: {
        const int64_t count = random_below(random, (int64_t)(length < 3 ? length : 3) + 1);
        expect_ok(x, mmci_ranges_pop_front(x.ranges, count, &error), error);
        x.factors.erase(x.factors.begin(), x.factors.begin() + count);
        break;
      }
      case 2:
        if (length > 0) update(x, 1 + (size_t)random_below(random, 5));
        break;
      default:
        if (length > 0) update(x, 1);
        break;
    }
    const int64_t end = random_below(random, (int64_t)x.factors.size() + 1);
    if (random_below(random, 2))
      expect_product(x, 0, (int64_t)x.factors.size());
    else
      expect_product(x, random_below(random, end + 1), end);
  }
  mmci_ranges_destroy(x.ranges);
  if (held != 0) fail("memory is held", seed);
  held = 0;
}

/* What follows on the default stream what is there waits for nothing; another stream waits. */
static void test_streams() {
  Row x;
  x.seed = x.state = 11;
  x.dtype = MMC_F32;
  x.side = 3;
  x.batch = 1;
  mmci_error error = {};
  mmci_ranges_problem problem = {};
  problem.dtype = x.dtype;
  problem.side = x.side;
  problem.batch = x.batch;
  problem.memory_limit_bytes = MMC_NO_LIMIT;
  expect_ok(x, mmci_ranges_create(&problem, ops_of(), nullptr, &x.ranges, &error), error);
  mmci_ranges_on_stream(x.ranges, nullptr);
  waits = records = 0;
  append(x, 9);
  for (int i = 0; i < 3; i++) {
    update(x, 1);
    expect_product(x, 0, 9);
  }
  if (waits + records != 0) fail("the default stream waits for itself", x.seed);
  mmci_ranges_on_stream(x.ranges, &streams[2]);
  update(x, 1);
  if (waits != 1 || records != 2) fail("another stream waits for the default one", x.seed);
  expect_product(x, 0, 9);
  mmci_ranges_on_stream(x.ranges, nullptr);
  waits = 0;
  expect_product(x, 0, 9);
  if (waits != 1) fail("the default stream waits for another one", x.seed);
  on = 0;
  waits = 0;
  mmci_ranges_destroy(x.ranges);
  if (waits != 1) fail("the end of a row waits for what is under way", x.seed);
  work();
}

/* One factor of many changed takes one launch until the product of all is there; several take one a
 * level. */
static void test_launches() {
  Row x;
  x.seed = x.state = 7;
  x.dtype = MMC_F32;
  x.side = 3;
  x.batch = 1;
  mmci_error error = {};
  mmci_ranges_problem problem = {};
  problem.dtype = x.dtype;
  problem.side = x.side;
  problem.batch = x.batch;
  problem.memory_limit_bytes = MMC_NO_LIMIT;
  expect_ok(x, mmci_ranges_create(&problem, ops_of(), nullptr, &x.ranges, &error), error);
  append(x, 33);
  levels = climbs = 0;
  expect_product(x, 0, 33);
  if (levels + climbs != 6) fail("all products take a launch a level", x.seed);
  levels = climbs = 0;
  update(x, 1);
  expect_product(x, 0, 33);
  if (levels != 0 || climbs != 1) fail("one change takes one launch", x.seed);
  levels = climbs = 0;
  update(x, 8);
  expect_product(x, 0, 33);
  if (levels + climbs > 6) fail("several changes take at most a launch a level", x.seed);
  levels = climbs = 0;
  expect_product(x, 0, 33);
  if (levels + climbs != 0) fail("no change takes no launch", x.seed);
  mmc_matrix host = {};
  static float data[9];
  host.data = data;
  host.rows = host.cols = 3;
  if (mmci_ranges_append(x.ranges, 1, &host, &error) != MMC_E_ARG) fail("a host's matrix", x.seed);
  mmci_ranges_on_stream(x.ranges, &held);
  host.location = MMC_DEVICE;
  if (mmci_ranges_append(x.ranges, 1, &host, &error) != MMC_E_UNSUPPORTED)
    fail("a stream that is captured", x.seed);
  mmci_ranges_destroy(x.ranges);
}

static void expect_refused(const char *what, mmc_dtype dtype, int64_t side, bool scaled,
                           mmc_semiring semiring) {
  mmci_error error = {};
  mmci_ranges *made = nullptr;
  mmci_ranges_problem problem = {dtype, side, 1, MMC_NO_LIMIT, scaled, semiring};
  if (mmci_ranges_create(&problem, ops_of(), nullptr, &made, &error) != MMC_E_UNSUPPORTED)
    fail(what, 0);
  mmci_ranges_destroy(made);
}

int main(int argc, char **argv) {
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 0) : 1;
  for (uint64_t i = 0; i < CASES; i++) test_case(seed * 1000 + i);
  test_streams();
  test_launches();
  expect_refused("a side of 65", MMC_F32, 65, false, MMC_PLUS_TIMES);
  expect_refused("a side of 0", MMC_F32, 0, false, MMC_PLUS_TIMES);
  expect_refused("integers", MMC_I32, 4, false, MMC_PLUS_TIMES);
  expect_refused("exponents", MMC_F32, 4, true, MMC_PLUS_TIMES);
  expect_refused("max-plus", MMC_F32, 4, false, MMC_MAX_PLUS);
  printf("seed %" PRIu64 ": %d cases, %d failures\n", seed, (int)CASES, failures);
  return failures > 0 ? 1 : 0;
}
