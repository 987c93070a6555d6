/* matlab.c: the module of MATLAB's .mat files, which matio reads and writes: those of version 5,
 * and of 7.3 where matio has HDF5. Matrices are column-major in them. */
#include <limits.h>
#include <matio.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "io/format.h"

/* ---- sizes that a file tells --------------------------------------------------------------- */

/* matio allocates what a file of version 5 says of dims, names, fields and cells before it reads
 * them, gigabytes for 200 bytes. So everything that it reads of a variable beside its elements is
 * gone through before: what lies in something is no larger than that. (MAT-File Format, R2019b,
 * chapter 1: elements are a tag of two words and bytes, padded to eight, or both in eight bytes.)
 */

enum {
  TYPE_INT8 = 1,
  TYPE_INT32 = 5,
  TYPE_UINT32 = 6,
  TYPE_MATRIX = 14,
  TYPE_COMPRESSED = 15,
  HEADER_SIZE = 128,
  WORD = 4,
  TAG_SIZE = 2 * WORD,
  RANK_MAX = 32,
  NAME_MAX_SIZE = 4096,
  DEPTH_MAX = 64 /* cells and structures in each other */
};

/* The bytes of a variable, as they are or as they inflate. */
typedef struct stream {
  const unsigned char *at;
  size_t left;
  z_stream *inflated; /* NULL when they are as they are */
  bool is_little;
  bool has_parts; /* other variables lie in it */
} stream;

/* Takes size bytes; returns false when there are fewer, or they do not inflate. */
static bool take(stream *s, void *out, size_t size) {
  if (s->inflated != NULL) {
    s->inflated->next_out = out;
    s->inflated->avail_out = (uInt)size;
    int code = Z_OK;
    while (code == Z_OK && s->inflated->avail_out > 0) code = inflate(s->inflated, Z_NO_FLUSH);
    return s->inflated->avail_out == 0;
  }
  if (size > s->left) return false;
  memcpy(out, s->at, size);
  s->at += size;
  s->left -= size;
  return true;
}

static bool pass_over(stream *s, uint64_t size) {
  unsigned char bytes[NAME_MAX_SIZE];
  for (size_t part; size > 0; size -= part) {
    part = size < sizeof bytes ? (size_t)size : sizeof bytes;
    if (!take(s, bytes, part)) return false;
  }
  return true;
}

static uint32_t word_of(const stream *s, const unsigned char *bytes) {
  uint32_t word = 0;
  for (int b = 0; b < WORD; b++) word = word << 8 | bytes[s->is_little ? WORD - 1 - b : b];
  return word;
}

/* An element of at most NAME_MAX_SIZE bytes. */
typedef struct element {
  uint32_t type, size;
  unsigned char bytes[NAME_MAX_SIZE];
} element;

/* Takes an element of that type, with its padding, off what is left of *room bytes. */
static bool take_element(stream *s, uint32_t type, uint64_t *room, element *out) {
  unsigned char tag[TAG_SIZE];
  if (*room < TAG_SIZE || !take(s, tag, sizeof tag)) return false;
  *room -= TAG_SIZE;
  out->type = word_of(s, tag);
  out->size = word_of(s, tag + WORD);
  if (out->type >> 16 != 0) { /* both in the tag */
    out->size = out->type >> 16;
    out->type &= 0xffff;
    if (out->size > WORD) return false;
    memcpy(out->bytes, tag + WORD, WORD);
    return out->type == type;
  }
  const uint64_t padded = ((uint64_t)out->size + 7) / 8 * 8;
  if (out->type != type || out->size > NAME_MAX_SIZE || padded > *room) return false;
  *room -= padded;
  return take(s, out->bytes, (size_t)padded);
}

static bool check_variable(stream *s, uint64_t size, int depth);

/* Goes through count variables that lie in *room bytes. */
static bool check_parts(stream *s, uint64_t count, uint64_t room, int depth) {
  s->has_parts = true;
  if (count > room / TAG_SIZE || depth >= DEPTH_MAX) return count == 0;
  for (uint64_t c = 0; c < count; c++) {
    unsigned char tag[TAG_SIZE];
    if (room < TAG_SIZE || !take(s, tag, sizeof tag)) return false;
    const uint64_t size = word_of(s, tag + WORD);
    room -= TAG_SIZE;
    if (word_of(s, tag) != TYPE_MATRIX || size > room) return false;
    room -= size;
    if (size > 0 && !check_variable(s, size, depth + 1)) return false;
  }
  return true;
}

