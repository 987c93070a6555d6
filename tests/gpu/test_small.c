/* test_small.c: the CUDA module's chains of small factors on a device: every variant, shape, form,
 * order and layout of a batch, as group_trials.h says. */
#include <stdlib.h>

#include "../group_trials.h"
#include "gpu_test.h"

enum { CHECKED = 6 };
/* Variants of the module. */
enum {
  VARIANT_ANY,
  VARIANT_STEPS,
  VARIANT_SPINES,
  VARIANT_FUSED,
  VARIANT_TENSOR,
  VARIANT_PACKS,
  VARIANT_SQUARES,
  VARIANT_TILES,
  VARIANT_RINGS,
  VARIANT_SIDES,
  VARIANT_VECTORS,
  VARIANT_PANELS,
  VARIANTS
};

/* ---- on the device ------------------------------------------------------------------------ */

static mmc_status move(const target *on, mmci_queue *queue, void *device, void *host, size_t bytes,
                       bool up, mmci_error *error) {
  const int64_t size = (int64_t)bytes;
  const mmci_transfer whole = {up ? device : host, up ? host : device, size, size, 1, size};
  return up ? on->ops->async->upload(queue, &whole, error)
            : on->ops->async->download(queue, &whole, error);
}

static bool stack_create(stack *x, const target *on, mmci_queue *queue, mmc_dtype dtype,
                         int64_t rows, int64_t cols, int64_t batch, mmci_form form, int shift) {
  mmci_error error = {0};
  void **table = malloc((size_t)batch * sizeof *table);
  if (!stack_lay_out(x, dtype, rows, cols, batch, form, shift) || table == NULL) {
    free(table);
    return expect(false, "out of memory");
  }
  mmc_status status = on->ops->alloc(on->device, x->bytes, &x->device, &error);
  if (status == MMC_OK && form.gathered) {
    for (int64_t i = 0; i < batch; i++) table[i] = address(x, i);
    status = on->ops->alloc(on->device, (size_t)batch * sizeof *table, &x->table, &error);
    if (status == MMC_OK)
      status = move(on, queue, x->table, table, (size_t)batch * sizeof *table, true, &error);
    if (status == MMC_OK) status = on->ops->sync(queue, &error);
  }
  free(table);
  return expect_ok(status, &error, "a stack of matrices");
}

static void stack_destroy(stack *x, const target *on) {
  free(x->host);
  on->ops->dealloc(on->device, x->device);
  on->ops->dealloc(on->device, x->table);
}

/* A tool that looks for races would tell of what lanes read beside matrices in rings and by side,
 * and of what is copied with vectors' matrices, whose values reach no result. */
static bool is_tried(const target *on, const mmci_group *group) {
  return !(on->race && (group->variant == VARIANT_RINGS || group->variant == VARIANT_SIDES ||
                        group->variant == VARIANT_VECTORS || group->variant == VARIANT_PANELS)) &&
         on->ops->group_supports(on->device, group);
}

/* ---- one trial --------------------------------------------------------------------------------
 */

typedef struct setup {
  stack operands[OPERANDS], c;
  mmci_group_kernel *kernel;
  const void *data[OPERANDS];
  void *result;
} setup;

static bool setup_create(setup *s, const trial *t, const target *on, mmci_queue *queue) {
  const mmci_group *group = &t->group;
  const int last = group->n + group->count - 1;
  uint64_t random = t->seed;
  mmci_error error = {0};
  memset(s, 0, sizeof *s);
  bool right = true;
  for (int i = 0; right && i < group->n; i++) {
    right = stack_create(&s->operands[i], on, queue, group->dtype, t->rows[i], t->cols[i],
                         group->batch, t->forms[i], t->shift[i]);
    if (!right) break;
    stack_fill(&s->operands[i], t->positive, &random);
    s->data[i] = t->forms[i].gathered
                     ? s->operands[i].table
                     : (unsigned char *)s->operands[i].device + s->operands[i].first;
  }
  const mmci_form form = {
      .ld = group->ldc, .stride = group->c_stride, .gathered = group->c_gathered};
  right = right && stack_create(&s->c, on, queue, group->dtype, t->rows[last], t->cols[last],
                                group->batch, form, t->shift[OPERANDS]);
  if (!right) return false;
  s->result = group->c_gathered ? s->c.table : (void *)((unsigned char *)s->c.device + s->c.first);
  return expect(on->ops->group_supports(on->device, group), "a chain is supported") &&
         expect_ok(on->ops->group_prepare(on->device, group, &s->kernel, &error), &error,
                   "group_prepare");
}

static void setup_destroy(setup *s, const target *on) {
  on->ops->group_release(s->kernel);
  for (int i = 0; i < OPERANDS; i++) stack_destroy(&s->operands[i], on);
  stack_destroy(&s->c, on);
}

static bool upload_all(setup *s, const trial *t, const target *on, mmci_queue *queue) {
  mmci_error error = {0};
  mmc_status status = MMC_OK;
  for (int i = 0; status == MMC_OK && i < t->group.n; i++)
    status = move(on, queue, s->operands[i].device, s->operands[i].host, s->operands[i].bytes, true,
                  &error);
  memset(s->c.host, 0xff, s->c.bytes);
  if (status == MMC_OK) status = move(on, queue, s->c.device, s->c.host, s->c.bytes, true, &error);
  return expect_ok(status, &error, "uploads");
}

static bool download_result(setup *s, const target *on, mmci_queue *queue) {
  mmci_error error = {0};
  mmc_status status = move(on, queue, s->c.device, s->c.host, s->c.bytes, false, &error);
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  return expect_ok(status, &error, "a chain");
}

