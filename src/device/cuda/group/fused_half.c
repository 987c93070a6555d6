/* fused_half.c: what fused_half.cu can compute, how its shared memory is shared out, and its tensor
 * maps. */
#include "device/cuda/group/fused_half.h"

#include <math.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/status.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/tensor_map.h"

enum {
  BOX = MMCI_FUSED_HALF_BOX,
  BOX_BYTES = BOX * BOX * 2,
  LINE_BYTES = 16,       /* tensor maps need addresses and lines of whole such words */
  LINE = LINE_BYTES / 2, /* elements */
  LEAST_A_STAGES = 6,
  MOST_A_STAGES = 16,
  TURNS = 6,   /* slots that pieces take turns in where not all of them stay */
  PAUSE = 128, /* terms that fused_wide.cu would multiply while sums are rounded or stored */
  ALIGN_BYTES = 1024
};
static const int64_t LONGEST = 1 << 30;

/* ---- what is asked --------------------------------------------------------------------------- */

/* Returns operand op(X), rows x cols, or its transpose when turned. */
static mmci_fused_half_matrix matrix_of(const mmci_form *form, int64_t rows, int64_t cols,
                                        bool turned) {
  return (mmci_fused_half_matrix){.rows = turned ? cols : rows,
                                  .cols = turned ? rows : cols,
                                  .ld = form->ld,
                                  .stride = form->stride,
                                  .by_columns = form->trans != turned};
}

bool mmci_fused_is_mappable(const mmci_fused_half_matrix *x, mmc_dtype dtype, int64_t batch) {
  const int64_t word = LINE_BYTES / (int64_t)mmc_dtype_size(dtype);
  const int64_t length = x->by_columns ? x->rows : x->cols,
                lines = x->by_columns ? x->cols : x->rows;
  return x->rows >= 1 && x->cols >= 1 && x->rows <= LONGEST && x->cols <= LONGEST &&
         x->ld <= LONGEST && (x->ld >= length || lines == 1) && (lines == 1 || x->ld % word == 0) &&
         (batch == 1 || x->stride % word == 0) && (batch == 1 || x->stride >= 0);
}

static bool is_a_pair(const mmci_group *chain) {
  if (chain->n != 3 || chain->count != 2 || chain->c_gathered || chain->batch < 1 ||
      chain->batch > LONGEST)
    return false;
  for (int i = 0; i < 3; i++)
    if (chain->forms[i].gathered) return false;
  const mmci_group_product *inner = &chain->products[0], *outer = &chain->products[1];
  const bool right = inner->left == 1;
  return inner->left == (right ? 1 : 0) && inner->right == inner->left + 1 &&
         outer->left == (right ? 0 : 3) && outer->right == (right ? 3 : 2);
}

/* ---- how it is computed ---------------------------------------------------------------------- */

static double us_of(const mmci_fused_half *f, const mmci_fused_half_kernel *kernel);

static bool takes(const mmci_fused_half_kernel *kernel, const mmci_fused_half *f) {
  const int width = kernel->width;
  switch (kernel->way) {
    case MMCI_FUSED_BY_ONE:
      return f->w <= width;
    case MMCI_FUSED_BY_RELAY:
      return f->multiprocessors >= kernel->cluster && f->k <= width && f->w <= width &&
             f->n <= width;
    case MMCI_FUSED_BY_WIDE:
      return f->multiprocessors >= kernel->cluster && f->k <= width && f->w <= width &&
             f->w > MMCI_FUSED_HALF_WIDTH;
  }
  return false;
}

/* Returns the narrowest kernel that is wide enough, or one of clusters that is predicted to be
 * faster. */
