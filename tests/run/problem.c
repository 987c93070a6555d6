#include "problem.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../complex_number.h"
#include "../random.h"
#include "base/dtype.h"
#include "base/half.h"
#include "run/matrices.h"

typedef double complex element;

void expect_no_fault(const char *fault, uint64_t seed) {
  if (fault[0] != '\0') fail_msg("seed %llu: %s", (unsigned long long)seed, fault);
}

static void *allocate(size_t size) {
  void *memory = malloc(size + 1);
  assert_non_null(memory);
  return memory;
}

/* ---- plans ----------------------------------------------------------------------------------- */

void random_shape(uint64_t *random, int32_t n, int64_t most, int64_t *dims) {
  int64_t few[2] = {random_below(random, most + 1), random_below(random, most + 1)};
  bool repeat = random_below(random, 3) == 0, zeros = random_below(random, 8) == 0;
  for (int32_t i = 0; i <= n; i++) {
    dims[i] = repeat ? few[random_below(random, 2)] : 1 + random_below(random, most);
    if (zeros && random_below(random, 4) == 0) dims[i] = 0;
  }
}

mmc_dtype random_dtype(uint64_t *random) {
  static const mmc_dtype dtypes[] = {MMC_F32, MMC_F64, MMC_C64, MMC_C128, MMC_F16, MMC_BF16};
  return dtypes[random_below(random, sizeof dtypes / sizeof dtypes[0])];
}

bool has_elements(const mmci_plan *plan) {
  return plan->chain->dims[0] > 0 && plan->chain->dims[plan->chain->n] > 0;
}

static int32_t random_split(void *user, int32_t i, int32_t j) {
  return i + 1 + (int32_t)random_below(user, j - i - 1);
}

mmci_plan random_plan(uint64_t *random, mmc_dtype dtype, int32_t n, const int64_t *dims) {
  return random_batch_plan(random, dtype, n, dims, 1);
}

mmci_plan random_batch_plan(uint64_t *random, mmc_dtype dtype, int32_t n, const int64_t *dims,
                            int64_t batch) {
  mmc_op ops[FACTORS_MAX];
  bool shared[FACTORS_MAX];
  for (int32_t i = 0; i < n; i++) ops[i] = (mmc_op)random_below(random, 3);
  for (int32_t i = 0; i < n; i++) shared[i] = random_below(random, 3) != 0;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = batch;
  if (random_below(random, 3) == 0) options.shared = shared;
  mmc_chain *chain;
  mmci_tree tree;
  mmci_plan plan;
  mmci_error error;
  assert_int_equal(mmci_chain_create_as(dtype, n, dims, ops, &options, &chain, &error), MMC_OK);
  assert_int_equal(mmci_tree_create(n, &tree, &error), MMC_OK);
  assert_int_equal(mmci_tree_from_splits(&tree, random_split, random, &error), MMC_OK);
  assert_int_equal(mmci_plan_from_tree(chain, &tree, &plan, &error), MMC_OK);
  mmc_chain_destroy(chain);
  return plan;
}

/* ---- elements -------------------------------------------------------------------------------- */

static element get(mmc_dtype dtype, const char *data, int64_t place) {
  const char *at = data + (size_t)place * mmc_dtype_size(dtype);
  float f[2];
  double d[2];
  uint16_t half;
  switch (dtype) {
    case MMC_F32:
      memcpy(f, at, sizeof f[0]);
      return f[0];
    case MMC_F64:
      memcpy(d, at, sizeof d[0]);
      return d[0];
    case MMC_C64:
      memcpy(f, at, sizeof f);
      return CMPLX(f[0], f[1]);
    case MMC_C128:
      memcpy(d, at, sizeof d);
      return CMPLX(d[0], d[1]);
    default:
      memcpy(&half, at, sizeof half);
      return dtype == MMC_F16 ? mmci_f16_to_f32(half) : mmci_bf16_to_f32(half);
  }
}