/* Takes the names of a structure's fields; returns how many, or UINT64_MAX. */
static uint64_t take_fields(stream *s, uint64_t *room) {
  element e;
  if (!take_element(s, TYPE_INT32, room, &e) || e.size != WORD) return UINT64_MAX;
  const uint32_t length = word_of(s, e.bytes);
  unsigned char tag[TAG_SIZE];
  if (*room < TAG_SIZE || !take(s, tag, sizeof tag)) return UINT64_MAX;
  *room -= TAG_SIZE;
  const uint64_t size = word_of(s, tag + WORD), padded = (size + 7) / 8 * 8;
  if (word_of(s, tag) != TYPE_INT8 || length == 0 || size % length != 0 || padded > *room)
    return UINT64_MAX;
  *room -= padded;
  return pass_over(s, padded) ? size / length : UINT64_MAX;
}

/* Goes through a variable of size bytes behind its tag, and to its end when it lies in another. */
static bool check_variable(stream *s, uint64_t size, int depth) {
  uint64_t room = size, count = 1;
  element e;
  if (!take_element(s, TYPE_UINT32, &room, &e) || e.size != 2 * WORD) return false;
  const uint32_t class = word_of(s, e.bytes) & 0xff;
  if (class != MAT_C_OPAQUE) { /* which has no dims */
    if (!take_element(s, TYPE_INT32, &room, &e)) return false;
    if (e.size % WORD != 0 || e.size < 2 * WORD || e.size > RANK_MAX * WORD) return false;
    for (uint32_t d = 0; d < e.size; d += WORD) {
      const uint32_t dim = word_of(s, e.bytes + d);
      if (dim > INT32_MAX || __builtin_mul_overflow(count, dim, &count)) return false;
    }
  }
  if (!take_element(s, TYPE_INT8, &room, &e)) return false;
  if (class == MAT_C_OBJECT) return depth == 0; /* matio leaves it alone there */
  if (class == MAT_C_CELL || class == MAT_C_FUNCTION) return check_parts(s, count, room, depth);
  if (class == MAT_C_STRUCT) {
    const uint64_t fields = take_fields(s, &room);
    if (fields == UINT64_MAX || __builtin_mul_overflow(count, fields, &count)) return false;
    return check_parts(s, count, room, depth);
  }
  return depth == 0 || pass_over(s, room);
}

/* Says whether what is left inflates, to its checksum. */
static bool ends_well(stream *s) {
  unsigned char bytes[4096];
  int code = Z_OK;
  while (code == Z_OK) {
    s->inflated->next_out = bytes;
    s->inflated->avail_out = sizeof bytes;
    code = inflate(s->inflated, Z_NO_FLUSH);
  }
  return code == Z_STREAM_END;
}

/* Goes through a variable that is the bytes inflated. Of one that holds others matio goes through
 * all, and takes what does not inflate for sizes. */
static bool check_inflated(const stream *s, uint32_t size) {
  z_stream z = {.next_in = (z_const Bytef *)s->at, .avail_in = size};
  if (inflateInit(&z) != Z_OK) return false;
  stream inside = {.inflated = &z, .is_little = s->is_little};
  unsigned char tag[TAG_SIZE];
  bool good = take(&inside, tag, sizeof tag) && word_of(s, tag) == TYPE_MATRIX &&
              check_variable(&inside, word_of(s, tag + WORD), 0) &&
              (!inside.has_parts || ends_well(&inside));
  inflateEnd(&z);
  return good;
}

/* Says whether every variable of a file of version 5 lies in it, with all that it says of itself;
 * *variables becomes how many there are. */
static bool check_sizes(const mmci_source *source, bool is_little, int64_t *variables) {
  stream s = {.at = source->bytes + HEADER_SIZE,
              .left = source->have - HEADER_SIZE,
              .is_little = is_little};
  while (s.left >= TAG_SIZE) {
    const uint32_t type = word_of(&s, s.at), size = word_of(&s, s.at + WORD);
    s.at += TAG_SIZE;
    s.left -= TAG_SIZE;
    if (size > s.left || (type != TYPE_MATRIX && type != TYPE_COMPRESSED)) return false;
    stream inside = {.at = s.at, .left = size, .is_little = is_little};
    if (size == 0) continue;
    ++*variables;
    if (type == TYPE_COMPRESSED ? !check_inflated(&inside, size)
                                : !check_variable(&inside, size, 0))
      return false;
    s.at += size;
    s.left -= size;
  }
  return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

static mmc_status refuse_file(const mmci_source *s, const char *what, mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT, "%s: %s", s->shown, what);
}