static const mmci_fused_half_kernel *choose_kernel(const mmci_fused_half *f) {
  const mmci_fused_half_kernel *chosen = NULL;
  for (int i = 0; i < MMCI_FUSED_HALF_KERNELS; i++) {
    const mmci_fused_half_kernel *x = &mmci_fused_half_kernels[i];
    if (!takes(x, f) || (chosen != NULL && x->width > chosen->width)) continue;
    if (chosen == NULL || chosen->chunk < f->n) chosen = x;
  }
  const mmci_fused_half_kernel *const clusters[] = {&mmci_fused_relay, &mmci_fused_wide};
  for (int i = 0; i < 2; i++)
    if (takes(clusters[i], f) && (chosen == NULL || us_of(f, clusters[i]) < us_of(f, chosen)))
      chosen = clusters[i];
  return chosen;
}

bool mmci_fused_pair_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out) {
  if (!is_a_pair(chain)) return false;
  const mmci_group_product *inner = &chain->products[0], *outer = &chain->products[1];
  const bool right = inner->left == 1;
  mmci_fused_half f = {.dtype = chain->dtype,
                       .right = right,
                       .m = right ? inner->n : inner->m,
                       .k = inner->k,
                       .w = right ? inner->m : inner->n,
                       .n = right ? outer->m : outer->n,
                       .batch = chain->batch,
                       .first = right ? 2 : 0,
                       .last = right ? 0 : 2,
                       .multiprocessors = multiprocessors};
  const mmci_form d = {.ld = chain->ldc, .stride = chain->c_stride};
  f.a = matrix_of(&chain->forms[f.first], right ? f.k : f.m, right ? f.m : f.k, right);
  f.b = matrix_of(&chain->forms[1], right ? f.w : f.k, right ? f.k : f.w, right);
  f.c = matrix_of(&chain->forms[f.last], right ? f.n : f.w, right ? f.w : f.n, right);
  f.d = matrix_of(&d, right ? f.n : f.m, right ? f.m : f.n, right);
  *out = f;
  return true;
}

bool mmci_fused_half_describe(const mmci_group *chain, int multiprocessors, mmci_fused_half *out) {
  if (chain->dtype != MMC_F16 && chain->dtype != MMC_BF16) return false;
  if (!mmci_fused_pair_describe(chain, multiprocessors, out)) return false;
  const mmci_fused_half_matrix *all[] = {&out->a, &out->b, &out->c, &out->d};
  for (int i = 0; i < 4; i++)
    if (!mmci_fused_is_mappable(all[i], out->dtype, out->batch)) return false;
  return choose_kernel(out) != NULL;
}

const char *mmci_fused_half_name(const mmci_fused_half *f) {
  const mmci_fused_half_kernel *kernel = choose_kernel(f);
  return (f->right ? kernel->right : kernel->left)[f->dtype == MMC_BF16];
}

/* Shares the boxes of shared memory out: all pieces of B and C stay where they fit. */
static mmci_fused_half_job plan_job(const mmci_fused_half *f,
                                    const mmci_fused_half_kernel *kernel) {
  const int piece = kernel->width < 128 ? kernel->width : 128, pieces = kernel->width / piece,
            slot = kernel->slot_bytes / BOX_BYTES, out = kernel->groups * kernel->chunk / BOX;
  int left = MMCI_FUSED_HALF_BOXES - out;
  mmci_fused_half_job job = {.m = (int)f->m,
                             .n = (int)f->n,
                             .w = (int)f->w,
                             .k_blocks = (int)mmci_quotient_up(f->k, BOX),
                             .w_blocks = (int)mmci_quotient_up(f->w, BOX),
                             .chunks = (int)mmci_quotient_up(f->n, kernel->chunk),
                             .rounds = (int)mmci_quotient_up(f->m, kernel->groups * BOX),
                             .a_by_columns = f->a.by_columns,
                             .b_by_columns = f->b.by_columns,
                             .c_by_columns = f->c.by_columns,
                             .d_by_columns = f->d.by_columns,
                             .d_length = (int)(f->d.by_columns ? f->m : f->n),
                             .d_lines = (int)(f->d.by_columns ? f->n : f->m),
                             .d_ld = f->d.ld,
                             .d_stride = f->d.stride};
  job.d_ragged = job.d_length % LINE != 0;
  const int64_t stages = (int64_t)job.k_blocks * pieces + (int64_t)job.w_blocks * job.chunks;
  const int64_t share = f->multiprocessors / kernel->cluster / f->batch;
  job.blocks = (int)mmci_smaller(job.rounds, share > 1 ? share : 1);
  if (kernel->way != MMCI_FUSED_BY_ONE) {
    job.slots = job.kept = job.stages = 1;
    return job;
  }
  job.stages = (int)stages;
  const int least = (int)mmci_quotient_up(LEAST_A_STAGES, kernel->groups) * kernel->groups;
  job.slots = (left - least) / slot;
  job.kept = job.slots - TURNS;
  job.outs = 1;
  if (stages <= job.slots) {
    job.slots = job.kept = (int)stages;
    if (left - job.slots * slot - out >= least) {
      job.outs = 2;
      left -= out;
    }
  }
  /* A place for A serves one group only: one that waits for its next turn must have seen the last
   * one, or it takes the turn before for it. */
  job.a_stages =
      (int)mmci_smaller(left - job.slots * slot, MOST_A_STAGES) / kernel->groups * kernel->groups;
  return job;
}