static void put(mmc_dtype dtype, char *data, int64_t place, element value) {
  char *at = data + (size_t)place * mmc_dtype_size(dtype);
  double d[2] = {creal(value), cimag(value)};
  float f[2] = {(float)d[0], (float)d[1]};
  uint16_t half = dtype == MMC_F16 ? mmci_f16_round(d[0]) : mmci_bf16_round(d[0]);
  switch (dtype) {
    case MMC_F32:
      memcpy(at, f, sizeof f[0]);
      break;
    case MMC_F64:
      memcpy(at, d, sizeof d[0]);
      break;
    case MMC_C64:
      memcpy(at, f, sizeof f);
      break;
    case MMC_C128:
      memcpy(at, d, sizeof d);
      break;
    default:
      memcpy(at, &half, sizeof half);
      break;
  }
}

/* At least the absolute value, and soon found. */
static double magnitude(element x) {
  return fabs(creal(x)) + fabs(cimag(x));
}

/* ---- what must come out ---------------------------------------------------------------------- */

/* A matrix and how far off what the device has for it may be. */
typedef struct known {
  int64_t rows, cols;
  element *value;
  double *off;
} known;

static known known_create(int64_t rows, int64_t cols) {
  size_t count = (size_t)(rows * cols);
  known x = {.rows = rows,
             .cols = cols,
             .value = allocate(count * sizeof *x.value),
             .off = allocate(count * sizeof *x.off)};
  memset(x.off, 0, count * sizeof *x.off);
  return x;
}

static void known_destroy(known *x) {
  free(x->value);
  free(x->off);
}

/* op(A) of a chain of the batch. */
static known known_factor(const matrices *m, int32_t i, int64_t number) {
  const mmc_chain *chain = m->plan->chain;
  const held *h = &m->held[i];
  mmci_form form = mmci_factor_form(chain, i, &h->matrix, mmci_matrix_ld(&h->matrix), 0);
  const char *data = m->held[h->same].content + h->at[number];
  known x = known_create(chain->dims[i], chain->dims[i + 1]);
  for (int64_t r = 0; r < x.rows; r++)
    for (int64_t c = 0; c < x.cols; c++) {
      element value = get(chain->dtype, data, form.trans ? c * form.ld + r : r * form.ld + c);
      x.value[r * x.cols + c] = form.conj ? conj(value) : value;
    }
  return x;
}

/* Any order of summation, in the dtype or f32, is within this (Higham 2002, section 3.1), with room
 * for complex products; sums of half types are rounded again after every panel of k. */
static known known_product(mmc_dtype dtype, const known *a, const known *b) {
  bool wide = dtype == MMC_F64 || dtype == MMC_C128;
  double k = (double)a->cols, of_sum = 2 * (k + 2) * (wide ? DBL_EPSILON : FLT_EPSILON);
  double half = dtype == MMC_F16 ? 0x1p-10 : dtype == MMC_BF16 ? 0x1p-7 : 0;
  double of_element = half * (1 + k / 64), least = dtype == MMC_F16 ? (1 + k / 64) * 0x1p-24 : 0;
  known c = known_create(a->rows, b->cols);
  for (int64_t i = 0; i < c.rows; i++)
    for (int64_t j = 0; j < c.cols; j++) {
      double re = 0, im = 0, sum = 0, off = 0;
      for (int64_t l = 0; l < a->cols; l++) {
        element x = a->value[i * a->cols + l], y = b->value[l * b->cols + j];
        double x_off = a->off[i * a->cols + l], y_off = b->off[l * b->cols + j];
        re += creal(x) * creal(y) - cimag(x) * cimag(y);
        im += creal(x) * cimag(y) + cimag(x) * creal(y);
        sum += (magnitude(x) + x_off) * (magnitude(y) + y_off);
        off += x_off * magnitude(y) + magnitude(x) * y_off + x_off * y_off;
      }
      c.value[i * c.cols + j] = CMPLX(re, im);
      c.off[i * c.cols + j] = off + (of_sum + of_element) * sum + least;
    }
  return c;
}

/* By the plan's steps, or factor by factor. */
static known known_by(const matrices *m, int64_t number, bool in_order) {
  const mmc_chain *chain = m->plan->chain;
  int32_t n = chain->n, count = in_order ? n - 1 : m->plan->step_count;
  static known knowns[2 * FACTORS_MAX];
  memset(knowns, 0, sizeof knowns);
  for (int32_t i = 0; i < n; i++) knowns[i] = known_factor(m, i, number);
  for (int32_t s = 0; s < count; s++) {
    int32_t left = in_order ? (s > 0 ? n + s - 1 : 0) : m->plan->steps[s].left;
    int32_t right = in_order ? s + 1 : m->plan->steps[s].right;
    knowns[n + s] = known_product(chain->dtype, &knowns[left], &knowns[right]);
  }
  known *result = &knowns[n > 1 ? n + count - 1 : 0];
  for (known *x = knowns; x < knowns + 2 * FACTORS_MAX; x++)
    if (x != result) known_destroy(x);
  if (result->value == NULL || result->off == NULL) abort();
  return *result;
}

