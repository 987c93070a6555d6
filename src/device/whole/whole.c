#include "device/whole/whole.h"

bool mmci_whole_supports(const mmci_gemm *gemm) {
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  const bool is_float = is_complex || gemm->dtype == MMC_F32 || gemm->dtype == MMC_F64;
  return is_float && gemm->rule.semiring == MMC_PLUS_TIMES &&
         gemm->k <= MMCI_WHOLE_K / (is_complex ? 2 : 1);
}

void mmci_whole_open(mmci_whole *x, const mmci_gemm *gemm) {
  x->parts = mmci_dtype_is_complex(gemm->dtype) ? 2 : 1;
  x->gemm = *gemm;
  x->turned = gemm->turned;
  if (x->turned) {
    x->gemm.m = gemm->n;
    x->gemm.n = gemm->m;
    x->gemm.a = mmci_form_transposed(gemm->b);
    x->gemm.b = mmci_form_transposed(gemm->a);
  }
  x->m = x->gemm.m;
  x->k = gemm->k * x->parts;
  x->n = x->gemm.n * x->parts;
  x->is_single = gemm->dtype == MMC_F32 || gemm->dtype == MMC_C64;
  x->planes = x->is_single ? MMCI_WHOLE_PLANES_F32 : MMCI_WHOLE_PLANES_F64;
  x->peak = x->is_single ? MMCI_WHOLE_PEAK_F32 : MMCI_WHOLE_PEAK_F64;
  mmci_moduli_fill(&x->moduli);
  x->reach = x->moduli.reach[x->planes];
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Where element (row, k) of an operand is, counted in elements of the dtype. */
typedef struct strides {
  int64_t row, k;
} strides;

static strides strides_of(const mmci_form *form, int which) {
  const bool along = form->trans == (which == 1);
  return along ? (strides){form->ld, 1} : (strides){1, form->ld};
}

static double read(const mmci_whole *x, const void *data, int64_t at) {
  return x->is_single ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static void read_real(const mmci_whole *x, int which, const void *data, int64_t line, int64_t k,
                      double *to) {
  const strides by = strides_of(which == 0 ? &x->gemm.a : &x->gemm.b, which);
  to[0] = read(x, data, line * by.row + k * by.k);
}

static void read_complex(const mmci_whole *x, int which, const void *data, int64_t line, int64_t k,
                         double *to) {
  const mmci_form *form = which == 0 ? &x->gemm.a : &x->gemm.b;
  const strides by = strides_of(form, which);
  const int64_t row = which == 0 ? line : line / 2, at = 2 * (row * by.row + k * by.k);
  const double re = read(x, data, at), stored = read(x, data, at + 1),
               im = form->conj ? -stored : stored;
  const bool is_second = which == 1 && line % 2 == 1;
  to[0] = is_second ? im : re;
  to[1] = is_second ? re : which == 1 ? -im : im;
}

void mmci_whole_read(const mmci_whole *x, int which, const void *data, int64_t first, int64_t count,
                     double *lines) {
  const int64_t terms = x->gemm.k;
  const bool along = strides_of(which == 0 ? &x->gemm.a : &x->gemm.b, which).k == 1;
  const int64_t outer = along ? count : terms, inner = along ? terms : count;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) { /* as they lie in memory */
      const int64_t r = along ? o : i, k = along ? i : o;
      double *to = lines + r * x->k + x->parts * k;
      if (x->parts == 1)
        read_real(x, which, data, first + r, k, to);
      else
        read_complex(x, which, data, first + r, k, to);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

mmci_whole_row mmci_whole_judge(const mmci_whole *x, const double *line) {
  mmci_row_look lanes[MMCI_ROW_LANES] = {0};
  for (int64_t k = 0; k < x->k; k++) mmci_row_add(&lanes[k % MMCI_ROW_LANES], line[k]);
  for (int l = 0; l < MMCI_ROW_LANES; l += 2) {
    mmci_row_join(&lanes[l], &lanes[l + 1]);
    if (l > 0) mmci_row_join(&lanes[0], &lanes[l]);
  }
  const mmci_row_look *look = &lanes[0];
  mmci_whole_row row = {.left = !mmci_row_is_whole(look, x->k, x->peak)};
  if (row.left) return row;
  row.scale = mmci_row_scale(look->squares, mmci_row_grain(look), x->reach, x->k);
  mmci_inverse(row.scale, row.unit);
  return row;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Returns the residue of least magnitude of a number below 2^119 in magnitude, given by its three
 * digits of 40 bits; of an even modulus p -p/2, not p/2. */
static int residue_of(const int64_t *digits, int modulus) {
  const int64_t by = (INT64_C(1) << 40) % modulus, more = by * by % modulus;
  const int64_t sum = digits[0] + digits[1] * by + digits[2] * more;
  const int r = (int)(sum - llrint((double)sum / modulus) * modulus);
  return 2 * r >= modulus ? r - modulus : 2 * r < -modulus ? r + modulus : r;
}

static double double_of(const mmci_whole *x, const mmci_whole_row *left,
                        const mmci_whole_row *right, mmci_i128 sum) {
  const mmci_modulus_share *shares = x->moduli.share[x->planes];
  const int64_t mask = (INT64_C(1) << 40) - 1;
  const int64_t digits[] = {(int64_t)(sum & mask), (int64_t)(sum >> 40 & mask),
                            (int64_t)(sum >> 80)};
  mmci_fraction fraction = {0, 0};
  for (int p = 0; p < x->planes; p++) {
    const int r = residue_of(digits, x->moduli.modulus[p].modulus);
    mmci_fraction_add(&fraction, (uint32_t)(r + 128), &shares[p]);
    fraction.high -= 128 * shares[p].fraction;
    fraction.low -= 128 * shares[p].beyond;
  }
  double unit[2] = {left->unit[0], left->unit[1]};
  mmci_unit_times(unit, x->moduli.product_parts[x->planes]);
  return mmci_fraction_times(fraction, unit, right->unit);
}

double mmci_whole_result(const mmci_whole *x, const mmci_whole_row *a, const mmci_whole_row *b,
                         mmci_i128 sum) {
  if (x->is_single) return mmci_sum_times((int64_t)sum, a->unit[0], b->unit[0]);
  return double_of(x, a, b, sum);
}

void mmci_whole_write(const mmci_whole *x, void *c, int64_t i, int64_t j, double result) {
  const int64_t col = j / x->parts, part = j % x->parts;
  const int64_t at = (x->turned ? col * x->gemm.ldc + i : i * x->gemm.ldc + col) * x->parts + part;
  const bool accumulate = x->gemm.accumulate;
  if (x->is_single)
    ((float *)c)[at] = mmci_result_f32(((float *)c)[at], accumulate, result);
  else
    ((double *)c)[at] = mmci_result_f64(((double *)c)[at], accumulate, result);
}
