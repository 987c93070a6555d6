/* test_fused_half.cpp: two products of f16 or bf16 as one kernel of Hopper's tensor cores, run by
 * the CPU (hopper_emulation.h): every width and both orders, any layouts, batches and edges.
 * Factors are small integers, so that sums are exact and T is rounded once; every element of D must
 * be the exact one, and what lies beside them must stay.
 *
 *     test_fused_half [SEED] */
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/emulated/wgmma.cuh"

#include "device/cuda/elements.cuh"
#include "device/cuda/group/fused_half.h"
extern "C" {
#include "device/cuda/tensor_map.h"
}

#include "../how_many.h"
#include "../random.h"

static int failures = 0, checks = 0;

/* ---- what fused_half.c calls ----------------------------------------------------------------- */

static void encode_nothing() {}

extern "C" mmc_status mmci_tensor_map_find(mmci_tensor_map_fn *out, mmci_error *) {
  *out = encode_nothing;
  return MMC_OK;
}

extern "C" mmc_status mmci_tensor_map_make(mmci_tensor_map_fn, const mmci_tensor *tensor,
                                           CUtensorMap *out, mmci_error *) {
  const CUtensorMapSwizzle swizzle =
      tensor->box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
  if (tensor->dims != 3 || tensor->box[2] != 1 || tensor->swizzle != swizzle ||
      (uintptr_t)tensor->data % 16 != 0 || tensor->strides[0] % 16 != 0 ||
      tensor->strides[1] % 16 != 0)
    mmci_emulation_stop("a tensor map that there is not");
  out->data = (uint16_t *)const_cast<void *>(tensor->data);
  for (int i = 0; i < 3; i++) out->sizes[i] = (int64_t)tensor->sizes[i];
  for (int i = 0; i < 2; i++) {
    out->strides[i] = (int64_t)tensor->strides[i] / 2;
    out->box[i] = (int)tensor->box[i];
  }
  return MMC_OK;
}

extern "C" cudaError_t mmci_emulation_c_launch(const void *kernel, unsigned blocks,
                                               unsigned in_cluster, unsigned threads,
                                               size_t shared_bytes, void **arguments) {
  typedef void (*Kernel)(const mmci_fused_half_maps, const mmci_fused_half_job);
  return mmci_launch_clusters((Kernel) const_cast<void *>(kernel), dim3(blocks), in_cluster,
                              dim3(threads), shared_bytes, nullptr,
                              *(const mmci_fused_half_maps *)arguments[0],
                              *(const mmci_fused_half_job *)arguments[1]);
}

/* ---- a case ---------------------------------------------------------------------------------- */

/* A batch of matrices of 16 bits, rows x cols; lines are of whole 16 bytes and some more. */
struct Matrices {
  int64_t rows, cols, lines, length;
  mmci_form form;
  std::vector<uint16_t> memory;
  uint16_t *data;

  Matrices(uint64_t *random, int64_t rows_, int64_t cols_, int64_t batch, bool is_result)
      : rows(rows_), cols(cols_), form() {
    enum { WORD = 8 };
    form.trans = !is_result && random_below(random, 2) == 1;
    lines = form.trans ? cols : rows;
    length = form.trans ? rows : cols;
    form.ld = (length + WORD - 1) / WORD * WORD + random_below(random, 2) * WORD;
    form.stride = !is_result && random_below(random, 3) == 0
                      ? 0
                      : lines * form.ld + random_below(random, 2) * WORD;
    memory.assign((size_t)(form.stride * (batch - 1) + lines * form.ld + WORD), 0xffff);
    data = memory.data();
    while ((uintptr_t)data % 16 != 0) data++;
  }
  uint16_t &at(int64_t b, int64_t r, int64_t c) const {
    return data[b * form.stride + (form.trans ? c * form.ld + r : r * form.ld + c)];
  }
};

