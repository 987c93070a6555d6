/* test_chains.cpp: the CUDA module's kernels for chains of small factors, run by the CPU: every
 * thread of a block is a fiber, and the order in which they run is shuffled at every barrier. What
 * group.c chooses among on a device is asked for here by name: squares, general, single, spines,
 * packs, tensor, tiles, rings, sides, vectors and panels. Chains and what is expected of them:
 * group_trials.h. As blocks run one after another, the first draws all tickets of spines; none ever
 * waits for another.
 *
 *     test_chains [SEED] */
#include <algorithm>
#include <cmath>
#include <vector>

extern "C" {
#include "base/status.h"
}
#include "device/cuda/launch.cuh"

#include "device/cuda/elements.cuh"
#include "device/cuda/group/group.h"
#include "device/cuda/group/vector_chains.h"
extern "C" {
#include "device/cuda/model.h"
}

#include "../group_trials.h"
#include "../how_many.h"

enum Kind { SQUARES, GENERAL, SINGLE, SPINES, PACKS, TENSOR, TILES, RINGS, SIDES, VECTORS, PANELS };
static const char *const KINDS[] = {"squares", "general", "single", "spines",  "packs", "tensor",
                                    "tiles",   "rings",   "sides",  "vectors", "panels"};

static const mmci_group_limits LIMITS = {2, 223 * 1024, true, true, false};
static const mmci_group_limits HOPPER = {2, 223 * 1024, true, true, true};

static int failures = 0, checks = 0;
static uint64_t random_state;

static int64_t below(int64_t limit) {
  return random_below(&random_state, limit);
}

static bool expect(bool held, const char *what, const trial &t, Kind kind) {
  checks++;
  if (held) return true;
  failures++;
  printf("FAILED: %s, %s\n", KINDS[kind], what);
  describe_trial(&t);
  return false;
}

/* ---- one trial ------------------------------------------------------------------------------- */

/* A trial's matrices. The host's memory is the device's. */
struct Setup {
  std::vector<stack> operands;
  std::vector<std::vector<void *>> tables;
  std::vector<const void *> data;
  stack c;
  void *result;

  explicit Setup(const trial &t) {
    const mmci_group &group = t.group;
    const int last = group.n + group.count - 1;
    uint64_t random = t.seed;
    for (int i = 0; i < group.n; i++) {
      operands.push_back(lay_out(t, i, t.forms[i], t.shift[i]));
      stack_fill(&operands.back(), t.positive, &random);
      data.push_back(address_of(operands.back()));
    }
    mmci_form form = {};
    form.ld = group.ldc;
    form.stride = group.c_stride;
    form.gathered = group.c_gathered;
    c = lay_out(t, last, form, t.shift[OPERANDS]);
    result = address_of(c);
  }
  Setup(const Setup &) = delete;
  ~Setup() {
    for (stack &x : operands) free(x.host);
    free(c.host);
  }
  unsigned char *at(int operand, int64_t chain, int64_t row, int64_t col) {
    const stack &x = operands[(size_t)operand];
    return x.host + place(&x, chain, row, col);
  }

 private:
  static stack lay_out(const trial &t, int node, mmci_form form, int shift) {
    stack x;
    if (!stack_lay_out(&x, t.group.dtype, t.rows[node], t.cols[node], t.group.batch, form, shift))
      mmci_emulation_stop("out of memory");
    x.device = x.host;
    return x;
  }
  void *address_of(const stack &x) {
    if (!x.form.gathered) return x.host + x.first;
    tables.emplace_back();
    for (int64_t i = 0; i < x.batch; i++) tables.back().push_back(address(&x, i));
    return tables.back().data();
  }
};

static bool is_aligned(const void *address) {
  return (uintptr_t)address % 16 == 0;
}

static mmc_status run_squares(const trial &t, Setup &s, mmci_error *error) {
  mmci_squares squares = {};
  squares.n = t.group.n;
  squares.batch = t.group.batch;
  squares.c = (float *)s.result;
  squares.c_stride = t.group.c_stride;
  squares.in_order = t.group.precision == MMCI_REPRODUCIBLE;
  for (int i = 0; i < t.group.n; i++) {
    squares.data[i] = (const float *)s.data[(size_t)i];
    squares.stride[i] = t.forms[i].stride;
  }
  const mmc_status status = mmci_squares_prepare(t.rows[0], error);
  return status != MMC_OK ? status
                          : mmci_squares_launch(nullptr, &LIMITS, t.rows[0], &squares, error);
}

static mmc_status run_general(const mmci_general &plan, const trial &t, Setup &s,
                              mmci_error *error) {
  mmci_general general = plan;
  for (int l = 0; l < general.loads; l++) {
    mmci_general_load &load = general.load[l];
    load.data = s.data[load.operand];
    load.wide = load.wide && is_aligned(load.data);
  }
  general.c = s.result;
  const mmc_status status = mmci_general_prepare(t.group.dtype, &general, error);
  return status != MMC_OK ? status
                          : mmci_general_launch(nullptr, &LIMITS, t.group.dtype, &general, error);
}

static mmc_status run_single(const mmci_single &plan, const trial &t, Setup &s, mmci_error *error) {
  mmci_single single = plan;
  for (mmci_single_load &load : single.loads) {
    load.data = s.data[load.operand];
    load.wide = load.wide && is_aligned(load.data);
  }
  single.c = s.result;
  const mmc_status status = mmci_single_prepare(t.group.dtype, &single, error);
  return status != MMC_OK ? status
                          : mmci_single_launch(nullptr, &LIMITS, t.group.dtype, &single, error);
}

/* Twice: a launch leaves its counters to the next. */
static mmc_status run_spines(const mmci_group_limits &limits, const trial &t, Setup &s,
                             mmci_error *error) {
  mmci_spines *spines = nullptr;
  mmc_status status = mmci_spines_create(&limits, &t.group, &spines, error);
  for (int k = 0; k < 2 && status == MMC_OK; k++) {
    memset(s.c.host, 0xff, s.c.bytes);
    status = mmci_spines_launch(nullptr, &limits, spines, s.data.data(), s.result, error);
  }
  mmci_spines_destroy(spines);
  return status;
}

static mmc_status run_packs(const mmci_packs &plan, const trial &t, Setup &s, mmci_error *error) {
  mmci_packs packs = plan;
  for (int l = 0; l < packs.loads; l++) packs.load[l].data = s.data[packs.load[l].operand];
  packs.c = s.result;
  const mmc_status status = mmci_packs_prepare(t.group.dtype, &packs, error);
  return status != MMC_OK ? status
                          : mmci_packs_launch(nullptr, &LIMITS, t.group.dtype, &packs, error);
}

static mmc_status run_tensor(const mmci_tensor &plan, const trial &t, Setup &s, mmci_error *error) {
  mmci_tensor tensor = plan;
  mmci_tensor_bind(&tensor, s.data.data(), s.result);
  const mmc_status status = mmci_tensor_prepare(t.group.dtype, &tensor, error);
  return status != MMC_OK ? status
                          : mmci_tensor_launch(nullptr, &LIMITS, t.group.dtype, &tensor, error);
}

static mmc_status run_tiles(const mmci_tiles &plan, Setup &s, mmci_error *error) {
  mmci_tiles tiles = plan;
  mmci_tiles_bind(&tiles, s.data.data(), s.result);
  const mmc_status status = mmci_tiles_prepare(&tiles, error);
  return status != MMC_OK ? status : mmci_tiles_launch(nullptr, &LIMITS, &tiles, error);
}

/* Lays a chain out by one of the sizes that take it, which the seed says. */
static bool plan_rings(const mmci_group_limits *limits, const trial &t, int word, mmci_rings *out) {
  mmci_rings_size size;
  int sizes = 0;
  while (mmci_rings_size_of(sizes, &size)) sizes++;
  for (int i = 0; i < sizes; i++)
    if (mmci_rings_plan(limits, &t.group, word, (int)((t.seed + (unsigned)i) % (unsigned)sizes),
                        out))
      return true;
  return false;
}

