/* energy.h: the joules of a product where they were not measured, and the ways to compute a product
 * by what they take in time and in energy.
 *
 *     joules = static power * seconds + joules a flop * flops + joules a byte * bytes
 *
 * the roofline of energy of Choi, Bedard, Fowler and Vuduc (2013). bytes is one passage over every
 * matrix; static power is what flows whatever is computed. */
#ifndef MMCI_ENERGY_H
#define MMCI_ENERGY_H

#include "chain/facts.h"
#include "cost/pricing.h"

typedef struct mmci_energy_model {
  double static_w, joules_per_flop, joules_per_byte;
  double error;    /* nine of ten predictions are off by this share at most */
  bool calibrated; /* false when by the facts that a device tells */
} mmci_energy_model;

/* Returns the model of a device that tells these facts and was not measured. It is taken to be off
 * by a factor of two at most. */
mmci_energy_model mmci_energy_assumed(const mmci_facts *facts);

/* Returns the joules of one call that takes so many seconds, flops and bytes, whatever products are
 * in it. */
double mmci_energy_of_work(const mmci_energy_model *model, double seconds, double flops,
                           double bytes);
/* Returns the joules of a product that takes so many seconds. */
double mmci_energy_joules(const mmci_energy_model *model, const mmci_gemm *gemm, double seconds);

/* A product that was measured. */
typedef struct mmci_energy_sample {
  mmci_gemm gemm;
  double seconds, joules;
} mmci_energy_sample;

/* Returns the model of least squared relative error over count >= 1 samples. None of its terms is
 * negative. */
mmci_energy_model mmci_energy_fit(const mmci_energy_sample *samples, int count);

/* These are the numbers of a model, and their names, as wisdom keeps them. */
enum { MMCI_ENERGY_FACTS = 4 };
extern const char *const mmci_energy_names[MMCI_ENERGY_FACTS];
void mmci_energy_facts(const mmci_energy_model *model, double facts[MMCI_ENERGY_FACTS]);
/* Reads those numbers, which may come from anywhere. Returns false, and leaves out as it was, when
 * they are none of a model. */
bool mmci_energy_of_facts(const double facts[MMCI_ENERGY_FACTS], mmci_energy_model *out);

/* ---- ways ---------------------------------------------------------------------------------- */

/* One way to compute a product. */
typedef struct mmci_way {
  mmci_price time; /* seconds of the product, and its recipe */
  double joules;
  double error;  /* the relative error that joules are thought to have at most */
  bool modelled; /* errors of joules come from one model, so those of several products add up */
  mmci_provenance source; /* source of joules */
} mmci_way;

/* The three ways are that of a plan for time, the one of fewest joules, and the plain call. */
enum { MMCI_WAYS = 3 };

/* A source of ways. It never changes, so threads may share it. */
typedef struct mmci_energy_pricing {
  const void *user;
  /* Writes the ways, the first as a plan for time does it, and returns how many there are, at least
   * 1. gemm has variant 0 and does not accumulate. */
  int (*ways)(const void *user, const mmci_gemm *gemm, mmci_way out[MMCI_WAYS]);
  mmci_energy_model model; /* gives the joules of what was not measured */
} mmci_energy_pricing;

#endif
