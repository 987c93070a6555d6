#include "device/blas/xsmm.h"

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

#ifdef MMCI_XSMM
#include <libxsmm.h>
#include <sys/mman.h>

bool mmci_xsmm_can(const mmci_gemm *gemm) {
  bool sizes = gemm->m > 0 && gemm->k > 0 && gemm->n > 0 &&
               (gemm->m | gemm->k | gemm->n | gemm->a.ld | gemm->b.ld | gemm->ldc) <= INT_MAX;
  return sizes && !gemm->b.trans && (gemm->dtype == MMC_F32 || gemm->dtype == MMC_F64);
}

enum { VECTORS = 4 /* a block of columns is up to so many vectors wide */ };

static int64_t width_of(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_F32 ? 16 : 8;
}

/* Narrow blocks of many rows have sums enough. LIBXSMM itself is not asked which instructions it
 * uses, since the first question of a process takes it 4 ms. */
bool mmci_xsmm_in_order(const mmci_gemm *gemm) {
  enum { ROWS = 12 };
  if (!__builtin_cpu_supports("avx512f")) return true;
  const int64_t width = width_of(gemm), last = gemm->n % (VECTORS * width);
  const bool is_narrow = last > 0 && last <= width;
  return !is_narrow || (gemm->n <= width && gemm->m >= ROWS);
}

int64_t mmci_xsmm_cut(const mmci_gemm *gemm) {
  const int64_t width = width_of(gemm), last = gemm->n % (VECTORS * width);
  return mmci_xsmm_in_order(gemm) || gemm->n <= width ? gemm->n : gemm->n - last - width;
}

/* Hashes what the code depends on, as FNV does (Fowler, Noll and Vo). */
static uint64_t hash_of(const mmci_gemm *gemm) {
  const int64_t parts[] = {gemm->dtype, gemm->m,   gemm->k,       gemm->n,         gemm->a.ld,
                           gemm->b.ld,  gemm->ldc, gemm->a.trans, gemm->accumulate};
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    hash = (hash ^ (uint64_t)parts[i]) * UINT64_C(0x100000001B3);
  return hash ^ hash >> 32;
}

/* Code that was written has so many places, chosen by the lower bits of its hash; new code replaces
 * old. */
enum { PLACES = 8192 };
static atomic_uint_least64_t written[PLACES];

bool mmci_xsmm_has(const mmci_gemm *gemm) {
  uint64_t hash = hash_of(gemm);
  return atomic_load_explicit(&written[hash % PLACES], memory_order_relaxed) == hash;
}

/* LIBXSMM keeps the code of a product, some 12 KB, to the end of the process. After so many others
 * there is no new code, and loops compute what is asked for. */
enum { MOST_WRITTEN = 1 << 13 };
static atomic_int written_count;

/* LIBXSMM takes some 11 MB when it is first asked, and then a little for every code. Where the
 * system has none left for it, it crashes, or gives code that may not be run. */
static bool has_room(void) {
  const size_t size = (size_t)1 << 24;
  void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return room != MAP_FAILED && munmap(room, size) == 0;
}

mmci_xsmm_fn mmci_xsmm_code(const mmci_gemm *gemm) {
  if (!mmci_xsmm_has(gemm)) {
    if (atomic_load_explicit(&written_count, memory_order_relaxed) >= MOST_WRITTEN || !has_room())
      return NULL;
    atomic_fetch_add_explicit(&written_count, 1, memory_order_relaxed);
  }
  int m = (int)gemm->n, n = (int)gemm->m, k = (int)gemm->k;
  int lda = (int)gemm->b.ld, ldb = (int)gemm->a.ld, ldc = (int)gemm->ldc;
  int flags = gemm->a.trans ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  libxsmm_xmmfunction code = {NULL};
  if (gemm->dtype == MMC_F32) {
    float alpha = 1, beta = gemm->accumulate ? 1 : 0;
    code.smm = libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, NULL);
  } else {
    double alpha = 1, beta = gemm->accumulate ? 1 : 0;
    code.dmm = libxsmm_dmmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, &flags, NULL);
  }
  uint64_t hash = hash_of(gemm);
  atomic_store_explicit(&written[hash % PLACES], hash, memory_order_relaxed);
  return (mmci_xsmm_fn)code.xmm;
}
#else
bool mmci_xsmm_can(const mmci_gemm *gemm) {
  (void)gemm;
  return false;
}

bool mmci_xsmm_in_order(const mmci_gemm *gemm) {
  (void)gemm;
  return true;
}

int64_t mmci_xsmm_cut(const mmci_gemm *gemm) {
  return gemm->n;
}

bool mmci_xsmm_has(const mmci_gemm *gemm) {
  (void)gemm;
  return false;
}

mmci_xsmm_fn mmci_xsmm_code(const mmci_gemm *gemm) {
  (void)gemm;
  return NULL;
}
#endif

#if defined(__x86_64__)
__attribute__((target("avx"))) static void zero_upper_parts(void) {
  __builtin_ia32_vzeroupper();
}

void mmci_xsmm_leave(void) {
  if (__builtin_cpu_supports("avx")) zero_upper_parts();
}
#else
void mmci_xsmm_leave(void) {}
#endif
