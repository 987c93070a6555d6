#include "cost/energy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"

/* ---- assumed ------------------------------------------------------------------------------- */

mmci_energy_model mmci_energy_assumed(const mmci_facts *facts) {
  return (mmci_energy_model){.static_w = facts->static_w,
                             .joules_per_flop = facts->joules_per_flop,
                             .joules_per_byte = facts->joules_per_byte,
                             .error = 1};
}

double mmci_energy_of_work(const mmci_energy_model *model, double seconds, double flops,
                           double bytes) {
  return model->static_w * seconds + model->joules_per_flop * flops +
         model->joules_per_byte * bytes;
}

double mmci_energy_joules(const mmci_energy_model *model, const mmci_gemm *gemm, double seconds) {
  return mmci_energy_of_work(model, seconds, mmci_gemm_flops(gemm), mmci_gemm_bytes(gemm));
}

/* ---- fitted -------------------------------------------------------------------------------- */

enum { TERMS = 3 };

/* Computes which share of a sample's joules a watt, a joule a flop and a joule a byte each give;
 * the right terms make them add up to 1. */
static void shares_of(const mmci_energy_sample *sample, double shares[TERMS]) {
  const mmci_gemm *gemm = &sample->gemm;
  shares[0] = sample->seconds / sample->joules;
  shares[1] = mmci_gemm_flops(gemm) / sample->joules;
  shares[2] = mmci_gemm_bytes(gemm) / sample->joules;
}

/* The normal equations; each term has a unit of its own, so that all are of one size. */
typedef struct equations {
  double unit[TERMS], matrix[TERMS][TERMS], right[TERMS];
} equations;

static equations equations_of(const mmci_energy_sample *samples, int count) {
  equations e = {0};
  double shares[TERMS];
  for (int s = 0; s < count; s++) {
    shares_of(&samples[s], shares);
    for (int t = 0; t < TERMS; t++) e.unit[t] = fmax(e.unit[t], shares[t]);
  }
  for (int s = 0; s < count; s++) {
    shares_of(&samples[s], shares);
    for (int t = 0; t < TERMS; t++) shares[t] = e.unit[t] > 0 ? shares[t] / e.unit[t] : 0;
    for (int t = 0; t < TERMS; t++) {
      e.right[t] += shares[t];
      for (int u = 0; u < TERMS; u++) e.matrix[t][u] += shares[t] * shares[u];
    }
  }
  return e;
}

/* Solves for the terms in support, a set of bits; the others are 0. Returns false when the samples
 * do not tell them apart. Otherwise the matrix is positive definite, so elimination exchanges no
 * rows. */
static bool solve_terms(const equations *e, unsigned support, double terms[TERMS]) {
  const double least_pivot = 1e-9;
  double rows[TERMS][TERMS + 1];
  for (int t = 0; t < TERMS; t++) {
    bool has = support >> t & 1;
    for (int u = 0; u < TERMS; u++)
      rows[t][u] = has && (support >> u & 1) ? e->matrix[t][u] : t == u;
    rows[t][TERMS] = has ? e->right[t] : 0;
  }
  for (int t = 0; t < TERMS; t++) {
    if (!(rows[t][t] > least_pivot)) return false;
    for (int below = t + 1; below < TERMS; below++) {
      double factor = rows[below][t] / rows[t][t];
      for (int u = t; u <= TERMS; u++) rows[below][u] -= factor * rows[t][u];
    }
  }
  for (int t = TERMS - 1; t >= 0; t--) {
    terms[t] = rows[t][TERMS];
    for (int u = t + 1; u < TERMS; u++) terms[t] -= rows[t][u] * terms[u];
    terms[t] /= rows[t][t];
  }
  return true;
}

static mmci_energy_model model_of(const equations *e, const double terms[TERMS]) {
  double value[TERMS];
  for (int t = 0; t < TERMS; t++) value[t] = e->unit[t] > 0 ? terms[t] / e->unit[t] : 0;
  return (mmci_energy_model){.static_w = value[0],
                             .joules_per_flop = value[1],
                             .joules_per_byte = value[2],
                             .calibrated = true};
}

/* Returns the predicted joules divided by the measured ones, less 1. */
static double off_by(const mmci_energy_model *model, const mmci_energy_sample *sample) {
  return mmci_energy_joules(model, &sample->gemm, sample->seconds) / sample->joules - 1;
}

static double error_of(const mmci_energy_model *model, const mmci_energy_sample *samples,
                       int count) {
  double errors[64];
  int taken = count < 64 ? count : 64;
  for (int s = 0; s < taken; s++) errors[s] = fabs(off_by(model, &samples[s]));
  qsort(errors, (size_t)taken, sizeof errors[0], mmci_ascending_doubles);
  return errors[taken * 9 / 10 < taken ? taken * 9 / 10 : taken - 1];
}

/* The least squares with no negative term solve the equations of the terms that are not 0 (Lawson
 * and Hanson 1974), so all seven sets of the three terms are tried. */
mmci_energy_model mmci_energy_fit(const mmci_energy_sample *samples, int count) {
  equations e = equations_of(samples, count);
  mmci_energy_model best = {.calibrated = true, .error = 1};
  double least = (double)INFINITY, terms[TERMS];
  for (unsigned support = 1; support < 1u << TERMS; support++) {
    if (!solve_terms(&e, support, terms)) continue;
    if (terms[0] < 0 || terms[1] < 0 || terms[2] < 0) continue;
    mmci_energy_model model = model_of(&e, terms);
    double loss = 0;
    for (int s = 0; s < count; s++)
      loss += off_by(&model, &samples[s]) * off_by(&model, &samples[s]);
    if (!(loss < least)) continue;
    least = loss;
    best = model;
  }
  best.error = error_of(&best, samples, count);
  return best;
}

/* ---- kept ---------------------------------------------------------------------------------- */

const char *const mmci_energy_names[MMCI_ENERGY_FACTS] = {"static_w", "joules_per_flop",
                                                          "joules_per_byte", "energy_model_error"};

void mmci_energy_facts(const mmci_energy_model *m, double facts[MMCI_ENERGY_FACTS]) {
  const double all[MMCI_ENERGY_FACTS] = {m->static_w, m->joules_per_flop, m->joules_per_byte,
                                         m->error};
  memcpy(facts, all, sizeof all);
}

bool mmci_energy_of_facts(const double facts[MMCI_ENERGY_FACTS], mmci_energy_model *out) {
  for (int f = 0; f < MMCI_ENERGY_FACTS; f++)
    if (!(facts[f] >= 0) || !isfinite(facts[f])) return false;
  if (!(facts[0] > 0 || facts[1] > 0 || facts[2] > 0)) return false;
  *out = (mmci_energy_model){.static_w = facts[0],
                             .joules_per_flop = facts[1],
                             .joules_per_byte = facts[2],
                             .error = facts[3],
                             .calibrated = true};
  return true;
}
