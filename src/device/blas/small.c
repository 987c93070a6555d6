#include "device/blas/small.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/dtype.h"

enum { SMALL = 64, NARROW = 4, FEW = 64 };

static bool within(const mmci_gemm *gemm, int64_t side) {
  return gemm->m <= side && gemm->k <= side && gemm->n <= side;
}

/* Says whether A is packed: a complex left operand is read where it lies unless it is transposed, a
 * real one in any case. */
static bool packs_a(const mmci_gemm *gemm) {
  return mmci_dtype_is_complex(gemm->dtype) && gemm->a.trans;
}

static bool packs_b(const mmci_gemm *gemm) {
  return mmci_dtype_is_complex(gemm->dtype) || gemm->b.trans;
}

/* Returns the product that LIBXSMM is asked for, when no size is 0. */
static mmci_gemm real_product(const mmci_gemm *gemm) {
  mmci_gemm real = *gemm;
  if (packs_a(gemm)) real.a = (mmci_form){.ld = gemm->k};
  if (packs_b(gemm)) real.b = (mmci_form){.ld = gemm->n};
  real.a.conj = real.b.conj = false;
  if (mmci_dtype_is_complex(gemm->dtype)) {
    real.dtype = gemm->dtype == MMC_C64 ? MMC_F32 : MMC_F64;
    real.k *= 2;
    real.n *= 2;
    real.a.ld *= 2;
    real.b.ld *= 2;
    real.ldc *= 2;
  }
  return real;
}

static size_t bytes_of_a(const mmci_gemm *gemm) {
  return (size_t)gemm->m * (size_t)gemm->k * mmc_dtype_size(gemm->dtype);
}

static size_t bytes_of_b(const mmci_gemm *gemm) {
  size_t copies = mmci_dtype_is_complex(gemm->dtype) ? 2 : 1;
  return copies * (size_t)gemm->k * (size_t)gemm->n * mmc_dtype_size(gemm->dtype);
}

static bool is_packed_in_room(const mmci_gemm *gemm) {
  return within(gemm, SMALL) &&
         bytes_of_b(gemm) + (packs_a(gemm) ? bytes_of_a(gemm) : 0) <= MMCI_SMALL_ROOM;
}

bool mmci_small_can(const mmci_gemm *gemm) {
  if (gemm->rule.semiring != MMC_PLUS_TIMES) return false;
  if (mmci_dtype_is_complex(gemm->dtype) && !is_packed_in_room(gemm)) return false;
  mmci_gemm real = real_product(gemm);
  return mmci_xsmm_can(&real);
}

/* Says whether lines of C end with a vector of AVX-512 that is filled up to a quarter. */
static bool ends_with_little(const mmci_gemm *gemm) {
  const int64_t lanes = 64 / (int64_t)mmc_dtype_size(gemm->dtype), rest = gemm->n % lanes;
  return !mmci_dtype_is_complex(gemm->dtype) && gemm->n > 32 && rest > 0 && rest <= lanes / 4;
}

bool mmci_small_pays(const mmci_gemm *gemm) {
  if (!within(gemm, SMALL) || ends_with_little(gemm) || !mmci_small_can(gemm)) return false;
  const int64_t numbers = mmci_dtype_is_complex(gemm->dtype) ? 2 * gemm->n : gemm->n;
  return numbers > NARROW || gemm->m * gemm->k <= FEW;
}

/* Code is worth writing for a product that is computed so many times. Writing takes 40 to 300 us,
 * 4 to 800 for complex ones, and code gains 0 to 20 % over the loops: it paid after 800 to 5000
 * products of sides from 12 to 48, and after 200 to 1000 of larger ones. */
static int64_t often(const mmci_gemm *real) {
  enum { OFTEN = 1000, OFTEN_LARGE = 250, LARGE = 40 * 40 * 40 };
  return real->m * real->k * real->n >= LARGE ? OFTEN_LARGE : OFTEN;
}

/* Returns the product of the first columns. */
static mmci_gemm left_part(const mmci_gemm *real) {
  mmci_gemm left = *real;
  left.n = mmci_xsmm_cut(real);
  return left;
}

static void write_code(mmci_small *x) {
  const mmci_gemm left = left_part(&x->real);
  mmci_gemm right = x->real;
  right.n -= left.n;
  x->tried = true;
  x->code = mmci_xsmm_code(&left);
  if (right.n == 0 || x->code == NULL) return;
  x->right_at = (size_t)left.n * mmc_dtype_size(left.dtype);
  x->code_right = mmci_xsmm_code(&right);
  if (x->code_right == NULL) x->code = NULL;
}

mmci_small mmci_small_make(const mmci_gemm *gemm) {
  mmci_small x = {.gemm = *gemm,
                  .real = real_product(gemm),
                  .can = true,
                  .packs_a = packs_a(gemm),
                  .packs_b = packs_b(gemm)};
  const mmci_gemm left = left_part(&x.real);
  x.tried = mmci_small_loops_can() && !mmci_xsmm_in_order(&left);
  if (mmci_small_loops_can()) return x;
  write_code(&x);
  x.can = x.code != NULL;
  return x;
}

