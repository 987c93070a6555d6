/* bench_faithful.c: faithful f32 products against native ones, one JSON line a product: time and
 * joules, both kinds back to back for S seconds (2) on data of a kind (normal), and the errors of
 * both on the same data, uniform, normal and exp(4N): |d|_F / |C|_F and the greatest |d| / (|A|
 * |B|), of 64 rows of C against f64.
 *
 *     bench_faithful [OPTION ...] [--seconds S] [N | MxKxN ...]
 *     bench_faithful --table [OPTION ...] [--seed SEED] [N | MxKxN ...]
 *
 * OPTION is --on DEVICE, --data KIND, or --reproducible: products are then those of precision
 * "reproducible+faithful". The second compares errors alone, on all kinds of data or one, for the
 * sizes given or in 200 cases: kinds of data, shapes and transposed factors. It ends with the
 * largest ratios of each kind, and fails when one is above 1. Modules are looked for in
 * MMCHAIN_MODULE_DIR. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "faithful_bench.h"
#include "meter/measure.h"

enum { SAMPLE = 64, TABLE = 1 << 20, CHUNK = 64, KINDS = 2 };

static mmci_precision precisions[KINDS] = {MMCI_NATIVE, MMCI_FAITHFUL};

static mmci_meter *meter;
static float *table; /* random numbers are picked from it */
static uint64_t random_state = 20261121;

static void fill_table(faithful_data data) {
  for (int t = 0; t < TABLE; t++) table[t] = (float)faithful_draw(data, &random_state);
}

/* Fills by neighbours of the table. */
static void fill(float *to, int64_t count) {
  for (int64_t e = 0; e < count; e += CHUNK) {
    const float *from = table + mmci_random_bits(&random_state) % (TABLE - CHUNK);
    memcpy(to + e, from, (size_t)(count - e < CHUNK ? count - e : CHUNK) * sizeof *to);
  }
}

static double grade_of(faithful_data data, bool along_k, int64_t at, int64_t count) {
  const double part = (double)at / (double)count;
  return along_k ? faithful_grade_k(data, part) : faithful_grade_row(data, part);
}

/* Multiplies a factor by its grades; its rows, of `cols` neighbours, lie along k or its columns
 * do. */
static void grade(faithful_data data, float *x, int64_t rows, int64_t cols, bool rows_along_k) {
  if (data != FAITHFUL_GRADED_ROWS && data != FAITHFUL_GRADED_K) return;
  double *by_col = take((size_t)cols * sizeof *by_col);
  for (int64_t c = 0; c < cols; c++) by_col[c] = grade_of(data, rows_along_k, c, cols);
  for (int64_t r = 0; r < rows; r++) {
    const double by_row = grade_of(data, !rows_along_k, r, rows);
    for (int64_t c = 0; c < cols; c++) x[r * cols + c] *= (float)(by_row * by_col[c]);
  }
  free(by_col);
}

/* ---- the device ------------------------------------------------------------------------------ */

static void *device_take(size_t bytes) {
  mmci_error error = {0};
  void *memory = NULL;
  check(on.ops->alloc(on.device, bytes, &memory, &error), &error);
  return memory;
}