static bool run_group(setup *s, const target *on, mmci_queue *queue, int times) {
  mmci_error error = {0};
  mmc_status status = MMC_OK;
  for (int k = 0; status == MMC_OK && k < times; k++)
    status = on->ops->group_enqueue(queue, s->kernel, s->data, s->result, &error);
  return expect_ok(status, &error, "group_enqueue");
}

static bool result_is_right(const setup *s, const trial *t) {
  const int64_t batch = t->group.batch;
  bool right = true;
  for (int64_t i = 0; right && i < batch; i++)
    if (batch <= CHECKED || i % (batch / (CHECKED - 1)) == 0 || i == batch - 1)
      right = group_is_right(t, s->operands, &s->c, i);
  return expect(right, "elements are right") &&
         expect(rest_is_left_alone(&s->c), "what is beside C is left alone");
}

static void try_group(const target *on, mmci_queue *queue, const trial *t) {
  setup *s = calloc(1, sizeof *s);
  if (s == NULL ||
      !(setup_create(s, t, on, queue) && upload_all(s, t, on, queue) &&
        run_group(s, on, queue, 1) && download_result(s, on, queue) && result_is_right(s, t)))
    describe_trial(t);
  if (s != NULL) setup_destroy(s, on);
  free(s);
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static trial t; /* too large for a stack */

static void expect_name(const target *on, const char *name) {
  const char *got = on->ops->group_name(on->device, &t.group);
  if (!expect(strcmp(got, name) == 0, name)) {
    printf("  it is \"%s\"\n", got);
    describe_trial(&t);
  }
}

/* Squares from left to right of the sizes that have kernels of their own, and others. */
static void test_equal(const target *on, mmci_queue *queue, uint64_t *random) {
  static const int64_t SIDES[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 33, 48, 64};
  static const int64_t BATCHES[] = {1, 2, 3, 33, 257, 1001};
  for (size_t k = 0; k < sizeof SIDES / sizeof *SIDES; k++)
    for (size_t b = 0; b < sizeof BATCHES / sizeof *BATCHES; b++) {
      if (on->small && (BATCHES[b] > 40 || (k + b) % 2 == 0)) continue;
      int64_t dims[12];
      for (int i = 0; i < 12; i++) dims[i] = SIDES[k];
      const int32_t n = 2 + (int32_t)random_below(random, 8);
      begin(&t, MMC_F32, n, BATCHES[b], random_bits(random));
      set_shapes(&t, dims);
      add_tree(&t, 0, n - 1, 0, random);
      finish_tight(&t);
      if (random_below(random, 3) == 0) t.forms[random_below(random, n)].stride = 0;
      const bool fast = SIDES[k] % 4 == 0 && SIDES[k] != 24 && SIDES[k] != 48 && n <= 8;
      if (BATCHES[b] > 1 && fast) t.group.variant = VARIANT_SQUARES;
      if (BATCHES[b] > 1 && !fast)
        t.group.variant = k % 2 == 0 ? VARIANT_STEPS : n <= 8 ? VARIANT_TILES : VARIANT_PACKS;
      try_group(on, queue, &t);
      t.shift[random_below(random, n)] = 1;
      try_group(on, queue, &t);
    }
}

/* Sizes from 1 to 128 in every dtype, order and layout. */
static void test_any(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  static const int64_t MOST[] = {5, 9, 20, 40, 70, 128};
  const int count = on->small ? 12 : 120;
  for (int k = 0; k < count; k++) {
    const int64_t most = MOST[k % (on->small ? 4 : 6)],
                  batch = k % 3 == 0 ? 1 : 1 + random_below(random, most > 40 ? 7 : 70);
    const int32_t n = 2 + (int32_t)random_below(random, 11);
    int64_t dims[16];
    for (int i = 0; i <= n; i++)
      dims[i] = random_below(random, 40) == 0 ? 0 : 1 + random_below(random, most);
    begin(&t, dtype, n, batch, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 2 % 4, random);
    finish_random(&t, random);
    /* Where the largest do not fit, saying so is right. */
    for (int variant = 0; variant < VARIANTS; variant++) {
      t.group.variant = variant;
      const bool must = most <= 40 && (variant == VARIANT_ANY || variant == VARIANT_STEPS);
      if (must || is_tried(on, &t.group)) try_group(on, queue, &t);
    }
  }
}

/* Very many chains of small matrices without gaps, several of which a warp takes. */
static void test_many(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  for (int k = 0; k < (on->small ? 4 : 24); k++) {
    const int64_t most = 2 + random_below(random, k % 2 == 0 ? 6 : 20);
    const int32_t n = 2 + (int32_t)random_below(random, k % 4 == 3 ? 18 : 5);
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = 1 + random_below(random, most);
    begin(&t, dtype, n, 1 + random_below(random, on->small ? 70 : 3000), random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 4, random);
    finish_tight(&t);
    if (k % 3 == 0) t.shift[random_below(random, n)] = 1;
    for (int variant = 0; variant < VARIANTS; variant++) {
      t.group.variant = variant;
      if (is_tried(on, &t.group)) try_group(on, queue, &t);
    }
  }
}

/* Every size to 129 by itself. */
static void test_sizes(const target *on, mmci_queue *queue, uint64_t *random) {
  for (int64_t side = 1; side <= 129; side += on->small ? 32 : 1) {
    const int64_t dims[] = {side, side, side, side};
    begin(&t, MMC_F32, 3, 2, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, (int)(side / 2 % 2), random);
    finish_random(&t, random);
    const bool can = on->ops->group_supports(on->device, &t.group);
    expect(can || side > 128, "sizes to 128 are supported");
    if (can) try_group(on, queue, &t);
    for (int i = 0; i < 3; i++)
      if (t.forms[i].trans) t.forms[i] = (mmci_form){.ld = side, .stride = side * side};
    t.group.variant = VARIANT_TILES;
    if (on->ops->group_supports(on->device, &t.group)) try_group(on, queue, &t);
    t.group.dtype = side % 2 == 0 ? MMC_F16 : MMC_BF16;
    t.group.variant = VARIANT_TENSOR;
    if (on->ops->group_supports(on->device, &t.group)) try_group(on, queue, &t);
  }
}

/* Batches without gaps that warps take in rounds: shapes at the edges of every size of tiles, any
 * trees, addresses and strides that are whole words or not. */
static void test_rings(const target *on, mmci_queue *queue, uint64_t *random) {
  static const int64_t MOST[] = {4, 16, 17, 20, 24, 30, 32, 33, 36, 40, 64};
  const int64_t kinds = sizeof MOST / sizeof *MOST;
  int taken = 0;
  for (int k = 0; k < (on->small ? 6 : 88); k++) {
    const int64_t most = MOST[k % kinds], unit = most % 4 == 0 ? 4 : most % 2 == 0 ? 2 : 1;
    const int32_t n = 2 + (int32_t)random_below(random, 4);
    int64_t dims[8];
    for (int i = 0; i <= n; i++)
      dims[i] = k % 2 == 0 ? most : unit * (1 + random_below(random, most / unit));
    begin(&t, MMC_F32, n, 1 + random_below(random, on->small ? 40 : 9000), random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 2 % 4, random);
    finish_tight(&t);
    if (k % 3 == 0) t.forms[random_below(random, n)].stride = 0;
    if (k % 5 == 0) t.group.c_stride += 1 + random_below(random, 5);
    if (k % 4 == 1) t.shift[random_below(random, n)] = 1 + (int)random_below(random, 3);
    if (k % 7 == 2) t.shift[OPERANDS] = 1;
    t.group.variant = VARIANT_RINGS;
    if (!is_tried(on, &t.group)) continue;
    taken++;
    try_group(on, queue, &t);
    t.group.variant = VARIANT_ANY;
    try_group(on, queue, &t);
  }
  printf("%d batches in rings\n", taken);
  if (taken == 0) return;
  const int64_t dims[] = {33, 31, 33, 31, 33};
  begin(&t, MMC_F32, 4, 10000, random_bits(random));
  set_shapes(&t, dims);
  add_tree(&t, 0, 3, 0, random);
  finish_tight(&t);
  expect_name(on, "chain in rings");
}

/* Squares in f32 of every side that is too large for other kernels of whole chains, or nearly. */
static void test_panels(const target *on, mmci_queue *queue, uint64_t *random) {
  const int64_t least = 65, most = 208;
  int taken = 0;
  for (int k = 0; k < (on->small ? 3 : 288); k++) {
    const int64_t side = on->small ? least + random_below(random, most - least + 1)
                                   : least + k % (most - least + 1),
                  many = on->small || k % 8 != 0 ? 9 : 600;
    draw_squares(&t, side, 2 + random_below(random, many), random);
    if (k % 3 == 0) t.group.precision = MMCI_REPRODUCIBLE;
    t.group.variant = VARIANT_PANELS;
    if (!is_tried(on, &t.group)) continue;
    taken++;
    try_group(on, queue, &t);
  }
  printf("%d batches by panels\n", taken);
  if (taken == 0) return;
  const int64_t dims[] = {200, 200, 200, 200, 200};
  begin(&t, MMC_F32, 4, 500, random_bits(random));
  set_shapes(&t, dims);
  add_tree(&t, 0, 3, 0, random);
  finish_tight(&t);
  expect_name(on, "chain by panels");
}

/* Squares of every side, of which some have a kernel of their own: batches of any size that can be
 * filled within a second, strides and addresses that are whole words or not. */
static void test_sides(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  const bool is_half = dtype == MMC_F16 || dtype == MMC_BF16,
             is_real = !mmci_dtype_is_complex(dtype);
  enum { FACTORS = 16 };
  const int LEAST = 2, MOST = is_half ? 64 : is_real ? 128 : 48;
  int taken = 0;
  const int rounds = on->small ? 10 : MOST > 48 ? 300 : 140;
  for (int k = 0; k < rounds; k++) {
    const int64_t side =
        on->small ? LEAST + random_below(random, MOST - LEAST + 1) : LEAST + k % (MOST - LEAST + 1);
    int64_t dims[FACTORS + 1];
    for (int i = 0; i <= FACTORS; i++) dims[i] = side;
    const int32_t n = 2 + (int32_t)random_below(random, k % 3 == 0 && side < 30 ? FACTORS - 1 : 3);
    const int64_t many = on->small || side > 64   ? 40
                         : side < 6 && k % 8 == 0 ? 40000
                         : k % 4 == 0             ? 9000
                                                  : 700,
                  room = (k % 4 == 0 ? 1 << 23 : 1 << 22) / (n * side * side),
                  most = many < room ? many : room;
    begin(&t, dtype, n, 2 + random_below(random, most), random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, 0, random);
    finish_tight(&t);
    if (k % 6 == 0) t.forms[random_below(random, n)].stride = 0;
    if (k % 7 == 0) t.group.c_stride += 8 * random_below(random, 5);
    t.group.variant = VARIANT_SIDES;
    if (!is_tried(on, &t.group)) continue;
    taken++;
    try_group(on, queue, &t);
    t.shift[random_below(random, n)] = 1 + (int)random_below(random, 3);
    if (k % 2 == 0) try_group(on, queue, &t);
  }
  printf("%d batches by side\n", taken);
  if (taken == 0) return;
  for (int64_t side = 5; side <= 33; side += 28) {
    const bool is_large = side == 33;
    if (is_large && !is_real) continue;
    const int64_t dims[] = {side, side, side, side, side};
    begin(&t, dtype, 4, 10000, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, 3, 0, random);
    finish_tight(&t);
    expect_name(on, !is_large                     ? "chain by lane"
                    : is_half || dtype == MMC_F64 ? "chain by strip"
                                                  : "chain by side");
  }
}

/* Rows and columns by matrices of any size, which chains of vectors take, or any kernel. */
static void test_vectors(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  enum { LEAST_BATCH = 66 }; /* of which half of the multiprocessors have a chain */
  static const int64_t MOST[] = {4, 17, 40, 64, 100, 200, 330, 700, 2000};
  const int kinds = sizeof MOST / sizeof *MOST;
  int taken = 0;
  for (int k = 0; k < (on->small ? 9 : 180); k++) {
    const int64_t most = MOST[k % kinds], room = on->small ? 0 : 3000000 / (most * most);
    draw_vectors(&t, dtype, most, LEAST_BATCH, LEAST_BATCH + room, random);
    t.group.variant = VARIANT_VECTORS;
    if (!is_tried(on, &t.group)) continue;
    taken++;
    try_group(on, queue, &t);
    t.group.variant = VARIANT_ANY;
    if (k % 4 == 0) try_group(on, queue, &t);
  }
  printf("%d batches of vectors\n", taken);
  if (taken == 0) return;
  const int64_t sides[] = {1, 200, 200, 200};
  begin_vectors(&t, sides, 3, 3000, true, dtype, random);
  expect_name(on, "chain of vectors");
}

/* x^power by squaring, and sums of shared products: results that several products read. */
static void test_shared(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  for (int k = 0; k < (on->small ? 4 : 24); k++) {
    const int64_t side = 1 + random_below(random, k % 2 == 0 ? 20 : 64);
    const int64_t dims[] = {side, side, side};
    begin(&t, dtype, 2, k % 4 == 1 ? 5 : 1, random_bits(random));
    set_shapes(&t, dims);
    int32_t x = 0, y = 1;
    for (int s = 0; s < 8; s++) {
      const int32_t z = add_product(&t, random_below(random, 2) == 0 ? x : y,
                                    random_below(random, 2) == 0 ? x : y);
      x = random_below(random, 2) == 0 ? x : y;
      y = z;
    }
    finish_random(&t, random);
    for (int variant = 0; variant < VARIANTS; variant++) {
      t.group.variant = variant;
      if (is_tried(on, &t.group)) try_group(on, queue, &t);
    }
  }
}

/* Few chains of few plain factors, in any order. */
static void test_alone(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  for (int k = 0; k < (on->small ? 8 : 100); k++) {
    const int32_t n = 2 + (int32_t)random_below(random, 7);
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = 1 + random_below(random, k % 4 == 0 ? 128 : 40);
    begin(&t, dtype, n, k % 3 == 0 ? 2 + random_below(random, 100) : 1, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 5 < 3 ? 3 : k % 5 - 3, random);
    if (k % 2 == 0)
      finish_tight(&t);
    else
      finish_random(&t, random);
    t.group.c_gathered = false;
    for (int i = 0; i < n; i++) {
      t.forms[i].gathered = false;
      if (!t.forms[i].trans) continue;
      t.forms[i].trans = false;
      t.forms[i].ld = t.cols[i] + random_below(random, 9);
      t.forms[i].stride = t.rows[i] * t.forms[i].ld;
    }
    if (on->ops->group_supports(on->device, &t.group)) try_group(on, queue, &t);
  }
}

/* One long chain, and batches of few. */
static void test_long(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  static const int64_t MOST[] = {32, 64, 128};
  for (int k = 0; k < (on->small ? 5 : 48); k++) {
    const int64_t most = MOST[k % 3];
    const int32_t n = on->small ? 2 + (int32_t)random_below(random, 9)
                                : 2 + (int32_t)random_below(random, k % 4 == 0 ? OPERANDS - 2 : 40);
    const bool equal = random_below(random, 2) == 0;
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = equal ? most : 1 + random_below(random, most);
    const int64_t batch = random_below(random, 2) == 0 ? 1 : 2 + random_below(random, 15);
    begin(&t, dtype, n, batch, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 3 % 4, random);
    if (k % 2 == 0)
      finish_tight(&t);
    else
      finish_random(&t, random);
    if (k % 8 == 2) t.shift[random_below(random, n)] = 1;
    t.group.variant = VARIANT_SPINES;
    if (expect(on->ops->group_supports(on->device, &t.group), "a long chain is supported"))
      try_group(on, queue, &t);
  }
}

/* Long chains go by spines while there are few of them; the choice is the model's for an H200. */
static void test_few(const target *on, mmci_queue *queue, uint64_t *random) {
  static const int64_t BATCHES[] = {1, 2, 8, 13, 100, 10000};
  int64_t dims[21];
  for (int i = 0; i < 21; i++) dims[i] = 20;
  for (int k = 0; k < 6; k++) {
    begin(&t, MMC_F32, 20, BATCHES[k], random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, 19, 0, random);
    finish_tight(&t);
    if (BATCHES[k] <= 13) expect_name(on, "chain in spines");
    if (BATCHES[k] == 10000)
      expect(strcmp(on->ops->group_name(on->device, &t.group), "chain in spines") != 0,
             "many long chains do not go by spines");
    if (BATCHES[k] <= 13 && !on->small) try_group(on, queue, &t);
  }
}

/* Runs of a few factors, their results in runs, and so on: many spines at several levels. */
static void test_levels(const target *on, mmci_queue *queue, mmc_dtype dtype, uint64_t *random) {
  for (int k = 0; k < (on->small ? 1 : 6); k++) {
    const int32_t n = on->small ? 40 : OPERANDS, radix = 2 + k;
    int32_t nodes[OPERANDS], count = n;
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++)
      dims[i] = k % 2 == 0 ? 64 : k == 3 ? 32 : 20 + random_below(random, 13);
    begin(&t, dtype, n, k % 2 == 0 ? 1 : 2 + k, random_bits(random));
    set_shapes(&t, dims);
    for (int i = 0; i < n; i++) nodes[i] = i;
    while (count > 1) {
      int32_t kept = 0;
      for (int32_t i = 0; i < count; i += radix) {
        int32_t x = nodes[i];
        for (int32_t j = i + 1; j < i + radix && j < count; j++) x = add_product(&t, x, nodes[j]);
        nodes[kept++] = x;
      }
      count = kept;
    }
    finish_tight(&t);
    t.group.variant = VARIANT_SPINES;
    try_group(on, queue, &t);
  }
}

