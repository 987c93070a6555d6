#include "device/cuda/product/batch.h"

#include <math.h>

#include "device/cuda/cuda_device.h"
#include "device/cuda/model.h"
#include "device/cuda/product/outer.h"
#include "device/cuda/product/thin.h"
#include "device/cuda/product/vectors.h"

enum { AMPERE = 8 };

static bool is_batch(const mmci_gemm *gemm) {
  return gemm->batch > 1;
}

void mmci_cuda_make_alone(const mmci_gemm *gemm, mmci_cuda_alone *x) {
  x->forms[0] = gemm->a;
  x->forms[1] = gemm->b;
  x->product = (mmci_group_product){gemm->m, gemm->k, gemm->n, 0, 1};
  x->group =
      (mmci_group){.dtype = gemm->dtype,
                   .precision = mmci_gemm_is_in_order(gemm) ? MMCI_REPRODUCIBLE : MMCI_NATIVE,
                   .batch = gemm->batch > 1 ? gemm->batch : 1,
                   .n = 2,
                   .count = 1,
                   .forms = x->forms,
                   .products = &x->product,
                   .ldc = gemm->ldc,
                   .c_stride = gemm->c_stride,
                   .turned = gemm->turned};
}

double mmci_cuda_alone_seconds(const mmci_device *device, const mmci_gemm *gemm, double *error) {
  *error = 0;
  if (!is_batch(gemm) || gemm->accumulate) return (double)NAN;
  mmci_cuda_alone x;
  mmci_cuda_make_alone(gemm, &x);
  return mmci_cuda_chain_seconds(device, &x.group, error);
}

double mmci_cuda_outer_seconds(const mmci_device *device, const mmci_gemm *gemm) {
  return device->properties.major >= AMPERE ? 1e-6 * mmci_outer_us(gemm) : (double)NAN;
}

/* By so much more than is predicted outer.cu is taken to take: of 1603 batches on an H200 (cuBLAS
 * 13.1) 735 go to it then, which it computes 2.4 times as fast in the geomean, and two slower, by a
 * tenth at most; of 10,327 small ones, which take 2 to 20 us in a graph, 1654, 1.45 times as fast,
 * and one in a hundred slower by more than a tenth. */
static const double OUTER_DOUBT = 0.2;

/* Of long lines with many terms nine in ten take 1.5 times what is predicted, and cuBLAS has tensor
 * cores: 8 in 43 such batches were slower, the worst 0.65. */
static double outer_doubt(const mmci_gemm *gemm) {
  enum { MANY_TERMS = 12, LONG_LINE = 100 };
  return gemm->k > MANY_TERMS && gemm->n >= LONG_LINE ? 0.5 : OUTER_DOUBT;
}

/* By so much more than is predicted thin.cu is taken to take. Long sums took up to twice that: nine
 * of ten of 179 up to 1.63 times it. Of f32 with B by rows of 32 and more cuBLAS is up to three
 * times as fast as its model says: thin.cu was the slower one of 17 in 19 batches of 7 us and more,
 * at 0.66 of cuBLAS's speed in the geomean, and the faster one of shorter ones. */
static double thin_doubt(const mmci_gemm *gemm, double thin_s) {
  enum { LONG_TERMS = 256, LONG_LINE = 32 };
  static const double LITTLE_S = 5e-6;
  const bool is_wide =
      (!gemm->b.trans && gemm->n >= LONG_LINE) || (gemm->a.trans && gemm->m >= LONG_LINE);
  if (gemm->dtype == MMC_F32 && is_wide && thin_s > LITTLE_S) return 3;
  return gemm->k >= LONG_TERMS ? 0.6 : 0.15;
}

/* By so much more than is predicted vectors.cu is taken to take, or less where an operand is a
 * conjugate: cuBLAS takes up to ninety times what its model says then. Of 3794 batches on an H200
 * (cuBLAS 13.1) that were not fitted to, 3322 go to vectors.cu; what is chosen takes 0.59 of
 * cuBLAS's time in the geomean, and 1 in 125 a tenth more. */
static double vectors_doubt(const mmci_gemm *gemm) {
  const bool is_conj = mmci_dtype_is_complex(gemm->dtype) && (gemm->a.conj || gemm->b.conj);
  return is_conj ? -0.5 : 0.1;
}

/* cuBLAS multiplies a batch of small products as it does large ones. Those of thin.cu and of
 * kernels for groups are taken where they are predicted to take less time by more than predictions
 * are off: of 2296 batches on an H200 (cuBLAS 13.1) these shares leave 1 in 100 a tenth slower. A
 * kernel for groups is said to take as much longer as it may, as groups of more products are, and
 * where that is told exactly a fifth longer: chains of one product take up to a third more than
 * those of several that its formula was fitted to. */
