/* group.c: several products as one launch on a CUDA device: chooses among the kernels of group.h,
 * fused.h, fused_half.h and fused_tf32.h. */
#include "device/cuda/group/group.h"

#include <math.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/facts.h"
#include "device/cuda/group/arena.h"
#include "device/cuda/group/fused.h"
#include "device/cuda/group/fused_half.h"
#include "device/cuda/group/fused_tf32.h"
#include "device/cuda/group/vector_chains.h"
#include "device/cuda/model.h"

/* Two products' time by that of the kernel that fuses them, of what was measured (facts.c) and of
 * other sizes. */
static const double FUSED_GAIN = 1.4, FUSED_OTHER_GAIN = 0.4;

enum { VECTOR_BYTES = 16, RINGS_WORD = 4 };

typedef enum kind {
  NOTHING,
  SQUARES,
  GENERAL,
  SPINES,
  SINGLE,
  FUSED,
  FUSED_HALF,
  FUSED_TF32,
  TENSOR,
  PACKS,
  TILES,
  RINGS,
  SIDES,
  VECTORS,
  PANELS,
  NO_KERNEL
} kind;

/* These variants name a kernel; 0 takes the one that the model says is fastest. */
enum {
  VARIANT_GENERAL = 1,
  VARIANT_SPINES = 2,
  VARIANT_FUSED = 3,
  VARIANT_TENSOR = 4,
  VARIANT_PACKS = 5,
  VARIANT_SQUARES = 6,
  VARIANT_TILES = 7,
  VARIANT_RINGS = 8,
  VARIANT_SIDES = 9,
  VARIANT_VECTORS = 10,
  VARIANT_PANELS = 11,
  VARIANTS
};

struct mmci_group_kernel {
  mmci_device *device;
  mmci_group_limits limits;
  mmc_dtype dtype;
  kind kind;
  int32_t n;
  int64_t side; /* the squares' side, when kind is SQUARES */
  mmci_squares squares;
  mmci_general general;      /* set when kind is SQUARES or GENERAL */
  mmci_single single;        /* set when kind is SINGLE */
  mmci_spines *spines;       /* set when kind is SPINES */
  mmci_fused fused;          /* set when kind is FUSED, and where it takes_any_address */
  bool takes_any_address;    /* fused takes what FUSED_TF32 cannot */
  mmci_fused_half half;      /* set when kind is FUSED_HALF or FUSED_TF32 */
  mmci_tensor tensor;        /* set when kind is TENSOR */
  mmci_packs packs;          /* set when kind is PACKS */
  mmci_tiles tiles;          /* set when kind is TILES */
  mmci_rings rings;          /* set when kind is RINGS */
  mmci_rings any_rings;      /* set when kind is RINGS; takes any addresses */
  mmci_sides sides;          /* set when kind is SIDES */
  mmci_vector_chain vectors; /* set when kind is VECTORS */
  mmci_panels panels;        /* set when kind is PANELS */
  kind other;                /* takes any addresses; set with what it needs when kind is SIDES */
};

static mmci_group_limits limits_of(const mmci_device *device) {
  const struct cudaDeviceProp *p = &device->properties;
  return mmci_group_limits_of(p->multiProcessorCount, p->sharedMemPerBlockOptin, p->major);
}

/* ---- what is asked --------------------------------------------------------------------------- */

static bool is_sound(const mmci_group *chain) {
  if (chain->rule.semiring != MMC_PLUS_TIMES) return false;
  if (chain->n < 1 || chain->count < 1 || chain->batch < 1 || chain->ldc < 1 ||
      (unsigned)chain->dtype > MMC_BF16 || chain->variant < 0 || chain->variant >= VARIANTS)
    return false;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].ld < 1) return false;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    if (step->m < 0 || step->k < 0 || step->n < 0 || step->left < 0 || step->right < 0 ||
        step->left >= chain->n + s || step->right >= chain->n + s)
      return false;
  }
  return true;
}

/* Returns the side of equal squares that squares.cu takes, or 0. */
static int64_t squares_side(const mmci_group *chain) {
  const int64_t side = chain->dtype == MMC_F32 ? mmci_squares_side(chain) : 0,
                words = VECTOR_BYTES / (int64_t)sizeof(float);
  if (side == 0 || chain->n > MMCI_SQUARES_FACTORS || !mmci_squares_has(side) ||
      chain->c_stride % words != 0)
    return 0;
  for (int i = 0; i < chain->n; i++)
    if (chain->forms[i].stride % words != 0) return 0;
  return side;
}

/* ---- predicted ------------------------------------------------------------------------------- */

static double spines_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                        const mmci_group *chain) {
  double *done = mmci_alloc_array((size_t)chain->n + (size_t)chain->count, sizeof *done);
  const double us =
      done != NULL ? mmci_cuda_model_spines_us(model, limits, chain, done) : (double)NAN;
  free(done);
  return us;
}

/* Returns the microseconds of the two products as two calls, divided by the least gain that was
 * measured for pairs (facts.c). */