/* A NaN in one chain of a batch reaches no other; an infinity stays one. */
static void test_not_finite(const target *on, mmci_queue *queue, uint64_t *random) {
  static const int64_t SIDES[] = {4, 8, 12, 16, 32, 64, 7, 13};
  static const int LAST_VARIANTS[] = {VARIANT_SPINES, VARIANT_STEPS, VARIANT_ANY, VARIANT_PACKS};
  setup *s = calloc(1, sizeof *s);
  if (s == NULL) return;
  for (int k = 0; k < 8; k++) {
    const int64_t a = SIDES[k], dims[] = {a, a, a, a};
    begin(&t, k % 3 == 2 ? MMC_F16 : MMC_F32, 3, 21, random_bits(random));
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, 0, random);
    finish_tight(&t);
    t.group.variant = k % 3 == 2              ? VARIANT_TENSOR
                      : k % 3 == 1 && a <= 32 ? VARIANT_PACKS
                                              : VARIANT_TILES;
    if (setup_create(s, &t, on, queue)) {
      for (int i = 0; i < 3; i++)
        element_write(t.group.dtype, s->operands[i].host + place(&s->operands[i], 10, a - 1, a - 1),
                      (element){NAN, 0});
      if (upload_all(s, &t, on, queue) && run_group(s, on, queue, 1) &&
          download_result(s, on, queue)) {
        bool right = isnan(stack_read(&s->c, 10, a - 1, a - 1).re);
        for (int64_t i = 0; i < 21; i++)
          right = right && (i == 10 || group_is_right(&t, s->operands, &s->c, i));
        if (!expect(right, "a NaN reaches no other chain")) describe_trial(&t);
      }
    }
    setup_destroy(s, on);
  }
  for (int k = 0; k < 8; k++) {
    const int64_t a = SIDES[k] + 1, dims[] = {a, a + 1, a, a + 2};
    begin(&t, k % 2 == 0 ? MMC_F32 : MMC_F64, 3, 1, random_bits(random));
    t.positive = true;
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, k / 2 % 2, random);
    finish_tight(&t);
    t.group.variant = LAST_VARIANTS[k % 4];
    if (setup_create(s, &t, on, queue)) {
      element_write(t.group.dtype, s->operands[2].host + place(&s->operands[2], 0, a - 1, 1),
                    (element){INFINITY, 0});
      if (upload_all(s, &t, on, queue) && run_group(s, on, queue, 1) &&
          download_result(s, on, queue)) {
        bool right = true;
        for (int64_t r = 0; r < a; r++)
          for (int64_t c = 0; c < a + 2; c++) {
            const double value = stack_read(&s->c, 0, r, c).re;
            right = right && (c == 1 ? isinf(value) && value > 0 : isfinite(value));
          }
        if (!expect(right, "an infinity reaches its column alone")) describe_trial(&t);
      }
    }
    setup_destroy(s, on);
  }
  free(s);
}

