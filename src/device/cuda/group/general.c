/* general.c: lays a chain out for general.cu: where its matrices lie in shared memory, when
 * operands are loaded, and how the products are spread over threads. */
#include <string.h>

#include "device/cuda/element_bytes.h"
#include "device/cuda/group/arena.h"
#include "device/cuda/group/group.h"

enum {
  MATRICES = 2 * MMCI_GENERAL_PRODUCTS + 1,
  WARP = 32,
  THREADS_ALONE = 256,      /* threads that compute a single chain */
  EAGER_BYTES = 100 * 1024, /* bytes above which operands are loaded only when they are needed */
  BLOCK_BYTES = 48 * 1024,  /* bytes of all groups that share a block, at most */
  SPLIT_MOST = 3,
  STATIC_SHARED_BYTES = 4096, /* what a block has besides the chains' */
  AMPERE = 8,
  HOPPER = 9,
};

mmci_group_limits mmci_group_limits_of(int multiprocessors, size_t shared_bytes, int major) {
  return (mmci_group_limits){.multiprocessors = multiprocessors,
                             .shared_bytes = shared_bytes - STATIC_SHARED_BYTES,
                             .overlap = major >= HOPPER,
                             .tensor = major >= AMPERE,
                             .hopper = major == HOPPER};
}

typedef struct layout {
  const mmci_group *chain;
  size_t element_bytes; /* bytes of an element in the arena */
  mmci_place places[MATRICES];
  uint32_t size; /* elements of the arena */
} layout;

static uint32_t up4(int64_t x) {
  return mmci_arena_up(x, 4);
}

/* Returns an odd number of 16-byte words, in elements, so that rows begin in different banks. */
static uint32_t pitch_of(const layout *l, int64_t cols) {
  uint32_t pitch = up4(cols), per_word = (uint32_t)(16 / l->element_bytes);
  return pitch / per_word % 2 == 0 ? pitch + per_word : pitch;
}

static void place_matrices(layout *l, mmci_hurry when) {
  const int count = l->chain->n + l->chain->count;
  mmci_arena_find_lives(l->chain, when, l->places);
  for (int i = 0; i < count; i++) {
    mmci_place *p = &l->places[i];
    p->pitch = pitch_of(l, p->cols);
    /* The result goes to global memory. */
    if (i == count - 1) p->rows = 0;
    p->size = up4(p->rows) * p->pitch;
  }
  l->size = mmci_arena_lay_out(count, l->places);
}

/* ---- threads --------------------------------------------------------------------------------- */

static uint32_t tiles_of(const mmci_group_product *step, bool tall) {
  return up4(step->m) / (tall ? 4 : 1) * (up4(step->n) / 4);
}

static void choose_threads(const layout *l, mmci_general *steps) {
  const mmci_group *chain = l->chain;
  uint32_t most = 0;
  for (int s = 0; s < chain->count; s++) {
    uint32_t tiles = tiles_of(&chain->products[s], true);
    if (tiles > most) most = tiles;
  }
  uint32_t threads = WARP;
  while (threads < THREADS_ALONE && threads < most) threads *= 2;
  if (chain->batch == 1) threads = THREADS_ALONE;
  steps->threads = (uint16_t)threads;
  steps->arena_bytes = (uint32_t)(l->size * l->element_bytes);
  steps->groups = 1;
  while (chain->batch > 1 && steps->groups < 8 && steps->groups * 2u * threads <= THREADS_ALONE &&
         steps->groups * 2u * steps->arena_bytes <= BLOCK_BYTES)
    steps->groups *= 2;
}

/* ---- products and loads ---------------------------------------------------------------------- */

static void fill_product(const layout *l, int s, mmci_general *steps) {
  const mmci_group_product *step = &l->chain->products[s];
  const mmci_place *a = &l->places[step->left], *b = &l->places[step->right],
                   *to = &l->places[l->chain->n + s];
  mmci_general_product *p = &steps->products[s];
  const uint32_t threads = steps->threads, k4 = up4(step->k) / 4;
  *p = (mmci_general_product){.a = a->at, .b = b->at, .to = to->at};
  p->a_pitch = (uint16_t)a->pitch;
  p->b_pitch = (uint16_t)b->pitch;
  p->to_pitch = (uint16_t)to->pitch;
  p->m = (uint16_t)step->m;
  p->n = (uint16_t)step->n;
  p->k4 = (uint16_t)k4;
  p->tiles_across = (uint16_t)(up4(step->n) / 4);
  p->magic = mmci_arena_magic(p->tiles_across);
  p->tall = tiles_of(step, false) > threads;
  uint32_t work = tiles_of(step, p->tall);
  while (!steps->in_order && !p->tall && p->split < SPLIT_MOST && work * 2 <= threads &&
         (2u << p->split) <= k4) {
    p->split++;
    work *= 2;
  }
  p->work = (uint16_t)work;
}

