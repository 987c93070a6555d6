/* matlab.c: the module of MATLAB's .mat files: those of version 5, which matlab_five.c reads and
 * matio writes, and those of 7.3, which matio reads where it has HDF5. Matrices are column-major in
 * them. */
#include <limits.h>
#include <matio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "io/format.h"
#include "io/matlab_five.h"
#include "io/memory_file.h"
#ifdef MMCI_WITH_HDF5
#include "io/hdf5_silence.h"
#endif

/* ---- reading ------------------------------------------------------------------------------- */

typedef enum version { OTHER, FIVE, SEVEN } version; /* SEVEN is 7.3 */

/* Finds the version of a file by its header: 124 bytes of text, the version, and "MI" as a machine
 * of either byte order writes it. Any other is no file for matio, which tries version 4 then, and
 * takes up to 2 GiB for a name whose length any bytes say. */
static version version_of(const mmci_source *s, bool *is_little) {
  enum { VERSION = 124, ORDER = 126 };
  if (s->have < MMCI_MATLAB_HEADER_SIZE) return OTHER;
  *is_little = memcmp(s->bytes + ORDER, "IM", 2) == 0;
  if (!*is_little && memcmp(s->bytes + ORDER, "MI", 2) != 0) return OTHER;
  const unsigned char major = s->bytes[VERSION + *is_little],
                      minor = s->bytes[VERSION + !*is_little];
  return minor != 0 ? OTHER : major == 1 ? FIVE : major == 2 ? SEVEN : OTHER;
}

static mmc_status refuse_version(const mmci_source *s, mmci_error *error) {
  return mmci_source_refuse(
      s, "no MATLAB file of version 5 or 7.3 (in Octave: save -v7), or a damaged one", error);
}

/* matio says nothing of why, that the file can be read was found out before; and libhdf5, by which
 * it reads version 7.3, is to say nothing either. */
typedef struct matio {
  mat_t *mat;
#ifdef MMCI_WITH_HDF5
  mmci_hdf5_silence silence;
#endif
} matio;

static void close_matio(matio *m) {
  if (m->mat != NULL) Mat_Close(m->mat);
#ifdef MMCI_WITH_HDF5
  mmci_hdf5_silence_end(&m->silence);
#endif
}

static mmc_status open_matio(const char *path, const mmci_source *s, matio *out,
                             mmci_error *error) {
#ifdef MMCI_WITH_HDF5
  mmci_hdf5_silence_begin(&out->silence);
#endif
  out->mat = Mat_Open(path, MAT_ACC_RDONLY);
  if (out->mat != NULL) return MMC_OK;
  close_matio(out);
  return refuse_version(s, error);
}

