/* cuda_scan.c: running products of small matrices, and recurrences.
 *
 * Up to 16 rows one launch sweeps over tiles that stay in shared memory, or, of 9 to 16 rows where
 * the chip has tensor cores of doubles, over strands that warps follow, a tile a multiprocessor.
 * Many scans of these, and long ones, are followed in long strands, a warp each; scans that are too
 * few for that in few parts, two launches of long strands. Where sweeping would take many tiles a
 * multiprocessor, passes over larger tiles are faster: one finds their products, which are swept,
 * and another the states. Of more rows, the products of tiles are a shorter scan, whose products of
 * tiles are a shorter one still, until one tile is left: each level is reduced going up and
 * finished going down, by tensor cores of doubles where that can be. Where the kernels can, the
 * levels above the first are two: groups of tiles are finished at once, without the states before
 * them, and then these are found, which the tiles of the first level multiply by themselves. */
#include <math.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/scan/scan_kernels.h"

/* A chain of a pass over large tiles takes from LEAST_CHAIN to MOST_CHAIN factors, as many as give
 * every multiprocessor the same number of tiles; up to ONE_EACH make one tile where the scans of
 * the batch keep all multiprocessors at work. */
enum { LEAST_CHAIN = 4, MOST_CHAIN = 48, ONE_EACH = 64 };
/* Scans of 4 x 4 matrices that would be one tile each are swept where they are at most so many
 * pieces of 96 KiB a multiprocessor. */
enum { MOST_SHORT = 6 };
/* So many pieces of recurrences a multiprocessor follows at once; a piece has so many factors at
 * least. */
enum { PIECES_AT_ONCE = 32, LEAST_PIECE = 32 };

/* The bytes of a multiprocessor's shared memory that tiles leave. */
enum { SPARE_BYTES = 4 << 10 };

/* A strand takes so many factors at least, and at most where a tile has few strands; or where
 * strands are faster than other kernels, in f64, in f32, and there in many scans of whole tiles. */
enum { LEAST_STRAND = 2, MOST_OF_FEW = 16, MOST_F64 = 256, MOST_F32 = 48, MOST_OF_SCANS = 8 };

/* Long strands, one a scan, are taken where there are so many scans for four multiprocessors: of
 * 16x16 in f64, and else. Several a scan are taken where there are fewer scans than
 * multiprocessors and so many factors in all. */
enum { MANY_SCANS_F64 = 7, MANY_SCANS = 14, LEAST_LONG_F32 = 60000, LEAST_LONG_F64 = 550000 };

/* Scans are followed in from LEAST_PARTS to MOST_PARTS long strands by two launches, or in one
 * where lines do not begin at multiples of 16 bytes and that was not taken before. */
enum { LEAST_PARTS = 3, MOST_PARTS = 24 };

/* A tile of the first level takes LEAST_RUN factors at least, and there are two a multiprocessor
 * where one would take LONG_RUN; one of another level takes UPPER_RUN at most, and all that are
 * left where these are few. */
enum { LEAST_RUN = 4, LONG_RUN = 16, UPPER_RUN = 8, ONE_TILE = 18, MOST_LEVELS = 20 };

typedef struct level {
  int64_t length, run, tiles;
  void *totals, *carries; /* of its tiles */
  bool splits_rows;
} level;

struct mmci_scan_kernel {
  mmci_device *device;
  mmci_scan scan;
  bool is_recurrence;
  int count; /* of levels of walks; 0 where there are none */
  level levels[MOST_LEVELS];
  /* How a scan is cut: into tiles of chains of runs, or pieces of runs. */
  int64_t run, tiles;
  void *work;
  unsigned *flags;
  int strands; /* of a tile, where tiles are of strands */
  /* Passes over larger tiles, the products of which are swept; tiles is 0 where there are none. */
  level passes;
  bool is_long;     /* the passes are by long strands, whose products are followed by strands */
  bool walks_first; /* or are multiplied by the strands themselves */
  void *parts;
};

/* Returns how many factors a chain takes when so many scans of a length are swept: as few as give
 * every multiprocessor as many tiles as hold them. Tiles of a scan are alike. */
static int64_t run_of(const mmci_device *device, const mmci_scan *scan, int64_t length) {
  const mmci_cuda_sweep_shape shape = mmci_cuda_sweep_shape_of(scan->dtype, scan->n);
  const int64_t bytes = (int64_t)device->properties.sharedMemPerMultiprocessor - SPARE_BYTES;
  const int64_t most = (bytes / shape.together - shape.fixed_bytes) / shape.run_bytes;
  const int64_t all = length * scan->batch;
  const int64_t at_once = device->properties.multiProcessorCount * shape.chains;
  const int64_t run =
      mmci_quotient_up(all, at_once * mmci_quotient_up(all, at_once * (most > 1 ? most : 1)));
  const int64_t tiles = mmci_quotient_up(length, shape.chains * run);
  return mmci_quotient_up(length, shape.chains * tiles);
}

static int64_t tiles_of(const mmci_scan *scan, int64_t length, int64_t run) {
  return mmci_quotient_up(length, mmci_cuda_sweep_shape_of(scan->dtype, scan->n).chains * run);
}

