/* packs.c: lays chains out for packs.cu: how many lanes share a chain, the tiles of every product,
 * and where matrices lie, so that lanes read different banks of shared memory. A chain's part has
 * an odd number of elements. Where lanes that share a chain would still read the same banks, its
 * tiles are spread: they have every so many rows and columns, so that lanes read neighbouring ones;
 * a row of A that is a multiple of four elements has one more, and a chain's part is an odd
 * multiple of as many elements as lanes share it. */
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/group/arena.h"
#include "device/cuda/group/group.h"

enum {
  MATRICES = 2 * MMCI_PACKS_PRODUCTS + 1,
  WARP = 32,
  LANES_LOG2_MOST = 5,     /* a chain is shared by 1 to 32 lanes */
  WARPS = 4,               /* warps of a block */
  BLOCK_BYTES = 96 * 1024, /* bytes of a block's shared memory at most */
  SM_BYTES = 220 * 1024,
  SM_WARPS = 32,
  /* Factors up to which operands are loaded before the first product; with more, each is loaded
   * a product before it is needed. */
  EAGER_FACTORS = 6,
  WIDTH_MOST = 4,
  SLACK = WIDTH_MOST - 1, /* a tile at the right edge reads so many elements beyond */
  BANKS = 32,             /* of four bytes each */
};

/* Tiles are spread where lanes would wait at least so many times as long for shared memory. On an
 * H200 222 such batches were 1.11 times as fast when they were, at the most 2.1 times; 506 others
 * had 0.975 of their speed. */
static const double SPREAD_FROM = 1.4;

/* Instructions of a warp, about, for a tile, for a line of one, and for an element that is loaded
 * or stored; warps that keep a multiprocessor busy. */
static const double OF_TILE = 30, OF_ROW = 6, OF_LOAD = 10, BUSY_WARPS = 12;

static int heights_of(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_F16 || dtype == MMC_BF16 ? 4 : 2;
}

static int widths_of(mmc_dtype dtype) {
  return dtype == MMC_C128 ? 2 : WIDTH_MOST;
}

/* A planner asks for thousands of products, so that these are divisions of 32 bits. */
static uint32_t parts(uint32_t length, uint32_t part) {
  return (length + part - 1) / part;
}

/* The tiles of a product that take a lane the fewest instructions, and those. */
typedef struct tiling {
  double cost;
  int height, width;
} tiling;

/* Finds the cheapest tiles of a product for each number of lanes. */
static void find_tiles(mmc_dtype dtype, const mmci_group_product *x,
                       tiling tilings[LANES_LOG2_MOST + 1]) {
  for (int l = 0; l <= LANES_LOG2_MOST; l++) tilings[l].cost = INFINITY;
  for (int h = 1; h <= heights_of(dtype); h *= 2) {
    const uint32_t down = parts((uint32_t)x->m, (uint32_t)h);
    for (int w = 1; w <= widths_of(dtype); w++) {
      const uint32_t tiles = down * parts((uint32_t)x->n, (uint32_t)w);
      const double each = (double)x->k * (h + w + h * w) + OF_TILE + OF_ROW * h;
      for (int l = 0; l <= LANES_LOG2_MOST; l++) {
        const double cost = (double)((tiles + (1u << l) - 1) >> l) * each;
        if (cost < tilings[l].cost) tilings[l] = (tiling){cost, h, w};
      }
    }
  }
}

/* Returns the elements that a chain's lanes load and store. */
static int64_t elements_of(const mmci_group *chain) {
  int64_t elements = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    if (x->left < chain->n) elements += x->m * x->k;
    if (x->right < chain->n) elements += x->k * x->n;
    if (s == chain->count - 1) elements += x->m * x->n;
  }
  return elements;
}

/* Returns the instructions of the device's multiprocessors for the batch, of which a lane takes so
 * many for a chain's tiles. A multiprocessor has room for a warp's chains. */
static double cost_of(const mmci_group_limits *limits, int64_t batch, int lanes_log2,
                      uint32_t chain_bytes, double cost, int64_t elements) {
  const int64_t per_warp = WARP >> lanes_log2, all = limits->multiprocessors;
  const int64_t fit = SM_BYTES / (per_warp * chain_bytes),
                warps = mmci_quotient_up(batch, per_warp), asked = mmci_quotient_up(warps, all),
                most = fit < SM_WARPS ? fit : SM_WARPS, there = asked < most ? asked : most;
  const double waves = (double)mmci_quotient_up(warps, there * all),
               busy = (double)there > BUSY_WARPS ? (double)there : BUSY_WARPS;
  return waves * (cost + OF_LOAD * (double)mmci_quotient_up(elements, 1 << lanes_log2)) * busy;
}