static double fused_us(const mmci_cuda_model *model, const mmci_group *chain,
                       const mmci_fused *fused) {
  double us = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const mmci_gemm gemm = {.dtype = chain->dtype,
                            .m = x->m,
                            .k = x->k,
                            .n = x->n,
                            .a = {.ld = x->k},
                            .b = {.ld = x->n},
                            .batch = chain->batch};
    us += mmci_cuda_model_product_us(model, &gemm);
  }
  const int64_t known = fused->tf32 ? 32 : MMCI_FUSED_WIDTH;
  const bool is_known =
      fused->w <= known && (!fused->tf32 || (fused->k <= known && fused->n <= known));
  return us / (is_known ? FUSED_GAIN : FUSED_OTHER_GAIN);
}

/* Returns the microseconds of a kernel by the model, or NAN where it says nothing. */
static double predicted_us(const mmci_cuda_model *model, const mmci_group *chain,
                           const mmci_group_kernel *kernel) {
  switch (kernel->kind) {
    case SQUARES:
      return mmci_cuda_model_squares_us(model, chain);
    case GENERAL:
      return mmci_cuda_model_general_us(model, &kernel->limits, chain, &kernel->general);
    case SINGLE:
      return mmci_cuda_model_single_us(model, chain, &kernel->single);
    case SPINES:
      return spines_us(model, &kernel->limits, chain);
    case FUSED:
      return fused_us(model, chain, &kernel->fused);
    case FUSED_HALF:
      return mmci_fused_half_us(&kernel->half);
    case FUSED_TF32:
      return mmci_fused_tf32_us(&kernel->half);
    case TENSOR:
      return mmci_cuda_model_tensor_us(model, &kernel->limits, chain, &kernel->tensor);
    case PACKS:
      return mmci_cuda_model_packs_us(model, &kernel->limits, chain, &kernel->packs);
    case TILES:
      return mmci_cuda_model_tiles_us(model, &kernel->limits, chain, &kernel->tiles);
    case RINGS:
      return mmci_cuda_model_rings_us(model, &kernel->limits, chain, &kernel->rings);
    case SIDES:
      return mmci_cuda_model_sides_us(model, &kernel->limits, chain, &kernel->sides);
    case VECTORS:
      return mmci_cuda_model_vectors_us(model, &kernel->limits, chain, &kernel->vectors);
    case PANELS:
      return mmci_cuda_model_panels_us(model, &kernel->limits, chain, &kernel->panels);
    case NOTHING:
    case NO_KERNEL:
      break;
  }
  return (double)NAN;
}

/* Returns the share by which chains of vectors must gain, of what nine of ten times are off by at
 * most. Half of those that take long are off by a sixteenth, and of products one by one that read
 * as much most take longer than predicted: of 2213 batches predicted to take 8 us and more, which
 * the constants were fitted to as well, this leaves 1 in 70 slower by a twentieth than products one
 * by one, and gains 1.044 of the 1.069 that the faster of both would. Products alone have batch.c's
 * doubt. */
static double error_of_vectors(double us, const mmci_group *chain, double error) {
  static const double LONG_US = 8, OF_LONG = 0.6;
  return us < LONG_US ? error : chain->count == 1 ? 0 : OF_LONG * error;
}

/* Returns by which share nine of ten of these times are off at most, of which this is one. */
static double error_of(const mmci_cuda_model *model, const mmci_group *chain,
                       const mmci_group_kernel *kernel, double us) {
  const mmci_model_dtype *d = &model->dtypes[chain->dtype];
  const mmci_model_general *own = kernel->kind == SIDES
                                      ? mmci_cuda_model_sides(model, &kernel->sides)
                                  : kernel->kind == PANELS  ? &d->panels
                                  : kernel->kind == RINGS   ? &d->rings
                                  : kernel->kind == PACKS   ? &d->packs
                                  : kernel->kind == TENSOR  ? &d->tensor
                                  : kernel->kind == VECTORS ? &d->by_vector
                                                            : NULL;
  const double error =
      own != NULL && own->error > 0 ? own->error : mmci_cuda_model_group_error(model, chain->dtype);
  return kernel->kind == VECTORS ? error_of_vectors(us, chain, error) : error;
}

/* ---- chosen ---------------------------------------------------------------------------------- */

/* Says whether spines may be the device's own choice: of larger batches every multiprocessor has a
 * chain, which is what the other kernels are for. */
static bool may_be_spines(const mmci_group *chain, const mmci_group_kernel *kernel) {
  return chain->batch <= kernel->limits.multiprocessors && mmci_spines_can(chain);
}

/* Fills in the kind among the older kernels, whose order says which is faster, and what it needs.
 */
static void choose_first(const mmci_group *chain, mmci_group_kernel *kernel) {
  const bool is_suited = chain->batch == 1 && mmci_spines_suit(&kernel->limits, chain);
  if (chain->variant == VARIANT_SPINES || (chain->variant == 0 && is_suited)) {
    kernel->kind = mmci_spines_can(chain) ? SPINES : NO_KERNEL;
  } else if (chain->variant == 0 && mmci_single_plan(&kernel->limits, chain, &kernel->single)) {
    kernel->kind = SINGLE;
  } else if (mmci_general_plan(&kernel->limits, chain, &kernel->general)) {
    const bool asked = chain->variant == 0 || chain->variant == VARIANT_SQUARES;
    kernel->side = asked ? squares_side(chain) : 0;
    kernel->kind = kernel->side != 0 ? SQUARES : GENERAL;
  } else {
    kernel->kind = chain->variant == 0 && may_be_spines(chain, kernel) ? SPINES : NO_KERNEL;
  }
}