template <typename Element>
static void fill(uint64_t *random, const Matrices &x, int64_t batch, bool ones) {
  for (int64_t b = 0; b < (x.form.stride == 0 ? 1 : batch); b++)
    for (int64_t r = 0; r < x.rows; r++)
      for (int64_t c = 0; c < x.cols; c++)
        x.at(b, r, c) = Element::write(ones ? 1 : (float)(random_below(random, 3) - 1));
}

/* Returns x y, rounded; z(r, c) of rows x cols. */
template <typename Element>
static std::vector<float> product(const std::vector<float> &x, const std::vector<float> &y,
                                  int64_t rows, int64_t terms, int64_t cols) {
  std::vector<float> z((size_t)(rows * cols), 0);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < terms; k++)
      for (int64_t c = 0; c < cols; c++)
        z[(size_t)(r * cols + c)] += x[(size_t)(r * terms + k)] * y[(size_t)(k * cols + c)];
  for (float &sum : z) sum = Element::read(Element::write(sum), false);
  return z;
}

template <typename Element>
static std::vector<float> values(const Matrices &x, int64_t b) {
  std::vector<float> all;
  for (int64_t r = 0; r < x.rows; r++)
    for (int64_t c = 0; c < x.cols; c++) all.push_back(Element::read(x.at(b, r, c), false));
  return all;
}

static void fail(uint64_t seed, const char *name, const int64_t dims[4], int64_t batch,
                 const char *what) {
  failures++;
  printf("seed %" PRIu64 ": %s, %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
         ", batch %" PRId64 ": %s\n",
         seed, name, dims[0], dims[1], dims[2], dims[3], batch, what);
}

enum { NUMBERS, INFINITY_AND_ONES };

/* Chains of dims[0] x dims[1], dims[1] x dims[2] and dims[2] x dims[3]. */
template <typename Element>
static void try_pair(uint64_t seed, mmc_dtype dtype, bool right, const int64_t dims[4],
                     int64_t batch, int multiprocessors, int kind, const char *expected) {
  uint64_t random = seed;
  mmci_emulation().seed = seed;
  mmci_hopper().delay = 8u << 2 * random_below(&random, 4);
  std::vector<Matrices> x;
  std::vector<mmci_form> forms;
  for (int i = 0; i < 3; i++) {
    x.emplace_back(&random, dims[i], dims[i + 1], batch, false);
    fill<Element>(&random, x[(size_t)i], batch, kind == INFINITY_AND_ONES);
    if (kind == INFINITY_AND_ONES && i == (right ? 2 : 0))
      x.back().at(0, 0, 0) = Element::write(INFINITY);
    forms.push_back(x[(size_t)i].form);
  }
  const Matrices d(&random, dims[0], dims[3], batch, true);
  const mmci_group_product left_first[] = {{dims[0], dims[1], dims[2], 0, 1},
                                           {dims[0], dims[2], dims[3], 3, 2}},
                           right_first[] = {{dims[1], dims[2], dims[3], 1, 2},
                                            {dims[0], dims[1], dims[3], 0, 3}};
  mmci_group group = {};
  group.dtype = dtype;
  group.batch = batch;
  group.n = 3;
  group.count = 2;
  group.forms = forms.data();
  group.products = right ? right_first : left_first;
  group.ldc = d.form.ld;
  group.c_stride = d.form.stride;
  mmci_fused_half fused;
  mmci_error error = {};
  checks++;
  if (!mmci_fused_half_describe(&group, multiprocessors, &fused))
    return fail(seed, "none", dims, batch, "no kernel takes it");
  const std::string name = mmci_fused_half_name(&fused);
  if (name.find(expected) == std::string::npos)
    return fail(seed, name.c_str(), dims, batch, "another kernel is expected");
  const void *operands[] = {x[0].data, x[1].data, x[2].data};
  if (mmci_fused_half_prepare(&fused, &error) != MMC_OK ||
      mmci_fused_half_enqueue(nullptr, &fused, operands, d.data, &error) != MMC_OK)
    return fail(seed, name.c_str(), dims, batch, error.text);
  if (!mmci_hopper_end()) fail(seed, name.c_str(), dims, batch, "it ends before its copies do");
  for (int64_t b = 0; b < batch; b++) {
    const std::vector<float> first = values<Element>(x[0], b), middle = values<Element>(x[1], b),
                             last = values<Element>(x[2], b);
    const std::vector<float> exact =
        right ? product<Element>(first, product<Element>(middle, last, dims[1], dims[2], dims[3]),
                                 dims[0], dims[1], dims[3])
              : product<Element>(product<Element>(first, middle, dims[0], dims[1], dims[2]), last,
                                 dims[0], dims[2], dims[3]);
    for (int64_t r = 0; r < dims[0]; r++)
      for (int64_t c = 0; c < dims[3]; c++) {
        uint16_t &got = d.at(b, r, c);
        if (!(Element::read(got, false) == exact[(size_t)(r * dims[3] + c)]))
          return fail(seed, name.c_str(), dims, batch, "a wrong element");
        got = 0xffff;
      }
  }
  for (uint16_t bits : d.memory)
    if (bits != 0xffff) return fail(seed, name.c_str(), dims, batch, "written beside the result");
}

