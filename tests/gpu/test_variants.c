/* test_variants.c: what numbers of variants stand for on CUDA, for wisdom keeps them; what kernels
 * take of the chip; shapes that are shared along k by many blocks, or take them more than one
 * round. What holds for the variants of every device is conformance/test_variants.c's. */
#include <inttypes.h>
#include <stdio.h>

#include "../conformance/product_case.h"

static const uint64_t seed = 20261121;

/* Numbers from 1 on are cuBLASLt's; those of other kernels follow. */
enum { CUBLASLT_VARIANTS = 12, FIRST_LARGE_TILE = 25, FIRST_SLICED_K = 31, LATER_LARGE_TILE = 36 };

static const struct {
  mmc_dtype dtype;
  int variant;
  const char *name;
} known[] = {{MMC_F32, FIRST_LARGE_TILE, "large_tile 256x192 1x2"},
             {MMC_F32, FIRST_LARGE_TILE + 1, "large_tile 192x256 2x1"},
             {MMC_F32, FIRST_LARGE_TILE + 2, "large_tile 256x128"},
             {MMC_F32, FIRST_LARGE_TILE + 3, "large_tile 128x128"},
             {MMC_F32, FIRST_LARGE_TILE + 4, "large_tile 256x192 2x1"},
             {MMC_F32, FIRST_LARGE_TILE + 5, "large_tile 192x256 1x2"},
             {MMC_F64, FIRST_LARGE_TILE, "large_tile 128x128"},
             {MMC_F64, FIRST_LARGE_TILE + 1, "large_tile 128x64"},
             {MMC_F32, FIRST_SLICED_K, "sliced_k 16x32 k8"},
             {MMC_F32, FIRST_SLICED_K + 1, "sliced_k 16x32 k4"},
             {MMC_F32, FIRST_SLICED_K + 2, "sliced_k 32x32 k8"},
             {MMC_F32, FIRST_SLICED_K + 3, "sliced_k 32x32 k4"},
             {MMC_F32, FIRST_SLICED_K + 4, "sliced_k 64x64 k2"},
             {MMC_F32, LATER_LARGE_TILE, "large_tile 256x192 2x2"},
             {MMC_F32, LATER_LARGE_TILE + 1, "large_tile 256x192 2x4"}};
enum { KNOWN = sizeof known / sizeof *known };

/* Says whether the device has this variant; a test without any would not fail. */
static bool is_a_variant(const subject *on, const mmci_gemm *gemm) {
  mmci_kernel *kernel = NULL;
  mmci_error error = {0};
  const mmc_status status = on->ops->prepare(on->device, gemm, &kernel, &error);
  if (status == MMC_OK) on->ops->release(kernel);
  if (status != MMC_OK && status != MMC_E_UNSUPPORTED) expect_ok(status, &error, "prepare");
  return status == MMC_OK;
}

static product_case variant_case(int at, int64_t m, int64_t k, int64_t n, uint64_t *random) {
  static const int64_t gaps[] = {0, 0, 4, 8, 1, 3, 17};
  product_case x = random_case(known[at].dtype, m, k, n, random);
  x.gemm.a = form_of((int)random_below(random, 2), m, k, gaps[random_below(random, 7)]);
  x.gemm.b = form_of((int)random_below(random, 2), k, n, gaps[random_below(random, 7)]);
  x.gemm.ldc = n + gaps[random_below(random, 7)];
  x.gemm.precision = MMCI_NATIVE;
  x.gemm.variant = known[at].variant;
  x.kernel = known[at].name;
  x.twice = true;
  for (int o = 0; o < 3; o++)
    x.shifts[o] = random_below(random, 4) == 0 ? (int)random_below(random, 5) : 0;
  return x;
}

/* Shapes that are shared along k by many, or take more than one round. */
static void test_work(const subject *on, int at, uint64_t *random) {
  static const int64_t shapes[][3] = {{5, 70001, 7},    {257, 5003, 193}, {1, 4096, 1},
                                      {600, 1009, 701}, {300, 3, 2000},   {3001, 17, 3},
                                      {8705, 33, 769},  {6145, 40, 1025}};
  product_case x = variant_case(at, 65, 300, 130, random);
  try_product(on, &x);
  if (on->small) return;
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    x = variant_case(at, shapes[s][0], shapes[s][1], shapes[s][2], random);
    if (is_a_variant(on, &x.gemm)) try_product(on, &x); /* sliced_k leaves large ones to others */
  }
  for (int s = 0; s < 30; s++) {
    x = variant_case(at, 1 + random_below(random, 700), 1 + random_below(random, 700),
                     1 + random_below(random, 700), random);
    try_product(on, &x);
  }
}

