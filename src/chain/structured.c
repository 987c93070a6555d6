#include "chain/structured.h"

#include <stdio.h>

const char *mmci_structure_kernel_name(mmci_structure_kernel kernel) {
  static const char *const names[] = {
      [MMCI_STRUCTURE_GEMM] = "gemm",       [MMCI_STRUCTURE_ZERO] = "zero",
      [MMCI_STRUCTURE_COPY] = "copy",       [MMCI_STRUCTURE_SCALE] = "scale",
      [MMCI_STRUCTURE_SYRK] = "syrk",       [MMCI_STRUCTURE_TRMM] = "trmm",
      [MMCI_STRUCTURE_TRSM] = "trsm",       [MMCI_STRUCTURE_POSV] = "posv",
      [MMCI_STRUCTURE_SYSV] = "sysv",       [MMCI_STRUCTURE_GESV] = "gesv",
      [MMCI_STRUCTURE_SYMV] = "symv",       [MMCI_STRUCTURE_SYMM] = "symm",
      [MMCI_STRUCTURE_PERMUTE] = "permute", [MMCI_STRUCTURE_BAND] = "band",
      [MMCI_STRUCTURE_BLOCKS] = "blocks",   [MMCI_STRUCTURE_TBSV] = "tbsv",
      [MMCI_STRUCTURE_PBSV] = "pbsv",       [MMCI_STRUCTURE_GTSV] = "gtsv",
      [MMCI_STRUCTURE_GBSV] = "gbsv",       [MMCI_STRUCTURE_TRTRMM] = "trtrmm"};
  return names[kernel];
}

void mmci_structure_piece_name(mmci_structure_piece piece, bool small,
                               char name[MMCI_PIECE_NAME_SIZE]) {
  static const char *const names[MMCI_STRUCTURE_PIECES] = {
      [MMCI_PIECE_SYMV] = "symv",   [MMCI_PIECE_SYMM] = "symm",    [MMCI_PIECE_SYRK] = "syrk",
      [MMCI_PIECE_TRMM] = "trmm",   [MMCI_PIECE_TRSM] = "trsm",    [MMCI_PIECE_POTRF] = "potrf",
      [MMCI_PIECE_GETRF] = "getrf", [MMCI_PIECE_SYTRF] = "sytrf",  [MMCI_PIECE_SYTRS] = "sytrs",
      [MMCI_PIECE_TRTRI] = "trtri", [MMCI_PIECE_POTRI] = "potri",  [MMCI_PIECE_GETRI] = "getri",
      [MMCI_PIECE_SYTRI] = "sytri", [MMCI_PIECE_TRTRMM] = "trtrmm"};
  snprintf(name, MMCI_PIECE_NAME_SIZE, "structure %s %s", names[piece], small ? "small" : "large");
}
