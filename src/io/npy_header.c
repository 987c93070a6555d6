/* npy_header.c: reads the dictionary of a header from left to right, one value after the other, and
 * says where and why it stops; writes it as NumPy does. */
#include "io/npy_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TYPES_THAT_WORK \
  "float16, float32, float64, complex64, complex128, int8 to int64, uint8 to uint64, bool work"

static const mmci_npy_type types[] = {
    {MMC_F32, "f4", "float32", 4, 4},   {MMC_F64, "f8", "float64", 8, 8},
    {MMC_C64, "c8", "complex64", 8, 4}, {MMC_C128, "c16", "complex128", 16, 8},
    {MMC_F16, "f2", "float16", 2, 2},   {MMC_I8, "i1", "int8", 1, 1},
    {MMC_I16, "i2", "int16", 2, 2},     {MMC_I32, "i4", "int32", 4, 4},
    {MMC_I64, "i8", "int64", 8, 8},     {MMC_U8, "u1", "uint8", 1, 1},
    {MMC_U16, "u2", "uint16", 2, 2},    {MMC_U32, "u4", "uint32", 4, 4},
    {MMC_U64, "u8", "uint64", 8, 8},    {MMC_BOOL, "b1", "bool", 1, 1},
    {MMC_BOOL, "?", "bool", 1, 1},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const char native_order = '<', foreign_order = '>';
#else
static const char native_order = '>', foreign_order = '<';
#endif

const mmci_npy_type *mmci_npy_type_of(mmc_dtype dtype) {
  for (size_t t = 0; t < TYPE_COUNT; t++)
    if (types[t].dtype == dtype) return &types[t];
  return NULL;
}

/* ---- the prelude --------------------------------------------------------------------------- */

mmc_status mmci_npy_prelude_parse(const unsigned char *bytes, size_t size, size_t *prelude_size,
                                  size_t *dictionary_size, mmci_error *error) {
  if (size == 0) return mmci_fail(error, MMC_E_FORMAT, "empty, an .npy file was expected");
  size_t compared = size < MMCI_NPY_MAGIC_SIZE ? size : MMCI_NPY_MAGIC_SIZE;
  if (memcmp(bytes, MMCI_NPY_MAGIC, compared) != 0) {
    if (size >= 4 && memcmp(bytes, "PK\x03\x04", 4) == 0)
      return mmci_fail(error, MMC_E_FORMAT, "a zip archive: expected the name to end with .npz");
    return mmci_fail(
        error, MMC_E_FORMAT,
        "not an .npy file: these begin with the byte 0x93 and NUMPY; other formats go by the "
        "ending of the name, as .npz or .mtx");
  }
  if (size >= 8 && (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0))
    return mmci_fail(error, MMC_E_FORMAT, ".npy format version %d.%d: 1.0, 2.0 and 3.0 work",
                     bytes[6], bytes[7]);

  size_t length_size = size >= 8 && bytes[6] > 1 ? 4 : 2;
  if (size < 8 + length_size)
    return mmci_fail(error, MMC_E_FORMAT,
                     "truncated: %zu bytes are there, the .npy header alone needs more", size);
  size_t length = 0;
  for (size_t i = length_size; i-- != 0;) length = length << 8 | bytes[8 + i];
  if (length > MMCI_NPY_DICTIONARY_MAX)
    return mmci_fail(error, MMC_E_FORMAT,
                     "an .npy header of %zu bytes: at most %d work, and a matrix needs about 100",
                     length, MMCI_NPY_DICTIONARY_MAX);
  *prelude_size = 8 + length_size;
  *dictionary_size = length;
  return MMC_OK;
}

/* ---- reading a dictionary ------------------------------------------------------------------ */

typedef struct reader {
  const char *text;
  size_t at, size;
  mmci_error *error;
} reader;

/* A piece of the text. */
typedef struct span {
  const char *start;
  size_t length;
} span;

static bool equals(span x, const char *word) {
  return x.length == strlen(word) && memcmp(x.start, word, x.length) == 0;
}

static bool is_printable(char c) {
  return c >= 0x20 && c < 0x7F;
}

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Fails, and says what was expected where the reader stands. */
static mmc_status expected(const reader *r, const char *what) {
  if (r->at == r->size)
    return mmci_fail(r->error, MMC_E_FORMAT, ".npy header: %s expected where it ends (byte %zu)",
                     what, r->at);
  char c = r->text[r->at];
  if (is_printable(c))
    return mmci_fail(r->error, MMC_E_FORMAT, ".npy header: %s expected, not \"%c\" (byte %zu)",
                     what, c, r->at);
  return mmci_fail(r->error, MMC_E_FORMAT,
                   ".npy header: %s expected, not the byte 0x%02x (byte %zu)", what,
                   (unsigned)(unsigned char)c, r->at);
}

static void skip_spaces(reader *r) {
  while (r->at < r->size && is_space(r->text[r->at])) r->at++;
}

/* Passes over c when it comes next. */
static bool accept(reader *r, char c) {
  skip_spaces(r);
  if (r->at == r->size || r->text[r->at] != c) return false;
  r->at++;
  return true;
}

/* Reads 'text' or "text", also as u'text'. No text that we understand has escapes. */
static mmc_status read_string(reader *r, const char *what, span *out) {
  skip_spaces(r);
  if (r->size - r->at >= 2 && r->text[r->at] == 'u' &&
      (r->text[r->at + 1] == '\'' || r->text[r->at + 1] == '"'))
    r->at++;
  char quote = r->at < r->size ? r->text[r->at] : '\0';
  if (quote != '\'' && quote != '"') return expected(r, what);
  size_t start = ++r->at;
  for (; r->at < r->size && r->text[r->at] != quote; r->at++)
    if (!is_printable(r->text[r->at]) || r->text[r->at] == '\\')
      return expected(r, "a string of plain letters");
  if (r->at == r->size) return expected(r, "the end of a string");
  *out = (span){r->text + start, r->at - start};
  r->at++;
  return MMC_OK;
}

static mmc_status read_bool(reader *r, bool *out) {
  skip_spaces(r);
  size_t left = r->size - r->at;
  const char *at = r->text + r->at;
  bool yes = left >= 4 && memcmp(at, "True", 4) == 0;
  bool no = left >= 5 && memcmp(at, "False", 5) == 0;
  if (!yes && !no) return expected(r, "'fortran_order': True or False");
  r->at += yes ? 4 : 5;
  *out = yes;
  return MMC_OK;
}

/* Reads a dimension: decimal digits, and the L that Python 2 wrote after some. */
static mmc_status read_dim(reader *r, int64_t *out) {
  const int64_t most = INT64_C(1) << 62;
  bool negative = accept(r, '-');
  skip_spaces(r);
  size_t start = r->at;
  int64_t value = 0;
  for (; r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
    int digit = r->text[r->at] - '0';
    value = value > (most - digit) / 10 ? most + 1 : value * 10 + digit;
  }
  if (r->at == start) return expected(r, "a dimension in 'shape'");
  /* Python takes digits after a zero for an error, or for octal. */
  if (r->at - start > 1 && r->text[start] == '0') {
    r->at = start;
    return expected(r, "a decimal number in 'shape'");
  }
  if (negative && value != 0)
    return mmci_fail(r->error, MMC_E_FORMAT, "a negative dimension in 'shape': 0 to 2^62 works");
  if (value > most)
    return mmci_fail(r->error, MMC_E_FORMAT, "a dimension above 2^62 in 'shape': 0 to 2^62 works");
  if (r->at < r->size && r->text[r->at] == 'L') r->at++;
  *out = value;
  return MMC_OK;
}

/* Reads a tuple: (), (5,), (3, 4), (3, 4,). When there are too many dimensions, they are only
 * counted. */
static mmc_status read_shape(reader *r, mmci_npy_header *out) {
  static const char what[] = "'shape': a tuple such as (3, 4) or (5,)";
  if (!accept(r, '(')) return expected(r, what);
  out->ndim = 0;
  bool comma = true;
  while (!accept(r, ')')) {
    if (!comma) return expected(r, "a comma or \")\" in 'shape'");
    int64_t dim = 0;
    mmc_status status = read_dim(r, &dim);
    if (status != MMC_OK) return status;
    if (out->ndim < MMCI_NPY_NDIM_MAX) out->shape[out->ndim] = dim;
    out->ndim++;
    comma = accept(r, ',');
  }
  if (out->ndim == 1 && !comma) {
    r->at--; /* in Python (5) is a number in parentheses */
    return expected(r, what);
  }
  return MMC_OK;
}

/* ---- types --------------------------------------------------------------------------------- */

/* Returns NumPy's name of a type that matrices do not have; "" when there is none. */
static const char *name_of_other(span code) {
  static const struct {
    const char *prefix, *name;
  } others[] = {
      {"f1", "longdouble "}, {"c2", "clongdouble "}, {"c3", "clongdouble "}, {"O", "object "},
      {"S", "bytes "},       {"a", "bytes "},        {"U", "str "},          {"V", "void "},
      {"M8", "datetime64 "}, {"m8", "timedelta64 "},
  };
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    size_t length = strlen(others[i].prefix);
    if (code.length >= length && memcmp(code.start, others[i].prefix, length) == 0)
      return others[i].name;
  }
  return "";
}