/* Says whether sweeping so many tiles is faster than passes over larger ones: where these are a
 * tile a scan, up to some pieces of a scan for every multiprocessor, and else up to some tiles, as
 * measured on an H200. */
static bool is_swept(const mmci_device *device, const mmci_scan *scan, int64_t tiles,
                     bool is_short) {
  const int64_t processors = device->properties.multiProcessorCount;
  const bool is_f32 = scan->dtype == MMC_F32;
  if (scan->n == 16) return tiles <= processors;
  if (scan->n == 8) return tiles <= (is_short ? 1 : is_f32 ? 10 : 3) * processors;
  if (is_short)
    return scan->batch * mmci_quotient_up(scan->length, is_f32 ? 1536 : 768) <=
           MOST_SHORT * processors;
  return is_f32 || tiles <= 30 * processors;
}

/* Cuts a scan for passes over large tiles. Returns whether that is faster than sweeping. */
static bool cut_passes(const mmci_device *device, const mmci_scan *scan, level *out) {
  if (!mmci_cuda_tiles_can(scan->dtype, scan->n)) return false;
  const int64_t processors = device->properties.multiProcessorCount;
  const int64_t chains = mmci_cuda_tiles_chains(scan->dtype, scan->n);
  const int64_t whole = mmci_quotient_up(scan->length, chains); /* the run that makes it one tile */
  const bool is_short = whole <= ONE_EACH && scan->batch >= processors;
  const int64_t swept = tiles_of(scan, scan->length, run_of(device, scan, scan->length));
  if (is_swept(device, scan, swept * scan->batch, is_short)) return false;
  const int64_t each = mmci_quotient_up(scan->length * scan->batch, chains * processors);
  int64_t run = mmci_quotient_up(each, mmci_quotient_up(each, MOST_CHAIN));
  if (run < LEAST_CHAIN) run = LEAST_CHAIN;
  if (is_short) run = whole;
  const int64_t tiles = mmci_quotient_up(scan->length, chains * run);
  *out = (level){.length = scan->length, .run = run, .tiles = tiles};
  return true;
}

/* Returns how many pieces a recurrence is followed in: as many as a GPU follows at once, as long as
 * finding the states before them takes no longer than following one. */
static int64_t pieces_of(const mmci_device *device, const mmci_scan *scan) {
  int64_t pieces = PIECES_AT_ONCE * device->properties.multiProcessorCount / scan->batch;
  if (pieces > scan->length / LEAST_PIECE) pieces = scan->length / LEAST_PIECE;
  while (pieces * pieces > 2 * scan->length) pieces = 2 * scan->length / pieces;
  return pieces < 3 ? 1 : pieces; /* two would not repay the products */
}

/* Says whether states are followed one by one. */
static bool is_recurrence(const mmci_scan *scan) {
  return scan->has_initial && (scan->width != scan->n || scan->has_addend) &&
         mmci_cuda_recurrence_can(scan->dtype, scan->n, scan->width);
}

/* Returns the longest scan for which the kernels take no longer than products by levels: these take
 * some 135 us more for each scan, and less for each factor where cuBLAS has tensor cores for it or
 * the kernels fill up sides. As measured on an H200. */
static int64_t longest(const mmci_scan *scan) {
  const bool is_f32 = scan->dtype == MMC_F32;
  const int64_t n = scan->n, piece = is_f32 ? 4 : 2;
  const bool has_pieces = n % piece == 0 && scan->a.ld % piece == 0 && scan->left == scan->a.trans;
  if (n <= 8 || mmci_cuda_tiles_can(scan->dtype, n)) return INT64_MAX;
  if (n <= MMCI_CUDA_SWEEP_SIDE) return 50000;
  if (!has_pieces) return scan->batch < 16 ? 48 : 1000;
  if (n == 32 || n == 64) return is_f32 ? INT64_MAX : n == 32 ? 4096 : 1024;
  return n < 32 && is_f32 ? 4096 : 1024;
}

/* Return how operands lie, where states are multiplied from the right. */
static mmci_cuda_stack factors_of(const mmci_scan *scan, const mmci_scan_places *places) {
  return (mmci_cuda_stack){.data = places->a,
                           .ld = scan->a.ld,
                           .step = scan->a_step,
                           .stride = scan->a.stride,
                           .turned = scan->left != scan->a.trans};
}

static mmci_cuda_stack states_of(const mmci_scan *scan, const mmci_scan_places *places) {
  return (mmci_cuda_stack){.data = places->c,
                           .ld = scan->ldc,
                           .step = scan->c_step,
                           .stride = scan->c_stride,
                           .turned = scan->left};
}

static mmci_cuda_stack initial_of(const mmci_scan *scan, const mmci_scan_places *places) {
  if (!scan->has_initial) return (mmci_cuda_stack){0};
  return (mmci_cuda_stack){.data = places->initial,
                           .ld = scan->initial.ld,
                           .stride = scan->initial.stride,
                           .turned = scan->left != scan->initial.trans};
}

static mmci_cuda_stack addends_of(const mmci_scan *scan, const mmci_scan_places *places) {
  if (!scan->has_addend) return (mmci_cuda_stack){0};
  return (mmci_cuda_stack){.data = places->addend,
                           .ld = scan->addend.ld,
                           .step = scan->addend_step,
                           .stride = scan->addend.stride,
                           .turned = scan->left != scan->addend.trans};
}

