/* lapack_table.c: see lapack_table.h. */
#include "device/blas/lapack_table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/blas/cblas_table.h"

static mmci_lapack tables[MMC_C128 + 1];
static bool narrow;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(const mmci_cblas_origin *origin, const char *letter, const char *name,
                    void *function) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "%s%s%s_%s", origin->prefix, letter, name, origin->suffix);
  void *found = dlsym(origin->library, symbol);
  memcpy(function, &found, sizeof found); /* ISO C has no cast from one to the other */
}

#define LOOK_UP(name, parameters) look_up(&origin, letters[dtype], #name, &tables[dtype].name);

static void fill_tables(void) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  static const char *const letters[] = {
      [MMC_F32] = "s", [MMC_F64] = "d", [MMC_C64] = "c", [MMC_C128] = "z"};
  mmci_cblas_origin origin;
  if (!mmci_cblas_origin_of(&origin)) return;
  narrow = !origin.is_wide;
  for (int dtype = MMC_F32; dtype <= MMC_C128; dtype++) {
    MMCI_LAPACK_ROUTINES(LOOK_UP)
  }
#endif
}

const mmci_lapack *mmci_lapack_of(mmc_dtype dtype) {
  static const mmci_lapack none;
  pthread_once(&once, fill_tables);
  return dtype <= MMC_C128 ? &tables[dtype] : &none;
}

bool mmci_lapack_is_narrow(void) {
  pthread_once(&once, fill_tables);
  return narrow;
}