/* Many launches without a wait between, and graphs of them, launched again. */
static void test_again(const target *on, mmci_queue *queue, int variant, uint64_t *random) {
  const mmci_device_async *async = on->ops->async;
  mmci_error error = {0};
  setup *s = calloc(1, sizeof *s);
  if (s == NULL) return;
  const int64_t dims[] = {64, 64, 64, 64, 64, 64, 64, 64, 64};
  begin(&t, MMC_F32, 8, variant == VARIANT_SPINES ? 3 : 50, random_bits(random));
  set_shapes(&t, dims);
  add_tree(&t, 0, 7, variant == VARIANT_SPINES ? 2 : 0, random);
  finish_tight(&t);
  t.group.variant = variant;
  if (setup_create(s, &t, on, queue) && upload_all(s, &t, on, queue) &&
      run_group(s, on, queue, on->small ? 3 : 300) && download_result(s, on, queue) &&
      result_is_right(s, &t) && upload_all(s, &t, on, queue)) {
    mmci_graph *graph = NULL;
    mmc_status status = on->ops->sync(queue, &error);
    if (status == MMC_OK) status = async->capture_begin(queue, &error);
    if (status == MMC_OK) {
      run_group(s, on, queue, 3);
      status = async->capture_end(queue, &graph, &error);
    }
    for (int k = 0; status == MMC_OK && k < (on->small ? 2 : 20); k++)
      status = async->graph_launch(queue, graph, &error);
    if (expect_ok(status, &error, "a graph") && run_group(s, on, queue, 2) &&
        download_result(s, on, queue))
      result_is_right(s, &t);
    async->graph_destroy(graph);
  } else {
    describe_trial(&t);
  }
  setup_destroy(s, on);
  free(s);
}