static mmc_status run_rings(const mmci_rings &plan, const mmci_rings &any, Setup &s,
                            mmci_error *error) {
  mmci_rings rings = plan;
  if (!mmci_rings_bind(&rings, s.data.data(), s.result)) {
    rings = any;
    if (!mmci_rings_bind(&rings, s.data.data(), s.result))
      mmci_emulation_stop("rings of single elements take no address");
  }
  const mmc_status status = mmci_rings_prepare(&rings, error);
  return status != MMC_OK ? status : mmci_rings_launch(nullptr, &HOPPER, &rings, error);
}

static mmc_status run_sides(const mmci_sides &plan, Setup &s, mmci_error *error) {
  mmci_sides sides = plan;
  if (!mmci_sides_bind(&sides, s.data.data(), s.result))
    mmci_emulation_stop("sides take no such address");
  const mmc_status status = mmci_sides_prepare(&sides, error);
  return status != MMC_OK ? status : mmci_sides_launch(nullptr, &HOPPER, &sides, error);
}

static mmc_status run_vectors(const mmci_group_limits &limits, const mmci_vector_chain &plan,
                              const trial &t, Setup &s, mmci_error *error) {
  mmci_vector_chain vectors = plan;
  const mmc_status status = mmci_vector_chain_prepare(t.group.dtype, &vectors, error);
  mmci_vector_chain_bind(t.group.dtype, &vectors, s.data.data(), s.result);
  return status != MMC_OK
             ? status
             : mmci_vector_chain_launch(nullptr, &limits, t.group.dtype, &vectors, error);
}

static mmc_status run_panels(const mmci_panels &plan, Setup &s, mmci_error *error) {
  mmci_panels panels = plan;
  mmci_panels_bind(&panels, s.data.data(), s.result);
  const mmc_status status = mmci_panels_prepare(&HOPPER, &panels, error);
  return status != MMC_OK ? status : mmci_panels_launch(nullptr, &HOPPER, &panels, error);
}

/* Which kernel, and how it was laid out. */
struct Plan {
  Kind kind;
  mmci_group_limits limits;
  mmci_general general;
  mmci_single single;
  mmci_packs packs;
  mmci_tensor tensor;
  mmci_tiles tiles;
  mmci_rings rings, any_rings;
  mmci_sides sides;
  mmci_vector_chain vectors;
  mmci_panels panels;
  int tile; /* which one panels are tried by */

  /* False when the chain does not suit the kernel. */
  bool make(const trial &t, Kind kind_, const mmci_group_limits &limits_ = LIMITS) {
    kind = kind_;
    limits = limits_;
    return kind == SQUARES   ? mmci_squares_has(t.rows[0])
           : kind == GENERAL ? mmci_general_plan(&limits, &t.group, &general)
           : kind == SINGLE  ? mmci_single_plan(&limits, &t.group, &single)
           : kind == PACKS   ? mmci_packs_plan(&limits, &t.group, &packs)
           : kind == TENSOR  ? mmci_tensor_plan(&limits, &t.group, &tensor)
           : kind == TILES   ? mmci_tiles_plan(&t.group, &tiles)
           : kind == RINGS
               ? plan_rings(&HOPPER, t, 4, &rings) && plan_rings(&HOPPER, t, 1, &any_rings)
           : kind == SIDES   ? mmci_sides_plan(&HOPPER, &t.group, &sides)
           : kind == VECTORS ? mmci_vector_chain_plan(&limits, &t.group, &vectors)
           : kind == PANELS  ? mmci_panels_plan(&HOPPER, &t.group, tile, &panels)
                             : mmci_spines_can(&t.group);
  }
  mmc_status run(const trial &t, Setup &s, mmci_error *error) const {
    return kind == SQUARES   ? run_squares(t, s, error)
           : kind == GENERAL ? run_general(general, t, s, error)
           : kind == SINGLE  ? run_single(single, t, s, error)
           : kind == PACKS   ? run_packs(packs, t, s, error)
           : kind == TENSOR  ? run_tensor(tensor, t, s, error)
           : kind == TILES   ? run_tiles(tiles, s, error)
           : kind == RINGS   ? run_rings(rings, any_rings, s, error)
           : kind == SIDES   ? run_sides(sides, s, error)
           : kind == VECTORS ? run_vectors(limits, vectors, t, s, error)
           : kind == PANELS  ? run_panels(panels, s, error)
                             : run_spines(limits, t, s, error);
  }
};

static bool launch(const Plan &plan, const trial &t, Setup &s) {
  mmci_error error = {};
  mmci_emulation().seed = t.seed;
  const bool right =
      expect(plan.run(t, s, &error) == MMC_OK, "prepared and launched", t, plan.kind);
  if (!right) printf("  %s\n", error.text);
  return right;
}

static void try_plan(const Plan &plan, const trial &t) {
  Setup s(t);
  std::vector<std::vector<unsigned char>> before;
  for (const stack &x : s.operands) before.emplace_back(x.host, x.host + x.bytes);
  if (!launch(plan, t, s)) return;
  bool right = true, kept = true;
  for (int64_t i = 0; i < t.group.batch; i++)
    right = right && group_is_right(&t, s.operands.data(), &s.c, i);
  for (size_t i = 0; i < before.size(); i++)
    kept = kept && memcmp(before[i].data(), s.operands[i].host, before[i].size()) == 0;
  expect(right, "elements are right", t, plan.kind);
  expect(rest_is_left_alone(&s.c), "what is beside C is left alone", t, plan.kind);
  expect(kept, "operands are left alone", t, plan.kind);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static trial t; /* too large for a stack */
static Plan plan;

static void try_kind(Kind kind, const mmci_group_limits &limits = LIMITS) {
  if (expect(plan.make(t, kind, limits), "a plan", t, kind)) try_plan(plan, t);
}

static void begin_squares(int64_t side, int32_t n, int64_t batch, mmc_dtype dtype = MMC_F32) {
  std::vector<int64_t> dims((size_t)n + 1, side);
  begin(&t, dtype, n, batch, random_bits(&random_state));
  set_shapes(&t, dims.data());
  add_tree(&t, 0, n - 1, 0, &random_state);
  finish_tight(&t);
}

/* Sides that have kernels of their own; so many chains fill a block. */
static const struct {
  int64_t side, per_block;
} SQUARE_SIDES[] = {{4, 64}, {8, 32}, {12, 16}, {16, 4}, {32, 2}, {64, 1}};

static void test_squares() {
  for (const auto &x : SQUARE_SIDES)
    for (int64_t batch : {INT64_C(1), x.per_block - 1, x.per_block, 2 * x.per_block + 1,
                          x.per_block / 2 + below(3 * x.per_block)})
      for (int k = 0; k < 4; k++) {
        if (batch < 1) continue;
        /* Four factors have kernels of their own. */
        begin_squares(x.side, k % 2 == 0 ? 4 : 2 + (int32_t)below(7), batch);
        for (int i = 0; i < t.group.n; i++) {
          const int64_t kind = below(4);
          if (kind == 0) t.forms[i].stride += 4 * below(5);
          if (kind == 1) t.forms[i].stride = 0;
        }
        t.group.c_stride += below(2) * 4 * below(5);
        try_kind(SQUARES);
      }
  for (int64_t side : {3, 5, 20, 24, 48, 128})
    expect(!mmci_squares_has(side), "other sides have none", t, SQUARES);
  for (int64_t batch : {1, 2}) {
    begin_squares(32, 3, batch);
    expect(mmci_squares_side(&t.group) == (batch == 1 ? 0 : 32), "a chain alone is no batch", t,
           SQUARES);
  }
}

static bool is_half(mmc_dtype dtype) {
  return dtype == MMC_F16 || dtype == MMC_BF16;
}

/* Any shapes, forms and order in every dtype, and a product of zeros. */
static void test_general(mmc_dtype dtype) {
  static const int64_t MOST[] = {5, 9, 20, 40, 40, 90};
  for (int k = 0; k < 72; k++) {
    const int64_t most = MOST[k % 6], batch = k % 3 == 0 ? 1
                                                         : 1 + below(most > 40  ? 3
                                                                     : most > 9 ? 12
                                                                                : 40);
    const int32_t n = 2 + (int32_t)below(most > 20 ? 4 : 11);
    int64_t dims[16];
    for (int i = 0; i <= n; i++) dims[i] = i > 0 && i < n && below(30) == 0 ? 0 : 1 + below(most);
    begin(&t, dtype, n, batch, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 2 % 4, &random_state);
    finish_random(&t, &random_state);
    /* The largest do not always fit. */
    if (most <= 40 || plan.make(t, GENERAL)) try_kind(GENERAL);
    if (most <= 20 || plan.make(t, PACKS)) try_kind(PACKS);
    if (is_half(dtype)) try_kind(TENSOR);
  }
}

/* Sizes around multiples of what loads and tiles come in; all are 128 at most. */
static void test_edges(Kind kind, mmc_dtype even, mmc_dtype odd) {
  for (int64_t side : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 128}) {
    const int64_t dims[] = {side, side > 64 ? 9 : side, side, side > 64 ? 5 : side};
    begin(&t, side % 2 == 0 ? even : odd, 3, side > 64 ? 1 : 3, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, 2, (int)(side / 2 % 2), &random_state);
    finish_random(&t, &random_state);
    if (kind != PACKS || plan.make(t, PACKS)) try_kind(kind);
  }
}

