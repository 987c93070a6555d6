#include "structure/steps.h"

#include "base/alloc.h"
#include "base/dtype.h"

/* Steps while they are listed. */
typedef struct listing {
  const mmci_structure_table *table;
  const mmci_structure_prices *prices;
  mmci_structure_steps *out;
} listing;

/* Returns the way that computes what is held; converts says whether its inverse is then formed. */
static const mmci_structure_way *way_of(const mmci_structure_entry *entry, int form,
                                        bool *converts) {
  const mmci_structure_way *way = &entry->ways[form];
  *converts = way->converts;
  return way->converts ? &entry->ways[!form] : way;
}

static mmci_structure_cost cost_of_inverse(const listing *l, const mmci_structure_entry *entry,
                                           int32_t i, bool is_factor) {
  return mmci_structure_invert(entry->traits, l->table->chain->dims[i], is_factor, l->prices);
}

/* Lists the steps that compute factors i to j-1 in a form, and returns the operand that they make.
 * *formed says whether that is a factor whose inverse is to be formed by its reader. */
static int32_t list(listing *l, int32_t i, int32_t j, int form, bool *formed) {
  const mmci_structure_entry *entry = mmci_structure_at(l->table, i, j);
  bool converts, formed_operands[2] = {false, false};
  const mmci_structure_way *way = way_of(entry, form, &converts);
  *formed = converts && way->split < 0;
  if (way->split < 0) return i;
  const int32_t k = way->split;
  const mmci_structure_entry *left = mmci_structure_at(l->table, i, k),
                             *right = mmci_structure_at(l->table, k, j);
  int32_t a = list(l, i, k, way->left, &formed_operands[0]), b = a;
  if (!way->mirrors) b = list(l, k, j, way->right, &formed_operands[1]);
  if (way->mirrors && k == i + 1) b = k;
  mmci_structure_step step = {.kernel = (mmci_structure_kernel)way->kernel,
                              .right = way->kernel_right,
                              .inverse = {way->left == MMCI_INVERTED, way->right == MMCI_INVERTED},
                              .formed = {formed_operands[0], formed_operands[1]},
                              .reversed = way->left == MMCI_INVERTED && way->right == MMCI_INVERTED,
                              .mirrored = way->mirrors,
                              .conjugated = way->conjugated,
                              .inverts = converts,
                              .traits = {left->traits, right->traits, entry->traits},
                              .bands = {left->bands[way->left], right->bands[way->right],
                                        entry->bands[converts ? !form : form]},
                              .banded = l->table->banded};
  mmci_structure_cost cost = way->cost, children = left->ways[way->left].cost;
  if (!way->mirrors) children = mmci_structure_add(children, right->ways[way->right].cost);
  cost.count -= children.count;
  cost.seconds -= children.seconds;
  if (converts) cost = mmci_structure_add(cost, cost_of_inverse(l, entry, i, false));
  if (formed_operands[0]) cost = mmci_structure_add(cost, cost_of_inverse(l, left, i, true));
  if (formed_operands[1]) cost = mmci_structure_add(cost, cost_of_inverse(l, right, k, true));
  step.multiplications = cost.count;
  step.predicted_s = cost.seconds;
  const int32_t s = l->out->count++;
  l->out->steps[s] = step;
  l->out->operands[s][0] = a;
  l->out->operands[s][1] = b;
  l->out->ranges[s][0] = i;
  l->out->ranges[s][1] = k;
  l->out->ranges[s][2] = j;
  return l->table->chain->n + s;
}

mmc_status mmci_structure_list(const mmci_structure_table *table,
                               const mmci_structure_prices *prices, mmci_structure_steps *out,
                               mmci_error *error) {
  const int32_t n = table->chain->n;
  const mmci_structure_entry *whole = mmci_structure_at(table, 0, n);
  const size_t count = (size_t)n,
               bytes = sizeof *out->steps + sizeof *out->operands + sizeof *out->ranges;
  *out = (mmci_structure_steps){.traits = whole->traits, .cost = whole->ways[MMCI_PLAIN].cost};
  if (table->banded && table->chain->dims[0] == table->chain->dims[n] &&
      mmci_band_tells(out->traits, whole->bands[MMCI_PLAIN], table->chain->dims[0])) {
    out->traits |= MMC_BANDED;
    out->band = whole->bands[MMCI_PLAIN];
  }
  if (!whole->ways[MMCI_PLAIN].possible)
    return mmci_fail_argument(error, MMC_E_ARG, "order",
                              "expected one that computes each group in parentheses by itself");
  if (out->cost.count == MMCI_U128_MAX)
    return mmci_fail(error, MMC_E_OVERFLOW, "the multiplications do not fit 128 bits");
  out->steps = mmci_alloc_array(count, bytes);
  if (out->steps == NULL) return mmci_fail_nomem(error, count * bytes);
  out->operands = (int32_t(*)[2])(out->steps + count);
  out->ranges = (int32_t(*)[3])(out->operands + count);
  listing l = {table, prices, out};
  list(&l, 0, n, MMCI_PLAIN, &out->inverts);
  return MMC_OK;
}

