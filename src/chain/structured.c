#include "chain/structured.h"

const char *mmci_structure_kernel_name(mmci_structure_kernel kernel) {
  static const char *const names[] = {
      [MMCI_STRUCTURE_GEMM] = "gemm", [MMCI_STRUCTURE_ZERO] = "zero",
      [MMCI_STRUCTURE_COPY] = "copy", [MMCI_STRUCTURE_SCALE] = "scale",
      [MMCI_STRUCTURE_SYRK] = "syrk", [MMCI_STRUCTURE_TRMM] = "trmm",
      [MMCI_STRUCTURE_TRSM] = "trsm", [MMCI_STRUCTURE_POSV] = "posv",
      [MMCI_STRUCTURE_SYSV] = "sysv", [MMCI_STRUCTURE_GESV] = "gesv",
      [MMCI_STRUCTURE_SYMV] = "symv", [MMCI_STRUCTURE_PERMUTE] = "permute",
      [MMCI_STRUCTURE_BAND] = "band", [MMCI_STRUCTURE_BLOCKS] = "blocks",
      [MMCI_STRUCTURE_TBSV] = "tbsv", [MMCI_STRUCTURE_PBSV] = "pbsv",
      [MMCI_STRUCTURE_GTSV] = "gtsv", [MMCI_STRUCTURE_GBSV] = "gbsv"};
  return names[kernel];
}