static mmc_status describe(const matvar_t *variable, mmci_file_array *array, mmci_error *error) {
  const mmci_source *s = &array->source;
  bool is_double = variable->class_type == MAT_C_DOUBLE, is_complex = variable->isComplex != 0;
  if (variable->class_type == MAT_C_SPARSE)
    return mmci_source_refuse(s, "a sparse matrix: expected a full one, full(A) in MATLAB", error);
  if ((!is_double && variable->class_type != MAT_C_SINGLE) || variable->isLogical)
    return mmci_source_refuse(s, "the variable's class: double and single work", error);
  if (variable->rank != 2 || variable->dims == NULL)
    return mmci_source_refuse(s, "expected a matrix, of two dimensions: MATLAB's pages come last",
                              error);
  array->dtype = is_double ? (is_complex ? MMC_C128 : MMC_F64) : is_complex ? MMC_C64 : MMC_F32;
  array->fortran_order = true;
  array->ndim = 2;
  for (int d = 0; d < 2; d++) {
    /* matio counts in int. */
    if (variable->dims[d] > INT_MAX)
      return mmci_source_refuse(s, "a dimension above 2^31 - 1", error);
    array->shape[d] = (int64_t)variable->dims[d];
  }
  return MMC_OK;
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
 * matio may say that it has read a variable, and have left some of it, or libhdf5 have converted it
 * as another type, where memory is short or the file damaged. So its place is set to some bytes and
 * then to others, and what is read must be the same twice. */
static mmc_status read_data(mat_t *mat, matvar_t *variable, const mmci_file_array *array,
                            unsigned char *to, size_t count, size_t real_size, mmci_error *error) {
  static const int sets[2] = {0xA5, 0x5A};
  bool is_read = read_once(mat, variable, array, to, count, real_size, sets[0]);
  if (is_read) {
    const uint64_t sum = mmci_hash_bytes(0, to, count * real_size);
    matvar_t *again = Mat_VarReadInfo(mat, variable->name);
    is_read = again != NULL && again->isComplex == variable->isComplex &&
              read_once(mat, again, array, to, count, real_size, sets[1]) &&
              mmci_hash_bytes(0, to, count * real_size) == sum;
    Mat_VarFree(again);
  }
  return is_read ? MMC_OK
                 : mmci_source_refuse(&array->source, "matio cannot read the variable", error);
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

static mmc_status read_seven(const mmci_file_name *name, mmci_file_array *array,
                             mmci_error *error) {
  matio m;
  mmc_status status = open_matio(name->path, &array->source, &m, error);
  if (status != MMC_OK) return status;
  status = read_variable(m.mat, name->member, array, error);
  close_matio(&m);
  return status;
}

static mmc_status open_variable(const mmci_file_name *name, mmci_file_array **out,
                                mmci_error *error) {
  mmci_file_array *array;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = mmci_source_open(name->path, &array->source, error);
  if (status == MMC_OK) {
    bool is_little;
    const version version = version_of(&array->source, &is_little);
    status = version == FIVE    ? mmci_matlab_five_read(array, is_little, name->member, error)
             : version == SEVEN ? read_seven(name, array, error)
                                : refuse_version(&array->source, error);
  }
  mmci_source_release(&array->source);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

static mmc_status list_seven(const char *path, const mmci_source *s, mmci_member_fn tell,
                             void *user, mmci_error *error) {
  matio m;
  mmc_status status = open_matio(path, s, &m, error);
  if (status != MMC_OK) return status;
  for (bool on = true; on;) {
    matvar_t *variable = Mat_VarReadNextInfo(m.mat);
    if (variable == NULL) break;
    on = variable->name == NULL || tell(user, variable->name);
    Mat_VarFree(variable);
  }
  close_matio(&m);
  return MMC_OK;
}

static mmc_status list(const char *path, mmci_member_fn tell, void *user, mmci_error *error) {
  mmci_source s;
  mmc_status status = mmci_source_open(path, &s, error);
  if (status == MMC_OK) {
    bool is_little;
    const version version = version_of(&s, &is_little);
    status = version == FIVE    ? mmci_matlab_five_list(&s, is_little, tell, user, error)
             : version == SEVEN ? list_seven(path, &s, tell, user, error)
                                : refuse_version(&s, error);
  }
  mmci_source_release(&s);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

enum { DESCRIPTION_MOST = 4096 }; /* bytes of a file besides the elements, at most */

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
  /* Sizes in a file of version 5 have 32 bits. */
  const uint64_t most = (uint64_t)INT_MAX - DESCRIPTION_MOST;
  if (rows->dtype >= MMC_F16)
    return mmci_fail(error, MMC_E_ARG, "matlab has no %s: f32, f64, c64, c128 can be written",
                     mmc_dtype_name(rows->dtype));
  if (rows->ndim > 2)
    return mmci_fail(error, MMC_E_ARG, "matlab: a matrix can be written, no stack of them");
  if (!is_identifier(member))
    return mmci_fail(error, MMC_E_ARG,
                     "'%.60s': expected a variable of MATLAB: letters, digits and _, at most 63",
                     member);
  if (mmci_file_rows_bytes(rows) > most || rows->shape[0] > INT_MAX || rows->shape[1] > INT_MAX)
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
  char path[MMCI_MEMORY_FILE_PATH_SIZE];
  const uint64_t size = mmci_file_rows_bytes(rows) + DESCRIPTION_MOST;
  const int descriptor = mmci_memory_file_create(size, path, error);
  if (descriptor < 0) return MMC_E_NOMEM;
  mmc_status status = write_variable(path, rows, member, c)
                          ? send_file(descriptor, write, user)
                          : mmci_fail(error, MMC_E_NOMEM, "matio cannot make the file in memory");
  close(descriptor);
  return status;
}

static mmc_status write_matrix(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                               void *user, mmci_error *error) {
  columns c = {.count = (size_t)(mmci_file_rows_bytes(rows) / rows->element_size),
               .is_complex = mmci_dtype_is_complex(rows->dtype)};
  c.real_size = c.is_complex ? rows->element_size / 2 : rows->element_size;
  c.bytes = mmci_alloc_array(c.count, rows->element_size);
  if (c.bytes == NULL) return mmci_fail_nomem(error, mmci_file_rows_bytes(rows));
  mmci_file_rows turned = mmci_file_rows_turned(rows);
  mmc_status status = mmci_file_rows_send(&turned, collect, &c, error);
  if (status == MMC_OK) status = write_columns(rows, member, &c, write, user, error);
  free(c.bytes);
  return status;
}

static mmc_status write_file(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                             void *user, mmci_error *error) {
  mmc_status status = check_rows(rows, member, error);
  if (status != MMC_OK) return status;
  mmci_file_rows one;
  void *memory;
  status = mmci_file_rows_as_matrix(rows, &one, &memory, error);
  if (status == MMC_OK) status = write_matrix(&one, member, write, user, error);
  free(memory);
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
