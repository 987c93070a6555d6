/* bench_residues.c: products by 8-bit integers, one JSON line a product. Of f64: time and joules of
 * faithful products by those of native ones, back to back for S seconds (2) on data of a kind
 * (normal); or with --errors the errors of both on the same data, on all kinds or one: |d|_F of 16
 * rows of C against sums with 64 bits of mantissa, and the greatest |d| / (|A| |B|). Of integers:
 * time, joules, and operations a second, two a multiplication.
 *
 *     bench_residues [OPTION ...] [--seconds S] [--dtype T] [N | MxKxN ...]
 *     bench_residues --errors [OPTION ...] [--seed SEED] [N | MxKxN ...]
 *
 * OPTION is --on DEVICE, --data KIND, or --reproducible: products of f64 are then those of
 * precision "reproducible+faithful". The second fails when a ratio is above 1. Modules are looked
 * for in MMCHAIN_MODULE_DIR. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/random.h"
#include "faithful_bench.h"
#include "meter/measure.h"

enum { SAMPLE = 16, TABLE = 1 << 18, CHUNK = 64, KINDS = 2 };

static mmci_meter *meter;
static uint64_t random_state = 20261123;
static mmci_precision faithful_as = MMCI_FAITHFUL;

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct product {
  mmci_gemm gemm;
  size_t a_bytes, b_bytes, c_bytes;
  double *a, *b; /* on the host */
  void *device_a, *device_b, *device_c;
} product;

/* Fills a matrix of rows x cols doubles by neighbours of a table, and grades it. */
static void fill_doubles(double *x, int64_t rows, int64_t cols, faithful_data data, bool across) {
  double *table = take(TABLE * sizeof *table);
  for (int t = 0; t < TABLE; t++) table[t] = faithful_draw(data, &random_state);
  for (int64_t e = 0; e < rows * cols; e += CHUNK) {
    const double *from = table + mmci_random_bits(&random_state) % (TABLE - CHUNK);
    memcpy(x + e, from, (size_t)(rows * cols - e < CHUNK ? rows * cols - e : CHUNK) * sizeof *x);
  }
  free(table);
  if (data != FAITHFUL_GRADED_ROWS && data != FAITHFUL_GRADED_K) return;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const double down = (double)r / (double)rows, along = (double)c / (double)cols;
      x[r * cols + c] *= faithful_grade_row(data, across ? along : down) *
                         faithful_grade_k(data, across ? down : along);
    }
}

static void fill_bits(void *x, size_t bytes) {
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t bits = mmci_random_bits(&random_state);
    memcpy((char *)x + at, &bits, 8);
  }
}

static product product_create(mmc_dtype dtype, const int64_t size[3]) {
  mmci_error error = {0};
  product p = {
      .gemm = mmci_gemm_tight(dtype, MMCI_FAITHFUL, size[0], size[1], size[2], MMC_OP_N, MMC_OP_N)};
  const size_t bytes = mmc_dtype_size(dtype);
  p.a_bytes = (size_t)(size[0] * size[1]) * bytes;
  p.b_bytes = (size_t)(size[1] * size[2]) * bytes;
  p.c_bytes = (size_t)(size[0] * size[2]) * bytes;
  p.a = take(p.a_bytes + 8);
  p.b = take(p.b_bytes + 8);
  check(on.ops->alloc(on.device, p.a_bytes, &p.device_a, &error), &error);
  check(on.ops->alloc(on.device, p.b_bytes, &p.device_b, &error), &error);
  check(on.ops->alloc(on.device, p.c_bytes, &p.device_c, &error), &error);
  return p;
}

static void product_fill(product *p, faithful_data data) {
  const mmci_gemm *g = &p->gemm;
  if (g->dtype == MMC_F64) {
    fill_doubles(p->a, g->m, g->k, data, false);
    fill_doubles(p->b, g->k, g->n, data, true);
  } else {
    fill_bits(p->a, p->a_bytes);
    fill_bits(p->b, p->b_bytes);
  }
  copy_bytes(p->device_a, p->a, p->a_bytes, true);
  copy_bytes(p->device_b, p->b, p->b_bytes, true);
}

static void product_destroy(product *p) {
  free(p->a);
  free(p->b);
  on.ops->dealloc(on.device, p->device_a);
  on.ops->dealloc(on.device, p->device_b);
  on.ops->dealloc(on.device, p->device_c);
}

static mmci_gemm gemm_of(const product *p, bool faithful) {
  mmci_gemm gemm = p->gemm;
  gemm.precision = faithful ? faithful_as : MMCI_NATIVE;
  mmci_gemm_choose_sums(&gemm);
  return gemm;
}

/* ---- time and joules ------------------------------------------------------------------------- */