/* Two such kernels at once, on two queues. */
static void test_beside(const target *on, mmci_queue *queue, uint64_t *random) {
  mmci_error error = {0};
  mmci_queue *other = NULL;
  setup *s = calloc(2, sizeof *s);
  if (s == NULL ||
      !expect_ok(on->ops->queue_open(on->device, &other, &error), &error, "queue_open")) {
    free(s);
    return;
  }
  int64_t dims[101];
  for (int i = 0; i <= 100; i++) dims[i] = 64;
  begin(&t, MMC_F32, 100, 1, random_bits(random));
  set_shapes(&t, dims);
  add_tree(&t, 0, 99, 2, random);
  finish_tight(&t);
  const bool first = setup_create(&s[0], &t, on, queue),
             second = setup_create(&s[1], &t, on, queue);
  bool right = first && second;
  right = right && upload_all(&s[0], &t, on, queue) && upload_all(&s[1], &t, on, queue) &&
          expect_ok(on->ops->sync(queue, &error), &error, "sync");
  for (int k = 0; right && k < (on->small ? 2 : 50); k++)
    right = run_group(&s[0], on, queue, 1) && run_group(&s[1], on, other, 1);
  right = right && download_result(&s[0], on, queue) && download_result(&s[1], on, other) &&
          result_is_right(&s[0], &t) && result_is_right(&s[1], &t);
  if (!right) describe_trial(&t);
  setup_destroy(&s[0], on);
  setup_destroy(&s[1], on);
  on->ops->queue_close(other);
  free(s);
}

