/* scale_lines.h: lines of matrices times, or divided by, the elements of a diagonal. */
#ifndef MMCI_SCALE_LINES_H
#define MMCI_SCALE_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "mmchain.h"

/* to[i] := from[i] d[i * step], or from[i] / d[i * step], of a step of 0 or 1, by the conjugates of
 * d when conj. The line `from` is `to`, or lies apart. */
typedef void mmci_scale_line(void *to, const void *from, const void *d, int64_t length,
                             int64_t step, bool conj);

/* Returns what does so for f32, f64, c64 or c128 on this machine. */
mmci_scale_line *mmci_scale_line_for(mmc_dtype dtype, bool divides);

#endif