/* Says whether the kernels take groups of tiles of such a scan, if its factors and states begin at
 * multiples of 16 bytes. */
static bool takes_groups(const mmci_device *device, const mmci_scan *scan) {
  const mmci_scan_places nothing = {0};
  const mmci_cuda_walk walk = {.dtype = scan->dtype,
                               .n = scan->n,
                               .factors = factors_of(scan, &nothing),
                               .states = states_of(scan, &nothing),
                               .finishes = true};
  return mmci_cuda_tensor_walk_can(device->properties.major, device->properties.minor, &walk) &&
         mmci_cuda_tensor_walk_groups(&walk);
}

/* Decides how the levels of a scan of wider matrices are cut. Returns how many there are. */
static int cut_levels(const mmci_device *device, const mmci_scan *scan, level levels[MOST_LEVELS]) {
  const int64_t processors = device->properties.multiProcessorCount;
  int64_t length = scan->length, run = mmci_quotient_up(length * scan->batch, processors);
  if (run < LEAST_RUN) run = LEAST_RUN;
  /* Two tiles a multiprocessor hide what each waits for. */
  if (run >= LONG_RUN && 4 * scan->batch <= 2 * processors && takes_groups(device, scan))
    run = mmci_quotient_up(length, 2 * processors / scan->batch);
  int count = 0;
  while (count < MOST_LEVELS) {
    if (count > 0) run = UPPER_RUN;
    if (length <= ONE_TILE || run > length) run = length;
    const int64_t tiles = mmci_quotient_up(length, run);
    levels[count++] = (level){.length = length,
                              .run = run,
                              .tiles = tiles,
                              .splits_rows = 2 * tiles * scan->batch < processors};
    length = tiles;
    if (tiles == 1) break;
  }
  return count;
}

/* Cuts scans for strands, a tile a multiprocessor, or one a scan where there are many. Returns
 * whether that is faster than sweeps and passes, as measured. */
static bool cut_strands(const mmci_device *device, const mmci_scan *scan, mmci_scan_kernel *out) {
  const struct cudaDeviceProp *chip = &device->properties;
  if (!mmci_cuda_strands_can(chip->major, chip->minor, scan->dtype, scan->n)) return false;
  const int64_t processors = chip->multiProcessorCount, all = scan->length * scan->batch;
  int64_t run = mmci_quotient_up(all, processors * MMCI_CUDA_FEW_STRANDS);
  out->strands = MMCI_CUDA_FEW_STRANDS;
  if (run > MOST_OF_FEW && scan->batch < processors) {
    out->strands = MMCI_CUDA_MANY_STRANDS;
    run = mmci_quotient_up(all, processors * MMCI_CUDA_MANY_STRANDS);
  }
  if (run < LEAST_STRAND) run = LEAST_STRAND;
  const int64_t tiles = mmci_quotient_up(scan->length, out->strands * run);
  out->run = mmci_quotient_up(scan->length, out->strands * tiles); /* tiles of a scan are alike */
  out->tiles = tiles;
  if (scan->dtype == MMC_F64) return out->run <= MOST_F64;
  const bool whole = mmci_cuda_tiles_can(scan->dtype, scan->n) && scan->batch >= processors;
  return out->run <= (whole ? MOST_OF_SCANS : MOST_F32);
}

/* Returns a pass of long strands, one a scan, that knows how factors and states lie, but not where.
 */
static mmci_cuda_tiles pass_alone(const mmci_scan *scan) {
  const mmci_scan_places nothing = {0};
  return (mmci_cuda_tiles){.dtype = scan->dtype,
                           .n = scan->n,
                           .length = scan->length,
                           .batch = scan->batch,
                           .run = scan->length,
                           .tiles = 1,
                           .factors = factors_of(scan, &nothing),
                           .states = states_of(scan, &nothing)};
}

/* Cuts scans for passes by long strands: one a scan where there are many scans, and else as many
 * as multiprocessors follow at once. Returns whether that is faster than what else there is but few
 * parts, as measured on an H200. */
static bool cut_long(const mmci_device *device, const mmci_scan *scan, mmci_scan_kernel *out) {
  const struct cudaDeviceProp *chip = &device->properties;
  const mmci_cuda_tiles pass = pass_alone(scan);
  if (!mmci_cuda_long_strands_can(chip->major, chip->minor, scan->dtype, scan->n) ||
      !mmci_cuda_long_strands_have_pieces(&pass))
    return false;
  const int64_t processors = chip->multiProcessorCount, all = scan->length * scan->batch;
  const bool is_f32 = scan->dtype == MMC_F32;
  const int64_t many = is_f32 || scan->n < 16 ? MANY_SCANS : MANY_SCANS_F64;
  int64_t tiles = 1;
  if (4 * scan->batch < many * processors) {
    if (scan->batch >= processors || all < (is_f32 ? LEAST_LONG_F32 : LEAST_LONG_F64)) return false;
    tiles = mmci_cuda_long_strands_at_once(scan->dtype) * processors / scan->batch;
  }
  const int64_t run = mmci_quotient_up(scan->length, tiles);
  out->passes =
      (level){.length = scan->length, .run = run, .tiles = mmci_quotient_up(scan->length, run)};
  out->is_long = true;
  return true;
}