static mmci_cuda_batch choose_batch(const mmci_device *device, const mmci_gemm *gemm) {
  enum { DOT_TERMS = 64 };
  static const double MORE_DOUBT = 0.15, GROUP_DOUBT = 0.2;
  const double cublas_s =
      1e-6 * mmci_cuda_model_product_us(mmci_cuda_model_of(device->properties.name), gemm);
  double doubt;
  const double thin_s = 1e-6 * mmci_thin_batch_us(gemm),
               group_s = mmci_cuda_alone_seconds(device, gemm, &doubt),
               outer_s = mmci_cuda_outer_seconds(device, gemm),
               thin_most_s = thin_s * (1 + thin_doubt(gemm, thin_s)),
               outer_most_s = outer_s * (1 + outer_doubt(gemm)),
               vectors_s = 1e-6 * mmci_vectors_us(gemm),
               vectors_most_s = vectors_s * (1 + vectors_doubt(gemm));
  const double least_s = fmin(fmin(cublas_s, thin_most_s), outer_most_s);
  if (group_s * (1 + doubt + MORE_DOUBT) < least_s &&
      !(vectors_s < group_s * (1 + fmax(doubt, GROUP_DOUBT))))
    return (mmci_cuda_batch){MMCI_BATCH_GROUP, group_s * (1 + doubt)};
  /* cuBLAS takes up to five times what its model says for long sums that are one element each: of
   * 41 such batches thin.cu was the slower one once, by 4 %, and faster by 1.9 in the geomean. */
  const bool is_dot = gemm->m == 1 && gemm->n == 1 && gemm->k >= DOT_TERMS,
             is_less = !(thin_most_s <= vectors_most_s);
  if (outer_most_s <= least_s) return (mmci_cuda_batch){MMCI_BATCH_OUTER, outer_s};
  if (isfinite(vectors_s) && is_less && (is_dot || vectors_most_s <= least_s))
    return (mmci_cuda_batch){MMCI_BATCH_VECTORS, vectors_s};
  return isfinite(thin_s) && (is_dot || thin_most_s < cublas_s)
             ? (mmci_cuda_batch){MMCI_BATCH_THIN, thin_s}
             : (mmci_cuda_batch){MMCI_BATCH_CUBLAS, cublas_s};
}

static bool is_same_form(const mmci_form *x, const mmci_form *y) {
  return x->ld == y->ld && x->stride == y->stride && x->trans == y->trans && x->conj == y->conj &&
         x->gathered == y->gathered;
}

/* Says whether two native batches of floating point go the same way. */
static bool is_same_batch(const mmci_gemm *x, const mmci_gemm *y) {
  return x->dtype == y->dtype && x->m == y->m && x->k == y->k && x->n == y->n &&
         x->batch == y->batch && x->ldc == y->ldc && x->c_stride == y->c_stride &&
         x->accumulate == y->accumulate && x->turned == y->turned && is_same_form(&x->a, &y->a) &&
         is_same_form(&x->b, &y->b);
}

/* A planner asks for the same products several times, and an answer takes microseconds: a thread
 * keeps some. */
mmci_cuda_batch mmci_cuda_way_of_batch(const mmci_device *device, const mmci_gemm *gemm) {
  enum { KEPT = 64 };
  typedef struct kept {
    const mmci_cuda_model *model; /* of the device's kind; NULL where nothing is kept */
    int processors;
    mmci_gemm gemm;
    mmci_cuda_batch way;
  } kept;
  static _Thread_local kept ways[KEPT];
  const int64_t of_hash[] = {gemm->m,        gemm->k,        gemm->n,       gemm->a.stride,
                             gemm->b.stride, gemm->c_stride, gemm->a.trans, gemm->b.trans};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof of_hash / sizeof *of_hash; i++)
    hash = (hash ^ (uint64_t)of_hash[i]) * 0x9e3779b97f4a7c15;
  const mmci_cuda_model *model = mmci_cuda_model_of(device->properties.name);
  const int processors = device->properties.multiProcessorCount;
  kept *at = &ways[(hash >> 32) % KEPT];
  if (at->model != model || at->processors != processors || !is_same_batch(&at->gemm, gemm))
    *at = (kept){model, processors, *gemm, choose_batch(device, gemm)};
  return at->way;
}

bool mmci_cuda_goes_to_outer(const mmci_device *device, const mmci_gemm *gemm) {
  const double cublas_s =
      1e-6 * mmci_cuda_model_product_us(mmci_cuda_model_of(device->properties.name), gemm);
  return mmci_cuda_outer_seconds(device, gemm) * (1 + OUTER_DOUBT) < cublas_s;
}
