/* synthetic.h: a machine that is a formula, with noise if wanted and a clock of its own. */
#ifndef MMC_TEST_SYNTHETIC_H
#define MMC_TEST_SYNTHETIC_H

#include <string.h>

#include "random.h"
#include "tune/tuner.h"

enum { SYNTHETIC_SAMPLES = 9, SYNTHETIC_TURNS = 31 };

typedef struct synthetic {
  /* Seconds of one call, in truth. */
  double (*seconds)(const struct synthetic *s, const mmci_gemm *gemm);
  const void *user;
  int variants, queues, pad;
  double least_s;      /* as the machine's */
  double queue_s;      /* what queues cost: forking and joining them */
  double noise, drift; /* relative, of a sample; and how far the whole machine strays, slowly */
  uint64_t random;
  /* What happened. */
  double clock_s, strayed;
  int64_t asked;
} synthetic;

static inline double synthetic_normal(synthetic *s) {
  double radius = sqrt(-2 * log(fabs(random_unit(&s->random))));
  return radius * cos(3.14159265358979323846 * random_unit(&s->random));
}

/* In truth: the longest queue. */
static inline double synthetic_truth(const synthetic *s, const mmci_gemm *gemm,
                                     const mmci_recipe *recipe) {
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  double queues[MMCI_RECIPE_PIECES] = {0}, longest = 0;
  int count = mmci_recipe_pieces(recipe, gemm, pieces);
  for (int i = 0; i < count; i++) queues[pieces[i].queue] += s->seconds(s, &pieces[i].gemm);
  for (int i = 0; i < recipe->queues; i++) longest = fmax(longest, queues[i]);
  return longest + (recipe->queues > 1 ? s->queue_s : 0);
}

static inline double synthetic_sample(synthetic *s, double truth) {
  s->strayed = 0.9 * s->strayed + s->drift * synthetic_normal(s);
  double seconds = truth * exp(s->noise * synthetic_normal(s) + s->strayed);
  s->clock_s += seconds;
  return seconds;
}

static inline mmc_status synthetic_measure(void *user, const mmci_gemm *gemm,
                                           const mmci_recipe *recipe, mmci_measured *out,
                                           mmci_error *error) {
  (void)error;
  synthetic *s = (synthetic *)user;
  double samples[SYNTHETIC_SAMPLES];
  for (int i = 0; i < SYNTHETIC_SAMPLES; i++)
    samples[i] = synthetic_sample(s, synthetic_truth(s, gemm, recipe));
  s->asked++;
  memset(out, 0, sizeof *out);
  out->seconds = mmci_estimate_median(samples, SYNTHETIC_SAMPLES, 0.001);
  return MMC_OK;
}

static inline mmc_status synthetic_compare(void *user, const mmci_gemm *gemm,
                                           const mmci_recipe *recipe, mmci_measured *out,
                                           mmci_error *error) {
  (void)error;
  synthetic *s = (synthetic *)user;
  mmci_recipe whole = mmci_recipe_whole(0);
  double plain[SYNTHETIC_TURNS], other[SYNTHETIC_TURNS], gains[SYNTHETIC_TURNS];
  for (int i = 0; i < SYNTHETIC_TURNS; i++) {
    plain[i] = synthetic_sample(s, synthetic_truth(s, gemm, &whole));
    other[i] = synthetic_sample(s, synthetic_truth(s, gemm, recipe));
    gains[i] = plain[i] / other[i];
  }
  s->asked++;
  memset(out, 0, sizeof *out);
  out->gain = mmci_estimate_median(gains, SYNTHETIC_TURNS, 0.001);
  out->seconds = mmci_estimate_median(other, SYNTHETIC_TURNS, 0.001);
  out->plain_s = mmci_estimate_median(plain, SYNTHETIC_TURNS, 0.001).value;
  return MMC_OK;
}

static inline double synthetic_now(void *user) {
  return ((synthetic *)user)->clock_s;
}

static inline int synthetic_variants(void *user, const mmci_gemm *gemm) {
  (void)gemm;
  return ((synthetic *)user)->variants;
}

static inline mmci_machine synthetic_machine(synthetic *s) {
  return (mmci_machine){.user = s,
                        .queues = s->queues > 1 ? s->queues : 1,
                        .pad = s->pad,
                        .least_s = s->least_s,
                        .now_s = synthetic_now,
                        .variants = synthetic_variants,
                        .measure = synthetic_measure,
                        .compare = synthetic_compare,
                        .confirm = synthetic_compare};
}

static inline mmci_gemm synthetic_gemm(int64_t m, int64_t k, int64_t n) {
  return (mmci_gemm){
      .dtype = MMC_F64, .m = m, .k = k, .n = n, .a = {.ld = k}, .b = {.ld = n}, .ldc = n};
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* Takes as long for a part of a tile as for the whole. Numbers of tiles that wake up a bad kernel
 * are in a table of the machine's, by axis; adding to C costs more, and so does every call. */
enum { MOST_TILES = 16 };
typedef struct tiles {
  int64_t step[3];
  double bad[3][MOST_TILES + 1];
  double call_s, adding;
  double variant[3]; /* times of the others, as a share of the first's */
} tiles;

static inline double tiled_seconds(const synthetic *s, const mmci_gemm *gemm) {
  const tiles *t = (const tiles *)s->user;
  int64_t sizes[3] = {gemm->m, gemm->k, gemm->n};
  double seconds = 1e-5;
  for (int i = 0; i < 3; i++) {
    int64_t count = (sizes[i] + t->step[i] - 1) / t->step[i];
    seconds *= (double)count * t->bad[i][count < MOST_TILES ? count : MOST_TILES];
  }
  if (gemm->accumulate) seconds *= t->adding;
  if (gemm->variant > 0) seconds *= t->variant[gemm->variant - 1];
  return t->call_s + seconds;
}

static inline tiles random_tiles(uint64_t *random, double share_bad) {
  tiles t = {.call_s = 1e-7 + 1e-6 * fabs(random_unit(random)),
             .adding = 1 + 0.2 * fabs(random_unit(random))};
  for (int i = 0; i < 3; i++) {
    t.step[i] = 1 + random_below(random, 8);
    for (int j = 0; j <= MOST_TILES; j++)
      t.bad[i][j] = fabs(random_unit(random)) < share_bad ? 1 + fabs(random_unit(random)) : 1;
    t.variant[i] = 0.7 + 0.6 * fabs(random_unit(random));
  }
  return t;
}

#endif