static bool is_spread(const mmci_packs &packs) {
  bool any = false;
  for (int p = 0; p < packs.count; p++) any = any || packs.products[p].spread;
  return any;
}

/* Rows that are multiples of many banks, whose tiles are spread. */
static void test_spread(mmc_dtype dtype) {
  static const int64_t SIDES[] = {3, 8, 13, 16, 24, 32};
  int spread = 0;
  for (int k = 0; k < 24; k++) {
    const int32_t n = 2 + (int32_t)below(4);
    int64_t dims[8];
    for (int i = 0; i <= n; i++) dims[i] = SIDES[below(k % 2 == 0 ? 4 : 6)];
    begin(&t, dtype, n, 1 + below(40), random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 4, &random_state);
    if (k % 3 == 0)
      finish_random(&t, &random_state);
    else
      finish_tight(&t);
    if (!plan.make(t, PACKS)) continue;
    spread += is_spread(plan.packs);
    try_plan(plan, t);
  }
  expect(is_half(dtype) ? spread == 0 : spread >= 4, "tiles are spread", t, PACKS);
}

/* Very many chains of very small matrices without gaps, so that warps hold several, and the last
 * not as many. */
static void test_packs(mmc_dtype dtype) {
  for (int k = 0; k < 24; k++) {
    const int64_t most = 2 + k % 6;
    const int32_t n = 2 + (int32_t)below(k % 4 == 3 ? 18 : 4);
    int64_t dims[MMCI_PACKS_PRODUCTS + 2];
    for (int i = 0; i <= n; i++) dims[i] = 1 + below(most);
    begin(&t, dtype, n, 90 + below(300), random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 4, &random_state);
    finish_tight(&t);
    if (k % 3 == 0) t.shift[below(n)] = 1;
    mmci_group_limits limits = LIMITS;
    limits.multiprocessors = 1 + (int)below(3);
    try_kind(PACKS, limits);
  }
  for (int64_t side : {9, 21}) {
    begin_squares(side, 4, 5);
    t.group.dtype = dtype;
    try_kind(PACKS);
  }
}

/* Shapes in and at the edges of every square. */
static void test_tiles() {
  static const int64_t SIDES[] = {1, 3, 8, 23, 24, 25, 31, 32, 33, 39, 40, 41, 47, 48, 49, 64, 70};
  for (int64_t side : SIDES)
    for (int k = 0; k < 4; k++) {
      const int32_t n = 2 + (int32_t)below(k == 3 ? 7 : 3);
      int64_t dims[MMCI_TILES_FACTORS + 1];
      for (int i = 0; i <= n; i++)
        dims[i] = i > 0 && i < n && below(30) == 0 ? 0 : k % 2 == 0 ? side : 1 + below(side);
      begin(&t, MMC_F32, n, 1 + below(side > 48 ? 2 : 9), random_bits(&random_state));
      set_shapes(&t, dims);
      add_tree(&t, 0, n - 1, 0, &random_state);
      if (k < 2)
        finish_tight(&t);
      else
        finish_random(&t, &random_state);
      for (int i = 0; i < n; i++) {
        mmci_form &form = t.forms[i];
        if (form.trans) form.stride = t.rows[i] * (form.ld = t.cols[i] + below(3));
        form.trans = false;
      }
      if (k == 1) t.shift[below(n)] = 1 + (int)below(3);
      try_kind(TILES);
    }
  const int64_t dims[] = {128, 100, 128, 5, 128};
  begin(&t, MMC_F32, 4, 1, random_bits(&random_state));
  set_shapes(&t, dims);
  add_tree(&t, 0, 3, 0, &random_state);
  finish_tight(&t);
  try_kind(TILES);
  begin_squares(129, 3, 1);
  expect(!plan.make(t, TILES), "larger matrices have none", t, TILES);
}

/* Begins a chain of plain factors without gaps. */
static void begin_rings(const int64_t *dims, int32_t n, int64_t batch, int tree) {
  begin(&t, MMC_F32, n, batch, random_bits(&random_state));
  set_shapes(&t, dims);
  add_tree(&t, 0, n - 1, tree, &random_state);
  finish_tight(&t);
}

/* Every size of tiles and its edges, any trees, and addresses and strides that are whole words or
 * not; more chains than warps, so that slots are used again. */
static void test_rings() {
  int sizes[6] = {0};
  static const int64_t SIDES[] = {1,  2,  3,  7,  16, 17, 18, 20, 21,
                                  24, 29, 30, 32, 33, 36, 40, 48, 64};
  for (int64_t side : SIDES)
    for (int k = 0; k < 8; k++) {
      const int32_t n = 2 + (int32_t)below(k == 7 ? 7 : 3);
      const int64_t unit = side % 4 == 0 ? 4 : side % 2 == 0 ? 2 : 1;
      int64_t dims[MMCI_RINGS_FACTORS + 1];
      for (int i = 0; i <= n; i++) dims[i] = k % 2 == 0 ? side : unit * (1 + below(side / unit));
      begin_rings(dims, n, k == 0 ? 1 : 1 + below(side > 24 ? 60 : 150), k / 2);
      for (int i = 0; i < n; i++) {
        if (k < 3) continue;
        const int64_t kind = below(4);
        if (kind == 0) t.forms[i].stride = 0;
        if (kind == 1) t.forms[i].stride += k % 2 == 0 ? 4 * below(4) : below(9);
      }
      if (k >= 3 && below(3) == 0) t.group.c_stride += k % 2 == 0 ? 4 : 1 + below(5);
      if (k == 2 || k == 5) t.shift[below(n)] = 1 + (int)below(3);
      if (k == 1 || k == 6) t.shift[OPERANDS] = 1 + (int)below(3);
      if (!plan.make(t, RINGS)) continue;
      sizes[plan.rings.size]++;
      sizes[plan.any_rings.size]++;
      try_plan(plan, t);
    }
  static const int64_t MIXED[][5] = {{16, 64, 16, 64, 16}, {64, 8, 64, 8, 64}, {20, 31, 17, 44, 29},
                                     {64, 32, 64, 48, 64}, {5, 64, 3, 61, 40}, {22, 2, 30, 6, 18}};
  for (const auto &dims : MIXED)
    for (int tree = 0; tree < 3; tree++) {
      begin_rings(dims, 4, 40 + below(50), tree);
      try_kind(RINGS);
    }
  for (int size = 0; size < 6; size++) expect(sizes[size] > 0, "every size is taken", t, RINGS);
  /* A result of one row may have any leading dimension. */
  const int64_t flat[] = {1, 20, 31};
  begin_rings(flat, 2, 9, 0);
  t.group.ldc = 40;
  try_kind(RINGS);
  for (int k = 0; k < 9; k++) {
    const int64_t dims[] = {20, 20, k == 7 ? 65 : k == 8 ? 0 : 20, 20};
    begin_rings(dims, 3, 9, 0);
    if (k == 0) t.forms[1].trans = true;
    if (k == 1) t.forms[2].ld = 21;
    if (k == 2) t.forms[0].gathered = true;
    if (k == 3) t.group.ldc = 24;
    if (k == 4) t.group.c_gathered = true;
    if (k == 5) t.group.dtype = MMC_F64;
    if (k == 6) t.products[1].right = 1;
    expect(!plan.make(t, RINGS), "others have none", t, RINGS);
  }
  begin_squares(20, 3, 9);
  mmci_rings none;
  expect(!plan_rings(&LIMITS, t, 4, &none), "cards before Hopper have none", t, RINGS);
}

