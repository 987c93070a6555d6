/* single.c: lays small chains out for single.cu. */
#include "device/cuda/group/group.h"

enum { WARP = 32, ARENA_BYTES = 200 * 1024, SPLIT_MOST = 3 };

/* A matrix in the arena, in elements. */
typedef struct place {
  int64_t rows, cols;
  uint32_t at, pitch;
} place;

typedef struct layout {
  const mmci_group *chain;
  size_t element_bytes;
  place places[MMCI_SINGLE_WARPS + MMCI_SINGLE_PRODUCTS];
  uint32_t size;
} layout;

static uint32_t magic_of(uint32_t divisor) {
  return divisor > 1 ? (uint32_t)((((uint64_t)1 << 32) + divisor - 1) / divisor) : 0;
}

static uint32_t up4(int64_t x) {
  return (uint32_t)((x + 3) / 4 * 4);
}

/* Adds a place; rows of an odd number of 16-byte words begin in different banks. */
static void add_place(layout *l, int i, int64_t rows, int64_t cols) {
  const uint32_t per_word = (uint32_t)(16 / l->element_bytes), width = up4(cols),
                 pitch = width / per_word % 2 == 0 ? width + per_word : width;
  l->places[i] = (place){rows, cols, l->size, pitch};
  l->size += up4(rows) * pitch;
}

/* A chain has a multiprocessor of its own. */
static bool is_plain(const mmci_group_limits *limits, const mmci_group *chain) {
  if ((chain->dtype != MMC_F32 && chain->dtype != MMC_F64) ||
      chain->batch > limits->multiprocessors || chain->c_gathered ||
      chain->count > MMCI_SINGLE_PRODUCTS || chain->n > MMCI_SINGLE_WARPS)
    return false;
  for (int i = 0; i < chain->n; i++) {
    const mmci_form *form = &chain->forms[i];
    if (form->trans || form->gathered || form->ld > INT32_MAX) return false;
  }
  return true;
}

/* Places all matrices; returns false when there is nothing to multiply, or an operand that no
 * product reads. */
static bool place_matrices(layout *l) {
  const mmci_group *chain = l->chain;
  l->size = 0;
  for (int i = 0; i < chain->n; i++) l->places[i].rows = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    if (step->m == 0 || step->k == 0 || step->n == 0) return false;
    if (step->left < chain->n && l->places[step->left].rows == 0)
      add_place(l, step->left, step->m, step->k);
    if (step->right < chain->n && l->places[step->right].rows == 0)
      add_place(l, step->right, step->k, step->n);
    if (s < chain->count - 1) add_place(l, chain->n + s, step->m, step->n);
  }
  for (int i = 0; i < chain->n; i++)
    if (l->places[i].rows == 0) return false;
  return l->size * l->element_bytes <= ARENA_BYTES && l->size <= UINT16_MAX;
}

static uint32_t words_of(const place *p) {
  return up4(p->rows) * up4(p->cols) / 4;
}

/* Gives each warp a part of one operand to load; larger operands have more parts. */
static void fill_loads(const layout *l, mmci_single *out) {
  const int n = l->chain->n;
  uint32_t warps[MMCI_SINGLE_WARPS] = {0}, words[MMCI_SINGLE_WARPS] = {0};
  for (int i = 0; i < n; i++) {
    warps[i] = 1;
    words[i] = words_of(&l->places[i]);
  }
  for (int w = n; w < MMCI_SINGLE_WARPS; w++) {
    int most = 0;
    for (int i = 1; i < n; i++)
      if (words[i] * warps[most] > words[most] * warps[i]) most = i;
    warps[most]++;
  }
  mmci_single_load *load = out->loads;
  for (int i = 0; i < n; i++) {
    const place *p = &l->places[i];
    const mmci_form *form = &l->chain->forms[i];
    const int64_t ld = form->ld, per_word = (int64_t)(16 / l->element_bytes),
                  stride = l->chain->batch > 1 ? form->stride : 0;
    mmci_single_load part = {
        .ld = (int32_t)ld,
        .magic = magic_of(up4(p->cols)),
        .at = (uint16_t)p->at,
        .rows = (uint8_t)p->rows,
        .cols = (uint8_t)p->cols,
        .across = (uint8_t)up4(p->cols),
        .pitch = (uint8_t)p->pitch,
        .operand = (uint8_t)i,
        .wide = p->cols % per_word == 0 && ld % per_word == 0 && stride % per_word == 0};
    for (uint32_t t = 0; t < warps[i]; t++) {
      part.begin = part.end;
      part.end = (uint16_t)(words[i] * (t + 1) / warps[i] * 4);
      *load++ = part;
    }
  }
}

