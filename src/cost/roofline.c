#include "cost/roofline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- assumed ------------------------------------------------------------------------------- */

/* By the bytes of a real number; 0: f32 and c64 on tensor cores. */
typedef struct assumption {
  const char *device;
  double flops_per_s[9];
  double bytes_per_s, launch_s, half_size;
} assumption;

static const assumption assumptions[] = {
    {"ref", {[2] = 2e8, [4] = 1e9, [8] = 1e9}, 5e9, 2e-7, 0},
    {"cuda", {[0] = 4e14, [2] = 8e14, [4] = 5e13, [8] = 5e13}, 2.5e12, 5e-6, 64},
    {"", {[2] = 2e10, [4] = 1e11, [8] = 5e10}, 1e10, 3e-7, 4},
};

static size_t real_bytes(mmc_dtype dtype) {
  size_t bytes = mmc_dtype_size(dtype);
  return dtype == MMC_C64 || dtype == MMC_C128 ? bytes / 2 : bytes;
}

mmci_roofline mmci_roofline_assumed(const char *device, mmc_dtype dtype, mmci_precision precision) {
  const assumption *a = assumptions;
  while (a->device[0] != '\0' && strcmp(a->device, device) != 0) a++;
  size_t bytes = real_bytes(dtype);
  bool tensor = bytes == 4 && precision == MMCI_FAST && a->flops_per_s[0] > 0;
  return (mmci_roofline){.flops_per_s = a->flops_per_s[tensor ? 0 : bytes],
                         .bytes_per_s = a->bytes_per_s,
                         .launch_s = a->launch_s,
                         .half_size = a->half_size,
                         .error = 0.5};
}

/* ---- predicted ----------------------------------------------------------------------------- */

static double bytes_of(const mmci_gemm *gemm) {
  double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  return (double)mmc_dtype_size(gemm->dtype) * (m * k + k * n + m * n);
}

double mmci_roofline_seconds(const mmci_roofline *roofline, const mmci_gemm *gemm) {
  double h = roofline->half_size, flops = mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n);
  double compute = flops / roofline->flops_per_s;
  if (flops > 0)
    compute *= (1 + h / (double)gemm->m) * (1 + h / (double)gemm->k) * (1 + h / (double)gemm->n);
  return roofline->launch_s + fmax(compute, bytes_of(gemm) / roofline->bytes_per_s);
}

/* ---- fitted -------------------------------------------------------------------------------- */

enum { FITTED = 4 };

static double loss_of(const double log_parameters[FITTED], bool halved, const mmci_sample *samples,
                      int count) {
  mmci_roofline r = {.flops_per_s = exp(log_parameters[0]),
                     .bytes_per_s = exp(log_parameters[1]),
                     .launch_s = exp(log_parameters[2]),
                     .half_size = halved ? exp(log_parameters[3]) : 0};
  double loss = 0;
  for (int s = 0; s < count; s++) {
    double off = log(mmci_roofline_seconds(&r, &samples[s].gemm) / samples[s].seconds);
    loss += off * off;
  }
  return loss / count;
}

/* What the samples reach is where the search for the best begins. */
static void start_of(const mmci_sample *samples, int count, double log_parameters[FITTED]) {
  double flops_per_s = 0, bytes_per_s = 0, launch_s = (double)INFINITY;
  for (int s = 0; s < count; s++) {
    const mmci_gemm *gemm = &samples[s].gemm;
    double seconds = samples[s].seconds;
    flops_per_s = fmax(flops_per_s, mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / seconds);
    bytes_per_s = fmax(bytes_per_s, bytes_of(gemm) / seconds);
    launch_s = fmin(launch_s, seconds);
  }
  log_parameters[0] = log(flops_per_s);
  log_parameters[1] = log(bytes_per_s);
  log_parameters[2] = log(launch_s);
  log_parameters[3] = log(8);
}

/* One parameter after the other is moved either way while that helps, by steps that shrink. */
static double descend(double log_parameters[FITTED], bool halved, const mmci_sample *samples,
                      int count) {
  double least = loss_of(log_parameters, halved, samples, count);
  for (double step = 1; step > 1e-3; step /= 2) {
    for (int round = 0; round < 50; round++) {
      double before = least;
      for (int move = 0; move < 2 * FITTED; move++) {
        double *parameter = &log_parameters[move / 2], kept = *parameter;
        *parameter += move % 2 == 0 ? step : -step;
        double loss = loss_of(log_parameters, halved, samples, count);
        if (loss < least)
          least = loss;
        else
          *parameter = kept;
      }
      if (!(least < before)) break;
    }
  }
  return least;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The relative error that nine of ten samples are below. */
static double error_of(const mmci_roofline *roofline, const mmci_sample *samples, int count) {
  double errors[64];
  int taken = count < 64 ? count : 64;
  for (int s = 0; s < taken; s++)
    errors[s] =
        expm1(fabs(log(mmci_roofline_seconds(roofline, &samples[s].gemm) / samples[s].seconds)));
  qsort(errors, (size_t)taken, sizeof errors[0], ascending);
  return errors[taken * 9 / 10 < taken ? taken * 9 / 10 : taken - 1];
}

mmci_roofline mmci_roofline_fit(const mmci_sample *samples, int count) {
  double flat[FITTED], halved[FITTED];
  start_of(samples, count, flat);
  memcpy(halved, flat, sizeof halved);
  /* A parameter more has to earn its place. */
  bool pays = descend(halved, true, samples, count) < 0.9 * descend(flat, false, samples, count);
  const double *best = pays ? halved : flat;
  mmci_roofline fitted = {.flops_per_s = exp(best[0]),
                          .bytes_per_s = exp(best[1]),
                          .launch_s = exp(best[2]),
                          .half_size = pays ? exp(best[3]) : 0,
                          .calibrated = true};
  fitted.error = error_of(&fitted, samples, count);
  return fitted;
}

/* ---- kept ---------------------------------------------------------------------------------- */

const char *const mmci_roofline_names[MMCI_ROOFLINE_FACTS] = {
    "flops_per_s", "bytes_per_s", "launch_s", "half_size", "model_error"};

void mmci_roofline_facts(const mmci_roofline *roofline, double facts[MMCI_ROOFLINE_FACTS]) {
  facts[0] = roofline->flops_per_s;
  facts[1] = roofline->bytes_per_s;
  facts[2] = roofline->launch_s;
  facts[3] = roofline->half_size;
  facts[4] = roofline->error;
}

bool mmci_roofline_of_facts(const double facts[MMCI_ROOFLINE_FACTS], mmci_roofline *out) {
  for (int f = 0; f < MMCI_ROOFLINE_FACTS; f++)
    if (!(facts[f] >= 0) || !isfinite(facts[f]) || (f < 3 && !(facts[f] > 0))) return false;
  *out = (mmci_roofline){.flops_per_s = facts[0],
                         .bytes_per_s = facts[1],
                         .launch_s = facts[2],
                         .half_size = facts[3],
                         .error = facts[4],
                         .calibrated = true};
  return true;
}