/* Microseconds of long strands, as measured on an H200: of a product of a part that a strand reads,
 * and of a launch until memory is busy; bytes that are moved, and factors that tensor cores and
 * converters of a multiprocessor follow, in a microsecond. */
static const double product_us = 0.35, launch_us = 5.5, bytes_a_us = 3.85e6, followed_a_us = 20;

/* Returns the microseconds of a factor that one warp follows, by a kernel for just its side, by
 * pieces of 16 bytes or by elements. */
static double step_us(const mmci_cuda_tiles *pass) {
  const bool is_f32 = pass->dtype == MMC_F32, is_16 = pass->n == 16;
  if (mmci_cuda_long_strands_have_side(pass))
    return is_f32 ? is_16 ? 0.155 : 0.21 : is_16 ? 0.22 : 0.2;
  if (!mmci_cuda_long_strands_have_pieces(pass)) return 1.1;
  return is_f32 ? is_16 ? 0.32 : 0.37 : is_16 ? 0.36 : 0.41;
}

/* Returns the microseconds that moving so many matrices takes. */
static double moving_us(const mmci_scan *scan, double matrices) {
  return matrices * (double)(scan->n * scan->n) * (double)mmc_dtype_size(scan->dtype) / bytes_a_us;
}

/* Returns the microseconds that long strands take, parts of each scan. */
static double parts_us(const mmci_device *device, const mmci_scan *scan, int64_t parts) {
  const int64_t processors = device->properties.multiProcessorCount;
  const int64_t at_once = mmci_cuda_long_strands_at_once(scan->dtype) * processors;
  mmci_cuda_tiles pass = pass_alone(scan);
  pass.run = mmci_quotient_up(scan->length, parts);
  pass.tiles = mmci_quotient_up(scan->length, pass.run);
  pass.walks_first = pass.tiles > 1;
  const int64_t strands = scan->batch * (pass.tiles > 1 ? pass.tiles - 1 : 1);
  const double all = (double)scan->length * (double)scan->batch;
  const double later = pass.tiles > 1 ? (double)(pass.tiles - 1) / (double)pass.tiles : 1;
  const double followed =
      fmax(step_us(&pass) * (double)(pass.run * mmci_quotient_up(strands, at_once)),
           later * all / (followed_a_us * (double)processors));
  /* A ring is filled before anything else, which takes as long again by elements. */
  const double begins = mmci_cuda_long_strands_have_pieces(&pass) ? launch_us : 2 * launch_us;
  const double last = begins + fmax(followed, moving_us(scan, 2 * later * all));
  if (pass.tiles == 1) return last;
  return begins + fmax(followed, moving_us(scan, all)) + last +
         product_us * (double)(pass.tiles - 2);
}

/* Returns the microseconds that a scan takes without few parts, or somewhat less, as measured on an
 * H200. */
static double other_us(const mmci_device *device, const mmci_scan *scan) {
  const mmci_cuda_tiles pass = pass_alone(scan);
  const bool is_f32 = scan->dtype == MMC_F32, is_16 = scan->n == 16;
  const bool has_pieces = mmci_cuda_long_strands_have_pieces(&pass);
  const double all = (double)scan->length * (double)scan->batch;
  mmci_scan_kernel cut = {0};
  if (cut_long(device, scan, &cut)) {
    if (cut.passes.tiles == 1) return parts_us(device, scan, 1);
    return 20 + moving_us(scan, 3 * all);
  }
  if (cut_strands(device, scan, &cut)) {
    if (is_f32) return 10 + all * (is_16 ? 1.2e-3 : has_pieces ? 1.05e-3 : 1.3e-3);
    return 10 + all * (is_16 ? 1.85e-3 : has_pieces ? 1.35e-3 : 1.2e-3);
  }
  if (is_16) return 10 + all * (is_f32 ? 0.85e-3 : 1.9e-3);
  const int64_t tiles = tiles_of(scan, scan->length, run_of(device, scan, scan->length));
  if (is_f32 && !has_pieces) return 10 + all * (tiles > 1 ? 4.4e-3 : 1.05e-3);
  return 10 + 1.4e-3 * all;
}

/* Cuts scans into few parts, or one where there are not much fewer scans than multiprocessors,
 * which are followed in long strands. Returns whether that is faster than what else there is. */
static bool cut_parts(const mmci_device *device, const mmci_scan *scan, mmci_scan_kernel *out) {
  const struct cudaDeviceProp *chip = &device->properties;
  const mmci_cuda_tiles pass = pass_alone(scan);
  if (!mmci_cuda_long_strands_can(chip->major, chip->minor, scan->dtype, scan->n)) return false;
  if (!mmci_cuda_long_strands_have_pieces(&pass) && mmci_cuda_tiles_can(scan->dtype, scan->n))
    return false;
  double least_us = 0.9 * other_us(device, scan);
  int64_t best = 0;
  const bool is_many = 2 * scan->batch >= chip->multiProcessorCount;
  for (int64_t parts = is_many ? 1 : LEAST_PARTS; parts <= MOST_PARTS; parts++) {
    if (parts > 1 && (parts < LEAST_PARTS || parts > scan->length)) continue;
    const double us = parts_us(device, scan, parts);
    if (us >= least_us) continue;
    least_us = us;
    best = parts;
  }
  if (best == 0) return false;
  const int64_t run = mmci_quotient_up(scan->length, best);
  out->passes =
      (level){.length = scan->length, .run = run, .tiles = mmci_quotient_up(scan->length, run)};
  out->is_long = true;
  out->walks_first = out->passes.tiles > 1;
  return true;
}

