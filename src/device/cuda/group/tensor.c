/* tensor.c: lays chains out for tensor.cu: where matrices lie in shared memory, when operands are
 * loaded, and how strips of products are spread over warps. Matrices keep the form in which they
 * are stored, because tensor cores read either; they have zeros up to multiples of 16 terms. What
 * is beyond the last row of A or column of B makes only sums that are not taken. */
#include <stdint.h>

#include "base/sizes.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/group/arena.h"
#include "device/cuda/group/group.h"

enum {
  MATRICES = 2 * MMCI_TENSOR_PRODUCTS + 1,
  WARP = 32,
  TILE = 16,
  PITCH_MORE = 8, /* elements, so that rows begin in different banks */
  ELEMENT_BYTES = 2,
  WORD = 8, /* elements of 16 bytes */
  WARPS_MOST = 16,
  WIDTH_MOST = 4,
  EAGER_BYTES = 100 * 1024, /* bytes above which operands are loaded only when they are needed */
  BLOCK_BYTES = 48 * 1024,  /* bytes of all groups that share a block, at most */
};

/* A strip costs so many more tiles of 16 x 16 x 16: its operand A, and its end. */
static const int64_t OF_A = 1, OF_STRIP = 3;

typedef struct layout {
  const mmci_group *chain;
  mmci_place places[MATRICES];
  uint32_t size; /* elements of the arena */
} layout;

static uint32_t up16(int64_t x) {
  return mmci_arena_up(x, TILE);
}

static bool is_stored_trans(const layout *l, int matrix) {
  return matrix < l->chain->n && l->chain->forms[matrix].trans;
}

static void place_matrices(layout *l, mmci_hurry when) {
  const mmci_group *chain = l->chain;
  const int count = chain->n + chain->count;
  mmci_arena_find_lives(chain, when, l->places);
  for (int i = 0; i < count; i++) {
    mmci_place *p = &l->places[i];
    const bool trans = is_stored_trans(l, i);
    p->pitch = up16(trans ? p->rows : p->cols) + PITCH_MORE;
    p->size = up16(trans ? p->cols : p->rows) * p->pitch;
  }
  /* The result is copied from the arena after the last product. */
  l->places[count - 1].last = chain->count;
  l->size = mmci_arena_lay_out(count, l->places);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Returns how many columns of tiles a strip has, for so many warps. */
static int width_of(const mmci_group_product *x, int64_t warps) {
  const int64_t m16 = mmci_quotient_up(x->m, TILE), n16 = mmci_quotient_up(x->n, TILE),
                k16 = mmci_quotient_up(x->k, TILE);
  int64_t least = INT64_MAX;
  int best = 1;
  for (int w = 1; w <= WIDTH_MOST; w++) {
    const int64_t rounds = mmci_quotient_up(m16 * mmci_quotient_up(n16, w), warps),
                  cost = rounds * (k16 * (OF_A + w) + OF_STRIP + w);
    if (cost > least) continue;
    least = cost;
    best = w;
  }
  return best;
}

/* One chain gets many warps; of a batch a chain gets as many as have a wide strip each. */
static uint32_t warps_of(const mmci_group *chain) {
  int64_t most = 1;
  const int64_t width = chain->batch > 1 ? WIDTH_MOST : 1;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const int64_t strips =
        mmci_quotient_up(x->m, TILE) * mmci_quotient_up(mmci_quotient_up(x->n, TILE), width);
    if (strips > most) most = strips;
  }
  return (uint32_t)mmci_quotient_up(most, mmci_quotient_up(most, WARPS_MOST));
}

static void choose_threads(const layout *l, mmci_tensor *out) {
  const uint32_t threads = warps_of(l->chain) * WARP;
  out->threads = (uint16_t)threads;
  out->arena_bytes = l->size * ELEMENT_BYTES;
  out->groups = 1;
  while (l->chain->batch > 1 && out->groups < 8 &&
         out->groups * 2u * threads <= MMCI_TENSOR_SMALL_THREADS &&
         out->groups * 2u * out->arena_bytes <= BLOCK_BYTES)
    out->groups *= 2;
}

/* along: the operand's rows or columns that are the product's follow each other in a line. */
static mmci_tensor_side side_of(const mmci_place *p, bool trans, bool along) {
  const uint32_t lines = TILE * p->pitch;
  return (mmci_tensor_side){.at = p->at,
                            .step = along ? TILE : lines,
                            .k_step = along ? lines : TILE,
                            .pitch = (uint16_t)p->pitch,
                            .trans = trans};
}

