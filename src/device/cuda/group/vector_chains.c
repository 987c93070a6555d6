/* vector_chains.c: lays chains out for vector_chains.cu. */
#include "device/cuda/group/vector_chains.h"

#include "base/dtype.h"
#include "device/cuda/element_bytes.h"

enum {
  WARP = 32,
  WORD_BYTES = 16,
  GATE_BYTES = 16,     /* of a slot: two gates */
  WARP_BYTES = 3584,   /* of a chunk, for every warp of the team: then three blocks fit */
  SYSTEM_BYTES = 1024, /* of shared memory, which every block takes */
  SLACK = MMCI_LINE_BYTES + WORD_BYTES /* what copies may take more than their chunk */
};

static size_t up(size_t x, size_t to) {
  return (x + to - 1) / to * to;
}

/* Returns the bytes of an element's sum. */
static uint32_t sum_bytes(mmc_dtype dtype) {
  const uint32_t bytes = (uint32_t)mmci_cuda_element_bytes(dtype);
  return bytes < 4 ? 4 : bytes;
}

/* ---- what is taken --------------------------------------------------------------------------- */

/* Says whether a vector of so many elements, stored as a row or else as a column, has no gaps. */
static bool is_tight(const mmci_form *form, bool is_row, int64_t elements) {
  return !form->gathered && (is_row || form->ld == 1 || elements == 1);
}

/* Fills in how the matrix, rows x cols as it is used, meets the vector. A line of one element is
 * taken for an element of one line. */
static bool fill_step(const mmci_group *chain, int32_t operand, bool vector_is_left, int64_t rows,
                      int64_t cols, mmci_vector_step *out) {
  const mmci_form *form = &chain->forms[operand];
  int64_t lines = form->trans ? cols : rows, length = form->trans ? rows : cols;
  bool along = form->trans == vector_is_left;
  if (form->gathered || (chain->batch > 1 && chain->c_stride != 0 && form->stride == 0))
    return false;
  if (lines > 1 && form->ld != length) return false;
  if (length == 1) {
    length = lines;
    lines = 1;
    along = !along;
  }
  if (lines > INT32_MAX / length) return false;
  *out = (mmci_vector_step){.stride = form->stride,
                            .lines = (uint32_t)lines,
                            .length = (uint32_t)length,
                            .operand = (uint8_t)operand,
                            .along = along,
                            .conj = form->conj};
  return true;
}

/* Follows the vector from product to product, as the left operand of all or as the right one. */
static bool follow(const mmci_group *chain, bool vector_is_left, mmci_vector_chain *out) {
  const mmci_group_product *first = &chain->products[0], *last = &chain->products[chain->count - 1];
  const int32_t x = vector_is_left ? first->left : first->right;
  const mmci_form *form = &chain->forms[x];
  if (x >= chain->n || !is_tight(form, form->trans != vector_is_left, first->k)) return false;
  if (!vector_is_left && last->m > 1 && chain->ldc != 1) return false;
  out->x_operand = (uint8_t)x;
  out->x_conj = form->conj;
  out->x_stride = form->stride;
  out->first = out->most = (uint32_t)first->k;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *p = &chain->products[s];
    const int32_t vector = vector_is_left ? p->left : p->right,
                  matrix = vector_is_left ? p->right : p->left;
    const int64_t results = vector_is_left ? p->n : p->m;
    if ((vector_is_left ? p->m : p->n) != 1 || results < 1 || p->k < 1 || matrix >= chain->n ||
        matrix == x || vector != (s == 0 ? x : chain->n + s - 1) || results > INT32_MAX ||
        p->k > INT32_MAX ||
        !fill_step(chain, matrix, vector_is_left, vector_is_left ? p->k : p->m,
                   vector_is_left ? p->n : p->k, &out->steps[s]))
      return false;
    if (results > out->most) out->most = (uint32_t)results;
  }
  return true;
}

/* ---- a layout -------------------------------------------------------------------------------- */

/* Returns so many elements, a power of two, that they are at most a word and divide all lines and
 * strides. */
static uint8_t word_of(mmc_dtype dtype, const mmci_vector_chain *x) {
  int64_t word = WORD_BYTES / (int64_t)mmci_cuda_element_bytes(dtype);
  for (int s = 0; s < x->count; s++)
    while (x->steps[s].length % word != 0 || x->steps[s].stride % word != 0) word /= 2;
  return (uint8_t)word;
}

/* Cuts the matrices into chunks for teams of so many warps; returns false where these are too
 * small, or what a block needs too large. */
