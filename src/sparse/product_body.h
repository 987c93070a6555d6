/* product_body.h: the loops of sparse products for one type of elements, included by product.c for
 * each. ELEMENT is the type, NAME(x) the name of a function for it, ADD(c, a, b) c += a b.
 *
 * A row of a product is gathered in an array of all columns. Which of them have been met is kept in
 * bits, and which words of bits are not 0 in bits of a second level, so that reading them back in
 * order takes a passage over neither; where a row meets few columns, these are listed and sorted.
 */

/* Adds row r of A B to a row of zeros. */
static void NAME(add_row)(const mmci_csr *a, const mmci_csr *b, int64_t r, ELEMENT *row) {
  const ELEMENT *left = a->values, *right = b->values;
  for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
    const ELEMENT x = left[e];
    const int64_t k = a->indices[e], end = b->indptr[k + 1];
    for (int64_t f = b->indptr[k]; f < end; f++) ADD(row[b->indices[f]], x, right[f]);
  }
}

/* Gathers row r of A B and notes its columns in bits. */
static void NAME(gather_row)(const mmci_csr *a, const mmci_csr *b, int64_t r, gathering *g) {
  const ELEMENT *left = a->values, *right = b->values;
  ELEMENT *row = g->row;
  for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
    const ELEMENT x = left[e];
    const int64_t k = a->indices[e], end = b->indptr[k + 1];
    for (int64_t f = b->indptr[k]; f < end; f++) {
      const uint32_t c = (uint32_t)b->indices[f];
      ADD(row[c], x, right[f]);
      g->bits[c >> 6] |= UINT64_C(1) << (c & 63);
      g->words[c >> 12] |= UINT64_C(1) << (c >> 6 & 63);
    }
  }
}

/* Takes what was gathered, column by column, and leaves zeros. */
static int64_t NAME(take_row)(gathering *g, int32_t *indices, ELEMENT *values) {
  ELEMENT *row = g->row;
  const ELEMENT zero = {0};
  int64_t count = 0;
  for (int64_t w = 0; w < g->word_count; w++) {
    for (uint64_t words = g->words[w]; words != 0; words &= words - 1) {
      const int64_t word = w * 64 + __builtin_ctzll(words);
      for (uint64_t bits = g->bits[word]; bits != 0; bits &= bits - 1) {
        const int64_t c = word * 64 + __builtin_ctzll(bits);
        indices[count] = (int32_t)c;
        values[count++] = row[c];
        row[c] = zero;
      }
      g->bits[word] = 0;
    }
    g->words[w] = 0;
  }
  return count;
}

/* Gathers a row that meets few columns, by a list of them, and takes it. */
static int64_t NAME(list_row)(const mmci_csr *a, const mmci_csr *b, int64_t r, gathering *g,
                              int32_t *indices, ELEMENT *values) {
  const ELEMENT *left = a->values, *right = b->values, zero = {0};
  ELEMENT *row = g->row;
  int64_t count = 0;
  for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
    const ELEMENT x = left[e];
    const int64_t k = a->indices[e], end = b->indptr[k + 1];
    for (int64_t f = b->indptr[k]; f < end; f++) {
      const uint32_t c = (uint32_t)b->indices[f];
      const uint64_t bit = UINT64_C(1) << (c & 63);
      if ((g->bits[c >> 6] & bit) == 0) indices[count++] = (int32_t)c;
      g->bits[c >> 6] |= bit;
      ADD(row[c], x, right[f]);
    }
  }
  sort_columns(indices, count);
  for (int64_t i = 0; i < count; i++) {
    const uint32_t c = (uint32_t)indices[i];
    values[i] = row[c];
    row[c] = zero;
    g->bits[c >> 6] = 0;
  }
  return count;
}

static void NAME(dense_rows)(const dense_product *p, int64_t first, int64_t last) {
  for (int64_t r = first; r < last; r++) {
    ELEMENT *row = (ELEMENT *)p->c + r * p->ldc;
    for (int64_t c = 0; c < p->n; c++) row[c] = (ELEMENT){0};
    NAME(add_row)(p->a, p->b, r, row);
  }
}

