/* facts.h: what a machine is taken to do before anything was measured on it.
 *
 * A device tells these facts for each dtype and precision (facts() of device.h), cost prices
 * products, groups and joules by them, and what tuning measures takes their place. All of them
 * describe the whole device, and flops are real ones. */
#ifndef MMCI_FACTS_H
#define MMCI_FACTS_H

#include "chain/gemm.h"

/* Returns what variant 1, 2 ... of products of a dtype is called, as kernel_name() of device.h
 * calls it: static text of letters, digits, '_', '.' and blanks, none twice; "" where this dtype
 * does not have the variant, and NULL past the last. Texts that are kept name a variant so. */
typedef const char *(*mmci_variant_name_fn)(mmc_dtype dtype, int variant);

/* Pairs of products, (A B) C or A (B C), gain by being one call when they are within all of these
 * bounds, as was measured. The rows that count are those of A in (A B) C and the columns of C in A
 * (B C), times the batch. */
typedef struct mmci_pair_gain {
  int64_t rows;  /* the least rows */
  int64_t width; /* the greatest short side of the intermediate; 0 means no pairs */
  /* The greatest of the other two sides, in (A B) C and in A (B C). */
  int64_t left_side, right_side;
} mmci_pair_gain;

enum { MMCI_PAIR_GAINS = 2 };

/* Says whether a pair, each product given by its m, k and n, is within such bounds; is_left stands
 * for (A B) C. */
static inline bool mmci_pair_gains(const mmci_pair_gain gains[MMCI_PAIR_GAINS], int64_t batch,
                                   const int64_t inner[3], const int64_t outer[3], bool is_left) {
  const double rows = (double)inner[is_left ? 0 : 2] * (double)batch;
  const int64_t width = inner[is_left ? 2 : 0], last = outer[is_left ? 2 : 0],
                side = inner[1] > last ? inner[1] : last;
  for (int p = 0; p < MMCI_PAIR_GAINS; p++)
    if (rows >= (double)gains[p].rows && width <= gains[p].width &&
        side <= (is_left ? gains[p].left_side : gains[p].right_side))
      return true;
  return false;
}

/* What a group takes, by the sum of what its products take as plain calls, where both were measured
 * in turns. */
typedef struct mmci_group_share {
  double time, joules;
} mmci_group_share;

/* A recipe of one call (cost/recipe.h) that surely takes less time than the plain call. */
typedef struct mmci_better {
  int pad, variant;
  double seconds; /* seconds of the product by it, with the copies of its operands */
  double plain_s; /* seconds that the plain call takes at least */
} mmci_better;

/* How long a device itself says that a product takes, launch included, by formulas that were fitted
 * to measurements on such a device. */
typedef struct mmci_model {
  const void *user;
  /* Returns the seconds of a product of variant 0; NAN when not known. The slot may be NULL. */
  double (*seconds)(const void *user, const mmci_gemm *gemm);
  /* Finds a recipe that is surely faster than the plain call, of which more may be known than the
   * device knows: it takes least_s at least (0 where that is not known). Returns false where there
   * is none. The slot may be NULL. */
  bool (*better)(const void *user, const mmci_gemm *gemm, double least_s, mmci_better *out);
  double error; /* relative error of nine of ten products at most */
  /* Relative error of nine of ten groups at most; 0 means that groups are not known. */
  double group_error;
  const char *source; /* static text, for people: "shipped: NVIDIA H200, cuBLAS 13.1" */
} mmci_model;

typedef struct mmci_facts {
  /* These describe a product as one call, by the roofline of cost/roofline.h. */
  double flops_per_s; /* flops per second at the peak; 0 means that the dtype is not multiplied */
  double bytes_per_s; /* bytes per second between memory and arithmetic */
  double launch_s;    /* seconds that every call takes besides */
  double half_mn;     /* the rows, and the columns, of a result at which the peak is halved */
  double half_k;      /* the terms of its sums at which the peak is halved */
  double overlap;     /* 1 when traffic hides behind arithmetic; 0 when it adds to it */
  double each_s;      /* seconds that every product of a batch takes besides */
  /* A worker helps where each then computes for at least so many seconds; 0 means always. */
  double share_s;
  /* So many of the bytes that a call moves lie in caches, which move so many a second; 0 means that
   * none do. */
  double cache_bytes, cached_bytes_per_s;

  /* These describe energy, by the model of cost/energy.h. */
  double static_w, joules_per_flop, joules_per_byte;

  /* These describe several products as one call, by the model of cost/group_time.h. */
  double group_share; /* share of the peak that such a call reaches, in small tiles */
  /* 1 where such a call computes once what all chains of a batch have in common, else 0; a number
   * without gaps behind it, as facts are compared byte by byte. */
  int64_t keeps_common;
  double product_s;  /* seconds that each of its products takes besides its flops */
  double handover_s; /* seconds until a worker has the result of another */
  int32_t workers;   /* threads of a processor, multiprocessors of a GPU */
  int32_t tile;      /* rows and columns of a result that keep one worker busy */
  /* The model holds for groups without a larger dimension than this; of others, those gain of which
   * the device tells so, and pairs within these bounds. 0 means that it holds for all. */
  int64_t modelled_side;
  mmci_pair_gain pairs[MMCI_PAIR_GAINS];

  mmci_model model; /* takes the roofline's place where it knows */

  mmci_variant_name_fn variant_name; /* NULL means that variants have no names */
  int64_t threads; /* threads that compute one product, where that may change; else 0 */
} mmci_facts;

#endif