typedef struct layout {
  const mmci_group *chain;
  mmci_place places[MATRICES];
  uint32_t size; /* elements of a chain's part of the arena */
  tiling tilings[MMCI_PACKS_PRODUCTS][LANES_LOG2_MOST + 1];
  bool spread[MMCI_PACKS_PRODUCTS]; /* how the tiles of a product lie */
} layout;

/* Returns how many times as long lanes wait for addresses that are so many elements apart, of which
 * there are so many, where so many elements are read at once. */
static uint32_t conflicts(uint32_t apart, uint32_t there, uint32_t at_once) {
  const uint32_t common = apart != 0 ? 1u << __builtin_ctz(apart | at_once) : at_once;
  return parts(there, at_once / common);
}

/* Says whether lanes that read tiles of neighbouring elements would wait for each other. */
static bool has_conflicts(mmc_dtype dtype, const mmci_group_product *x, const tiling *tiling,
                          int lanes) {
  const uint32_t words = (uint32_t)mmci_cuda_element_bytes(dtype) / 4,
                 height = (uint32_t)tiling->height, width = (uint32_t)tiling->width;
  /* 16 bits are converted as they are loaded. */
  if (words == 0 || x->m == 0 || x->n == 0) return false;
  const uint32_t at_once = BANKS / words,
                 group = (uint32_t)lanes < at_once ? (uint32_t)lanes : at_once,
                 across = parts((uint32_t)x->n, width), down = parts((uint32_t)x->m, height),
                 cols = across < group ? across : group, lines = parts(group, across),
                 rows = down < lines ? down : lines;
  const double waits = (double)height * conflicts(height * (uint32_t)x->k, rows, at_once) +
                       (double)width * conflicts(width, cols, at_once);
  return waits >= SPREAD_FROM * (height + width);
}

static void place_matrices(layout *l) {
  const mmci_group *chain = l->chain;
  const int count = chain->n + chain->count;
  mmci_arena_find_lives(chain, chain->n <= EAGER_FACTORS ? MMCI_EAGER : MMCI_AHEAD, l->places);
  for (int i = 0; i < count; i++) {
    mmci_place *p = &l->places[i];
    p->pitch = (uint32_t)p->cols;
  }
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    if (l->spread[s] && x->m > 2 && x->k % 4 == 0) l->places[x->left].pitch++;
  }
  for (int i = 0; i < count; i++)
    l->places[i].size = (uint32_t)l->places[i].rows * l->places[i].pitch + SLACK;
  /* The result is copied from the arena after the last product. */
  l->places[count - 1].last = chain->count;
  l->size = mmci_arena_lay_out(count, l->places) | 1;
}

/* Spreads the tiles of products where so many lanes would wait for each other, if a warp's chains
 * then still have room. */
static void spread_tiles(layout *l, int lanes_log2, size_t room_bytes, size_t bytes) {
  const mmci_group *chain = l->chain;
  const uint32_t lanes = 1u << lanes_log2;
  bool any = false;
  for (int s = 0; s < chain->count; s++) {
    l->spread[s] =
        has_conflicts(chain->dtype, &chain->products[s], &l->tilings[s][lanes_log2], (int)lanes);
    any = any || l->spread[s];
  }
  if (!any) return;
  place_matrices(l);
  if (lanes < WARP) l->size = (parts(l->size, lanes) | 1) * lanes;
  if (l->size * bytes * (WARP / lanes) <= room_bytes) return;
  memset(l->spread, 0, sizeof l->spread);
  place_matrices(l);
}

static void fill_product(const layout *l, int s, mmci_packs *out) {
  const mmci_group *chain = l->chain;
  const mmci_group_product *x = &chain->products[s];
  const mmci_place *a = &l->places[x->left], *b = &l->places[x->right],
                   *to = &l->places[chain->n + s];
  const tiling *tiling = &l->tilings[s][__builtin_ctz(out->lanes)];
  const int height = tiling->height, width = tiling->width;
  const uint32_t across = parts((uint32_t)x->n, (uint32_t)width),
                 down = parts((uint32_t)x->m, (uint32_t)height);
  out->products[s] = (mmci_packs_product){.magic = mmci_arena_magic(across),
                                          .a = a->at,
                                          .b = b->at,
                                          .to = to->at,
                                          .m = (uint16_t)x->m,
                                          .n = (uint16_t)x->n,
                                          .k = (uint16_t)x->k,
                                          .a_pitch = (uint16_t)a->pitch,
                                          .b_pitch = (uint16_t)b->pitch,
                                          .to_pitch = (uint16_t)to->pitch,
                                          .across = (uint16_t)across,
                                          .down = (uint16_t)down,
                                          .height = (uint8_t)height,
                                          .width = (uint8_t)width,
                                          .spread = l->spread[s]};
}