/* C = A B of a sparse A and a vector B. */
static void NAME(sparse_vector_rows)(const dense_product *p, int64_t first, int64_t last) {
  const ELEMENT *values = p->a->values, *b = p->right;
  for (int64_t r = first; r < last; r++) {
    ELEMENT sum = {0};
    for (int64_t e = p->a->indptr[r]; e < p->a->indptr[r + 1]; e++)
      ADD(sum, values[e], b[(int64_t)p->a->indices[e] * p->ldb]);
    ((ELEMENT *)p->c)[r * p->ldc] = sum;
  }
}

/* Adds up at most EIGHT columns of a row of a sparse A by a dense B in registers, as many as the
 * compiler knows. */
static inline __attribute__((always_inline)) void NAME(sparse_few)(const dense_product *p,
                                                                   int64_t r, int64_t c0,
                                                                   int count) {
  const ELEMENT *values = p->a->values, *b = (const ELEMENT *)p->right + c0;
  ELEMENT sum[EIGHT];
  memset(sum, 0, sizeof sum);
  for (int64_t e = p->a->indptr[r]; e < p->a->indptr[r + 1]; e++) {
    const ELEMENT x = values[e];
    const ELEMENT *restrict line = b + (int64_t)p->a->indices[e] * p->ldb;
    for (int c = 0; c < count; c++) ADD(sum[c], x, line[c]);
  }
  ELEMENT *row = (ELEMENT *)p->c + r * p->ldc + c0;
  for (int c = 0; c < count; c++) row[c] = sum[c];
}

static void NAME(sparse_columns)(const dense_product *p, int64_t r, int64_t c0, int64_t count) {
  switch (count) {
    case 1:
      NAME(sparse_few)(p, r, c0, 1);
      break;
    case 2:
      NAME(sparse_few)(p, r, c0, 2);
      break;
    case 3:
      NAME(sparse_few)(p, r, c0, 3);
      break;
    case 4:
      NAME(sparse_few)(p, r, c0, 4);
      break;
    case 5:
      NAME(sparse_few)(p, r, c0, 5);
      break;
    case 6:
      NAME(sparse_few)(p, r, c0, 6);
      break;
    case 7:
      NAME(sparse_few)(p, r, c0, 7);
      break;
    default:
      NAME(sparse_few)(p, r, c0, EIGHT);
      break;
  }
}

/* C = A B of a sparse A and a dense B; the columns go in pieces that stay in cache. */
static void NAME(sparse_dense_rows)(const dense_product *p, int64_t first, int64_t last) {
  const ELEMENT *values = p->a->values, *b = p->right;
  if (p->n == 1) {
    NAME(sparse_vector_rows)(p, first, last);
    return;
  }
  if (p->n <= MOST_BY_EIGHT) {
    for (int64_t r = first; r < last; r++)
      for (int64_t c0 = 0; c0 < p->n; c0 += EIGHT)
        NAME(sparse_columns)(p, r, c0, p->n - c0 < EIGHT ? p->n - c0 : EIGHT);
    return;
  }
  for (int64_t r = first; r < last; r++) {
    const int64_t begin = p->a->indptr[r], end = p->a->indptr[r + 1];
    for (int64_t c0 = 0; c0 < p->n; c0 += DENSE_PIECE) {
      const int64_t n = p->n - c0 < DENSE_PIECE ? p->n - c0 : DENSE_PIECE;
      ELEMENT *restrict row = (ELEMENT *)p->c + r * p->ldc + c0;
      for (int64_t c = 0; c < n; c++) row[c] = (ELEMENT){0};
      for (int64_t e = begin; e < end; e++) {
        const ELEMENT x = values[e];
        const ELEMENT *restrict line = b + (int64_t)p->a->indices[e] * p->ldb + c0;
        for (int64_t c = 0; c < n; c++) ADD(row[c], x, line[c]);
      }
    }
  }
}

