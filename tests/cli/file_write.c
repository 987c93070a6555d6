/* file_write.c: writes PATH by mmc_file_write(): 100 x 100 numbers that count from FIRST.
 *
 *     file_write PATH FIRST
 *
 * The exit status is 0, or 2 when the library says that it could not. */
#include <stdio.h>
#include <stdlib.h>

#include "mmchain.h"

int main(int argc, char **argv) {
  enum { SIDE = 100 };
  static double numbers[SIDE * SIDE];
  if (argc != 3) return 1;
  for (int i = 0; i < SIDE * SIDE; i++) numbers[i] = atof(argv[2]) + i;
  mmc_matrix matrix = {.data = numbers, .rows = SIDE, .cols = SIDE};
  mmc_status status = mmc_file_write(NULL, argv[1], MMC_F64, &matrix, 2);
  if (status != MMC_OK) fprintf(stderr, "%s\n", mmc_status_string(status));
  return status == MMC_OK ? 0 : 2;
}