/* Cuts the products of long strands, which are swept by strands of a few factors. */
static void cut_middle(const mmci_device *device, const mmci_scan *scan, mmci_scan_kernel *out) {
  const int64_t length = out->passes.tiles, processors = device->properties.multiProcessorCount;
  int64_t run = mmci_quotient_up(length * scan->batch, processors * MMCI_CUDA_FEW_STRANDS);
  if (run < LEAST_STRAND) run = LEAST_STRAND;
  out->strands = MMCI_CUDA_FEW_STRANDS;
  out->tiles = mmci_quotient_up(length, out->strands * run);
  out->run = mmci_quotient_up(length, out->strands * out->tiles);
}

bool mmci_cuda_scan_supports(const mmci_device *device, const mmci_scan *scan) {
  if (scan->rule.semiring != MMC_PLUS_TIMES) return false;
  if (is_recurrence(scan)) return scan->batch < INT32_MAX;
  if (scan->width != scan->n || scan->has_addend) return false;
  mmci_scan_kernel cut = {0};
  if (scan->length > longest(scan) && !cut_parts(device, scan, &cut) &&
      !cut_long(device, scan, &cut) && !cut_strands(device, scan, &cut))
    return false;
  if (mmci_cuda_walk_can(scan->dtype, scan->n))
    return (double)scan->length * (double)scan->batch < 1e8;
  return mmci_cuda_sweep_can(scan->dtype, scan->n) &&
         (double)scan->length * (double)scan->batch < 2e9;
}

static mmci_cuda_recurrence recurrence_of(const mmci_scan_kernel *kernel,
                                          const mmci_scan_places *places) {
  const mmci_scan *scan = &kernel->scan;
  return (mmci_cuda_recurrence){.dtype = scan->dtype,
                                .n = scan->n,
                                .width = scan->width,
                                .length = scan->length,
                                .batch = scan->batch,
                                .factors = factors_of(scan, places),
                                .states = states_of(scan, places),
                                .initial = initial_of(scan, places),
                                .addends = addends_of(scan, places),
                                .pieces = kernel->tiles,
                                .run = kernel->run,
                                .work = kernel->work};
}

/* Returns the sweep of a scan, or of the products of its tiles. */
static mmci_cuda_sweep sweep_of(const mmci_scan_kernel *kernel, const mmci_scan_places *places) {
  const mmci_scan *scan = &kernel->scan;
  const level *passes = &kernel->passes;
  const int64_t n = scan->n, size = n * n;
  mmci_cuda_sweep sweep = {.dtype = scan->dtype,
                           .n = n,
                           .length = scan->length,
                           .batch = scan->batch,
                           .run = kernel->run,
                           .tiles = kernel->tiles,
                           .processors = kernel->device->properties.multiProcessorCount,
                           .factors = factors_of(scan, places),
                           .states = states_of(scan, places),
                           .initial = initial_of(scan, places),
                           .work = kernel->work,
                           .flags = kernel->flags};
  if (passes->tiles == 0) return sweep;
  sweep.length = passes->tiles;
  sweep.factors = (mmci_cuda_stack){
      .data = passes->totals, .ld = n, .step = size, .stride = size * passes->tiles};
  sweep.states = sweep.factors;
  sweep.states.data = passes->carries;
  return sweep;
}

static mmc_status make_long_passes(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                   const mmci_scan_places *places, const mmci_cuda_tiles *pass,
                                   mmci_error *error) {
  mmc_status status = MMC_OK;
  if (pass->walks_first) {
    status = mmci_cuda_long_strands_reduce(queue->stream, pass, error);
  } else if (pass->tiles > 1) {
    const mmci_cuda_sweep sweep = sweep_of(kernel, places);
    status = mmci_cuda_long_strands_reduce(queue->stream, pass, error);
    if (status == MMC_OK)
      status = mmci_cuda_strands_run(queue->stream, &sweep, kernel->strands, error);
  }
  return status == MMC_OK ? mmci_cuda_long_strands_finish(queue->stream, pass, error) : status;
}