static void numbers_stay(const subject *on) {
  uint64_t random = seed;
  int tried = 0;
  printf("seed %" PRIu64 "\n", seed);
  for (int at = 0; at < KNOWN; at++) {
    const product_case x = variant_case(at, 64, 64, 64, &random);
    if (!is_a_variant(on, &x.gemm)) {
      printf("skipped: %s is not on this device\n", known[at].name);
      continue;
    }
    expect(on->ops->variants(on->device, &x.gemm) >= x.gemm.variant, "variants counts it");
    test_work(on, at, &random);
    tried++;
  }
  expect(tried > 0, "there is a variant");
}

/* What a kernel takes of the chip is known, and possible. */
static void check_facts(const subject *on, const mmci_gemm *gemm) {
  mmci_kernel_facts facts = {0};
  mmci_error error = {0};
  expect(on->ops->kernel_facts(on->device, gemm, &facts, &error) == MMC_OK, error.text);
  expect(facts.registers_per_thread > 0 && facts.registers_per_thread <= 255 &&
             facts.threads_per_block > 0 && facts.threads_per_block <= 1024 &&
             facts.registers_per_thread * facts.threads_per_block <= 65536 &&
             facts.shared_bytes_per_block >= 0 && facts.shared_bytes_per_block <= 228 << 10,
         "a kernel's facts are possible");
}

/* The variants of a product: their facts, and the names of cuBLASLt's. Returns how many there are.
 */
static int check_variants(const subject *on, mmci_gemm gemm) {
  const int count = on->ops->variants(on->device, &gemm);
  if (gemm.k > 0) check_facts(on, &gemm);
  for (gemm.variant = 1; gemm.variant <= count; gemm.variant++) {
    char name[32];
    if (!is_a_variant(on, &gemm)) continue;
    check_facts(on, &gemm);
    snprintf(name, sizeof name, "cublaslt %d", gemm.variant);
    if (gemm.variant <= CUBLASLT_VARIANTS)
      expect(strcmp(on->ops->kernel_name(on->device, &gemm), name) == 0, name);
  }
  return count;
}

static void facts_and_names(const subject *on) {
  static const int64_t shapes[][3] = {
      {64, 64, 64}, {129, 300, 200}, {512, 520, 96}, {1, 40, 64}, {17, 0, 9}};
  for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++) {
    int most = 0;
    for (size_t s = 0; s < (on->small ? 1 : sizeof shapes / sizeof *shapes); s++)
      for (int precision = MMCI_NATIVE; precision <= MMCI_FAST; precision++) {
        const mmci_gemm gemm =
            mmci_gemm_tight(dtype, (mmci_precision)precision, shapes[s][0], shapes[s][1],
                            shapes[s][2], (mmc_op)(s % 2), (mmc_op)(s / 2 % 2));
        const int count = check_variants(on, gemm);
        most = count > most ? count : most;
      }
    printf("%s: up to %d variants\n", dtype_facts[dtype].name, most);
    expect(most > 0, "there are variants");
  }
}

static void refusals(const subject *on) {
  static const struct {
    mmc_dtype dtype;
    int variant;
    const char *what;
  } cases[] = {{MMC_C64, FIRST_LARGE_TILE, "no large tiles of complex elements"},
               {MMC_C64, FIRST_SLICED_K, "no sliced sums of complex elements"},
               {MMC_F32, FIRST_LARGE_TILE + 1000, "no such variant"}};
  for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
    mmci_error error = {0};
    mmci_kernel *kernel = NULL;
    mmci_gemm gemm = mmci_gemm_tight(cases[t].dtype, MMCI_NATIVE, 9, 9, 9, MMC_OP_N, MMC_OP_N);
    gemm.variant = cases[t].variant;
    expect(on->ops->prepare(on->device, &gemm, &kernel, &error) == MMC_E_UNSUPPORTED,
           cases[t].what);
  }
  on->ops->release(NULL);
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"numbers stay", numbers_stay, true},
      {"facts and names", facts_and_names, false},
      {"refusals", refusals, true},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
