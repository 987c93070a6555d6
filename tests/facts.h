/* facts.h: what devices of tests tell of themselves: a processor of two cores with a BLAS. */
#ifndef MMC_TEST_FACTS_H
#define MMC_TEST_FACTS_H

#include "chain/facts.h"

static const mmci_facts test_facts = {.flops_per_s = 1e11,
                                      .bytes_per_s = 2e10,
                                      .launch_s = 1e-7,
                                      .half_k = 8,
                                      .static_w = 15,
                                      .joules_per_flop = 1e-10,
                                      .joules_per_byte = 5e-10,
                                      .group_share = 0.4,
                                      .product_s = 3e-8,
                                      .handover_s = 1e-6,
                                      .workers = 2,
                                      .tile = 128};

#endif
