/* inside.h: what benches that see the inside of the library share: statuses and memory, which end
 * the program where they are bad. */
#ifndef MMC_BENCH_INSIDE_H
#define MMC_BENCH_INSIDE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

static inline void check(mmc_status status, const mmci_error *error) {
  if (status == MMC_OK) return;
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, mmc_status_string(status),
          error->text);
  exit(1);
}

/* Returns malloc(bytes). */
static inline void *take(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory != NULL) return memory;
  fprintf(stderr, "%s: no memory for %zu bytes\n", program_invocation_short_name, bytes);
  exit(1);
}

#endif