/* Returns how many characters of x a message shows. */
static int shown_length(span x) {
  const size_t most = 48;
  size_t length = 0;
  while (length < x.length && length < most && is_printable(x.start[length])) length++;
  return (int)length;
}

/* Reads a byte order (< little, > big, = and | and none the machine's) and a code, or a name. */
static mmc_status parse_type(span descr, mmci_npy_header *out, mmci_error *error) {
  span code = descr;
  char order = '=';
  if (code.length != 0 && strchr("<>=|", code.start[0]) != NULL) {
    order = code.start[0];
    code = (span){code.start + 1, code.length - 1};
  }
  for (size_t t = 0; t < TYPE_COUNT; t++)
    if (equals(code, types[t].code) || equals(descr, types[t].name)) {
      out->type = &types[t];
      out->foreign = order == foreign_order && types[t].real_size > 1;
      return MMC_OK;
    }
  /* NumPy does not know bfloat16 and saves it as two bytes of any kind. */
  return mmci_fail(error, MMC_E_FORMAT, "dtype %s'%.*s'%s: " TYPES_THAT_WORK, name_of_other(code),
                   shown_length(descr), descr.start, equals(code, "V2") ? ", npy has no bf16" : "");
}

/* Reads a type; one that is no string is refused: fields of a structure, or a type with a shape. */
static mmc_status read_type(reader *r, mmci_npy_header *out) {
  skip_spaces(r);
  if (r->at < r->size && (r->text[r->at] == '[' || r->text[r->at] == '(')) {
    span rest = {r->text + r->at, r->size - r->at};
    return mmci_fail(r->error, MMC_E_FORMAT, "structured dtype %.*s...: " TYPES_THAT_WORK,
                     shown_length(rest), rest.start);
  }
  span descr = {0};
  mmc_status status = read_string(r, "'descr': a dtype such as '<f8'", &descr);
  return status == MMC_OK ? parse_type(descr, out, r->error) : status;
}