/* Chains more than 2^31 elements apart. */
static void test_far(const target *on, mmci_queue *queue, int64_t side, uint64_t *random) {
  enum { MOST = 32 * 32 };
  const int64_t far = (INT64_C(1) << 31) + 64, words = side * side, dims[] = {side, side, side};
  const size_t bytes = (size_t)words * 4, apart = (size_t)far * 4;
  float a[2][MOST], b[2][MOST], got[2][MOST];
  char *far_a = NULL, *far_c = NULL, *near_b = NULL;
  mmci_error error = {0};
  for (int i = 0; i < 2; i++)
    for (int64_t w = 0; w < words; w++) {
      a[i][w] = (float)random_unit(random);
      b[i][w] = (float)random_unit(random);
    }
  begin(&t, MMC_F32, 2, 2, 0);
  set_shapes(&t, dims);
  add_product(&t, 0, 1);
  finish_tight(&t);
  t.forms[0].stride = t.group.c_stride = far;
  mmci_group_kernel *kernel = NULL;
  mmc_status status = on->ops->alloc(on->device, apart + bytes, (void **)&far_a, &error);
  if (status == MMC_OK) status = on->ops->alloc(on->device, apart + bytes, (void **)&far_c, &error);
  if (status == MMC_E_NOMEM) printf("skipped: no memory for a batch with large strides\n");
  const bool skipped = status == MMC_E_NOMEM;
  if (status == MMC_OK) status = on->ops->alloc(on->device, 2 * bytes, (void **)&near_b, &error);
  if (status == MMC_OK) status = on->ops->group_prepare(on->device, &t.group, &kernel, &error);
  for (size_t i = 0; i < 2 && status == MMC_OK; i++) {
    status = move(on, queue, far_a + i * apart, a[i], bytes, true, &error);
    if (status == MMC_OK) status = move(on, queue, near_b + i * bytes, b[i], bytes, true, &error);
  }
  const void *data[] = {far_a, near_b};
  if (status == MMC_OK) status = on->ops->group_enqueue(queue, kernel, data, far_c, &error);
  for (size_t i = 0; i < 2 && status == MMC_OK; i++)
    status = move(on, queue, far_c + i * apart, got[i], bytes, false, &error);
  if (status == MMC_OK) status = on->ops->sync(queue, &error);
  if (!skipped && expect_ok(status, &error, "chains far apart")) {
    bool right = true;
    for (int i = 0; i < 2; i++)
      for (int64_t w = 0; w < words; w++) {
        double sum = 0;
        for (int64_t d = 0; d < side; d++)
          sum += (double)a[i][w / side * side + d] * (double)b[i][d * side + w % side];
        right = right && fabs((double)got[i][w] - sum) <= 0x1p-20 * (double)side;
      }
    expect(right, "chains far apart are right");
  }
  on->ops->group_release(kernel);
  on->ops->dealloc(on->device, far_a);
  on->ops->dealloc(on->device, far_c);
  on->ops->dealloc(on->device, near_b);
}

/* Two products in one kernel, from the left and from the right: edges of tiles, any forms; also
 * without being asked for by a variant. */
static void test_fused(const target *on, mmci_queue *queue, mmc_dtype dtype, bool fast,
                       uint64_t *random) {
  static const int64_t WIDTHS[] = {1, 7, 15, 16, 17, 31, 32, 33, 63, 64},
                       WIDE[] = {65, 200, 256, 257, 368, 512, 513, 616, 1016, 1024};
  const bool has_wide = dtype == MMC_F32 && !fast;
  const int wide_count = !has_wide ? 0 : on->small ? 10 : 20;
  const int count = on->small ? 10 : 120;
  for (int k = 0; k < count + wide_count; k++) {
    const bool right = k % 2 == 1;
    const int64_t w = k < count ? WIDTHS[k % 10] : WIDE[k % 10],
                  rows = 1 + random_below(random, on->small || k >= count ? 150 : 700),
                  other = random_below(random, 20) == 0 ? 0 : 1 + random_below(random, 90);
    int64_t dims[] = {rows, other, w, 1 + random_below(random, 150)};
    if (right) {
      dims[0] = dims[3];
      dims[1] = w;
      dims[2] = other;
      dims[3] = rows;
    }
    begin(&t, dtype, 3, 1 + random_below(random, 3), random_bits(random));
    t.group.precision = fast ? MMCI_FAST : MMCI_NATIVE;
    t.group.variant = VARIANT_FUSED;
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, right ? 1 : 0, random);
    finish_random(&t, random);
    for (int i = 0; i < 3; i++) t.forms[i].gathered = t.forms[i].conj = false;
    t.group.c_gathered = false;
    try_group(on, queue, &t);
  }
  const int64_t tall[] = {3000, 13, 16, 11}, wide[] = {300, 200, 100, 300},
                wider[] = {300, 200, 1025, 300};
  begin(&t, dtype, 3, 1, random_bits(random));
  set_shapes(&t, tall);
  add_tree(&t, 0, 2, 0, random);
  finish_tight(&t);
  if (!fast) expect_name(on, dtype == MMC_F32 ? "fused left f32 64x16" : "fused left f64 32x16");
  if (!fast && !on->small) try_group(on, queue, &t);
  begin(&t, dtype, 3, 1, random_bits(random));
  t.group.precision = fast ? MMCI_FAST : MMCI_NATIVE;
  set_shapes(&t, has_wide ? wider : wide);
  add_tree(&t, 0, 2, 0, random);
  finish_tight(&t);
  expect(!on->ops->group_supports(on->device, &t.group), "what is too wide is not fused");
}

