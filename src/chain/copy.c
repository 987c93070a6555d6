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

/* Defines the transposed copy of elements of one size, of lines of the result. */
#define TRANSPOSED(name, type)                                                                  \
  static void name(int64_t lines, int64_t length, const void *from, int64_t from_ld, void *out, \
                   int64_t ld) {                                                                \
    const type *source = from;                                                                  \
    type *target = out;                                                                         \
    for (int64_t i0 = 0; i0 < lines; i0 += SQUARE)                                              \
      for (int64_t j0 = 0; j0 < length; j0 += SQUARE)                                           \
        for (int64_t i = i0; i < lines && i < i0 + SQUARE; i++)                                 \
          for (int64_t j = j0; j < length && j < j0 + SQUARE; j++)                              \
            target[i * ld + j] = source[j * from_ld + i];                                       \
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
TRANSPOSED(transposed_1, any_1)
TRANSPOSED(transposed_2, any_2)
TRANSPOSED(transposed_4, any_4)
TRANSPOSED(transposed_8, any_8)
TRANSPOSED(transposed_16, any_16)

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

void mmci_copy(mmc_dtype dtype, int64_t rows, int64_t cols, const void *from, const mmci_form *form,
               void *out, int64_t ld, bool by_columns) {
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