/* ---- the dictionary ------------------------------------------------------------------------ */

enum { DESCR, FORTRAN_ORDER, SHAPE, KEY_COUNT };
static const char *const keys[KEY_COUNT] = {"descr", "fortran_order", "shape"};

static mmc_status read_key(reader *r, bool seen[KEY_COUNT], int *out) {
  span name = {0};
  mmc_status status = read_string(r, "a key in quotes or \"}\"", &name);
  if (status != MMC_OK) return status;
  int key = 0;
  while (key < KEY_COUNT && !equals(name, keys[key])) key++;
  if (key == KEY_COUNT)
    return mmci_fail(r->error, MMC_E_FORMAT,
                     ".npy header: unknown key '%.*s', descr, fortran_order and shape expected",
                     shown_length(name), name.start);
  if (seen[key]) return mmci_fail(r->error, MMC_E_FORMAT, ".npy header: key '%s' twice", keys[key]);
  seen[key] = true;
  *out = key;
  return accept(r, ':') ? MMC_OK : expected(r, "a colon after a key");
}

static mmc_status read_value(reader *r, int key, mmci_npy_header *out) {
  switch (key) {
    case DESCR:
      return read_type(r, out);
    case FORTRAN_ORDER:
      return read_bool(r, &out->fortran_order);
    default:
      return read_shape(r, out);
  }
}

