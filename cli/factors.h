/* factors.h: a chain whose factors are in files, of a format that mmc_file_open() knows.
 *
 * A.npy:T is transposed, A.npy:H conjugated too; nothing is copied for it. A.npy^8 is the factor
 * eight times in a row, A.npy:spd:inv an inverse (structure.h), and A.npy:each the matrices of a
 * stack, one after the other along its last axis; of more axes, those before are a stack as ever. A
 * 1-D array is a row at the beginning of a chain and a column at its end, and the result loses
 * those dimensions, as in NumPy. Dimensions before the last two are stacks, which broadcast as
 * NumPy's do. "-" is standard input. */
#ifndef MMC_CLI_FACTORS_H
#define MMC_CLI_FACTORS_H

#include "command.h"

/* By which arithmetic products are computed, as mmc_chain_options says. */
typedef struct cli_rule {
  uint64_t modulus;
  bool checked;
  mmc_semiring semiring;
} cli_rule;

typedef struct cli_factors {
  int64_t n, count;     /* factors, and the arguments that name them */
  mmc_file **files;     /* count files */
  char **paths;         /* count paths, without op and power */
  char **file_paths;    /* count paths of the files alone, without a member */
  cli_stamp *stamps;    /* count stamps, of the files as they were opened */
  void ***addresses;    /* count tables, of a stack that no stride describes, else NULL */
  cli_rule rule;        /* the arithmetic */
  mmc_dtype dtype;      /* dtype that all have or are promoted to */
  void **promoted;      /* count pointers to the elements of a file of another dtype, else NULL */
  mmc_matrix *matrices; /* n matrices, as mmc_execute() takes them */
  const char **names;   /* n paths, of the factors */
  int result_ndim;      /* dimensions of the stack, plus 2, 1 or 0 of one of its matrices */
  int64_t result_shape[CLI_NDIM_MAX];
  mmc_chain *chain;
} cli_factors;

/* Says whether an argument is a file, or a group of files (see structure.h): its name has the
 * ending of a format, and a member, traits, an op and a power may follow. What ends with :N, :T or
 * :H ends with an op; but w.npz:T is the member T where there are others too. */
bool cli_factor_is_file(const char *argument);

/* The parts of "A.npy:T^8" and "A.npy:each". */
typedef struct cli_factor_spec {
  size_t name_length;
  mmc_op op;
  uint32_t traits;
  mmc_band band; /* where MMC_BANDED is among these */
  int64_t times;
  bool each; /* the matrices of the file's last stack axis are so many factors in a row */
} cli_factor_spec;
/* Reads op and power off the end of an argument. A text that is no op stays in the name. Returns
 * CLI_DONE, or CLI_BAD after saying what is wrong. */
int cli_factor_read(cli_call *call, const char *argument, cli_factor_spec *out);

/* Opens an array of a file, or of standard input for "-", and notes it as an input, of which what
 * and shown together say which it is (guard.h). *path, which is released with free(), and stamp are
 * those of its file. Returns CLI_DONE, or the exit status after saying what is wrong. */
int cli_array_open(cli_call *call, const char *what, const char *shown, const char *name,
                   char **path, cli_stamp *stamp, mmc_file **out);

/* Opens the files. Of those of another dtype than the one that all are promoted to, the elements
 * are converted where promotes says so; else their matrices are not to be multiplied. Returns
 * CLI_DONE, or the exit status after saying what is wrong. */
int cli_factors_open(cli_call *call, int count, char **arguments, bool promotes, cli_rule rule,
                     cli_factors *out);
/* Is called after the last use of the matrices: checks that the files still are what they were. A
 * file that was replaced is, because the old one stays open. Returns CLI_DONE, or CLI_BAD after
 * saying which file is not. */
int cli_factors_unchanged(cli_call *call, const cli_factors *factors);
void cli_factors_close(cli_factors *factors);

#endif
