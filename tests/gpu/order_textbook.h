/* order_textbook.h: chains of every family, and a device's answer compared with the textbook's:
 * the whole table, the cost, the order. In C, for the tests on a device and under emulation. */
#ifndef ORDER_TEXTBOOK_H
#define ORDER_TEXTBOOK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

/* ---- chains ---------------------------------------------------------------------------------- */

static const char *const textbook_families[] = {"random",  "ties",   "equal", "increasing",
                                                "falling", "valley", "peak",  "alternating",
                                                "ones",    "powers", "zeros", "near 2^63"};
enum { TEXTBOOK_FAMILIES = sizeof textbook_families / sizeof *textbook_families };

/* splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t textbook_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The greatest p with factors * p^3 < 2^63. */
static inline int64_t textbook_largest_dim(int64_t factors) {
  uint64_t low = 1, high = (uint64_t)1 << 21;
  while (high - low > 1) {
    uint64_t middle = (low + high) / 2;
    if (middle * middle * middle <= (uint64_t)INT64_MAX / (uint64_t)factors)
      low = middle;
    else
      high = middle;
  }
  return (int64_t)low;
}

static inline void textbook_fill(int64_t *dims, int32_t n, int family, uint64_t seed) {
  uint64_t state = seed;
  for (int32_t t = 0; t <= n; t++) {
    uint64_t r = textbook_random(&state);
    int64_t noise = (int64_t)(r % 3), from_middle = t > n / 2 ? t - n / 2 : n / 2 - t;
    switch (family) {
      case 0:
        dims[t] = 1 + (int64_t)(r % 1000);
        break;
      case 1:
        dims[t] = 1 + (int64_t)(r % 3);
        break;
      case 2:
        dims[t] = 7;
        break;
      case 3:
        dims[t] = 1 + 2 * t + noise;
        break;
      case 4:
        dims[t] = 1 + 2 * (n - t) + noise;
        break;
      case 5:
        dims[t] = 1 + 2 * from_middle + noise;
        break;
      case 6:
        dims[t] = 1 + 2 * (n - from_middle) + noise;
        break;
      case 7:
        dims[t] = t % 2 == 0 ? 3 + noise : 900 + noise;
        break;
      case 8:
        dims[t] = r % 4 == 0 ? 2 + (int64_t)(r >> 8) % 50 : 1;
        break;
      case 9:
        dims[t] = (int64_t)1 << r % 12;
        break;
      case 10:
        dims[t] = r % 8 == 0 ? 0 : (int64_t)(r >> 8) % 20;
        break;
      default:
        dims[t] = textbook_largest_dim(n > 1 ? n - 1 : 1) - (int64_t)(r % 5);
        break;
    }
  }
}

/* ---- the textbook ---------------------------------------------------------------------------- */

typedef struct textbook {
  int32_t n;
  uint64_t *m; /* entry (i, j), i < j, at textbook_entry() */
  int32_t *s;
  int32_t *splits; /* parents before children, right child before left */
} textbook;

static inline size_t textbook_entry(int32_t n, int32_t i, int32_t j) {
  return (size_t)i * (size_t)n - (size_t)i * ((size_t)i - 1) / 2 + (size_t)(j - i - 1);
}

/* Of equally cheap splits k and o, whether k goes before o: the rule of mmc_order_create(). */
static inline bool textbook_goes_before(const int64_t *dims, int32_t i, int32_t j, int32_t k,
                                        int32_t o) {
  int32_t lightest = dims[j] < dims[i] ? j : i;
  if (dims[k] < dims[lightest] || (dims[k] == dims[lightest] && k < lightest)) lightest = k;
  if (dims[o] < dims[lightest] || (dims[o] == dims[lightest] && o < lightest)) lightest = o;
  if (lightest == i) return k > o;
  if (lightest == j) return k < o;
  return lightest == k;
}

static inline void textbook_destroy(textbook *book) {
  free(book->m);
  free(book->s);
  free(book->splits);
}

