/* fused_tf32.c: what fused_tf32.cu can compute, how its shared memory is shared out, and its tensor
 * map. */
#include "device/cuda/group/fused_tf32.h"

#include <math.h>
#include <stdint.h>

#include "base/sizes.h"
#include "base/status.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/tensor_map.h"

enum {
  LINE_BYTES = 128, /* of shared memory: the terms of a column of B or C */
  WORD_BYTES = 16,  /* tensor maps need addresses and lines of whole such words */
  ALIGN_BYTES = 1024,
  SHARED_BYTES = 226 * 1024, /* what a block may have, besides its barriers */
  LEAST_STAGES = 2           /* of each group */
};

/* Returns the bytes that B and C take in shared memory. */
static int64_t weight_bytes(const mmci_fused_half *f, const mmci_fused_tf32_kernel *kernel) {
  const int64_t terms = MMCI_FUSED_TF32_TERMS;
  return LINE_BYTES * (mmci_quotient_up(f->k, terms) * kernel->width +
                       mmci_quotient_up(f->w, terms) * mmci_multiple_up(f->n, kernel->chunk));
}

static int64_t stages_of(const mmci_fused_half *f, const mmci_fused_tf32_kernel *kernel) {
  const int64_t left = SHARED_BYTES - ALIGN_BYTES - weight_bytes(f, kernel),
                fit = left / MMCI_FUSED_TF32_STAGE_BYTES;
  return (fit < MMCI_FUSED_TF32_STAGES ? fit : MMCI_FUSED_TF32_STAGES) / kernel->groups;
}

/* Returns the narrowest kernel that is wide enough and whose weights fit, of one width that with
 * fewest columns to fill up. */
static const mmci_fused_tf32_kernel *choose_kernel(const mmci_fused_half *f) {
  const mmci_fused_tf32_kernel *chosen = NULL;
  for (int i = 0; i < MMCI_FUSED_TF32_KERNELS; i++) {
    const mmci_fused_tf32_kernel *x = &mmci_fused_tf32_kernels[i];
    if (x->width < f->w || stages_of(f, x) < LEAST_STAGES ||
        (chosen != NULL && x->width > chosen->width))
      continue;
    if (chosen == NULL || mmci_multiple_up(f->n, x->chunk) <= mmci_multiple_up(f->n, chosen->chunk))
      chosen = x;
  }
  return chosen;
}

static mmci_fused_tf32_place place_of(const mmci_fused_half_matrix *x) {
  return (mmci_fused_tf32_place){
      .row = x->by_columns ? 1 : x->ld, .col = x->by_columns ? x->ld : 1, .batch = x->stride};
}

bool mmci_fused_tf32_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out) {
  const int64_t longest = 1 << 30;
  if (chain->dtype != MMC_F32 || chain->precision != MMCI_FAST ||
      !mmci_fused_pair_describe(chain, multiprocessors, out) ||
      !mmci_fused_is_mappable(&out->a, MMC_F32, out->batch))
    return false;
  const bool is_filled = out->w >= 1 && out->n >= 1;
  return is_filled && out->w <= longest && out->n <= longest && choose_kernel(out) != NULL;
}

const char *mmci_fused_tf32_name(const mmci_fused_half *f) {
  const mmci_fused_tf32_kernel *kernel = choose_kernel(f);
  return f->right ? kernel->right : kernel->left;
}

static mmci_fused_tf32_job plan_job(const mmci_fused_half *f,
                                    const mmci_fused_tf32_kernel *kernel) {
  const int64_t terms = MMCI_FUSED_TF32_TERMS,
                rounds = mmci_quotient_up(f->m, kernel->groups * MMCI_FUSED_TF32_ROWS),
                share = f->multiprocessors / f->batch > 1 ? f->multiprocessors / f->batch : 1;
  return (mmci_fused_tf32_job){
      .m = (int)f->m,
      .k = (int)f->k,
      .w = (int)f->w,
      .n = (int)f->n,
      .k_blocks = (int)mmci_quotient_up(f->k, terms),
      .w_blocks = (int)mmci_quotient_up(f->w, terms),
      .chunks = (int)mmci_quotient_up(f->n, kernel->chunk),
      .rounds = (int)rounds,
      .blocks = (int)(rounds < share ? rounds : share),
      .stages = (int)stages_of(f, kernel),
      .a_by_columns = f->a.by_columns,
      .a_is_repeated = f->batch > 1 && f->a.stride == 0,
      .in_pairs = !f->d.by_columns && f->d.ld % 2 == 0 && (f->batch == 1 || f->d.stride % 2 == 0),
      .b_place = place_of(&f->b),
      .c_place = place_of(&f->c),
      .d_place = place_of(&f->d)};
}

