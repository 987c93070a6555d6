/* elements.h: elements of every dtype in double precision. */
#ifndef MMC_CLI_ELEMENTS_H
#define MMC_CLI_ELEMENTS_H

#include "mmchain.h"

enum { CLI_PIECE = 512 };

/* A piece of a line of a matrix in double precision. */
typedef struct cli_piece {
  double re[CLI_PIECE], im[CLI_PIECE];
} cli_piece;

/* Loads at most CLI_PIECE elements from index on. Returns whether all are finite. */
bool cli_elements_load(mmc_dtype dtype, bool conjugate, const void *data, int64_t index,
                       int64_t count, cli_piece *out);

/* Returns the least normal number of a floating-point dtype: those below have fewer digits. */
double cli_dtype_least(mmc_dtype dtype);

#endif