/* Sweeps over the products of large tiles, between two passes over these. */
static mmc_status make_passes(mmci_queue *queue, const mmci_scan_kernel *kernel,
                              const mmci_scan_places *places, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  const mmci_cuda_tiles pass = {.dtype = scan->dtype,
                                .n = scan->n,
                                .length = scan->length,
                                .batch = scan->batch,
                                .run = kernel->passes.run,
                                .tiles = kernel->passes.tiles,
                                .factors = factors_of(scan, places),
                                .states = states_of(scan, places),
                                .initial = initial_of(scan, places),
                                .carries = kernel->passes.carries,
                                .totals = kernel->passes.totals,
                                .parts = kernel->parts,
                                .walks_first = kernel->walks_first};
  if (kernel->is_long) return make_long_passes(queue, kernel, places, &pass, error);
  if (pass.tiles == 1) return mmci_cuda_tiles_finish(queue->stream, &pass, error);
  const mmci_cuda_sweep sweep = sweep_of(kernel, places);
  mmc_status status = mmci_cuda_tiles_reduce(queue->stream, &pass, error);
  if (status == MMC_OK) status = mmci_cuda_sweep_run(queue->stream, &sweep, error);
  if (status == MMC_OK) status = mmci_cuda_tiles_finish(queue->stream, &pass, error);
  return status;
}

/* Returns a pass over level l, whose factors and states are those of tiles below but for the first
 * level. */
static mmci_cuda_walk walk_of(const mmci_scan_kernel *kernel, const mmci_scan_places *places, int l,
                              bool finishes) {
  const mmci_scan *scan = &kernel->scan;
  const level *x = &kernel->levels[l];
  const int64_t n = scan->n, size = n * n;
  mmci_cuda_walk walk = {.dtype = scan->dtype,
                         .n = n,
                         .length = x->length,
                         .batch = scan->batch,
                         .run = x->run,
                         .tiles = x->tiles,
                         .initial = initial_of(scan, places),
                         .carries = x->carries,
                         .totals = x->totals,
                         .finishes = finishes,
                         .splits_rows = x->splits_rows};
  if (l == 0) {
    walk.factors = factors_of(scan, places);
    walk.states = states_of(scan, places);
    return walk;
  }
  const level *below = &kernel->levels[l - 1];
  walk.factors = (mmci_cuda_stack){
      .data = below->totals, .ld = n, .step = size, .stride = size * below->tiles};
  walk.states = walk.factors;
  walk.states.data = below->carries;
  return walk;
}

static mmc_status walk(mmci_queue *queue, const mmci_scan_kernel *kernel,
                       const mmci_scan_places *places, int l, bool finishes, mmci_error *error) {
  const struct cudaDeviceProp *chip = &kernel->device->properties;
  const mmci_cuda_walk pass = walk_of(kernel, places, l, finishes);
  return mmci_cuda_tensor_walk_can(chip->major, chip->minor, &pass)
             ? mmci_cuda_tensor_walk_run(queue->stream, &pass, error)
             : mmci_cuda_walk_run(queue->stream, &pass, error);
}

/* Returns how many tiles of the first level are a group, where the kernels of a scan of three
 * levels can take groups; else 0. Groups are no more than the tiles of the second level. */
static int64_t group_of(const mmci_scan_kernel *kernel, const mmci_scan_places *places) {
  const struct cudaDeviceProp *chip = &kernel->device->properties;
  const mmci_cuda_walk first = walk_of(kernel, places, 0, true);
  if (kernel->count < 3 || !mmci_cuda_tensor_walk_can(chip->major, chip->minor, &first) ||
      !mmci_cuda_tensor_walk_groups(&first))
    return 0;
  int64_t group = UPPER_RUN;
  while (group * group < first.tiles) group++;
  return group;
}

/* Finds the products of tiles, the running products within groups of them, the states after groups,
 * and all states. */
static mmc_status walk_groups(mmci_queue *queue, const mmci_scan_kernel *kernel,
                              const mmci_scan_places *places, int64_t group, mmci_error *error) {
  const int64_t n = kernel->scan.n, size = n * n;
  const int64_t processors = kernel->device->properties.multiProcessorCount;
  const mmci_cuda_walk up = walk_of(kernel, places, 0, false);
  mmci_cuda_walk down = walk_of(kernel, places, 0, true);
  down.group = group;
  down.group_carries = kernel->levels[1].carries;
  mmci_cuda_walk within = walk_of(kernel, places, 1, true);
  within.run = group;
  within.tiles = mmci_quotient_up(within.length, group);
  within.carries = NULL;
  within.splits_rows = 2 * within.tiles * within.batch < processors;
  mmci_cuda_walk groups = within;
  groups.length = groups.run = within.tiles - 1;
  groups.tiles = 1;
  groups.initial = (mmci_cuda_stack){0};
  groups.splits_rows = 2 * groups.batch < processors;
  groups.factors = within.states;
  groups.factors.data = mmci_address(kernel->levels[0].carries,
                                     (group - 1) * size * (int64_t)mmc_dtype_size(up.dtype));
  groups.factors.step = size * group;
  groups.states = (mmci_cuda_stack){
      .data = down.group_carries, .ld = n, .step = size, .stride = size * within.tiles};
  mmc_status status = mmci_cuda_tensor_walk_run(queue->stream, &up, error);
  if (status == MMC_OK) status = mmci_cuda_tensor_walk_run(queue->stream, &within, error);
  if (status == MMC_OK && within.tiles > 1)
    status = mmci_cuda_tensor_walk_run(queue->stream, &groups, error);
  return status == MMC_OK ? mmci_cuda_tensor_walk_run(queue->stream, &down, error) : status;
}