void mmci_structure_steps_destroy(mmci_structure_steps *steps) {
  free(steps->steps);
  *steps = (mmci_structure_steps){0};
}

int32_t mmci_structure_split(const mmci_structure_table *table, int32_t i, int32_t j) {
  const mmci_structure_entry *entry = mmci_structure_at(table, i, j);
  for (int form = MMCI_PLAIN; form <= MMCI_INVERTED; form++)
    if (entry->ways[form].possible && entry->ways[form].split >= 0) return entry->ways[form].split;
  return i + 1;
}

/* ---- scratch -------------------------------------------------------------------------------- */

/* Returns bytes for elements, rounded up to a line of cache; UINT64_MAX when that is too much. */
static uint64_t bytes_of(mmc_dtype dtype, int64_t rows, int64_t cols) {
  uint64_t bytes;
  if (__builtin_mul_overflow((uint64_t)rows, (uint64_t)cols, &bytes) ||
      __builtin_mul_overflow(bytes, (uint64_t)mmc_dtype_size(dtype), &bytes) ||
      __builtin_add_overflow(bytes, (uint64_t)63, &bytes))
    return UINT64_MAX;
  return bytes & ~(uint64_t)63;
}

static uint64_t add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Returns the bytes of a banded matrix as kernels take it, with what their factors add. */
static uint64_t bytes_of_band(const mmci_structure_step *step, mmc_dtype dtype, int64_t side) {
  const mmc_band band = step->bands[step->right ^ step->reversed];
  const int64_t widths = band.below + band.above; /* at most 2^63 - 2 */
  return widths > INT64_MAX / 4 ? UINT64_MAX : bytes_of(dtype, 2 * widths + 1, side);
}

uint64_t mmci_structure_scratch(const mmci_structure_step *step, mmc_dtype dtype, bool on_device,
                                int64_t m, int64_t k, int64_t n) {
  const uint64_t result = bytes_of(dtype, m, n);
  const uint64_t left = bytes_of(dtype, m, k), right = bytes_of(dtype, k, n);
  const uint64_t operand = step->right ? right : left, other = step->right ? left : right;
  const int64_t side = step->right ? n : m;
  uint64_t bytes = 0;
  if (step->formed[0]) bytes = add(bytes, left);
  if (step->formed[1]) bytes = add(bytes, right);
  /* There products are computed apart from their operands, and LU, and triangles of f32, are solved
   * with from the left. */
  if (on_device && (step->kernel == MMCI_STRUCTURE_TRMM || step->kernel == MMCI_STRUCTURE_TRTRMM))
    bytes = add(bytes, other);
  if (on_device && (step->kernel == MMCI_STRUCTURE_GESV ||
                    (step->kernel == MMCI_STRUCTURE_TRSM && mmci_structure_solves_left(dtype))))
    bytes = add(bytes, result);
  if (on_device && step->kernel == MMCI_STRUCTURE_BAND && mmci_dtype_is_complex(dtype))
    bytes = add(bytes, operand);
  switch (step->kernel) {
    case MMCI_STRUCTURE_SYSV:
      bytes = add(bytes, result); /* fall through */
    case MMCI_STRUCTURE_POSV:
    case MMCI_STRUCTURE_GESV:
      bytes = add(bytes, operand);
      break;
    case MMCI_STRUCTURE_TBSV:
      bytes = add(bytes, result); /* fall through */
    case MMCI_STRUCTURE_TRMM:
    case MMCI_STRUCTURE_TRTRMM: /* these copy what is conjugated and not transposed */
    case MMCI_STRUCTURE_TRSM:
    case MMCI_STRUCTURE_SYRK:
      if (mmci_dtype_is_complex(dtype)) bytes = add(bytes, operand);
      break;
    case MMCI_STRUCTURE_SYMV:
    case MMCI_STRUCTURE_SYMM:
      bytes = add(bytes, other); /* fall through */
    case MMCI_STRUCTURE_BLOCKS:
      if (mmci_dtype_is_complex(dtype)) bytes = add(bytes, add(left, right));
      break;
    case MMCI_STRUCTURE_PERMUTE:
      bytes = add(bytes, add(other, bytes_of(MMC_F64, side, 1)));
      break;
    case MMCI_STRUCTURE_BAND:
      bytes = add(bytes, add(other, bytes_of_band(step, dtype, side)));
      break;
    case MMCI_STRUCTURE_GTSV: /* three diagonals, and that of the factor */
      bytes = add(bytes, add(result, bytes_of(dtype, 4, side)));
      break;
    case MMCI_STRUCTURE_PBSV:
    case MMCI_STRUCTURE_GBSV:
      bytes = add(bytes, add(result, bytes_of_band(step, dtype, side)));
      break;
    default:
      break;
  }
  return bytes;
}
