/* matlab_five.c: see matlab_five.h. (MAT-File Format, R2019b, chapter 1: a file is a header and
 * elements; an element is a tag of two words, its type and size, and bytes, padded to eight, or all
 * of it in eight bytes. A variable is an element of elements, as it is or deflated.) */
#include "io/matlab_five.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/dtype.h"

enum {
  TYPE_INT8 = 1,
  TYPE_UINT8 = 2,
  TYPE_INT16 = 3,
  TYPE_UINT16 = 4,
  TYPE_INT32 = 5,
  TYPE_UINT32 = 6,
  TYPE_SINGLE = 7,
  TYPE_DOUBLE = 9,
  TYPE_INT64 = 12,
  TYPE_UINT64 = 13,
  TYPE_MATRIX = 14,
  TYPE_COMPRESSED = 15,
  CLASS_SPARSE = 5,
  CLASS_DOUBLE = 6,
  CLASS_SINGLE = 7,
  CLASS_OPAQUE = 17, /* it has no dims */
  IS_LOGICAL = 0x200,
  IS_COMPLEX = 0x800,
  WORD = 4,
  TAG_SIZE = 2 * WORD,
  RANK_MAX = 32,
  BUFFER_SIZE = 4096
};

/* ---- bytes --------------------------------------------------------------------------------- */

/* The bytes of a variable, as they are or as they inflate. */
typedef struct stream {
  const unsigned char *at;
  size_t left;       /* so many are left of the variable */
  z_stream *inflate; /* NULL when they are as they are */
  bool is_little;
  bool is_short; /* zlib had no memory */
} stream;

/* Takes size bytes; returns false when there are fewer, or they do not inflate. */
static bool take(stream *s, void *out, size_t size) {
  if (size > s->left) return false;
  s->left -= size;
  if (s->inflate == NULL) {
    memcpy(out, s->at, size);
    s->at += size;
    return true;
  }
  s->inflate->next_out = out;
  s->inflate->avail_out = (uInt)size; /* no more than a word says */
  int code = Z_OK;
  while (code == Z_OK && s->inflate->avail_out > 0) code = inflate(s->inflate, Z_NO_FLUSH);
  s->is_short = code == Z_MEM_ERROR;
  return s->inflate->avail_out == 0;
}

static bool pass_over(stream *s, size_t size) {
  unsigned char bytes[BUFFER_SIZE];
  for (size_t part; size > 0; size -= part) {
    part = size < sizeof bytes ? size : sizeof bytes;
    if (!take(s, bytes, part)) return false;
  }
  return true;
}

/* Says whether what is left inflates, to its checksum. */
static bool ends_well(stream *s) {
  if (s->inflate == NULL) return true;
  unsigned char byte;
  if (!pass_over(s, s->left)) return false;
  s->inflate->next_out = &byte;
  s->inflate->avail_out = 1;
  return inflate(s->inflate, Z_NO_FLUSH) == Z_STREAM_END && s->inflate->avail_out == 1;
}

static uint64_t number_of(const stream *s, const unsigned char *bytes, int size) {
  uint64_t number = 0;
  for (int b = 0; b < size; b++) number = number << 8 | bytes[s->is_little ? size - 1 - b : b];
  return number;
}

static uint32_t word_of(const stream *s, const unsigned char *bytes) {
  return (uint32_t)number_of(s, bytes, WORD);
}

/* ---- elements ------------------------------------------------------------------------------ */

/* What a tag says. A small element's bytes are in the tag; after others there is padding. */
typedef struct element {
  uint32_t type, size;
  bool is_small;
  unsigned char bytes[WORD];
} element;

static bool take_tag(stream *s, element *out) {
  unsigned char tag[TAG_SIZE];
  if (!take(s, tag, sizeof tag)) return false;
  const uint32_t first = word_of(s, tag);
  out->is_small = first >> 16 != 0;
  out->type = out->is_small ? first & 0xffff : first;
  out->size = out->is_small ? first >> 16 : word_of(s, tag + WORD);
  memcpy(out->bytes, tag + WORD, WORD);
  return out->size <= (out->is_small ? (size_t)WORD : s->left);
}

static size_t padding(const element *e) {
  return e->is_small ? 0 : (8 - e->size % 8) % 8;
}

/* Takes an element of that type and at most size bytes; returns how many it has, or less than 0. */
static int64_t take_element(stream *s, uint32_t type, void *out, size_t size) {
  element e;
  if (!take_tag(s, &e) || e.type != type || e.size > size) return -1;
  if (e.is_small)
    memcpy(out, e.bytes, e.size);
  else if (!take(s, out, e.size) || !pass_over(s, padding(&e)))
    return -1;
  return e.size;
}

/* ---- variables ----------------------------------------------------------------------------- */