static inline bool textbook_solve(int32_t n, const int64_t *dims, textbook *book) {
  size_t entries = (size_t)n * ((size_t)n + 1) / 2;
  int32_t *stack = (int32_t *)malloc(((size_t)n + 1) * 2 * sizeof *stack);
  book->n = n;
  book->m = (uint64_t *)calloc(entries, sizeof *book->m);
  book->s = (int32_t *)calloc(entries, sizeof *book->s);
  book->splits = (int32_t *)calloc((size_t)n, sizeof *book->splits);
  if (stack == NULL || book->m == NULL || book->s == NULL || book->splits == NULL) {
    free(stack);
    textbook_destroy(book);
    return false;
  }
  for (int32_t l = 2; l <= n; l++)
    for (int32_t i = 0; i + l <= n; i++) {
      int32_t j = i + l, best = -1;
      uint64_t least = 0, ends = (uint64_t)dims[i] * (uint64_t)dims[j];
      for (int32_t k = i + 1; k < j; k++) {
        uint64_t q = book->m[textbook_entry(n, i, k)] + book->m[textbook_entry(n, k, j)] +
                     ends * (uint64_t)dims[k];
        if (best < 0 || q < least || (q == least && textbook_goes_before(dims, i, j, k, best))) {
          least = q;
          best = k;
        }
      }
      book->m[textbook_entry(n, i, j)] = least;
      book->s[textbook_entry(n, i, j)] = best;
    }
  int32_t top = 0, done = 0;
  stack[top++] = 0;
  stack[top++] = n;
  while (top > 0) {
    int32_t j = stack[--top], i = stack[--top];
    if (j - i < 2) continue;
    int32_t k = book->s[textbook_entry(n, i, j)];
    book->splits[done++] = k;
    stack[top++] = i;
    stack[top++] = k;
    stack[top++] = k;
    stack[top++] = j;
  }
  free(stack);
  return true;
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef mmc_status (*textbook_solver)(void *user, mmci_device_order *order, mmci_error *error);

/* Asks the solver for the order of the book's dims, table and all; order carries the kernel and
 * its settings. Prints what is wrong and returns false, or returns true. */
static inline bool textbook_compare(const textbook *book, const int64_t *dims,
                                    textbook_solver solver, void *user, mmci_device_order *order,
                                    const char *what) {
  int32_t n = book->n;
  size_t entries = (size_t)n * ((size_t)n + 1) / 2;
  mmci_error error;
  error.text[0] = '\0';
  bool right = false;
  order->n = n;
  order->dims = dims;
  order->splits = (int32_t *)malloc((size_t)n * sizeof *order->splits);
  order->table = (mmc_count *)malloc(entries * sizeof *order->table);
  order->kernel_used = NULL;
  if (order->splits == NULL || order->table == NULL) {
    printf("%s: out of memory\n", what);
  } else {
    /* What is not written shows. */
    memset(order->splits, 0xa5, (size_t)n * sizeof *order->splits);
    memset(order->table, 0xa5, entries * sizeof *order->table);
    mmc_status status = solver(user, order, &error);
    right = status == MMC_OK;
    if (!right) printf("%s: status %d: %s\n", what, (int)status, error.text);
    for (int32_t i = 0; right && i < n; i++)
      for (int32_t j = i + 1; right && j <= n; j++) {
        size_t entry = textbook_entry(n, i, j);
        right = order->table[entry].lo == book->m[entry] && order->table[entry].hi == 0;
        if (!right)
          printf("%s: entry (%d, %d) is %" PRIu64 ", not %" PRIu64 "\n", what, i, j,
                 order->table[entry].lo, book->m[entry]);
      }
    for (int32_t t = 0; right && t < n - 1; t++) {
      right = order->splits[t] == book->splits[t];
      if (!right)
        printf("%s: split %d is %d, not %d\n", what, t, order->splits[t], book->splits[t]);
    }
    if (right) {
      right = order->multiplications.hi == 0 &&
              order->multiplications.lo == book->m[textbook_entry(n, 0, n)] &&
              order->kernel_used != NULL && order->seconds >= 0;
      if (!right)
        printf("%s: %" PRIu64 " multiplications by kernel %s\n", what, order->multiplications.lo,
               order->kernel_used == NULL ? "(none)" : order->kernel_used);
    }
  }
  free(order->splits);
  free(order->table);
  order->splits = NULL;
  order->table = NULL;
  return right;
}

#endif
