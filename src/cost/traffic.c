#include "cost/traffic.h"

#include <math.h>

typedef struct tile {
  int64_t x, y;
} tile;

/* Returns floor(sqrt(value)), for value < 2^127. */
static int64_t integer_sqrt(mmci_u128 value) {
  mmci_u128 root = (mmci_u128)sqrt(mmci_u128_to_double(value));
  while (root * root > value) root--;
  while ((root + 1) * (root + 1) <= value) root++;
  return (int64_t)root;
}

/* Returns the tile with the least a/x + b/y where xy <= on_chip_words, x <= x_most and y <= y_most;
 * a : b = ratio_a : ratio_b, a <= b <= 2a and ratio_b < 2^64. Both sides of the best real tile are
 * rounded down; a side as long as the matrix leaves the other the remaining room. */
static tile best_tile(mmci_u128 ratio_a, mmci_u128 ratio_b, int64_t on_chip_words, int64_t x_most,
                      int64_t y_most) {
  mmci_u128 words = (mmci_u128)on_chip_words;
  tile best = {.x = integer_sqrt(words * ratio_a / ratio_b),
               .y = integer_sqrt(words * ratio_b / ratio_a)};
  if (best.x < 1) best.x = 1; /* there is one word: x was less than 1, y is 1 */
  if (best.x >= x_most) {
    best.x = x_most;
    best.y = on_chip_words / x_most;
  }
  if (best.y >= y_most) {
    best.y = y_most;
    best.x = on_chip_words / y_most < x_most ? on_chip_words / y_most : x_most;
  }
  return best;
}

/* Returns floor(a/x + b/y); MMCI_U128_MAX when a or b is that. */
static mmci_u128 rounds(mmci_u128 a, mmci_u128 b, tile t) {
  if (a == MMCI_U128_MAX || b == MMCI_U128_MAX) return MMCI_U128_MAX;
  mmci_u128 x = (mmci_u128)t.x, y = (mmci_u128)t.y;
  return mmci_u128_add(mmci_u128_add(a / x, b / y), (a % x * y + b % y * x) / (x * y));
}

/* Returns a tile that was given, no longer than the matrix. */
static tile given_tile(int64_t x, int64_t y, int64_t x_most, int64_t y_most) {
  return (tile){.x = x < x_most ? x : x_most, .y = y < y_most ? y : y_most};
}

static mmci_traffic product_with(mmci_u128 multiplications, tile t) {
  return (mmci_traffic){.words = rounds(multiplications, multiplications, t), .x = t.x, .y = t.y};
}

mmci_traffic mmci_traffic_product(int64_t p0, int64_t p1, int64_t p2, int64_t on_chip_words) {
  mmci_u128 multiplications = mmci_multiplications(p0, p1, p2);
  if (multiplications == 0) return (mmci_traffic){0};
  return product_with(multiplications, best_tile(1, 1, on_chip_words, p0, p2));
}

mmci_traffic mmci_traffic_product_by(int64_t p0, int64_t p1, int64_t p2, int64_t x, int64_t y) {
  mmci_u128 multiplications = mmci_multiplications(p0, p1, p2);
  if (multiplications == 0) return (mmci_traffic){0};
  return product_with(multiplications, given_tile(x, y, p0, p2));
}

/* The multiplications that a left fuse reads operands for: a along x, b along y. */
typedef struct passes {
  mmci_u128 a, b;
} passes;

static passes passes_of(const int64_t p[4]) {
  mmci_u128 first = mmci_multiplications(p[0], p[1], p[2]);
  mmci_u128 second = mmci_multiplications(p[0], p[2], p[3]);
  mmci_u128 a = mmci_u128_add(first, second);
  return (passes){.a = a, .b = mmci_u128_add(a, second)};
}

static mmci_traffic left_with(const int64_t p[4], passes over, tile t) {
  mmci_u128 words = rounds(over.a, over.b, t);
  /* As y <= P2, the passes over R, 2 P0 P2 P3 / y words, are no less than what is taken off. */
  if (words != MMCI_U128_MAX) words -= 2 * (mmci_u128)p[0] * (mmci_u128)p[3];
  return (mmci_traffic){.words = words, .x = t.x, .y = t.y};
}

mmci_traffic mmci_traffic_left(const int64_t p[4], int64_t on_chip_words) {
  passes over = passes_of(p);
  if (over.a == 0) return (mmci_traffic){0};
  mmci_u128 ratio_a = (mmci_u128)p[1] + (mmci_u128)p[3], ratio_b = ratio_a + (mmci_u128)p[3];
  return left_with(p, over, best_tile(ratio_a, ratio_b, on_chip_words, p[0], p[2]));
}

mmci_traffic mmci_traffic_left_by(const int64_t p[4], int64_t x, int64_t y) {
  passes over = passes_of(p);
  if (over.a == 0) return (mmci_traffic){0};
  return left_with(p, over, given_tile(x, y, p[0], p[2]));
}

/* Returns the mirror image of a left fuse. */
static mmci_traffic mirror(mmci_traffic left) {
  return (mmci_traffic){.words = left.words, .x = left.y, .y = left.x};
}

mmci_traffic mmci_traffic_right(const int64_t p[4], int64_t on_chip_words) {
  return mirror(mmci_traffic_left((const int64_t[]){p[3], p[2], p[1], p[0]}, on_chip_words));
}

mmci_traffic mmci_traffic_right_by(const int64_t p[4], int64_t x, int64_t y) {
  return mirror(mmci_traffic_left_by((const int64_t[]){p[3], p[2], p[1], p[0]}, y, x));
}

mmci_traffic mmci_traffic_right_as_printed(const int64_t p[4], int64_t on_chip_words) {
  return mirror(mmci_traffic_left((const int64_t[]){p[3], p[1], p[2], p[0]}, on_chip_words));
}

mmci_traffic mmci_traffic_right_as_printed_by(const int64_t p[4], int64_t x, int64_t y) {
  return mirror(mmci_traffic_left_by((const int64_t[]){p[3], p[1], p[2], p[0]}, y, x));
}