/* Says whether matio can be given the file: it has the header of version 5 or 7.3, which is 124
 * bytes of text, the version, and "MI" as a machine of either byte order writes it, and of version
 * 5 what it says of sizes holds. matio tries version 4 otherwise, and takes up to 2 GiB for a name
 * whose length any bytes say. *variables becomes how many it has, and 0 where that is not known. */
static bool is_trusted(const mmci_source *s, int64_t *variables) {
  enum { VERSION = 124, ORDER = 126 };
  *variables = 0;
  if (s->have < HEADER_SIZE) return false;
  bool is_little = memcmp(s->bytes + ORDER, "IM", 2) == 0;
  if (!is_little && memcmp(s->bytes + ORDER, "MI", 2) != 0) return false;
  unsigned char major = s->bytes[VERSION + is_little], minor = s->bytes[VERSION + !is_little];
  return minor == 0 && (major == 2 || (major == 1 && check_sizes(s, is_little, variables)));
}

/* matio says nothing of why; that the file can be read is found out before. */
static mmc_status open_mat_file(const char *path, mmci_source *s, mat_t **out, int64_t *variables,
                                mmci_error *error) {
  mmc_status status = mmci_source_open(path, s, error);
  if (status != MMC_OK) return status;
  *out = is_trusted(s, variables) ? Mat_Open(path, MAT_ACC_RDONLY) : NULL;
  return *out != NULL
             ? MMC_OK
             : refuse_file(s, "no MATLAB file of version 5 or 7.3, or a damaged one", error);
}

static mmc_status describe(const matvar_t *variable, mmci_file_array *array, mmci_error *error) {
  const mmci_source *s = &array->source;
  bool is_double = variable->class_type == MAT_C_DOUBLE, is_complex = variable->isComplex != 0;
  if (variable->class_type == MAT_C_SPARSE)
    return refuse_file(s, "a sparse matrix: expected a full one, full(A) in MATLAB", error);
  if ((!is_double && variable->class_type != MAT_C_SINGLE) || variable->isLogical)
    return refuse_file(s, "the variable's class: double and single work", error);
  if (variable->rank != 2 || variable->dims == NULL)
    return refuse_file(s, "expected a matrix, of two dimensions: MATLAB's pages come last", error);
  array->dtype = is_double ? (is_complex ? MMC_C128 : MMC_F64) : is_complex ? MMC_C64 : MMC_F32;
  array->fortran_order = true;
  array->ndim = 2;
  for (int d = 0; d < 2; d++) {
    /* matio counts in int. */
    if (variable->dims[d] > INT_MAX) return refuse_file(s, "a dimension above 2^31 - 1", error);
    array->shape[d] = (int64_t)variable->dims[d];
  }
  return MMC_OK;
}

/* Says whether an element of size bytes, of count, has all its bytes alike as they were set. */
static bool has_untouched(const unsigned char *bytes, size_t count, size_t size, int set) {
  unsigned char all[sizeof(double)];
  memset(all, set, sizeof all);
  for (size_t i = 0; i < count; i++)
    if (memcmp(bytes + i * size, all, size) == 0) return true;
  return false;
}

/* Reads the elements once, into bytes that are all alike before. */
static bool read_once(mat_t *mat, matvar_t *variable, const mmci_file_array *array,
                      unsigned char *to, size_t count, size_t real_size, int set) {
  mat_complex_split_t split = {to, to + count / 2 * real_size};
  void *data = variable->isComplex ? (void *)&split : to;
  int start[2] = {0, 0}, stride[2] = {1, 1}, edge[2];
  if (variable->rank != 2 || variable->dims == NULL) return false;
  for (int d = 0; d < 2; d++) {
    edge[d] = (int)array->shape[d];
    if (variable->dims[d] != (size_t)edge[d]) return false;
  }
  memset(to, set, count * real_size);
  return Mat_VarReadData(mat, variable, data, start, stride, edge) == 0;
}

/* Reads count elements: those of real numbers or, of complex ones, all real parts and then all
 * imaginary ones.
 *
 * matio may say that it has read a variable, and have left some of it, where memory is short or the
 * file damaged. So its place is set to bytes that are seldom in a file. Where they are there, and
 * of a compressed variable, for which matio does not see whether zlib had memory, it is set to
 * others, and all is read again and must be the same. */
