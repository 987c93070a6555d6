/* structured_chains.h: random chains whose factors have structure, with matrices that are what they
 * are said to be, and their products in double precision by loops. */
#ifndef MMC_TEST_STRUCTURED_CHAINS_H
#define MMC_TEST_STRUCTURED_CHAINS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain/chain.h"
#include "chain/traits.h"
#include "complex_number.h"
#include "elements.h"
#include "random.h"

enum { CHAIN_MOST = 6, GROUPS_MOST = 3, SIDE_MOST = 40 }; /* so many groups are drawn */

/* A dense matrix by rows. */
typedef struct dense {
  int64_t rows, cols;
  double complex *at; /* rows x cols */
} dense;

typedef struct structured_chain {
  mmc_dtype dtype;
  int64_t n, dims[CHAIN_MOST + 1], stored[CHAIN_MOST];
  mmc_op ops[CHAIN_MOST];
  uint32_t traits[CHAIN_MOST];
  mmc_band bands[CHAIN_MOST];
  mmc_inverse inverses[CHAIN_MOST];
  int64_t inverse_count;
  dense values[CHAIN_MOST]; /* the stored matrices */
  mmc_chain *chain;
} structured_chain;

static inline dense dense_make(int64_t rows, int64_t cols) {
  dense x = {rows, cols, calloc((size_t)(rows * cols) + 1, sizeof(double complex))};
  return x;
}

static inline dense dense_op(const dense *x, mmc_op op) {
  bool turned = op != MMC_OP_N;
  dense y = dense_make(turned ? x->cols : x->rows, turned ? x->rows : x->cols);
  for (int64_t r = 0; r < y.rows; r++)
    for (int64_t c = 0; c < y.cols; c++) {
      double complex value = turned ? x->at[c * x->cols + r] : x->at[r * x->cols + c];
      y.at[r * y.cols + c] = op == MMC_OP_H ? conj(value) : value;
    }
  return y;
}

static inline dense dense_multiply(const dense *x, const dense *y) {
  dense z = dense_make(x->rows, y->cols);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t k = 0; k < x->cols; k++)
      for (int64_t c = 0; c < y->cols; c++)
        z.at[r * z.cols + c] += x->at[r * x->cols + k] * y->at[k * y->cols + c];
  return z;
}

/* Gauss and Jordan's method with pivots; NULL elements where the matrix is singular. */
static inline dense dense_invert(const dense *x) {
  int64_t n = x->rows;
  dense a = dense_op(x, MMC_OP_N), b = dense_make(n, n);
  for (int64_t i = 0; i < n; i++) b.at[i * n + i] = 1;
  for (int64_t p = 0; p < n; p++) {
    int64_t best = p;
    for (int64_t r = p + 1; r < n; r++)
      if (cabs(a.at[r * n + p]) > cabs(a.at[best * n + p])) best = r;
    if (cabs(a.at[best * n + p]) < 1e-12) {
      free(a.at);
      free(b.at);
      return (dense){n, n, NULL};
    }
    for (int64_t c = 0; c < n; c++) {
      double complex s = a.at[p * n + c], t = b.at[p * n + c];
      a.at[p * n + c] = a.at[best * n + c];
      a.at[best * n + c] = s;
      b.at[p * n + c] = b.at[best * n + c];
      b.at[best * n + c] = t;
    }
    double complex one = 1 / a.at[p * n + p];
    for (int64_t c = 0; c < n; c++) {
      a.at[p * n + c] *= one;
      b.at[p * n + c] *= one;
    }
    for (int64_t r = 0; r < n; r++) {
      double complex f = a.at[r * n + p];
      for (int64_t c = 0; c < n && r != p; c++) {
        a.at[r * n + c] -= f * a.at[p * n + c];
        b.at[r * n + c] -= f * b.at[p * n + c];
      }
    }
  }
  free(a.at);
  return b;
}

static inline double dense_norm(const dense *x) {
  double sum = 0;
  for (int64_t i = 0; i < x->rows * x->cols; i++) sum += creal(x->at[i] * conj(x->at[i]));
  return sqrt(sum);
}

