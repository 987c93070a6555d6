#include "chain/scan.h"

mmci_gemm mmci_scan_gemm(const mmci_scan *scan, const mmci_form *s, const mmci_form *a,
                         int64_t ldc) {
  return (mmci_gemm){.dtype = scan->dtype,
                     .precision = scan->precision,
                     .rule = scan->rule,
                     .m = mmci_scan_rows(scan),
                     .k = scan->n,
                     .n = mmci_scan_cols(scan),
                     .a = scan->left ? *a : *s,
                     .b = scan->left ? *s : *a,
                     .ldc = ldc,
                     .accumulate = scan->has_addend};
}

mmci_form mmci_scan_state(const mmci_scan *scan) {
  int64_t cols = mmci_scan_cols(scan);
  return (mmci_form){.ld = cols > 0 ? cols : 1};
}
