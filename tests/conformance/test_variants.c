/* test_variants.c: the products that a device computes in several ways, its variants, each by its
 * number.
 *
 * A kernel whose name tells its tile, as "large_tile 256x192 1x2", is run at the tile's edges. */
#include <inttypes.h>
#include <stdio.h>

#include "product_case.h"

static const uint64_t seed = 20261121;

/* Rows and columns of the tile that a kernel's name tells; false where it tells none. */
static bool tile_of(const char *name, int64_t *rows, int64_t *cols) {
  const char *space = strchr(name, ' ');
  return space != NULL && sscanf(space, " %" SCNd64 "x%" SCNd64, rows, cols) == 2 && *rows > 1 &&
         *cols > 1;
}

/* A case that lies so in memory that tuned kernels take it, or just not so. */
static product_case variant_case(mmc_dtype dtype, int variant, int64_t m, int64_t k, int64_t n,
                                 bool aligned, uint64_t *random) {
  product_case x = random_case(dtype, m, k, n, random);
  x.gemm.a = form_of((int)random_below(random, 2), m, k, 8);
  x.gemm.b = form_of((int)random_below(random, 2), k, n, 16);
  for (int o = 0; o < 3; o++) x.shifts[o] = aligned ? 0 : 1;
  x.gemm.variant = variant;
  return x;
}

/* Numbers stay what they are, so there may be fewer variants than numbers. */
static bool is_a_variant(const subject *on, const mmci_gemm *gemm) {
  mmci_kernel *kernel = NULL;
  mmci_error error = {0};
  const mmc_status status = on->ops->prepare(on->device, gemm, &kernel, &error);
  if (status == MMC_OK) on->ops->release(kernel);
  if (status != MMC_E_UNSUPPORTED) expect_ok(status, &error, "prepare");
  return status == MMC_OK;
}

static void try_variant(const subject *on, const product_case *x) {
  if (is_a_variant(on, &x->gemm)) try_product(on, x);
}

/* A number past the last is none, where there is anything to compute. */
static void test_no_variant(const subject *on, mmci_gemm gemm) {
  mmci_kernel *kernel = NULL;
  mmci_error error = {0};
  gemm.variant = on->ops->variants(on->device, &gemm) + 1;
  expect(
      on->ops->prepare(on->device, &gemm, &kernel, &error) == MMC_E_UNSUPPORTED && kernel == NULL,
      "a variant that is none is E_UNSUPPORTED");
}

/* Every variant that there is has a name, which no other has and the kernel has, too. */
static void test_names(const subject *on, mmc_dtype dtype, mmci_gemm gemm) {
  mmci_facts facts = {0};
  on->ops->facts(on->device, dtype, gemm.precision, &facts);
  const int count = on->ops->variants(on->device, &gemm);
  for (int v = 1; v <= count; v++) {
    const char *name = facts.variant_name != NULL ? facts.variant_name(dtype, v) : NULL;
    gemm.variant = v;
    expect(name != NULL, "a variant has a name");
    if (name == NULL || !is_a_variant(on, &gemm)) continue;
    expect(name[0] != '\0' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_. ") ==
                   strlen(name),
           "a variant's name has letters, digits, '_', '.' and blanks");
    expect(strcmp(on->ops->kernel_name(on->device, &gemm), name) == 0,
           "a variant is called as its kernel");
    for (int other = 1; other < v; other++)
      expect(strcmp(facts.variant_name(dtype, other), name) != 0, "no two variants share a name");
  }
  if (facts.variant_name == NULL) return;
  int named = 1;
  while (named < 1000 && facts.variant_name(dtype, named) != NULL) named++;
  expect(named > count && named < 1000, "names end");
}

/* Every number at a few shapes, in any precision. */
static void test_numbers(const subject *on, mmc_dtype dtype, uint64_t *random) {
  static const int64_t shapes[][3] = {
      {64, 64, 64}, {129, 300, 200}, {512, 520, 96}, {1, 40, 64}, {17, 0, 9}};
  for (size_t s = 0; s < (on->small ? 1 : sizeof shapes / sizeof *shapes); s++)
    for (int t = 0; t < 6; t++) {
      const int64_t *shape = shapes[s];
      product_case x = variant_case(dtype, 0, shape[0], shape[1], shape[2], t % 2 == 1, random);
      x.gemm.precision = (mmci_precision)(t / 2);
      const int count = on->ops->variants(on->device, &x.gemm);
      expect(count >= 0 && count <= 48 && (x.gemm.k > 0 || count == 0),
             "the count of variants is sound");
      if (x.gemm.k > 0) test_no_variant(on, x.gemm);
      test_names(on, dtype, x.gemm);
      for (x.gemm.variant = 1; x.gemm.variant <= count; x.gemm.variant++) try_variant(on, &x);
    }
}