double mmci_fused_tf32_us(const mmci_fused_half *f) {
  const double launch_us = 5, memory = 3.2e6, weights = 1e4; /* bytes of a microsecond */
  const mmci_fused_tf32_kernel *kernel = choose_kernel(f);
  const mmci_fused_tf32_job job = plan_job(f, kernel);
  const double batch = (double)f->batch,
               each = (double)mmci_quotient_up(job.rounds, job.blocks) *
                      (double)mmci_quotient_up((int64_t)job.blocks * f->batch, f->multiprocessors),
               rows = MMCI_FUSED_TF32_ROWS * kernel->groups;
  const double inner = (double)job.k_blocks * MMCI_FUSED_TF32_TERMS * kernel->width,
               outer = (double)job.w_blocks * MMCI_FUSED_TF32_TERMS * (double)job.chunks *
                       kernel->chunk;
  const double bytes =
      4 * batch * ((double)f->m * (double)(f->k + f->n) + (double)f->w * (double)(f->k + f->n));
  return launch_us + (double)weight_bytes(f, kernel) / weights +
         fmax(bytes / memory, 2 * rows * each * (inner + outer) / kernel->flops);
}

mmc_status mmci_fused_tf32_prepare(const mmci_fused_half *f, mmci_error *error) {
  MMCI_CUDA_TRY(cudaFuncSetAttribute(choose_kernel(f)->function,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
  return MMC_OK;
}

/* Maps lines of A, 32 elements of each at once, with zeros past the edges. */
static mmc_status map_a(const mmci_fused_half *f, const void *data, CUtensorMap *out,
                        mmci_error *error) {
  const int64_t element = sizeof(float), word = WORD_BYTES / element,
                length = f->a.by_columns ? f->a.rows : f->a.cols,
                lines = f->a.by_columns ? f->a.cols : f->a.rows,
                ld = lines == 1 ? mmci_multiple_up(length, word) : f->a.ld;
  const bool all = f->batch > 1 && f->a.stride > 0;
  const mmci_tensor tensor = {
      .data = data,
      .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      .dims = 3,
      .sizes = {(cuuint64_t)length, (cuuint64_t)lines, all ? (cuuint64_t)f->batch : 1},
      .strides = {(cuuint64_t)(ld * element), (cuuint64_t)((all ? f->a.stride : ld) * element)},
      .box = {MMCI_FUSED_TF32_TERMS, MMCI_FUSED_TF32_TERMS, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
      .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  mmci_tensor_map_fn encode = NULL;
  mmc_status status = mmci_tensor_map_find(&encode, error);
  return status == MMC_OK ? mmci_tensor_map_make(encode, &tensor, out, error) : status;
}

mmc_status mmci_fused_tf32_enqueue(cudaStream_t stream, const mmci_fused_half *f,
                                   const void *const *operands, void *out, mmci_error *error) {
  const mmci_fused_tf32_kernel *kernel = choose_kernel(f);
  mmci_fused_tf32_job job = plan_job(f, kernel);
  CUtensorMap a;
  if ((uintptr_t)operands[f->first] % WORD_BYTES != 0)
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "fused: expected a first factor at a multiple of %d bytes, got another address",
        WORD_BYTES);
  const mmc_status status = map_a(f, operands[f->first], &a, error);
  if (status != MMC_OK) return status;
  job.b = operands[1];
  job.c = operands[f->last];
  job.d = out;
  job.in_pairs = job.in_pairs && (uintptr_t)out % (2 * sizeof(float)) == 0;
  const size_t shared = (size_t)(weight_bytes(f, kernel) + (int64_t)job.stages * kernel->groups *
                                                               MMCI_FUSED_TF32_STAGE_BYTES) +
                        ALIGN_BYTES;
  void *arguments[] = {&a, &job};
  MMCI_CUDA_TRY(cudaLaunchKernel(
      kernel->function, (dim3){.x = (unsigned)((int64_t)job.blocks * f->batch), .y = 1, .z = 1},
      (dim3){.x = (unsigned)(kernel->groups + 1) * 128, .y = 1, .z = 1}, arguments, shared,
      stream));
  return MMC_OK;
}