static mmc_status walk_levels(mmci_queue *queue, const mmci_scan_kernel *kernel,
                              const mmci_scan_places *places, mmci_error *error) {
  const int64_t group = group_of(kernel, places);
  if (group > 0) return walk_groups(queue, kernel, places, group, error);
  mmc_status status = MMC_OK;
  for (int l = 0; l + 1 < kernel->count && status == MMC_OK; l++)
    status = walk(queue, kernel, places, l, false, error);
  for (int l = kernel->count - 1; l >= 0 && status == MMC_OK; l--)
    status = walk(queue, kernel, places, l, true, error);
  return status;
}

/* Takes the memory of the products of tiles, and of the states after them. */
static mmc_status take_levels(mmci_scan_kernel *kernel, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  const size_t matrix = (size_t)(scan->n * scan->n) * mmc_dtype_size(scan->dtype);
  size_t bytes = 0;
  for (int l = 0; l + 1 < kernel->count; l++)
    bytes += 2 * (size_t)(kernel->levels[l].tiles * scan->batch) * matrix;
  if (bytes == 0) return MMC_OK;
  mmc_status status = mmci_cuda_alloc(kernel->device, bytes, &kernel->work, error);
  char *at = kernel->work;
  for (int l = 0; l + 1 < kernel->count && status == MMC_OK; l++) {
    const size_t all = (size_t)(kernel->levels[l].tiles * scan->batch) * matrix;
    kernel->levels[l].totals = at;
    kernel->levels[l].carries = at + all;
    at += 2 * all;
  }
  return status;
}

/* Takes memory for what blocks of a sweep tell each other, where flags are 0 before the first
 * execution, and for the products of large tiles. */
static mmc_status take_sweep(mmci_scan_kernel *kernel, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  const mmci_scan_places nothing = {0};
  const mmci_cuda_sweep sweep = sweep_of(kernel, &nothing);
  const int64_t tiles = kernel->passes.tiles * scan->batch;
  if (kernel->passes.tiles == 1) return MMC_OK;
  const int64_t matrix = scan->n * scan->n * (int64_t)mmc_dtype_size(scan->dtype);
  const int64_t chains =
      tiles > 0 && !kernel->is_long ? mmci_cuda_tiles_chains(scan->dtype, scan->n) : 0;
  size_t work_bytes = 0, flags = 0;
  if (kernel->strands > 0)
    mmci_cuda_strands_room(&sweep, &work_bytes, &flags);
  else
    flags = mmci_cuda_sweep_words(&sweep);
  const size_t passes_bytes = (size_t)(tiles * (2 + chains) * matrix);
  const size_t all = passes_bytes + work_bytes + flags * sizeof *kernel->flags;
  mmc_status status = mmci_cuda_alloc(kernel->device, all, &kernel->work, error);
  if (status != MMC_OK) return status;
  char *at = mmci_address(kernel->work, (int64_t)work_bytes);
  kernel->passes.totals = at;
  kernel->passes.carries = at + tiles * matrix;
  kernel->parts = at + 2 * tiles * matrix;
  kernel->flags = (unsigned *)(void *)(at + passes_bytes);
  MMCI_CUDA_ON(kernel->device);
  MMCI_CUDA_TRY(cudaMemset(kernel->flags, 0, flags * sizeof *kernel->flags));
  MMCI_CUDA_TRY(cudaDeviceSynchronize());
  return MMC_OK;
}

/* Takes memory for the products of few parts. */
static mmc_status take_parts(mmci_scan_kernel *kernel, mmci_error *error) {
  const mmci_scan *scan = &kernel->scan;
  if (!kernel->walks_first) return MMC_OK;
  const int64_t matrix = scan->n * scan->n * (int64_t)mmc_dtype_size(scan->dtype);
  const size_t bytes = (size_t)(kernel->passes.tiles * scan->batch * matrix);
  const mmc_status status = mmci_cuda_alloc(kernel->device, bytes, &kernel->work, error);
  kernel->passes.totals = kernel->work;
  return status;
}

static mmc_status take_pieces(mmci_scan_kernel *kernel, mmci_error *error) {
  const mmci_scan_places nothing = {0};
  const mmci_cuda_recurrence x = recurrence_of(kernel, &nothing);
  const size_t bytes = mmci_cuda_recurrence_room(&x);
  return bytes == 0 ? MMC_OK : mmci_cuda_alloc(kernel->device, bytes, &kernel->work, error);
}

mmc_status mmci_cuda_scan_prepare(mmci_device *device, const mmci_scan *scan,
                                  mmci_scan_kernel **out, mmci_error *error) {
  mmci_scan_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  kernel->scan = *scan;
  kernel->is_recurrence = is_recurrence(scan);
  mmc_status status;
  if (kernel->is_recurrence) {
    kernel->run = mmci_quotient_up(scan->length, pieces_of(device, scan));
    kernel->tiles = mmci_quotient_up(scan->length, kernel->run);
    status = take_pieces(kernel, error);
  } else if (mmci_cuda_walk_can(scan->dtype, scan->n)) {
    kernel->count = cut_levels(device, scan, kernel->levels);
    status = take_levels(kernel, error);
  } else if (cut_parts(device, scan, kernel)) {
    status = take_parts(kernel, error);
  } else if (cut_long(device, scan, kernel)) {
    cut_middle(device, scan, kernel);
    status = take_sweep(kernel, error);
  } else if (cut_strands(device, scan, kernel)) {
    status = take_sweep(kernel, error);
  } else {
    kernel->strands = 0;
    const bool passes = cut_passes(device, scan, &kernel->passes);
    const int64_t length = passes ? kernel->passes.tiles : scan->length;
    kernel->run = run_of(device, scan, length);
    kernel->tiles = tiles_of(scan, length, kernel->run);
    status = take_sweep(kernel, error);
  }
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_scan_release(kernel);
  return status;
}