static int64_t up8(int64_t x) {
  return (x + 7) / 8 * 8;
}

/* Pairs of f16 or bf16 whose intermediate is in registers: edges of boxes, any forms in whole words
 * of 16 bytes. */
static void finish_words(uint64_t *random) {
  finish_random(&t, random);
  for (int i = 0; i < 3; i++) {
    mmci_form *f = &t.forms[i];
    const bool is_shared = f->stride == 0;
    f->gathered = f->conj = false;
    f->ld = up8(f->ld);
    f->stride = is_shared ? 0 : up8((f->trans ? t.cols[i] : t.rows[i]) * f->ld + f->stride % 20);
    t.shift[i] = 8 * (t.shift[i] % 2);
  }
  t.group.c_gathered = false;
  t.group.ldc = up8(t.group.ldc);
  t.group.c_stride = up8(t.rows[4] * t.group.ldc);
  t.shift[OPERANDS] = 0;
}

static void test_fused_half(const target *on, mmci_queue *queue, mmc_dtype dtype,
                            uint64_t *random) {
  static const int64_t WIDTHS[] = {1, 15, 16, 63, 64, 65, 100, 127, 128, 129, 200, 256};
  const int count = on->small ? 12 : 72;
  for (int k = 0; k < count; k++) {
    const bool right = k % 2 == 1;
    const int64_t w = WIDTHS[k % 12], rows = 1 + random_below(random, on->small ? 150 : 500),
                  other = 1 + random_below(random, k % 5 == 0 ? 400 : 140);
    int64_t dims[] = {rows, other, w, 1 + random_below(random, k % 7 == 0 ? 300 : 140)};
    if (right) {
      dims[0] = dims[3];
      dims[1] = w;
      dims[2] = other;
      dims[3] = rows;
    }
    begin(&t, dtype, 3, 1 + random_below(random, 3), random_bits(random));
    t.group.variant = VARIANT_FUSED;
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, right ? 1 : 0, random);
    finish_words(random);
    if (k == 0 && !on->ops->group_supports(on->device, &t.group)) return; /* not Hopper */
    try_group(on, queue, &t);
  }
  const int64_t tall[] = {40000, 64, 128, 72}, wide[] = {300, 200, 513, 300};
  /* Work enough for clusters whose groups of warps take turns, and what is too wide for one block.
   */
  static const struct {
    int64_t dims[4], batch;
    const char *name;
  } clusters[] = {{{300, 200, 256, 136}, 66, "256x256"},
                  {{270, 129, 130, 255}, 66, "256x256"},
                  {{150, 300, 270, 80}, 3, "512x256"},
                  {{700, 512, 490, 640}, 2, "512x256"}};
  for (int k = 0; k < (on->small ? 0 : 8); k++) {
    const int64_t *x = clusters[k / 2].dims, turned[] = {x[3], x[2], x[1], x[0]};
    begin(&t, dtype, 3, clusters[k / 2].batch, random_bits(random));
    t.group.variant = VARIANT_FUSED;
    set_shapes(&t, k % 2 == 0 ? x : turned);
    add_tree(&t, 0, 2, k % 2, random);
    finish_words(random);
    expect(strstr(on->ops->group_name(on->device, &t.group), clusters[k / 2].name) != NULL,
           "a kernel of clusters is chosen");
    try_group(on, queue, &t);
  }
  begin(&t, dtype, 3, 1, random_bits(random));
  set_shapes(&t, tall);
  add_tree(&t, 0, 2, 0, random);
  finish_tight(&t);
  expect_name(on, dtype == MMC_F16 ? "fused left f16 128x128" : "fused left bf16 128x128");
  if (!on->small) try_group(on, queue, &t);
  begin(&t, dtype, 3, 1, random_bits(random));
  t.group.variant = VARIANT_FUSED;
  set_shapes(&t, wide);
  add_tree(&t, 0, 2, 0, random);
  finish_tight(&t);
  t.forms[2].ld = t.group.ldc = 304;
  t.forms[1].ld = 520;
  expect(!on->ops->group_supports(on->device, &t.group), "what is too wide is not fused");
}