static bool plan_tensor(const mmci_group *chain, mmci_group_kernel *kernel) {
  return kernel->limits.tensor && mmci_tensor_plan(&kernel->limits, chain, &kernel->tensor);
}

/* Takes the kind where it is predicted to be faster than the one before. */
static void consider(const mmci_cuda_model *model, const mmci_group *chain, kind kind, double *us,
                     mmci_group_kernel *kernel) {
  const enum kind before = kernel->kind;
  kernel->kind = kind;
  const double mine = predicted_us(model, chain, kernel);
  if (mine < *us || (before == NO_KERNEL && isfinite(mine)))
    *us = mine;
  else
    kernel->kind = before;
}

/* Says whether rings.cu takes addresses that are not aligned, too. */
static bool takes_any_rings(const mmci_group *chain, const mmci_group_kernel *kernel) {
  mmci_rings_size size;
  mmci_rings rings;
  for (int i = 0; mmci_rings_size_of(i, &size); i++)
    if (mmci_rings_plan(&kernel->limits, chain, 1, i, &rings)) return true;
  return false;
}

/* Plans rings.cu for aligned addresses, where it takes others, too. */
static bool may_be_rings(const mmci_cuda_model *model, const mmci_group *chain,
                         mmci_group_kernel *kernel) {
  return takes_any_rings(chain, kernel) &&
         mmci_cuda_model_plan_rings(model, &kernel->limits, chain, RINGS_WORD, &kernel->rings);
}

static mmci_sides_way way_of(const mmci_sides *sides) {
  mmci_sides_size size = {.way = MMCI_BY_SIDE};
  (void)mmci_sides_size_of(sides->dtype, sides->size, &size);
  return size.way;
}

/* Says whether one of the kernels of sides.h takes the chain, and another kernel what is at
 * addresses that they do not take: of few larger factors of f32 that is tiles.cu at least. */
static bool plan_sides(const mmci_group *chain, mmci_group_kernel *kernel) {
  const mmci_group_limits limits = kernel->limits;
  if (!mmci_sides_plan(&limits, chain, &kernel->sides)) return false;
  const mmci_sides_way way = way_of(&kernel->sides);
  if (way == MMCI_BY_STRIP && mmc_dtype_size(chain->dtype) == 2) return plan_tensor(chain, kernel);
  const bool by_tiles =
      chain->dtype == MMC_F32 && way == MMCI_BY_SIDE && chain->n <= MMCI_TILES_FACTORS;
  return by_tiles || mmci_general_plan(&limits, chain, &kernel->general);
}

static bool may_be_panels(const mmci_cuda_model *model, const mmci_group *chain,
                          mmci_group_kernel *kernel) {
  return mmci_cuda_model_plan_panels(model, &kernel->limits, chain, &kernel->panels);
}

/* Plans the fastest of these other kernels. */
static void plan_beside_sides(const mmci_cuda_model *model, const mmci_group *chain,
                              mmci_group_kernel *kernel) {
  const bool any_order = !mmci_precision_is_reproducible(chain->precision);
  if (way_of(&kernel->sides) == MMCI_BY_STRIP && plan_tensor(chain, kernel))
    kernel->other = TENSOR;
  else if (may_be_panels(model, chain, kernel))
    kernel->other = PANELS;
  else if (any_order && may_be_rings(model, chain, kernel))
    kernel->other = RINGS;
  else if (mmci_tiles_plan(chain, &kernel->tiles))
    kernel->other = TILES;
  else if (mmci_packs_plan(&kernel->limits, chain, &kernel->packs))
    kernel->other = PACKS;
  else
    kernel->other = GENERAL;
}

/* Says whether tiles.cu may be the device's own choice: of squares that go by side it was faster in
 * 16 of 1120 batches, of 2 and 50 chains, by a tenth or so, but predicted to be in 48. */
static bool may_be_tiles(const mmci_group *chain, bool by_side, mmci_group_kernel *kernel) {
  const bool asked = chain->variant == VARIANT_TILES;
  return (asked || !by_side) && mmci_tiles_plan(chain, &kernel->tiles);
}

/* Takes rings.cu where it is predicted to be faster than the kind before. */
static void consider_rings(const mmci_cuda_model *model, const mmci_group *chain, double *us,
                           mmci_group_kernel *kernel) {
  if (may_be_rings(model, chain, kernel)) consider(model, chain, RINGS, us, kernel);
}

/* Takes panels.cu where it is predicted to be faster than the kind before. */
static void consider_panels(const mmci_cuda_model *model, const mmci_group *chain, double *us,
                            mmci_group_kernel *kernel) {
  if (may_be_panels(model, chain, kernel)) consider(model, chain, PANELS, us, kernel);
}

