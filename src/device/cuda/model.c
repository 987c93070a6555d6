/* model.c: the formulas of model.h. */
#include "device/cuda/model.h"

#include <math.h>
#include <string.h>

#include "device/cuda/element_bytes.h"
#include "device/cuda/kinds/h100.h"
#include "device/cuda/kinds/h200.h"

enum {
  WARP = 32,
  VECTOR_TILE = 64,
  FIRST_TILE = 16,
  K_STEP = 8, /* terms that tiles take at a time */
  WORD_BYTES = 16,
  PAIR_BYTES = 4,
  /* Bytes of a multiprocessor of sm_90; a block takes more than it asks for. */
  SM_SHARED_BYTES = 227 * 1024,
  BLOCK_SHARED_BYTES = 1724,
  SM_THREADS = 2048,
  SM_BLOCKS = 32,
  SM_REGISTERS = 65536,
  THREAD_REGISTERS = 64,
  TENSOR_REGISTERS = 104, /* registers of a thread of tensor.cu, but for small chains */
  /* A word that tensor.cu gathers from single elements takes as long as so many that are copied:
   * then 2200 chains with odd sides on an H200 are predicted as well as those with even ones. */
  ELEMENTS_AS_WORDS = 5,
};

/* The share that times are thought to be off by where it was not fitted. */
static const double UNKNOWN_ERROR = 0.35;

/* Microseconds for every byte of a result that spines read as a right operand, which many
 * multiprocessors wrote; fitted on an H200 together with its spines. */
static const double HANDED_US = 3.5e-5;

/* Microseconds that a transposed right operand takes more for every byte of an element, where sides
 * are padded to 128: it is copied element by element, across. From some 40 chains on an H200. */
static const double SPINES_TURNED_US = 1.15;

/* What bounds batches by spines. A multiprocessor multiplies so many terms a microsecond where rows
 * share factors, and all read so many bytes of factors from L2; both are reckoned from instructions
 * and bandwidths of an H200. What that leaves out grows with every doubling of the batch: of 246
 * batches on an H200 nine of ten took less than these shares more, most of them half as much. */
static const double SPINES_F32_TERMS = 9e4, SPINES_F64_TERMS = 4.5e4, SPINES_L2_BYTES = 5e6,
                    SPINES_DOUBLING = 0.18, SPINES_MORE_MOST = 0.7;
enum { SPINES_ROWS_LEAST = 2, SPINES_ROWS_MOST = 16 };

static const mmci_cuda_model *const MODELS[] = {&KIND_H200, &KIND_H100};

const mmci_cuda_model *mmci_cuda_model_of(const char *kind) {
  const size_t count = sizeof MODELS / sizeof *MODELS;
  for (size_t m = 0; m < count; m++)
    if (strncmp(kind, MODELS[m]->kind, strlen(MODELS[m]->kind)) == 0) return MODELS[m];
  return MODELS[0];
}

double mmci_cuda_model_product_error(const mmci_cuda_model *model, mmc_dtype dtype) {
  const double error = model->dtypes[dtype].product_error;
  return error > 0 ? error : UNKNOWN_ERROR;
}

double mmci_cuda_model_group_error(const mmci_cuda_model *model, mmc_dtype dtype) {
  const double error = model->dtypes[dtype].group_error;
  return error > 0 ? error : UNKNOWN_ERROR;
}

/* ---- products -------------------------------------------------------------------------------- */

static double tiles_of(double length, double side) {
  return ceil(length / side);
}

/* Returns the time by the cheapest size of tiles. */
static double tiled(const mmci_model_products *p, double m, double k, double n, double batch) {
  double least = INFINITY, side = FIRST_TILE;
  for (int t = 0; t < MMCI_MODEL_TILES; t++, side *= 2) {
    const double count = tiles_of(m, side) * tiles_of(n, side) * batch;
    least = fmin(least,
                 p->tiles[t].fixed +
                     count * (p->tiles[t].tile + p->tiles[t].term * tiles_of(k, K_STEP) * K_STEP));
  }
  return least;
}

static bool is_many(const mmci_gemm *gemm) {
  const double each = (double)gemm->m * (double)gemm->k * (double)gemm->n;
  return gemm->batch > 1 && each >= MMCI_MODEL_MANY_EACH &&
         each * (double)gemm->batch >= MMCI_MODEL_MANY;
}

static bool has_few_rows(const mmci_gemm *gemm) {
  return gemm->m <= MMCI_MODEL_FEW_ROWS && gemm->n <= MMCI_MODEL_FEW_COLS;
}

static bool is_vector(const mmci_gemm *gemm) {
  return gemm->m == 1 || gemm->n == 1;
}

static bool is_long(const mmci_gemm *gemm) {
  return (double)gemm->m * (double)gemm->k * (double)gemm->n >= MMCI_MODEL_LONG;
}