/* Draws a side that a kernel of sides.h takes in the order of k. */
static int64_t random_side(mmc_dtype dtype) {
  int count = 0;
  mmci_sides_size size = {};
  while (mmci_sides_size_of(dtype, count, &size)) count++;
  do (void)mmci_sides_size_of(dtype, (int)below(count), &size);
  while (size.way == MMCI_BY_STRIP);
  return size.side;
}

/* Every side; last units of any chains, more units than a block has, strides of any words, and
 * operands that all chains share. Of five such ways a short run takes one a side. */
static void test_sides(mmc_dtype dtype) {
  enum { WAYS = 5 };
  mmci_sides_size size;
  const int first = (int)below(WAYS);
  for (int number = 0; mmci_sides_size_of(dtype, number, &size); number++)
    for (int way = 0; way < how_many(1, size.side < 64 ? WAYS : 2); way++) {
      const int k = (first + number + way) % WAYS;
      const int64_t side = size.side,
                    more = side < 25   ? 90
                           : side < 40 ? 12
                                       : 4,
                    fewest =
                        size.way == MMCI_BY_LANE ? 2 + below(3 * size.chains) : 2 + k % size.chains,
                    word = size.way == MMCI_BY_STRIP ? 8 : 4;
      begin_squares(side, k == 0 ? 2 : 2 + (int32_t)below(k == 4 ? MMCI_SIDES_FACTORS - 1 : 3),
                    k < 3 ? fewest : 2 + below(more), dtype);
      const bool has_gaps = size.way == MMCI_BY_SIDE    ? side % 2 == 0
                            : size.way == MMCI_BY_STRIP ? side % 4 == 0
                                                        : false,
                 may_share = has_gaps || size.way != MMCI_BY_SIDE;
      for (int i = 0; i < t.group.n; i++) {
        const int64_t kind = below(4);
        if (kind == 0 && has_gaps) t.forms[i].stride += word * below(5);
        if (kind == 1 && may_share) t.forms[i].stride = 0;
      }
      if (has_gaps) t.group.c_stride += below(2) * word * below(5);
      try_kind(SIDES);
    }
}

static mmci_sides_way way_of(const mmci_sides &sides) {
  mmci_sides_size size = {};
  (void)mmci_sides_size_of(sides.dtype, sides.size, &size);
  return size.way;
}

static void test_no_sides() {
  for (int k = 0; k < 10; k++) {
    const int64_t side = k == 9 ? 60 : 24, dims[] = {k == 7 ? 16 : side, side, side, side};
    begin_rings(dims, 3, 9, 0);
    if (k == 0) t.forms[1].trans = true;
    if (k == 1) t.forms[2].ld = 28;
    if (k == 2) t.forms[0].gathered = true;
    if (k == 3) t.group.ldc = 28;
    if (k == 4) t.forms[1].stride += 2;
    if (k == 5) t.group.c_stride += 2;
    if (k == 6) t.products[1].right = 1;
    if (k == 8) t.group.batch = 1;
    if (k == 9) t.group.dtype = MMC_C128; /* of which there are none so large */
    expect(!plan.make(t, SIDES), "others have none", t, SIDES);
  }
  begin_squares(21, 3, 9);
  t.forms[2].stride = 0;
  expect(!plan.make(t, SIDES), "odd sides lie one behind the other", t, SIDES);
  for (int i = 0; i < 3; i++) t.forms[i].stride = 0;
  t.group.c_stride = 0;
  expect(plan.make(t, SIDES), "a plan knows no strides", t, SIDES);
  begin_squares(7, 3, 9, MMC_C64);
  t.forms[1].conj = true;
  expect(!plan.make(t, SIDES), "nothing is conjugated", t, SIDES);
  begin_squares(44, 3, 9, MMC_BF16);
  t.group.precision = MMCI_REPRODUCIBLE;
  expect(!plan.make(t, SIDES), "sums of 16 bits have another order", t, SIDES);
  begin_squares(7, 3, 9, MMC_BF16);
  expect(plan.make(t, SIDES) && way_of(plan.sides) == MMCI_BY_LANE, "16 bits by lane", t, SIDES);
  t.group.precision = MMCI_REPRODUCIBLE;
  expect(!plan.make(t, SIDES), "sums of lanes have another order", t, SIDES);
  begin_squares(44, 3, 9, MMC_F64);
  expect(plan.make(t, SIDES) && way_of(plan.sides) == MMCI_BY_STRIP, "tensor cores", t, SIDES);
  t.group.precision = MMCI_REPRODUCIBLE;
  expect(plan.make(t, SIDES) && way_of(plan.sides) == MMCI_BY_SIDE, "sums in the order of k", t,
         SIDES);
  begin_squares(70, 3, 9, MMC_F64);
  t.group.precision = MMCI_REPRODUCIBLE;
  expect(!plan.make(t, SIDES), "sums of tensor cores have another order", t, SIDES);
  begin_squares(7, 3, 9);
  t.forms[1].stride += 4;
  expect(!plan.make(t, SIDES), "small squares lie one behind the other", t, SIDES);
  begin_squares(24, 3, 9);
  expect(!mmci_sides_plan(&LIMITS, &t.group, &plan.sides), "cards before Hopper have none", t,
         SIDES);
  Setup s(t);
  expect(plan.make(t, SIDES) && mmci_sides_bind(&plan.sides, s.data.data(), s.result),
         "addresses of whole words", t, SIDES);
  s.data[1] = (const char *)s.data[1] + 8;
  expect(!mmci_sides_bind(&plan.sides, s.data.data(), s.result), "other addresses", t, SIDES);
}

/* Every tile, with the least and most sides that it is for, and any between; as many chains as
 * units, fewer, and more. Of three sides a short run takes one. */