/* Returns the longest of what memory, the L2 and the tensor cores of the busiest multiprocessor
 * take, tiles filled up, as was measured on an H200 (bench/bench_fused.c). */
static double us_of(const mmci_fused_half *f, const mmci_fused_half_kernel *kernel) {
  const double launch_us = 4, memory = 3.4e6, cache = 5.2e6; /* bytes of a microsecond */
  const mmci_fused_half_job job = plan_job(f, kernel);
  const bool is_wide = kernel->way == MMCI_FUSED_BY_WIDE;
  const int64_t width = is_wide ? mmci_multiple_up(f->w, kernel->chunk) : kernel->width;
  const double batch = (double)f->batch, bytes = 2, rounds = (double)job.rounds * batch,
               blocks = (double)job.blocks * batch,
               each =
                   (double)mmci_quotient_up(job.rounds, job.blocks) *
                   (double)mmci_quotient_up((int64_t)blocks * kernel->cluster, f->multiprocessors),
               rows = BOX * kernel->groups, columns = (double)job.chunks * kernel->chunk;
  const double kept = blocks * kernel->cluster * (double)job.kept * kernel->slot_bytes,
               again = rounds * (double)(job.stages - job.kept) * kernel->slot_bytes;
  const double inner = (double)job.k_blocks * BOX * (double)width,
               outer = (double)job.w_blocks * BOX * columns;
  /* fused_wide.cu multiplies nothing while it rounds or stores what it has summed up. */
  const double pauses = is_wide ? PAUSE * ((double)width + columns) : 0;
  const double a = batch * (double)f->m * (double)f->k * bytes,
               d = batch * (double)f->m * (double)f->n * bytes,
               weights = batch * (double)f->w * (double)(f->k + f->n) * bytes;
  /* A relay's blocks do one product each, and wait for the first rows of the other one. */
  const double work = kernel->way == MMCI_FUSED_BY_RELAY ? (each + 1) * fmax(inner, outer)
                                                         : each * (inner + outer + pauses),
               flops = 2 * rows * work / (is_wide ? kernel->cluster : 1);
  const double loaded = a + d + (is_wide ? rounds * (inner + outer) * bytes : kept + again);
  return launch_us + fmax(fmax((a + d + weights) / memory, loaded / cache), flops / kernel->flops);
}

double mmci_fused_half_us(const mmci_fused_half *f) {
  return us_of(f, choose_kernel(f));
}

/* ---- measured against two calls -------------------------------------------------------------- */

/* The greatest shares that bf16 took of two calls of cuBLAS in one graph on an H200, all matrices
 * by rows, with k, w and n as wide as the kernel (docs/benchmarks.md). The shares are no
 * greater on an H100: it moves fewer bytes a second, and two calls move T besides. */
