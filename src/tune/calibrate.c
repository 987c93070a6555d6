#include "tune/calibrate.h"

#include <math.h>

/* m, k, n, in the order of their flops. The skinny ones read or write as fast as the memory can. */
static const int64_t shapes[][3] = {
    {1, 1, 1},        {16, 16, 16},     {1, 1024, 64},      {64, 64, 64},       {1, 1024, 1024},
    {128, 128, 128},  {1024, 4, 1024},  {8, 1024, 1024},    {4096, 4096, 1},    {1, 4096, 4096},
    {256, 256, 256},  {2048, 8, 2048},  {16, 4096, 512},    {4096, 16, 1024},   {512, 512, 512},
    {32, 4096, 4096}, {4096, 32, 4096}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const double longest_s = 0.005;

/* Returns flops a second of a sample. Short samples say nothing about them, as most of their time
 * is the call. */
static double pace_of(const mmci_sample *sample) {
  const mmci_gemm *gemm = &sample->gemm;
  if (sample->seconds < longest_s / 20) return 0;
  return mmci_flops(gemm->dtype, gemm->m, gemm->k, gemm->n) / sample->seconds;
}

mmc_status mmci_calibrate(mmci_tuner *tuner, mmc_dtype dtype, mmci_precision precision,
                          mmci_roofline *out, mmci_error *error) {
  mmci_sample samples[SHAPES];
  mmci_recipe plain = mmci_recipe_whole(0);
  int count = 0;
  double best_pace = 0;
  for (int s = 0; s < SHAPES; s++) {
    mmci_gemm gemm = mmci_gemm_tight(dtype, precision, shapes[s][0], shapes[s][1], shapes[s][2],
                                     MMC_OP_N, MMC_OP_N);
    double flops = mmci_flops(dtype, gemm.m, gemm.k, gemm.n);
    if (best_pace > 0 && flops > longest_s * best_pace) continue;
    mmci_measured measured;
    mmci_tuner_reached(tuner, "samples", s, SHAPES);
    mmc_status status = mmci_tuner_ask(tuner, MMCI_ASK_TIME, &gemm, &plain, &measured, error);
    if (status != MMC_OK) return status;
    /* The machine does not support the measurement. */
    if (!isfinite(measured.seconds.value)) continue;
    samples[count++] = (mmci_sample){.gemm = gemm, .seconds = measured.seconds.value};
    best_pace = fmax(best_pace, pace_of(&samples[count - 1]));
  }
  if (count == 0)
    return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device", "expected one that multiplies %s",
                              mmc_dtype_name(dtype));
  *out = mmci_roofline_fit(samples, count);
  return MMC_OK;
}
