/* ref.c: the device "ref": three plain loops, the oracle that other devices are held against. */
#include "device/ref/ref.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/half.h"
#include "device/host.h"

/* ---- the product --------------------------------------------------------------------------- */

static int64_t place(const mmci_form *x, int64_t row, int64_t column) {
  return x->trans ? column * x->ld + row : row * x->ld + column;
}

/* Elements are stored as type; load and store turn them into doubles and back. */
#define REF_REAL(name, type, load, store)                                                 \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) {        \
    const type *x = a, *y = b;                                                            \
    for (int64_t i = 0; i < gemm->m; i++)                                                 \
      for (int64_t j = 0; j < gemm->n; j++) {                                             \
        type *z = (type *)c + i * gemm->ldc + j;                                          \
        double sum = gemm->accumulate ? load(*z) : 0;                                     \
        for (int64_t l = 0; l < gemm->k; l++)                                             \
          sum += (double)load(x[place(&gemm->a, i, l)]) * load(y[place(&gemm->b, l, j)]); \
        *z = store(sum);                                                                  \
      }                                                                                   \
  }

/* Real and imaginary parts by hand: C's complex product repairs some NaN, BLAS's does not. */
#define REF_COMPLEX(name, type)                                                              \
  static void name(const mmci_gemm *gemm, const void *a, const void *b, void *c) {           \
    const type *x = a, *y = b;                                                               \
    double sign_a = gemm->a.conj ? -1 : 1, sign_b = gemm->b.conj ? -1 : 1;                   \
    for (int64_t i = 0; i < gemm->m; i++)                                                    \
      for (int64_t j = 0; j < gemm->n; j++) {                                                \
        type *z = (type *)c + 2 * (i * gemm->ldc + j);                                       \
        double re = gemm->accumulate ? z[0] : 0, im = gemm->accumulate ? z[1] : 0;           \
        for (int64_t l = 0; l < gemm->k; l++) {                                              \
          const type *p = x + 2 * place(&gemm->a, i, l), *q = y + 2 * place(&gemm->b, l, j); \
          double pr = p[0], pi = sign_a * (double)p[1];                                      \
          double qr = q[0], qi = sign_b * (double)q[1];                                      \
          re += pr * qr - pi * qi;                                                           \
          im += pr * qi + pi * qr;                                                           \
        }                                                                                    \
        z[0] = (type)re;                                                                     \
        z[1] = (type)im;                                                                     \
      }                                                                                      \
  }

REF_REAL(gemm_f32, float, (double), (float))
REF_REAL(gemm_f64, double, , )
REF_REAL(gemm_f16, uint16_t, mmci_f16_to_f32, mmci_f16_round)
REF_REAL(gemm_bf16, uint16_t, mmci_bf16_to_f32, mmci_bf16_round)
REF_COMPLEX(gemm_c64, float)
REF_COMPLEX(gemm_c128, double)

void mmci_ref_gemm(const mmci_gemm *gemm, const void *a, const void *b, void *c) {
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

static const char *kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return "loops";
}

static mmc_status prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                          mmci_error *error) {
  (void)device;
  mmci_kernel *kernel = malloc(sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->gemm = *gemm;
  *out = kernel;
  return MMC_OK;
}

static void release(mmci_kernel *kernel) {
  free(kernel);
}

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                          const void *b, void *c, mmci_error *error) {
  (void)queue, (void)error;
  mmci_ref_gemm(&kernel->gemm, a, b, c);
  return MMC_OK;
}

const mmci_device_ops mmci_device_ref = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "ref",
    .probe = mmci_host_probe,
    .open = mmci_host_open,
    .close = mmci_host_close,
    .describe = describe,
    .supports = mmci_host_supports,
    .variants = mmci_host_variants,
    .kernel_name = kernel_name,
    .prepare = prepare,
    .release = release,
    .queue_open = mmci_host_queue_open,
    .queue_close = mmci_host_queue_close,
    .enqueue = enqueue,
    .sync = mmci_host_sync,
    .alloc = mmci_host_alloc,
    .dealloc = mmci_host_dealloc,
};
