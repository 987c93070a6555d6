#include "cost/roofline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/lesser.h"

/* ---- assumed ------------------------------------------------------------------------------- */

mmci_roofline mmci_roofline_assumed(const mmci_facts *facts) {
  return (mmci_roofline){.flops_per_s = facts->flops_per_s,
                         .bytes_per_s = facts->bytes_per_s,
                         .launch_s = facts->launch_s,
                         .half_mn = facts->half_mn,
                         .half_k = facts->half_k,
                         .overlap = facts->overlap,
                         .error = 0.5,
                         .each_s = facts->each_s,
                         .caches = {facts->cache_bytes, facts->cached_bytes_per_s},
                         .share = {facts->workers, facts->share_s},
                         .model = facts->model};
}

mmc_roofline mmci_roofline_public(const mmci_roofline *r) {
  return (mmc_roofline){.flops_per_s = r->flops_per_s,
                        .bytes_per_s = r->bytes_per_s,
                        .launch_s = r->launch_s,
                        .calibrated = r->calibrated};
}

/* ---- predicted ----------------------------------------------------------------------------- */

double mmci_traffic_s(const mmci_caches *caches, double bytes_per_s, double bytes) {
  const double cached = mmci_lesser(bytes, caches->bytes);
  return (bytes > cached ? (bytes - cached) / bytes_per_s : 0) +
         (cached > 0 ? cached / caches->bytes_per_s : 0);
}

double mmci_shared_s(const mmci_share *share, double seconds) {
  if (!(share->least_s > 0)) return seconds;
  const double alone_s = seconds * share->workers;
  if (alone_s < 2 * share->least_s) return alone_s;
  return alone_s / mmci_lesser(floor(alone_s / share->least_s), share->workers);
}

static double seconds_of_batch(const mmci_roofline *r, const mmci_gemm *gemm) {
  double flops = mmci_gemm_flops(gemm), batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  double compute = flops / r->flops_per_s,
         traffic = mmci_traffic_s(&r->caches, r->bytes_per_s, mmci_gemm_bytes(gemm));
  double factor = 1;
  if (r->half_mn > 0)
    factor = (1 + r->half_mn / (double)gemm->m) * (1 + r->half_mn / (double)gemm->n);
  if (flops > 0) compute *= factor * (1 + r->half_k / (double)gemm->k);
  if (r->each_s > 0) compute += batch * r->each_s / r->share.workers;
  compute = mmci_shared_s(&r->share, compute);
  return r->launch_s + mmci_greater(compute, traffic) +
         (1 - r->overlap) * mmci_lesser(compute, traffic);
}

/* One product after the other finds its matrices in the caches, so that all take no longer. */
double mmci_roofline_seconds(const mmci_roofline *r, const mmci_gemm *gemm) {
  const double all_s = seconds_of_batch(r, gemm);
  if (gemm->batch <= 1 || !(r->caches.bytes > 0)) return all_s;
  mmci_gemm one = *gemm;
  one.batch = 1;
  return mmci_lesser(all_s, (double)gemm->batch * seconds_of_batch(r, &one));
}

void mmci_roofline_price(const mmci_roofline *r, const mmci_gemm *gemm, mmci_price *out) {
  const mmci_model *model = &r->model;
  double told = model->seconds != NULL ? model->seconds(model->user, gemm) : (double)NAN;
  bool known = isfinite(told);
  double seconds = known ? told : mmci_roofline_seconds(r, gemm);
  mmci_price_plain(out, seconds, known ? model->error : r->error);
  out->modelled = true;
  out->source = known ? MMCI_SHIPPED : mmci_provenance_of_model(r->calibrated);
}

static void price(const void *user, const mmci_gemm *gemm, mmci_price *out) {
  mmci_roofline_price(user, gemm, out);
}

mmci_pricing mmci_roofline_pricing(const mmci_roofline *roofline) {
  return (mmci_pricing){.user = roofline, .price = price};
}

/* ---- fitted -------------------------------------------------------------------------------- */

/* The parameters that are searched for, as logarithms; a model may be without those of half
 * sizes. */
enum { PEAK, BANDWIDTH, LAUNCH, HALF_MN, HALF_K, PARAMETERS };

typedef struct form {
  bool has[PARAMETERS];
  double overlap;
} form;

typedef struct fit {
  form form;
  double parameters[PARAMETERS];
  double loss;
} fit;

static mmci_roofline roofline_of(const fit *f) {
  const double *p = f->parameters;
  return (mmci_roofline){.flops_per_s = exp(p[PEAK]),
                         .bytes_per_s = exp(p[BANDWIDTH]),
                         .launch_s = exp(p[LAUNCH]),
                         .half_mn = f->form.has[HALF_MN] ? exp(p[HALF_MN]) : 0,
                         .half_k = f->form.has[HALF_K] ? exp(p[HALF_K]) : 0,
                         .overlap = f->form.overlap,
                         .calibrated = true};
}

