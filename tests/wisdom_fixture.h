/* wisdom_fixture.h: a folder for each test of wisdom, where its store lies. It follows cmocka.h. */
#ifndef MMC_TEST_WISDOM_FIXTURE_H
#define MMC_TEST_WISDOM_FIXTURE_H

#include "wisdom_store.h"

typedef struct fixture {
  char directory[64], path[96];
  mmci_fingerprint here, there;
  mmci_wisdom *wisdom; /* of those that keep it open, else NULL */
  mmci_error error;
} fixture;

static inline int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  if (f == NULL || make_directory(f->directory) != 0) return 1;
  snprintf(f->path, sizeof f->path, "%s/wisdom.db", f->directory);
  f->here = test_fingerprint("this one");
  f->there = test_fingerprint("that one");
  return 0;
}

static inline mmci_wisdom *store(fixture *f) {
  mmci_wisdom *wisdom = NULL;
  assert_int_equal(mmci_wisdom_create(f->path, &wisdom, NULL), MMC_OK);
  return wisdom;
}

static inline int tear_down(void **state) {
  fixture *f = *state;
  mmci_wisdom_destroy(f->wisdom);
  remove_directory(f->directory);
  free(f);
  return 0;
}

static inline mmc_status put_product(fixture *f, mmci_wisdom *wisdom, int64_t m) {
  mmci_wisdom_record record = test_product(&f->here, m);
  f->error.text[0] = '\0';
  return mmci_wisdom_put(wisdom, &record, &f->error);
}

#endif
