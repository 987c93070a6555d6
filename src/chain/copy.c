#include "chain/copy.h"

#include <string.h>

/* Transposed copies go in squares of so many elements a side, so that both sides stay in cache. */
enum { SQUARE = 32 };

static void conjugate(char *element, size_t size) {
  if (size == 8) {
    float imaginary;
    memcpy(&imaginary, element + 4, 4);
    imaginary = -imaginary;
    memcpy(element + 4, &imaginary, 4);
  } else {
    double imaginary;
    memcpy(&imaginary, element + 8, 8);
    imaginary = -imaginary;
    memcpy(element + 8, &imaginary, 8);
  }
}

/* Defines the transposed copy of elements of one size, of lines of the result. Pieces of so many
 * elements a side are exchanged in registers. */
#define TRANSPOSED(name, type, PIECE, exchange)                                                 \
  static void name(int64_t lines, int64_t length, const void *from, int64_t from_ld, void *out, \
                   int64_t ld) {                                                                \
    const type *source = from;                                                                  \
    type *target = out;                                                                         \
    for (int64_t i0 = 0; i0 < lines; i0 += SQUARE)                                              \
      for (int64_t j0 = 0; j0 < length; j0 += SQUARE) {                                         \
        const int64_t i1 = i0 + SQUARE < lines ? i0 + SQUARE : lines,                           \
                      j1 = j0 + SQUARE < length ? j0 + SQUARE : length;                         \
        int64_t i = i0;                                                                         \
        for (; i + (PIECE) <= i1; i += (PIECE)) {                                               \
          int64_t j = j0;                                                                       \
          for (; j + (PIECE) <= j1; j += (PIECE))                                               \
            exchange(source + j * from_ld + i, from_ld, target + i * ld + j, ld);               \
          for (; j < j1; j++)                                                                   \
            for (int64_t t = i; t < i + (PIECE); t++)                                           \
              target[t * ld + j] = source[j * from_ld + t];                                     \
        }                                                                                       \
        for (; i < i1; i++)                                                                     \
          for (int64_t j = j0; j < j1; j++) target[i * ld + j] = source[j * from_ld + i];       \
      }                                                                                         \
  }
#define EXCHANGE_ONE(name, type)                                                \
  static inline void name(const type *x, int64_t x_ld, type *y, int64_t y_ld) { \
    (void)x_ld;                                                                 \
    (void)y_ld;                                                                 \
    *y = *x;                                                                    \
  }
/* Elements of any type are copied as numbers of their size. */
#define ANY __attribute__((may_alias))
typedef uint8_t ANY any_1;
typedef uint16_t ANY any_2;
typedef uint32_t ANY any_4;
typedef uint64_t ANY any_8;
typedef struct ANY any_16 {
  uint64_t word[2];
} any_16;
EXCHANGE_ONE(exchange_1, any_1)
EXCHANGE_ONE(exchange_2, any_2)
EXCHANGE_ONE(exchange_16, any_16)

