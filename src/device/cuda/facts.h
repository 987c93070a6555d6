/* facts.h: what a CUDA device is taken to do until it is measured. It does not need CUDA's headers,
 * so that tests can plan for a GPU where there is none. */
#ifndef MMCI_CUDA_FACTS_H
#define MMCI_CUDA_FACTS_H

#include "chain/facts.h"

mmci_facts mmci_cuda_facts_of(int multiprocessors, mmc_dtype dtype, mmci_precision precision);

#endif
