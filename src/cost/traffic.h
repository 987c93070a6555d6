/* traffic.h: the words that one kernel moves between off-chip and on-chip memory.
 *
 * On chip there is room for M words: a tile of x rows and y columns, xy <= M, of the matrix that
 * stays there. One product keeps a tile of its result and reads
 *     P0 P1 P2 / x + P0 P1 P2 / y        least at x = y = sqrt(M): 2 P0 P1 P2 / sqrt(M)
 * words; writing the result, P0 P2 more, is the theorem of the TEE-ACM2 poster (SC22). A left fuse,
 * (A1 A2) A3 in one kernel, keeps a tile of T = A1 A2, P0 x P2:
 *     a/x + b/y - 2 P0 P3,    a = P0 P1 P2 + P0 P2 P3,    b = P0 P1 P2 + 2 P0 P2 P3
 * A2 and A3 are read P0/x times, A1 is read and the result R read and written P2/y times, but for
 * the first time that R would be read and the last that it is written. A right fuse, A1 (A2 A3), is
 * the mirror image. docs/traffic.md derives all three.
 *
 * Here x and y are whole numbers, rounded down, and no larger than the matrix: when M is, every
 * operand is read once. Counts of tiles are fractions (P0/x), a kernel's words are rounded down.
 * All of it is exact in 128 bits; what does not fit is MMCI_U128_MAX. Growing M never costs more.
 */
#ifndef MMCI_TRAFFIC_H
#define MMCI_TRAFFIC_H

#include "base/wide.h"

typedef struct mmci_traffic {
  mmci_u128 words; /* without the write of the result, which is charged to its reader */
  int64_t x, y;    /* rows and columns of the tile; 0 when nothing is moved */
} mmci_traffic;

/* Returns the traffic of P0 x P1 by P1 x P2. For all of these functions 0 <= dims <= 2^62 and 1 <=
 * on_chip_words <= 2^62. */
mmci_traffic mmci_traffic_product(int64_t p0, int64_t p1, int64_t p2, int64_t on_chip_words);
/* Returns the traffic of (A1 A2) A3 with dims p[0..3]; the tile is one of A1 A2. */
mmci_traffic mmci_traffic_left(const int64_t p[4], int64_t on_chip_words);
/* Returns the traffic of A1 (A2 A3); the tile is one of A2 A3. */
mmci_traffic mmci_traffic_right(const int64_t p[4], int64_t on_chip_words);
/* Returns the traffic of A1 (A2 A3) as the poster's table has it: with P0 P2 P3 multiplications
 * for the second product, where A1 (A2 A3) has P0 P1 P3. */
mmci_traffic mmci_traffic_right_as_printed(const int64_t p[4], int64_t on_chip_words);

/* These return the traffic with a tile of at most x rows and y columns, both 1 or more, in place of
 * the best one; a side is no longer than the matrix. */
mmci_traffic mmci_traffic_product_by(int64_t p0, int64_t p1, int64_t p2, int64_t x, int64_t y);
mmci_traffic mmci_traffic_left_by(const int64_t p[4], int64_t x, int64_t y);
mmci_traffic mmci_traffic_right_by(const int64_t p[4], int64_t x, int64_t y);
mmci_traffic mmci_traffic_right_as_printed_by(const int64_t p[4], int64_t x, int64_t y);

#endif