static void test_panels() {
  enum { SIDES = 3 };
  mmci_panels_size size;
  const int first = (int)below(SIDES);
  for (plan.tile = 0; mmci_panels_size_of(plan.tile, &size); plan.tile++)
    for (int k = 0; k < how_many(1, SIDES); k++) {
      const int64_t most = size.tile * size.down, fewer = most - size.down + 1,
                    least = fewer < 49 ? 49 : fewer;
      const int kind = (first + plan.tile + k) % SIDES;
      int64_t side = kind == 0 ? least + below(most - least + 1) : kind == 1 ? most : least;
      if (side < 65 && side % 2 == 0) side--; /* even ones are for other kernels */
      draw_squares(&t, side, 2 + below(2 * size.units + 2), &random_state);
      if (below(3) == 0) t.group.precision = MMCI_REPRODUCIBLE;
      try_kind(PANELS);
    }
  plan.tile = plan.tile - 1; /* the largest */
  for (int64_t side : {47, 64, 209}) {
    begin_squares(side, 3, 9);
    for (int i = 0; mmci_panels_size_of(i, &size); i++)
      expect(!mmci_panels_plan(&HOPPER, &t.group, i, &plan.panels), "other sides have none", t,
             PANELS);
  }
  begin_squares(200, 3, 9);
  expect(plan.make(t, PANELS), "a plan", t, PANELS);
  expect(!mmci_panels_plan(&LIMITS, &t.group, plan.tile, &plan.panels),
         "cards before Hopper have none", t, PANELS);
  t.forms[1].trans = true;
  expect(!plan.make(t, PANELS), "transposed ones have none", t, PANELS);
  begin_squares(200, 3, 9, MMC_C64);
  expect(!plan.make(t, PANELS), "other dtypes have none", t, PANELS);
}

/* Rows and columns, by matrices stored either way: words of every size, lines that take threads of
 * every team in rounds, or lanes alone and together; more chains than teams, so that slots are used
 * again. */
static void test_vectors(mmc_dtype dtype) {
  static const int64_t MOST[] = {3, 9, 33, 60, 130, 270, 600, 1100};
  const int kinds = (int)(sizeof MOST / sizeof *MOST);
  int taken = 0, words[9] = {0}, teams[MMCI_VECTOR_WARPS + 1] = {0};
  for (int k = 0; k < how_many(48, 160); k++) {
    const int64_t most = MOST[k % kinds];
    const bool is_many = most <= 33 && k % 2 == 0; /* which teams of a warp each take */
    draw_vectors(&t, dtype, most, is_many ? 150 : 2, is_many ? 200 : 20, &random_state);
    mmci_group_limits limits = HOPPER;
    limits.multiprocessors = is_many ? 1 : 1 + (int)below(20);
    if (!plan.make(t, VECTORS, limits)) continue;
    taken++;
    words[plan.vectors.word]++;
    teams[plan.vectors.team]++;
    try_plan(plan, t);
  }
  const int word = 16 / (int)dtype_facts[dtype].size;
  expect(taken >= 16, "vectors are taken", t, VECTORS);
  expect(words[1] > 0 && words[word] > 0, "words of one element and of as many as fit", t, VECTORS);
  expect(teams[1] > 0 && teams[MMCI_VECTOR_WARPS] > 0, "teams of one warp and of all", t, VECTORS);
}

static void test_no_vectors() {
  const int64_t sides[] = {20, 30, 40, 50};
  for (int k = 0; k < 12; k++) {
    begin_vectors(&t, sides, 3, k == 0 ? 1 : 9, true, MMC_F32, &random_state);
    if (k == 1) t.forms[1].gathered = true;
    if (k == 2) t.forms[0].gathered = true;
    if (k == 3) t.group.c_gathered = true;
    if (k == 4) t.forms[1].ld++;
    if (k == 5) t.forms[1].stride = 0;
    if (k == 6) t.group.precision = MMCI_REPRODUCIBLE;
    if (k == 7) t.products[0].m = t.products[1].m = 2;
    if (k == 8) t.products[1].right = 1;
    if (k == 9) t.forms[0].trans = true, t.forms[0].ld = 2;
    if (k == 10) t.products[1].left = 0;
    if (k == 11) t.products[1].n = 100000; /* no slot has room for a line */
    expect(!plan.make(t, VECTORS, HOPPER), "others have none", t, VECTORS);
  }
  begin_vectors(&t, sides, 3, 9, false, MMC_F32, &random_state);
  expect(plan.make(t, VECTORS, HOPPER), "a column is taken", t, VECTORS);
  expect(!plan.make(t, VECTORS, LIMITS), "cards before Hopper have none", t, VECTORS);
  t.group.ldc = 2;
  expect(!plan.make(t, VECTORS, HOPPER), "a column with gaps is not", t, VECTORS);
  for (int i = 0; i < 3; i++) t.forms[i].stride = 0;
  t.group.ldc = 1;
  t.group.c_stride = 0;
  expect(plan.make(t, VECTORS, HOPPER), "a plan knows no strides", t, VECTORS);
}

/* Whole words of every size, where addresses allow them, and all operands in either form. */
static void test_tensor(mmc_dtype dtype) {
  for (int k = 0; k < 40; k++) {
    const int64_t unit = INT64_C(1) << k % 5, batch = 1 + below(k % 2 == 0 ? 9 : 1);
    const int32_t n = 2 + (int32_t)below(k % 4 == 3 ? 18 : 4);
    int64_t dims[MMCI_TENSOR_PRODUCTS + 2];
    for (int i = 0; i <= n; i++) dims[i] = unit * (1 + below((k % 7 == 6 ? 128 : 48) / unit));
    begin(&t, dtype, n, batch, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 4, &random_state);
    finish_tight(&t);
    for (int i = 0; i < n; i++)
      if (k % 3 == 1 && below(2) == 0) {
        t.forms[i].trans = true;
        t.forms[i].ld = t.rows[i];
      }
    if (k % 4 == 0) t.shift[below(n)] = 1 + (int)below(4);
    if (k % 5 == 0) t.shift[OPERANDS] = 1 + (int)below(4);
    if (plan.make(t, TENSOR)) try_plan(plan, t);
  }
  /* With little memory operands come a product before they are needed, and when they are. */
  for (int k = 0; k < 4; k++) {
    int64_t dims[6];
    for (int i = 0; i < 6; i++) dims[i] = 100 + below(29);
    begin(&t, dtype, 5, 1 + k % 2, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, 4, 0, &random_state);
    finish_random(&t, &random_state);
    if (!expect(plan.make(t, TENSOR), "a plan", t, TENSOR)) continue;
    expect(!plan.tensor.late && plan.tensor.loads_first < plan.tensor.loads, "loads ahead", t,
           TENSOR);
    try_plan(plan, t);
    mmci_group_limits tight = LIMITS;
    tight.shared_bytes = plan.tensor.arena_bytes - 16;
    if (expect(plan.make(t, TENSOR, tight) && plan.tensor.late, "late loads", t, TENSOR))
      try_plan(plan, t);
  }
  begin_squares(129, 3, 1);
  t.group.dtype = dtype;
  expect(!plan.make(t, TENSOR), "larger matrices have none", t, TENSOR);
}

/* Operands that come a product before they are needed, and when they are. */
static void test_hurry() {
  for (int k = 0; k < 8; k++) {
    const mmc_dtype dtype = k % 2 == 0 ? MMC_C128 : MMC_F64;
    const int64_t most = k % 2 == 0 ? 40 : 56;
    int64_t dims[6];
    for (int i = 0; i < 6; i++) dims[i] = most - below(9);
    begin(&t, dtype, 5, 1 + k / 4, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, 4, 0, &random_state);
    finish_random(&t, &random_state);
    expect(plan.make(t, GENERAL), "a plan", t, GENERAL);
    expect(!plan.general.late && plan.general.loads_first < plan.general.loads, "loads ahead", t,
           GENERAL);
    try_plan(plan, t);
    mmci_group_limits tight = LIMITS;
    tight.shared_bytes = plan.general.arena_bytes - 16;
    if (!expect(plan.make(t, GENERAL, tight) && plan.general.late, "late loads", t, GENERAL))
      continue;
    try_plan(plan, t);
  }
}

