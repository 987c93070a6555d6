/* rings.c: lays chains out for rings.cu: which size of tiles takes them, where their intermediates
 * lie, and how many warps of a multiprocessor work on them. */
#include <stdint.h>
#include <string.h>

#include "base/sizes.h"
#include "device/cuda/group/arena.h"
#include "device/cuda/group/group.h"

enum {
  ELEMENT_BYTES = 4,
  WORD = 4, /* elements of 16 bytes */
  WARP = 32,
  BANKS = 32, /* of 4 bytes */
  SCHEDULERS = 4,
  SLOTS = 2,
  SLACK = MMCI_LINE_BYTES / ELEMENT_BYTES - 1, /* elements: a matrix may begin at any of them */
  GATE_BYTES = 8,
  SIDE = 64, /* no dimension exceeds this */
  MATRICES = 2 * MMCI_RINGS_FACTORS - 1
};

/* The sizes of rings.cu, in its order, and the small tile that each of them has as well. */
static const mmci_rings_size SIZES[] = {{{2, 4, 8}, 4, 32, 4}, {{8, 4, 4}, 4, 16, 4},
                                        {{8, 4, 4}, 2, 16, 4}, {{5, 3, 4}, 1, 28, 2},
                                        {{8, 4, 4}, 1, 16, 4}, {{9, 5, 4}, 1, 12, 2}};
static const mmci_rings_tile SMALL = {2, 4, 8};

bool mmci_rings_size_of(int i, mmci_rings_size *out) {
  if (i < 0 || i >= (int)(sizeof SIZES / sizeof *SIZES)) return false;
  *out = SIZES[i];
  return true;
}

static int64_t rows_of(const mmci_rings_tile *tile) {
  return (int64_t)tile->height * tile->down;
}

static int64_t cols_of(const mmci_rings_tile *tile) {
  return (int64_t)tile->width * (WARP / tile->down);
}

const mmci_rings_tile *mmci_rings_tile_of(const mmci_rings_size *size, bool is_small) {
  return is_small ? &SMALL : &size->tile;
}

int64_t mmci_rings_tiles(const mmci_rings_tile *tile, int64_t m, int64_t n) {
  return mmci_quotient_up(m, rows_of(tile)) * mmci_quotient_up(n, cols_of(tile));
}

/* Returns how many of the rows that lanes read at once, step elements each, begin in one bank. */
static int64_t turns_of(const mmci_rings_tile *tile, int64_t pitch, int step) {
  int64_t banks = BANKS / step, turned = pitch / step;
  while (banks > 1 && turned % 2 == 0) banks /= 2, turned /= 2;
  return banks < tile->down ? tile->down / banks : 1;
}

double mmci_rings_reads(const mmci_rings_size *size, const mmci_rings_product *p) {
  const mmci_rings_tile *tile = mmci_rings_tile_of(size, p->is_small);
  const int step = p->a_load < 0 ? WORD : size->word;
  return (double)tile->height / step * (double)turns_of(tile, p->a_pitch, step) +
         (double)tile->width / size->word;
}

/* Returns how many instructions as those that multiply a term of a product's tiles takes. A read
 * takes as long as six of them: small tiles take .35 to .75 of the times of large ones. */
static double work_of_tiles(const mmci_rings_size *size, const mmci_rings_product *p) {
  const mmci_rings_tile *tile = mmci_rings_tile_of(size, p->is_small);
  return (double)mmci_rings_tiles(tile, p->m, p->n) *
         (tile->height * tile->width + 6 * mmci_rings_reads(size, p));
}

/* Takes small tiles where they take less than large ones. */
static void choose_tile(const mmci_rings_size *size, mmci_rings_product *p) {
  mmci_rings_product by_small = *p;
  by_small.is_small = true;
  p->is_small = work_of_tiles(size, &by_small) < work_of_tiles(size, p);
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* Each operand and each result but the last is read once. */
static bool is_tree(const mmci_group *chain) {
  int reads[MATRICES] = {0};
  for (int s = 0; s < chain->count; s++) {
    reads[chain->products[s].left]++;
    reads[chain->products[s].right]++;
  }
  for (int x = 0; x < chain->n + chain->count - 1; x++)
    if (reads[x] != 1) return false;
  return true;
}

static bool has_sides(const mmci_group *chain) {
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    if (p->m < 1 || p->k < 1 || p->n < 1 || p->m > SIDE || p->k > SIDE || p->n > SIDE) return false;
  }
  return true;
}

static bool is_tight(const mmci_group *chain) {
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    const mmci_form *left = &chain->forms[p->left], *right = &chain->forms[p->right];
    if (p->left < chain->n && (left->trans || left->gathered || (left->ld != p->k && p->m > 1)))
      return false;
    if (p->right < chain->n && (right->trans || right->gathered || (right->ld != p->n && p->k > 1)))
      return false;
  }
  const mmci_group_product *last = &chain->products[chain->count - 1];
  return !chain->c_gathered && (chain->ldc == last->n || last->m == 1);
}