typedef struct work {
  const product *product;
  mmci_kernel *kernel;
} work;

static int enqueue_one(void *user) {
  const work *w = user;
  const product *p = w->product;
  return on.ops->enqueue(queue, w->kernel, p->device_a, p->device_b, p->device_c, NULL) != MMC_OK;
}

static mmc_energy measure_energy(const product *p, bool faithful, double seconds) {
  mmci_error error = {0};
  const mmci_gemm gemm = gemm_of(p, faithful);
  work what = {p, NULL};
  mmc_energy energy;
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = seconds;
  options.idle_s = 0;
  options.work = enqueue_one;
  options.wait = wait_for_all;
  options.user = &what;
  check(on.ops->prepare(on.device, &gemm, &what.kernel, &error), &error);
  check(mmci_measure(&mmci_meter_nvml, meter, &options, NULL, &energy, &error), &error);
  on.ops->release(what.kernel);
  return energy;
}

static void print_product(const char *bench, const product *p, const char *data) {
  const mmci_gemm gemm = gemm_of(p, true);
  printf("{\"bench\": \"%s\", \"dtype\": \"%s\", \"m\": %" PRId64 ", \"k\": %" PRId64
         ", \"n\": %" PRId64 ", \"kernel\": \"%s\", \"data\": \"%s\"",
         bench, mmc_dtype_name(gemm.dtype), gemm.m, gemm.k, gemm.n,
         on.ops->kernel_name(on.device, &gemm), data);
}