static const mmci_model_products *products_of(const mmci_model_dtype *d, const mmci_gemm *gemm,
                                              int64_t bytes) {
  const int64_t a_line = gemm->a.trans ? gemm->m : gemm->k,
                b_line = gemm->b.trans ? gemm->k : gemm->n;
  if (is_vector(gemm) && gemm->batch > 1 && d->vectors_along.launch > 0)
    return mmci_gemm_sums_lines(gemm) ? &d->vectors_along : &d->vectors_across;
  if (is_vector(gemm))
    return d->long_vector.launch > 0 && is_long(gemm) ? &d->long_vector : &d->vector;
  if (d->many.launch > 0 && is_many(gemm)) return &d->many;
  if (d->few_rows.launch > 0 && has_few_rows(gemm) && is_many(gemm)) return &d->few_rows;
  const int64_t both = a_line * bytes | b_line * bytes; /* has the low bits of either */
  if (both % WORD_BYTES == 0 && d->whole_words.launch > 0) return &d->whole_words;
  return both % PAIR_BYTES == 0 && bytes < PAIR_BYTES && d->pairs.launch > 0 ? &d->pairs
                                                                             : &d->matrix;
}

/* Returns what a product of few tiles takes at least. */
static double shared_tiles_us(const mmci_model_shared_tiles *x, const mmci_gemm *gemm,
                              int64_t bytes) {
  enum { FEW_ROWS = 16 };
  const bool is_odd = gemm->b.trans && (gemm->k | gemm->n) * bytes % WORD_BYTES != 0;
  if (x->most == 0 || gemm->batch > 1 || gemm->a.trans || (x->odd && !is_odd) ||
      gemm->m <= FEW_ROWS || gemm->n == 1 || gemm->k == 1)
    return 0;
  const double tiles = tiles_of((double)gemm->m, x->rows) * tiles_of((double)gemm->n, x->cols);
  return tiles <= x->most ? x->alone + x->shared / tiles : 0;
}

double mmci_cuda_model_product_us(const mmci_cuda_model *model, const mmci_gemm *gemm) {
  const mmci_model_dtype *d = &model->dtypes[gemm->dtype];
  const int64_t bytes = (int64_t)mmci_cuda_element_bytes(gemm->dtype);
  const mmci_model_products *p = products_of(d, gemm, bytes);
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  const bool complex = gemm->dtype == MMC_C64 || gemm->dtype == MMC_C128;
  const double traffic = (m * k + k * n + m * n) * (double)bytes * batch / p->bytes,
               least = 2 * m * k * n * (complex ? 4 : 1) * batch / d->flops;
  double tiles = is_vector(gemm) ? p->tiles[0].fixed + batch * tiles_of(fmax(m, n), VECTOR_TILE) *
                                                           (p->tiles[0].tile + p->tiles[0].term * k)
                                 : tiled(p, m, k, n, batch);
  tiles = fmax(tiles, least);
  /* Half of 107 batches with so few terms, in f32 and whole words on an H200, took 1.25 times what
   * is counted, and nine of ten up to 1.38 times. */
  enum { FEW_TERMS = 8 };
  static const double OF_FEW_TERMS = 1.25;
  /* Products of one term have a kernel of their own where elements have 8 bytes and more: large
   * ones of 310 on an H200 read and wrote 2 to 3.5 TB/s. */
  enum { WIDE_BYTES = 8 };
  static const double ONE_TERM_US = 1.6, ONE_TERM_BYTES = 2.2e6;
  const bool is_slow =
      gemm->dtype == MMC_F32 && p == &d->whole_words && gemm->batch > 1 && gemm->k <= FEW_TERMS;
  double us = (is_slow ? OF_FEW_TERMS : 1) *
              (p->launch + p->term * k + sqrt(tiles * tiles + traffic * traffic));
  if (mmci_gemm_is_in_order(gemm)) return us; /* by algorithms that do neither of the following */
  if (gemm->k == 1 && bytes >= WIDE_BYTES)
    us = fmin(us, ONE_TERM_US + (m + n + m * n) * (double)bytes * batch / ONE_TERM_BYTES);
  return fmax(us, shared_tiles_us(&d->shared_tiles, gemm, bytes));
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns the bytes of one passage over operands and result, for all of the batch. */
static double chain_bytes(const mmci_group *chain) {
  double elements = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    if (x->left < chain->n) elements += (double)x->m * (double)x->k;
    if (x->right < chain->n) elements += (double)x->k * (double)x->n;
    if (s == chain->count - 1) elements += (double)x->m * (double)x->n;
  }
  return elements * (double)mmci_cuda_element_bytes(chain->dtype) * (double)chain->batch;
}

/* Returns how many blocks the device works on at a time. */
static double blocks_at_once(const mmci_group_limits *limits, int threads, int registers,
                             size_t shared_bytes) {
  int blocks = (int)(SM_SHARED_BYTES / (shared_bytes + BLOCK_SHARED_BYTES));
  if (blocks > SM_THREADS / threads) blocks = SM_THREADS / threads;
  if (blocks > SM_REGISTERS / (threads * registers)) blocks = SM_REGISTERS / (threads * registers);
  if (blocks > SM_BLOCKS) blocks = SM_BLOCKS;
  return (double)limits->multiprocessors * (blocks > 0 ? blocks : 1);
}

static double dot(const double *x, const double *y, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += x[i] * y[i];
  return sum;
}

/* Counts what a chain's loads take, in steps of warps: all of them, and the longest. */
static void count_loads(const mmci_general *g, size_t bytes, double *all, double *longest) {
  int wide = 0;
  uint32_t most = 0, sum = 0;
  for (int l = 0; l < g->loads; l++) {
    const uint32_t elements = g->load[l].end - g->load[l].begin;
    sum += elements;
    if (elements > most) most = elements;
    wide += g->load[l].wide;
  }
  const double per = wide == g->loads ? WORD_BYTES / fmax((double)bytes, 4) : 1;
  *all = sum / (WARP * per);
  *longest = most / (WARP * per);
}