/* The same in TF32, where B and C must fit in shared memory; A alone needs whole words. */
static void test_fused_tf32(const target *on, mmci_queue *queue, uint64_t *random) {
  static const int64_t WIDTHS[] = {1, 31, 33, 64, 65, 100, 127, 128, 129, 200, 255, 256};
  const int count = on->small ? 12 : 72;
  for (int k = 0; k < count; k++) {
    const bool right = k % 2 == 1;
    const int64_t w = WIDTHS[k % 12], most = w > 128 ? 64 : 128,
                  rows = 1 + random_below(random, on->small ? 150 : 500);
    int64_t dims[] = {rows, 1 + random_below(random, most), w, 1 + random_below(random, most)};
    if (right) {
      const int64_t turned[] = {dims[3], dims[2], dims[1], dims[0]};
      memcpy(dims, turned, sizeof dims);
    }
    begin(&t, MMC_F32, 3, 1 + random_below(random, 3), random_bits(random));
    t.group.precision = MMCI_FAST;
    t.group.variant = VARIANT_FUSED;
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, right ? 1 : 0, random);
    finish_words(random);
    if (strstr(on->ops->group_name(on->device, &t.group), "wgmma") == NULL) {
      expect(k == 0, "TF32 by groups of warps"); /* the first one: not Hopper */
      return;
    }
    try_group(on, queue, &t);
  }
  const int64_t tall[] = {9000, 100, 128, 77};
  begin(&t, MMC_F32, 3, 1, random_bits(random));
  t.group.precision = MMCI_FAST;
  t.group.variant = VARIANT_FUSED;
  set_shapes(&t, tall);
  add_tree(&t, 0, 2, 0, random);
  finish_tight(&t);
  if (!on->small) try_group(on, queue, &t);
}

/* An infinity in a row of A reaches its row of D and no other, past no edge: columns of the
 * intermediate that are not there add no infinity times zero. */
static void test_fused_infinity(const target *on, mmci_queue *queue) {
  const int64_t dims[] = {200, 70, 90, 40};
  enum { ROW = 77 };
  setup *s = calloc(1, sizeof *s);
  begin(&t, MMC_BF16, 3, 1, 5);
  t.group.variant = VARIANT_FUSED;
  t.positive = true;
  set_shapes(&t, dims);
  t.forms[0].ld = 72;
  add_product(&t, 0, 1);
  add_product(&t, 3, 2);
  finish_tight(&t);
  t.forms[0].ld = 72;
  t.forms[1].ld = 96;
  if (s != NULL && on->ops->group_supports(on->device, &t.group) &&
      setup_create(s, &t, on, queue)) {
    element_write(MMC_BF16, s->operands[0].host + place(&s->operands[0], 0, ROW, 69),
                  (element){INFINITY, 0});
    if (upload_all(s, &t, on, queue) && run_group(s, on, queue, 1) &&
        download_result(s, on, queue)) {
      bool right = true;
      for (int64_t r = 0; r < dims[0]; r++)
        for (int64_t q = 0; q < dims[3]; q++) {
          const double x = stack_read(&s->c, 0, r, q).re;
          right = right && (r == ROW ? isinf(x) && x > 0 : isfinite(x));
        }
      expect(right, "an infinity stays in its row, and is one");
    }
  }
  if (s != NULL) setup_destroy(s, on);
  free(s);
}

/* What no kernel can do is said before. */
static void test_unsupported(const target *on) {
  const int64_t dims[] = {16, 16, 16};
  mmci_error error = {0};
  mmci_group_kernel *kernel = NULL;
  for (int k = 0; k < 5; k++) {
    begin(&t, MMC_F32, 2, 3, 1);
    set_shapes(&t, dims);
    if (k == 0) t.rows[0] = 129;
    add_product(&t, 0, 1);
    finish_tight(&t);
    if (k == 1) t.group.batch = 0;
    if (k == 2) t.group.variant = VARIANTS;
    if (k == 3) t.products[0].right = 2;
    if (k == 4) {
      t.group.variant = VARIANT_SPINES; /* for few products in all chains */
      t.group.batch = 10000;
    }
    expect(!on->ops->group_supports(on->device, &t.group), "supports says no");
    expect(on->ops->group_prepare(on->device, &t.group, &kernel, &error) == MMC_E_UNSUPPORTED &&
               kernel == NULL,
           "prepare says no");
  }
}

static void tests(const target *on) {
  mmci_queue *queue = NULL;
  mmci_error error = {0};
  uint64_t random = 20261121;
  if (!expect_ok(on->ops->queue_open(on->device, &queue, &error), &error, "queue_open")) return;
  test_unsupported(on);
  test_equal(on, queue, &random);
  test_sizes(on, queue, &random);
  test_rings(on, queue, &random);
  test_panels(on, queue, &random);
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    test_sides(on, queue, (mmc_dtype)dtype, &random);
    test_any(on, queue, (mmc_dtype)dtype, &random);
    test_many(on, queue, (mmc_dtype)dtype, &random);
    test_vectors(on, queue, (mmc_dtype)dtype, &random);
    test_shared(on, queue, (mmc_dtype)dtype, &random);
  }
  for (int dtype = MMC_F32; dtype <= MMC_F64; dtype++) {
    test_alone(on, queue, (mmc_dtype)dtype, &random);
    test_long(on, queue, (mmc_dtype)dtype, &random);
    test_levels(on, queue, (mmc_dtype)dtype, &random);
  }
  test_few(on, queue, &random);
  test_fused(on, queue, MMC_F32, false, &random);
  test_fused(on, queue, MMC_F64, false, &random);
  test_fused(on, queue, MMC_F32, true, &random);
  test_fused_half(on, queue, MMC_F16, &random);
  test_fused_half(on, queue, MMC_BF16, &random);
  test_fused_tf32(on, queue, &random);
  test_fused_infinity(on, queue);
  test_not_finite(on, queue, &random);
  for (int variant = VARIANT_ANY; variant <= VARIANT_SPINES; variant++)
    test_again(on, queue, variant, &random);
  if (!on->race) test_beside(on, queue, &random);
  if (!on->small) {
    test_far(on, queue, 16, &random);
    test_far(on, queue, 20, &random);
  }
  on->ops->queue_close(queue);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, tests);
}