mmc_status mmci_npy_dictionary_parse(const char *text, size_t size, mmci_npy_header *out,
                                     mmci_error *error) {
  reader r = {.text = text, .size = size, .error = error};
  mmci_npy_header header = {0};
  bool seen[KEY_COUNT] = {false};

  if (!accept(&r, '{')) return expected(&r, "a dictionary, \"{\",");
  bool comma = true;
  while (!accept(&r, '}')) {
    if (!comma) return expected(&r, "a comma or \"}\"");
    int key = DESCR;
    mmc_status status = read_key(&r, seen, &key);
    if (status == MMC_OK) status = read_value(&r, key, &header);
    if (status != MMC_OK) return status;
    comma = accept(&r, ',');
  }
  skip_spaces(&r);
  if (r.at != r.size) return expected(&r, "nothing but spaces after \"}\"");
  for (int key = 0; key < KEY_COUNT; key++)
    if (!seen[key])
      return mmci_fail(error, MMC_E_FORMAT, ".npy header: key '%s' is missing", keys[key]);
  if (header.ndim < 1 || header.ndim > MMCI_NPY_NDIM_MAX)
    return mmci_fail(error, MMC_E_FORMAT, "an array of %d dimensions: 1 to %d dimensions work",
                     header.ndim, MMCI_NPY_NDIM_MAX);
  *out = header;
  return MMC_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

size_t mmci_npy_header_format(const mmci_npy_type *type, int ndim, const int64_t *shape,
                              char out[MMCI_NPY_HEADER_SIZE]) {
  /* NumPy leaves room for the first dimension to grow to GROWTH_DIGITS digits in place. */
  enum { GROWTH_DIGITS = 21, LENGTH_END = 10, ALIGNMENT = 64 };

  char *dictionary = out + LENGTH_END;
  const size_t room = MMCI_NPY_HEADER_SIZE - LENGTH_END;
  int used = snprintf(dictionary, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                      type->size > 1 ? native_order : '|', type->code);
  if (ndim > 0) {
    int digits = snprintf(dictionary + used, room - (size_t)used, "%" PRId64, shape[0]);
    used += digits;
    for (int d = 1; d < ndim; d++)
      used += snprintf(dictionary + used, room - (size_t)used, ", %" PRId64, shape[d]);
    used += snprintf(dictionary + used, room - (size_t)used, ndim == 1 ? ",), }" : "), }");
    memset(dictionary + used, ' ', (size_t)(GROWTH_DIGITS - digits));
    used += GROWTH_DIGITS - digits;
  } else {
    used += snprintf(dictionary + used, room - (size_t)used, "), }");
  }

  /* Padding and a newline follow, at least one byte and at most 64 and the newline. */
  size_t size = LENGTH_END + (size_t)used + 1;
  size += ALIGNMENT - size % ALIGNMENT;
  memset(dictionary + used, ' ', size - LENGTH_END - (size_t)used - 1);
  out[size - 1] = '\n';

  memcpy(out, MMCI_NPY_MAGIC, MMCI_NPY_MAGIC_SIZE);
  size_t length = size - LENGTH_END;
  out[6] = 1;
  out[7] = 0;
  out[8] = (char)(length & 0xFF);
  out[9] = (char)(length >> 8);
  return size;
}