mmci_model_counts mmci_cuda_model_general_counts(const mmci_group_limits *limits,
                                                 const mmci_group *chain, const mmci_general *g) {
  const double warps = g->threads / (double)WARP;
  double stages = 1;
  mmci_model_counts out = {
      .delay = {1, g->count},
      .busy = {warps, g->count * warps},
      .at_once = g->groups * blocks_at_once(limits, g->threads * g->groups, THREAD_REGISTERS,
                                            (size_t)g->arena_bytes * g->groups),
      .bytes = chain_bytes(chain)};
  for (int s = 0; s < g->count; s++) {
    const mmci_general_product *p = &g->products[s];
    const double rows = p->tall ? 4 : 1, rounds = ceil(p->work / (double)g->threads),
                 steps = ceil(p->k4 / (double)(1 << p->split)),
                 tiles = ceil(p->work / (double)WARP);
    out.delay[2] += rounds * rows;
    out.delay[p->tall ? 3 : 4] += rounds * steps;
    out.busy[2] += tiles * rows;
    out.busy[p->tall ? 3 : 4] += tiles * steps;
    stages += p->loads > (s > 0 ? g->products[s - 1].loads : g->loads_first);
  }
  /* The result is stored element by element. */
  const mmci_group_product *last = &chain->products[chain->count - 1];
  const double stored = (double)last->m * (double)last->n;
  out.delay[2] += stored / g->threads;
  out.busy[2] += stored / WARP;
  count_loads(g, mmci_cuda_element_bytes(chain->dtype), &out.busy[5], &out.delay[5]);
  out.delay[5] *= stages;
  return out;
}

/* A product of packs.cu takes rounds of tiles: their rows, what they read and multiply. */
mmci_model_counts mmci_cuda_model_packs_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_packs *p) {
  const int chains = WARP / p->lanes * (int)p->warps; /* chains of a block */
  const double per_warp = chains / (double)p->warps;
  const size_t bytes = mmci_cuda_element_bytes(chain->dtype),
               part_bytes = p->chain_elements * (bytes < 4 ? 4 : bytes);
  mmci_model_counts out = {
      .delay = {1, p->count},
      .at_once = (double)chains * blocks_at_once(limits, WARP * p->warps, THREAD_REGISTERS,
                                                 (size_t)chains * part_bytes),
      .bytes = chain_bytes(chain)};
  for (int s = 0; s < p->count; s++) {
    const mmci_packs_product *x = &p->products[s];
    const double tiles = (double)x->down * x->across, rounds = ceil(tiles / p->lanes),
                 height = x->height, width = x->width;
    out.delay[2] += rounds * height;
    out.delay[3] += rounds * x->k * (height + width);
    out.delay[4] += rounds * x->k * height * width;
  }
  out.delay[5] = out.bytes / ((double)bytes * (double)chain->batch * p->lanes);
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] / per_warp;
  return out;
}

/* A product of tensor.cu takes rounds of strips, and in them tiles that are read. */
mmci_model_counts mmci_cuda_model_tensor_counts(const mmci_group_limits *limits,
                                                const mmci_group *chain, const mmci_tensor *t) {
  const double warps = t->threads / (double)WARP;
  mmci_model_counts out = {
      .delay = {1, t->count},
      .busy = {warps, t->count * warps},
      .at_once = t->groups * blocks_at_once(limits, t->threads * t->groups,
                                            t->small ? THREAD_REGISTERS : TENSOR_REGISTERS,
                                            (size_t)t->arena_bytes * t->groups),
      .bytes = chain_bytes(chain)};
  for (int s = 0; s < t->count; s++) {
    const mmci_tensor_product *p = &t->products[s];
    const double rounds = ceil(p->units / warps), tiles = p->k16 * (1.0 + p->width);
    out.delay[2] += rounds;
    out.delay[3] += rounds * tiles;
    out.busy[2] += p->units;
    out.busy[3] += p->units * tiles;
  }
  for (int l = 0; l < t->loads; l++) {
    const mmci_tensor_load *load = &t->load[l];
    const double as_words = load->word == 1 ? ELEMENTS_AS_WORDS : 1;
    out.delay[4] += as_words * ceil(load->words / (double)t->threads);
    out.busy[4] += as_words * ceil(load->words / (double)WARP);
  }
  out.delay[5] = ceil(t->c_words / (double)t->threads);
  out.busy[5] = ceil(t->c_words / (double)WARP);
  return out;
}