/* The steps bound the error; where matrices repeat, that they are those of the chain is not taken
 * for granted. */
static known known_result(const matrices *m, int64_t number) {
  known result = known_by(m, number, false);
  if (m->plan->chain->same == NULL) return result;
  known in_order = known_by(m, number, true);
  for (int64_t e = 0; e < in_order.rows * in_order.cols; e++) in_order.off[e] += result.off[e];
  known_destroy(&result);
  return in_order;
}

static void find_what_must_come_out(matrices *m) {
  const mmc_chain *chain = m->plan->chain;
  size_t count = (size_t)(chain->dims[0] * chain->dims[chain->n]);
  m->want = allocate((size_t)chain->batch * count * sizeof(element));
  m->bound = allocate((size_t)chain->batch * count * sizeof *m->bound);
  for (int64_t b = 0; b < chain->batch; b++) {
    known result = known_result(m, b);
    if (result.value == NULL || result.off == NULL) abort();
    memcpy(m->want + (size_t)b * 2 * count, result.value, count * sizeof(element));
    memcpy(m->bound + (size_t)b * count, result.off, count * sizeof *m->bound);
    known_destroy(&result);
  }
}

/* ---- matrices -------------------------------------------------------------------------------- */

enum { BAND_BYTES = 192, NAN_BYTE = 0xff };

/* What is said of where the matrices of a batch lie. */
typedef enum said { NOTHING, IS_RESULT, IS_SHARED } said;

/* Returns a divisor of the batch, and neither 1 nor the batch where there is one. */
static int64_t inner_axis(int64_t batch, uint64_t *random) {
  int64_t found = batch > 0 ? batch : 1;
  for (int64_t d = 2; d < batch; d++)
    if (batch % d == 0 && (found == batch || random_below(random, 2) == 0)) found = d;
  return found;
}

/* Places for the matrices of a batch, `bytes` each, in elements of `size` bytes;
 * returns the bytes that they take. One for all, one behind the other, forwards or backwards, those
 * of two axes, along one of which they may be the same, or anywhere; results in different places.
 */
static size_t spread(held *h, int64_t batch, size_t bytes, size_t size, said said,
                     uint64_t *random) {
  enum { SHARED, FORWARDS, BACKWARDS, AXES, ANYHOW, KINDS } kind = (int)random_below(random, KINDS);
  if (said == IS_RESULT && kind != ANYHOW) kind = FORWARDS;
  if (said == IS_SHARED) kind = SHARED;
  int64_t step = (int64_t)(bytes + (size_t)random_below(random, 4) * size);
  h->at = allocate((size_t)batch * sizeof *h->at);
  for (int64_t b = 0; b < batch; b++)
    h->at[b] = kind == SHARED ? 0 : kind == BACKWARDS ? (batch - 1 - b) * step : b * step;
  h->matrix.stride = (kind == SHARED ? 0 : kind == BACKWARDS ? -step : step) / (int64_t)size;
  if (kind != ANYHOW && kind != AXES) return (size_t)(batch * step);
  const int64_t inner = inner_axis(batch, random), along = random_below(random, 3);
  for (int64_t b = 0; kind == AXES && b < batch; b++)
    h->at[b] = step * (along == 0   ? b / inner
                       : along == 1 ? b % inner
                                    : b % inner * (batch / inner) + b / inner);
  for (int64_t b = batch; kind == ANYHOW && b-- > 1;) { /* a shuffle */
    int64_t other = random_below(random, b + 1), place = h->at[b];
    h->at[b] = h->at[other];
    h->at[other] = place;
  }
  h->addresses = allocate((size_t)batch * sizeof *h->addresses);
  return (size_t)(batch * step);
}

