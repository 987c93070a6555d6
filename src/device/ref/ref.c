/* ref.c: the device "ref": three plain loops, the oracle that other devices are held against. */
#include "device/ref/ref.h"

#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/interrupt.h"
#include "device/host.h"
#include "device/ref/ref_integer.h"
#include "device/ref/ref_ordered.h"
#include "device/ref/ref_semiring.h"
#include "device/ref/ref_whole.h"

/* ---- the product --------------------------------------------------------------------------- */

/* Elements are stored as type; load and store turn them into doubles and back. */
#define REF_REAL(name, type, load, store)                                          \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) { \
    const type *x = a, *y = b;                                                     \
    const int64_t a_step = mmci_form_place(&gemm->a, 0, 1),                        \
                  b_step = mmci_form_place(&gemm->b, 1, 0);                        \
    for (int64_t i = 0; i < gemm->m; i++)                                          \
      for (int64_t j = 0; j < gemm->n; j++) {                                      \
        const int64_t row = mmci_form_place(&gemm->a, i, 0),                       \
                      column = mmci_form_place(&gemm->b, 0, j);                    \
        type *z = (type *)c + i * gemm->ldc + j;                                   \
        double sum = gemm->accumulate ? load(*z) : 0;                              \
        for (int64_t l = 0; l < gemm->k; l++)                                      \
          sum += (double)load(x[row + l * a_step]) * load(y[column + l * b_step]); \
        *z = store(sum);                                                           \
      }                                                                            \
  }

/* The real and imaginary parts are written out: C's complex product repairs some NaN, BLAS's does
 * not. */
#define REF_COMPLEX(name, type)                                                           \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) {        \
    const type *x = a, *y = b;                                                            \
    const int64_t a_step = mmci_form_place(&gemm->a, 0, 1),                               \
                  b_step = mmci_form_place(&gemm->b, 1, 0);                               \
    double sign_a = gemm->a.conj ? -1 : 1, sign_b = gemm->b.conj ? -1 : 1;                \
    for (int64_t i = 0; i < gemm->m; i++)                                                 \
      for (int64_t j = 0; j < gemm->n; j++) {                                             \
        const int64_t row = mmci_form_place(&gemm->a, i, 0),                              \
                      column = mmci_form_place(&gemm->b, 0, j);                           \
        type *z = (type *)c + 2 * (i * gemm->ldc + j);                                    \
        double re = gemm->accumulate ? z[0] : 0, im = gemm->accumulate ? z[1] : 0;        \
        for (int64_t l = 0; l < gemm->k; l++) {                                           \
          const type *p = x + 2 * (row + l * a_step), *q = y + 2 * (column + l * b_step); \
          double pr = p[0], pi = sign_a * (double)p[1];                                   \
          double qr = q[0], qi = sign_b * (double)q[1];                                   \
          re += pr * qr - pi * qi;                                                        \
          im += pr * qi + pi * qr;                                                        \
        }                                                                                 \
        z[0] = (type)re;                                                                  \
        z[1] = (type)im;                                                                  \
      }                                                                                   \
  }

REF_REAL(gemm_f32, float, (double), (float))
REF_REAL(gemm_f64, double, , )
REF_REAL(gemm_f16, uint16_t, mmci_f16_to_f32, mmci_f16_round)
REF_REAL(gemm_bf16, uint16_t, mmci_bf16_to_f32, mmci_bf16_round)
REF_COMPLEX(gemm_c64, float)
REF_COMPLEX(gemm_c128, double)

void mmci_ref_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
  if (gemm->rule.semiring != MMC_PLUS_TIMES) {
    mmci_ref_semiring_gemm(gemm, a, b, c);
    return;
  }
  if (mmci_precision_is_reproducible(gemm->precision) && !mmci_dtype_is_integer(gemm->dtype)) {
    mmci_ref_ordered(gemm, a, b, c);
    return;
  }
  switch (gemm->dtype) {
    case MMC_F32:
      gemm_f32(gemm, a, b, c);
      break;
    case MMC_F64:
      gemm_f64(gemm, a, b, c);
      break;
    case MMC_C64:
      gemm_c64(gemm, a, b, c);
      break;
    case MMC_C128:
      gemm_c128(gemm, a, b, c);
      break;
    case MMC_F16:
      gemm_f16(gemm, a, b, c);
      break;
    case MMC_BF16:
      gemm_bf16(gemm, a, b, c);
      break;
    default:
      mmci_ref_integer_gemm(gemm, a, b, c);
      break;
  }
}

