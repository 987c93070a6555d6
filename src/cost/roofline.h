/* roofline.h: the time of a product where nothing like it was measured.
 *
 *     seconds = launch + max(compute, traffic) + (1 - overlap) min(compute, traffic)
 *     compute = flops / peak (1 + h/m) (1 + h/n) (1 + g/k)
 *     traffic = bytes / bandwidth
 *
 * the roofline of Williams, Waterman and Patterson (2009) with a time that every call takes, and an
 * efficiency that grows with the sizes: h and g are those at which an axis alone halves it. bytes
 * is one passage over every matrix; traffic hides behind arithmetic (overlap 1) or adds to it (0).
 * Flops and bytes are those of a whole batch, which is one call. Where a device says so, the first
 * bytes move at the rate of its caches, every product of a batch takes a time of its own, and few
 * flops keep few of its workers busy. */
#ifndef MMCI_ROOFLINE_H
#define MMCI_ROOFLINE_H

#include "chain/facts.h"
#include "cost/pricing.h"

/* The first bytes of a call lie in caches, which move so many a second. */
typedef struct mmci_caches {
  double bytes, bytes_per_s;
} mmci_caches;

/* A worker helps where each of them then computes for at least so many seconds; 0 means always. */
typedef struct mmci_share {
  int32_t workers;
  double least_s;
} mmci_share;

typedef struct mmci_roofline {
  double flops_per_s, bytes_per_s, launch_s;
  double half_mn, half_k; /* h and g; 0 stands for the same efficiency at all sizes */
  double overlap;         /* 1 when traffic hides behind arithmetic, 0 when it adds to it */
  double error;           /* nine of ten predictions are off by this share at most */
  bool calibrated;        /* false when by the facts that a device tells */
  /* What a device tells of itself beside that; all 0 where it was calibrated. */
  double each_s;
  mmci_caches caches;
  mmci_share share;
  mmci_model model; /* what it knows of a product takes the roofline's place */
} mmci_roofline;

/* Returns the roofline of a device that tells these facts and was not measured. It is taken to be
 * off by half at most. */
mmci_roofline mmci_roofline_assumed(const mmci_facts *facts);

/* Returns what callers of the library are told of a roofline. */
mmc_roofline mmci_roofline_public(const mmci_roofline *roofline);

/* Predicts the seconds of a product by one plain call. */
double mmci_roofline_seconds(const mmci_roofline *roofline, const mmci_gemm *gemm);

/* Returns the seconds in which so many bytes move, those that lie in no cache at this rate. */
double mmci_traffic_s(const mmci_caches *caches, double bytes_per_s, double bytes);

/* Returns the seconds of work that would keep all workers busy for so many. */
double mmci_shared_s(const mmci_share *share, double seconds);

/* Writes the price of a product by one plain call; and returns a source of such prices, which is
 * valid while the roofline is there. */
void mmci_roofline_price(const mmci_roofline *roofline, const mmci_gemm *gemm, mmci_price *out);
mmci_pricing mmci_roofline_pricing(const mmci_roofline *roofline);

/* A product that was timed. */
typedef struct mmci_sample {
  mmci_gemm gemm;
  double seconds;
} mmci_sample;

/* Returns the roofline of least squared error, of logarithms, over count >= 1 samples. It has half
 * sizes only where they make that error less by a tenth. */
mmci_roofline mmci_roofline_fit(const mmci_sample *samples, int count);

/* These are the numbers of a roofline, and their names, as wisdom keeps them. */
enum { MMCI_ROOFLINE_FACTS = 7 };
extern const char *const mmci_roofline_names[MMCI_ROOFLINE_FACTS];
void mmci_roofline_facts(const mmci_roofline *roofline, double facts[MMCI_ROOFLINE_FACTS]);
/* Reads those numbers, which may come from anywhere. Returns false, and leaves out as it was, when
 * they are none of a roofline. */
bool mmci_roofline_of_facts(const double facts[MMCI_ROOFLINE_FACTS], mmci_roofline *out);

#endif