/* A product of tiles.cu takes its terms, each by a whole square. */
mmci_model_counts mmci_cuda_model_tiles_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_tiles *e) {
  mmci_tiles_size size = {.side = 1, .threads = WARP, .together = 1};
  (void)mmci_tiles_size_of(e->size, &size);
  const double warps = size.threads / (double)WARP,
               tile = (double)size.side * size.side / size.threads;
  mmci_model_counts out = {.delay = {1, chain->count},
                           .busy = {warps, chain->count * warps},
                           .at_once = (double)size.together * limits->multiprocessors,
                           .bytes = chain_bytes(chain)};
  for (int f = 1; f < e->n; f++) {
    const double terms = ceil(e->factors[f].rows / 4.0);
    out.delay[2] += tile;
    out.delay[3] += terms * sqrt(tile);
    out.delay[4] += terms * tile;
  }
  for (int f = 0; f < e->n; f++) out.delay[5] += ceil(e->factors[f].words / (double)size.threads);
  out.delay[5] += ceil(e->c_words / (double)size.threads);
  for (int i = 2; i < 6; i++) out.busy[i] = out.delay[i] * warps;
  return out;
}

/* A product of rings.cu takes the terms of its tiles, what they read, and what they multiply; what
 * is not stored from registers is copied once more. A multiprocessor is busy as long as the
 * scheduler of most warps, in the last turn of chains as in others. */
mmci_model_counts mmci_cuda_model_rings_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_rings *e) {
  enum { SCHEDULERS = 4, WORD_MOST = 4 };
  mmci_rings_size size = {.tile = {1, 1, 1}, .word = 1};
  (void)mmci_rings_size_of(e->size, &size);
  const double at_once = (double)e->warps * limits->multiprocessors, batch = (double)chain->batch,
               turns = ceil(batch / at_once), of_scheduler = ceil(e->warps / (double)SCHEDULERS),
               busy = turns * of_scheduler * SCHEDULERS * limits->multiprocessors / batch;
  mmci_model_counts out = {.delay = {1, e->count}, .at_once = at_once, .bytes = chain_bytes(chain)};
  for (int s = 0; s < e->count; s++) {
    const mmci_rings_product *p = &e->products[s];
    const mmci_rings_tile *tile = mmci_rings_tile_of(&size, p->is_small);
    const double terms = (double)mmci_rings_tiles(tile, p->m, p->n) * p->k;
    out.delay[2] += terms;
    out.delay[3] += terms * mmci_rings_reads(&size, p);
    out.delay[4] += terms * tile->height * tile->width;
  }
  const mmci_rings_product *last = &e->products[e->count - 1];
  if (size.word < WORD_MOST) out.delay[5] = ceil(last->m * last->n / (double)(size.word * WARP));
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] * busy;
  return out;
}

/* A product of lanes.cu takes what its lanes read of a factor and multiply; beside it stands what a
 * warp loads and stores. Some multiprocessors have a warp's chains more than others. */
static mmci_model_counts by_lane_counts(const mmci_group_limits *limits, const mmci_group *chain,
                                        const mmci_sides_size *size) {
  const double bytes = (double)mmci_cuda_element_bytes(chain->dtype), side = size->side,
               area = side * side, chains = size->chains,
               fit = floor(SM_SHARED_BYTES / (size->slots * chains * area * bytes)),
               all = ceil((double)chain->batch / chains),
               most = ceil(all / limits->multiprocessors) * chains,
               warps = size->lanes / (double)WARP * most * limits->multiprocessors /
                       (double)chain->batch;
  mmci_model_counts out = {
      .delay = {1, chain->count, chain->count * area, chain->count * area * size->height,
                size->height * side, (chain->n + 1) * chains * area * bytes / 1000},
      .at_once = chains * fmin(size->units, fit) * limits->multiprocessors,
      .bytes = chain_bytes(chain)};
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] * warps;
  return out;
}

/* What a warp of strips.cu or strips_double.cu does in a product: reads of a factor by a lane,
 * tiles that are multiplied, and tiles across. */
typedef struct strip_work {
  double reads, products, across;
} strip_work;

static strip_work half_strip_work(const mmci_sides_size *size) {
  enum { TILE = 16, HALF = 8 };
  const int side = size->side, rest = side % TILE, whole = (side + HALF - 1) / TILE;
  const double groups = whole, half = rest >= 1 && rest <= HALF, strips = size->height;
  return (strip_work){.reads = (2 * groups + half) * (groups * (side % 2 == 0 ? 2 : 4) + 2 * half),
                      .products = strips * (2 * groups + half) * (groups + half / 2),
                      .across = strips * (2 * groups + half)};
}

/* Where rows of f64 begin in few banks, two lanes wait for one. */
static strip_work double_strip_work(mmc_dtype dtype, const mmci_sides_size *size) {
  enum { TILE = 8 };
  const int side = size->side, parts = mmci_dtype_is_complex(dtype) ? 2 : 1,
            tiles = (parts * side - 1) / TILE + 1;
  const bool wait = parts == 1 && (side % 2 == 1 || side % TILE == TILE / 2);
  const double square = (double)tiles * tiles;
  return (strip_work){.reads = square * (wait ? 4 : 2), .products = square, .across = tiles};
}

/* A product by strips takes what a lane reads of a factor, and what a warp multiplies; beside it
 * stands what it has of a chain's first factor and result, and what is loaded and stored. Some
 * multiprocessors have a unit more than others. */
