/* structure.h: what the command line says of the structure of factors.
 *
 * L.npy:lower:inv is the inverse of a lower triangular matrix: behind the name stand traits, then
 * an op, then inv. '(X.npy:T X.npy):inv' is the inverse of a product; blanks are between its
 * factors. Of a file with several arrays the name of one stands before, so that w.npz:lower is the
 * array lower. */
#ifndef MMC_CLI_STRUCTURE_H
#define MMC_CLI_STRUCTURE_H

#include "command.h"
#include "nearest.h"

/* Factors with the groups among them, numbered as arguments. */
typedef struct cli_groups {
  int count;
  char **arguments; /* count, without parentheses */
  int inverse_count;
  mmc_inverse *inverses; /* of arguments, counted from 0 */
  char *text;            /* what the arguments point into */
} cli_groups;

/* Says whether an argument is a group in parentheses, "(...)" or "(...):inv". */
bool cli_is_group(const char *argument);
/* Takes groups apart. Returns CLI_DONE, or CLI_BAD after saying what is wrong. */
int cli_groups_open(cli_call *call, int count, char **arguments, cli_groups *out);
void cli_groups_free(cli_groups *groups);

/* Returns the length of a factor's argument without the traits that end its first length
 * characters, and adds them to *traits; writes *band where a band is among them. */
size_t cli_without_traits(const char *argument, size_t length, uint32_t *traits, mmc_band *band);

/* Writes "; did you mean 'lower'?" for the first misspelt word of those that colons part, or
 * nothing. Returns text. */
char *cli_traits_hint(const char *spec, char text[CLI_HINT_SIZE]);

/* Checks that a matrix is what is said of it, but for being positive definite: then it must be
 * Hermitian and have a positive diagonal; an orthogonal one is multiplied with a vector. Returns
 * CLI_DONE, or CLI_BAD after saying which element of the factor of that name contradicts. */
int cli_claims_check(cli_call *call, const char *name, mmc_dtype dtype, const mmc_matrix *matrix,
                     uint32_t traits, mmc_band band);

#endif