/* Takes vector_chains.cu where it is predicted to be faster than the kind before. */
static void consider_vectors(const mmci_cuda_model *model, const mmci_group *chain, double *us,
                             mmci_group_kernel *kernel) {
  if (mmci_vector_chain_plan(&kernel->limits, chain, &kernel->vectors))
    consider(model, chain, VECTORS, us, kernel);
}

/* Takes spines for a batch of chains that are long or large, or squares.cu where choose_first()
 * found another, where they are predicted to be faster than the kind before. What spines take in
 * batches is reckoned, not fitted: they must gain the share that predictions are off by. */
static void consider_few(const mmci_cuda_model *model, const mmci_group *chain, double *us,
                         mmci_group_kernel *kernel) {
  if (kernel->kind == SINGLE) {
    kernel->side = squares_side(chain);
    if (kernel->side != 0 && mmci_general_plan(&kernel->limits, chain, &kernel->general))
      consider(model, chain, SQUARES, us, kernel);
  }
  if (kernel->kind != SPINES && may_be_spines(chain, kernel) &&
      (chain->count > MMCI_SINGLE_PRODUCTS || mmci_spines_suit(&kernel->limits, chain))) {
    double most_us = *us / (1 + mmci_cuda_model_group_error(model, chain->dtype));
    consider(model, chain, SPINES, &most_us, kernel);
  }
}

static kind choose_fused(const mmci_group *chain, mmci_group_kernel *kernel) {
  const int multiprocessors = kernel->limits.multiprocessors;
  if (kernel->limits.hopper) {
    if (mmci_fused_half_describe(chain, multiprocessors, &kernel->half)) return FUSED_HALF;
    if (mmci_fused_tf32_describe(chain, multiprocessors, &kernel->half)) {
      kernel->takes_any_address = mmci_fused_describe(chain, multiprocessors, &kernel->fused);
      return FUSED_TF32;
    }
  }
  return mmci_fused_describe(chain, multiprocessors, &kernel->fused) ? FUSED : NO_KERNEL;
}

/* Takes the kind where its variant is asked for; where none is, if it is the first one that fits or
 * predicted to be faster than the one before by this share. */
static void offer(const mmci_cuda_model *model, const mmci_group *chain, kind kind, int variant,
                  double share, mmci_group_kernel *kernel) {
  double us = predicted_us(model, chain, kernel) / (1 + share);
  if (chain->variant == variant || (chain->variant == 0 && kernel->kind == NO_KERNEL))
    kernel->kind = kind;
  else if (chain->variant == 0)
    consider(model, chain, kind, &us, kernel);
}

/* Fills in the kind among the kernels whose sums are reproducible; in the others lanes share a sum,
 * or it begins at another k. Complex sums have the order of terms of a result that is not turned.
 */
static void choose_in_order(const mmci_cuda_model *model, const mmci_group *chain,
                            mmci_group_kernel *kernel) {
  const bool turned = chain->turned && mmci_dtype_is_complex(chain->dtype);
  kernel->kind = NO_KERNEL;
  if (turned) return;
  if (may_be_panels(model, chain, kernel)) offer(model, chain, PANELS, VARIANT_PANELS, 0, kernel);
  if (!mmci_arena_is_small(chain)) return;
  if (mmci_cuda_element_bytes(chain->dtype) == 2) {
    if (plan_tensor(chain, kernel)) offer(model, chain, TENSOR, VARIANT_TENSOR, 0, kernel);
    return;
  }
  if (mmci_general_plan(&kernel->limits, chain, &kernel->general)) {
    offer(model, chain, GENERAL, VARIANT_GENERAL, 0, kernel);
    kernel->side = squares_side(chain);
    if (kernel->side != 0) offer(model, chain, SQUARES, VARIANT_SQUARES, 0, kernel);
  }
  /* For 10,000 chains of four 16 x 16 matrices of f64 packs.cu takes 79 us on an H200, and
   * general.cu 67 although it is predicted to take longer: by less than such predictions are off.
   */
  const double doubt =
      chain->dtype == MMC_F64 ? mmci_cuda_model_group_error(model, chain->dtype) : 0;
  if (chain->batch == 1) return;
  const bool by_side = plan_sides(chain, kernel);
  if (by_side) offer(model, chain, SIDES, VARIANT_SIDES, 0, kernel);
  if (may_be_tiles(chain, by_side, kernel)) offer(model, chain, TILES, VARIANT_TILES, 0, kernel);
  if (mmci_packs_plan(&kernel->limits, chain, &kernel->packs))
    offer(model, chain, PACKS, VARIANT_PACKS, doubt, kernel);
}

/* Fills in the kind for a batch of single products. It is general.cu only where no other takes
 * them: its model was fitted to chains, and is off by two for results that are large beside what is
 * read. Tensor cores are as far off where lines are no pairs of 16-bit elements. */