static mmci_model_counts by_strip_counts(const mmci_group_limits *limits, const mmci_group *chain,
                                         const mmci_sides_size *size) {
  const strip_work work = mmc_dtype_size(chain->dtype) == 2 ? half_strip_work(size)
                                                            : double_strip_work(chain->dtype, size);
  const double area = (double)size->side * size->side, chains = size->chains,
               bytes = (double)mmci_cuda_element_bytes(chain->dtype), batch = (double)chain->batch,
               all = ceil(batch / chains),
               most = fmin(ceil(all / limits->multiprocessors) * chains, batch),
               warps = size->lanes / (double)WARP * most * limits->multiprocessors / batch;
  mmci_model_counts out = {
      .delay = {1, chain->count, chain->count * work.reads, chain->count * work.products,
                work.across, (chain->n + 1) * fmin(chains, batch) * area * bytes / 1000},
      .at_once = chains * size->units * limits->multiprocessors,
      .bytes = chain_bytes(chain)};
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] * warps;
  return out;
}

/* Returns the words in which a lane reads or writes so many elements, a power of two at once. */
static int words_of(int elements, int at_once) {
  int words = elements / at_once;
  for (int rest = elements % at_once; rest > 0; rest &= rest - 1) words++;
  return words;
}

/* A product of sides.cu takes what its lanes write, read and multiply, the first one also what they
 * turn; beside it stands what is loaded and stored. Some multiprocessors have a unit more than
 * others. */
static mmci_model_counts by_side_counts(const mmci_group_limits *limits, const mmci_group *chain,
                                        const mmci_sides_size *size) {
  const int word = WORD_BYTES / (int)mmci_cuda_element_bytes(chain->dtype),
            down = words_of(size->height, word), across = words_of(size->width, size->piece);
  const double k = size->side, area = k * k, chains = size->chains,
               bytes = (double)mmci_cuda_element_bytes(chain->dtype), batch = (double)chain->batch,
               parts = mmci_dtype_is_complex(chain->dtype) ? 4 : 1, all = ceil(batch / chains),
               most = fmin(ceil(all / limits->multiprocessors) * chains, batch),
               warps = size->lanes / (double)WARP * most * limits->multiprocessors / batch,
               turned = k * ceil(k / word) * (1 + word) / size->lanes;
  mmci_model_counts out = {
      .delay = {1, chain->count, turned + chain->count * (double)(size->width * down),
                chain->count * k * (down + across),
                chain->count * k * size->height * size->width * parts,
                (chain->n + 1) * fmin(chains, batch) * area * bytes / 1000},
      .at_once = chains * size->units * limits->multiprocessors,
      .bytes = chain_bytes(chain)};
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] * warps;
  return out;
}

mmci_model_counts mmci_cuda_model_sides_counts(const mmci_group_limits *limits,
                                               const mmci_group *chain, const mmci_sides *e) {
  mmci_sides_size size = {
      .height = 1, .width = 1, .piece = 1, .lanes = WARP, .units = 1, .chains = 1};
  (void)mmci_sides_size_of(chain->dtype, e->size, &size);
  return size.way == MMCI_BY_LANE    ? by_lane_counts(limits, chain, &size)
         : size.way == MMCI_BY_STRIP ? by_strip_counts(limits, chain, &size)
                                     : by_side_counts(limits, chain, &size);
}

/* A matrix of vector_chains.cu takes its chunks, what a thread reads and multiplies of it, and what
 * threads add up of each other's sums. */
mmci_model_counts mmci_cuda_model_vectors_counts(const mmci_group_limits *limits,
                                                 const mmci_group *chain,
                                                 const mmci_vector_chain *x) {
  const uint32_t threads = (uint32_t)x->team * WARP;
  const int teams = MMCI_VECTOR_WARPS / x->team;
  mmci_model_counts out = {
      .delay = {1, x->count},
      .at_once = (double)(mmci_vector_chain_blocks(limits, chain->dtype, x) * teams) *
                 limits->multiprocessors,
      .bytes = chain_bytes(chain)};
  for (int s = 0; s < x->count; s++) {
    const mmci_vector_step *step = &x->steps[s];
    const uint32_t words = step->length / x->word;
    double reads, folds = 0;
    if (step->along) {
      const double lanes = mmci_vector_lanes(words, step->lines, threads),
                   turns = ceil(step->lines / (threads / lanes));
      reads = turns * ceil(words / lanes);
      folds = turns * log2(lanes);
    } else {
      uint32_t shares;
      const double rounds = mmci_vector_rounds(words, step->lines, threads, &shares);
      reads = ceil(step->lines / (double)shares) * rounds;
      if (shares > 1) folds = shares * ceil(step->length / (double)threads);
    }
    out.delay[2] += tiles_of(step->lines, step->each);
    out.delay[3] += reads;
    out.delay[4] += reads * x->word;
    out.delay[5] += folds;
  }
  for (int i = 0; i < 6; i++) out.busy[i] = out.delay[i] * x->team;
  return out;
}

/* Returns the time of so many chains by the constants of their kernel, which has none where nothing
 * was measured. */
static double counted_us(const mmci_model_general *f, const mmci_model_counts *c,
                         const mmci_group_limits *limits, double batch) {
  const double one = dot(c->delay, f->delay, 6), waves = ceil(batch / c->at_once);
  if (!(f->bytes > 0)) return (double)NAN;
  double rest =
      fmax(dot(c->busy, f->busy, 6) * batch / limits->multiprocessors, c->bytes / f->bytes);
  rest = fmax(rest, (waves - 1) * one * f->more_waves);
  return f->launch + cbrt(one * one * one + rest * rest * rest);
}