static bool may_be_wide(const layout *l, const mmci_form *form, int64_t length) {
  /* So many elements take 16 bytes in the arena, and 8 as stored where they have two bytes each. */
  const int64_t per_word = (int64_t)(16 / l->element_bytes);
  return !form->trans && !form->conj && !form->gathered && length % per_word == 0 &&
         form->ld % per_word == 0 && form->stride % per_word == 0;
}

/* Loads the operand in so many parts; returns false when there are too many loads. */
static bool fill_loads(const layout *l, int operand, uint32_t parts, mmci_general *steps) {
  const mmci_form *form = &l->chain->forms[operand];
  const mmci_place *p = &l->places[operand];
  const int64_t lines = form->trans ? p->cols : p->rows, length = form->trans ? p->rows : p->cols;
  const bool complex = l->chain->dtype == MMC_C64 || l->chain->dtype == MMC_C128;
  const uint32_t across = up4(length), all = up4(lines) * across;
  for (uint32_t t = 0; t < parts; t++) {
    if (steps->loads == MMCI_GENERAL_LOADS) return false;
    mmci_general_load *load = &steps->load[steps->loads++];
    *load = (mmci_general_load){
        .ld = form->ld, .stride = form->stride, .magic = mmci_arena_magic(across)};
    load->at = p->at;
    load->begin = all / 4 * t / parts * 4;
    load->end = all / 4 * (t + 1) / parts * 4;
    load->lines = (uint16_t)lines;
    load->length = (uint16_t)length;
    load->across = (uint16_t)across;
    load->pitch = (uint16_t)p->pitch;
    load->operand = (uint8_t)operand;
    load->trans = form->trans;
    load->conj = form->conj && complex;
    load->gathered = form->gathered;
    load->wide = may_be_wide(l, form, length);
  }
  return true;
}

/* Returns into how many parts each operand that is loaded before product first + 1 is cut, so that
 * every warp of a group has about as much to do. */
static uint32_t parts_of(const layout *l, int operand, uint32_t warps) {
  const mmci_place *p = &l->places[operand];
  uint64_t mine = (uint64_t)up4(p->rows) * up4(p->cols), all = 0;
  for (int i = 0; i < l->chain->n; i++)
    if (l->places[i].first == p->first)
      all += (uint64_t)up4(l->places[i].rows) * up4(l->places[i].cols);
  if (all == 0) return 1;
  uint64_t parts = (mine * warps + all / 2) / all, words = mine / 4;
  if (parts > words) parts = words;
  return parts > 0 ? (uint32_t)parts : 1;
}

static bool fill_steps(const layout *l, mmci_general *steps) {
  const mmci_group *chain = l->chain;
  const uint32_t warps = steps->threads / WARP;
  for (int s = -1; s < chain->count; s++) {
    for (int i = 0; i < chain->n; i++) {
      if (l->places[i].first != s) continue;
      /* A later load has few others beside it. */
      uint32_t parts = s < 0 && chain->n <= 8 ? parts_of(l, i, warps) : 1;
      if (parts > 4 && chain->n > 4) parts = 4;
      if (!fill_loads(l, i, parts, steps)) return false;
    }
    if (s < 0)
      steps->loads_first = steps->loads;
    else
      steps->products[s].loads = steps->loads;
  }
  return true;
}

bool mmci_general_plan(const mmci_group_limits *limits, const mmci_group *chain,
                       mmci_general *out) {
  if (!mmci_arena_takes(chain, MMCI_GENERAL_PRODUCTS)) return false;
  const size_t bytes = mmci_cuda_element_bytes(chain->dtype);
  layout l = {.chain = chain, .element_bytes = bytes < 4 ? 4 : bytes};
  mmci_hurry when = MMCI_EAGER;
  place_matrices(&l, when);
  while (when < MMCI_LATE &&
         l.size * l.element_bytes > (when == MMCI_EAGER ? EAGER_BYTES : limits->shared_bytes))
    place_matrices(&l, when = (mmci_hurry)(when + 1));
  if (l.size * l.element_bytes > limits->shared_bytes) return false;
  *out = (mmci_general){.batch = chain->batch,
                        .ldc = chain->ldc,
                        .c_stride = chain->c_stride,
                        .c_gathered = chain->c_gathered,
                        .late = when == MMCI_LATE,
                        .in_order = mmci_precision_is_reproducible(chain->precision),
                        .count = (uint8_t)chain->count};
  choose_threads(&l, out);
  for (int s = 0; s < chain->count; s++) fill_product(&l, s, out);
  return fill_steps(&l, out);
}