enum { ROWS = 3 };
static const double MEASURED_ROWS[ROWS] = {16384, 131072, 1048576};
static const struct {
  int width;
  double time[ROWS], joules[ROWS];
} MEASURED[] = {{64, {0.739, 0.57, 0.55}, {0.741, 0.6, 0.6}},
                {128, {0.755, 0.62, 0.51}, {0.798, 0.663, 0.621}},
                {256, {0.751, 0.85, 0.82}, {0.933, 0.81, 0.804}},
                {512, {0.899, 0.913, 0.975}, {0.898, 0.911, 0.926}}};

/* Runs of one shape differ by 2 %, so that what takes a greater share is not surely faster; their
 * joules differ by 3 %. */
static const double MOST_TIME = 0.98, MOST_JOULES = 0.97;

static double us_of_row(const mmci_fused_half *f) {
  return mmci_fused_half_us(f) / (double)f->m;
}

bool mmci_fused_half_share(const mmci_fused_half *f, mmci_group_share *out) {
  const mmci_fused_half_kernel *kernel = choose_kernel(f);
  size_t at = 0;
  while (MEASURED[at].width < kernel->width) at++;
  const int64_t width = MEASURED[at].width;
  const bool by_rows = !f->a.by_columns && !f->b.by_columns && !f->c.by_columns,
             by_columns = f->a.by_columns && f->b.by_columns && f->c.by_columns;
  if (f->batch != 1 || !(f->right ? by_columns : by_rows) || f->k > width || f->n > width ||
      (double)f->m < MEASURED_ROWS[0])
    return false;
  int row = 0;
  while (row < ROWS - 2 && (double)f->m >= MEASURED_ROWS[row + 1]) row++;
  const double between =
      log((double)f->m / MEASURED_ROWS[row]) / log(MEASURED_ROWS[row + 1] / MEASURED_ROWS[row]);
  /* Two calls are taken to need as long for a flop as they did where k, w and n are as wide as the
   * kernel. They need longer where less is multiplied, but the kernel multiplies zeros as well. */
  const double wasted = 2 * (double)(width * width) / (double)(f->w * (f->k + f->n));
  *out = (mmci_group_share){0};
  for (int i = 0; i < 2; i++) {
    mmci_fused_half whole = *f;
    whole.m = (int64_t)MEASURED_ROWS[row + i];
    whole.k = whole.w = whole.n = width;
    const double longer = us_of_row(f) / us_of_row(&whole) * wasted,
                 weight = i == 0 ? fmax(1 - between, 0) : fmin(between, 1);
    out->time += weight * longer * MEASURED[at].time[row + i];
    out->joules += weight * longer * MEASURED[at].joules[row + i];
  }
  return out->time <= MOST_TIME && out->joules <= MOST_JOULES;
}

/* One warpgroup loads, the others multiply. */
static int threads_of(const mmci_fused_half_kernel *kernel) {
  const int blocks = kernel->way == MMCI_FUSED_BY_WIDE ? kernel->cluster : 1;
  return (kernel->groups / blocks + 1) * 128;
}

static size_t shared_bytes(const mmci_fused_half_job *job, const mmci_fused_half_kernel *kernel) {
  if (kernel->way != MMCI_FUSED_BY_ONE)
    return (size_t)MMCI_FUSED_HALF_BOXES * BOX_BYTES + ALIGN_BYTES;
  return (size_t)job->slots * (size_t)kernel->slot_bytes + (size_t)job->a_stages * BOX_BYTES +
         (size_t)(job->outs * kernel->groups * kernel->chunk / BOX) * BOX_BYTES + ALIGN_BYTES;
}

static const void *function_of(const mmci_fused_half *f, const mmci_fused_half_kernel *kernel) {
  const bool bf16 = f->dtype == MMC_BF16;
  const int layout = f->a.by_columns + 2 * f->b.by_columns + 4 * f->c.by_columns;
  return kernel->way == MMCI_FUSED_BY_WIDE ? mmci_fused_wide_functions[bf16][layout]
                                           : kernel->function[bf16];
}