static void hold(held *h, mmci_device *device, const mmc_chain *chain, int64_t rows, int64_t cols,
                 mmc_location location, said said, uint64_t *random) {
  size_t size = mmc_dtype_size(chain->dtype);
  h->matrix = (mmc_matrix){.rows = rows,
                           .cols = cols,
                           .layout = (mmc_layout)random_below(random, 2),
                           .location = location};
  int64_t length = mmci_matrix_line_length(&h->matrix), lines = mmci_matrix_lines(&h->matrix);
  if (random_below(random, 2) == 0)
    h->matrix.ld = (length > 0 ? length : 1) + random_below(random, 4);
  size_t bytes = (size_t)(lines * mmci_matrix_ld(&h->matrix)) * size;
  size_t grain = mmci_dtype_is_complex(chain->dtype) ? size / 2 : size;
  if (chain->batch == 1) {
    h->at = allocate(sizeof *h->at);
    h->at[0] = 0;
  } else {
    bytes = spread(h, chain->batch, bytes, size, said, random);
  }
  /* Aligned to the real type and no more. */
  size_t offset = BAND_BYTES + (size_t)random_below(random, 8) * grain;
  h->room_bytes = offset + bytes + BAND_BYTES;
  h->content = allocate(h->room_bytes);
  memset(h->content, NAN_BYTE, h->room_bytes);
  h->room = location == MMC_HOST ? allocate(h->room_bytes) : fake_alloc(device, h->room_bytes);
  for (int64_t b = 0; b < chain->batch; b++) h->at[b] += (int64_t)offset;
  h->matrix.data = h->room + (chain->batch > 0 ? h->at[0] : 0);
  if (h->addresses == NULL) return;
  for (int64_t b = 0; b < chain->batch; b++) {
    h->addresses[b] = h->room + h->at[b];
    if (b > 1 && h->at[b] - h->at[b - 1] != h->at[1] - h->at[0]) h->uneven = true;
  }
  h->matrix.data = NULL;
  h->matrix.addresses = h->addresses;
}

/* Values that keep products near 1 when k of them are added up, and powers below. */
static void fill(held *h, const mmc_chain *chain, int64_t k, uint64_t *random) {
  mmc_dtype dtype = chain->dtype;
  int64_t ld = mmci_matrix_ld(&h->matrix), length = mmci_matrix_line_length(&h->matrix);
  double scale = sqrt((chain->same != NULL ? 0.75 : 3.0) / (double)(k > 0 ? k : 1));
  for (int64_t b = 0; b < chain->batch; b++)
    for (int64_t i = 0; i < mmci_matrix_lines(&h->matrix); i++)
      for (int64_t j = 0; j < length; j++) {
        double re = random_unit(random) * scale;
        put(dtype, h->content + h->at[b], i * ld + j,
            mmci_dtype_is_complex(dtype) ? CMPLX(re, random_unit(random) * scale) : re);
      }
}

static char *bytes_of(const matrices *m, const held *h) {
  if (h->matrix.location == MMC_HOST) return h->room;
  return fake_bytes(m->device, h->room, h->room_bytes);
}

/* What the chain says, or an earlier factor of this shape, or i. */
static int64_t same_as(const matrices *m, int32_t i, int64_t rows, int64_t cols, uint64_t *random) {
  const int32_t *known = m->plan->chain->same;
  if (known != NULL && known[i] != i) return m->held[known[i]].same;
  int64_t j = i > 0 ? random_below(random, i) : 0;
  const mmc_matrix *x = &m->held[j].matrix;
  const bool is_one = x->stride == 0 && x->addresses == NULL;
  bool same = j < i && x->rows == rows && x->cols == cols && random_below(random, 2) == 0 &&
              (is_one || !mmc_chain_shared(m->plan->chain, i));
  return same ? m->held[j].same : i;
}

static mmc_location random_location(where where, uint64_t *random) {
  if (where == ANYWHERE) return random_below(random, 2) == 0 ? MMC_HOST : MMC_DEVICE;
  return where == ON_HOST ? MMC_HOST : MMC_DEVICE;
}