static void choose_alone(const mmci_cuda_model *model, const mmci_group *chain,
                         mmci_group_kernel *kernel) {
  const mmci_group_product *p = &chain->products[0];
  kernel->kind = NO_KERNEL;
  if ((p->k | p->n) % 2 == 0 && plan_tensor(chain, kernel))
    offer(model, chain, TENSOR, VARIANT_TENSOR, 0, kernel);
  const bool by_side = plan_sides(chain, kernel);
  if (by_side) offer(model, chain, SIDES, VARIANT_SIDES, 0, kernel);
  if (may_be_tiles(chain, by_side, kernel)) offer(model, chain, TILES, VARIANT_TILES, 0, kernel);
  if (mmci_packs_plan(&kernel->limits, chain, &kernel->packs))
    offer(model, chain, PACKS, VARIANT_PACKS, 0, kernel);
  kernel->side = squares_side(chain);
  if (kernel->side != 0 && mmci_general_plan(&kernel->limits, chain, &kernel->general))
    offer(model, chain, SQUARES, VARIANT_SQUARES, 0, kernel);
  double us = predicted_us(model, chain, kernel);
  consider_rings(model, chain, &us, kernel);
  consider_vectors(model, chain, &us, kernel);
  consider_panels(model, chain, &us, kernel);
  if (kernel->kind == NO_KERNEL) choose_first(chain, kernel);
}

/* Returns how much longer than predicted the kind chosen first is taken to need beside others. Of
 * batches a tenth of the times of general.cu are off by a third and more, of those of other kernels
 * by a quarter: what is predicted to be the fastest is too often what is predicted wrongly. Of 9175
 * batches and chains on an H200, 1.8 % are slower than their products one by one by a twentieth
 * with this, 1.9 % without it. */
static double handicap_of(const mmci_group *chain, const mmci_group_kernel *kernel) {
  const bool is_unsure = kernel->kind == GENERAL && chain->batch > kernel->limits.multiprocessors;
  return is_unsure ? 1.2 : 1;
}

/* Fills in the kind, and what it needs. */
static void choose_kind(const mmci_cuda_model *model, const mmci_group *chain,
                        mmci_group_kernel *kernel) {
  const mmci_group_product *last = &chain->products[chain->count - 1];
  kernel->dtype = chain->dtype;
  kernel->n = chain->n;
  if (last->m == 0 || last->n == 0) {
    kernel->kind = NOTHING;
    return;
  }
  if (mmci_precision_is_reproducible(chain->precision)) {
    choose_in_order(model, chain, kernel);
    return;
  }
  if (chain->variant == VARIANT_VECTORS) {
    const bool is_one = mmci_vector_chain_plan(&kernel->limits, chain, &kernel->vectors);
    kernel->kind = is_one ? VECTORS : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_PANELS) {
    kernel->kind = may_be_panels(model, chain, kernel) ? PANELS : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_FUSED || !mmci_arena_is_small(chain)) {
    const bool asked = chain->variant == VARIANT_FUSED || chain->variant == 0;
    kernel->kind = asked ? choose_fused(chain, kernel) : NO_KERNEL;
    double us = predicted_us(model, chain, kernel);
    if (chain->variant != 0) return;
    consider_vectors(model, chain, &us, kernel);
    consider_panels(model, chain, &us, kernel);
    return;
  }
  if (chain->variant == VARIANT_TENSOR) {
    kernel->kind = plan_tensor(chain, kernel) ? TENSOR : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_PACKS) {
    kernel->kind = mmci_packs_plan(&kernel->limits, chain, &kernel->packs) ? PACKS : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_TILES) {
    kernel->kind = mmci_tiles_plan(chain, &kernel->tiles) ? TILES : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_RINGS) {
    kernel->kind = may_be_rings(model, chain, kernel) ? RINGS : NO_KERNEL;
    return;
  }
  if (chain->variant == VARIANT_SIDES) {
    kernel->kind = plan_sides(chain, kernel) ? SIDES : NO_KERNEL;
    return;
  }
  if (chain->variant == 0 && chain->count == 1 && chain->batch > 1) {
    choose_alone(model, chain, kernel);
    return;
  }
  choose_first(chain, kernel);
  if (chain->variant == VARIANT_SQUARES && kernel->kind != SQUARES) kernel->kind = NO_KERNEL;
  if (chain->variant != 0) return;
  double us = predicted_us(model, chain, kernel) * handicap_of(chain, kernel);
  if (plan_tensor(chain, kernel)) consider(model, chain, TENSOR, &us, kernel);
  if (chain->batch == 1) return;
  const bool by_side = plan_sides(chain, kernel);
  if (by_side) consider(model, chain, SIDES, &us, kernel);
  if (may_be_tiles(chain, by_side, kernel)) consider(model, chain, TILES, &us, kernel);
  if (mmci_packs_plan(&kernel->limits, chain, &kernel->packs))
    consider(model, chain, PACKS, &us, kernel);
  consider_rings(model, chain, &us, kernel);
  consider_vectors(model, chain, &us, kernel);
  consider_panels(model, chain, &us, kernel);
  consider_few(model, chain, &us, kernel);
}

/* Chooses the kernel of a sound chain, for questions about it. What it does not need is not set:
 * the planner asks so often that zeros would take a tenth of the answer's time. */
