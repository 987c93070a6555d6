/* cblas_table.c: see cblas_table.h. */
#include "device/blas/cblas_table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module_dir.h"
#include "device/blas/advice.h"

#ifdef MMCI_BLAS_LINKED
#include <cblas.h>
#endif

mmci_cblas mmci_blas;

/* Where the functions of a loaded library come from; without a library where none was loaded. */
static mmci_cblas_origin taken;

static bool has_old_kernels(const mmci_cblas *openblas) {
  return mmci_openblas_is_slow(openblas->get_config(), mmci_simd_of_processor());
}

/* ---- the one that was linked ----------------------------------------------------------------- */

#ifdef MMCI_BLAS_LINKED
#ifdef MMCI_OPENBLAS
typedef blasint linked_int;
#else
typedef int linked_int;
#endif

#define LINKED(prefix, name, type, give, parameters, arguments) \
  static type linked_##name parameters {                        \
    give prefix##name arguments;                                \
  }
#define TAKE_LINKED(prefix, name, type, give, parameters, arguments) .name = linked_##name,
#define SET_LINKED(prefix, name, type, give, parameters, arguments) mmci_blas.name = linked_##name;
MMCI_CBLAS_FUNCTIONS(LINKED, int64_t, linked_int)
#ifdef MMCI_OPENBLAS
MMCI_OPENBLAS_FUNCTIONS(LINKED)
#endif

/* Opens the file that the linker took CBLAS from, NULL where the program holds it; false where this
 * library does. libmmchain-blas.so stands before gemm() alone, so gemv() is asked for. */
static bool open_linked(void **library) {
  void (*function)(void) = (void (*)(void))cblas_dgemv;
  void *address;
  Dl_info file, own;
  memcpy(&address, &function, sizeof address);
  *library = NULL;
  if (dladdr(address, &file) == 0 || dladdr(&taken, &own) == 0) return false;
  if (file.dli_fbase == own.dli_fbase) return false;
  *library = dlopen(file.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return true;
}

/* A reference BLAS has LAPACK beside it. */
static mmci_cblas_origin origin_of_linked(void) {
  mmci_cblas_origin origin = {.prefix = "", .suffix = "", .is_wide = sizeof(linked_int) == 8};
  open_linked(&origin.library);
  if (origin.library != NULL && dlsym(origin.library, "dpotrf_") == NULL && !origin.is_wide) {
    void *lapack = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    if (lapack != NULL) origin.library = lapack;
  }
  return origin;
}

static bool take_linked(void) {
  mmci_blas = (mmci_cblas){MMCI_CBLAS_FUNCTIONS(TAKE_LINKED, , )};
#ifdef MMCI_OPENBLAS
  /* A program that is linked with another CBLAS has the names of CBLAS from that one. */
  void *library;
  if (!open_linked(&library) ||
      (library != NULL && dlsym(library, "openblas_get_config") != NULL)) {
    MMCI_OPENBLAS_FUNCTIONS(SET_LINKED)
    mmci_blas.is_openblas = true;
    mmci_blas.has_old_kernels = has_old_kernels(&mmci_blas);
  }
#endif
  return true;
}
#else
static mmci_cblas_origin origin_of_linked(void) {
  return (mmci_cblas_origin){0};
}

static bool take_linked(void) {
  return false;
}
#endif

/* ---- one that is loaded ---------------------------------------------------------------------- */

/* The functions of a loaded CBLAS whose integers have 32 bits. */
static struct { MMCI_CBLAS_FUNCTIONS(MMCI_CBLAS_FIELD, int32_t, int32_t) } narrow;

#define NARROW(prefix, name, type, give, parameters, arguments) \
  static type narrow_##name parameters {                        \
    give narrow.name arguments;                                 \
  }
MMCI_CBLAS_FUNCTIONS(NARROW, int64_t, int32_t)

/* What the names of functions have before and after those of CBLAS. */
typedef struct naming {
  const char *prefix, *suffix;
} naming;

/* The wheels of NumPy since 2.0 and scipy-openblas64 have the first names, NumPy's since 1.22
 * the second, scipy-openblas32 the third, everything else the last. */
static const naming namings[] = {{"scipy_", "64_"}, {"", "64_"}, {"scipy_", ""}, {"", ""}};

enum { NAMINGS = sizeof namings / sizeof namings[0] };

/* Says whether the library has a function by this name, and points *function at it. */
static bool look_up(void *library, const naming *names, const char *name, void *function) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "%s%s%s", names->prefix, name, names->suffix);
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found); /* ISO C has no cast from one to the other */
  return found != NULL;
}