/* ---- the device ---------------------------------------------------------------------------- */

struct mmci_kernel {
  mmci_gemm gemm;
};

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "plain loops, sums in double precision, one thread: the reference");
}

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  mmci_host_model(out->model, sizeof out->model);
  (void)device;
}

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device;
  return mmci_gemm_is_whole(gemm) ? "whole numbers" : "loops";
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  if (gemm->variant != 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0, got %d", gemm->variant);
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->gemm = *gemm;
  *out = kernel;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  free(kernel);
}

/* The share of its work that asking may see done, from `from` to `to`. */
typedef struct share {
  double from, to;
} share;

/* Multiplies some rows after the other, and asks in between whether to go on; share is the work's
 * of what is enqueued. */
static mmc_status multiply(const mmci_gemm *gemm, const void *a, const void *b, void *c,
                           share share, mmci_error *error) {
  const double at_once = 1e7; /* multiplications, some hundredths of a second of these loops */
  const int64_t size = (int64_t)mmc_dtype_size(gemm->dtype), step = gemm->a.trans ? 1 : gemm->a.ld;
  const double rows_at_once = at_once / ((double)gemm->k * (double)gemm->n + 1);
  const bool cuts = mmci_interrupt_asks() && rows_at_once < (double)gemm->m;
  const int64_t most = cuts ? 1 + (int64_t)rows_at_once : gemm->m;
  mmc_status status = MMC_OK;
  bool fits = true;
  for (int64_t row = 0; row < gemm->m && status == MMC_OK; row += most) {
    mmci_gemm rows = *gemm;
    const void *of_a = mmci_address(a, row * step * size);
    void *of_c = mmci_address(c, row * gemm->ldc * size);
    rows.m = gemm->m - row < most ? gemm->m - row : most;
    if (mmci_gemm_is_whole(&rows))
      status = mmci_ref_whole(&rows, of_a, b, of_c, error);
    else if (mmci_dtype_is_integer(rows.dtype) && rows.rule.semiring == MMC_PLUS_TIMES)
      fits = mmci_ref_integer_gemm(&rows, of_a, b, of_c) && fits;
    else
      mmci_ref_gemm(&rows, of_a, b, of_c);
    const double done = (double)(row + rows.m) / (double)gemm->m;
    mmci_interrupt_done(share.from + done * (share.to - share.from));
    if (status == MMC_OK && done < 1 && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a product");
  }
  return status == MMC_OK && !fits ? mmci_integer_overflow(gemm, error) : status;
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  const mmci_gemm *x = &kernel->gemm;
  const int64_t batch = x->batch > 0 ? x->batch : 1;
  const size_t size = mmc_dtype_size(x->dtype);
  mmc_status status = MMC_OK;
  (void)queue;
  for (int64_t i = 0; i < batch && status == MMC_OK; i++) {
    const share share = {(double)i / (double)batch, (double)(i + 1) / (double)batch};
    status = multiply(x, mmci_batch_at(a, &x->a, size, i), mmci_batch_at(b, &x->b, size, i),
                      mmci_batch_result_at(c, false, x->c_stride, size, i), share, error);
    if (status == MMC_OK && i + 1 < batch && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a batch");
  }
  return status;
}

/* ---- chains -----------------------------------------------------------------------------------
 */

/* A factor or result: where it is, and how it lies. */
typedef struct value {
  const void *data;
  mmci_form form;
} value;

/* Results within a group are no workspace of the plan's, so that they have to be small. */
enum { GROUP_SIDE = 128 };

/* A kernel may be enqueued by one queue at a time. */
struct mmci_group_kernel {
  mmci_group group; /* the group, with arrays of its own */
  mmci_form *forms;
  mmci_group_product *products;
  value *values;   /* n factors, then count results */
  char **places;   /* where each result lies until its last reader has run; of the last, NULL */
  char *workspace; /* holds the intermediates that are there at once */
};

static bool group_supports(const mmci_device *device, const mmci_group *group) {
  (void)device;
  for (int32_t s = 0; s < group->count; s++) {
    const mmci_group_product *x = &group->products[s];
    if (x->m > GROUP_SIDE || x->k > GROUP_SIDE || x->n > GROUP_SIDE) return false;
  }
  return group->count > 0 && group->variant == 0 && !group->rule.checked &&
         mmci_group_is_chains(group);
}

static const char *group_name(const mmci_device *device, const mmci_group *group) {
  (void)device, (void)group;
  return "loops";
}

static void group_release(mmci_group_kernel *kernel) {
  if (kernel == NULL) return;
  free(kernel->forms);
  free(kernel->products);
  free(kernel->values);
  free(kernel->places);
  free(kernel->workspace);
  free(kernel);
}

/* Gives the intermediates numbers of places, which are used again once what lies there has been
 * read; returns how many places there are. `numbers` has room for three of each product. */
static int32_t number_places(const mmci_group *group, int32_t *numbers) {
  const int32_t n = group->n, count = group->count;
  int32_t *last_reader = numbers + count, *idle = numbers + 2 * count;
  int32_t idle_count = 0, places = 0;
  for (int32_t s = 0; s < count; s++) {
    const int32_t reads[] = {group->products[s].left, group->products[s].right};
    for (int o = 0; o < 2; o++)
      if (reads[o] >= n) last_reader[reads[o] - n] = s;
  }
  for (int32_t s = 0; s < count - 1; s++) {
    const int32_t reads[] = {group->products[s].left, group->products[s].right};
    numbers[s] = idle_count > 0 ? idle[--idle_count] : places++;
    for (int o = 0; o < 2; o++) {
      const int32_t result = reads[o] - n;
      if (result < 0 || last_reader[result] != s) continue;
      idle[idle_count++] = numbers[result];
      last_reader[result] = -1; /* both operands may be one */
    }
  }
  return places;
}

/* Takes the workspace. */
static mmc_status give_places(mmci_group_kernel *kernel, const mmci_group *group,
                              mmci_error *error) {
  const size_t count = (size_t)group->count, size = mmc_dtype_size(group->dtype);
  int32_t *numbers = mmci_alloc_array(3 * count, sizeof *numbers);
  if (numbers == NULL) return mmci_fail_nomem(error, 3 * count * sizeof *numbers);
  uint64_t most = 0;
  for (size_t s = 0; s < count - 1; s++) {
    const mmci_group_product *x = &group->products[s];
    const uint64_t bytes = mmci_result_bytes(x->m, x->n, size);
    if (bytes > most) most = bytes;
  }
  const size_t places = (size_t)number_places(group, numbers);
  kernel->places = mmci_alloc_zeroed(count, sizeof *kernel->places);
  kernel->workspace = mmci_alloc_aligned(places, (size_t)most);
  const bool has_room = kernel->places != NULL && kernel->workspace != NULL;
  for (size_t s = 0; s < count - 1 && has_room; s++)
    kernel->places[s] = kernel->workspace + (size_t)numbers[s] * (size_t)most;
  free(numbers);
  return has_room ? MMC_OK : mmci_fail_nomem(error, places * most);
}

static mmc_status group_prepare(mmci_device *device, const mmci_group *group,
                                mmci_group_kernel **out, mmci_error *error) {
  if (!group_supports(device, group))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "group: expected variant 0, got %d", group->variant);
  mmci_group_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  const size_t n = (size_t)group->n, count = (size_t)group->count;
  kernel->group = *group;
  kernel->forms = mmci_alloc_array(n, sizeof *kernel->forms);
  kernel->products = mmci_alloc_array(count, sizeof *kernel->products);
  kernel->values = mmci_alloc_array(n + count, sizeof *kernel->values);
  mmc_status status = kernel->forms != NULL && kernel->products != NULL && kernel->values != NULL
                          ? give_places(kernel, group, error)
                          : mmci_fail_nomem(error, (n + count) * sizeof *kernel->values);
  if (status != MMC_OK) {
    group_release(kernel);
    return status;
  }
  memcpy(kernel->forms, group->forms, n * sizeof *kernel->forms);
  memcpy(kernel->products, group->products, count * sizeof *kernel->products);
  *out = kernel;
  return MMC_OK;
}

static mmc_status multiply_chain(const mmci_group_kernel *kernel, const void *const *operands,
                                 void *c, int64_t i, mmci_error *error) {
  const mmci_group *group = &kernel->group;
  const double all = (double)group->batch * (double)group->count;
  mmc_status status = MMC_OK;
  size_t size = mmc_dtype_size(group->dtype);
  value *results = kernel->values + group->n;
  for (int32_t f = 0; f < group->n; f++)
    kernel->values[f] = (value){.data = mmci_batch_at(operands[f], &kernel->forms[f], size, i),
                                .form = kernel->forms[f]};
  for (int32_t s = 0; s < group->count && status == MMC_OK; s++) {
    const mmci_group_product *x = &kernel->products[s];
    const double done = (double)i * (double)group->count + (double)s;
    bool last = s == group->count - 1;
    const value *a = &kernel->values[x->left], *b = &kernel->values[x->right];
    int64_t ld = x->n > 0 ? x->n : 1;
    mmci_gemm gemm = {.dtype = group->dtype,
                      .precision = group->precision,
                      .turned = group->turned,
                      .rule = group->rule,
                      .m = x->m,
                      .k = x->k,
                      .n = x->n,
                      .a = a->form,
                      .b = b->form,
                      .ldc = last ? group->ldc : ld};
    void *to = last ? mmci_batch_result_at(c, group->c_gathered, group->c_stride, size, i)
                    : kernel->places[s];
    status = multiply(&gemm, a->data, b->data, to, (share){done / all, (done + 1) / all}, error);
    if (status == MMC_OK && done + 1 < all && mmci_interrupted())
      status = mmci_fail(error, MMC_E_INTERRUPTED, "stopped within a group");
    results[s] = (value){.data = to, .form = {.ld = ld}};
  }
  return status;
}

static mmc_status group_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmc_status status = MMC_OK;
  (void)queue;
  for (int64_t i = 0; i < kernel->group.batch && status == MMC_OK; i++)
    status = multiply_chain(kernel, operands, c, i, error);
  return status;
}