double mmci_cuda_model_vectors_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                  const mmci_group *chain, const mmci_vector_chain *vectors) {
  const mmci_model_counts c = mmci_cuda_model_vectors_counts(limits, chain, vectors);
  return counted_us(&model->dtypes[chain->dtype].by_vector, &c, limits, (double)chain->batch);
}

static int64_t longest_side(const mmci_group *chain) {
  int64_t most = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const int64_t sides[] = {x->m, x->k, x->n};
    for (int t = 0; t < 3; t++)
      if (sides[t] > most) most = sides[t];
  }
  return most;
}

static bool has_sides_of(const mmci_group *chain, int64_t least) {
  bool has = true;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    has = has && x->m >= least && x->k >= least && x->n >= least;
  }
  return has;
}

double mmci_cuda_model_general_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                  const mmci_group *chain, const mmci_general *g) {
  /* One product is little else than loads and stores: of 33,000 batches on an H200 eight went to
   * this kernel, and took 2.0 to 3.0 times what was counted without what is stored. */
  static const double OF_ONE = 1.5;
  /* A chain alone has the device to itself: 2070 of them took 0.85 to 0.93 times what is counted.
   */
  static const double ALONE = 0.9;
  /* Chains in c128 took 2.1 to 2.4 times that where all sides were 16, and 2.5 times where all but
   * the last were 32: ten and three of them on an H200, of which cuBLAS's products took 0.7 to 0.9.
   * Of 90 others products took at least 0.87. */
  static const double MORE_IN_C128 = 2.4;
  enum { SMALL = 16 };
  const mmci_model_counts c = mmci_cuda_model_general_counts(limits, chain, g);
  const bool is_more = chain->dtype == MMC_C128 && chain->batch <= 1 && chain->count > 1 &&
                       (longest_side(chain) > SMALL || has_sides_of(chain, SMALL));
  return (chain->count == 1 ? OF_ONE : 1) * (chain->batch <= 1 ? ALONE : 1) *
         (is_more ? MORE_IN_C128 : 1) *
         counted_us(&model->dtypes[chain->dtype].general, &c, limits, (double)chain->batch);
}

double mmci_cuda_model_packs_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_packs *packs) {
  const mmci_model_counts c = mmci_cuda_model_packs_counts(limits, chain, packs);
  return counted_us(&model->dtypes[chain->dtype].packs, &c, limits, (double)chain->batch);
}

double mmci_cuda_model_tiles_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_tiles *tiles) {
  const mmci_model_counts c = mmci_cuda_model_tiles_counts(limits, chain, tiles);
  return counted_us(&model->dtypes[chain->dtype].tiled, &c, limits, (double)chain->batch);
}

/* Returns the bytes of the largest factor that all chains of a batch share; 0 where there is none,
 * or nobody knows where factors lie. */
static double common_bytes(const mmci_group *chain) {
  if (chain->batch <= 1 || chain->c_stride == 0) return 0;
  double most = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const int32_t of[] = {x->left, x->right};
    const double elements[] = {(double)x->m * (double)x->k, (double)x->k * (double)x->n};
    for (int o = 0; o < 2; o++)
      if (of[o] < chain->n && chain->forms[of[o]].stride == 0 && !chain->forms[of[o]].gathered)
        most = fmax(most, elements[o]);
  }
  return most * (double)mmci_cuda_element_bytes(chain->dtype);
}

/* Microseconds between two copies of a matrix that bulk copies bring again for every chain, from
 * few parts of L2: so many for every byte of a small one, and of a larger one some, and some for
 * every byte. Of 96 batches on an H200 where that is more than all else, nine in ten took 0.64 to
 * 1.65 of it. */
typedef struct common_copies {
  double small_byte, some, byte;
} common_copies;
static const common_copies COPIES_OF_RINGS = {1 / 110e3, 3e-3, 1 / 950e3},
                           COPIES_OF_SIDES = {1 / 300e3, 2e-3, 1 / 1400e3};

static double common_us(const mmci_group *chain, const common_copies *copies, double chains) {
  const double bytes = common_bytes(chain);
  return fmin(copies->small_byte * bytes, copies->some + copies->byte * bytes) *
         ceil((double)chain->batch / chains);
}

double mmci_cuda_model_rings_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_rings *rings) {
  const mmci_model_counts c = mmci_cuda_model_rings_counts(limits, chain, rings);
  return fmax(counted_us(&model->dtypes[chain->dtype].rings, &c, limits, (double)chain->batch),
              common_us(chain, &COPIES_OF_RINGS, 1));
}

bool mmci_cuda_model_plan_rings(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, int word, mmci_rings *out) {
  double least = (double)NAN;
  bool found = false;
  mmci_rings_size size;
  for (int i = 0; mmci_rings_size_of(i, &size); i++) {
    mmci_rings rings;
    if (!mmci_rings_plan(limits, chain, word, i, &rings)) continue;
    const double us = mmci_cuda_model_rings_us(model, limits, chain, &rings);
    if (found && !(us < least)) continue;
    found = true;
    least = us;
    *out = rings;
  }
  return found;
}

const mmci_model_general *mmci_cuda_model_sides(const mmci_cuda_model *model,
                                                const mmci_sides *sides) {
  const mmci_model_dtype *d = &model->dtypes[sides->dtype];
  mmci_sides_size size;
  if (!mmci_sides_size_of(sides->dtype, sides->size, &size) || size.way == MMCI_BY_LANE)
    return &d->by_lane;
  if (size.way == MMCI_BY_STRIP) return &d->by_strip;
  return &d->sides;
}