/* Results and operands that several products read. */
static void test_shared(mmc_dtype dtype) {
  for (int k = 0; k < 4; k++) {
    const int64_t side = 1 + below(k % 2 == 0 ? 20 : 40), dims[] = {side, side, side};
    begin(&t, dtype, 2, k == 1 ? 5 : 1, random_bits(&random_state));
    set_shapes(&t, dims);
    int32_t x = 0, y = 1;
    for (int s = 0; s < 7; s++) {
      const int32_t z = add_product(&t, below(2) == 0 ? x : y, below(2) == 0 ? x : y);
      x = below(2) == 0 ? x : y;
      y = z;
    }
    finish_random(&t, &random_state);
    try_kind(GENERAL);
    if (plan.make(t, PACKS)) try_plan(plan, t);
    if (plan.make(t, TENSOR)) try_plan(plan, t);
    if (plan.make(t, SINGLE)) try_plan(plan, t);
    if (plan.make(t, SPINES)) try_plan(plan, t);
  }
}

/* Plain operands of any leading dimension and alignment. */
static void test_single(mmc_dtype dtype) {
  for (int k = 0; k < 72; k++) {
    const int32_t n = 2 + (int32_t)below(7);
    int64_t dims[MMCI_SINGLE_WARPS + 1];
    for (int i = 0; i <= n; i++) dims[i] = 1 + below(k % 8 == 0 ? 128 : 40);
    begin(&t, dtype, n, k % 3 == 0 ? 2 + below(3) : 1, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k % 4, &random_state);
    finish_random(&t, &random_state);
    t.group.c_gathered = false;
    for (int i = 0; i < n; i++) {
      mmci_form &form = t.forms[i];
      form.trans = form.conj = form.gathered = false;
      form.ld = t.cols[i] + (k % 2 == 0 ? 0 : below(9));
      if (form.stride != 0) form.stride = t.rows[i] * form.ld + below(2) * below(9);
    }
    mmci_group_limits limits = LIMITS;
    limits.multiprocessors = 4;
    /* Some are too large together. */
    if (expect(plan.make(t, SINGLE, limits) || k % 8 == 0, "a plan", t, SINGLE) &&
        plan.make(t, SINGLE, limits))
      try_plan(plan, t);
    t.group.batch = 5;
    expect(!plan.make(t, SINGLE, limits), "more chains than multiprocessors have none", t, SINGLE);
  }
}

/* Spines of few rows, tiles and squares, as many multiprocessors share them; many operands, whose
 * addresses come in every form. */
static void test_spines(mmc_dtype dtype) {
  for (int k = 0; k < 24; k++) {
    const int64_t most = INT64_C(32) << k % 3;
    const int32_t n = 2 + (int32_t)below(k % 10 == 9 ? OPERANDS / 2 : 400 / most);
    const bool equal = k % 10 == 9 || below(2) == 0;
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = equal ? (k % 10 == 9 ? 8 : most) : 1 + below(most);
    begin(&t, dtype, n, 1, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 3 % 4, &random_state);
    if (k % 2 == 0)
      finish_tight(&t);
    else
      finish_random(&t, &random_state);
    if (k % 8 == 2) t.shift[below(n)] = 1;
    mmci_group_limits limits = LIMITS;
    limits.multiprocessors = 1 << below(8);
    try_kind(SPINES, limits);
  }
  /* Whole squares, each by a multiprocessor or, when there are more, by half of one. */
  for (int64_t side : {32, 64})
    for (int count : {1, 2}) {
      const std::vector<int64_t> dims(13, side);
      begin(&t, dtype, 12, 1, random_bits(&random_state));
      set_shapes(&t, dims.data());
      add_tree(&t, 0, 11, 2, &random_state);
      finish_tight(&t);
      mmci_group_limits limits = LIMITS;
      limits.multiprocessors = count;
      try_kind(SPINES, limits);
    }
  expect(mmci_emulation().memory.empty(), "memory is released", t, SPINES);
}

/* Batches whose chains are cut alike: single spines whose operands travel with the launch or lie in
 * records, several that wait for each other, forms with gaps, shared, transposed and gathered. */
static void test_spine_batches(mmc_dtype dtype) {
  for (int k = 0; k < 32; k++) {
    const int64_t most = INT64_C(32) << (k % 8 == 7 ? 2 : k % 2),
                  batch = 2 + below(k % 4 == 0 ? 9 : 3);
    const int32_t n = 2 + (int32_t)below(k % 6 == 5 ? 40 : 240 / most);
    const bool equal = k % 6 == 5 || below(2) == 0;
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = equal ? (k % 6 == 5 ? 8 : most) : 1 + below(most);
    begin(&t, dtype, n, batch, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 2 % 4, &random_state);
    if (k % 3 == 0) {
      finish_random(&t, &random_state);
    } else {
      finish_tight(&t);
      if (k % 3 == 1) t.forms[below(n)].stride += 1 + below(4);
      if (k % 6 == 1) t.forms[below(n)].stride = 0;
      if (k % 6 == 2) t.group.c_stride += 1 + below(8);
    }
    mmci_group_limits limits = LIMITS;
    limits.multiprocessors = 1 << below(8);
    try_kind(SPINES, limits);
  }
  t.group.batch = 1 << 20;
  expect(!plan.make(t, SPINES), "too many products have none", t, SPINES);
  /* Whole squares, each by a multiprocessor or, when there are more, by half of one. */
  for (int64_t side : {32, 64})
    for (int count : {1, 6, 100})
      for (int tree : {0, 2}) {
        const std::vector<int64_t> dims(7, side);
        begin(&t, dtype, 6, 3, random_bits(&random_state));
        set_shapes(&t, dims.data());
        add_tree(&t, 0, 5, tree, &random_state);
        finish_tight(&t);
        t.group.c_stride += 8;
        mmci_group_limits limits = LIMITS;
        limits.multiprocessors = count;
        try_kind(SPINES, limits);
      }
  expect(mmci_emulation().memory.empty(), "memory is released", t, SPINES);
}

/* A batch by spines, or alone, is predicted to take no less than one chain, and no more than so
 * many times as long. Long chains are for spines when there are few, not when there are many. */
static void test_predictions(mmc_dtype dtype) {
  const mmci_cuda_model *model = mmci_cuda_model_of("NVIDIA H200");
  mmci_group_limits limits = HOPPER;
  limits.multiprocessors = 132;
  std::vector<double> done(NODES);
  for (int k = 0; k < 60; k++) {
    const int32_t n = k < 30 ? 3 + (int32_t)below(6) : 9 + (int32_t)below(60);
    const int64_t most = 4 + below(125);
    int64_t dims[OPERANDS + 1];
    for (int i = 0; i <= n; i++) dims[i] = k % 2 == 0 ? most : 1 + below(most);
    begin(&t, dtype, n, 1, random_bits(&random_state));
    set_shapes(&t, dims);
    add_tree(&t, 0, n - 1, k / 2 % 4, &random_state);
    finish_tight(&t);
    double one[2] = {0, 0};
    for (int64_t batch : {1, 2, 3, 8, 13, 40, 100, 132, 264}) {
      t.group.batch = batch;
      const bool can[] = {mmci_spines_can(&t.group), plan.make(t, SINGLE, limits)};
      for (int s = 0; s < 2; s++) {
        if (!can[s]) continue;
        const double us = s == 0 ? mmci_cuda_model_spines_us(model, &limits, &t.group, done.data())
                                 : mmci_cuda_model_single_us(model, &t.group, &plan.single);
        if (batch == 1) one[s] = us;
        const Kind kind = s == 0 ? SPINES : SINGLE;
        expect(us >= one[s] * 0.999, "a batch takes no less than one chain", t, kind);
        expect(us <= (double)batch * one[s] * 1.001, "a batch takes no more than its chains", t,
               kind);
      }
    }
  }
  const std::vector<int64_t> dims(21, 20);
  begin(&t, dtype, 20, 1, 1);
  set_shapes(&t, dims.data());
  add_tree(&t, 0, 19, 0, &random_state);
  finish_tight(&t);
  for (int64_t batch : {1, 2, 8, 13, 100, 10000}) {
    t.group.batch = batch;
    expect(mmci_spines_can(&t.group) == (batch <= 100), "only few chains go by spines", t, SPINES);
  }
}