#if defined __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES 1
#endif
#endif
#ifdef HAS_SHUFFLES
typedef uint32_t four __attribute__((vector_size(16)));
typedef uint64_t two __attribute__((vector_size(16)));
enum { PIECE_4 = 4, PIECE_8 = 2 };
static inline void exchange_4(const any_4 *x, int64_t x_ld, any_4 *y, int64_t y_ld) {
  four r[4], out[4];
  for (int t = 0; t < 4; t++) memcpy(&r[t], x + t * x_ld, sizeof r[t]);
  const four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
             b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
             c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
             d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  out[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  out[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  out[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  out[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  for (int t = 0; t < 4; t++) memcpy(y + t * y_ld, &out[t], sizeof out[t]);
}
static inline void exchange_8(const any_8 *x, int64_t x_ld, any_8 *y, int64_t y_ld) {
  two r[2], out[2];
  for (int t = 0; t < 2; t++) memcpy(&r[t], x + t * x_ld, sizeof r[t]);
  out[0] = __builtin_shufflevector(r[0], r[1], 0, 2);
  out[1] = __builtin_shufflevector(r[0], r[1], 1, 3);
  for (int t = 0; t < 2; t++) memcpy(y + t * y_ld, &out[t], sizeof out[t]);
}
#else
enum { PIECE_4 = 1, PIECE_8 = 1 };
EXCHANGE_ONE(exchange_4, any_4)
EXCHANGE_ONE(exchange_8, any_8)
#endif

TRANSPOSED(transposed_1, any_1, 1, exchange_1)
TRANSPOSED(transposed_2, any_2, 1, exchange_2)
TRANSPOSED(transposed_4, any_4, PIECE_4, exchange_4)
TRANSPOSED(transposed_8, any_8, PIECE_8, exchange_8)
TRANSPOSED(transposed_16, any_16, 1, exchange_16)

/* Copies without conjugation; false where addresses are not multiples of an element. */
static bool copy_transposed(size_t size, int64_t lines, int64_t length, const void *from,
                            int64_t from_ld, void *out, int64_t ld) {
  const size_t align = size < 8 ? size : 8;
  if (((uintptr_t)from | (uintptr_t)out) % align != 0) return false;
  (size == 1   ? transposed_1
   : size == 2 ? transposed_2
   : size == 4 ? transposed_4
   : size == 8 ? transposed_8
               : transposed_16)(lines, length, from, from_ld, out, ld);
  return true;
}

static void copy_bytes(mmc_dtype dtype, int64_t rows, int64_t cols, const void *from,
                       const mmci_form *form, void *out, int64_t ld, bool by_columns) {
  size_t size = mmc_dtype_size(dtype);
  const char *source = from;
  char *target = out;
  /* A line of the result is a row, or a column when by_columns. */
  int64_t lines = by_columns ? cols : rows, length = by_columns ? rows : cols;
  bool same_way = form->trans == by_columns;
  if (same_way && !form->conj) {
    for (int64_t i = 0; i < lines && length > 0; i++)
      memcpy(target + (size_t)(i * ld) * size, source + (size_t)(i * form->ld) * size,
             (size_t)length * size);
    return;
  }
  if (!form->conj && copy_transposed(size, lines, length, source, form->ld, target, ld)) return;
  for (int64_t i0 = 0; i0 < lines; i0 += SQUARE)
    for (int64_t j0 = 0; j0 < length; j0 += SQUARE)
      for (int64_t i = i0; i < lines && i < i0 + SQUARE; i++)
        for (int64_t j = j0; j < length && j < j0 + SQUARE; j++) {
          int64_t place = same_way ? i * form->ld + j : j * form->ld + i;
          char *element = target + (size_t)(i * ld + j) * size;
          memcpy(element, source + (size_t)place * size, size);
          if (form->conj) conjugate(element, size);
        }
}

void mmci_copy(mmc_dtype dtype, int64_t rows, int64_t cols, const void *from, const mmci_form *form,
               void *out, int64_t ld, bool by_columns) {
  copy_bytes(dtype, rows, cols, from, form, out, ld, by_columns);
  if (dtype != MMC_BOOL) return;
  const int64_t lines = by_columns ? cols : rows, length = by_columns ? rows : cols;
  for (int64_t i = 0; i < lines && length > 0; i++)
    for (uint8_t *x = (uint8_t *)out + i * ld, *end = x + length; x < end; x++) *x = *x != 0;
}

/* Defines the residues of a line of integers. */
#define REDUCE_SIGNED(bits)                                                       \
  static void reduce_i##bits(uint64_t modulus, int64_t length, void *data) {      \
    int##bits##_t *x = data;                                                      \
    for (int64_t i = 0; i < length; i++) {                                        \
      int64_t residue = x[i] % (int64_t)modulus;                                  \
      x[i] = (int##bits##_t)(residue < 0 ? residue + (int64_t)modulus : residue); \
    }                                                                             \
  }
#define REDUCE_UNSIGNED(bits)                                                     \
  static void reduce_u##bits(uint64_t modulus, int64_t length, void *data) {      \
    uint##bits##_t *x = data;                                                     \
    for (int64_t i = 0; i < length; i++) x[i] = (uint##bits##_t)(x[i] % modulus); \
  }
REDUCE_SIGNED(8)
REDUCE_SIGNED(16)
REDUCE_SIGNED(32)
REDUCE_SIGNED(64)
REDUCE_UNSIGNED(8)
REDUCE_UNSIGNED(16)
REDUCE_UNSIGNED(32)
REDUCE_UNSIGNED(64)

void mmci_reduce(mmc_dtype dtype, uint64_t modulus, int64_t lines, int64_t length, void *data,
                 int64_t ld) {
  static void (*const reductions[])(uint64_t, int64_t, void *) = {
      reduce_i8, reduce_i16, reduce_i32, reduce_i64, reduce_u8, reduce_u16, reduce_u32, reduce_u64};
  for (int64_t l = 0; l < lines; l++)
    reductions[dtype - MMC_I8](modulus, length,
                               (char *)data + l * ld * (int64_t)mmc_dtype_size(dtype));
}