/* The facts are those of one core of a processor of 2022 with plain loops, which convert every
 * element of f16, bf16 and integers. */
static void facts(const mmci_device *device, mmc_dtype dtype, mmci_precision precision,
                  mmci_facts *out) {
  const bool is_converted = dtype == MMC_F16 || dtype == MMC_BF16 || mmci_dtype_is_integer(dtype);
  (void)device, (void)precision;
  *out = (mmci_facts){.flops_per_s = is_converted ? 2e8 : 1e9,
                      .bytes_per_s = 5e9,
                      .launch_s = 2e-7,
                      .static_w = 15,
                      .joules_per_flop = is_converted ? 1e-8 : 2e-9,
                      .joules_per_byte = 5e-10,
                      .group_share = 1,
                      .product_s = 1e-8,
                      .workers = 1,
                      .tile = 1};
}

const mmci_device_ops mmci_device_ref = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "ref",
    .probe = mmci_host_probe,
    .open = mmci_host_open,
    .close = mmci_host_close,
    .describe = describe,
    .facts = facts,
    .identify = identify,
    .supports = mmci_host_supports,
    .variants = mmci_host_variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = mmci_host_queue_open,
    .queue_close = mmci_host_queue_close,
    .enqueue = enqueue,
    .sync = mmci_host_sync,
    .group_supports = group_supports,
    .group_side = GROUP_SIDE,
    .group_name = group_name,
    .group_prepare = group_prepare,
    .group_release = group_release,
    .group_enqueue = group_enqueue,
    .alloc = mmci_host_alloc,
    .dealloc = mmci_host_dealloc,
};