static bool cut(const mmci_group_limits *limits, mmc_dtype dtype, int team, mmci_vector_chain *x) {
  const uint32_t bytes = (uint32_t)mmci_cuda_element_bytes(dtype),
                 room = (uint32_t)team * WARP_BYTES - SLACK,
                 widest = (uint32_t)team * WARP * (MMCI_VECTOR_SUMS_BYTES / sum_bytes(dtype));
  x->team = (uint8_t)team;
  for (int s = 0; s < x->count; s++) {
    mmci_vector_step *step = &x->steps[s];
    if (step->length > room / bytes || (!step->along && step->length > widest)) return false;
    const uint32_t most = room / (step->length * bytes), chunks = (step->lines - 1) / most + 1;
    step->each = (step->lines - 1) / chunks + 1;
  }
  if (x->first > limits->shared_bytes / bytes) return false;
  x->x_bytes = (uint32_t)up((size_t)x->first * bytes + SLACK, MMCI_LINE_BYTES);
  x->slot_bytes = x->x_bytes + (uint32_t)team * WARP_BYTES;
  return mmci_vector_chain_bytes(dtype, x) <= limits->shared_bytes;
}

/* Returns the warps of a team that suit matrices of so many bytes: small ones leave most of more
 * warps without work. */
static int team_of(int64_t bytes) {
  enum { ONE_WARP = 4 << 10, TWO = 24 << 10, FOUR = 96 << 10 };
  return bytes <= ONE_WARP ? 1 : bytes <= TWO ? 2 : bytes <= FOUR ? 4 : MMCI_VECTOR_WARPS;
}

/* Cuts the matrices for teams of so many warps or more: where chains come in few turns, for those
 * by which all turns take the least time. */
static bool choose_team(const mmci_group_limits *limits, mmc_dtype dtype, int least,
                        mmci_vector_chain *x) {
  enum { FEW_TURNS = 4 };
  mmci_vector_chain trial = *x;
  double best = 0;
  for (int team = least; team <= MMCI_VECTOR_WARPS; team *= 2) {
    if (!cut(limits, dtype, team, &trial)) continue;
    const int64_t at_once = (int64_t)limits->multiprocessors *
                            mmci_vector_chain_blocks(limits, dtype, &trial) *
                            (MMCI_VECTOR_WARPS / team),
                  turns = (x->batch - 1) / at_once + 1;
    const double time = (double)turns / team;
    if (best > 0 && !(time < best)) continue;
    best = time;
    *x = trial;
    if (turns > FEW_TURNS) break;
  }
  return best > 0;
}

bool mmci_vector_chain_plan(const mmci_group_limits *limits, const mmci_group *chain,
                            mmci_vector_chain *out) {
  if (!limits->hopper || chain->batch < 2 || 2 * chain->batch < limits->multiprocessors ||
      chain->count > MMCI_VECTOR_STEPS || chain->n != chain->count + 1 || chain->c_gathered ||
      mmci_precision_is_reproducible(chain->precision))
    return false;
  *out = (mmci_vector_chain){
      .batch = chain->batch, .y_stride = chain->c_stride, .count = (uint8_t)chain->count};
  if (!follow(chain, true, out) && !follow(chain, false, out)) return false;
  out->word = word_of(chain->dtype, out);
  int64_t most = 0;
  for (int s = 0; s < out->count; s++) {
    const int64_t elements = (int64_t)out->steps[s].lines * out->steps[s].length;
    if (elements > most) most = elements;
  }
  const int64_t bytes = most * (int64_t)mmci_cuda_element_bytes(chain->dtype);
  return choose_team(limits, chain->dtype, team_of(bytes), out);
}

/* Gates, rings, parts of sums, and two vectors for every team. */
size_t mmci_vector_chain_bytes(mmc_dtype dtype, const mmci_vector_chain *x) {
  const size_t teams = MMCI_VECTOR_WARPS / x->team, slots = teams * MMCI_VECTOR_SLOTS,
               bytes = mmci_cuda_element_bytes(dtype);
  return up(slots * GATE_BYTES, MMCI_LINE_BYTES) + slots * x->slot_bytes +
         (size_t)MMCI_VECTOR_WARPS * WARP * WORD_BYTES / bytes * sum_bytes(dtype) +
         teams * 2 * up(x->most * bytes, WORD_BYTES);
}

int mmci_vector_chain_blocks(const mmci_group_limits *limits, mmc_dtype dtype,
                             const mmci_vector_chain *x) {
  const size_t fit =
      (limits->shared_bytes + SYSTEM_BYTES) / (mmci_vector_chain_bytes(dtype, x) + SYSTEM_BYTES);
  return fit > MMCI_VECTOR_BLOCKS ? MMCI_VECTOR_BLOCKS : fit > 1 ? (int)fit : 1;
}

void mmci_vector_chain_bind(mmc_dtype dtype, mmci_vector_chain *x, const void *const *operands,
                            void *c) {
  const uintptr_t bytes = mmci_cuda_element_bytes(dtype);
  x->x = operands[x->x_operand];
  x->y = c;
  uintptr_t bits = 0;
  for (int s = 0; s < x->count; s++) {
    x->steps[s].data = operands[x->steps[s].operand];
    bits |= (uintptr_t)x->steps[s].data;
  }
  while (x->word > 1 && bits % (x->word * bytes) != 0) x->word /= 2;
}