static void choose_for(const mmci_device *device, const mmci_group *chain,
                       mmci_group_kernel *kernel) {
  kernel->limits = limits_of(device);
  kernel->side = 0;
  kernel->takes_any_address = false;
  choose_kind(mmci_cuda_model_of(device->properties.name), chain, kernel);
}

/* Returns the kind, and what it needs in *kernel. */
static kind kind_of(const mmci_device *device, const mmci_group *chain, mmci_group_kernel *kernel) {
  if (!is_sound(chain)) return NO_KERNEL;
  choose_for(device, chain, kernel);
  return kernel->kind;
}

bool mmci_cuda_chain_supports(const mmci_device *device, const mmci_group *chain) {
  mmci_group_kernel kernel;
  return kind_of(device, chain, &kernel) != NO_KERNEL;
}

const char *mmci_cuda_chain_name(const mmci_device *device, const mmci_group *chain) {
  static const char *const NAMES[] = {[NOTHING] = "nothing",
                                      [SQUARES] = "chain of equal squares",
                                      [GENERAL] = "chain in steps",
                                      [SPINES] = "chain in spines",
                                      [SINGLE] = "chain alone",
                                      [FUSED] = "fused",
                                      [FUSED_HALF] = "fused",
                                      [FUSED_TF32] = "fused",
                                      [TENSOR] = "chain by tensor cores",
                                      [PACKS] = "chain in packs",
                                      [TILES] = "chain in tiles",
                                      [RINGS] = "chain in rings",
                                      [VECTORS] = "chain of vectors",
                                      [PANELS] = "chain by panels",
                                      [NO_KERNEL] = "none"};
  static const char *const BY[] = {[MMCI_BY_SIDE] = "chain by side",
                                   [MMCI_BY_LANE] = "chain by lane",
                                   [MMCI_BY_STRIP] = "chain by strip"};
  mmci_fused fused;
  mmci_fused_half half;
  const int multiprocessors = device->properties.multiProcessorCount;
  mmci_group_kernel kernel;
  const kind kind = kind_of(device, chain, &kernel);
  if (kind == SIDES) return BY[way_of(&kernel.sides)];
  if (kind == FUSED && mmci_fused_describe(chain, multiprocessors, &fused))
    return mmci_fused_name(&fused);
  if (kind == FUSED_HALF && mmci_fused_half_describe(chain, multiprocessors, &half))
    return mmci_fused_half_name(&half);
  if (kind == FUSED_TF32 && mmci_fused_tf32_describe(chain, multiprocessors, &half))
    return mmci_fused_tf32_name(&half);
  return NAMES[kind];
}

/* Says whether the kernel fuses a pair beyond the bounds of what was measured to gain, of which the
 * model is not believed. */
static bool is_beyond_gains(const mmci_device *device, const mmci_group *chain, kind kind) {
  if (kind != FUSED && kind != FUSED_HALF && kind != FUSED_TF32) return false;
  const mmci_group_product *inner = &chain->products[0], *outer = &chain->products[1];
  const int64_t first[] = {inner->m, inner->k, inner->n}, then[] = {outer->m, outer->k, outer->n};
  const mmci_facts facts =
      mmci_cuda_facts_of(device->properties.multiProcessorCount, chain->dtype, chain->precision);
  return !mmci_pair_gains(facts.pairs, chain->batch, first, then, outer->left == chain->n);
}

double mmci_cuda_chain_seconds(const mmci_device *device, const mmci_group *chain, double *error) {
  mmci_group_kernel kernel;
  if (!is_sound(chain)) return (double)NAN;
  choose_for(device, chain, &kernel);
  if (is_beyond_gains(device, chain, kernel.kind)) return (double)NAN;
  const mmci_cuda_model *model = mmci_cuda_model_of(device->properties.name);
  const double us = predicted_us(model, chain, &kernel);
  *error = error_of(model, chain, &kernel, us);
  return us * 1e-6;
}