/* A NaN in one chain of a batch reaches no other. */
static void test_nan(Kind kind, int64_t side, mmc_dtype dtype) {
  begin_squares(side, 3, 21);
  t.group.dtype = dtype;
  if (!expect(plan.make(t, kind), "a plan", t, kind)) return;
  const int64_t marked = below(21);
  Setup s(t);
  for (int i = 0; i < 3; i++) element_write(dtype, s.at(i, marked, side - 1, side - 1), {NAN, 0});
  if (!launch(plan, t, s)) return;
  bool right = isnan(stack_read(&s.c, marked, side - 1, side - 1).re);
  for (int64_t i = 0; i < 21; i++)
    right = right && (i == marked || group_is_right(&t, s.operands.data(), &s.c, i));
  expect(right, "a NaN reaches no other chain", t, kind);
  expect(rest_is_left_alone(&s.c), "what is beside C is left alone", t, kind);
}

/* An infinity of the first operand stays in its row, one of the last in its column, whatever lies
 * beside the matrices in shared memory. */
static void test_infinity(Kind kind, int64_t side, mmc_dtype dtype, int tree, bool in_row) {
  const int64_t dims[] = {side, side + 1, side, side + 2};
  begin(&t, dtype, 3, 1, random_bits(&random_state));
  t.positive = true;
  set_shapes(&t, dims);
  add_tree(&t, 0, 2, tree, &random_state);
  finish_tight(&t);
  if (!expect(plan.make(t, kind), "a plan", t, kind)) return;
  Setup s(t);
  element_write(dtype, in_row ? s.at(0, 0, 1, side) : s.at(2, 0, side - 1, 1), {INFINITY, 0});
  if (!launch(plan, t, s)) return;
  bool right = true;
  for (int64_t r = 0; r < side; r++)
    for (int64_t c = 0; c < side + 2; c++) {
      const double value = stack_read(&s.c, 0, r, c).re;
      right = right && ((in_row ? r : c) == 1 ? isinf(value) && value > 0 : isfinite(value));
    }
  expect(right, "an infinity reaches its line alone", t, kind);
}

static void test_not_finite() {
  for (const auto &x : SQUARE_SIDES) test_nan(SQUARES, x.side, MMC_F32);
  for (int64_t side : {5, 24, 33, 48, 50}) test_nan(TILES, side, MMC_F32);
  for (int64_t side : {5, 16, 22, 30, 32, 33}) test_nan(RINGS, side, MMC_F32);
  for (int64_t side : {14, 21, 24, 31, 44, 52, 100}) test_nan(SIDES, side, MMC_F32);
  for (int64_t side : {9, 16, 21, 31, 44}) test_nan(SIDES, side, MMC_F64);
  for (int64_t side : {7, 17, 21, 30, 44}) test_nan(SIDES, side, MMC_C64);
  for (int64_t side : {14, 16, 17, 23, 24, 30, 38, 44, 49, 52, 63})
    test_nan(SIDES, side, side % 2 == 0 ? MMC_F16 : MMC_BF16);
  for (int64_t side : {5, 32, 33, 64})
    for (mmc_dtype dtype : {MMC_F32, MMC_F64}) test_nan(SPINES, side, dtype);
  for (int64_t side : {5, 22, 33, 45, 50})
    for (int k = 0; k < 2; k++) test_infinity(TILES, side, MMC_F32, 0, k == 0);
  for (int64_t side : {5, 18, 22, 27, 33})
    for (int k = 0; k < 4; k++) test_infinity(RINGS, side, MMC_F32, k / 2, k % 2 == 0);
  for (int dtype = 0; dtype < DTYPES; dtype++)
    for (Kind kind : {GENERAL, PACKS}) test_nan(kind, 1 + below(20), (mmc_dtype)dtype);
  for (mmc_dtype dtype : {MMC_F16, MMC_BF16}) test_nan(TENSOR, 1 + below(40), dtype);
  for (int64_t side : {2, 15, 17, 31})
    for (int k = 0; k < 8; k++)
      test_infinity(TENSOR, side, k / 4 == 0 ? MMC_F16 : MMC_BF16, k % 2, k / 2 % 2 == 1);
  for (int64_t side : {2, 5, 8, 15})
    for (int k = 0; k < 8; k++)
      for (Kind kind : {GENERAL, SINGLE, SPINES, PACKS})
        test_infinity(kind, side, k / 4 == 0 ? MMC_F32 : MMC_F64, k % 2, k / 2 % 2 == 1);
}

/* Each call of the runtime fails once, which is said. */
static void test_failures() {
  for (Kind kind : {SQUARES, GENERAL, SINGLE, SPINES, PACKS, TENSOR, TILES, RINGS, SIDES}) {
    begin_squares(kind == RINGS ? 32 : kind == SIDES ? 44 : 64, 3, 2);
    if (kind == TENSOR) t.group.dtype = MMC_F16;
    if (!expect(plan.make(t, kind), "a plan", t, kind)) continue;
    mmci_emulation_machine &m = mmci_emulation();
    long calls = 1;
    for (long k = -1; k < calls; k++) {
      mmci_error error = {};
      Setup s(t);
      m.shared_most.clear();
      m.calls = 0;
      m.fail_call = k;
      const mmc_status status = plan.run(t, s, &error);
      m.fail_call = -1;
      if (k < 0) calls = m.calls;
      expect((status == MMC_OK) == (k < 0) && (k < 0 || error.text[0] != '\0'),
             "a call that fails is told", t, kind);
      expect(m.memory.empty(), "memory is released", t, kind);
    }
  }
}

/* ---- reproducible sums ------------------------------------------------------------------------
 */

/* Zeros of both signs, denormal and huge numbers; then infinity and what is no number. */
enum { ODD = 8, ODD_FINITE = 6 };
template <typename Real>
static Real odd_number(int64_t i) {
  static const double ODDS[ODD] = {0.0, -0.0, 1e-310, -1e-41, 3e38, 1e-30, HUGE_VAL, (double)NAN};
  return (Real)ODDS[i];
}
template <>
uint16_t odd_number<uint16_t>(int64_t i) {
  static const uint16_t ODDS[ODD] = {0, 0x8000, 1, 0x8003, 0x7b00, 0x0400, 0x7c00, 0x7e01};
  return ODDS[i];
}

/* The parts that an element has: Real numbers, or bits of 16. */
template <typename Element>
struct Parts {
  typedef decltype(Element::Sum::re) Real;
};
template <typename Number>
struct Parts<mmci_real_element<Number>> {
  typedef Number Real;
};
template <>
struct Parts<mmci_f16_element> {
  typedef uint16_t Real;
};
template <>
struct Parts<mmci_bf16_element> {
  typedef uint16_t Real;
};

/* Lets some parts of elements be odd numbers. */
template <typename Element>
static void make_odd(Setup &s, const trial &t) {
  typedef typename Parts<Element>::Real Real;
  for (int i = 0; i < t.group.n; i++)
    for (int64_t chain = 0; chain < t.group.batch; chain++)
      for (int64_t e = 0; e < t.rows[i] * t.cols[i]; e++) {
        const bool finite = chain % 3 != 0;
        if (below(30) != 0) continue;
        const Real value = odd_number<Real>(below(finite ? ODD_FINITE : ODD));
        const int64_t part = below(sizeof(typename Element::Stored) / sizeof(Real));
        memcpy(s.at(i, chain, e / t.cols[i], e % t.cols[i]) + (size_t)part * sizeof value, &value,
               sizeof value);
      }
}