static mmc_status read_data(mat_t *mat, matvar_t *variable, const mmci_file_array *array,
                            unsigned char *to, size_t count, size_t real_size, mmci_error *error) {
  static const int sets[2] = {0xA5, 0x5A};
  bool is_read = read_once(mat, variable, array, to, count, real_size, sets[0]);
  if (is_read && (variable->compression != MAT_COMPRESSION_NONE ||
                  has_untouched(to, count, real_size, sets[0]))) {
    const uint64_t sum = mmci_hash_bytes(0, to, count * real_size);
    matvar_t *again = Mat_VarReadInfo(mat, variable->name);
    is_read = again != NULL && again->isComplex == variable->isComplex &&
              read_once(mat, again, array, to, count, real_size, sets[1]) &&
              mmci_hash_bytes(0, to, count * real_size) == sum;
    Mat_VarFree(again);
  }
  return is_read ? MMC_OK : refuse_file(&array->source, "matio cannot read the variable", error);
}

/* Puts real and imaginary parts, which lie apart, together. */
static mmc_status read_complex(mat_t *mat, matvar_t *variable, mmci_file_array *array, size_t count,
                               mmci_error *error) {
  size_t real_size = mmc_dtype_size(array->dtype) / 2;
  unsigned char *parts = mmci_alloc_array(2 * count, real_size), *to = array->copy;
  if (parts == NULL) return mmci_fail_nomem(error, 2 * count * real_size);
  mmc_status status = read_data(mat, variable, array, parts, 2 * count, real_size, error);
  for (size_t i = 0; i < count && status == MMC_OK; i++) {
    memcpy(to + 2 * i * real_size, parts + i * real_size, real_size);
    memcpy(to + (2 * i + 1) * real_size, parts + (count + i) * real_size, real_size);
  }
  free(parts);
  return status;
}

static mmc_status read_variable(mat_t *mat, const char *name, mmci_file_array *array,
                                mmci_error *error) {
  matvar_t *variable = Mat_VarReadInfo(mat, name);
  if (variable == NULL) return MMC_E_ARG;
  mmc_status status = describe(variable, array, error);
  if (status == MMC_OK) status = mmci_file_array_allocate(array, array->source.have, error);
  if (status == MMC_OK && array->copy != NULL) {
    size_t count = (size_t)array->shape[0] * (size_t)array->shape[1];
    status = variable->isComplex ? read_complex(mat, variable, array, count, error)
                                 : read_data(mat, variable, array, array->copy, count,
                                             mmc_dtype_size(array->dtype), error);
  }
  Mat_VarFree(variable);
  return status;
}