bool mmci_cuda_chain_share(const mmci_device *device, const mmci_group *chain,
                           mmci_group_share *out) {
  mmci_group_kernel kernel = {.limits = limits_of(device)};
  if (!is_sound(chain)) return false;
  choose_kind(mmci_cuda_model_of(device->properties.name), chain, &kernel);
  return kernel.kind == FUSED_HALF && mmci_fused_half_share(&kernel.half, out);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static mmc_status prepare_kind(mmci_group_kernel *kernel, kind kind, const mmci_cuda_model *model,
                               const mmci_group *chain, mmci_error *error) {
  mmc_status status = MMC_OK;
  switch (kind) {
    case NOTHING:
      break;
    case SQUARES:
      mmci_squares_fill(chain, &kernel->squares);
      status = mmci_squares_prepare(kernel->side, error);
      if (status != MMC_OK) break;
      /* The general kernel takes over when addresses are not aligned. */
      status = mmci_general_prepare(kernel->dtype, &kernel->general, error);
      break;
    case GENERAL:
      status = mmci_general_prepare(kernel->dtype, &kernel->general, error);
      break;
    case SPINES:
      status = mmci_spines_create(&kernel->limits, chain, &kernel->spines, error);
      break;
    case FUSED:
      status = mmci_fused_prepare(&kernel->fused, error);
      break;
    case FUSED_HALF:
      status = mmci_fused_half_prepare(&kernel->half, error);
      break;
    case FUSED_TF32:
      status = mmci_fused_tf32_prepare(&kernel->half, error);
      if (status == MMC_OK && kernel->takes_any_address)
        status = mmci_fused_prepare(&kernel->fused, error);
      break;
    case SINGLE:
      status = mmci_single_prepare(kernel->dtype, &kernel->single, error);
      break;
    case TENSOR:
      status = mmci_tensor_prepare(kernel->dtype, &kernel->tensor, error);
      break;
    case PACKS:
      status = mmci_packs_prepare(kernel->dtype, &kernel->packs, error);
      break;
    case TILES:
      status = mmci_tiles_prepare(&kernel->tiles, error);
      break;
    case RINGS:
      (void)mmci_cuda_model_plan_rings(model, &kernel->limits, chain, 1, &kernel->any_rings);
      status = mmci_rings_prepare(&kernel->rings, error);
      if (status == MMC_OK) status = mmci_rings_prepare(&kernel->any_rings, error);
      break;
    case SIDES:
      plan_beside_sides(model, chain, kernel);
      status = mmci_sides_prepare(&kernel->sides, error);
      if (status == MMC_OK) status = prepare_kind(kernel, kernel->other, model, chain, error);
      break;
    case VECTORS:
      status = mmci_vector_chain_prepare(kernel->dtype, &kernel->vectors, error);
      break;
    case PANELS:
      status = mmci_panels_prepare(&kernel->limits, &kernel->panels, error);
      break;
    case NO_KERNEL:
      status = mmci_fail(error, MMC_E_UNSUPPORTED,
                         "chain: expected factors of at most %d x %d that fit in the memory of a "
                         "multiprocessor, a batch of vectors by matrices, one of equal squares "
                         "in f32 on Hopper, or two products with an intermediate of at most %d "
                         "columns or rows (%d in f32, %d in f16 and bf16 on Hopper), and variant 0 "
                         "to %d, got others",
                         MMCI_GROUP_SIDE, MMCI_GROUP_SIDE, MMCI_FUSED_WIDTH, MMCI_FUSED_WIDEST,
                         MMCI_FUSED_WIDEST_HALF, VARIANTS - 1);
      break;
  }
  return status;
}

static mmc_status prepare_kernel(mmci_group_kernel *kernel, const mmci_group *chain,
                                 mmci_error *error) {
  const mmci_cuda_model *model = mmci_cuda_model_of(kernel->device->properties.name);
  kernel->kind = NO_KERNEL;
  if (is_sound(chain)) choose_kind(model, chain, kernel);
  return prepare_kind(kernel, kernel->kind, model, chain, error);
}

mmc_status mmci_cuda_chain_prepare(mmci_device *device, const mmci_group *chain,
                                   mmci_group_kernel **out, mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_group_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  kernel->limits = limits_of(device);
  mmc_status status = prepare_kernel(kernel, chain, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_chain_release(kernel);
  return status;
}

void mmci_cuda_chain_release(mmci_group_kernel *kernel) {
  if (kernel == NULL) return;
  MMCI_CUDA_ON_ANYHOW(kernel->device);
  mmci_spines_destroy(kernel->spines);
  free(kernel);
}

static bool is_aligned(const void *address) {
  return (uintptr_t)address % VECTOR_BYTES == 0;
}

static bool all_aligned(const mmci_group_kernel *kernel, const void *const *operands,
                        const void *c) {
  bool aligned = is_aligned(c);
  for (int i = 0; i < kernel->n; i++) aligned = aligned && is_aligned(operands[i]);
  return aligned;
}

static mmc_status enqueue_squares(mmci_queue *queue, const mmci_group_kernel *kernel,
                                  const void *const *operands, void *c, mmci_error *error) {
  mmci_squares squares = kernel->squares;
  for (int i = 0; i < kernel->n; i++) squares.data[i] = operands[i];
  squares.c = c;
  return mmci_squares_launch(queue->stream, &kernel->limits, kernel->side, &squares, error);
}

static mmc_status enqueue_general(mmci_queue *queue, const mmci_group_kernel *kernel,
                                  const void *const *operands, void *c, mmci_error *error) {
  mmci_general general = kernel->general;
  for (int l = 0; l < general.loads; l++) {
    mmci_general_load *load = &general.load[l];
    load->data = operands[load->operand];
    load->wide = load->wide && is_aligned(load->data);
  }
  general.c = c;
  return mmci_general_launch(queue->stream, &kernel->limits, kernel->dtype, &general, error);
}

static mmc_status enqueue_single(mmci_queue *queue, const mmci_group_kernel *kernel,
                                 const void *const *operands, void *c, mmci_error *error) {
  mmci_single single = kernel->single;
  for (int l = 0; l < MMCI_SINGLE_WARPS; l++) {
    mmci_single_load *load = &single.loads[l];
    load->data = operands[load->operand];
    load->wide = load->wide && is_aligned(load->data);
  }
  single.c = c;
  return mmci_single_launch(queue->stream, &kernel->limits, kernel->dtype, &single, error);
}

static mmc_status enqueue_tensor(mmci_queue *queue, const mmci_group_kernel *kernel,
                                 const void *const *operands, void *c, mmci_error *error) {
  mmci_tensor tensor = kernel->tensor;
  mmci_tensor_bind(&tensor, operands, c);
  return mmci_tensor_launch(queue->stream, &kernel->limits, kernel->dtype, &tensor, error);
}

static mmc_status enqueue_packs(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_packs packs = kernel->packs;
  for (int l = 0; l < packs.loads; l++) packs.load[l].data = operands[packs.load[l].operand];
  packs.c = c;
  return mmci_packs_launch(queue->stream, &kernel->limits, kernel->dtype, &packs, error);
}

static mmc_status enqueue_tiles(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_tiles tiles = kernel->tiles;
  mmci_tiles_bind(&tiles, operands, c);
  return mmci_tiles_launch(queue->stream, &kernel->limits, &tiles, error);
}

static mmc_status enqueue_rings(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_rings rings = kernel->rings;
  if (!mmci_rings_bind(&rings, operands, c)) {
    rings = kernel->any_rings;
    (void)mmci_rings_bind(&rings, operands, c);
  }
  return mmci_rings_launch(queue->stream, &kernel->limits, &rings, error);
}

static mmc_status enqueue_vectors(mmci_queue *queue, const mmci_group_kernel *kernel,
                                  const void *const *operands, void *c, mmci_error *error) {
  mmci_vector_chain vectors = kernel->vectors;
  mmci_vector_chain_bind(kernel->dtype, &vectors, operands, c);
  return mmci_vector_chain_launch(queue->stream, &kernel->limits, kernel->dtype, &vectors, error);
}

static mmc_status enqueue_panels(mmci_queue *queue, const mmci_group_kernel *kernel,
                                 const void *const *operands, void *c, mmci_error *error) {
  mmci_panels panels = kernel->panels;
  mmci_panels_bind(&panels, operands, c);
  return mmci_panels_launch(queue->stream, &kernel->limits, &panels, error);
}

static mmc_status enqueue_kind(mmci_queue *queue, const mmci_group_kernel *kernel, kind kind,
                               const void *const *operands, void *c, mmci_error *error);

static mmc_status enqueue_sides(mmci_queue *queue, const mmci_group_kernel *kernel,
                                const void *const *operands, void *c, mmci_error *error) {
  mmci_sides sides = kernel->sides;
  return mmci_sides_bind(&sides, operands, c)
             ? mmci_sides_launch(queue->stream, &kernel->limits, &sides, error)
             : enqueue_kind(queue, kernel, kernel->other, operands, c, error);
}

static mmc_status enqueue_kind(mmci_queue *queue, const mmci_group_kernel *kernel, kind kind,
                               const void *const *operands, void *c, mmci_error *error) {
  switch (kind) {
    case SQUARES:
      if (all_aligned(kernel, operands, c))
        return enqueue_squares(queue, kernel, operands, c, error);
      return enqueue_general(queue, kernel, operands, c, error);
    case GENERAL:
      return enqueue_general(queue, kernel, operands, c, error);
    case SINGLE:
      return enqueue_single(queue, kernel, operands, c, error);
    case TENSOR:
      return enqueue_tensor(queue, kernel, operands, c, error);
    case PACKS:
      return enqueue_packs(queue, kernel, operands, c, error);
    case TILES:
      return enqueue_tiles(queue, kernel, operands, c, error);
    case RINGS:
      return enqueue_rings(queue, kernel, operands, c, error);
    case SIDES:
      return enqueue_sides(queue, kernel, operands, c, error);
    case VECTORS:
      return enqueue_vectors(queue, kernel, operands, c, error);
    case PANELS:
      return enqueue_panels(queue, kernel, operands, c, error);
    case SPINES:
      return mmci_spines_launch(queue->stream, &kernel->limits, kernel->spines, operands, c, error);
    case FUSED:
      return mmci_fused_enqueue(queue->stream, &kernel->fused, operands, c, error);
    case FUSED_HALF:
      return mmci_fused_half_enqueue(queue->stream, &kernel->half, operands, c, error);
    case FUSED_TF32:
      if (kernel->takes_any_address && !is_aligned(operands[kernel->half.first]))
        return mmci_fused_enqueue(queue->stream, &kernel->fused, operands, c, error);
      return mmci_fused_tf32_enqueue(queue->stream, &kernel->half, operands, c, error);
    case NOTHING:
    case NO_KERNEL:
      break;
  }
  return MMC_OK;
}

mmc_status mmci_cuda_chain_enqueue(mmci_queue *queue, const mmci_group_kernel *kernel,
                                   const void *const *operands, void *c, mmci_error *error) {
  queue->has_products = true;
  MMCI_CUDA_ON(queue->device);
  return enqueue_kind(queue, kernel, kernel->kind, operands, c, error);
}