double mmci_cuda_model_sides_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                const mmci_group *chain, const mmci_sides *sides) {
  const mmci_model_counts c = mmci_cuda_model_sides_counts(limits, chain, sides);
  mmci_sides_size size = {.chains = 1};
  (void)mmci_sides_size_of(sides->dtype, sides->size, &size);
  /* By side each chain of a unit has a copy of its own. */
  const double chains = size.way == MMCI_BY_SIDE ? 1 : size.chains;
  return fmax(counted_us(mmci_cuda_model_sides(model, sides), &c, limits, (double)chain->batch),
              common_us(chain, &COPIES_OF_SIDES, chains));
}

/* A tile of panels.cu does what one of sides.cu does. */
mmci_model_counts mmci_cuda_model_panels_counts(const mmci_group_limits *limits,
                                                const mmci_group *chain,
                                                const mmci_panels *panels) {
  enum { WORD = 4 };
  mmci_panels_size tile = {1, 1, 1};
  (void)mmci_panels_size_of(panels->size, &tile);
  const mmci_sides_size size = {.side = panels->side,
                                .height = tile.tile,
                                .width = tile.tile,
                                .piece = panels->side % WORD == 0 ? WORD : 1,
                                .lanes = tile.down * tile.down,
                                .units = tile.units,
                                .chains = 1};
  return by_side_counts(limits, chain, &size);
}

double mmci_cuda_model_panels_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, const mmci_panels *panels) {
  const mmci_model_counts c = mmci_cuda_model_panels_counts(limits, chain, panels);
  return fmax(counted_us(&model->dtypes[chain->dtype].panels, &c, limits, (double)chain->batch),
              common_us(chain, &COPIES_OF_SIDES, 1));
}

bool mmci_cuda_model_plan_panels(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, mmci_panels *out) {
  double least = (double)NAN;
  bool found = false;
  mmci_panels panels;
  mmci_panels_size size;
  for (int i = 0; mmci_panels_size_of(i, &size); i++) {
    if (!mmci_panels_plan(limits, chain, i, &panels)) continue;
    const double us = mmci_cuda_model_panels_us(model, limits, chain, &panels);
    if (found && !(us < least)) continue;
    found = true;
    least = us;
    *out = panels;
  }
  return found;
}

double mmci_cuda_model_tensor_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, const mmci_tensor *tensor) {
  /* Of one chain each product waits for all warps: 72 chains of three and four 18 x 18 to 64 x 64
   * on an H200 took 1.05 times what is counted by four warps, 1.2 by nine and 1.4 by sixteen, where
   * cuBLAS's products took 1.1 times that. */
  static const double OF_A_WARP = 0.02;
  const mmci_model_counts c = mmci_cuda_model_tensor_counts(limits, chain, tensor);
  const double warps = tensor->threads / (double)WARP;
  return (chain->batch == 1 ? 1 + OF_A_WARP * warps : 1) *
         counted_us(&model->dtypes[chain->dtype].tensor, &c, limits, (double)chain->batch);
}

/* The warps of a round wait for the slowest. */
void mmci_cuda_model_single_counts(const mmci_group *chain, const mmci_single *single,
                                   double counts[5]) {
  const double per = WORD_BYTES / (double)mmci_cuda_element_bytes(chain->dtype);
  bool wide = true;
  counts[0] = 1;
  counts[1] = single->rounds;
  counts[2] = counts[3] = counts[4] = 0;
  for (int l = 0; l < MMCI_SINGLE_WARPS; l++) {
    counts[4] = fmax(counts[4], single->loads[l].end - single->loads[l].begin);
    wide = wide && single->loads[l].wide;
  }
  counts[4] /= WARP * (wide ? per : 1);
  for (int r = 0; r < single->rounds; r++) {
    double steps = 0, rows = 0;
    for (int w = 0; w < MMCI_SINGLE_WARPS; w++) {
      const mmci_single_product *p = &single->products[single->turns[r][w]];
      const int rounds = (p->work + p->threads - 1) / p->threads;
      steps = fmax(steps, rounds * ((p->k4 + (1 << p->split) - 1) >> p->split));
      rows = fmax(rows, rounds);
    }
    counts[2] += steps;
    counts[3] += rows;
  }
}

double mmci_cuda_model_single_us(const mmci_cuda_model *model, const mmci_group *chain,
                                 const mmci_single *single) {
  double counts[5];
  mmci_cuda_model_single_counts(chain, single, counts);
  const double one = dot(counts, model->dtypes[chain->dtype].single, 5);
  if (chain->batch == 1) return one;
  /* Every chain has a multiprocessor of its own; what the others read is in its way. */
  const double others = (double)(chain->batch - 1) / (double)chain->batch;
  return one + others * chain_bytes(chain) / model->dtypes[chain->dtype].general.bytes;
}

double mmci_cuda_model_squares_us(const mmci_cuda_model *model, const mmci_group *chain) {
  const mmci_model_squares *f = &model->dtypes[chain->dtype].squares;
  const double side = (double)chain->products[0].m, count = chain->count,
               traffic = chain_bytes(chain) / f->bytes,
               work = 2 * side * side * side * count * (double)chain->batch / f->flops;
  return f->launch + count * (f->product + f->element * side * side) +
         sqrt(traffic * traffic + work * work);
}