/* What the sum over k of a[k] b[k * step] is, by definition. */
template <typename Element, typename Real>
static Real sum_in_order(const Real *a, const Real *b, int64_t step, int64_t k) {
  enum { AT_ONCE = 16 }; /* terms that tensor cores add up */
  Real sum = 0;
  for (int64_t i = 0; i < k && sizeof(typename Element::Stored) > 2; i++)
    sum = std::fma(a[i], b[i * step], sum);
  for (int64_t i = 0; i < k && sizeof(typename Element::Stored) == 2; i += AT_ONCE) {
    double all = (double)sum;
    for (int64_t e = i; e < i + AT_ONCE && e < k; e++) all += (double)a[e] * (double)b[e * step];
    sum = (Real)all;
  }
  return sum;
}
template <typename Element, typename Real>
static mmci_complex<Real> sum_in_order(const mmci_complex<Real> *a, const mmci_complex<Real> *b,
                                       int64_t step, int64_t k) {
  mmci_complex<Real> sum = {0, 0};
  for (int64_t i = 0; i < k; i++) {
    const mmci_complex<Real> x = a[i], y = b[i * step];
    sum.re = std::fma(-x.im, y.im, std::fma(x.re, y.re, sum.re));
    sum.im = std::fma(x.im, y.re, std::fma(x.re, y.im, sum.im));
  }
  return sum;
}

template <typename Element>
static typename Element::Stored settled(typename Element::Sum sum) {
  if constexpr (sizeof(typename Element::Stored) == 2) {
    const typename Element::Stored x = Element::write(sum);
    return sum != sum ? Element::QUIET : (x & 0x7fff) == 0 ? (uint16_t)0 : x;
  } else {
    return mmci_settled(sum);
  }
}

/* Compares a chain's result bit by bit with what is defined. */
template <typename Element>
static bool is_in_order(Setup &s, const trial &t, int64_t chain) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  std::vector<std::vector<Sum>> nodes;
  for (int i = 0; i < t.group.n; i++) {
    nodes.emplace_back();
    for (int64_t e = 0; e < t.rows[i] * t.cols[i]; e++) {
      Stored x;
      memcpy(&x, s.at(i, chain, e / t.cols[i], e % t.cols[i]), sizeof x);
      nodes.back().push_back(Element::read(x, t.forms[i].conj));
    }
  }
  const int last = t.group.count - 1;
  bool same = true;
  for (int p = 0; p <= last; p++) {
    const mmci_group_product &x = t.products[p];
    const Sum *a = nodes[(size_t)x.left].data(), *b = nodes[(size_t)x.right].data();
    std::vector<Sum> to;
    for (int64_t e = 0; e < x.m * x.n; e++) {
      const Sum sum = sum_in_order<Element>(a + e / x.n * x.k, b + e % x.n, x.n, x.k);
      const Stored stored = settled<Element>(sum);
      to.push_back(Element::read(stored, false));
      same = same && (p < last || memcmp(s.c.host + place(&s.c, chain, e / x.n, e % x.n), &stored,
                                         sizeof stored) == 0);
    }
    nodes.push_back(to);
  }
  return same;
}

/* Squares of sides that have kernels of their own, tight chains, and any others. */
template <typename Element>
static void test_in_order(Kind kind, mmc_dtype dtype) {
  int tried = 0;
  const int cases = how_many(8, 40);
  for (int k = 0; k < cases; k++) {
    const int64_t most = k % 4 == 0 ? 40 : 17;
    int64_t batch = k % 3 == 0 ? 1 : 1 + below(20);
    int32_t n = 2 + (int32_t)below(5);
    const int64_t side = kind == SQUARES  ? SQUARE_SIDES[k % 6].side
                         : kind == SIDES  ? random_side(dtype)
                         : kind == PANELS ? 65 + below(8)
                                          : 0;
    if ((kind == SIDES || kind == PANELS) && batch == 1) batch = 2;
    plan.tile = 0;
    int64_t dims[8];
    for (int i = 0; i <= n; i++) dims[i] = side > 0 ? side : 1 + below(most);
    if (k % 8 == 7 && (kind == GENERAL || kind == TENSOR)) { /* alone, a product may be larger */
      n = 2;
      batch = 2;
      dims[0] = 129 + below(128);
      dims[2] = 129 + below(128);
    }
    begin(&t, dtype, n, batch, random_bits(&random_state));
    t.group.precision = MMCI_REPRODUCIBLE;
    set_shapes(&t, dims);
    const bool tight = side > 0 || kind == TILES;
    add_tree(&t, 0, n - 1, tight ? 0 : k % 4, &random_state);
    if (tight || k % 5 == 0)
      finish_tight(&t);
    else
      finish_random(&t, &random_state);
    if (!plan.make(t, kind)) continue;
    tried++;
    Setup s(t);
    make_odd<Element>(s, t);
    if (!launch(plan, t, s)) continue;
    bool same = true;
    for (int64_t i = 0; i < batch; i++) same = same && is_in_order<Element>(s, t, i);
    expect(same, "sums are in order, bit by bit", t, kind);
    expect(rest_is_left_alone(&s.c), "what is beside C is left alone", t, kind);
  }
  expect(tried >= cases / 2, "plans", t, kind);
}

static void test_all_in_order() {
  test_in_order<mmci_real_element<float>>(SQUARES, MMC_F32);
  test_in_order<mmci_real_element<float>>(TILES, MMC_F32);
  test_in_order<mmci_real_element<float>>(SIDES, MMC_F32);
  test_in_order<mmci_real_element<float>>(PANELS, MMC_F32);
  test_in_order<mmci_real_element<double>>(SIDES, MMC_F64);
  test_in_order<mmci_complex_element<float>>(SIDES, MMC_C64);
  test_in_order<mmci_complex_element<double>>(SIDES, MMC_C128);
  for (Kind kind : {GENERAL, PACKS}) {
    test_in_order<mmci_real_element<float>>(kind, MMC_F32);
    test_in_order<mmci_real_element<double>>(kind, MMC_F64);
    test_in_order<mmci_complex_element<float>>(kind, MMC_C64);
    test_in_order<mmci_complex_element<double>>(kind, MMC_C128);
  }
  test_in_order<mmci_f16_element>(TENSOR, MMC_F16);
  test_in_order<mmci_bf16_element>(TENSOR, MMC_BF16);
}

int main(int argc, char **argv) {
  random_state = argc > 1 ? strtoull(argv[1], nullptr, 10) : 20261122;
  printf("seed %" PRIu64 "\n", random_state);
  test_squares();
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    test_general((mmc_dtype)dtype);
    test_shared((mmc_dtype)dtype);
    test_packs((mmc_dtype)dtype);
    test_spread((mmc_dtype)dtype);
  }
  test_edges(GENERAL, MMC_F32, MMC_F64);
  test_edges(PACKS, MMC_F32, MMC_C64);
  test_edges(TENSOR, MMC_F16, MMC_BF16);
  test_tiles();
  test_rings();
  for (mmc_dtype dtype : {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16})
    test_sides(dtype), test_vectors(dtype);
  test_no_vectors();
  test_no_sides();
  test_panels();
  test_tensor(MMC_F16);
  test_tensor(MMC_BF16);
  test_hurry();
  test_single(MMC_F32);
  test_single(MMC_F64);
  test_spines(MMC_F32);
  test_spines(MMC_F64);
  test_spine_batches(MMC_F32);
  test_spine_batches(MMC_F64);
  test_predictions(MMC_F32);
  test_predictions(MMC_F64);
  test_all_in_order();
  test_not_finite();
  test_failures();
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