static void fill_load(const layout *l, int operand, mmci_packs *out) {
  const mmci_group *chain = l->chain;
  const mmci_form *form = &chain->forms[operand];
  const mmci_place *p = &l->places[operand];
  const int64_t lines = form->trans ? p->cols : p->rows, length = form->trans ? p->rows : p->cols;
  const bool complex = chain->dtype == MMC_C64 || chain->dtype == MMC_C128;
  out->load[out->loads++] =
      (mmci_packs_load){.ld = form->ld,
                        .stride = form->stride,
                        .line_magic = mmci_arena_magic((uint32_t)length),
                        .matrix_magic = mmci_arena_magic((uint32_t)(lines * length)),
                        .at = p->at,
                        .lines = (uint16_t)lines,
                        .length = (uint16_t)length,
                        .pitch = (uint16_t)p->pitch,
                        .operand = (uint8_t)operand,
                        .trans = form->trans,
                        .conj = form->conj && complex,
                        .gathered = form->gathered,
                        .tight = !form->gathered && form->stride == lines * length &&
                                 (form->ld == length || lines == 1)};
}

static void fill_steps(const layout *l, mmci_packs *out) {
  const mmci_group *chain = l->chain;
  for (int s = 0; s < chain->count; s++) fill_product(l, s, out);
  for (int s = -1; s < chain->count; s++) {
    for (int i = 0; i < chain->n; i++)
      if (l->places[i].first == s) fill_load(l, i, out);
    if (s < 0)
      out->loads_first = out->loads;
    else
      out->products[s].loads = out->loads;
  }
}

bool mmci_packs_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_packs *out) {
  if (!mmci_arena_takes(chain, MMCI_PACKS_PRODUCTS)) return false;
  const size_t stored = mmci_cuda_element_bytes(chain->dtype), bytes = stored < 4 ? 4 : stored;
  layout l;
  l.chain = chain;
  memset(l.spread, 0, sizeof l.spread);
  place_matrices(&l);
  const size_t most = limits->shared_bytes < BLOCK_BYTES ? limits->shared_bytes : BLOCK_BYTES,
               chain_bytes = l.size * bytes;
  int lanes_log2 = -1;
  double least = INFINITY, costs[LANES_LOG2_MOST + 1] = {0};
  const int64_t elements = elements_of(chain);
  for (int s = 0; s < chain->count; s++) {
    find_tiles(chain->dtype, &chain->products[s], l.tilings[s]);
    for (int x = 0; x <= LANES_LOG2_MOST; x++) costs[x] += l.tilings[s][x].cost;
  }
  for (int x = 0; x <= LANES_LOG2_MOST; x++) {
    if (chain_bytes * (size_t)(WARP >> x) > most) continue;
    const double cost = cost_of(limits, chain->batch, x, (uint32_t)chain_bytes, costs[x], elements);
    if (!(cost < least)) continue;
    least = cost;
    lanes_log2 = x;
  }
  if (lanes_log2 < 0) return false;
  const int lanes = 1 << lanes_log2;
  if (lanes > 1) spread_tiles(&l, lanes_log2, most, bytes);
  const mmci_group_product *last = &chain->products[chain->count - 1];
  *out = (mmci_packs){.batch = chain->batch,
                      .ldc = chain->ldc,
                      .c_stride = chain->c_stride,
                      .c_magic = mmci_arena_magic((uint32_t)(last->m * last->n)),
                      .c_line_magic = mmci_arena_magic((uint32_t)last->n),
                      .chain_elements = l.size,
                      .m = (uint16_t)last->m,
                      .n = (uint16_t)last->n,
                      .c_gathered = chain->c_gathered,
                      .c_tight = !chain->c_gathered && chain->c_stride == last->m * last->n &&
                                 (chain->ldc == last->n || last->m == 1),
                      .in_order = mmci_precision_is_reproducible(chain->precision),
                      .count = (uint8_t)chain->count,
                      .lanes = (uint8_t)lanes,
                      .warps = WARPS};
  while (out->warps > 1 && (size_t)(WARP / lanes) * l.size * bytes * out->warps > most)
    out->warps /= 2;
  fill_steps(&l, out);
  return true;
}
