/* ref.c: the device "ref": three plain loops, the oracle that other devices are held against. */
#include "device/ref/ref.h"

#include <stdio.h>

#include "base/alloc.h"
#include "device/host.h"

/* ---- the product --------------------------------------------------------------------------- */

static int64_t place(const mmci_operand *x, int64_t row, int64_t column) {
  return x->trans ? column * x->ld + row : row * x->ld + column;
}

#define REF_REAL(name, type)                                                                     \
  static void name(const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b, void *c, \
                   int64_t ldc) {                                                                \
    const type *x = a->data, *y = b->data;                                                       \
    type *z = c;                                                                                 \
    for (int64_t i = 0; i < gemm->m; i++)                                                        \
      for (int64_t j = 0; j < gemm->n; j++) {                                                    \
        double sum = 0;                                                                          \
        for (int64_t l = 0; l < gemm->k; l++)                                                    \
          sum += (double)x[place(a, i, l)] * (double)y[place(b, l, j)];                          \
        z[i * ldc + j] = (type)sum;                                                              \
      }                                                                                          \
  }

/* Real and imaginary parts by hand: C's complex product repairs some NaN, BLAS's does not. */
#define REF_COMPLEX(name, type)                                                                  \
  static void name(const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b, void *c, \
                   int64_t ldc) {                                                                \
    const type *x = a->data, *y = b->data;                                                       \
    type *z = c;                                                                                 \
    double sign_a = a->conj ? -1 : 1, sign_b = b->conj ? -1 : 1;                                 \
    for (int64_t i = 0; i < gemm->m; i++)                                                        \
      for (int64_t j = 0; j < gemm->n; j++) {                                                    \
        double re = 0, im = 0;                                                                   \
        for (int64_t l = 0; l < gemm->k; l++) {                                                  \
          const type *p = x + 2 * place(a, i, l), *q = y + 2 * place(b, l, j);                   \
          double pr = p[0], pi = sign_a * (double)p[1];                                          \
          double qr = q[0], qi = sign_b * (double)q[1];                                          \
          re += pr * qr - pi * qi;                                                               \
          im += pr * qi + pi * qr;                                                               \
        }                                                                                        \
        z[2 * (i * ldc + j)] = (type)re;                                                         \
        z[2 * (i * ldc + j) + 1] = (type)im;                                                     \
      }                                                                                          \
  }

REF_REAL(gemm_f32, float)
REF_REAL(gemm_f64, double)
REF_COMPLEX(gemm_c64, float)
REF_COMPLEX(gemm_c128, double)

void mmci_ref_gemm(const mmci_gemm *gemm, const mmci_operand *a, const mmci_operand *b, void *c,
                   int64_t ldc) {
  switch (gemm->dtype) {
    case MMC_F32:
      gemm_f32(gemm, a, b, c, ldc);
      break;
    case MMC_F64:
      gemm_f64(gemm, a, b, c, ldc);
      break;
    case MMC_C64:
      gemm_c64(gemm, a, b, c, ldc);
      break;
    case MMC_C128:
      gemm_c128(gemm, a, b, c, ldc);
      break;
  }
}

/* ---- the device ---------------------------------------------------------------------------- */

struct mmci_kernel {
  mmci_gemm gemm;
};

static mmc_status probe(int *count, mmci_error *error) {
  (void)error;
  *count = 1;
  return MMC_OK;
}

static void describe(const mmci_device *device, char *text, size_t size) {
  (void)device;
  snprintf(text, size, "plain loops, sums in double precision, one thread: the reference");
}

static void identify(const mmci_device *device, mmci_identity *out) {
  *out = (mmci_identity){0};
  mmci_host_model(out->model, sizeof out->model);
  (void)device;
}

static bool supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return true;
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

static mmc_status enqueue(mmci_queue *queue, const mmci_kernel *kernel, const mmci_operand *a,
                          const mmci_operand *b, void *c, int64_t ldc, mmci_error *error) {
  (void)queue, (void)error;
  mmci_ref_gemm(&kernel->gemm, a, b, c, ldc);
  return MMC_OK;
}

const mmci_device_ops mmci_device_ref = {
    .abi = MMCI_DEVICE_ABI,
    .size = sizeof(mmci_device_ops),
    .name = "ref",
    .probe = probe,
    .open = mmci_host_open,
    .close = mmci_host_close,
    .describe = describe,
    .identify = identify,
    .supports = supports,
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