void mmci_small_prepare(mmci_small *x, int64_t times) {
  const mmci_gemm left = left_part(&x->real);
  if (!x->tried && (times >= often(&x->real) || mmci_xsmm_has(&left))) write_code(x);
}

void mmci_small_execute(mmci_small *x, int64_t times) {
  if (x->tried) return;
  if (x->executions >= often(&x->real)) write_code(x);
  x->executions += times;
}

size_t mmci_small_room_bytes(const mmci_small *x) {
  return (x->packs_b ? bytes_of_b(&x->gemm) : 0) + (x->packs_a ? bytes_of_a(&x->gemm) : 0);
}

/* Copies the transposed of what lies at from to `to`, rows x cols elements of `parts` numbers each:
 * of the first `done_rows` rows, columns from `done_cols` on. */
#define UPRIGHT(name, type, parts)                                                              \
  static void name(int64_t rows, int64_t cols, const void *from, int64_t ld, int64_t done_rows, \
                   int64_t done_cols, void *to) {                                               \
    const type *x = from;                                                                       \
    type *y = to;                                                                               \
    for (int64_t r = 0; r < rows; r++)                                                          \
      for (int64_t c = r < done_rows ? done_cols : 0; c < cols; c++)                            \
        for (int p = 0; p < (parts); p++)                                                       \
          y[(r * cols + c) * (parts) + p] = x[(c * ld + r) * (parts) + p];                      \
  }

/* Copies each row of B, its imaginary parts times sign_b, then that row times i, and times sign_a;
 * columns from `first` on. A complex number is one vector, because the time goes into stores. */
#define SPREAD(name, type)                                                                \
  static void name(const mmci_gemm *gemm, const void *from, int64_t first, void *to) {    \
    typedef type number                                                                   \
        __attribute__((vector_size(2 * sizeof(type)), aligned(sizeof(type)), may_alias)); \
    type sign_a = gemm->a.conj ? -1 : 1, sign_b = gemm->b.conj ? -1 : 1;                  \
    const number *x = from, signs_a = {-sign_a, sign_a}, signs_b = {1, sign_b};           \
    number *y = to;                                                                       \
    int64_t n = gemm->n, ld = gemm->b.ld, down = gemm->b.trans ? 1 : ld,                  \
            right = gemm->b.trans ? ld : 1;                                               \
    for (int64_t r = 0; r < gemm->k; r++, x += down, y += 2 * n)                          \
      for (int64_t c = first; c < n; c++) {                                               \
        number z = x[c * right] * signs_b;                                                \
        y[c] = z;                                                                         \
        y[n + c] = (number){z[1], z[0]} * signs_a;                                        \
      }                                                                                   \
  }

UPRIGHT(upright_f32, float, 1)
UPRIGHT(upright_f64, double, 1)
UPRIGHT(upright_c64, float, 2)
UPRIGHT(upright_c128, double, 2)
SPREAD(spread_c64, float)
SPREAD(spread_c128, double)

#if defined(__x86_64__)
#define AVX __attribute__((target("avx")))

/* Spreads the columns that fill vectors and lie side by side; returns how many those are. */
AVX static int64_t spread_c64_avx(const mmci_gemm *gemm, const void *from, void *to) {
  float a = gemm->a.conj ? -1 : 1, b = gemm->b.conj ? -1 : 1;
  __m256 signs_a = _mm256_setr_ps(-a, a, -a, a, -a, a, -a, a);
  __m256 signs_b = _mm256_setr_ps(1, b, 1, b, 1, b, 1, b);
  const float *x = from;
  float *y = to;
  int64_t n = gemm->n, whole = n / 4 * 4;
  for (int64_t r = 0; r < gemm->k; r++, x += 2 * gemm->b.ld, y += 4 * n)
    for (int64_t c = 0; c < whole; c += 4) {
      __m256 z = _mm256_mul_ps(_mm256_loadu_ps(x + 2 * c), signs_b);
      _mm256_storeu_ps(y + 2 * c, z);
      _mm256_storeu_ps(y + 2 * (n + c), _mm256_mul_ps(_mm256_permute_ps(z, 0xb1), signs_a));
    }
  return whole;
}

AVX static int64_t spread_c128_avx(const mmci_gemm *gemm, const void *from, void *to) {
  double a = gemm->a.conj ? -1 : 1, b = gemm->b.conj ? -1 : 1;
  __m256d signs_a = _mm256_setr_pd(-a, a, -a, a), signs_b = _mm256_setr_pd(1, b, 1, b);
  const double *x = from;
  double *y = to;
  int64_t n = gemm->n, whole = n / 2 * 2;
  for (int64_t r = 0; r < gemm->k; r++, x += 2 * gemm->b.ld, y += 4 * n)
    for (int64_t c = 0; c < whole; c += 2) {
      __m256d z = _mm256_mul_pd(_mm256_loadu_pd(x + 2 * c), signs_b);
      _mm256_storeu_pd(y + 2 * c, z);
      _mm256_storeu_pd(y + 2 * (n + c), _mm256_mul_pd(_mm256_permute_pd(z, 5), signs_a));
    }
  return whole;
}