/* Rounds to the dtype, so that tests compute with what the library is given. */
static inline double complex rounded(mmc_dtype dtype, double complex value) {
  unsigned char bytes[16];
  element_write(dtype, bytes, (element){creal(value), cimag(value)});
  element read = element_read(dtype, bytes);
  return CMPLX(read.re, mmci_dtype_is_complex(dtype) ? read.im : 0);
}

/* Multiplies by I - 2 v v^H / v^H v for a random v, twice, which is orthogonal. */
static inline void make_orthogonal(uint64_t *state, bool is_complex, dense *x) {
  const int64_t n = x->rows;
  double complex v[SIDE_MOST];
  for (int64_t i = 0; i < n * n; i++) x->at[i] = i % (n + 1) == 0;
  for (int times = 0; times < 2; times++) {
    double norm = 0;
    for (int64_t i = 0; i < n; i++) {
      v[i] = CMPLX(random_unit(state), is_complex ? random_unit(state) : 0);
      norm += creal(v[i] * conj(v[i]));
    }
    for (int64_t c = 0; c < n && norm > 0; c++) {
      double complex dot = 0;
      for (int64_t i = 0; i < n; i++) dot += conj(v[i]) * x->at[i * n + c];
      for (int64_t i = 0; i < n; i++) x->at[i * n + c] -= v[i] * (2 * dot / norm);
    }
  }
}

static inline void make_permutation(uint64_t *state, dense *x) {
  const int64_t n = x->rows;
  int64_t to[SIDE_MOST];
  memset(x->at, 0, (size_t)(n * n) * sizeof *x->at);
  for (int64_t i = 0; i < n; i++) {
    const int64_t j = random_below(state, i + 1);
    to[i] = to[j];
    to[j] = i;
  }
  for (int64_t i = 0; i < n; i++) x->at[i * n + to[i]] = 1;
}

/* Makes a matrix with these traits, and far from singular where it is square. */
static inline dense random_matrix(uint64_t *state, mmc_dtype dtype, int64_t rows, int64_t cols,
                                  uint32_t traits, mmc_band band) {
  const bool is_complex = mmci_dtype_is_complex(dtype), square = rows == cols;
  dense x = dense_make(rows, cols);
  double scale = 0.7 / sqrt((double)(cols > 0 ? cols : 1));
  uint32_t t = mmci_traits_close(traits & MMCI_TRAITS_OF_MATRIX, is_complex);
  for (int64_t i = 0; i < rows * cols; i++)
    x.at[i] = rounded(
        dtype, CMPLX(scale * random_unit(state), is_complex ? scale * random_unit(state) : 0));
  for (int64_t r = 0; r < rows && square; r++) {
    double sign = (t & MMC_POSITIVE_DEFINITE) != 0 || random_bits(state) % 2 != 0 ? 1 : -1;
    double complex *on = &x.at[r * cols + r];
    *on = rounded(dtype, *on * 0.5 + sign * 2);
    if ((t & (MMC_HERMITIAN | MMC_POSITIVE_DEFINITE)) != 0) *on = creal(*on);
    if ((t & MMC_UNIT) != 0) *on = 1;
    for (int64_t c = 0; c < cols; c++) {
      double complex *at = &x.at[r * cols + c];
      if ((t & MMC_ZERO) != 0 || ((t & MMC_LOWER) != 0 && c > r) || ((t & MMC_UPPER) != 0 && c < r))
        *at = 0;
      if ((t & MMC_BANDED) != 0 && (r - c > band.below || c - r > band.above)) *at = 0;
      if (c >= r || r == c) continue;
      if ((t & MMC_SYMMETRIC) != 0) *at = x.at[c * cols + r];
      if ((t & MMC_HERMITIAN) != 0 && (t & MMC_SYMMETRIC) == 0) *at = conj(x.at[c * cols + r]);
      if ((t & MMC_LOWER) != 0 && (t & MMC_UPPER) != 0) *at = 0;
    }
  }
  if (!square && (t & MMC_ZERO) != 0) memset(x.at, 0, (size_t)(rows * cols) * sizeof *x.at);
  /* A real symmetric matrix of complex elements is both. */
  for (int64_t i = 0; i < rows * cols; i++)
    if (mmci_traits_have(t, MMC_SYMMETRIC | MMC_HERMITIAN)) x.at[i] = creal(x.at[i]);
  if ((t & (MMC_ORTHOGONAL | MMC_IDENTITY)) == MMC_ORTHOGONAL) {
    if ((t & MMC_PERMUTATION) != 0)
      make_permutation(state, &x);
    else
      make_orthogonal(state, is_complex, &x);
    for (int64_t i = 0; i < rows * cols; i++) x.at[i] = rounded(dtype, x.at[i]);
  }
  return x;
}

