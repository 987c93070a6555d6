/* bench_large_tile.c: products by the CUDA device's variants against its own choice (cuBLAS), time
 * and joules, one JSON line a measurement.
 *
 *     bench_large_tile [--dtype f32|f64] [--ops NN|NT|TN|TT] [--seconds S] [--variants V,V,...]
 *               [--turns N] [--least S] MxKxN ...
 *
 * A line has size, variant, kernel, seconds, joules, watts, and time and joules relative to variant
 * 0 of the same run; all kernels of large tiles when none are named. Windows are at least S seconds
 * (2), from tick to tick of the energy counter; with --seconds 0 there are none, and runs are timed
 * alone, the median of N (5) turns of all variants, each of runs of S (0.05) seconds at least. Data
 * are normal. error: the most by which three
 * rows of C differ from variant 0's, over the greatest element there. Modules are looked for in
 * MMCHAIN_MODULE_DIR. Exit status 77: no CUDA device. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/monotonic.h"
#include "base/random.h"
#include "device/device.h"

enum {
  VARIANTS = 64,
  FIRST_LARGE_TILE = 25,
  SHAPES = 6,
  LATER_LARGE_TILE = 36,
  LATER_SHAPES = 2,
  ROWS = 3,
  NORMALS = 1 << 24,
  SKIPPED = 77,
  TURNS = 64
};

typedef struct options {
  mmc_dtype dtype;
  mmc_op ops[2];
  double seconds, least_s;
  int turns, count;
  int variants[VARIANTS];
} options;

typedef struct bench {
  const options *options;
  mmci_opened on;
  mmci_queue *queue;
  mmc_meter *meter;
  mmci_gemm gemm;
  mmci_kernel *kernel;
  void *a, *b, *c;
  double *normals, *rows[2];
  mmci_error error;
} bench;

typedef struct measured {
  double seconds, joules, watts, mhz, error; /* NaN: unknown */
} measured;

/* ---- data ------------------------------------------------------------------------------------ */