static bool is_taken(const mmci_group_limits *limits, const mmci_group *chain) {
  return limits->hopper && chain->dtype == MMC_F32 && chain->n >= 2 &&
         chain->n <= MMCI_RINGS_FACTORS && chain->count == chain->n - 1 && has_sides(chain) &&
         is_tree(chain) && is_tight(chain);
}

/* Returns of how many elements, 4, 2 or 1, all lines and strides are multiples. */
static int word_of(const mmci_group *chain, int most) {
  int64_t bits = chain->c_stride;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    if (p->left < chain->n) bits |= p->k;
    bits |= p->n;
  }
  for (int i = 0; i < chain->n; i++) bits |= chain->forms[i].stride;
  while (most > 1 && bits % most != 0) most /= 2;
  return most;
}

/* ---- a layout -------------------------------------------------------------------------------- */

/* Returns the number of the load, after it has added it. */
static int8_t add_load(const mmci_group *chain, int operand, int64_t rows, int64_t cols,
                       bool is_left, int word, mmci_rings *out) {
  mmci_rings_load *l = &out->loads[out->n];
  *l = (mmci_rings_load){.stride = chain->forms[operand].stride,
                         .elements = (uint32_t)(rows * cols),
                         .rows = (uint16_t)rows,
                         .cols = (uint16_t)cols,
                         .pitch = (uint16_t)cols,
                         .operand = (uint8_t)operand};
  /* Rows of a left operand that begin in few banks are copied one by one, a word further apart. */
  l->by_rows = word == WORD && is_left && cols % (4 * WORD) == 0;
  if (l->by_rows) l->pitch += WORD;
  return (int8_t)out->n++;
}

/* Returns an odd number of 16-byte words, in elements, so that rows begin in different banks. */
static uint32_t pitch_of(int64_t cols) {
  const uint32_t pitch = mmci_arena_up(cols, WORD);
  return pitch / WORD % 2 == 0 ? pitch + WORD : pitch;
}

static void fill_products(const mmci_group *chain, const mmci_rings_size *size, mmci_rings *out) {
  const int word = size->word;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    mmci_rings_product *p = &out->products[s];
    *p = (mmci_rings_product){
        .m = (uint16_t)x->m, .k = (uint16_t)x->k, .n = (uint16_t)x->n, .a_load = -1, .b_load = -1};
    if (x->left < chain->n) p->a_load = add_load(chain, x->left, x->m, x->k, true, word, out);
    if (x->right < chain->n) p->b_load = add_load(chain, x->right, x->k, x->n, false, word, out);
    p->a_pitch =
        p->a_load < 0 ? out->products[x->left - chain->n].to_pitch : out->loads[p->a_load].pitch;
    p->b_pitch =
        p->b_load < 0 ? out->products[x->right - chain->n].to_pitch : out->loads[p->b_load].pitch;
    /* The result is copied from where it lies as it shall be stored. */
    p->to_pitch = (uint16_t)(s == chain->count - 1 ? x->n : pitch_of(x->n));
    choose_tile(size, p);
  }
}

/* The places of intermediates in a warp's memory, in elements; free ones may be taken again. */
typedef struct places {
  uint32_t size[MMCI_RINGS_FACTORS];
  bool is_taken[MMCI_RINGS_FACTORS];
  int count;
} places;

static int take_place(places *x, uint32_t size) {
  int i = 0;
  while (i < x->count && x->is_taken[i]) i++;
  if (i == x->count) x->count++;
  if (size > x->size[i]) x->size[i] = size;
  x->is_taken[i] = true;
  return i;
}

/* Finds places for intermediates, and for the result where it is not stored from registers. A
 * result may lie where its operands are when all of it is computed before any is written. Returns
 * the elements of all. */
static uint32_t place_results(const mmci_group *chain, const mmci_rings_size *size,
                              mmci_rings *out) {
  places x = {.count = 0};
  int place_of[MMCI_RINGS_FACTORS] = {0};
  uint32_t at[MMCI_RINGS_FACTORS + 1] = {0};
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    const mmci_rings_tile *tile = mmci_rings_tile_of(size, out->products[s].is_small);
    const bool at_once = mmci_rings_tiles(tile, p->m, p->n) == 1, is_last = s == chain->count - 1;
    const int32_t operands[] = {p->left, p->right};
    for (int t = 0; t < 2; t++)
      if (at_once && operands[t] >= chain->n) x.is_taken[place_of[operands[t] - chain->n]] = false;
    if (!is_last || size->word < WORD)
      place_of[s] = take_place(&x, mmci_arena_up(p->m * out->products[s].to_pitch, WORD));
    for (int t = 0; t < 2; t++)
      if (!at_once && operands[t] >= chain->n) x.is_taken[place_of[operands[t] - chain->n]] = false;
  }
  for (int i = 0; i < x.count; i++) at[i + 1] = at[i] + x.size[i];
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    out->products[s].to = at[place_of[s]];
    if (p->left >= chain->n) out->products[s].a = at[place_of[p->left - chain->n]];
    if (p->right >= chain->n) out->products[s].b = at[place_of[p->right - chain->n]];
  }
  return at[x.count];
}

/* Makes each slot as large as the loads that take it: every second, or all where the next chain's
 * take the other slot each. */
