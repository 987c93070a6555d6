/* blas.c: see blas.h. The linker turns the library's calls of OpenBLAS into calls of the functions
 * here (ld's --wrap: cblas_dgemm becomes __wrap_cblas_dgemm, and __real_cblas_dgemm the one of the
 * OpenBLAS that was linked); they go on to NumPy's functions, whose integers have 64 bits, or to
 * the real ones. */
#include "blas.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum CBLAS_ORDER order;
typedef enum CBLAS_TRANSPOSE op;

/* NOLINTBEGIN(bugprone-reserved-identifier): these are the names that ld makes. */

/* What is called: X(prefix, name, type, give, parameters, arguments), with integers of type I; give
 * is `return` where there is something to return. The scalars of complex products are pointers. */
#define GEMM(X, I, letter, scalar, element)                                       \
  X(cblas_, letter##gemm, void, ,                                                 \
    (order o, op ta, op tb, I m, I n, I k, scalar alpha, const element *a, I lda, \
     const element *b, I ldb, scalar beta, element *c, I ldc),                    \
    (o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
#define GEMV(X, I, letter, scalar, element)                                                     \
  X(cblas_, letter##gemv, void, ,                                                               \
    (order o, op ta, I m, I n, scalar alpha, const element *a, I lda, const element *x, I incx, \
     scalar beta, element *y, I incy),                                                          \
    (o, ta, m, n, alpha, a, lda, x, incx, beta, y, incy))
#define DOT(X, I, letter, element)        \
  X(cblas_, letter##dot, element, return, \
    (I n, const element *x, I incx, const element *y, I incy), (n, x, incx, y, incy))
#define FUNCTIONS(X, I)                                           \
  GEMM(X, I, s, float, float)                                     \
  GEMM(X, I, d, double, double)                                   \
  GEMM(X, I, c, const void *, void)                               \
  GEMM(X, I, z, const void *, void)                               \
  GEMV(X, I, s, float, float)                                     \
  GEMV(X, I, d, double, double)                                   \
  GEMV(X, I, c, const void *, void)                               \
  GEMV(X, I, z, const void *, void)                               \
  DOT(X, I, s, float)                                             \
  DOT(X, I, d, double)                                            \
  X(openblas_, get_num_threads, int, return, (void), ())          \
  X(openblas_, set_num_threads, void, , (int threads), (threads)) \
  X(openblas_, get_config, char *, return, (void), ())

/* NumPy's; NULL, all of them, where it brought none. */
static struct {
#define FIELD(prefix, name, type, give, parameters, arguments) type(*name) parameters;
  FUNCTIONS(FIELD, int64_t)
} numpy;

#define WRAP(prefix, name, type, give, parameters, arguments) \
  type __real_##prefix##name parameters;                      \
  type __wrap_##prefix##name parameters;                      \
  type __wrap_##prefix##name parameters {                     \
    if (numpy.name != NULL)                                   \
      give numpy.name arguments;                              \
    else                                                      \
      give __real_##prefix##name arguments;                   \
  }
FUNCTIONS(WRAP, blasint)

/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- finding it ------------------------------------------------------------------------------ */

/* Of wheels since NumPy 2.0, and of those since 1.22. */
static const char *const name_prefixes[] = {"scipy_", ""};
static const char name_suffix[] = "64_";

/* Whether the library has a function by this name. */
static bool find(void *library, const char *prefix, const char *name, void *function) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "%s%s%s", prefix, name, name_suffix);
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found); /* C has no cast from one to the other */
  return found != NULL;
}

static bool find_all(void *library, const char *prefix) {
  bool all = true;
#define FIND(of, name, type, give, parameters, arguments) \
  all = all && find(library, prefix, #of #name, &numpy.name);
  FUNCTIONS(FIND, int64_t)
  if (!all) memset(&numpy, 0, sizeof numpy);
  return all;
}

/* For dl_iterate_phdr, which holds a lock that dlopen takes later: copies a path, and ends at 1. */
static int look_at(struct dl_phdr_info *object, size_t size, void *path) {
  (void)size;
  const char *folder = strstr(object->dlpi_name, "/numpy.libs/");
  if (folder == NULL || strstr(folder, "openblas64_") == NULL) return 0;
  return snprintf(path, PATH_MAX, "%s", object->dlpi_name) < PATH_MAX;
}

/* The library stays loaded, as NumPy does. */
void mmcp_blas_find(void) {
  const char *choice = getenv("MMCHAIN_BLAS");
  char path[PATH_MAX];
  if (choice != NULL && strcmp(choice, "own") == 0) return;
  if (dl_iterate_phdr(look_at, path) == 0) return;
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return;
  for (size_t p = 0; p < sizeof name_prefixes / sizeof *name_prefixes; p++)
    if (find_all(library, name_prefixes[p])) return;
  dlclose(library);
}