static int64_t spread_vectors(const mmci_gemm *gemm, const void *from, void *to) {
  if (gemm->b.trans || !__builtin_cpu_supports("avx")) return 0;
  return gemm->dtype == MMC_C64 ? spread_c64_avx(gemm, from, to) : spread_c128_avx(gemm, from, to);
}

/* Copies the transposed of 8 x 8 numbers whose lines are ld apart. Halves of lines i and i + 4 are
 * one vector, so that two 4 x 4 blocks are transposed at a time. */
AVX static void turn_f32(const float *x, int64_t ld, float *y, int64_t to_ld) {
  for (int half = 0; half < 8; half += 4, x += 4, y += 4 * to_ld) {
    __m256 line[4];
    for (int i = 0; i < 4; i++)
      line[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + i * ld)),
                                     _mm_loadu_ps(x + (i + 4) * ld), 1);
    const __m256 low = _mm256_unpacklo_ps(line[0], line[1]),
                 high = _mm256_unpackhi_ps(line[0], line[1]),
                 next_low = _mm256_unpacklo_ps(line[2], line[3]),
                 next_high = _mm256_unpackhi_ps(line[2], line[3]);
    _mm256_storeu_ps(y, _mm256_shuffle_ps(low, next_low, 0x44));
    _mm256_storeu_ps(y + to_ld, _mm256_shuffle_ps(low, next_low, 0xee));
    _mm256_storeu_ps(y + 2 * to_ld, _mm256_shuffle_ps(high, next_high, 0x44));
    _mm256_storeu_ps(y + 3 * to_ld, _mm256_shuffle_ps(high, next_high, 0xee));
  }
}

/* Transposes 4 x 4 numbers. */
AVX static void turn_f64(const double *x, int64_t ld, double *y, int64_t to_ld) {
  for (int half = 0; half < 4; half += 2, x += 2, y += 2 * to_ld) {
    __m256d line[2];
    for (int i = 0; i < 2; i++)
      line[i] = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + i * ld)),
                                     _mm_loadu_pd(x + (i + 2) * ld), 1);
    _mm256_storeu_pd(y, _mm256_unpacklo_pd(line[0], line[1]));
    _mm256_storeu_pd(y + to_ld, _mm256_unpackhi_pd(line[0], line[1]));
  }
}

/* Copies the transposed of as many whole blocks as there are; returns the side of a block. */
static int64_t turn_blocks(const mmci_gemm *gemm, const void *from, void *to) {
  if (!__builtin_cpu_supports("avx")) return 0;
  const bool is_f32 = gemm->dtype == MMC_F32;
  const int64_t side = is_f32 ? 8 : 4, ld = gemm->b.ld, n = gemm->n;
  for (int64_t r = 0; r + side <= gemm->k; r += side)
    for (int64_t c = 0; c + side <= n; c += side)
      if (is_f32)
        turn_f32((const float *)from + c * ld + r, ld, (float *)to + r * n + c, n);
      else
        turn_f64((const double *)from + c * ld + r, ld, (double *)to + r * n + c, n);
  return side;
}
#else
static int64_t turn_blocks(const mmci_gemm *gemm, const void *from, void *to) {
  (void)gemm, (void)from, (void)to;
  return 0;
}

static int64_t spread_vectors(const mmci_gemm *gemm, const void *from, void *to) {
  (void)gemm, (void)from, (void)to;
  return 0;
}
#endif

static void spread_rows(const mmci_gemm *gemm, const void *from, void *to) {
  int64_t done = spread_vectors(gemm, from, to);
  if (done == gemm->n) return;
  if (gemm->dtype == MMC_C64)
    spread_c64(gemm, from, done, to);
  else
    spread_c128(gemm, from, done, to);
}

void mmci_small_pack(const mmci_small *x, const void **a, const void **b, void *room) {
  const mmci_gemm *gemm = &x->gemm;
  char *packed_a = (char *)room + bytes_of_b(gemm);
  mmci_xsmm_leave(); /* code for another product may have run before */
  const bool is_real = !mmci_dtype_is_complex(gemm->dtype);
  const int64_t side = is_real ? turn_blocks(gemm, *b, room) : 0;
  const int64_t done_rows = side > 0 ? gemm->k / side * side : 0,
                done_cols = side > 0 ? gemm->n / side * side : 0;
  switch (gemm->dtype) {
    case MMC_F32:
      upright_f32(gemm->k, gemm->n, *b, gemm->b.ld, done_rows, done_cols, room);
      break;
    case MMC_F64:
      upright_f64(gemm->k, gemm->n, *b, gemm->b.ld, done_rows, done_cols, room);
      break;
    case MMC_C64:
      spread_rows(gemm, *b, room);
      if (x->packs_a) upright_c64(gemm->m, gemm->k, *a, gemm->a.ld, 0, 0, packed_a);
      break;
    default:
      spread_rows(gemm, *b, room);
      if (x->packs_a) upright_c128(gemm->m, gemm->k, *a, gemm->a.ld, 0, 0, packed_a);
      break;
  }
  *b = room;
  if (x->packs_a) *a = packed_a;
}
