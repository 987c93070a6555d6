/* cuda_faults.c: which call of the CUDA module fails. */
#include <stdatomic.h>

#include "cuda_faults.h"

static atomic_int calls, to_fail;

bool mmci_fault(void) {
  return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&to_fail);
}

int mmci_fault_at(int call) {
  atomic_store(&to_fail, call);
  return atomic_exchange(&calls, 0);
}