static double next_uniform(uint64_t *state) {
  return ((double)(mmci_random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

/* Normal numbers of the dtype (Box and Muller 1958). */
static void fill_normals(void *values, mmc_dtype dtype) {
  uint64_t state = 1;
  for (int64_t i = 0; i < NORMALS; i++) {
    double x = sqrt(-2 * log(next_uniform(&state))) * cos(6.283185307179586 * next_uniform(&state));
    if (dtype == MMC_F64)
      ((double *)values)[i] = x;
    else
      ((float *)values)[i] = (float)x;
  }
}

/* An operand of count numbers: the normal ones again and again, from another place on each time. */
static mmc_status upload_normals(bench *x, int64_t count, uint64_t seed, void **out) {
  const int64_t size = (int64_t)mmc_dtype_size(x->options->dtype);
  mmc_status status = x->on.ops->alloc(x->on.device, (size_t)(count * size), out, &x->error);
  for (int64_t at = 0; at < count && status == MMC_OK;) {
    int64_t from = (int64_t)(mmci_random_bits(&seed) % (NORMALS / 2)), length = NORMALS - from;
    if (length > count - at) length = count - at;
    const int64_t bytes = length * size;
    mmci_transfer transfer = {
        (char *)*out + at * size, (char *)x->normals + from * size, bytes, bytes, 1, bytes};
    status = x->on.ops->async->upload(x->queue, &transfer, &x->error);
    at += length;
  }
  return status == MMC_OK ? x->on.ops->sync(x->queue, &x->error) : status;
}

static mmc_status download_rows(bench *x, double *rows) {
  const int64_t size = (int64_t)mmc_dtype_size(x->options->dtype), n = x->gemm.n;
  const int64_t at[ROWS] = {0, x->gemm.m / 2, x->gemm.m - 1};
  mmc_status status = MMC_OK;
  for (int r = 0; r < ROWS && status == MMC_OK; r++) {
    mmci_transfer transfer = {(char *)rows + r * n * size,
                              (char *)x->c + at[r] * n * size,
                              n * size,
                              n * size,
                              1,
                              n * size};
    status = x->on.ops->async->download(x->queue, &transfer, &x->error);
  }
  return status == MMC_OK ? x->on.ops->sync(x->queue, &x->error) : status;
}

static double difference(const bench *x) {
  double most = 0, greatest = 0;
  for (int64_t i = 0; i < ROWS * x->gemm.n; i++) {
    double y = 0, z = 0;
    if (x->options->dtype == MMC_F64) {
      y = x->rows[0][i];
      z = x->rows[1][i];
    } else {
      y = (double)((const float *)x->rows[0])[i];
      z = (double)((const float *)x->rows[1])[i];
    }
    if (!(fabs(y - z) <= most)) most = fabs(y - z);
    greatest = fmax(greatest, fabs(y));
  }
  return most / greatest;
}

/* ---- one measurement ------------------------------------------------------------------------- */

static int work(void *user) {
  bench *x = user;
  return x->on.ops->enqueue(x->queue, x->kernel, x->a, x->b, x->c, &x->error) != MMC_OK;
}

static int wait_for(void *user) {
  bench *x = user;
  return x->on.ops->sync(x->queue, &x->error) != MMC_OK;
}

/* Seconds of a run of the prepared kernel, of as many as take long enough. */
static double time_runs(bench *x) {
  for (int runs = 1;; runs *= 4) {
    double begin = mmci_now_s();
    for (int r = 0; r < runs; r++)
      if (work(x) != 0) return (double)NAN;
    if (wait_for(x) != 0) return (double)NAN;
    double seconds = mmci_now_s() - begin;
    if (seconds >= x->options->least_s || runs >= 1 << 20) return seconds / runs;
  }
}

static mmc_status energy(bench *x, measured *out) {
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  mmc_energy energy = {0};
  options.min_s = x->options->seconds;
  options.idle_s = 0;
  options.work = work;
  options.wait = wait_for;
  options.user = x;
  mmc_status status = mmc_meter_measure(x->meter, &options, &energy);
  if (status != MMC_OK || !energy.measured) return status;
  out->seconds = energy.seconds;
  out->joules = energy.joules;
  out->watts = energy.watts;
  out->mhz = energy.sm_mhz_median;
  return MMC_OK;
}

/* Prepares a variant and does it once; false when there is none. */
static bool prepare(bench *x, int variant) {
  x->gemm.variant = variant;
  return x->on.ops->prepare(x->on.device, &x->gemm, &x->kernel, &x->error) == MMC_OK;
}

static void print(const bench *x, const measured *m, const measured *first) {
  const mmci_gemm *g = &x->gemm;
  const struct {
    const char *name;
    double value;
  } fields[] = {{"seconds", m->seconds},
                {"joules", m->joules},
                {"watts", m->watts},
                {"sm_mhz", m->mhz},
                {"time_ratio", m->seconds / first->seconds},
                {"joules_ratio", m->joules / first->joules},
                {"tflops", 2e-12 * (double)g->m * (double)g->k * (double)g->n / m->seconds},
                {"error", m->error}};
  printf("{\"bench\": \"large_tile\", \"dtype\": \"%s\", \"m\": %" PRId64 ", \"k\": %" PRId64
         ", \"n\": %" PRId64 ", \"ops\": \"%c%c\", \"variant\": %d, \"kernel\": \"%s\"",
         mmc_dtype_name(g->dtype), g->m, g->k, g->n, g->a.trans ? 'T' : 'N', g->b.trans ? 'T' : 'N',
         g->variant, x->on.ops->kernel_name(x->on.device, g));
  for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
    if (isfinite(fields[f].value))
      printf(", \"%s\": %.5g", fields[f].name, fields[f].value);
    else
      printf(", \"%s\": null", fields[f].name);
  }
  printf("}\n");
  fflush(stdout);
}

/* All variants of one product, in turns; results says which there are. */
static mmc_status measure_all(bench *x, measured results[VARIANTS], bool there[VARIANTS]) {
  const options *o = x->options;
  double seconds[VARIANTS][TURNS];
  for (int turn = 0; turn < (o->seconds > 0 ? 1 : o->turns); turn++)
    for (int v = 0; v < o->count; v++) {
      there[v] = prepare(x, o->variants[v]);
      if (!there[v]) continue;
      measured *m = &results[v];
      mmc_status status = work(x) == 0 ? download_rows(x, x->rows[v > 0]) : x->error.status;
      if (turn == 0) *m = (measured){(double)NAN, (double)NAN, (double)NAN, (double)NAN, 0};
      if (status == MMC_OK) m->error = difference(x);
      if (v == 0) m->error = 0;
      if (status == MMC_OK && o->seconds > 0) status = energy(x, m);
      if (status == MMC_OK && o->seconds <= 0) seconds[v][turn] = time_runs(x);
      x->on.ops->release(x->kernel);
      if (status != MMC_OK) return status;
    }
  for (int v = 0; v < o->count && o->seconds <= 0; v++) {
    if (!there[v]) continue;
    qsort(seconds[v], (size_t)o->turns, sizeof(double), mmci_ascending_doubles);
    results[v].seconds = seconds[v][o->turns / 2];
  }
  return MMC_OK;
}

static mmc_status bench_size(bench *x, int64_t m, int64_t k, int64_t n) {
  const options *o = x->options;
  const mmci_device_ops *ops = x->on.ops;
  const size_t size = mmc_dtype_size(o->dtype);
  measured results[VARIANTS];
  bool there[VARIANTS] = {false};
  x->gemm = mmci_gemm_tight(o->dtype, MMCI_NATIVE, m, k, n, o->ops[0], o->ops[1]);
  x->a = x->b = x->c = NULL;
  mmc_status status = upload_normals(x, m * k, 1, &x->a);
  if (status == MMC_OK) status = upload_normals(x, k * n, 2, &x->b);
  if (status == MMC_OK) status = ops->alloc(x->on.device, (size_t)(m * n) * size, &x->c, &x->error);
  for (int r = 0; r < 2; r++) {
    x->rows[r] = calloc((size_t)(ROWS * n), size);
    if (x->rows[r] == NULL) status = MMC_E_NOMEM;
  }
  if (status == MMC_OK) status = measure_all(x, results, there);
  for (int v = 0; v < o->count && status == MMC_OK; v++) {
    x->gemm.variant = o->variants[v];
    if (there[v]) print(x, &results[v], &results[0]);
  }
  for (int r = 0; r < 2; r++) free(x->rows[r]);
  ops->dealloc(x->on.device, x->a);
  ops->dealloc(x->on.device, x->b);
  ops->dealloc(x->on.device, x->c);
  return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool read_options(options *o, int argc, char **argv, int *first) {
  *o = (options){.dtype = MMC_F32, .seconds = 2, .least_s = 0.05, .turns = 5};
  o->variants[o->count++] = 0;
  for (int v = FIRST_LARGE_TILE; v < FIRST_LARGE_TILE + SHAPES; v++) o->variants[o->count++] = v;
  for (int v = LATER_LARGE_TILE; v < LATER_LARGE_TILE + LATER_SHAPES; v++)
    o->variants[o->count++] = v;
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    const char *value = argv[at + 1];
    if (strcmp(argv[at], "--dtype") == 0) {
      o->dtype = strcmp(value, "f64") == 0 ? MMC_F64 : MMC_F32;
    } else if (strcmp(argv[at], "--ops") == 0) {
      for (int x = 0; x < 2; x++) o->ops[x] = value[x] == 'T' ? MMC_OP_T : MMC_OP_N;
    } else if (strcmp(argv[at], "--seconds") == 0) {
      o->seconds = strtod(value, NULL);
    } else if (strcmp(argv[at], "--least") == 0) {
      o->least_s = strtod(value, NULL);
    } else if (strcmp(argv[at], "--turns") == 0) {
      o->turns = (int)strtol(value, NULL, 10);
      if (o->turns < 1 || o->turns > TURNS) return false;
    } else if (strcmp(argv[at], "--variants") == 0) {
      o->count = 1;
      for (char *end; *value != '\0' && o->count < VARIANTS; value = end + (*end == ',')) {
        o->variants[o->count++] = (int)strtol(value, &end, 10);
        if (end == value || (*end != ',' && *end != '\0')) return false;
      }
    } else {
      return false;
    }
  }
  *first = at;
  return at < argc;
}

static mmc_status bench_all(bench *x, char **sizes) {
  mmc_status status = x->on.ops->queue_open(x->on.device, &x->queue, &x->error);
  for (; *sizes != NULL && status == MMC_OK; sizes++) {
    int64_t m, k, n;
    if (sscanf(*sizes, "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &m, &k, &n) != 3 || m < 1 || k < 1 ||
        n < 1)
      status = mmci_fail(&x->error, MMC_E_ARG, "size: expected MxKxN, got '%s'", *sizes);
    else
      status = bench_size(x, m, k, n);
  }
  x->on.ops->queue_close(x->queue);
  return status;
}

int main(int argc, char **argv) {
  options o;
  int first;
  if (!read_options(&o, argc, argv, &first)) {
    fprintf(stderr,
            "usage: bench_large_tile [--dtype f32|f64] [--ops NN] [--seconds S] [--turns N] "
            "[--variants V,V,...] [--least S] MxKxN ...\n");
    return 2;
  }
  bench x = {.options = &o};
  const char *modules = getenv("MMCHAIN_MODULE_DIR");
  mmci_registry *registry = NULL;
  mmc_context *context = NULL;
  mmc_status status = mmci_registry_create(modules != NULL ? modules : "", &registry, &x.error);
  if (status == MMC_OK) status = mmci_registry_open(registry, "cuda", &x.on, &x.error);
  if (status == MMC_E_UNSUPPORTED) {
    printf("skipped: %s\n", x.error.text);
    mmci_registry_destroy(registry);
    return SKIPPED;
  }
  if (status == MMC_OK) status = mmc_context_create(NULL, &context);
  if (status == MMC_OK) status = mmc_meter_open(context, "cuda", &x.meter);
  x.normals = malloc(NORMALS * sizeof(double));
  if (x.normals == NULL) status = MMC_E_NOMEM;
  if (status == MMC_OK) {
    fill_normals(x.normals, o.dtype);
    status = bench_all(&x, argv + first);
  }
  if (status != MMC_OK)
    fprintf(stderr, "bench_large_tile: status %d: %s\n", (int)status, x.error.text);
  free(x.normals);
  mmc_meter_destroy(x.meter);
  mmc_context_destroy(context);
  mmci_registry_destroy(registry);
  return status == MMC_OK ? 0 : 1;
}