static inline uint32_t random_traits(uint64_t *state, bool square) {
  static const uint32_t kinds[] = {0,
                                   0,
                                   MMC_LOWER,
                                   MMC_UPPER,
                                   MMC_LOWER | MMC_UNIT,
                                   MMC_UPPER | MMC_UNIT,
                                   MMC_SYMMETRIC,
                                   MMC_HERMITIAN,
                                   MMC_POSITIVE_DEFINITE,
                                   MMC_DIAGONAL,
                                   MMC_DIAGONAL | MMC_POSITIVE_DEFINITE,
                                   MMC_IDENTITY,
                                   MMC_PERMUTATION,
                                   MMC_ORTHOGONAL,
                                   MMC_ORTHOGONAL,
                                   MMC_BANDED,
                                   MMC_BANDED,
                                   MMC_BANDED | MMC_LOWER,
                                   MMC_BANDED | MMC_UPPER | MMC_UNIT,
                                   MMC_BANDED | MMC_SYMMETRIC,
                                   MMC_BANDED | MMC_HERMITIAN,
                                   MMC_BANDED | MMC_POSITIVE_DEFINITE,
                                   MMC_ZERO};
  if (!square) return random_below(state, 20) == 0 ? MMC_ZERO : 0;
  return kinds[random_below(state, sizeof kinds / sizeof kinds[0])];
}

/* Adds factor i: a matrix of its own, or that of a factor before with another op. */
static inline void add_random_factor(uint64_t *state, structured_chain *x, int64_t i,
                                     const int64_t *sides) {
  int64_t rows = x->dims[i], j = i > 0 ? random_below(state, i) : 0;
  x->stored[i] = i;
  x->ops[i] = (mmc_op)random_below(state, 3);
  if (i > 0 && random_below(state, 3) == 0) {
    if (random_bits(state) % 2 != 0) j = i - 1;
    j = x->stored[j];
    bool turned = x->ops[i] != MMC_OP_N;
    const dense *v = &x->values[j];
    if ((turned ? v->cols : v->rows) != rows) {
      turned = !turned;
      x->ops[i] = turned ? MMC_OP_H : MMC_OP_N;
    }
    if ((turned ? v->cols : v->rows) == rows) {
      x->stored[i] = j;
      x->dims[i + 1] = turned ? v->rows : v->cols;
      x->traits[i] = x->traits[j] & MMCI_TRAITS_OF_MATRIX;
      x->bands[i] = x->bands[j];
    }
  }
  if (x->stored[i] == i) {
    x->dims[i + 1] = random_below(state, 2) == 0 ? rows : sides[random_below(state, 2)];
    bool turned = x->ops[i] != MMC_OP_N, square = rows == x->dims[i + 1];
    x->traits[i] = random_traits(state, square);
    if ((x->traits[i] & MMC_BANDED) != 0)
      x->bands[i] = random_below(state, 2) == 0
                        ? (mmc_band){random_below(state, 3), random_below(state, 3)}
                        : (mmc_band){random_below(state, rows + 2), random_below(state, rows + 2)};
    if (mmci_traits_mirrored(mmci_traits_close(x->traits[i], false)))
      x->bands[i].above = x->bands[i].below;
    x->values[i] = random_matrix(state, x->dtype, turned ? x->dims[i + 1] : rows,
                                 turned ? rows : x->dims[i + 1], x->traits[i], x->bands[i]);
  }
  if (rows == x->dims[i + 1] && (x->traits[i] & MMC_ZERO) == 0 && random_below(state, 3) == 0)
    x->traits[i] |= MMC_INVERSE;
}

static inline void structured_chain_free(structured_chain *x) {
  for (int64_t i = 0; i < x->n; i++)
    if (x->stored[i] == i) free(x->values[i].at);
  mmc_chain_destroy(x->chain);
}