/* Says whether integers have 64 bits: OpenBLAS tells, and the suffix does. */
static bool is_wide(const mmci_cblas *x, const naming *names) {
  if (x->is_openblas && strstr(x->get_config(), "USE64BITINT") != NULL) return true;
  return names->suffix[0] != '\0';
}

#define FIND(prefix, name, type, give, parameters, arguments) \
  all = all && look_up(library, names, #prefix #name, &found.name);
#define FIND_NARROW(prefix, name, type, give, parameters, arguments) \
  all = all && look_up(library, names, #prefix #name, &narrow.name);
#define TAKE_NARROW(prefix, name, type, give, parameters, arguments) found.name = narrow_##name;

/* Says whether the library has every function under such names, and takes them. */
static bool take_named(void *library, const naming *names) {
  mmci_cblas found = {0};
  bool all = true;
  MMCI_OPENBLAS_FUNCTIONS(FIND)
  found.is_openblas = all;
  if (all)
    found.has_old_kernels = has_old_kernels(&found);
  else
    found = (mmci_cblas){0};
  all = all || (names->prefix[0] == '\0' && names->suffix[0] == '\0'); /* any CBLAS has these */
  if (is_wide(&found, names)) {
    MMCI_CBLAS_FUNCTIONS(FIND, , )
  } else {
    MMCI_CBLAS_FUNCTIONS(FIND_NARROW, , )
    MMCI_CBLAS_FUNCTIONS(TAKE_NARROW, , )
  }
  if (all) mmci_blas = found;
  return all;
}

/* Loads a library and takes its functions; the reason why not goes to error. */
static bool take_file(const char *path, mmci_error *error) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    mmci_fail(error, MMC_E_UNSUPPORTED, "no CBLAS: %.300s", dlerror());
    return false;
  }
  for (int n = 0; n < NAMINGS; n++) {
    if (!take_named(library, &namings[n])) continue;
    taken = (mmci_cblas_origin){.library = library,
                                .prefix = namings[n].prefix,
                                .suffix = namings[n].suffix,
                                .is_wide = is_wide(&mmci_blas, &namings[n])};
    return true;
  }
  dlclose(library);
  mmci_fail(error, MMC_E_UNSUPPORTED, "no CBLAS: %.250s lacks functions of one", path);
  return false;
}

/* ---- which one ------------------------------------------------------------------------------- */

static const char variable[] = "MMCHAIN_BLAS";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool looked;
static mmci_error outcome; /* what the search for a CBLAS ended with */

static mmc_status find_own(mmci_error *error) {
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas64.so.0",
                                      "libopenblas64_.so.0"};
  mmci_error reason;
  if (take_linked()) return MMC_OK;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
    if (take_file(names[n], &reason)) return MMC_OK;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "no OpenBLAS is found: install one (Debian: libopenblas0), or name the file of "
                   "one in %s",
                   variable);
}

static mmc_status find_by_environment(mmci_error *error) {
  const char *path = secure_getenv(variable);
  if (path == NULL || path[0] == '\0' || strcmp(path, "own") == 0) return find_own(error);
  if (strcmp(path, "none") == 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "%s says none", variable);
  if (path[0] != '/')
    return mmci_fail(error, MMC_E_ARG, "%s: expected own, none or an absolute path, got '%.100s'",
                     variable, path);
  if (!mmci_path_trusted(path))
    return mmci_fail(error, MMC_E_ARG,
                     "%s: expected what belongs to you or root and not all may write to, got "
                     "'%.100s'",
                     variable, path);
  mmci_error reason;
  if (take_file(path, &reason)) return MMC_OK;
  return mmci_fail(error, MMC_E_ARG, "%s: %.400s", variable, reason.text);
}

bool mmci_cblas_origin_of(mmci_cblas_origin *out) {
  *out = taken.library != NULL ? taken : origin_of_linked();
  return out->library != NULL;
}

mmc_status mmci_cblas_choose(const char *path, mmci_error *error) {
  mmc_status status = MMC_OK;
  pthread_mutex_lock(&lock);
  if (!looked) {
    bool own = strcmp(path, "own") == 0;
    if (own)
      status = find_own(error);
    else
      status = take_file(path, error) ? MMC_OK : MMC_E_UNSUPPORTED;
    looked = status == MMC_OK;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

mmc_status mmci_cblas_find(mmci_error *error) {
  pthread_mutex_lock(&lock);
  if (!looked) outcome.status = find_by_environment(&outcome);
  looked = true;
  if (outcome.status != MMC_OK && error != NULL) *error = outcome;
  mmc_status status = outcome.status;
  pthread_mutex_unlock(&lock);
  return status;
}