/* A pair with the intermediate w wide: m, k, w and n as the kernel takes them. */
static void try_sizes(uint64_t seed, int64_t m, int64_t k, int64_t w, int64_t n, int64_t batch,
                      int multiprocessors, int kind, const char *expected) {
  const bool right = seed / 2 % 2 == 1;
  const int64_t left_dims[] = {m, k, w, n}, right_dims[] = {n, w, k, m};
  const int64_t *dims = right ? right_dims : left_dims;
  if (seed % 2 == 0)
    try_pair<mmci_f16_element>(seed, MMC_F16, right, dims, batch, multiprocessors, kind, expected);
  else
    try_pair<mmci_bf16_element>(seed, MMC_BF16, right, dims, batch, multiprocessors, kind,
                                expected);
}

/* ---- by two calls -----------------------------------------------------------------------------
 */

/* Asks for the share of two calls' time that (A B) C takes, or A (B C) with A n x w, B w x k and C
 * k x m, all by rows; 0 where it is not surely less. */
static double share_of(int64_t m, int64_t k, int64_t w, int64_t n, bool right, int64_t batch) {
  mmci_form forms[3] = {};
  forms[0].ld = right ? w : k;
  forms[1].ld = right ? k : w;
  forms[2].ld = right ? m : n;
  const mmci_group_product left_first[] = {{m, k, w, 0, 1}, {m, w, n, 3, 2}},
                           right_first[] = {{w, k, m, 1, 2}, {n, w, m, 0, 3}};
  mmci_group group = {};
  group.dtype = MMC_BF16;
  group.batch = batch;
  group.n = 3;
  group.count = 2;
  group.forms = forms;
  group.products = right ? right_first : left_first;
  group.ldc = right ? m : n;
  mmci_fused_half fused;
  mmci_group_share share;
  if (!mmci_fused_half_describe(&group, 132, &fused)) return NAN;
  return mmci_fused_half_share(&fused, &share) ? share.time : 0;
}