mmc_status mmci_fused_half_prepare(const mmci_fused_half *f, mmci_error *error) {
  const mmci_fused_half_kernel *kernel = choose_kernel(f);
  MMCI_CUDA_TRY(cudaFuncSetAttribute(function_of(f, kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     MMCI_FUSED_HALF_BOXES * BOX_BYTES + ALIGN_BYTES));
  return MMC_OK;
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Maps boxes of 64 lines or columns and so many terms, with zeros past the edges. */
static mmc_status map_boxes(mmci_tensor_map_fn encode, const mmci_fused_half *f,
                            const mmci_fused_half_matrix *x, int terms, const void *data,
                            CUtensorMap *out, mmci_error *error) {
  const int64_t
      length = x->by_columns ? x->rows : x->cols,
      lines = x->by_columns ? x->cols : x->rows,
      /* The only line's distance to the next one, and the only matrix's, are never used. */
      ld = lines == 1 ? mmci_multiple_up(length, LINE) : x->ld;
  const bool all = f->batch > 1 && x->stride > 0; /* one that is the same for all is one matrix */
  const mmci_tensor tensor = {
      .data = data,
      .type =
          f->dtype == MMC_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .dims = 3,
      .sizes = {(cuuint64_t)length, (cuuint64_t)lines, all ? (cuuint64_t)f->batch : 1},
      .strides = {(cuuint64_t)ld * 2, (cuuint64_t)(all ? x->stride : ld) * 2},
      .box = {(cuuint32_t)(x->by_columns ? terms : BOX), (cuuint32_t)(x->by_columns ? BOX : terms),
              1},
      .swizzle =
          x->by_columns && terms < BOX ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
      .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  return mmci_tensor_map_make(encode, &tensor, out, error);
}

mmc_status mmci_fused_half_enqueue(cudaStream_t stream, const mmci_fused_half *f,
                                   const void *const *operands, void *out, mmci_error *error) {
  const mmci_fused_half_kernel *kernel = choose_kernel(f);
  const void *data[] = {operands[f->first], operands[1], operands[f->last], out};
  const mmci_fused_half_matrix *matrices[] = {&f->a, &f->b, &f->c, &f->d};
  mmci_fused_half_maps maps;
  CUtensorMap *const to[] = {&maps.a, &maps.b, &maps.c, &maps.d};
  mmci_fused_half_job job = plan_job(f, kernel);
  mmci_tensor_map_fn encode = NULL;
  mmc_status status = mmci_tensor_map_find(&encode, error);
  for (int i = 0; status == MMC_OK && i < 4; i++) {
    if ((uintptr_t)data[i] % LINE_BYTES != 0)
      return mmci_fail(error, MMC_E_UNSUPPORTED,
                       "fused: expected matrices at multiples of %d bytes, got another address",
                       LINE_BYTES);
    const bool in_stages = kernel->way == MMCI_FUSED_BY_WIDE && matrices[i] != &f->a;
    status = map_boxes(encode, f, matrices[i], in_stages ? MMCI_FUSED_WIDE_TERMS : BOX, data[i],
                       to[i], error);
    job.is_repeated[i] = f->batch > 1 && matrices[i]->stride == 0;
  }
  if (status != MMC_OK) return status;
  job.d = out;
  cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim.x = (unsigned)kernel->cluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  const cudaLaunchConfig_t config = {
      .gridDim = {.x = (unsigned)((int64_t)job.blocks * f->batch * kernel->cluster),
                  .y = 1,
                  .z = 1},
      .blockDim = {.x = (unsigned)threads_of(kernel), .y = 1, .z = 1},
      .dynamicSmemBytes = shared_bytes(&job, kernel),
      .stream = stream,
      .attrs = &cluster,
      .numAttrs = kernel->cluster > 1 ? 1 : 0};
  void *arguments[] = {&maps, &job};
  MMCI_CUDA_TRY(cudaLaunchKernelExC(&config, function_of(f, kernel), arguments));
  return MMC_OK;
}