static void measure(mmc_dtype dtype, const int64_t size[3], faithful_data data, double seconds) {
  product p = product_create(dtype, size);
  product_fill(&p, data);
  mmc_energy native = {0};
  if (dtype == MMC_F64) native = measure_energy(&p, false, seconds);
  const mmc_energy energy = measure_energy(&p, true, seconds);
  print_product("residues", &p, dtype == MMC_F64 ? faithful_data_name(data) : "bits");
  print_number("seconds", energy.seconds);
  print_number("joules", energy.joules);
  print_number("ops_per_s", 2 * mmci_gemm_mkn(&p.gemm) / energy.seconds);
  print_number("sm_mhz", energy.sm_mhz_median);
  if (dtype == MMC_F64) {
    print_number("native_s", native.seconds);
    print_number("time_ratio", energy.seconds / native.seconds);
    print_number("native_joules", native.joules);
    print_number("joules_ratio", energy.joules / native.joules);
  }
  printf("}\n");
  fflush(stdout);
  product_destroy(&p);
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct errors {
  double norm, component;
} errors;

/* Adds up rows of C, spread over it, and of |A| |B|. */
static void add_up(const product *p, long double *exact, long double *sums) {
  const mmci_gemm *g = &p->gemm;
  for (int64_t i = 0; i < SAMPLE; i++) {
    const int64_t r = i * g->m / SAMPLE;
    long double *to = exact + i * g->n, *all = sums + i * g->n;
    for (int64_t c = 0; c < g->n; c++) to[c] = all[c] = 0;
    for (int64_t d = 0; d < g->k; d++) {
      const long double x = p->a[r * g->k + d];
      const double *row = p->b + d * g->n;
      for (int64_t c = 0; c < g->n; c++) {
        to[c] += x * row[c];
        all[c] += fabsl(x * row[c]);
      }
    }
  }
}

static errors errors_of(const product *p, bool faithful, const long double *exact,
                        const long double *sums) {
  mmci_error error = {0};
  const mmci_gemm gemm = gemm_of(p, faithful);
  mmci_kernel *kernel = NULL;
  double *c = take(p->c_bytes);
  long double off = 0, all = 0;
  errors e = {0, 0};
  check(on.ops->prepare(on.device, &gemm, &kernel, &error), &error);
  check(on.ops->enqueue(queue, kernel, p->device_a, p->device_b, p->device_c, &error), &error);
  copy_bytes(c, p->device_c, p->c_bytes, false);
  on.ops->release(kernel);
  for (int64_t i = 0; i < SAMPLE * gemm.n; i++) {
    const long double d =
        fabsl((long double)c[i / gemm.n * gemm.m / SAMPLE * gemm.n + i % gemm.n] - exact[i]);
    off += d * d;
    all += exact[i] * exact[i];
    if (d > 0 && !(d / sums[i] <= (long double)e.component)) e.component = (double)(d / sums[i]);
  }
  e.norm = (double)sqrtl(off / all);
  free(c);
  return e;
}

/* Returns how many kinds have a ratio above 1. */
static int compare(const int64_t size[3], faithful_data only) {
  product p = product_create(MMC_F64, size);
  const size_t count = (size_t)(SAMPLE * p.gemm.n);
  long double *exact = take(2 * count * sizeof *exact);
  int above = 0;
  for (int t = 0; t < FAITHFUL_DATA; t++) {
    const faithful_data data = (faithful_data)t;
    if (only != FAITHFUL_DATA && only != data) continue;
    product_fill(&p, data);
    add_up(&p, exact, exact + count);
    const errors native = errors_of(&p, false, exact, exact + count),
                 ours = errors_of(&p, true, exact, exact + count);
    const errors ratio = {ratio_of(ours.norm, native.norm),
                          ratio_of(ours.component, native.component)};
    print_product("residues_errors", &p, faithful_data_name(data));
    print_number("norm_ratio", ratio.norm);
    print_number("component_ratio", ratio.component);
    print_number("norm", ours.norm);
    print_number("native_norm", native.norm);
    print_number("component", ours.component);
    print_number("native_component", native.component);
    printf("}\n");
    fflush(stdout);
    above += !(ratio.norm <= 1 && ratio.component <= 1);
  }
  free(exact);
  product_destroy(&p);
  return above;
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct request {
  const char *device;
  double seconds;
  faithful_data data; /* FAITHFUL_DATA when it is not said */
  mmc_dtype dtype;
  bool errors;
} request;

static bool read_dtype(const char *text, mmc_dtype *out) {
  for (int t = 0; t <= MMC_BOOL; t++)
    if (strcmp(text, mmc_dtype_name((mmc_dtype)t)) == 0) {
      *out = (mmc_dtype)t;
      return *out == MMC_F64 || mmci_dtype_is_integer(*out);
    }
  return false;
}

/* Returns where the sizes begin, or -1. */
static int read_request(int argc, char **argv, request *out) {
  *out = (request){"cuda", 2, FAITHFUL_DATA, MMC_F64, false};
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    const char *value = at + 1 < argc ? argv[at + 1] : "";
    if (strcmp(argv[at], "--errors") == 0) {
      out->errors = true;
      continue;
    }
    if (strcmp(argv[at], "--reproducible") == 0) {
      faithful_as = MMCI_REPRODUCIBLE_FAITHFUL;
      continue;
    }
    if (strcmp(argv[at], "--on") == 0)
      out->device = value;
    else if (strcmp(argv[at], "--seconds") == 0)
      out->seconds = atof(value);
    else if (strcmp(argv[at], "--seed") == 0)
      random_state = strtoull(value, NULL, 10);
    else if (!(strcmp(argv[at], "--data") == 0 && read_data(value, &out->data)) &&
             !(strcmp(argv[at], "--dtype") == 0 && read_dtype(value, &out->dtype)))
      return -1;
    at++;
  }
  int64_t size[3];
  for (int s = at; s < argc; s++)
    if (!read_size(argv[s], size)) return -1;
  return at <= argc ? at : -1;
}

int main(int argc, char **argv) {
  static const char *const STANDARD[] = {"8192", "4096"};
  request asked;
  mmci_error error = {0};
  mmci_registry *registry = NULL;
  mmci_identity who = {.bus_id = ""};
  const int at = read_request(argc, argv, &asked);
  if (at < 0) {
    fprintf(stderr,
            "usage: bench_residues [--on DEVICE] [--seconds S] [--data KIND] [--dtype T] [N | "
            "MxKxN ...]\n"
            "       bench_residues --errors [--on DEVICE] [--seed SEED] [--data KIND] [N | MxKxN "
            "...]\n");
    return 2;
  }
  check(mmci_registry_create(getenv("MMCHAIN_MODULE_DIR"), &registry, &error), &error);
  check(mmci_registry_open(registry, asked.device, &on, &error), &error);
  check(on.ops->queue_open(on.device, &queue, &error), &error);
  on.ops->identify(on.device, &who);
  const mmci_meter_source source = {.address = who.bus_id};
  if (!asked.errors) check(mmci_meter_nvml.open(&source, &meter, &error), &error);
  const int count = at < argc ? argc - at : (int)(sizeof STANDARD / sizeof *STANDARD);
  int above = 0;
  for (int s = 0; s < count; s++) {
    int64_t size[3];
    if (!read_size(at < argc ? argv[at + s] : STANDARD[s], size)) break; /* they were read before */
    if (asked.errors)
      above += compare(size, asked.data);
    else
      measure(asked.dtype, size, asked.data == FAITHFUL_DATA ? FAITHFUL_NORMAL : asked.data,
              asked.seconds);
  }
  if (!asked.errors) mmci_meter_nvml.close(meter);
  on.ops->queue_close(queue);
  mmci_registry_destroy(registry);
  return above == 0 ? 0 : 1;
}
