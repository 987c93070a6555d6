/* bench_facts.c: what a GPU takes for products and groups of small chains, for bench/fit_facts.py.
 *
 *     bench_facts SECONDS SEED [forms | vectors | squares]
 *
 * Chains drawn by the seed are measured on cuda:0 for about so many seconds. The first line of
 * output says what was measured: {"kind", "blas", "multiprocessors", "seed"}. Every other line is a
 * chain: its products one by one ("products", and "by" which kernel), batches by cuBLAS, and every
 * kernel that takes it as a group ("groups"), in seconds, with what the formulas of
 * device/cuda/model.h count of it. A time is the least of three runs of at least 0.6 ms or 30 graph
 * launches, between two events. Operands are small numbers from a pattern, without gaps.
 *
 * With `forms`, some factors of every chain are transposed, or one matrix for all chains, and what
 * the device predicts stands beside each time: of formulas that were fitted to factors without
 * either, and what cuBLAS takes for those products that are vectors. With `vectors`, the product is
 * a row or a column from the first factor on, by some matrices that are transposed. With `squares`,
 * factors are larger squares in f32. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/monotonic.h"
#include "base/random.h"
#include "device/cuda/model.h"
#include "inside.h"

enum {
  FACTORS = 20,
  MATRICES = 2 * FACTORS,
  VARIANTS = 12,
  RUNS = 3,
  ALIGNMENT = 256,
  LARGE = 8192
};
static const size_t MEMORY_BYTES = (size_t)12 << 30, PATTERN_BYTES = (size_t)64 << 20;
static const double RUN_S = 6e-4, LONG_S = 5e-4, ELEMENTS_MOST = 1.5e8, MULTIPLICATIONS_MOST = 5e10;

/* What is drawn. */
typedef enum mode { PLAIN, FORMS, VECTORS, SQUARES } mode;

static mmc_context *context;
static mmci_opened on;
static const mmci_device_ops *ops;
static const mmci_device_async *async;
static mmci_queue *queue;
static mmci_event *begin, *end;
static mmci_group_limits limits;
static const mmci_cuda_model *model;
static char *memory;
static uint64_t random_state;

/* ---- random numbers -------------------------------------------------------------------------- */

static double uniform(void) {
  return (double)(mmci_random_bits(&random_state) >> 11) * 0x1p-53;
}

static int64_t pick(const int *list, int count) {
  return list[(int)(uniform() * count)];
}