static void fill_product(const layout *l, int s, mmci_tensor *out) {
  const mmci_group_product *x = &l->chain->products[s];
  const mmci_place *to = &l->places[l->chain->n + s];
  const bool a_trans = is_stored_trans(l, x->left), b_trans = is_stored_trans(l, x->right);
  const int width = width_of(x, out->threads / WARP);
  const int64_t strips = mmci_quotient_up(mmci_quotient_up(x->n, TILE), width);
  out->products[s] =
      (mmci_tensor_product){.a = side_of(&l->places[x->left], a_trans, a_trans),
                            .b = side_of(&l->places[x->right], b_trans, !b_trans),
                            .to = to->at,
                            .magic = mmci_arena_magic((uint32_t)strips),
                            .to_pitch = (uint16_t)to->pitch,
                            .m = (uint16_t)x->m,
                            .n = (uint16_t)x->n,
                            .k16 = (uint8_t)mmci_quotient_up(x->k, TILE),
                            .n16 = (uint8_t)mmci_quotient_up(x->n, TILE),
                            .strips = (uint8_t)strips,
                            .width = (uint8_t)width,
                            .units = (uint16_t)(mmci_quotient_up(x->m, TILE) * strips)};
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* Returns how many elements may be copied at once. */
static int word_of(int64_t length, int64_t ld, int64_t stride) {
  int word = WORD;
  while (word > 1 && (length % word != 0 || ld % word != 0 || stride % word != 0)) word /= 2;
  return word;
}

/* Single elements are gathered to words of 16 bytes. */
static void set_word(mmci_tensor_load *load, int word) {
  const uint32_t across = up16(load->length) / (uint32_t)(word > 1 ? word : WORD);
  load->word = (uint8_t)word;
  load->across = (uint16_t)across;
  load->magic = mmci_arena_magic(across);
  load->words = (load->has_terms ? up16(load->lines) : load->lines) * across;
}

/* Says whether the lines of an operand, as it is stored, are terms of a product. */
static bool has_terms(const mmci_group *chain, int operand) {
  const bool trans = chain->forms[operand].trans;
  for (int s = 0; s < chain->count; s++)
    if ((trans ? chain->products[s].left : chain->products[s].right) == operand) return true;
  return false;
}

static void fill_load(const layout *l, int operand, mmci_tensor *out) {
  const mmci_form *form = &l->chain->forms[operand];
  const mmci_place *p = &l->places[operand];
  mmci_tensor_load *load = &out->load[out->loads++];
  *load = (mmci_tensor_load){.ld = form->ld,
                             .stride = form->stride,
                             .at = p->at,
                             .lines = (uint16_t)(form->trans ? p->cols : p->rows),
                             .length = (uint16_t)(form->trans ? p->rows : p->cols),
                             .pitch = (uint16_t)p->pitch,
                             .operand = (uint8_t)operand,
                             .gathered = form->gathered,
                             .has_terms = has_terms(l->chain, operand)};
  set_word(load, form->gathered ? 1 : word_of(load->length, form->ld, form->stride));
}

static void set_c_word(mmci_tensor *out, int word) {
  const uint32_t across = out->products[out->count - 1].n / (uint32_t)word;
  out->c_word = (uint8_t)word;
  out->c_across = (uint16_t)across;
  out->c_magic = mmci_arena_magic(across);
  out->c_words = out->products[out->count - 1].m * across;
}

static void fill_steps(const layout *l, mmci_tensor *out) {
  const mmci_group *chain = l->chain;
  out->small = out->threads * out->groups <= MMCI_TENSOR_SMALL_THREADS;
  for (int s = 0; s < chain->count; s++) {
    fill_product(l, s, out);
    out->small = out->small && out->products[s].width <= 2;
  }
  for (int s = -1; s < chain->count; s++) {
    for (int i = 0; i < chain->n; i++)
      if (l->places[i].first == s) fill_load(l, i, out);
    if (s < 0)
      out->loads_first = out->loads;
    else
      out->products[s].loads = out->loads;
  }
  const mmci_place *result = &l->places[chain->n + chain->count - 1];
  out->c_at = result->at;
  out->c_pitch = (uint16_t)result->pitch;
  set_c_word(out, chain->c_gathered ? 1 : word_of(result->cols, chain->ldc, chain->c_stride));
}

bool mmci_tensor_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_tensor *out) {
  layout l = {.chain = chain};
  if (mmci_cuda_element_bytes(chain->dtype) != ELEMENT_BYTES ||
      !mmci_arena_takes(chain, MMCI_TENSOR_PRODUCTS))
    return false;
  mmci_hurry when = MMCI_EAGER;
  place_matrices(&l, when);
  while (when < MMCI_LATE &&
         l.size * ELEMENT_BYTES > (when == MMCI_EAGER ? EAGER_BYTES : limits->shared_bytes))
    place_matrices(&l, when = (mmci_hurry)(when + 1));
  if (l.size * ELEMENT_BYTES > limits->shared_bytes) return false;
  *out = (mmci_tensor){.batch = chain->batch,
                       .ldc = chain->ldc,
                       .c_stride = chain->c_stride,
                       .c_gathered = chain->c_gathered,
                       .late = when == MMCI_LATE,
                       .in_order = mmci_precision_is_reproducible(chain->precision),
                       .count = (uint8_t)chain->count};
  choose_threads(&l, out);
  fill_steps(&l, out);
  return true;
}

static int word_at(const void *address, int most) {
  while ((uintptr_t)address % (uintptr_t)(most * ELEMENT_BYTES) != 0) most /= 2;
  return most;
}

void mmci_tensor_bind(mmci_tensor *tensor, const void *const *operands, void *c) {
  for (int l = 0; l < tensor->loads; l++) {
    mmci_tensor_load *load = &tensor->load[l];
    load->data = operands[load->operand];
    const int word = load->gathered ? 1 : word_at(load->data, load->word);
    if (word != load->word) set_word(load, word);
  }
  tensor->c = c;
  const int word = tensor->c_gathered ? 1 : word_at(c, tensor->c_word);
  if (word != tensor->c_word) set_c_word(tensor, word);
}