static void size_slots(mmci_rings *out) {
  uint32_t elements[SLOTS] = {0};
  for (int i = 0; i < SLOTS * out->n; i++) {
    const mmci_rings_load *l = &out->loads[i % out->n];
    const uint32_t mine = mmci_arena_up((int64_t)l->rows * l->pitch + SLACK, WORD);
    if (mine > elements[i % SLOTS]) elements[i % SLOTS] = mine;
  }
  out->slot = elements[0];
  out->places = elements[0] + elements[1];
}

/* Returns behind how many elements from the first slot on the tiles of a product end that read the
 * operand, rows x pitch, from `at` on, or from a slot where it is loaded. */
static int64_t end_of(const mmci_rings *rings, int load, uint32_t at, int64_t rows, int64_t pitch,
                      int64_t cols) {
  const int64_t begin = load < 0 ? (int64_t)rings->places + at : (int64_t)rings->slot + SLACK;
  return begin + (rows - 1) * pitch + cols;
}

/* Returns the elements that a warp needs: slots, places, and what tiles read beyond them. */
static uint32_t elements_of(const mmci_rings_size *size, const mmci_rings *rings, uint32_t places) {
  int64_t most = (int64_t)rings->places + places;
  for (int s = 0; s < rings->count; s++) {
    const mmci_rings_product *p = &rings->products[s];
    const mmci_rings_tile *tile = mmci_rings_tile_of(size, p->is_small);
    const int64_t a_end = end_of(rings, p->a_load, p->a, mmci_multiple_up(p->m, rows_of(tile)),
                                 p->a_pitch, p->k),
                  b_end = end_of(rings, p->b_load, p->b, p->k, p->b_pitch,
                                 mmci_multiple_up(p->n, cols_of(tile)));
    if (a_end > most) most = a_end;
    if (b_end > most) most = b_end;
  }
  return mmci_arena_up(most, WORD);
}

/* Returns how many warps of a multiprocessor, of so many at most, take the least time. A turn of
 * all warps takes as long as those of a scheduler multiply one after the other, and as a chain
 * waits. That is as long as one to six multiply: any of these tells the faster one of two numbers
 * of warps alike, by 302 batches that were measured by both, to 1.002 times its time. */
static int64_t warps_of(const mmci_group_limits *limits, int64_t batch, int64_t most) {
  const int64_t chains = (batch - 1) / limits->multiprocessors + 1, waits = 6;
  int64_t best = 1, least = INT64_MAX;
  for (int64_t warps = 1; warps <= most && warps <= chains; warps++) {
    const int64_t turns = (chains - 1) / warps + 1,
                  time = turns * ((warps - 1) / SCHEDULERS + 1 + waits);
    if (time < least) least = time, best = warps;
  }
  return best;
}

static bool lay_out(const mmci_group_limits *limits, const mmci_group *chain, int number,
                    mmci_rings *out) {
  const mmci_rings_size *size = &SIZES[number];
  *out = (mmci_rings){.c_stride = chain->c_stride,
                      .ldc = chain->ldc,
                      .batch = chain->batch,
                      .count = (uint8_t)chain->count,
                      .size = (uint8_t)number};
  for (int s = 0; s < chain->count; s++)
    if (mmci_rings_tiles(&size->tile, chain->products[s].m, chain->products[s].n) > size->tiles)
      return false;
  fill_products(chain, size, out);
  const uint32_t places = place_results(chain, size, out);
  size_slots(out);
  out->warp_bytes = SLOTS * GATE_BYTES + elements_of(size, out, places) * ELEMENT_BYTES;
  if (limits->shared_bytes < out->warp_bytes) return false;
  const int64_t fit = (int64_t)(limits->shared_bytes / out->warp_bytes);
  out->warps = (uint8_t)warps_of(limits, chain->batch, fit < size->warps ? fit : size->warps);
  return true;
}

/* Says whether the tiles of a size are another's too, which reads more elements at once. */
static bool is_by_less(int number, int word) {
  const mmci_rings_size *size = &SIZES[number];
  for (int i = 0; i < number; i++)
    if (memcmp(&SIZES[i].tile, &size->tile, sizeof size->tile) == 0 && SIZES[i].word <= word)
      return true;
  return false;
}

bool mmci_rings_plan(const mmci_group_limits *limits, const mmci_group *chain, int word, int number,
                     mmci_rings *out) {
  if (SIZES[number].word > word || !is_taken(limits, chain)) return false;
  word = word_of(chain, word);
  return SIZES[number].word <= word && !is_by_less(number, word) &&
         lay_out(limits, chain, number, out);
}

bool mmci_rings_bind(mmci_rings *rings, const void *const *operands, void *c) {
  const uintptr_t bytes = (uintptr_t)SIZES[rings->size].word * ELEMENT_BYTES;
  uintptr_t bits = (uintptr_t)c;
  for (int l = 0; l < rings->n; l++) {
    rings->loads[l].data = operands[rings->loads[l].operand];
    bits |= (uintptr_t)rings->loads[l].data;
  }
  rings->c = c;
  return bits % bytes == 0;
}