/* What stands before a variable's elements. */
typedef struct opening {
  uint32_t class, flags;
  int rank;
  uint32_t dims[RANK_MAX];
  char name[BUFFER_SIZE + 1];
} opening;

static bool take_opening(stream *s, opening *out) {
  unsigned char bytes[RANK_MAX * WORD];
  if (take_element(s, TYPE_UINT32, bytes, 2 * WORD) != 2 * WORD) return false;
  out->flags = word_of(s, bytes);
  out->class = out->flags & 0xff;
  out->rank = 0;
  if (out->class != CLASS_OPAQUE) {
    const int64_t size = take_element(s, TYPE_INT32, bytes, sizeof bytes);
    if (size < 2 * WORD || size % WORD != 0) return false;
    out->rank = (int)(size / WORD);
    for (int d = 0; d < out->rank; d++) out->dims[d] = word_of(s, bytes + d * WORD);
  }
  const int64_t length = take_element(s, TYPE_INT8, out->name, BUFFER_SIZE);
  if (length < 0) return false;
  out->name[length] = '\0';
  return true;
}

/* The variables of a file, one after the other. */
typedef struct walk {
  stream file; /* what is left of it */
  z_stream z;
  stream variable; /* behind the opening */
  opening opening;
  mmc_status status;
} walk;

/* Opens the variable in size bytes. */
static mmc_status open_variable(walk *w, uint32_t type, uint32_t size) {
  w->variable = (stream){.at = w->file.at, .left = size, .is_little = w->file.is_little};
  if (type == TYPE_COMPRESSED) {
    w->z = (z_stream){.next_in = (z_const Bytef *)w->file.at, .avail_in = size};
    if (inflateInit(&w->z) != Z_OK) return MMC_E_NOMEM;
    element tag;
    w->variable.inflate = &w->z;
    w->variable.left = UINT_MAX;
    if (!take_tag(&w->variable, &tag) || tag.type != TYPE_MATRIX || tag.is_small)
      return w->variable.is_short ? MMC_E_NOMEM : MMC_E_FORMAT;
    w->variable.left = tag.size;
  } else if (type != TYPE_MATRIX) {
    return MMC_E_FORMAT;
  }
  return take_opening(&w->variable, &w->opening) ? MMC_OK
         : w->variable.is_short                  ? MMC_E_NOMEM
                                                 : MMC_E_FORMAT;
}

static void close_variable(walk *w) {
  if (w->variable.inflate != NULL) inflateEnd(&w->z);
  w->variable.inflate = NULL;
}

/* Goes to the next variable; false at the end, and where w->status says why not. */
static bool next_variable(walk *w) {
  close_variable(w);
  while (w->status == MMC_OK && w->file.left >= TAG_SIZE) {
    element tag;
    if (!take_tag(&w->file, &tag) || tag.is_small) {
      w->status = MMC_E_FORMAT;
      break;
    }
    if (tag.size == 0) continue; /* a variable without anything has no name either */
    w->status = open_variable(w, tag.type, tag.size);
    w->file.at += tag.size;
    w->file.left -= tag.size;
    return w->status == MMC_OK;
  }
  return false;
}

static walk start_walk(const mmci_source *s, bool is_little) {
  return (walk){.file = {.at = s->bytes + MMCI_MATLAB_HEADER_SIZE,
                         .left = s->have - MMCI_MATLAB_HEADER_SIZE,
                         .is_little = is_little},
                .status = MMC_OK};
}

/* Ends a walk; returns what it came to. */
static mmc_status end_walk(walk *w, const mmci_source *s, mmci_error *error) {
  close_variable(w);
  if (w->status == MMC_E_NOMEM) return mmci_fail_nomem(error, 1);
  if (w->status == MMC_E_FORMAT) return mmci_source_refuse(s, "a damaged MATLAB file", error);
  return MMC_OK;
}

/* ---- the numbers of a variable --------------------------------------------------------------- */