/* Says whether a group would be apart from the others, or within or around them. */
static inline bool fits_groups(const structured_chain *x, int64_t first, int64_t last) {
  bool fits = true;
  for (int64_t g = 0; g < x->inverse_count && fits; g++) {
    const mmc_inverse *h = &x->inverses[g];
    const bool apart = last < h->first || first > h->last,
               within = first >= h->first && last <= h->last,
               around = first <= h->first && last >= h->last;
    fits = apart || within != around; /* and not the same */
  }
  return fits;
}

/* Makes a chain of up to `most` factors whose sides are drawn from two. */
static inline bool structured_chain_make(uint64_t *state, mmc_dtype dtype, int64_t most,
                                         const int64_t sides[2], structured_chain *x) {
  *x = (structured_chain){.dtype = dtype, .n = 1 + random_below(state, most)};
  x->dims[0] = sides[random_below(state, 2)];
  for (int64_t i = 0; i < x->n; i++) add_random_factor(state, x, i, sides);
  if (x->n > 1 && random_below(state, 2) == 0)
    for (int64_t tries = 0; tries < 4 && x->inverse_count < GROUPS_MOST; tries++) {
      int64_t first = random_below(state, x->n - 1),
              last = first + 1 + random_below(state, x->n - 1 - first);
      if (x->dims[first] != x->dims[last + 1]) continue;
      if (!fits_groups(x, first, last)) continue;
      x->inverses[x->inverse_count++] = (mmc_inverse){first, last};
    }
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.traits = x->traits;
  options.bands = x->bands;
  options.stored = x->stored;
  options.inverses = x->inverses;
  options.inverse_count = x->inverse_count;
  mmci_error error = {0};
  if (mmci_chain_create_as(dtype, x->n, x->dims, x->ops, &options, &x->chain, &error) == MMC_OK)
    return true;
  printf("chain: %s\n", error.text);
  return false;
}

/* Computes factors i to j-1, and multiplies *growth by what each of them may make of an error.
 * *singular is set where an inverse does not exist, or hardly. */
static inline dense structured_product(const structured_chain *x, int64_t i, int64_t j,
                                       bool grouped, double *growth, bool *singular) {
  dense all = {0};
  for (int64_t f = i, next; f < j; f = next) {
    dense one;
    bool inverse = (x->traits[f] & MMC_INVERSE) != 0;
    next = f + 1;
    for (int64_t g = 0; g < x->inverse_count; g++)
      if (x->inverses[g].first == f && x->inverses[g].last < j && x->inverses[g].last >= next &&
          !(grouped && x->inverses[g].first == i && x->inverses[g].last == j - 1)) {
        next = x->inverses[g].last + 1;
        inverse = true;
      }
    if (next == f + 1)
      one = dense_op(&x->values[x->stored[f]], x->ops[f]);
    else
      one = structured_product(x, f, next, true, growth, singular);
    double norm = dense_norm(&one);
    if (inverse) {
      dense inverted = *singular ? (dense){one.rows, one.cols, NULL} : dense_invert(&one);
      if (inverted.at == NULL) {
        *singular = true;
        inverted = dense_make(one.rows, one.cols);
      }
      double condition = norm * dense_norm(&inverted);
      if (!(condition < 2000)) *singular = true;
      norm = dense_norm(&inverted) * (condition > 1 ? condition : 1);
      free(one.at);
      one = inverted;
    }
    *growth *= norm > 1 ? norm : 1;
    if (all.at == NULL) {
      all = one;
      continue;
    }
    dense product = dense_multiply(&all, &one);
    free(all.at);
    free(one.at);
    all = product;
  }
  return all;
}

/* ---- failures -------------------------------------------------------------------------------- */

static int failures;

static inline int append_text(void *user, const char *bytes, size_t size) {
  char *text = user;
  strncat(text, bytes, size);
  return 0;
}

static inline void fail(const structured_chain *x, uint64_t seed, const char *what) {
  char text[2000] = "";
  if (x->chain != NULL) mmc_chain_write(x->chain, append_text, text);
  printf("seed %llu, %s: %s\n", (unsigned long long)seed, text, what);
  failures++;
}

#endif
