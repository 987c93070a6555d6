/* told.h: what a search tells of its progress. */
#ifndef MMC_TEST_TOLD_H
#define MMC_TEST_TOLD_H

#include <string.h>

#include "synthetic.h"

enum { TOLD = 40000 };

typedef struct told_report {
  const char *unit;
  int64_t decided, count;
} told_report;

typedef struct told {
  const synthetic *s;
  double stop_s; /* the clock at which to stop; 0: never */
  int count;
  told_report reports[TOLD];
} told;

static inline int told_listen(void *user, const char *unit, int64_t decided, int64_t count) {
  told *t = (told *)user;
  if (t->count == TOLD) return 1;
  t->reports[t->count++] = (told_report){unit, decided, count};
  return t->stop_s > 0 && t->s->clock_s >= t->stop_s;
}

/* Of each unit the count stays and what is decided grows but is never all; units follow each other
 * in the order given, some left out. */
static inline void told_expect_order(const told *t, const char *const *units, int unit_count) {
  int at = 0;
  assert_true(t->count > 0 && t->count < TOLD);
  for (int r = 0; r < t->count; r++) {
    const told_report *now = &t->reports[r], *before = r > 0 ? now - 1 : now;
    while (at < unit_count && strcmp(now->unit, units[at]) != 0) at++;
    bool same = strcmp(now->unit, before->unit) == 0;
    if (at == unit_count || !(now->decided >= 0 && now->decided < now->count) ||
        (same && (now->count != before->count || now->decided < before->decided)))
      fail_msg("report %d of %d: %lld of %lld %s", r, t->count, (long long)now->decided,
               (long long)now->count, now->unit);
  }
}

/* Every number from 0 to below count is told of the unit. */
static inline void told_expect_all(const told *t, const char *unit, int64_t count) {
  int64_t next = 0;
  for (int r = 0; r < t->count; r++) {
    if (strcmp(t->reports[r].unit, unit) != 0) continue;
    assert_int_equal(t->reports[r].count, count);
    next += t->reports[r].decided == next;
  }
  assert_int_equal(next, count);
}

#endif