/* What was measured is told as it was, what pads or fills its last round badly is not told. */
static void try_shares() {
  static const struct {
    int64_t m, k, w, n, batch;
    double from, to;
  } pairs[] = {
      {16384, 512, 512, 512, 1, 0.85, 0.9},    {131072, 512, 512, 512, 1, 0.91, 0.92},
      {1048576, 512, 512, 512, 1, 0.97, 0.98}, {4194304, 512, 512, 512, 1, 0.95, 0.98},
      {16384, 512, 480, 512, 1, 0.92, 0.97},   {131072, 512, 512, 256, 1, 0.91, 0.98},
      {131072, 512, 400, 512, 1, 0, 0},        {131072, 304, 304, 304, 1, 0, 0},
      {17408, 512, 512, 512, 1, 0, 0},         {8192, 512, 512, 512, 1, 0, 0},
      {131072, 512, 512, 1024, 1, 0, 0},       {16384, 512, 512, 512, 8, 0, 0},
      {131072, 1024, 64, 1024, 1, 0, 0},       {16384, 256, 256, 256, 1, 0.74, 0.76},
      {131072, 256, 256, 256, 1, 0.76, 0.86},  {1048576, 256, 256, 256, 1, 0.81, 0.83},
      {131072, 256, 160, 256, 1, 0, 0},        {131072, 128, 128, 128, 1, 0.61, 0.63},
      {1048576, 64, 64, 64, 1, 0.54, 0.56},
  };
  for (const auto &x : pairs)
    for (int right = 0; right < 2; right++) {
      const double share = share_of(x.m, x.k, x.w, x.n, right, x.batch);
      checks++;
      if (share >= x.from && share <= x.to) continue;
      failures++;
      printf("%lldx%lldx%lldx%lld @%lld %s: a share of %g of two calls, expected %g to %g\n",
             (long long)x.m, (long long)x.k, (long long)x.w, (long long)x.n, (long long)x.batch,
             right ? "right" : "left", share, x.from, x.to);
    }
}

/* ---- the tests --------------------------------------------------------------------------------
 */

static void try_random(uint64_t seed) {
  static const int64_t WIDTHS[] = {1, 15, 63, 64, 65, 100, 128, 129, 200, 256};
  uint64_t random = seed;
  const int64_t w = WIDTHS[random_below(&random, 10)], m = 1 + random_below(&random, 300),
                k = 1 + random_below(&random, 150), n = 1 + random_below(&random, 150),
                batch = 1 + random_below(&random, 2);
  try_sizes(seed, m, k, w, n, batch, 1 + (int)random_below(&random, 3), NUMBERS, "fused");
}

int main(int argc, char **argv) {
  /* Two seeds have both dtypes, and four have both orders of each; in short neighbours share them.
   */
  const int cases = how_many(6, 24), each = how_many(1, 4);
  /* B and C that stay in shared memory, that do not, and that several blocks share. */
  static const struct {
    int64_t m, k, w, n, batch;
    int multiprocessors;
    const char *expected;
  } sizes[] = {{400, 64, 60, 60, 1, 1, "64x64"},      {400, 40, 64, 200, 1, 1, "64x128"},
               {500, 200, 128, 64, 1, 2, "128x64"},   {500, 130, 100, 300, 1, 1, "128x128"},
               {400, 250, 256, 250, 1, 1, "256x128"}, {300, 200, 256, 136, 7, 2, "256x256"},
               {300, 129, 130, 255, 7, 2, "256x256"}, {150, 300, 270, 80, 2, 2, "512x256"},
               {600, 500, 512, 490, 1, 2, "512x256"}, {300, 40, 400, 600, 2, 4, "512x256"}};
  const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 20260711;
  for (int i = 0; i < cases; i++) try_random(seed + (uint64_t)i);
  uint64_t next = seed; /* other dtypes and orders of each kernel */
  for (const auto &x : sizes)
    for (int i = 0; i < each; i++)
      try_sizes(next++, x.m, x.k, x.w, x.n, x.batch, x.multiprocessors, NUMBERS, x.expected);
  for (int i = 0; i < each; i++) {
    const uint64_t own = next++;
    try_sizes(own, 70, 40, 100, 72, 1, 1, INFINITY_AND_ONES, "128x128");
    try_sizes(own, 70, 40, 200, 72, 1, 1, INFINITY_AND_ONES, "256x128");
    try_sizes(own, 70, 40, 300, 72, 1, 2, INFINITY_AND_ONES, "512x256");
  }
  try_shares();
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
