/* told.h: what a search tells of its progress, against what a synthetic machine's clock says. */
#ifndef MMC_TEST_TOLD_H
#define MMC_TEST_TOLD_H

#include <stdio.h>

#include "synthetic.h"

enum { TOLD = 40000 };

typedef struct told {
  const synthetic *s;
  double stop_s; /* the clock at which to stop; 0: never */
  int count;
  struct {
    double at_s, done, left_s;
  } reports[TOLD];
} told;

static inline int told_listen(void *user, double done, double left_s) {
  told *t = (told *)user;
  if (t->count == TOLD) return 1;
  t->reports[t->count].at_s = t->s->clock_s;
  t->reports[t->count].done = done;
  t->reports[t->count++].left_s = left_s;
  return t->stop_s > 0 && t->s->clock_s >= t->stop_s;
}

/* What is wrong with the reports of a session that began with earlier_s of measuring behind it, or
 * NULL: the share done falls, is all or is far from the truth, or the seconds left are none, exceed
 * the budget or are wrong by more than a factor from the middle to nine tenths of the time. */
static inline const char *told_wrong(const told *t, double began_s, double earlier_s,
                                     double budget_s, double factor, double share_off) {
  static char text[200];
  double end_s = t->s->clock_s, all_s = earlier_s + end_s - began_s, before = 0;
  for (int r = 0; r < t->count; r++) {
    double at_s = t->reports[r].at_s, done = t->reports[r].done, left_s = t->reports[r].left_s;
    double truth_s = end_s - at_s, share = 1 - truth_s / all_s;
    const char *what = NULL;
    if (!(done >= before && done < 1)) what = "share";
    if (!(left_s > 0 && left_s <= budget_s - (at_s - began_s) + 1e-12 * budget_s)) what = "seconds";
    if (share >= 0.5 && share < 0.9 && !(left_s <= factor * truth_s && left_s >= truth_s / factor))
      what = "seconds from the middle on";
    if (share >= 0.5 && !(fabs(done - share) <= share_off)) what = "share from the middle on";
    before = done;
    if (what == NULL) continue;
    snprintf(text, sizeof text, "%s: told %g and %g s at %g of %g s; report %d of %d", what, done,
             left_s, all_s - truth_s, all_s, r, t->count);
    return text;
  }
  return t->count > 0 ? NULL : "nothing was told";
}

#endif