/* C = A B of a vector A and a sparse B. */
static void NAME(vector_sparse_row)(const dense_product *p, int64_t r) {
  const ELEMENT *a = (const ELEMENT *)p->left + r * p->lda, *values = p->b->values;
  ELEMENT *out = (ELEMENT *)p->c + r * p->ldc;
  for (int64_t c = 0; c < p->n; c++) out[c] = (ELEMENT){0};
  for (int64_t k = 0; k < p->b->rows; k++) {
    const ELEMENT x = a[k];
    for (int64_t f = p->b->indptr[k]; f < p->b->indptr[k + 1]; f++)
      ADD(out[p->b->indices[f]], x, values[f]);
  }
}

/* C = A B of a dense A and a sparse B: a few rows at a time share what is read of B. */
static void NAME(dense_sparse_rows)(const dense_product *p, int64_t first, int64_t last) {
  const ELEMENT *a = p->left, *values = p->b->values;
  ELEMENT *out = p->c;
  if (last - first == 1) {
    NAME(vector_sparse_row)(p, first);
    return;
  }
  for (int64_t r0 = first; r0 < last; r0 += ROWS_AT_ONCE) {
    const int64_t count = last - r0 < ROWS_AT_ONCE ? last - r0 : ROWS_AT_ONCE;
    for (int64_t i = 0; i < count; i++)
      for (int64_t c = 0; c < p->n; c++) out[(r0 + i) * p->ldc + c] = (ELEMENT){0};
    for (int64_t k = 0; k < p->b->rows; k++) {
      ELEMENT x[ROWS_AT_ONCE];
      for (int64_t i = 0; i < count; i++) x[i] = a[(r0 + i) * p->lda + k];
      if (count == ROWS_AT_ONCE) {
        for (int64_t f = p->b->indptr[k]; f < p->b->indptr[k + 1]; f++)
          for (int64_t i = 0; i < ROWS_AT_ONCE; i++)
            ADD(out[(r0 + i) * p->ldc + p->b->indices[f]], x[i], values[f]);
      } else {
        for (int64_t f = p->b->indptr[k]; f < p->b->indptr[k + 1]; f++)
          for (int64_t i = 0; i < count; i++)
            ADD(out[(r0 + i) * p->ldc + p->b->indices[f]], x[i], values[f]);
      }
    }
  }
}

/* Writes row r of A B as its columns come, as those of a scaled row do. Returns -1 where they do
 * not ascend. */
static int64_t NAME(ascending_row)(const mmci_csr *a, const mmci_csr *b, int64_t r,
                                   int32_t *indices, ELEMENT *values) {
  const ELEMENT *left = a->values, *right = b->values, zero = {0};
  int64_t count = 0;
  for (int64_t e = a->indptr[r]; e < a->indptr[r + 1]; e++) {
    const ELEMENT x = left[e];
    const int64_t k = a->indices[e], end = b->indptr[k + 1];
    for (int64_t f = b->indptr[k]; f < end; f++) {
      if (count > 0 && b->indices[f] <= indices[count - 1]) return -1;
      values[count] = zero;
      ADD(values[count], x, right[f]);
      indices[count++] = b->indices[f];
    }
  }
  return count;
}

static int64_t NAME(sparse_row)(const mmci_csr *a, const mmci_csr *b, int64_t r, int64_t most,
                                gathering *g, int32_t *indices, void *values) {
  const int64_t left = a->indptr[r + 1] - a->indptr[r];
  if (left == 1 || most <= left) { /* one row of B, or rows of one element */
    const int64_t count = NAME(ascending_row)(a, b, r, indices, values);
    if (count >= 0) return count;
  }
  if (most < FEW && most < 4 * g->word_count) return NAME(list_row)(a, b, r, g, indices, values);
  NAME(gather_row)(a, b, r, g);
  return NAME(take_row)(g, indices, values);
}

static const loops NAME(loops) = {NAME(sparse_row), NAME(dense_rows), NAME(sparse_dense_rows),
                                  NAME(dense_sparse_rows)};

#undef ELEMENT
#undef NAME
#undef ADD