/* Puts products that do not wait for each other into the same round; returns how many rounds there
 * are. */
static int find_rounds(const mmci_group *chain, int *round) {
  int rounds = 0;
  for (int s = 0; s < chain->count; s++) {
    const int sides[] = {chain->products[s].left - chain->n, chain->products[s].right - chain->n};
    round[s] = 0;
    for (int t = 0; t < 2; t++)
      if (sides[t] >= 0 && round[sides[t]] >= round[s]) round[s] = round[sides[t]] + 1;
    if (round[s] >= rounds) rounds = round[s] + 1;
  }
  return rounds;
}

/* Returns the multiplications of a product, in words of four by four. */
static uint32_t work_of(const mmci_group_product *step) {
  return up4(step->m) * (up4(step->n) / 4) * (up4(step->k) / 4);
}

/* Gives the warps of a round to its products, more of them to the larger ones. There are fewer
 * products than warps. */
static void fill_turns(const mmci_group *chain, const int *round, int of, mmci_single *out) {
  uint16_t warps[MMCI_SINGLE_PRODUCTS] = {0};
  uint32_t work[MMCI_SINGLE_PRODUCTS];
  int those[MMCI_SINGLE_PRODUCTS], count = 0;
  for (int s = 0; s < chain->count; s++) {
    if (round[s] != of) continue;
    work[s] = work_of(&chain->products[s]);
    those[count++] = s;
  }
  if (count == 1) warps[those[0]] = MMCI_SINGLE_WARPS;
  for (int w = 0; w < MMCI_SINGLE_WARPS && count > 1; w++) {
    int most = those[0];
    for (int t = 1; t < count; t++)
      if (work[those[t]] * warps[most] > work[most] * warps[those[t]]) most = those[t];
    warps[most]++;
  }
  uint16_t first = 0;
  for (int s = 0; s < chain->count; s++) {
    if (round[s] != of) continue;
    for (uint16_t w = 0; w < warps[s]; w++) out->turns[of][first + w] = (uint8_t)s;
    out->products[s].first = (uint16_t)(first * WARP);
    out->products[s].threads = (uint16_t)(warps[s] * WARP);
    first = (uint16_t)(first + warps[s]);
  }
}

/* Fills in a product whose threads are known. */
static void fill_product(const layout *l, int s, mmci_single_product *p) {
  const mmci_group_product *step = &l->chain->products[s];
  const place *a = &l->places[step->left], *b = &l->places[step->right],
              *to = &l->places[l->chain->n + s];
  const uint32_t across = up4(step->n) / 4, k4 = up4(step->k) / 4;
  uint32_t work = up4(step->m) * across, split = 0;
  while (split < SPLIT_MOST && work * 2 <= p->threads && (2u << split) <= k4) {
    split++;
    work *= 2;
  }
  p->magic = magic_of(across);
  p->a = (uint16_t)a->at;
  p->b = (uint16_t)b->at;
  p->to = (uint16_t)to->at;
  p->work = (uint16_t)work;
  p->a_pitch = (uint16_t)a->pitch;
  p->b_pitch = (uint16_t)b->pitch;
  p->to_pitch = (uint16_t)to->pitch;
  p->m = (uint16_t)step->m;
  p->n = (uint16_t)step->n;
  p->tiles_across = (uint16_t)across;
  p->k4 = (uint8_t)k4;
  p->split = (uint8_t)split;
}

bool mmci_single_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_single *out) {
  layout l;
  if (!is_plain(limits, chain)) return false;
  l.chain = chain;
  l.element_bytes = chain->dtype == MMC_F64 ? 8 : 4;
  if (!place_matrices(&l) || l.size * l.element_bytes > limits->shared_bytes) return false;
  *out = (mmci_single){.ldc = chain->ldc,
                       .count = chain->count,
                       .batch = (int32_t)chain->batch,
                       .arena_bytes = (uint32_t)(l.size * l.element_bytes),
                       .c_stride = chain->c_stride};
  for (int i = 0; i < chain->n; i++) out->strides[i] = chain->forms[i].stride;
  fill_loads(&l, out);
  int round[MMCI_SINGLE_PRODUCTS];
  out->rounds = find_rounds(chain, round);
  for (int r = 0; r < out->rounds; r++) fill_turns(chain, round, r, out);
  for (int s = 0; s < chain->count; s++) fill_product(&l, s, &out->products[s]);
  return true;
}
