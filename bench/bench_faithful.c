/* bench_faithful.c: faithful f32 products against native ones, one JSON line a product: time and
 * joules, both kinds back to back for S seconds (2) on normal data, and the errors of both on the
 * same data, uniform, normal and exp(4N): |d|_F / |C|_F and the greatest |d| / (|A| |B|), of 64
 * rows of C against f64.
 *
 *     bench_faithful [--on DEVICE] [--seconds S] [N | MxKxN ...]
 *
 * Modules are looked for in MMCHAIN_MODULE_DIR. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "device/device.h"
#include "meter/measure.h"

enum { SAMPLE = 64, TABLE = 1 << 20, KINDS = 2, DISTRIBUTIONS = 3 };

static const char *const distribution_names[] = {"uniform", "normal", "wide"};
static const mmci_precision precisions[KINDS] = {MMCI_NATIVE, MMCI_FAITHFUL};

static mmci_opened on;
static mmci_queue *queue;
static mmci_meter *meter;
static float *table; /* random numbers are picked from it */
static uint64_t random_state = 20261121;

static void check(mmc_status status, const mmci_error *error) {
  if (status == MMC_OK) return;
  fprintf(stderr, "bench_faithful: %s\n", error->text);
  exit(1);
}

static void *take(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory != NULL) return memory;
  fprintf(stderr, "bench_faithful: no memory for %zu bytes\n", bytes);
  exit(1);
}

static double next_unit(void) {
  return ((double)(mmci_random_bits(&random_state) >> 11) + 0.5) * 0x1p-53;
}

static void fill_table(int distribution) {
  for (int t = 0; t < TABLE; t++) {
    double normal = sqrt(-2 * log(next_unit())) * cos(6.283185307179586 * next_unit());
    double sign = mmci_random_bits(&random_state) % 2 == 0 ? 1 : -1;
    table[t] = (float)(distribution == 0   ? 2 * next_unit() - 1
                       : distribution == 1 ? normal
                                           : sign * exp(4 * normal));
  }
}

static void fill(float *to, int64_t count) {
  for (int64_t e = 0; e < count; e++) to[e] = table[mmci_random_bits(&random_state) % TABLE];
}

/* ---- the device ------------------------------------------------------------------------------ */

static void *device_take(size_t bytes) {
  mmci_error error = {0};
  void *memory = NULL;
  check(on.ops->alloc(on.device, bytes, &memory, &error), &error);
  return memory;
}

static void copy_bytes(void *to, const void *from, size_t bytes, bool up) {
  mmci_error error = {0};
  const mmci_transfer all = {to, from, (int64_t)bytes, (int64_t)bytes, 1, (int64_t)bytes};
  check((up ? on.ops->async->upload : on.ops->async->download)(queue, &all, &error), &error);
  check(on.ops->sync(queue, &error), &error);
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
  return mmci_gemm_tight(MMC_F32, precision, p->m, p->k, p->n, MMC_OP_N, MMC_OP_N);
}

/* The sample of A B in f64, or of |A| |B|. */
static void multiply_wide(const product *p, bool absolute, double *to) {
  mmci_error error = {0};
  const int64_t rows = sample_of(p), most = (rows > p->n ? rows : p->n) * p->k;
  double *wide = take((size_t)most * sizeof *wide);
  const mmci_gemm gemm =
      mmci_gemm_tight(MMC_F64, MMCI_NATIVE, rows, p->k, p->n, MMC_OP_N, MMC_OP_N);
  for (int64_t e = 0; e < rows * p->k; e++)
    wide[e] = absolute ? fabs((double)p->a[e]) : (double)p->a[e];
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
    if (!(d / p->sums[t] <= e.component)) e.component = d / p->sums[t];
  }
  e.norm = sqrt(off / all);
  return e;
}

static void fill_product(const product *p, int distribution) {
  fill_table(distribution);
  fill(p->a, p->m * p->k);
  fill(p->b, p->k * p->n);
  copy_bytes(p->device_a, p->a, (size_t)(p->m * p->k) * sizeof *p->a, true);
  copy_bytes(p->device_b, p->b, (size_t)(p->k * p->n) * sizeof *p->b, true);
}

