/* random.h: matrices of normal numbers, or of integers, the same from the same seed everywhere.
 *
 * splitmix64 (Steele, Lea and Flood 2014) gives 64 random bits a step; Box and Muller (1958) make
 * two normal numbers of two of them:
 *     u = ((bits >> 11) + 1) / 2^53, v = (bits' >> 11) / 2^53
 *     sqrt(-2 log u) cos(2 pi v),  sqrt(-2 log u) sin(2 pi v)
 * A stream is named by a seed and a number, so that factor i of a chain does not depend on how many
 * numbers the others took. Numbers may differ in the last place between C libraries. */
#ifndef MMC_CLI_RANDOM_H
#define MMC_CLI_RANDOM_H

#include "mmchain.h"

typedef struct cli_random {
  uint64_t state;
  double spare; /* the second number of a pair, kept for the next call */
  bool has_spare;
} cli_random;

/* The seed of the vectors that --check draws. */
enum { CLI_CHECK_SEED = 1 };

cli_random cli_random_start(uint64_t seed, uint64_t stream);
/* Returns a normal number of mean 0 and variance 1. */
double cli_random_normal(cli_random *random);

/* Returns 64 random bits. */
uint64_t cli_random_bits(cli_random *random);

/* Fills count elements of dtype with normal numbers times scale; both parts of a complex element
 * get such numbers, which are scaled by a further 1/sqrt(2). */
void cli_random_fill(cli_random *random, mmc_dtype dtype, size_t count, double scale, void *data);

/* Fills factor i, as it is stored, of all chains of a batch one after the other, dims[i] x
 * dims[i+1] after its op, row by row, with normal numbers times 1/sqrt(dims[i+1]), which keeps the
 * product of a long chain near 1. Integers are any of the dtype, or residues of the chain's
 * modulus; those of a checked chain are so small that no element of the product exceeds the dtype,
 * but for 0, 1 and -1 where there are none smaller. Factors of which more is said are of that kind
 * (kinds_fill.h). progress, unless it is NULL, is told how far that is; when it stops, the rest is
 * left as it was. */
void cli_random_fill_factor(const mmc_chain *chain, int64_t i, uint64_t seed, void *data,
                            mmc_progress_fn progress, void *user);

/* Says whether elements are integers or truth values. */
bool cli_dtype_is_integer(mmc_dtype dtype);

/* Returns factor i as it is stored, row-major, without data. */
mmc_matrix cli_stored_factor(const mmc_chain *chain, int64_t i);
/* Returns how many matrices factor i stands for: one a chain, or one for all. */
int64_t cli_factor_count(const mmc_chain *chain, int64_t i);
/* Returns the bytes of a batch of rows x cols elements as a double, because a batch that does not
 * fit the memory has a size too. */
double cli_matrix_bytes(mmc_dtype dtype, int64_t batch, int64_t rows, int64_t cols);
/* Allocates memory for a batch of the matrix, one behind the other; none when there are no
 * elements. Returns false when memory is short. */
bool cli_matrix_allocate(mmc_dtype dtype, int64_t batch, mmc_matrix *matrix);

#endif