/* Shapes around a tile's, and multiples of it. */
static void test_tile(const subject *on, mmc_dtype dtype, int variant, int64_t rows, int64_t cols,
                      uint64_t *random) {
  static const int64_t gaps[] = {0, 0, 4, 8, 1, 3, 17};
  const int64_t ms[] = {1, rows - 1, rows, rows + 1, 2 * rows + 3, 127, 31},
                ns[] = {1, cols - 1, cols, cols + 1, 2 * cols + 5, 131, 3},
                ks[] = {1, 2, 15, 16, 31, 32, 33, 64, 97, 257};
  for (int at = 0; at < 7 * 7 * 3; at++) {
    if (on->small && at % 33 != 3 * (variant % 11)) continue;
    const int64_t m = ms[at / 3 % 7], n = ns[at / 21],
                  k = ks[random_below(random, on->small ? 7 : 10)];
    product_case x = random_case(dtype, m, k, n, random);
    x.gemm.a = form_of((int)random_below(random, 2), m, k, gaps[random_below(random, 7)]);
    x.gemm.b = form_of((int)random_below(random, 2), k, n, gaps[random_below(random, 7)]);
    x.gemm.ldc = n + gaps[random_below(random, 7)];
    x.gemm.precision = MMCI_NATIVE;
    x.gemm.variant = variant;
    for (int o = 0; o < 3; o++)
      x.shifts[o] = random_below(random, 4) == 0 ? (int)random_below(random, 5) : 0;
    try_variant(on, &x);
  }
}

/* Forms without and with gaps that keep lines aligned. */
static void test_forms(const subject *on, mmc_dtype dtype, int variant, uint64_t *random) {
  const int64_t m = 132, k = on->small ? 36 : 92, n = 196;
  for (int form = 0; form < 16; form++) {
    product_case x = random_case(dtype, m, k, n, random);
    if (on->race ? form != 2 * variant % 16 : on->small && form % 3 != 0) continue;
    x.gemm.a = form_of(form % 2, m, k, form / 8 * 4);
    x.gemm.b = form_of(form / 2 % 2, k, n, form / 8 * 8);
    x.gemm.accumulate = form / 4 % 2 == 1;
    x.gemm.precision = MMCI_NATIVE;
    x.gemm.variant = variant;
    x.twice = true;
    for (int o = 0; o < 3; o++) x.shifts[o] = 0;
    try_variant(on, &x);
  }
}

/* Other values than ordinary ones, at a shape of several tiles. */
static void test_values(const subject *on, mmc_dtype dtype, int variant, uint64_t *random) {
  for (values values = POSITIVE; values < VALUES; values++) {
    product_case x = variant_case(dtype, variant, on->small ? 70 : 270, 85, 203, true, random);
    x.gemm.precision = MMCI_NATIVE;
    x.values = values;
    try_variant(on, &x);
  }
}

/* The variants whose names tell tiles. */
static void each_tile(const subject *on, mmc_dtype dtype, uint64_t *random) {
  mmci_gemm gemm = mmci_gemm_tight(dtype, MMCI_NATIVE, 64, 64, 64, MMC_OP_N, MMC_OP_N);
  const int count = on->ops->variants(on->device, &gemm);
  for (int v = 1; v <= count; v++) {
    int64_t rows, cols;
    gemm.variant = v;
    if (!is_a_variant(on, &gemm)) continue;
    const char *name = on->ops->kernel_name(on->device, &gemm);
    const bool tiled = tile_of(name, &rows, &cols);
    if (!on->race) test_values(on, dtype, v, random);
    if (!tiled) continue;
    test_forms(on, dtype, v, random);
    if (!on->race) test_tile(on, dtype, v, rows, cols, random);
    printf("%s %s: %d checks so far, %d failed\n", dtype_facts[dtype].name, name, checks, failures);
  }
}

static void numbers(const subject *on) {
  uint64_t random = seed;
  printf("seed %" PRIu64 "\n", seed);
  for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++)
    if (supports_dtype(on, dtype)) test_numbers(on, dtype, &random);
}

static void tiles(const subject *on) {
  uint64_t random = seed + 1;
  for (mmc_dtype dtype = MMC_F32; dtype <= MMC_BF16; dtype++)
    if (supports_dtype(on, dtype)) each_tile(on, dtype, &random);
}

/* Kernels come and go, and leave nothing. */
static void many_kernels(const subject *on) {
  mmci_error error = {0};
  mmc_status status = MMC_OK;
  uint64_t random = 3;
  for (int t = 0; t < 1000 && status == MMC_OK; t++) {
    const mmc_dtype dtype = (mmc_dtype)(t % DTYPES);
    mmci_gemm gemm = random_case(dtype, 64, 64, 64, &random).gemm;
    mmci_kernel *kernel = NULL;
    if (!supports_dtype(on, dtype)) continue;
    gemm.variant = t % (on->ops->variants(on->device, &gemm) + 1);
    status = on->ops->prepare(on->device, &gemm, &kernel, &error);
    if (status == MMC_OK) on->ops->release(kernel);
    if (status == MMC_E_UNSUPPORTED && gemm.variant > 0) status = MMC_OK;
  }
  expect_ok(status, &error, "many kernels");
}

int main(int argc, char **argv) {
  static const conformance_test tests[] = {
      {"numbers", numbers, false},
      {"tiles", tiles, true},
      {"many kernels", many_kernels, false},
      {.name = NULL},
  };
  return conformance_main(argc, argv, tests);
}