static double loss_of(const fit *f, const mmci_sample *samples, int count) {
  mmci_roofline r = roofline_of(f);
  double loss = 0;
  for (int s = 0; s < count; s++) {
    double off = log(mmci_roofline_seconds(&r, &samples[s].gemm) / samples[s].seconds);
    loss += off * off;
  }
  return loss / count;
}

/* Returns the best figures that samples reach, where the search begins. */
static fit start_of(const mmci_sample *samples, int count, form form) {
  double flops_per_s = 0, bytes_per_s = 0, launch_s = (double)INFINITY;
  for (int s = 0; s < count; s++) {
    const mmci_gemm *gemm = &samples[s].gemm;
    double seconds = samples[s].seconds;
    flops_per_s = fmax(flops_per_s, mmci_gemm_flops(gemm) / seconds);
    bytes_per_s = fmax(bytes_per_s, mmci_gemm_bytes(gemm) / seconds);
    launch_s = fmin(launch_s, seconds);
  }
  return (fit){.form = form,
               .parameters = {log(flops_per_s), log(bytes_per_s), log(launch_s), log(8), log(8)}};
}

/* Moves one parameter after the other, up or down while that helps, by steps that shrink. */
static void descend(fit *f, const mmci_sample *samples, int count) {
  double step = 1;
  f->loss = loss_of(f, samples, count);
  for (int halving = 0; halving < 10; halving++, step /= 2) {
    for (int round = 0; round < 50; round++) {
      double before = f->loss;
      for (int move = 0; move < 2 * PARAMETERS; move++) {
        double *parameter = &f->parameters[move / 2], kept = *parameter;
        if (!f->form.has[move / 2]) continue;
        *parameter += move % 2 == 0 ? step : -step;
        double loss = loss_of(f, samples, count);
        if (loss < f->loss)
          f->loss = loss;
        else
          *parameter = kept;
      }
      if (!(f->loss < before)) break;
    }
  }
}

/* Returns the relative error that nine of ten samples are below. */
static double error_of(const mmci_roofline *roofline, const mmci_sample *samples, int count) {
  double errors[64];
  int taken = count < 64 ? count : 64;
  for (int s = 0; s < taken; s++)
    errors[s] =
        expm1(fabs(log(mmci_roofline_seconds(roofline, &samples[s].gemm) / samples[s].seconds)));
  qsort(errors, (size_t)taken, sizeof errors[0], mmci_ascending_doubles);
  return errors[taken * 9 / 10 < taken ? taken * 9 / 10 : taken - 1];
}

mmci_roofline mmci_roofline_fit(const mmci_sample *samples, int count) {
  /* One parameter more has to make the loss a tenth smaller. */
  const double worth = 0.9;
  fit best = {.loss = (double)INFINITY};
  for (int shape = 0; shape < 8; shape++) {
    bool has_mn = shape & 1, has_k = shape & 2;
    form form = {.has = {true, true, true, has_mn, has_k}, .overlap = shape & 4 ? 1 : 0};
    fit f = start_of(samples, count, form);
    descend(&f, samples, count);
    f.loss /= pow(worth, has_mn + has_k);
    if (f.loss < best.loss) best = f;
  }
  mmci_roofline fitted = roofline_of(&best);
  fitted.error = error_of(&fitted, samples, count);
  return fitted;
}

/* ---- kept ---------------------------------------------------------------------------------- */

const char *const mmci_roofline_names[MMCI_ROOFLINE_FACTS] = {
    "flops_per_s", "bytes_per_s", "launch_s", "half_mn", "half_k", "overlap", "model_error"};

void mmci_roofline_facts(const mmci_roofline *r, double facts[MMCI_ROOFLINE_FACTS]) {
  const double all[MMCI_ROOFLINE_FACTS] = {r->flops_per_s, r->bytes_per_s, r->launch_s, r->half_mn,
                                           r->half_k,      r->overlap,     r->error};
  memcpy(facts, all, sizeof all);
}

bool mmci_roofline_of_facts(const double facts[MMCI_ROOFLINE_FACTS], mmci_roofline *out) {
  for (int f = 0; f < MMCI_ROOFLINE_FACTS; f++)
    if (!(facts[f] >= 0) || !isfinite(facts[f]) || (f < 3 && !(facts[f] > 0))) return false;
  if (facts[5] > 1) return false;
  *out = (mmci_roofline){.flops_per_s = facts[0],
                         .bytes_per_s = facts[1],
                         .launch_s = facts[2],
                         .half_mn = facts[3],
                         .half_k = facts[4],
                         .overlap = facts[5],
                         .error = facts[6],
                         .calibrated = true};
  return true;
}
