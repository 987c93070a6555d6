#include "device/blas/advice.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- OpenBLAS -------------------------------------------------------------------------------- */

/* OpenBLAS's names of x86-64 cores; cores of AMD whose wider instructions gain little do not count
 * as older. */
static const struct {
  const char *core;
  mmci_simd simd;
} cores[] = {
    {"Generic", MMCI_SSE},     {"Prescott", MMCI_SSE},      {"Core2", MMCI_SSE},
    {"Penryn", MMCI_SSE},      {"Dunnington", MMCI_SSE},    {"Nehalem", MMCI_SSE},
    {"Atom", MMCI_SSE},        {"Opteron", MMCI_SSE},       {"Opteron_SSE3", MMCI_SSE},
    {"Barcelona", MMCI_SSE},   {"Bobcat", MMCI_SSE},        {"Sandybridge", MMCI_AVX},
    {"Bulldozer", MMCI_AVX},   {"Piledriver", MMCI_AVX},    {"Steamroller", MMCI_AVX},
    {"Excavator", MMCI_AVX2},  {"Haswell", MMCI_AVX2},      {"Zen", MMCI_AVX512},
    {"SkylakeX", MMCI_AVX512}, {"Cooperlake", MMCI_AVX512}, {"SapphireRapids", MMCI_AVX512},
};

enum { CORES = sizeof cores / sizeof cores[0] };

mmci_simd mmci_simd_of_processor(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return MMCI_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MMCI_AVX2;
  if (__builtin_cpu_supports("avx")) return MMCI_AVX;
#endif
  return MMCI_SSE;
}

static bool has_word(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
    if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
  return false;
}

/* Returns the core that OpenBLAS names, or CORES. */
static int core_of(const char *config) {
  int c = 0;
  while (c < CORES && !has_word(config, cores[c].core)) c++;
  return c;
}

bool mmci_openblas_is_slow(const char *config, mmci_simd processor) {
  const int c = core_of(config);
  return c < CORES && cores[c].simd < processor;
}

void mmci_openblas_advice(const char *config, mmci_simd processor, char *text, size_t size) {
  static const char *const names[] = {"SSE", "AVX", "AVX2", "AVX-512"};
  static const char *const best[] = {"", "Sandybridge", "Haswell", "SkylakeX"};
  text[0] = '\0';
  const int c = core_of(config);
  if (!mmci_openblas_is_slow(config, processor)) return;
  if (has_word(config, "DYNAMIC_ARCH"))
    snprintf(text, size, "; slow: %s's kernels, and the processor has %s: set OPENBLAS_CORETYPE=%s",
             cores[c].core, names[processor], best[processor]);
  else
    snprintf(text, size,
             "; slow: built for %s, and the processor has %s: install an OpenBLAS with "
             "DYNAMIC_ARCH",
             cores[c].core, names[processor]);
}

/* ---- others ---------------------------------------------------------------------------------- */

void mmci_other_blas_advice(char *text, size_t size) {
  static const char *const fast[] = {"openblas_get_config", "MKL_Get_Version_String",
                                     "bli_info_get_version_str", "armpl_info", "ATL_buildinfo"};
  text[0] = '\0';
  for (size_t f = 0; f < sizeof fast / sizeof fast[0]; f++)
    if (dlsym(RTLD_DEFAULT, fast[f]) != NULL) return;
  snprintf(text, size,
           "; slow: it seems to be the reference BLAS, many times slower than OpenBLAS: install "
           "libopenblas-dev and build again");
}
