/* workers.h: how many threads some work is worth. */
#ifndef MMCI_WORKERS_H
#define MMCI_WORKERS_H

#include <stdint.h>

/* Threads for work that takes one of them serial_s seconds and is made of so many pieces: as many
 * as OpenMP allows, but each with work worth waking it for; at least 1. */
int mmci_workers(double serial_s, int64_t pieces);

/* As many as OpenMP allows; 1 without it. */
int mmci_workers_most(void);

#endif
