/* tiles.c: lays chains out for tiles.cu. */
#include <stdint.h>

#include "device/cuda/group/arena.h"
#include "device/cuda/group/group.h"

enum { WORD = 4, ELEMENT_BYTES = 4 };

/* The numbers of tiles.cu's sizes, which rise. */
static const mmci_tiles_size SIZES[] = {{24, 32, 24}, {32, 32, 16}, {40, 32, 10},
                                        {48, 32, 8},  {64, 128, 4}, {128, 256, 1}};

bool mmci_tiles_size_of(int i, mmci_tiles_size *out) {
  if (i < 0 || i >= (int)(sizeof SIZES / sizeof *SIZES)) return false;
  *out = SIZES[i];
  return true;
}

static int find_size(int64_t side) {
  for (int i = 0; i < (int)(sizeof SIZES / sizeof *SIZES); i++)
    if (side <= SIZES[i].side) return i;
  return -1;
}

static int64_t longest(const mmci_group *chain) {
  int64_t most = 0;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const int64_t sides[] = {x->m, x->k, x->n};
    for (int t = 0; t < 3; t++)
      if (sides[t] > most) most = sides[t];
  }
  return most;
}

static bool is_taken(const mmci_group *chain) {
  if (chain->dtype != MMC_F32 || chain->n > MMCI_TILES_FACTORS || chain->count != chain->n - 1)
    return false;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].trans) return false;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    if (x->left != (s == 0 ? 0 : chain->n + s - 1) || x->right != s + 1) return false;
  }
  return true;
}

/* Returns how many elements may be copied at once. */
static int word_of(int64_t length, int64_t ld, int64_t stride) {
  int word = WORD;
  while (word > 1 && (length % word != 0 || ld % word != 0 || stride % word != 0)) word /= 2;
  return word;
}

static void set_word(mmci_tiles_factor *f, bool is_first, int word) {
  const uint32_t across = mmci_arena_up(f->cols, WORD) / (uint32_t)word;
  f->word = (uint8_t)word;
  f->across = (uint16_t)across;
  f->magic = mmci_arena_magic(across);
  f->words = (is_first ? f->rows : mmci_arena_up(f->rows, WORD)) * across;
}

static void set_c_word(mmci_tiles *tiles, int word) {
  const uint32_t cols = tiles->factors[tiles->n - 1].cols, across = cols / (uint32_t)word;
  tiles->c_word = (uint8_t)word;
  tiles->c_across = (uint16_t)across;
  tiles->c_magic = mmci_arena_magic(across);
  tiles->c_words = tiles->factors[0].rows * across;
}

bool mmci_tiles_plan(const mmci_group *chain, mmci_tiles *out) {
  const int size = is_taken(chain) ? find_size(longest(chain)) : -1;
  if (size < 0) return false;
  *out = (mmci_tiles){.ldc = chain->ldc,
                      .c_stride = chain->c_stride,
                      .batch = chain->batch,
                      .c_gathered = chain->c_gathered,
                      .in_order = mmci_precision_is_reproducible(chain->precision),
                      .n = (uint8_t)chain->n,
                      .size = (uint8_t)size};
  for (int i = 0; i < chain->n; i++) {
    const mmci_form *form = &chain->forms[i];
    const mmci_group_product *x = &chain->products[i > 0 ? i - 1 : 0];
    mmci_tiles_factor *f = &out->factors[i];
    *f = (mmci_tiles_factor){.ld = form->ld,
                             .stride = form->stride,
                             .rows = (uint16_t)(i > 0 ? x->k : x->m),
                             .cols = (uint16_t)(i > 0 ? x->n : x->k),
                             .gathered = form->gathered};
    set_word(f, i == 0, form->gathered ? 1 : word_of(f->cols, form->ld, form->stride));
  }
  const int64_t n = chain->products[chain->count - 1].n;
  set_c_word(out, !chain->c_gathered && word_of(n, chain->ldc, chain->c_stride) == WORD ? WORD : 1);
  return true;
}

static int word_at(const void *address, int most) {
  while (most > 1 && (uintptr_t)address % (uintptr_t)(most * ELEMENT_BYTES) != 0) most /= 2;
  return most;
}

void mmci_tiles_bind(mmci_tiles *tiles, const void *const *operands, void *c) {
  for (int i = 0; i < tiles->n; i++) {
    mmci_tiles_factor *f = &tiles->factors[i];
    f->data = operands[i];
    const int word = f->gathered ? 1 : word_at(f->data, f->word);
    if (word != f->word) set_word(f, i == 0, word);
  }
  tiles->c = c;
  if (tiles->c_word > 1 && word_at(c, WORD) != WORD) set_c_word(tiles, 1);
}