matrices *matrices_create(const mmci_plan *plan, mmci_device *device, where where, uint64_t *random,
                          uint64_t seed) {
  const mmc_chain *chain = plan->chain;
  matrices *m = allocate(sizeof *m);
  *m = (matrices){.device = device, .plan = plan, .seed = seed};
  for (int32_t i = 0; i < chain->n; i++) {
    bool as_is = chain->ops[i] == MMC_OP_N;
    int64_t rows = chain->dims[as_is ? i : i + 1], cols = chain->dims[as_is ? i + 1 : i];
    held *h = &m->held[i];
    int64_t same = same_as(m, i, rows, cols, random);
    if (same != i) {
      *h = m->held[same];
    } else {
      hold(h, device, chain, rows, cols, random_location(where, random),
           mmc_chain_shared(chain, i) ? IS_SHARED : NOTHING, random);
      fill(h, chain, chain->dims[i + 1], random);
      memcpy(bytes_of(m, h), h->content, h->room_bytes);
    }
    h->same = same;
    m->factors[i] = h->matrix;
  }
  held *out = &m->held[chain->n];
  hold(out, device, chain, chain->dims[0], chain->dims[chain->n], random_location(where, random),
       IS_RESULT, random);
  m->out = out->matrix;
  matrices_poison(m);
  find_what_must_come_out(m);
  return m;
}

void matrices_destroy(matrices *m) {
  if (m == NULL) return;
  for (int32_t i = 0; i <= m->plan->chain->n; i++) {
    held *h = &m->held[i];
    if (i < m->plan->chain->n && h->same != i) continue;
    if (h->matrix.location == MMC_HOST)
      free(h->room);
    else
      fake_free(m->device, h->room);
    free(h->content);
    free(h->at);
    free(h->addresses);
  }
  free(m->want);
  free(m->bound);
  free(m);
}

bool matrices_are_on_device(const matrices *m) {
  for (int32_t i = 0; i <= m->plan->chain->n; i++)
    if (m->held[i].matrix.location == MMC_HOST) return false;
  return true;
}

bool matrices_are_uneven(const matrices *m) {
  for (int32_t i = 0; i <= m->plan->chain->n; i++)
    if (m->held[i].uneven) return true;
  return false;
}

void matrices_poison(matrices *m) {
  held *out = &m->held[m->plan->chain->n];
  memset(bytes_of(m, out), NAN_BYTE, out->room_bytes);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void check_element(const matrices *m, int64_t b, int64_t r, int64_t c, element got) {
  int64_t at = (b * m->out.rows + r) * m->out.cols + c;
  double re = m->want[2 * at], im = m->want[2 * at + 1], bound = m->bound[at];
  if (fabs(creal(got) - re) <= bound && fabs(cimag(got) - im) <= bound) return;
  fail_msg(
      "seed %llu: %s chain of %d, number %lld: element (%lld, %lld) is %g%+gi, not %g%+gi within "
      "%g",
      (unsigned long long)m->seed, mmc_dtype_name(m->plan->chain->dtype), m->plan->chain->n,
      (long long)b, (long long)r, (long long)c, creal(got), cimag(got), re, im, bound);
}

/* The result becomes NaN again once it is checked; then nothing but NaN must be there. */
void matrices_check_result(const matrices *m, const char *room) {
  const held *out = &m->held[m->plan->chain->n];
  mmc_dtype dtype = m->plan->chain->dtype;
  size_t size = mmc_dtype_size(dtype);
  char *copy = allocate(out->room_bytes);
  memcpy(copy, room, out->room_bytes);
  int64_t ld = mmci_matrix_ld(&m->out);
  for (int64_t b = 0; b < m->plan->chain->batch; b++)
    for (int64_t r = 0; r < m->out.rows; r++)
      for (int64_t c = 0; c < m->out.cols; c++) {
        char *data = copy + out->at[b];
        int64_t place = m->out.layout == MMC_ROW_MAJOR ? r * ld + c : c * ld + r;
        check_element(m, b, r, c, get(dtype, data, place));
        memset(data + (size_t)place * size, NAN_BYTE, size);
      }
  bool untouched = memcmp(copy, out->content, out->room_bytes) == 0;
  free(copy);
  if (!untouched) fail_msg("seed %llu: written beside the result", (unsigned long long)m->seed);
}

void matrices_check(const matrices *m) {
  for (int32_t i = 0; i < m->plan->chain->n; i++)
    if (memcmp(bytes_of(m, &m->held[i]), m->held[i].content, m->held[i].room_bytes) != 0)
      fail_msg("seed %llu: factor %d was written to", (unsigned long long)m->seed, i);
  matrices_check_result(m, bytes_of(m, &m->held[m->plan->chain->n]));
}