#define PICK(...) \
  pick((const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

/* ---- device ---------------------------------------------------------------------------------- */

static void open_device(void) {
  mmci_error error = {0};
  mmci_registry *registry;
  struct cudaDeviceProp properties;
  check(mmci_registry_create(NULL, &registry, &error), &error);
  check(mmci_registry_open(registry, "cuda:0", &on, &error), &error);
  ops = on.ops;
  async = ops->async;
  check(ops->queue_open(on.device, &queue, &error), &error);
  check(ops->alloc(on.device, MEMORY_BYTES, (void **)&memory, &error), &error);
  check(async->timer_create(on.device, &begin, &error), &error);
  check(async->timer_create(on.device, &end, &error), &error);
  check(mmc_context_create(NULL, &context),
        &(mmci_error){.status = MMC_E_NOMEM, .text = "no memory for a context"});
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
    check(MMC_E_DEVICE,
          &(mmci_error){.status = MMC_E_DEVICE, .text = "cudaGetDeviceProperties failed"});
  limits = mmci_group_limits_of(properties.multiProcessorCount, properties.sharedMemPerBlockOptin,
                                properties.major);
  model = mmci_cuda_model_of(properties.name);
}

static void put_number(mmc_dtype dtype, double value, void *pattern, size_t index) {
  const bool real4 = dtype == MMC_F32 || dtype == MMC_C64;
  if (dtype == MMC_F16)
    ((uint16_t *)pattern)[index] = mmci_f16_round(value);
  else if (dtype == MMC_BF16)
    ((uint16_t *)pattern)[index] = mmci_bf16_round(value);
  else if (real4)
    ((float *)pattern)[index] = (float)value;
  else
    ((double *)pattern)[index] = value;
}

static void fill_memory(mmc_dtype dtype) {
  const bool complex = dtype == MMC_C64 || dtype == MMC_C128;
  const size_t size = mmc_dtype_size(dtype) / (complex ? 2 : 1);
  mmci_error error = {.status = MMC_E_NOMEM, .text = "no memory for operands"};
  void *pattern = malloc(PATTERN_BYTES);
  if (pattern == NULL) check(MMC_E_NOMEM, &error);
  for (size_t i = 0; i < PATTERN_BYTES / size; i++)
    put_number(dtype, 0.2 * (uniform() + uniform() + uniform() - 1.5), pattern, i);
  for (size_t at = 0; at < MEMORY_BYTES; at += PATTERN_BYTES) {
    const int64_t bytes = (int64_t)PATTERN_BYTES;
    const mmci_transfer transfer = {memory + at, pattern, bytes, bytes, 1, bytes};
    check(async->upload(queue, &transfer, &error), &error);
  }
  check(ops->sync(queue, &error), &error);
  free(pattern);
}

/* ---- a time ---------------------------------------------------------------------------------- */

/* A product, or a group where group is not NULL. */
typedef struct call {
  const mmci_kernel *product;
  const void *a, *b;
  const mmci_group_kernel *group;
  const void *const *operands;
  void *c;
} call;

static void enqueue(const call *c) {
  mmci_error error = {0};
  check(c->group != NULL ? ops->group_enqueue(queue, c->group, c->operands, c->c, &error)
                         : ops->enqueue(queue, c->product, c->a, c->b, c->c, &error),
        &error);
}

static double seconds_of_graph(mmci_graph *graph, int launches) {
  mmci_error error = {0};
  double seconds;
  check(async->event_record(queue, begin, &error), &error);
  for (int l = 0; l < launches; l++) check(async->graph_launch(queue, graph, &error), &error);
  check(async->event_record(queue, end, &error), &error);
  check(ops->sync(queue, &error), &error);
  check(async->seconds_between(begin, end, &seconds, &error), &error);
  return seconds / launches;
}

static mmci_graph *graph_of(const call *one, int calls) {
  mmci_error error = {0};
  mmci_graph *graph;
  check(async->capture_begin(queue, &error), &error);
  for (int c = 0; c < calls; c++) enqueue(one);
  check(async->capture_end(queue, &graph, &error), &error);
  return graph;
}

/* Returns whether a call takes long enough that a graph need hold only one. */
static bool is_long(const call *one) {
  mmci_error error = {0};
  double start = 0;
  for (int r = 0; r < 2; r++) {
    start = mmci_now_s();
    enqueue(one);
    check(ops->sync(queue, &error), &error);
  }
  return mmci_now_s() - start > LONG_S;
}

static double seconds_of(const call *one) {
  const int calls = is_long(one) ? 1 : 8;
  mmci_graph *graph = graph_of(one, calls);
  const double first = seconds_of_graph(graph, 2);
  const int launches = (int)fmax(1, fmin(30, RUN_S / first));
  double least = INFINITY;
  for (int r = 0; r < RUNS; r++) least = fmin(least, seconds_of_graph(graph, launches));
  async->graph_destroy(graph);
  return least / calls;
}

/* ---- a chain --------------------------------------------------------------------------------- */

typedef struct chain {
  mmc_dtype dtype;
  int64_t batch, dims[FACTORS + 1];
  int32_t n, count;
  bool has_forms, trans[FACTORS], shared[FACTORS];
  mmci_form forms[FACTORS];
  mmci_group_product products[FACTORS];
  const void *at[MATRICES]; /* operands and results */
} chain;

static size_t aligned_bytes(const chain *c, int64_t elements) {
  const size_t bytes = (size_t)(elements * c->batch) * mmc_dtype_size(c->dtype);
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Returns whether the chain fits the memory. */
static bool place_chain(chain *c) {
  size_t at = 0;
  for (int32_t x = 0; x < c->n + c->count; x++) {
    const mmci_group_product *p = x < c->n ? NULL : &c->products[x - c->n];
    c->at[x] = memory + at;
    at += aligned_bytes(c, p != NULL ? p->m * p->n : c->dims[x] * c->dims[x + 1]);
  }
  return at <= MEMORY_BYTES;
}

static void order_chain(chain *c, const char *solver) {
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  mmc_chain *dims;
  mmc_plan *plan;
  mmc_step step;
  mmci_error error = {.status = MMC_E_NOMEM, .text = "no plan of a chain"};
  options.solver = solver;
  check(mmc_chain_create(context, c->dtype, c->n, c->dims, NULL, &dims), &error);
  check(mmc_plan_create(context, dims, &options, &plan), &error);
  for (c->count = 0; mmc_plan_step(plan, c->count, &step) == MMC_OK; c->count++)
    c->products[c->count] =
        (mmci_group_product){step.m, step.k, step.n, (int32_t)step.left, (int32_t)step.right};
  mmc_plan_destroy(plan);
  mmc_chain_destroy(dims);
}

static void print_counts(const char *name, const double *counts, int count) {
  printf(", \"%s\": [", name);
  for (int i = 0; i < count; i++) printf("%s%.6g", i > 0 ? ", " : "", counts[i]);
  printf("]");
}

static void print_chain(const chain *c) {
  printf("{\"dtype\": \"%s\", \"batch\": %" PRId64 ", \"dims\": [", mmc_dtype_name(c->dtype),
         c->batch);
  for (int32_t i = 0; i <= c->n; i++) printf("%s%" PRId64, i > 0 ? ", " : "", c->dims[i]);
  printf("], \"steps\": [");
  for (int32_t s = 0; s < c->count; s++) {
    const mmci_group_product *p = &c->products[s];
    printf("%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId32 ", %" PRId32 "]", s > 0 ? ", " : "",
           p->m, p->k, p->n, p->left, p->right);
  }
  printf("]");
  if (!c->has_forms) return;
  printf(", \"forms\": \"");
  for (int32_t i = 0; i < c->n; i++)
    printf("%c", "nstx"[c->shared[i] + 2 * c->trans[i]]); /* x: shared and transposed */
  printf("\"");
}

static mmci_form form_of(const chain *c, int32_t factor) {
  const int64_t rows = c->dims[factor], cols = c->dims[factor + 1];
  return (mmci_form){.ld = c->trans[factor] ? rows : cols,
                     .stride = c->batch > 1 && !c->shared[factor] ? rows * cols : 0,
                     .trans = c->trans[factor]};
}

/* Returns a product of the chain. In faithful arithmetic small batches are left to cuBLAS. */
static mmci_gemm product_of(const chain *c, int32_t s, bool by_cublas) {
  const mmci_group_product *p = &c->products[s];
  const mmci_precision precision = c->batch > 1 && by_cublas ? MMCI_FAITHFUL : MMCI_NATIVE;
  mmci_gemm gemm = mmci_gemm_tight(c->dtype, precision, p->m, p->k, p->n, MMC_OP_N, MMC_OP_N);
  if (c->batch > 1) mmci_gemm_spread(&gemm, c->batch);
  if (p->left < c->n) gemm.a = form_of(c, p->left);
  if (p->right < c->n) gemm.b = form_of(c, p->right);
  return gemm;
}

static double product_seconds(const chain *c, int32_t s, const mmci_gemm *given) {
  const mmci_group_product *p = &c->products[s];
  const mmci_gemm gemm = *given;
  mmci_error error = {0};
  mmci_kernel *kernel;
  check(ops->prepare(on.device, &gemm, &kernel, &error), &error);
  const double seconds = seconds_of(&(call){
      .product = kernel, .a = c->at[p->left], .b = c->at[p->right], .c = (void *)c->at[c->n + s]});
  ops->release(kernel);
  return seconds;
}

/* Prints what cuBLAS takes for the products that are vectors. */
static void measure_by_cublas(const chain *c) {
  printf(", \"by_cublas\": [");
  for (int32_t s = 0; s < c->count; s++) {
    const mmci_gemm gemm = product_of(c, s, true);
    const bool is_vector = gemm.m == 1 || gemm.n == 1;
    if (s > 0) printf(", ");
    if (is_vector && strncmp(ops->kernel_name(on.device, &gemm), "cublas", 6) == 0)
      printf("%.4g", product_seconds(c, s, &gemm));
    else
      printf("null");
  }
  printf("]");
}

static void measure_products(const chain *c) {
  printf(", \"products\": [");
  for (int32_t s = 0; s < c->count; s++) {
    const mmci_gemm gemm = product_of(c, s, !c->has_forms);
    printf("%s%.4g", s > 0 ? ", " : "", product_seconds(c, s, &gemm));
  }
  printf("], \"by\": [");
  for (int32_t s = 0; s < c->count; s++) {
    const mmci_gemm gemm = product_of(c, s, !c->has_forms);
    printf("%s\"%s\"", s > 0 ? ", " : "", ops->kernel_name(on.device, &gemm));
  }
  printf("]");
  if (!c->has_forms) return;
  mmci_facts facts;
  ops->facts(on.device, c->dtype, MMCI_NATIVE, &facts);
  printf(", \"products_predicted\": [");
  for (int32_t s = 0; s < c->count; s++) {
    const mmci_gemm gemm = product_of(c, s, false);
    printf("%s%.4g", s > 0 ? ", " : "", facts.model.seconds(facts.model.user, &gemm));
  }
  printf("]");
  measure_by_cublas(c);
}

static void print_model_counts(const mmci_model_counts *c) {
  print_counts("delay", c->delay, 6);
  print_counts("busy", c->busy, 6);
  printf(", \"at_once\": %.6g, \"bytes\": %.6g", c->at_once, c->bytes);
}

static void print_group_counts(const mmci_group *group, const char *kernel) {
  mmci_general general;
  mmci_packs packs;
  mmci_tensor tensor;
  mmci_tiles tiles;
  mmci_rings rings;
  mmci_sides sides;
  mmci_panels panels;
  mmci_single single;
  mmci_vector_chain vectors;
  mmci_model_counts c;
  double counts[5];
  if (strcmp(kernel, "chain in steps") == 0 && mmci_general_plan(&limits, group, &general)) {
    c = mmci_cuda_model_general_counts(&limits, group, &general);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain in packs") == 0 && mmci_packs_plan(&limits, group, &packs)) {
    c = mmci_cuda_model_packs_counts(&limits, group, &packs);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain in tiles") == 0 && mmci_tiles_plan(group, &tiles)) {
    c = mmci_cuda_model_tiles_counts(&limits, group, &tiles);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain in rings") == 0 &&
             mmci_cuda_model_plan_rings(model, &limits, group, 4, &rings)) {
    c = mmci_cuda_model_rings_counts(&limits, group, &rings);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain by tensor cores") == 0 &&
             mmci_tensor_plan(&limits, group, &tensor)) {
    c = mmci_cuda_model_tensor_counts(&limits, group, &tensor);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain by panels") == 0 &&
             mmci_cuda_model_plan_panels(model, &limits, group, &panels)) {
    c = mmci_cuda_model_panels_counts(&limits, group, &panels);
    print_model_counts(&c);
  } else if (strncmp(kernel, "chain by ", strlen("chain by ")) == 0 &&
             mmci_sides_plan(&limits, group, &sides)) { /* a side, a lane, a strip */
    c = mmci_cuda_model_sides_counts(&limits, group, &sides);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain of vectors") == 0 &&
             mmci_vector_chain_plan(&limits, group, &vectors)) {
    c = mmci_cuda_model_vectors_counts(&limits, group, &vectors);
    print_model_counts(&c);
  } else if (strcmp(kernel, "chain alone") == 0 && group->batch == 1 &&
             mmci_single_plan(&limits, group, &single)) {
    mmci_cuda_model_single_counts(group, &single, counts);
    print_counts("counts", counts, 5);
  }
}

/* Kernels of pairs, which have no limit of their sides, are priced by their products. */
static bool is_modelled(const char *kernel) {
  return strncmp(kernel, "chain", strlen("chain")) == 0;
}

static void measure_group(const chain *c, const mmci_group *group, const char *between) {
  const char *kernel = ops->group_name(on.device, group);
  mmci_error error = {0};
  mmci_group_kernel *prepared;
  check(ops->group_prepare(on.device, group, &prepared, &error), &error);
  const double seconds = seconds_of(
      &(call){.group = prepared, .operands = c->at, .c = (void *)c->at[c->n + c->count - 1]});
  printf("%s{\"kernel\": \"%s\", \"variant\": %d, \"seconds\": %.4g", between, kernel,
         group->variant, seconds);
  print_group_counts(group, kernel);
  double off;
  if (c->has_forms) printf(", \"predicted\": %.4g", ops->group_seconds(on.device, group, &off));
  printf("}");
  ops->group_release(prepared);
}

static void measure_groups(chain *c) {
  const int64_t last = c->dims[c->n];
  const char *between = "";
  for (int32_t i = 0; i < c->n; i++) c->forms[i] = form_of(c, i);
  printf(", \"groups\": [");
  for (int v = 0; v < VARIANTS; v++) {
    const mmci_group group = {.dtype = c->dtype,
                              .precision = MMCI_NATIVE,
                              .batch = c->batch,
                              .n = c->n,
                              .count = c->count,
                              .forms = c->forms,
                              .products = c->products,
                              .ldc = last,
                              .c_stride = c->batch > 1 ? c->dims[0] * last : 0,
                              .variant = v};
    if (!ops->group_supports(on.device, &group) || !is_modelled(ops->group_name(on.device, &group)))
      continue;
    measure_group(c, &group, between);
    between = ", ";
  }
  printf("]");
}

/* Adds the products of factors first to last - 1, each half of them first, and returns the number
 * of their result. */
static int32_t balance(chain *c, int32_t first, int32_t last) {
  if (last - first == 1) return first;
  const int32_t middle = first + (last - first) / 2, left = balance(c, first, middle),
                right = balance(c, middle, last);
  c->products[c->count] =
      (mmci_group_product){c->dims[first], c->dims[middle], c->dims[last], left, right};
  return c->n + c->count++;
}

/* Measures the chain in the order of a solver, or where that is NULL in a balanced one. */
static void measure_chain(chain *c, const char *solver) {
  c->count = 0;
  if (solver != NULL)
    order_chain(c, solver);
  else
    balance(c, 0, c->n);
  if (!place_chain(c)) return;
  print_chain(c);
  measure_products(c);
  measure_groups(c);
  printf("}\n");
}

/* ---- chains ---------------------------------------------------------------------------------- */

static bool is_moderate(const chain *c) {
  double elements = 0, multiplications = 0;
  for (int32_t i = 0; i < c->n; i++) {
    const double mine = (double)c->dims[i] * (double)c->dims[i + 1] * (double)c->batch;
    elements += mine;
    if (i > 0) multiplications += (double)c->dims[0] * mine;
  }
  return elements <= ELEMENTS_MOST && multiplications <= MULTIPLICATIONS_MOST;
}

static void measure_squares(mmc_dtype dtype, double until) {
  static const int SIDES[] = {2,  3,  4,  5,  6,  8,  10,  12,  16,  20,  24, 32,
                              33, 40, 48, 64, 80, 96, 100, 112, 128, 200, 256};
  for (int64_t batch = 1; batch <= 100000; batch *= batch == 1 ? 100 : 10)
    for (size_t s = 0; s < sizeof SIDES / sizeof *SIDES && mmci_now_s() < until; s++) {
      chain c = {.dtype = dtype, .batch = batch, .n = 4};
      for (int i = 0; i <= c.n; i++) c.dims[i] = SIDES[s];
      if (is_moderate(&c)) measure_chain(&c, "auto");
    }
}

/* One large product, for the peak of arithmetic. */
static void measure_large(mmc_dtype dtype) {
  chain c = {.dtype = dtype, .batch = 1, .n = 2, .dims = {LARGE, LARGE, LARGE}};
  measure_chain(&c, "auto");
}

/* Draws dims between 1 and most, evenly by their logarithms; three of ten chains are squares. */
static void draw(chain *c) {
  c->n = (int32_t)PICK(2, 2, 3, 3, 3, 4, 5, 6, 9, FACTORS);
  const double most = (double)PICK(6, 16, 40, 100, 128, 300, 1500);
  c->batch = PICK(1, 1, 1, 2, 4, 16, 64, 100, 300, 1000, 5000, 20000, 100000, 300000);
  const int64_t side = PICK(2, 3, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 96, 128, 160);
  const bool squares = uniform() < 0.3;
  for (int32_t i = 0; i <= c->n; i++)
    c->dims[i] = squares ? side : (int64_t)fmax(1, round(exp(uniform() * log(most))));
}

/* Draws which factors are transposed, and which are shared: no two neighbours, whose product would
 * be, too. */
static void draw_forms(chain *c) {
  c->has_forms = true;
  for (int32_t i = 0; i < c->n; i++) {
    c->trans[i] = uniform() < 0.25;
    c->shared[i] = c->batch > 1 && uniform() < 0.25 && !(i > 0 && c->shared[i - 1]);
  }
}

/* Draws a row by some matrices, or some matrices by a column. */
static const char *draw_vectors(chain *c) {
  c->n = (int32_t)PICK(2, 2, 2, 3, 4, 5, 8);
  const double most = (double)PICK(16, 60, 150, 300, 600, 1500, 3000);
  const int64_t side = (int64_t)fmax(1, round(exp(uniform() * log(most))));
  const bool squares = uniform() < 0.4, is_row = uniform() < 0.5;
  for (int32_t i = 0; i <= c->n; i++)
    c->dims[i] = squares ? side : (int64_t)fmax(1, round(exp(uniform() * log(most))));
  c->dims[is_row ? 0 : c->n] = 1;
  double elements = 0;
  for (int32_t i = 0; i < c->n; i++) elements += (double)c->dims[i] * (double)c->dims[i + 1];
  c->batch = (int64_t)fmax(66, fmin(200000, ELEMENTS_MOST * pow(2e-3, uniform()) / elements));
  c->has_forms = true;
  const bool some = uniform() < 0.5;
  for (int32_t i = 0; i < c->n; i++) c->trans[i] = some && uniform() < 0.5;
  return is_row ? "left-to-right" : "auto";
}

/* Draws larger squares, which panels.cu takes. */
static void draw_squares(chain *c) {
  const double way = uniform();
  const int64_t side = way < 0.15  ? 49 + 2 * (int64_t)(uniform() * 8)
                       : way < 0.4 ? PICK(72, 80, 96, 100, 112, 120, 128, 144, 160, 192, 200)
                                   : 65 + (int64_t)(uniform() * 144);
  c->n = (int32_t)PICK(2, 2, 3, 4, 4, 5, 8);
  c->batch = PICK(2, 5, 20, 64, 100, 132, 200, 264, 301, 400, 700, 1000, 2000, 5000);
  for (int32_t i = 0; i <= c->n; i++) c->dims[i] = side;
}

static void measure_drawn(mmc_dtype dtype, mode mode, double until) {
  while (mmci_now_s() < until) {
    chain c = {.dtype = dtype};
    const double way = uniform();
    const char *solver = way < 0.15 ? "left-to-right" : way < 0.25 ? NULL : "auto";
    if (mode == VECTORS)
      solver = draw_vectors(&c);
    else if (mode == SQUARES)
      draw_squares(&c), solver = "left-to-right";
    else
      draw(&c);
    if (mode == FORMS) draw_forms(&c);
    if (is_moderate(&c)) measure_chain(&c, solver);
  }
}

/* Single chains of squares in balanced orders, by which spines gain. */
static void measure_trees(mmc_dtype dtype, double until) {
  static const int FACTORS_OF[] = {6, 10, 13, 20}, SIDES[] = {16, 20, 32, 33, 48, 64, 80, 100, 128};
  for (size_t n = 0; n < sizeof FACTORS_OF / sizeof *FACTORS_OF; n++)
    for (size_t s = 0; s < sizeof SIDES / sizeof *SIDES && mmci_now_s() < until; s++) {
      chain c = {.dtype = dtype, .batch = 1, .n = FACTORS_OF[n]};
      for (int i = 0; i <= c.n; i++) c.dims[i] = SIDES[s];
      measure_chain(&c, NULL);
      measure_chain(&c, "auto");
    }
}

static void print_device(uint64_t seed) {
  mmci_identity identity;
  ops->identify(on.device, &identity);
  identity.model[strcspn(identity.model, ",")] = '\0';
  printf("{\"kind\": \"%s\", \"blas\": \"%s\", \"multiprocessors\": %d, \"seed\": %" PRIu64 "}\n",
         identity.model, identity.blas, limits.multiprocessors, seed);
}

int main(int argc, char **argv) {
  static const struct {
    mmc_dtype dtype;
    double share;
  } TURNS[] = {{MMC_F32, 0.24},  {MMC_F64, 0.18}, {MMC_C64, 0.18},
               {MMC_BF16, 0.18}, {MMC_F16, 0.14}, {MMC_C128, 0.08}};
  static const char *const MODES[] = {
      [PLAIN] = "", [FORMS] = "forms", [VECTORS] = "vectors", [SQUARES] = "squares"};
  mode mode = PLAIN;
  for (int m = FORMS; m <= SQUARES; m++)
    if (argc == 4 && strcmp(argv[3], MODES[m]) == 0) mode = (enum mode)m;
  const double seconds = argc == 3 || mode != PLAIN ? strtod(argv[1], NULL) : 0;
  if (!(seconds > 0)) {
    fprintf(stderr, "usage: bench_facts SECONDS SEED [forms | vectors | squares]\n");
    return 2;
  }
  const uint64_t seed = strtoull(argv[2], NULL, 10);
  open_device();
  print_device(seed);
  const size_t turns = mode == SQUARES ? 1 : sizeof TURNS / sizeof *TURNS;
  for (size_t t = 0; t < turns; t++) {
    random_state = seed + t; /* the same chains, however many there were before */
    fill_memory(TURNS[t].dtype);
    const double until = mmci_now_s() + seconds * (mode == SQUARES ? 1 : TURNS[t].share);
    if (mode == PLAIN) measure_large(TURNS[t].dtype);
    if (mode == PLAIN && (TURNS[t].dtype == MMC_F32 || TURNS[t].dtype == MMC_F64))
      measure_trees(TURNS[t].dtype, mmci_now_s() + 0.3 * (until - mmci_now_s()));
    if (mode == PLAIN) measure_squares(TURNS[t].dtype, until);
    measure_drawn(TURNS[t].dtype, mode, until);
  }
  return 0;
}