static mmci_kernel *prepare(const mmci_gemm *gemm) {
  mmci_error error = {0};
  mmci_kernel *kernel = NULL;
  check(on.ops->prepare(on.device, gemm, &kernel, &error), &error);
  return kernel;
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct product {
  int64_t m, k, n;
  mmc_op a_op, b_op;
  mmci_kernel *kernels[KINDS];
  float *a, *b, *c;                     /* on the host */
  void *device_a, *device_b, *device_c; /* f32 */
  void *wide_a, *wide_b, *wide_c;       /* f64; of A and C the first SAMPLE rows */
  double *exact, *sums;                 /* of those rows, A B and |A| |B| */
} product;

typedef struct errors {
  double norm, component;
} errors;

static int64_t sample_of(const product *p) {
  return p->m < SAMPLE ? p->m : SAMPLE;
}

static mmci_gemm gemm_of(const product *p, mmci_precision precision) {
  mmci_gemm gemm = mmci_gemm_tight(MMC_F32, precision, p->m, p->k, p->n, p->a_op, p->b_op);
  mmci_gemm_choose_sums(&gemm);
  return gemm;
}

/* The sample of A B in f64, or of |A| |B|. */
static void multiply_wide(const product *p, bool absolute, double *to) {
  mmci_error error = {0};
  const int64_t rows = sample_of(p), most = (rows > p->n ? rows : p->n) * p->k;
  double *wide = take((size_t)most * sizeof *wide);
  const mmci_gemm gemm = mmci_gemm_tight(MMC_F64, MMCI_NATIVE, rows, p->k, p->n, MMC_OP_N, p->b_op);
  const int64_t down = p->a_op == MMC_OP_N ? p->k : 1, along = p->a_op == MMC_OP_N ? 1 : p->m;
  for (int64_t e = 0; e < rows * p->k; e++) {
    const double x = (double)p->a[e / p->k * down + e % p->k * along];
    wide[e] = absolute ? fabs(x) : x;
  }
  copy_bytes(p->wide_a, wide, (size_t)(rows * p->k) * sizeof *wide, true);
  for (int64_t e = 0; e < p->k * p->n; e++)
    wide[e] = absolute ? fabs((double)p->b[e]) : (double)p->b[e];
  copy_bytes(p->wide_b, wide, (size_t)(p->k * p->n) * sizeof *wide, true);
  mmci_kernel *kernel = prepare(&gemm);
  check(on.ops->enqueue(queue, kernel, p->wide_a, p->wide_b, p->wide_c, &error), &error);
  copy_bytes(to, p->wide_c, (size_t)(rows * p->n) * sizeof *to, false);
  on.ops->release(kernel);
  free(wide);
}

static errors measure_errors(const product *p, int kind) {
  mmci_error error = {0};
  const int64_t count = sample_of(p) * p->n;
  errors e = {0, 0};
  double off = 0, all = 0;
  check(on.ops->enqueue(queue, p->kernels[kind], p->device_a, p->device_b, p->device_c, &error),
        &error);
  copy_bytes(p->c, p->device_c, (size_t)count * sizeof *p->c, false);
  for (int64_t t = 0; t < count; t++) {
    double d = fabs((double)p->c[t] - p->exact[t]);
    off += d * d;
    all += p->exact[t] * p->exact[t];
    if (d > 0 && !(d / p->sums[t] <= e.component)) e.component = d / p->sums[t];
  }
  e.norm = sqrt(off / all);
  return e;
}

static void fill_product(const product *p, faithful_data data) {
  const bool a_n = p->a_op == MMC_OP_N, b_n = p->b_op == MMC_OP_N;
  fill_table(data);
  fill(p->a, p->m * p->k);
  fill(p->b, p->k * p->n);
  grade(data, p->a, a_n ? p->m : p->k, a_n ? p->k : p->m, a_n);
  grade(data, p->b, b_n ? p->k : p->n, b_n ? p->n : p->k, !b_n);
  copy_bytes(p->device_a, p->a, (size_t)(p->m * p->k) * sizeof *p->a, true);
  copy_bytes(p->device_b, p->b, (size_t)(p->k * p->n) * sizeof *p->b, true);
}

static product product_create(const int64_t size[3], mmc_op a_op, mmc_op b_op) {
  const int64_t m = size[0], k = size[1], n = size[2];
  product p = {.m = m, .k = k, .n = n, .a_op = a_op, .b_op = b_op};
  const size_t rows = (size_t)sample_of(&p), a = (size_t)(m * k), b = (size_t)(k * n);
  for (int kind = 0; kind < KINDS; kind++) {
    const mmci_gemm gemm = gemm_of(&p, precisions[kind]);
    p.kernels[kind] = prepare(&gemm);
  }
  p.a = take(a * sizeof *p.a);
  p.b = take(b * sizeof *p.b);
  p.c = take(rows * (size_t)n * sizeof *p.c);
  p.exact = take(rows * (size_t)n * sizeof *p.exact);
  p.sums = take(rows * (size_t)n * sizeof *p.sums);
  p.device_a = device_take(a * sizeof(float));
  p.device_b = device_take(b * sizeof(float));
  p.device_c = device_take((size_t)(m * n) * sizeof(float));
  p.wide_a = device_take(rows * (size_t)k * sizeof(double));
  p.wide_b = device_take(b * sizeof(double));
  p.wide_c = device_take(rows * (size_t)n * sizeof(double));
  return p;
}

static void product_destroy(product *p) {
  void *const here[] = {p->a, p->b, p->c, p->exact, p->sums};
  void *const there[] = {p->device_a, p->device_b, p->device_c, p->wide_a, p->wide_b, p->wide_c};
  for (size_t t = 0; t < sizeof here / sizeof *here; t++) free(here[t]);
  for (size_t t = 0; t < sizeof there / sizeof *there; t++) on.ops->dealloc(on.device, there[t]);
  for (int kind = 0; kind < KINDS; kind++) on.ops->release(p->kernels[kind]);
}

/* ---- time and joules ------------------------------------------------------------------------- */

typedef struct work {
  const product *product;
  int kind;
} work;

static int enqueue_one(void *user) {
  const work *w = user;
  const product *p = w->product;
  return on.ops->enqueue(queue, p->kernels[w->kind], p->device_a, p->device_b, p->device_c, NULL) !=
         MMC_OK;
}

static mmc_energy measure_energy(const product *p, int kind, double seconds) {
  mmci_error error = {0};
  work what = {p, kind};
  mmc_energy energy;
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = seconds;
  options.idle_s = 0;
  options.work = enqueue_one;
  options.wait = wait_for_all;
  options.user = &what;
  check(mmci_measure(&mmci_meter_nvml, meter, &options, NULL, &energy, &error), &error);
  return energy;
}

/* Of native and faithful products. */
static void compare_errors(const product *p, faithful_data data, errors e[KINDS]) {
  fill_product(p, data);
  multiply_wide(p, false, p->exact);
  multiply_wide(p, true, p->sums);
  for (int kind = 0; kind < KINDS; kind++) e[kind] = measure_errors(p, kind);
}

static void print_errors(const product *p, faithful_data data) {
  static const char *const kinds[KINDS] = {"native_", ""};
  char name[80];
  errors e[KINDS];
  compare_errors(p, data, e);
  for (int kind = 0; kind < KINDS; kind++) {
    snprintf(name, sizeof name, "%s_%snorm", faithful_data_name(data), kinds[kind]);
    print_number(name, e[kind].norm);
    snprintf(name, sizeof name, "%s_%scomponent", faithful_data_name(data), kinds[kind]);
    print_number(name, e[kind].component);
  }
}

static void measure(const int64_t size[3], faithful_data data, double seconds) {
  product p = product_create(size, MMC_OP_N, MMC_OP_N);
  const mmci_gemm gemm = gemm_of(&p, precisions[1]);
  mmc_energy energies[KINDS];
  fill_product(&p, data);
  for (int kind = 0; kind < KINDS; kind++) energies[kind] = measure_energy(&p, kind, seconds);
  printf("{\"bench\": \"faithful\", \"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64
         ", \"kernel\": \"%s\", \"data\": \"%s\"",
         p.m, p.k, p.n, on.ops->kernel_name(on.device, &gemm), faithful_data_name(data));
  print_number("native_s", energies[0].seconds);
  print_number("seconds", energies[1].seconds);
  print_number("time_ratio", energies[1].seconds / energies[0].seconds);
  print_number("native_joules", energies[0].joules);
  print_number("joules", energies[1].joules);
  print_number("joules_ratio", energies[1].joules / energies[0].joules);
  print_number("sm_mhz", energies[1].sm_mhz_median);
  print_errors(&p, FAITHFUL_UNIFORM);
  print_errors(&p, FAITHFUL_NORMAL);
  print_errors(&p, FAITHFUL_EXP4);
  printf("}\n");
  fflush(stdout);
  product_destroy(&p);
}

/* ---- the table of errors --------------------------------------------------------------------- */

typedef struct shape {
  int64_t size[3];
  mmc_op a_op, b_op;
  int kinds; /* of data, the first ones of table_data */
} shape;

static const faithful_data table_data[FAITHFUL_DATA] = {
    FAITHFUL_UNIFORM_01, FAITHFUL_EXPONENTIAL, FAITHFUL_ABS_NORMAL,  FAITHFUL_POISSON,
    FAITHFUL_NORMAL,     FAITHFUL_UNIFORM,     FAITHFUL_EXP1,        FAITHFUL_LOGNORMAL,
    FAITHFUL_EXP4,       FAITHFUL_OUTLIERS,    FAITHFUL_GRADED_ROWS, FAITHFUL_GRADED_K,
    FAITHFUL_ONES};

/* Of all of them but for the largest: 15 x 13 + 5 cases. */
static const shape table_shapes[] = {
    {{1024, 1024, 1024}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{1536, 512, 1536}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{2048, 640, 3000}, MMC_OP_T, MMC_OP_N, FAITHFUL_DATA},
    {{3072, 1024, 3072}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{2048, 2048, 2048}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{2048, 2048, 2048}, MMC_OP_N, MMC_OP_T, FAITHFUL_DATA},
    {{2048, 2048, 2048}, MMC_OP_T, MMC_OP_N, FAITHFUL_DATA},
    {{2048, 2048, 2048}, MMC_OP_T, MMC_OP_T, FAITHFUL_DATA},
    {{3001, 2048, 2803}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{1777, 3001, 1301}, MMC_OP_T, MMC_OP_N, FAITHFUL_DATA},
    {{1500, 6000, 1500}, MMC_OP_N, MMC_OP_T, FAITHFUL_DATA},
    {{4096, 4096, 4096}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{2900, 4100, 3000}, MMC_OP_T, MMC_OP_T, FAITHFUL_DATA},
    {{5000, 3000, 7000}, MMC_OP_N, MMC_OP_T, FAITHFUL_DATA},
    {{8192, 8192, 8192}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA},
    {{16384, 16384, 16384}, MMC_OP_N, MMC_OP_N, 5},
};

static const char *op_name(mmc_op op) {
  return op == MMC_OP_N ? "N" : "T";
}

static double greater(double x, double y) {
  return x <= y ? y : x; /* NaN stays */
}

static errors compare_case(const product *p, faithful_data data) {
  const uint64_t seed = random_state;
  const mmci_gemm gemm = gemm_of(p, precisions[1]);
  errors e[KINDS], ratio;
  compare_errors(p, data, e);
  ratio.norm = ratio_of(e[1].norm, e[0].norm);
  ratio.component = ratio_of(e[1].component, e[0].component);
  printf("{\"bench\": \"faithful_errors\", \"data\": \"%s\", \"m\": %" PRId64 ", \"k\": %" PRId64
         ", \"n\": %" PRId64 ", \"ops\": \"%s%s\", \"kernel\": \"%s\"",
         faithful_data_name(data), p->m, p->k, p->n, op_name(p->a_op), op_name(p->b_op),
         on.ops->kernel_name(on.device, &gemm));
  printf(", \"seed\": %" PRIu64, seed);
  print_number("norm_ratio", ratio.norm);
  print_number("component_ratio", ratio.component);
  print_number("norm", e[1].norm);
  print_number("native_norm", e[0].norm);
  print_number("component", e[1].component);
  print_number("native_component", e[0].component);
  printf("}\n");
  fflush(stdout);
  return ratio;
}

/* Returns how many cases have a ratio above 1; `only` is a kind of data, or FAITHFUL_DATA for all.
 */
static int print_table(const shape *shapes, int count, uint64_t seed, faithful_data only) {
  errors most[FAITHFUL_DATA] = {{0, 0}};
  int cases[FAITHFUL_DATA] = {0}, above = 0;
  for (int s = 0; s < count; s++) {
    const shape *each = shapes + s;
    product p = product_create(each->size, each->a_op, each->b_op);
    for (int t = 0; t < each->kinds; t++) {
      const faithful_data data = table_data[t];
      if (only != FAITHFUL_DATA && only != data) continue;
      random_state = seed + (uint64_t)(s * FAITHFUL_DATA + t);
      const errors ratio = compare_case(&p, data);
      most[data].norm = greater(most[data].norm, ratio.norm);
      most[data].component = greater(most[data].component, ratio.component);
      above += !(ratio.norm <= 1 && ratio.component <= 1);
      cases[data]++;
    }
    product_destroy(&p);
  }
  for (int t = 0; t < FAITHFUL_DATA; t++) {
    const faithful_data data = table_data[t];
    if (cases[data] == 0) continue;
    printf("{\"bench\": \"faithful_errors_of\", \"data\": \"%s\", \"cases\": %d",
           faithful_data_name(data), cases[data]);
    print_number("most_norm_ratio", most[data].norm);
    print_number("most_component_ratio", most[data].component);
    printf("}\n");
  }
  return above;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void open_all(const char *device, bool metered, mmci_registry **registry) {
  mmci_error error = {0};
  mmci_identity who = {.bus_id = ""};
  check(mmci_registry_create(getenv("MMCHAIN_MODULE_DIR"), registry, &error), &error);
  check(mmci_registry_open(*registry, device, &on, &error), &error);
  check(on.ops->queue_open(on.device, &queue, &error), &error);
  if (!metered) return;
  on.ops->identify(on.device, &who);
  const mmci_meter_source source = {.address = who.bus_id};
  check(mmci_meter_nvml.open(&source, &meter, &error), &error);
}

typedef struct request {
  const char *device;
  double seconds;
  uint64_t seed;
  faithful_data data; /* FAITHFUL_DATA when it is not said */
  bool table;
  const char *const *sizes; /* NULL when they are not said */
  int count;
} request;

static bool read_request(int argc, char **argv, request *out) {
  int64_t size[3];
  int at = 1;
  *out = (request){"cuda", 2, 20261123, FAITHFUL_DATA, false, NULL, 0};
  for (; at < argc && argv[at][0] == '-'; at++) {
    const char *value = at + 1 < argc ? argv[at + 1] : "";
    if (strcmp(argv[at], "--table") == 0) {
      out->table = true;
      continue;
    }
    if (strcmp(argv[at], "--reproducible") == 0) {
      precisions[1] = MMCI_REPRODUCIBLE_FAITHFUL;
      continue;
    }
    if (strcmp(argv[at], "--on") == 0)
      out->device = value;
    else if (strcmp(argv[at], "--seconds") == 0)
      out->seconds = atof(value);
    else if (strcmp(argv[at], "--seed") == 0)
      out->seed = strtoull(value, NULL, 10);
    else if (strcmp(argv[at], "--data") != 0 || !read_data(value, &out->data))
      return false;
    at++;
  }
  if (at < argc) {
    out->sizes = (const char *const *)(argv + at);
    out->count = argc - at;
  }
  for (int s = 0; s < out->count; s++)
    if (!read_size(out->sizes[s], size)) return false;
  return true;
}

static int compare_all(const request *asked) {
  const int standard = sizeof table_shapes / sizeof *table_shapes;
  if (asked->sizes == NULL) return print_table(table_shapes, standard, asked->seed, asked->data);
  shape *shapes = take((size_t)asked->count * sizeof *shapes);
  for (int s = 0; s < asked->count; s++) {
    shapes[s] = (shape){{0}, MMC_OP_N, MMC_OP_N, FAITHFUL_DATA};
    if (!read_size(asked->sizes[s], shapes[s].size)) break; /* they were read before */
  }
  int above = print_table(shapes, asked->count, asked->seed, asked->data);
  free(shapes);
  return above;
}

static void measure_all(const request *asked) {
  static const char *const standard[] = {"8192", "4096", "5000x3000x7000"};
  const int count = asked->sizes == NULL ? (int)(sizeof standard / sizeof *standard) : asked->count;
  const char *const *sizes = asked->sizes == NULL ? standard : asked->sizes;
  const faithful_data data = asked->data == FAITHFUL_DATA ? FAITHFUL_NORMAL : asked->data;
  int64_t size[3];
  for (int s = 0; s < count && read_size(sizes[s], size); s++) measure(size, data, asked->seconds);
}

int main(int argc, char **argv) {
  request asked;
  mmci_registry *registry = NULL;
  int above = 0;
  if (!read_request(argc, argv, &asked)) {
    fprintf(stderr,
            "usage: bench_faithful [--on DEVICE] [--seconds S] [--data KIND] [N | MxKxN ...]\n"
            "       bench_faithful --table [--on DEVICE] [--seed SEED] [--data KIND] [N | MxKxN "
            "...]\n");
    return 2;
  }
  open_all(asked.device, !asked.table, &registry);
  table = take(TABLE * sizeof *table);
  if (asked.table)
    above = compare_all(&asked);
  else
    measure_all(&asked);
  free(table);
  if (!asked.table) mmci_meter_nvml.close(meter);
  on.ops->queue_close(queue);
  mmci_registry_destroy(registry);
  return above == 0 ? 0 : 1;
}