void mmci_cuda_scan_release(mmci_scan_kernel *kernel) {
  if (kernel == NULL) return;
  if (kernel->work != NULL) mmci_cuda_dealloc(kernel->device, kernel->work);
  free(kernel);
}

void mmci_cuda_scan_facts(const mmci_scan_kernel *kernel, mmci_scan_facts *out) {
  const mmci_scan *scan = &kernel->scan;
  if (kernel->is_recurrence) {
    *out = (mmci_scan_facts){
        .method = kernel->tiles > 1 ? "blocked" : "sequential",
        .kernel = "recurrence",
        .why = kernel->tiles > 1 ? "products of the factors of pieces give the states before them"
                                 : "each state needs the one before, and a block follows each scan",
        .blocks = kernel->tiles,
        .products = (scan->length + (kernel->tiles - 1) * kernel->run) * scan->batch};
    return;
  }
  if (kernel->count > 0) {
    int64_t products = 0;
    for (int l = 0; l < kernel->count; l++)
      products += (l + 1 < kernel->count ? 2 : 1) * kernel->levels[l].length;
    *out = (mmci_scan_facts){.method = "tiles",
                             .kernel = "scan_wide",
                             .why = "tiles are reduced, scanned, and gone through again",
                             .blocks = kernel->levels[0].tiles,
                             .products = products * scan->batch};
    return;
  }
  if (kernel->is_long) {
    const int64_t tiles = kernel->passes.tiles;
    *out = (mmci_scan_facts){
        .method = tiles > 1 ? "tiles" : "sequential",
        .kernel = "scan_long_strands",
        .why = kernel->walks_first
                   ? "warps follow the first part while others find the products of the next, and "
                     "then each follows a further part, by tensor cores of doubles"
               : tiles > 1 ? "warps find the products of long runs by tensor cores of doubles, and "
                             "then follow each"
                           : "a warp follows each scan by tensor cores of doubles",
        .blocks = tiles};
    out->products = scan->length * (tiles > 1 ? 2 : 1) * scan->batch;
    if (kernel->walks_first)
      out->products =
          (scan->length + (tiles - 2) * kernel->passes.run + (tiles - 1) * (tiles - 2) / 2) *
          scan->batch;
    return;
  }
  if (kernel->strands > 0) {
    *out = (mmci_scan_facts){.method = "tiles",
                             .kernel = "scan_strands",
                             .why =
                                 "warps follow runs by tensor cores of doubles, and blocks tell "
                                 "each other their products",
                             .blocks = kernel->tiles};
    out->products = (2 * scan->length + 2 * kernel->strands * kernel->tiles) * scan->batch;
    return;
  }
  /* Every factor is multiplied twice, and the chains of a tile are joined in rounds. */
  const int64_t chains = mmci_cuda_sweep_shape_of(scan->dtype, scan->n).chains;
  const level *passes = &kernel->passes;
  *out = (mmci_scan_facts){
      .method = "tiles",
      .kernel = passes->tiles > 0 ? "scan_rows" : "scan_sweep",
      .why = passes->tiles > 0
                 ? "tiles are reduced, their products swept, and all gone through again"
                 : "tiles stay in shared memory, and blocks tell each other their "
                   "products",
      .blocks = passes->tiles > 0 ? passes->tiles : kernel->tiles};
  out->products = 2 * scan->length + chains * kernel->tiles;
  for (int64_t apart = 1; apart < chains; apart *= 2)
    out->products += (chains - apart) * kernel->tiles;
  if (passes->tiles > 0) /* all chains of a tile, in rounds */
    for (int64_t apart = 1; apart < mmci_cuda_tiles_chains(scan->dtype, scan->n); apart *= 2)
      out->products += mmci_quotient_up(scan->length, passes->run);
  out->products *= scan->batch;
}

mmc_status mmci_cuda_scan_enqueue(mmci_queue *queue, const mmci_scan_kernel *kernel,
                                  const mmci_scan_places *places, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  if (kernel->is_recurrence) {
    const mmci_cuda_recurrence x = recurrence_of(kernel, places);
    return mmci_cuda_recurrence_follow(queue->stream, &x, error);
  }
  if (kernel->count > 0) return walk_levels(queue, kernel, places, error);
  if (kernel->passes.tiles > 0) return make_passes(queue, kernel, places, error);
  const mmci_cuda_sweep sweep = sweep_of(kernel, places);
  return kernel->strands > 0 ? mmci_cuda_strands_run(queue->stream, &sweep, kernel->strands, error)
                             : mmci_cuda_sweep_run(queue->stream, &sweep, error);
}