static product product_create(int64_t m, int64_t k, int64_t n) {
  product p = {.m = m, .k = k, .n = n};
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

static int wait_for_all(void *user) {
  (void)user;
  return on.ops->sync(queue, NULL) != MMC_OK;
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

/* A number, or null. */
static void print_number(const char *name, double value) {
  if (isfinite(value))
    printf(", \"%s\": %.6g", name, value);
  else
    printf(", \"%s\": null", name);
}

static void print_errors(const product *p, int distribution) {
  static const char *const kinds[KINDS] = {"native_", ""};
  char name[80];
  for (int kind = 0; kind < KINDS; kind++) {
    errors e = measure_errors(p, kind);
    snprintf(name, sizeof name, "%s_%snorm", distribution_names[distribution], kinds[kind]);
    print_number(name, e.norm);
    snprintf(name, sizeof name, "%s_%scomponent", distribution_names[distribution], kinds[kind]);
    print_number(name, e.component);
  }
}

static void measure(int64_t m, int64_t k, int64_t n, double seconds) {
  product p = product_create(m, k, n);
  const mmci_gemm gemm = gemm_of(&p, MMCI_FAITHFUL);
  mmc_energy energies[KINDS];
  fill_product(&p, 1);
  for (int kind = 0; kind < KINDS; kind++) energies[kind] = measure_energy(&p, kind, seconds);
  printf("{\"bench\": \"faithful\", \"m\": %" PRId64 ", \"k\": %" PRId64 ", \"n\": %" PRId64
         ", \"kernel\": \"%s\"",
         m, k, n, on.ops->kernel_name(on.device, &gemm));
  print_number("native_s", energies[0].seconds);
  print_number("seconds", energies[1].seconds);
  print_number("time_ratio", energies[1].seconds / energies[0].seconds);
  print_number("native_joules", energies[0].joules);
  print_number("joules", energies[1].joules);
  print_number("joules_ratio", energies[1].joules / energies[0].joules);
  print_number("sm_mhz", energies[1].sm_mhz_median);
  for (int distribution = 0; distribution < DISTRIBUTIONS; distribution++) {
    fill_product(&p, distribution);
    multiply_wide(&p, false, p.exact);
    multiply_wide(&p, true, p.sums);
    print_errors(&p, distribution);
  }
  printf("}\n");
  fflush(stdout);
  product_destroy(&p);
}

static bool read_size(const char *text, int64_t size[3]) {
  char after;
  int fields =
      sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &size[0], &size[1], &size[2], &after);
  if (fields == 1) size[1] = size[2] = size[0];
  return (fields == 1 || fields == 3) && size[0] > 0 && size[1] > 0 && size[2] > 0;
}

static void open_all(const char *device, mmci_registry **registry) {
  mmci_error error = {0};
  mmci_identity who = {.bus_id = ""};
  check(mmci_registry_create(getenv("MMCHAIN_MODULE_DIR"), registry, &error), &error);
  check(mmci_registry_open(*registry, device, &on, &error), &error);
  check(on.ops->queue_open(on.device, &queue, &error), &error);
  on.ops->identify(on.device, &who);
  const mmci_meter_source source = {.address = who.bus_id};
  check(mmci_meter_nvml.open(&source, &meter, &error), &error);
}

int main(int argc, char **argv) {
  const char *device = "cuda", *standard[] = {"8192", "4096", "5000x3000x7000"};
  const char *const *sizes = standard;
  int count = sizeof standard / sizeof *standard, first = 1;
  double seconds = 2;
  mmci_registry *registry = NULL;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2)
    if (strcmp(argv[first], "--on") == 0)
      device = argv[first + 1];
    else if (strcmp(argv[first], "--seconds") == 0)
      seconds = atof(argv[first + 1]);
    else
      break;
  if (first < argc) {
    sizes = (const char *const *)(argv + first);
    count = argc - first;
  }
  int64_t size[3];
  for (int s = 0; s < count; s++)
    if (!read_size(sizes[s], size)) {
      fprintf(stderr, "usage: bench_faithful [--on DEVICE] [--seconds S] [N | MxKxN ...]\n");
      return 2;
    }
  open_all(device, &registry);
  table = take(TABLE * sizeof *table);
  for (int s = 0; s < count && read_size(sizes[s], size); s++)
    measure(size[0], size[1], size[2], seconds);
  free(table);
  mmci_meter_nvml.close(meter);
  on.ops->queue_close(queue);
  mmci_registry_destroy(registry);
  return 0;
}
