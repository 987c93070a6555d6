/* wisdom_store.h: stores and records for the tests of wisdom. */
#ifndef MMC_TEST_WISDOM_STORE_H
#define MMC_TEST_WISDOM_STORE_H

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "random.h"
#include "wisdom/wisdom.h"

/* ---- places -------------------------------------------------------------------------------- */

/* A new empty directory; directory is where its name goes. In memory where that can be had: waiting
 * for a disk is no part of any test. */
static inline int make_directory(char directory[64]) {
  snprintf(directory, 64, "%s/mmchain-test-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  return mkdtemp(directory) != NULL ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *status, int type,
                               struct FTW *at) {
  (void)status, (void)type, (void)at;
  return remove(path);
}

static inline void remove_directory(const char *directory) {
  nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- text in memory ------------------------------------------------------------------------ */

typedef struct text_buffer {
  char *bytes; /* with a final NUL */
  size_t size;
} text_buffer;

static inline int text_write(void *user, const char *bytes, size_t size) {
  text_buffer *text = user;
  char *grown = realloc(text->bytes, text->size + size + 1);
  if (grown == NULL) return 1;
  memcpy(grown + text->size, bytes, size);
  text->bytes = grown;
  text->size += size;
  grown[text->size] = '\0';
  return 0;
}

typedef struct text_input {
  const char *bytes;
  size_t size, at;
} text_input;

/* In pieces that end anywhere. user is a text_input. */
static inline ptrdiff_t text_read(void *user, char *bytes, size_t size) {
  text_input *text = user;
  size_t piece = 1 + (text->at * 7 + 13) % 97, left = text->size - text->at;
  if (piece > left) piece = left;
  if (piece > size) piece = size;
  memcpy(bytes, text->bytes + text->at, piece);
  text->at += piece;
  return (ptrdiff_t)piece;
}

static inline text_input text_of(const char *string) {
  return (text_input){.bytes = string, .size = strlen(string)};
}

/* The store as text, to be freed; NULL when it cannot be exported. */
static inline char *export_text(mmci_wisdom *wisdom) {
  text_buffer text = {0};
  if (mmci_wisdom_export(wisdom, text_write, &text, NULL) == MMC_OK) return text.bytes;
  free(text.bytes);
  return NULL;
}

/* ---- records ------------------------------------------------------------------------------- */

static inline mmci_fingerprint test_fingerprint(const char *model) {
  static const char *const texts[MMCI_FINGERPRINT_FIELDS] = {
      "blas", NULL, "", "OpenBLAS, 2 threads", "0.1.0", "f32", "native"};
  mmci_fingerprint fingerprint;
  for (int f = 0; f < MMCI_FINGERPRINT_FIELDS; f++)
    mmci_fingerprint_set(&fingerprint, (mmci_fingerprint_field)f,
                         texts[f] != NULL ? texts[f] : model);
  return fingerprint;
}

/* Product m x 2 x 3, which takes m microseconds. */
static inline mmci_wisdom_record test_product(const mmci_fingerprint *fingerprint, int64_t m) {
  return (mmci_wisdom_record){
      .kind = MMCI_WISDOM_PRODUCT,
      .fingerprint = fingerprint,
      .product = {.key = {.m = m, .k = 2, .n = 3},
                  .recipe = "split m 2",
                  .seconds = 1e-6 * (double)m,
                  .spread = 0.01,
                  .plain_seconds = 2e-6 * (double)m,
                  .joules = NAN,
                  .plain_joules = NAN,
                  .watts = NAN,
                  .source = "measured",
                  .measured_at = 1000},
  };
}

static inline mmci_wisdom_record test_fact(const mmci_fingerprint *fingerprint, const char *name,
                                           double number) {
  return (mmci_wisdom_record){
      .kind = MMCI_WISDOM_FACT,
      .fingerprint = fingerprint,
      .fact = {.name = name, .number = number, .spread = 0.5, .measured_at = 1000},
  };
}

static inline mmci_wisdom_record test_progress(const mmci_fingerprint *fingerprint, const char *job,
                                               const char *unit) {
  return (mmci_wisdom_record){
      .kind = MMCI_WISDOM_PROGRESS,
      .fingerprint = fingerprint,
      .progress = {.job = job, .unit = unit, .result = "0.25 s", .measured_at = 1000},
  };
}

static const int64_t test_axes[3][3] = {{1, 64, 4096}, {7, 8, 0}, {1, 2, (int64_t)1 << 62}};
static const double test_values[18] = {0,   1e9, 2e9, 3, 4, 5, 6, 7,    8,
                                       0.1, 1,   2,   3, 4, 5, 6, 1e30, 5e-324};

static inline mmci_wisdom_record test_array(const mmci_fingerprint *fingerprint) {
  return (mmci_wisdom_record){
      .kind = MMCI_WISDOM_ARRAY,
      .fingerprint = fingerprint,
      .array = {.op_b = MMC_OP_T,
                .objective = MMCI_WISDOM_ENERGY,
                .grid = {.count = {3, 2, 3},
                         .axis = {test_axes[0], test_axes[1], test_axes[2]},
                         .values = test_values},
                .measured_at = 1000},
  };
}

static inline mmc_status count_one(void *user, const mmci_wisdom_record *record,
                                   mmci_error *error) {
  (void)record, (void)error;
  ++*(int64_t *)user;
  return MMC_OK;
}

/* How many records there are; -1 when they cannot be read. */
static inline int64_t count_records(mmci_wisdom *wisdom) {
  int64_t count = 0;
  return mmci_wisdom_walk(wisdom, NULL, count_one, &count, NULL, NULL) == MMC_OK ? count : -1;
}

#endif