/* Returns the bytes of a number of that type; 0 where there are no numbers. */
static int size_of(uint32_t type) {
  static const int sizes[] = {
      [TYPE_INT8] = 1,  [TYPE_UINT8] = 1,  [TYPE_INT16] = 2,  [TYPE_UINT16] = 2,
      [TYPE_INT32] = 4, [TYPE_UINT32] = 4, [TYPE_SINGLE] = 4, [TYPE_DOUBLE] = 8,
      [TYPE_INT64] = 8, [TYPE_UINT64] = 8};
  return type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

static double value_of(uint32_t type, uint64_t bits) {
  const uint32_t word = (uint32_t)bits;
  float f32;
  double f64;
  switch (type) {
    case TYPE_INT8:
      return (int8_t)bits;
    case TYPE_INT16:
      return (int16_t)bits;
    case TYPE_INT32:
      return (int32_t)bits;
    case TYPE_INT64:
      return (double)(int64_t)bits;
    case TYPE_SINGLE:
      memcpy(&f32, &word, sizeof f32);
      return (double)f32;
    case TYPE_DOUBLE:
      memcpy(&f64, &bits, sizeof f64);
      return f64;
    default: /* without a sign */
      return (double)bits;
  }
}

/* Takes as many numbers as the array has elements to every step-th place of singles or doubles;
 * they may be stored as smaller ones. */
static bool take_numbers(stream *s, mmci_file_array *array, bool is_double, size_t step, void *to) {
  const bool is_here_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  const size_t count = (size_t)array->shape[0] * (size_t)array->shape[1];
  element e;
  if (!take_tag(s, &e)) return false;
  const size_t size = (size_t)size_of(e.type);
  if (size == 0 || e.size % size != 0 || e.size / size != count) return false;
  if (e.type == (is_double ? TYPE_DOUBLE : TYPE_SINGLE) && step == 1 && !e.is_small) {
    if (!take(s, to, e.size)) return false;
    array->foreign = s->is_little != is_here_little;
    mmci_file_array_turn(array);
    return pass_over(s, padding(&e));
  }
  unsigned char bytes[BUFFER_SIZE];
  if (e.is_small) memcpy(bytes, e.bytes, e.size);
  for (size_t i = 0; i < count;) {
    const size_t room = sizeof bytes / size, part = count - i < room ? count - i : room;
    if (!e.is_small && !take(s, bytes, part * size)) return false;
    for (size_t p = 0; p < part; p++, i++) {
      const double value = value_of(e.type, number_of(s, bytes + p * size, (int)size));
      if (is_double)
        ((double *)to)[i * step] = value;
      else
        ((float *)to)[i * step] = (float)value;
    }
  }
  return pass_over(s, padding(&e));
}

static mmc_status describe(const opening *o, mmci_file_array *array, mmci_error *error) {
  const mmci_source *s = &array->source;
  const bool is_double = o->class == CLASS_DOUBLE, is_complex = (o->flags & IS_COMPLEX) != 0;
  if (o->class == CLASS_SPARSE)
    return mmci_source_refuse(s, "a sparse matrix: expected a full one, full(A) in MATLAB", error);
  if ((!is_double && o->class != CLASS_SINGLE) || (o->flags & IS_LOGICAL) != 0)
    return mmci_source_refuse(s, "the variable's class: double and single work", error);
  if (o->rank != 2)
    return mmci_source_refuse(s, "expected a matrix, of two dimensions: MATLAB's pages come last",
                              error);
  array->dtype = is_double ? (is_complex ? MMC_C128 : MMC_F64) : is_complex ? MMC_C64 : MMC_F32;
  array->fortran_order = true;
  array->ndim = 2;
  for (int d = 0; d < 2; d++) {
    if (o->dims[d] > INT_MAX) return mmci_source_refuse(s, "a dimension above 2^31 - 1", error);
    array->shape[d] = o->dims[d];
  }
  return MMC_OK;
}

/* Reads the elements, real parts and then imaginary ones. */
static mmc_status read_numbers(walk *w, mmci_file_array *array, mmci_error *error) {
  const bool is_double = w->opening.class == CLASS_DOUBLE;
  /* A number may be stored in a byte. */
  mmc_status status = mmci_file_array_allocate(array, array->source.have * sizeof(double), error);
  if (status != MMC_OK || array->copy == NULL) return status;
  const size_t parts = mmci_dtype_is_complex(array->dtype) ? 2 : 1;
  bool is_read = true;
  for (size_t p = 0; p < parts && is_read; p++)
    is_read = take_numbers(
        &w->variable, array, is_double, parts,
        (unsigned char *)array->copy + p * (is_double ? sizeof(double) : sizeof(float)));
  if (is_read && ends_well(&w->variable)) return MMC_OK;
  return w->variable.is_short
             ? mmci_fail_nomem(error, 1)
             : mmci_source_refuse(&array->source, "the variable is damaged", error);
}

mmc_status mmci_matlab_five_read(mmci_file_array *array, bool is_little, const char *name,
                                 mmci_error *error) {
  walk w = start_walk(&array->source, is_little);
  while (next_variable(&w)) {
    if (strcmp(w.opening.name, name) != 0) continue;
    mmc_status status = describe(&w.opening, array, error);
    if (status == MMC_OK) status = read_numbers(&w, array, error);
    close_variable(&w);
    return status;
  }
  mmc_status status = end_walk(&w, &array->source, error);
  return status != MMC_OK ? status : MMC_E_ARG;
}

mmc_status mmci_matlab_five_list(const mmci_source *source, bool is_little, mmci_member_fn tell,
                                 void *user, mmci_error *error) {
  walk w = start_walk(source, is_little);
  while (next_variable(&w))
    if (w.opening.name[0] != '\0' && !tell(user, w.opening.name)) break;
  return end_walk(&w, source, error);
}