static mmc_status open_variable(const mmci_file_name *name, mmci_file_array **out,
                                mmci_error *error) {
  mmci_file_array *array;
  mat_t *mat = NULL;
  int64_t variables;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = open_mat_file(name->path, &array->source, &mat, &variables, error);
  if (status == MMC_OK) status = read_variable(mat, name->member, array, error);
  if (mat != NULL) Mat_Close(mat);
  mmci_source_release(&array->source);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

static mmc_status list(const char *path, mmci_member_fn tell, void *user, mmci_error *error) {
  mmci_source s;
  mat_t *mat = NULL;
  int64_t variables, seen = 0;
  mmc_status status = open_mat_file(path, &s, &mat, &variables, error);
  for (bool on = true; status == MMC_OK && on; seen++) {
    matvar_t *variable = Mat_VarReadNextInfo(mat);
    /* matio does not tell the end from an allocation that failed. */
    if (variable == NULL && seen < variables)
      status = refuse_file(&s, "matio does not read all variables", error);
    if (variable == NULL) break;
    on = variable->name == NULL || tell(user, variable->name);
    Mat_VarFree(variable);
  }
  if (mat != NULL) Mat_Close(mat);
  mmci_source_release(&s);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* The elements while they are collected column by column, complex numbers in two parts. */
typedef struct columns {
  unsigned char *bytes;
  size_t have;  /* elements so far */
  size_t count; /* elements in all */
  size_t real_size;
  bool is_complex;
} columns;

static int collect(void *user, const char *bytes, size_t size) {
  columns *c = user;
  if (!c->is_complex) {
    memcpy(c->bytes + c->have * c->real_size, bytes, size);
    c->have += size / c->real_size;
    return 0;
  }
  for (size_t i = 0; i < size / (2 * c->real_size); i++, c->have++) {
    memcpy(c->bytes + c->have * c->real_size, bytes + 2 * i * c->real_size, c->real_size);
    memcpy(c->bytes + (c->count + c->have) * c->real_size, bytes + (2 * i + 1) * c->real_size,
           c->real_size);
  }
  return 0;
}

static bool is_identifier(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  enum { LENGTH_MAX = 63 }; /* namelengthmax in MATLAB */
  size_t length = strlen(name);
  return length <= LENGTH_MAX && strspn(name, letters) > 0 &&
         strspn(name, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == length;
}

static mmc_status check_rows(const mmci_file_rows *rows, const char *member, mmci_error *error) {
  const uint64_t most = (uint64_t)INT_MAX - 4096; /* sizes in a file of version 5 have 32 bits */
  if (rows->dtype >= MMC_F16)
    return mmci_fail(error, MMC_E_ARG, "matlab has no %s: f32, f64, c64, c128 can be written",
                     mmc_dtype_name(rows->dtype));
  if (rows->ndim > 2)
    return mmci_fail(error, MMC_E_ARG, "matlab: a matrix can be written, no stack of them");
  if (!is_identifier(member))
    return mmci_fail(error, MMC_E_ARG,
                     "'%.60s': expected a variable of MATLAB: letters, digits and _, at most 63",
                     member);
  if (mmci_file_rows_bytes(rows) > most || rows->matrix.rows > INT_MAX ||
      rows->matrix.cols > INT_MAX)
    return mmci_fail(error, MMC_E_ARG, "a .mat file holds at most 2 GiB: .h5 has no limit");
  return MMC_OK;
}

/* Writes the variable to a file that is made anew. */
static bool write_variable(const char *path, const mmci_file_rows *rows, const char *member,
                           const columns *c) {
  size_t dims[2] = {(size_t)rows->matrix.rows, (size_t)rows->matrix.cols};
  mat_complex_split_t split = {c->bytes, c->bytes + c->count * c->real_size};
  bool is_double = c->real_size == sizeof(double);
  mat_t *mat = Mat_CreateVer(path, "MATLAB 5.0 MAT-file, written by mmchain", MAT_FT_MAT5);
  if (mat == NULL) return false;
  matvar_t *variable = Mat_VarCreate(member, is_double ? MAT_C_DOUBLE : MAT_C_SINGLE,
                                     is_double ? MAT_T_DOUBLE : MAT_T_SINGLE, 2, dims,
                                     c->is_complex ? (void *)&split : c->bytes,
                                     MAT_F_DONT_COPY_DATA | (c->is_complex ? MAT_F_COMPLEX : 0));
  bool written = variable != NULL && Mat_VarWrite(mat, variable, MAT_COMPRESSION_NONE) == 0;
  Mat_VarFree(variable);
  return Mat_Close(mat) == 0 && written;
}

/* Sends a file that lies in memory. */
static mmc_status send_file(int descriptor, mmc_write_fn write, void *user) {
  char bytes[1 << 16];
  for (off_t at = 0;;) {
    ssize_t got = pread(descriptor, bytes, sizeof bytes, at);
    if (got <= 0) return MMC_OK;
    if (write(user, bytes, (size_t)got) != 0) return MMC_E_IO;
    at += got;
  }
}

static mmc_status write_columns(const mmci_file_rows *rows, const char *member, const columns *c,
                                mmc_write_fn write, void *user, mmci_error *error) {
  char path[32];
  int descriptor = memfd_create("mmchain-matlab", MFD_CLOEXEC);
  if (descriptor < 0) return mmci_fail_nomem(error, 1);
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  mmc_status status = write_variable(path, rows, member, c)
                          ? send_file(descriptor, write, user)
                          : mmci_fail(error, MMC_E_NOMEM, "matio cannot make the file in memory");
  close(descriptor);
  return status;
}

static mmc_status write_file(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                             void *user, mmci_error *error) {
  mmc_status status = check_rows(rows, member, error);
  if (status != MMC_OK) return status;
  columns c = {.count = (size_t)(mmci_file_rows_bytes(rows) / rows->element_size),
               .is_complex = mmci_dtype_is_complex(rows->dtype)};
  c.real_size = c.is_complex ? rows->element_size / 2 : rows->element_size;
  c.bytes = mmci_alloc_array(c.count, rows->element_size);
  if (c.bytes == NULL) return mmci_fail_nomem(error, mmci_file_rows_bytes(rows));
  mmci_file_rows turned = mmci_file_rows_turned(rows);
  status = mmci_file_rows_send(&turned, collect, &c, error);
  if (status == MMC_OK) status = write_columns(rows, member, &c, write, user, error);
  free(c.bytes);
  return status;
}

const mmci_format mmci_format_matlab = {.abi = MMCI_FORMAT_ABI,
                                        .size = sizeof(mmci_format),
                                        .open = open_variable,
                                        .list = list,
                                        .write = write_file};

MMC_API const mmci_format *mmci_module_entry(void);

const mmci_format *mmci_module_entry(void) {
  return &mmci_format_matlab;
}