/* Returns the side that all matrices of the chain have, or the longest of any. */
static int64_t side_of(const mmci_group *chain, bool *all, bool *whole) {
  const int64_t per_word = WORD_BYTES / (int64_t)mmci_cuda_element_bytes(chain->dtype),
                most = longest_side(chain);
  *whole = *all = true;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const int64_t sides[] = {x->m, x->k, x->n};
    for (int t = 0; t < 3; t++) {
      *whole = *whole && sides[t] % per_word == 0;
      *all = *all && sides[t] == most;
    }
  }
  return most;
}

/* How a batch shares the device: rows of a piece, pieces of a whole product that run at a time, and
 * how often pieces take turns. One chain alone has pieces of rows_alone rows. */
typedef struct shares {
  double rows, rows_alone, at_once, turns;
} shares;

/* Returns the rows of a piece as spines.c cuts so many products that run side by side. */
static double rows_of(double m, double width, double multiprocessors) {
  double rows = SPINES_ROWS_LEAST;
  while (tiles_of(m, rows) * width > multiprocessors && rows < SPINES_ROWS_MOST) rows *= 2;
  const double even = ceil(m * width / multiprocessors);
  return fmin(m, even * 2 > rows * 3 ? even : rows);
}

/* Returns the shares of a batch of chains, in each of which so many products run side by side. */
static shares shares_of(const mmci_group *chain, double width, double multiprocessors) {
  double m = 1;
  for (int32_t s = 0; s < chain->count; s++) m = fmax(m, (double)chain->products[s].m);
  const double all = width * (double)chain->batch;
  shares x = {.rows = rows_of(m, all, multiprocessors),
              .rows_alone = rows_of(m, width, multiprocessors)};
  const double pieces = tiles_of(m, x.rows) * all;
  x.at_once = fmin(pieces, multiprocessors);
  x.turns = fmax(1, ceil(pieces / multiprocessors - 1e-9));
  return x;
}

/* Returns how many terms a multiprocessor multiplies a microsecond. */
static double terms_of(const mmci_group *chain) {
  return chain->dtype == MMC_F64 ? SPINES_F64_TERMS : SPINES_F32_TERMS;
}

/* Returns what a product takes in a batch, where one chain's takes mine. */
static double product_in_batch(const mmci_group *chain, const mmci_group_product *x,
                               const shares *by, double mine) {
  const double elements = (double)x->k * (double)x->n, m = (double)x->m,
               more_rows = fmax(0, fmin(m, by->rows) - fmin(m, by->rows_alone));
  return fmax(mine + more_rows * elements / terms_of(chain),
              by->at_once * elements * (double)mmc_dtype_size(chain->dtype) / SPINES_L2_BYTES);
}

/* Follows the products; by is NULL for one chain. Returns the longest path, and in *work the sum of
 * all products. */
static double path_of_spines(const double *f, const mmci_group *chain, const shares *by,
                             double *done, double *work) {
  bool all, whole;
  const int64_t most = side_of(chain, &all, &whole), side = most <= 32 ? 32 : most <= 64 ? 64 : 128;
  const double product = all && most == side && side < 128 ? f[3] : whole ? f[2] : f[5];
  *work = 0;
  for (int32_t i = 0; i < chain->n; i++) done[i] = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    const double elements = (double)x->k * (double)x->n,
                 hand_over = f[1] + HANDED_US * elements * (double)mmc_dtype_size(chain->dtype),
                 right = done[x->right] + (x->right >= chain->n ? hand_over : 0);
    double mine = product * (double)side / 32 + f[4] * (double)x->k / 32 + f[6] * elements * 1e-3;
    if (x->right < chain->n && chain->forms[x->right].trans)
      mine += SPINES_TURNED_US * (double)mmc_dtype_size(chain->dtype) * pow((double)side / 128, 3);
    if (by != NULL) mine = product_in_batch(chain, x, by, mine);
    done[chain->n + s] = fmax(done[x->left], right) + mine;
    *work += mine;
  }
  return done[chain->n + chain->count - 1];
}

double mmci_cuda_model_spines_us(const mmci_cuda_model *model, const mmci_group_limits *limits,
                                 const mmci_group *chain, double *done) {
  const double *f = model->dtypes[chain->dtype].spines;
  double work, path = path_of_spines(f, chain, NULL, done, &work);
  const double one = f[0] + fmax(path, work / limits->multiprocessors);
  if (chain->batch == 1) return one;
  const double width = path > 0 ? fmax(1, work / path) : 1;
  const shares by = shares_of(chain, width, limits->multiprocessors);
  path = path_of_spines(f, chain, &by, done, &work);
  double terms = 0;
  for (int32_t s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    terms += (double)x->m * (double)x->k * (double)x->n;
  }
  const double busy = terms * (double)chain->batch / limits->multiprocessors / terms_of(chain);
  const double more = fmin(SPINES_DOUBLING * log2((double)chain->batch), SPINES_MORE_MOST);
  return fmin((f[0] + fmax(by.turns * path, busy)) * (1 + more), (double)chain->batch * one);
}
