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

/* B op(S) is the transposed of op(S)^T B^T, of which rows of B are columns. */
mmci_triangle_strip mmci_structured_strip(const mmci_structured *p, int64_t first, int64_t most) {
  const int64_t side = p->rows, count = side - first < most ? side - first : most;
  const bool s_lower = ((p->traits & MMC_LOWER) != 0) != ((p->op != MMC_OP_N) != p->right),
             z_lower = (p->b_band.above == 0) != p->right;
  const int64_t begin = z_lower ? first : 0, end = z_lower ? side : first + count,
                out = s_lower ? end : 0, beside = s_lower ? side - end : begin;
  mmci_triangle_strip strip = {.trmm = *p, .s_in = begin * (p->lds + 1), .k = end - begin};
  strip.trmm.kernel = MMCI_STRUCTURE_TRMM;
  strip.trmm.rows = p->right ? count : strip.k;
  strip.trmm.cols = p->right ? strip.k : count;
  strip.m = p->right ? count : beside;
  strip.n = p->right ? beside : count;
  strip.z_in = p->right ? begin * p->ldz + first : first * p->ldz + begin;
  strip.z_out = p->right ? out * p->ldz + first : first * p->ldz + out;
  /* Row `out` and column `begin` of op(S), or the other way round. */
  const bool by_rows = (p->op != MMC_OP_N) != p->right;
  strip.s_out = by_rows ? out * p->lds + begin : begin * p->lds + out;
  return strip;
}
