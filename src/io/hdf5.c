/* hdf5.c: the module of HDF5 files. libhdf5 reads their structure. A dataset that lies in one piece
 * is then mapped, as an .npy file is; libhdf5 reads others, chunked or compressed.
 *
 * Complex numbers are compounds of two reals, as h5py and MATLAB write them. */
#define H5_USE_110_API /* later versions of libhdf5 have the functions of 1.10, if asked */
#include <hdf5.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "io/format.h"
#include "io/hdf5_silence.h"
#include "io/memory_file.h"

/* ---- types --------------------------------------------------------------------------------- */

/* Returns a type that is good, or -1: every call on one fails where memory is short, and what it
 * leaves would be another type. Types are closed by whoever gets them. */
static hid_t good_type(hid_t type, bool is_good) {
  if (is_good || type < 0) return type;
  H5Tclose(type);
  return -1;
}

/* Makes the type of two bytes that HDF5 has no name for. */
static hid_t half_type(H5T_order_t order) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  return good_type(type, H5Tset_fields(type, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(type, 2) >= 0 &&
                             H5Tset_ebias(type, 15) >= 0 && H5Tset_order(type, order) >= 0);
}

/* Returns HDF5's own type of those numbers in little-endian order. */
static hid_t like(mmc_dtype dtype) {
  switch (dtype) {
    case MMC_F32:
    case MMC_C64:
      return H5T_IEEE_F32LE;
    case MMC_I8:
      return H5T_STD_I8LE;
    case MMC_I16:
      return H5T_STD_I16LE;
    case MMC_I32:
      return H5T_STD_I32LE;
    case MMC_I64:
      return H5T_STD_I64LE;
    case MMC_U8:
      return H5T_STD_U8LE;
    case MMC_U16:
      return H5T_STD_U16LE;
    case MMC_U32:
      return H5T_STD_U32LE;
    case MMC_U64:
      return H5T_STD_U64LE;
    default:
      return H5T_IEEE_F64LE;
  }
}

static hid_t real_type(mmc_dtype dtype, H5T_order_t order) {
  if (dtype == MMC_F16) return half_type(order);
  hid_t type = H5Tcopy(like(dtype));
  return good_type(type, H5Tset_order(type, order) >= 0);
}

static hid_t type_of(mmc_dtype dtype, H5T_order_t order) {
  hid_t real = real_type(dtype, order);
  if (!mmci_dtype_is_complex(dtype) || real < 0) return real;
  size_t size = mmc_dtype_size(dtype);
  hid_t type = H5Tcreate(H5T_COMPOUND, size);
  bool is_good = H5Tinsert(type, "r", 0, real) >= 0 && H5Tinsert(type, "i", size / 2, real) >= 0;
  H5Tclose(real);
  return good_type(type, is_good);
}

static H5T_order_t host_order(void) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? H5T_ORDER_BE : H5T_ORDER_LE;
}

/* Says whether type is that of the real numbers of a dtype, in either order. */
static bool is_real(hid_t type, mmc_dtype dtype, bool *foreign) {
  static const H5T_order_t orders[] = {H5T_ORDER_LE, H5T_ORDER_BE};
  for (int o = 0; o < 2; o++) {
    hid_t wanted = real_type(dtype, orders[o]);
    bool same = H5Tequal(type, wanted) > 0;
    if (wanted >= 0) H5Tclose(wanted);
    *foreign = orders[o] != host_order();
    if (same) return true;
  }
  return false;
}

/* Says whether type is a compound of two such numbers of one order, one behind the other, whatever
 * their names. */
static bool is_complex(hid_t type, mmc_dtype dtype, bool *foreign) {
  size_t size = mmc_dtype_size(dtype);
  if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2 ||
      H5Tget_size(type) != size || H5Tget_member_offset(type, 0) != 0 ||
      H5Tget_member_offset(type, 1) != size / 2)
    return false;
  bool same = true, turned[2] = {false, false};
  for (unsigned m = 0; m < 2; m++) {
    hid_t member = H5Tget_member_type(type, m);
    same = same && member >= 0 && is_real(member, dtype, &turned[m]);
    if (member >= 0) H5Tclose(member);
  }
  *foreign = turned[0];
  return same && turned[0] == turned[1];
}

static bool read_dtype(hid_t type, mmci_file_array *array) {
  static const mmc_dtype dtypes[] = {MMC_F64, MMC_F32, MMC_F16, MMC_C128, MMC_C64, MMC_I8, MMC_I16,
                                     MMC_I32, MMC_I64, MMC_U8,  MMC_U16,  MMC_U32, MMC_U64};
  for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
    array->dtype = dtypes[d];
    if (mmci_dtype_is_complex(dtypes[d]) ? is_complex(type, dtypes[d], &array->foreign)
                                         : is_real(type, dtypes[d], &array->foreign))
      return true;
  }
  return false;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The handles of an open dataset; 0 is none. */
typedef struct handles {
  hid_t file, dataset, type, space, properties;
} handles;

static void close_handles(handles *h) {
  if (h->properties > 0) H5Pclose(h->properties);
  if (h->space > 0) H5Sclose(h->space);
  if (h->type > 0) H5Tclose(h->type);
  if (h->dataset > 0) H5Dclose(h->dataset);
  if (h->file > 0) H5Fclose(h->file);
  *h = (handles){0};
}

/* Opens the file, of which the source has been opened, so that it is there. */
static mmc_status open_hdf5_file(const char *path, const mmci_source *s, hid_t *out,
                                 mmci_error *error) {
  static const char mark[] = "\x89HDF\r\n\x1a\n";
  /* The mark stands at 0, or at 512 and its doubles behind a block of the user's. */
  bool marked = false;
  for (size_t at = 0; !marked && at + sizeof mark <= s->have; at = at == 0 ? 512 : 2 * at)
    marked = memcmp(s->bytes + at, mark, sizeof mark - 1) == 0;
  *out = marked ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) : -1;
  return *out >= 0 ? MMC_OK : mmci_source_refuse(s, "no HDF5 file, or a damaged one", error);
}

/* Writes whether an object is a dataset; returns false where it is not there or cannot be read. */
static bool find_dataset(hid_t file, const char *name, bool *is_dataset) {
  H5O_info_t object;
  if (H5Oget_info_by_name2(file, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return false;
  *is_dataset = object.type == H5O_TYPE_DATASET;
  return true;
}

/* Refuses a dataset that is there and that libhdf5 cannot open. */
static mmc_status refuse_dataset(const mmci_source *s, mmci_error *error) {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return mmci_fail(error, MMC_E_FORMAT,
                   "%s: libhdf5 %u.%u.%u cannot open the dataset: it is damaged, or written in a "
                   "newer format (h5py's libver=\"latest\")",
                   s->shown, major, minor, release);
}

/* Describes the dataset of a name. Returns also: E_ARG, without a message, when there is none. */
static mmc_status describe(handles *h, const char *name, mmci_file_array *array,
                           mmci_error *error) {
  const mmci_source *s = &array->source;
  bool is_dataset = false;
  h->dataset = H5Dopen2(h->file, name, H5P_DEFAULT);
  if (h->dataset < 0 && find_dataset(h->file, name, &is_dataset) && is_dataset)
    return refuse_dataset(s, error);
  if (h->dataset < 0) return MMC_E_ARG;
  h->type = H5Dget_type(h->dataset);
  h->space = H5Dget_space(h->dataset);
  h->properties = H5Dget_create_plist(h->dataset);
  if (h->type < 0 || h->space < 0 || h->properties < 0)
    return mmci_source_refuse(s, "a damaged HDF5 file", error);
  if (!read_dtype(h->type, array))
    return mmci_source_refuse(
        s,
        "the dataset's type: float16, float32, float64, complex64, complex128, int8 "
        "to int64, uint8 to uint64 work",
        error);
  hsize_t dims[H5S_MAX_RANK];
  array->ndim = H5Sget_simple_extent_ndims(h->space);
  if (array->ndim < 1 || array->ndim > H5S_MAX_RANK ||
      H5Sget_simple_extent_type(h->space) != H5S_SIMPLE)
    return mmci_fail(error, MMC_E_FORMAT, "%s: a dataset of %d dimensions: 1 to %d dimensions work",
                     s->shown, array->ndim < 0 ? 0 : array->ndim, H5S_MAX_RANK);
  H5Sget_simple_extent_dims(h->space, dims, NULL);
  for (int d = 0; d < array->ndim; d++) {
    if (dims[d] > (hsize_t)1 << 62) return mmci_source_refuse(s, "a dimension above 2^62", error);
    array->shape[d] = (int64_t)dims[d];
  }
  return MMC_OK;
}

/* Says whether the elements lie in one piece of this file, and where it begins. */
static bool is_one_piece(const handles *h, size_t *offset) {
  if (H5Pget_layout(h->properties) != H5D_CONTIGUOUS || H5Pget_external_count(h->properties) != 0)
    return false;
  haddr_t at = H5Dget_offset(h->dataset);
  *offset = (size_t)at;
  return at != HADDR_UNDEF;
}

/* Has libhdf5 read the elements as they are in the file: where an allocation of it fails while it
 * compares types to convert them, it may take two for the same. */
static mmc_status read_elements(const handles *h, mmci_file_array *array, mmci_error *error) {
  mmc_status status = mmci_file_array_allocate(array, H5Dget_storage_size(h->dataset), error);
  if (status != MMC_OK || array->copy == NULL) return status;
  if (H5Dread(h->dataset, h->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, array->copy) < 0)
    return mmci_source_refuse(&array->source, "libhdf5 cannot read the dataset", error);
  mmci_file_array_turn(array);
  return MMC_OK;
}

static mmc_status read_dataset(const mmci_file_name *name, mmci_file_array *array,
                               mmci_error *error) {
  handles h = {0};
  size_t offset;
  mmc_status status = open_hdf5_file(name->path, &array->source, &h.file, error);
  if (status == MMC_OK) status = describe(&h, name->member, array, error);
  if (status == MMC_OK && is_one_piece(&h, &offset)) {
    close_handles(&h);
    return mmci_file_array_place(array, offset, error);
  }
  if (status == MMC_OK) status = read_elements(&h, array, error);
  close_handles(&h);
  mmci_source_release(&array->source);
  return status;
}

static mmc_status open_dataset(const mmci_file_name *name, mmci_file_array **out,
                               mmci_error *error) {
  mmci_file_array *array;
  mmci_hdf5_silence said;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = mmci_source_open(name->path, &array->source, error);
  mmci_hdf5_silence_begin(&said);
  if (status == MMC_OK) status = read_dataset(name, array, error);
  mmci_hdf5_silence_end(&said);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

/* ---- the datasets of a file ---------------------------------------------------------------- */

typedef struct listing {
  mmci_member_fn tell;
  void *user;
  bool misses; /* what a link leads to could not be read */
} listing;

static herr_t visit(hid_t file, const char *name, const H5L_info_t *link, void *user) {
  listing *l = user;
  bool is_dataset = false;
  if (link->type != H5L_TYPE_HARD) return 0;
  if (!find_dataset(file, name, &is_dataset)) l->misses = true;
  return !is_dataset || l->tell(l->user, name) ? 0 : 1;
}

static mmc_status list(const char *path, mmci_member_fn tell, void *user, mmci_error *error) {
  mmci_source s;
  hid_t file;
  mmci_hdf5_silence said;
  listing l = {tell, user, false};
  mmc_status status = mmci_source_open(path, &s, error);
  mmci_hdf5_silence_begin(&said);
  if (status == MMC_OK) status = open_hdf5_file(path, &s, &file, error);
  if (status == MMC_OK) {
    if (H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, &l) < 0 || l.misses)
      status = mmci_source_refuse(&s, "a damaged HDF5 file", error);
    H5Fclose(file);
  }
  mmci_hdf5_silence_end(&said);
  mmci_source_release(&s);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

enum { DESCRIPTION_MOST = 1 << 16 }; /* bytes of a file besides the elements, at most */

/* Makes the file without its elements, for which it leaves room; *offset is where, 0 when there are
 * none. Returns false when libhdf5 fails, as it does when the name is none that it can have. */
static bool make_skeleton(const char *path, const mmci_file_rows *rows, const char *member,
                          size_t *offset) {
  hsize_t dims[MMCI_NDIM_MAX];
  for (int d = 0; d < rows->ndim; d++) dims[d] = (hsize_t)rows->shape[d];
  /* This driver does not look for where the name of a file in memory leads. */
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  hid_t file =
      H5Pset_fapl_stdio(access) >= 0 ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : -1;
  hid_t space = rows->ndim > 0 ? H5Screate_simple(rows->ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t type = type_of(rows->dtype, host_order());
  hid_t links = H5Pcreate(H5P_LINK_CREATE), properties = H5Pcreate(H5P_DATASET_CREATE);
  /* Without times the same matrix gives the same bytes. */
  bool set = H5Pset_create_intermediate_group(links, 1) >= 0 &&
             H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY) >= 0 &&
             H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER) >= 0 &&
             H5Pset_obj_track_times(properties, false) >= 0;
  hid_t dataset = set ? H5Dcreate2(file, member, type, space, links, properties, H5P_DEFAULT) : -1;
  haddr_t at = dataset >= 0 ? H5Dget_offset(dataset) : HADDR_UNDEF;
  *offset = at != HADDR_UNDEF ? (size_t)at : 0;
  bool made = dataset >= 0 && (*offset > 0 || mmci_file_rows_bytes(rows) == 0);
  /* A handle that was not made is -1, which these refuse; a dataset that does not close may lack
   * what was to be written of it. */
  made = H5Dclose(dataset) >= 0 && made;
  H5Pclose(properties);
  H5Pclose(links);
  H5Pclose(access);
  H5Tclose(type);
  H5Sclose(space);
  return H5Fclose(file) >= 0 && made;
}

/* Sends bytes from..to of the skeleton. */
static mmc_status send_part(int descriptor, off_t from, off_t to, mmc_write_fn write, void *user,
                            mmci_error *error) {
  char bytes[1 << 12];
  for (off_t at = from; at < to;) {
    size_t wanted = (size_t)(to - at) < sizeof bytes ? (size_t)(to - at) : sizeof bytes;
    ssize_t got = pread(descriptor, bytes, wanted, at);
    if (got <= 0) return mmci_fail(error, MMC_E_NOMEM, "a temporary file cannot be read");
    if (write(user, bytes, (size_t)got) != 0) return MMC_E_IO;
    at += got;
  }
  return MMC_OK;
}

/* Sends the skeleton with the elements in their place. */
static mmc_status send_file(int descriptor, const char *path, const mmci_file_rows *rows,
                            const char *member, mmc_write_fn write, void *user, mmci_error *error) {
  size_t offset;
  mmci_hdf5_silence said;
  mmci_hdf5_silence_begin(&said);
  bool made = make_skeleton(path, rows, member, &offset);
  mmci_hdf5_silence_end(&said);
  if (!made)
    return mmci_fail(error, MMC_E_ARG,
                     "'%.60s': libhdf5 makes no dataset of that name and at most %d dimensions",
                     member, H5S_MAX_RANK);
  off_t end = lseek(descriptor, 0, SEEK_END);
  uint64_t size = mmci_file_rows_bytes(rows);
  mmc_status status = send_part(descriptor, 0, (off_t)offset, write, user, error);
  if (status == MMC_OK && size > 0) status = mmci_file_rows_send(rows, write, user, error);
  if (status != MMC_OK) return status;
  return send_part(descriptor, (off_t)offset + (off_t)size, end, write, user, error);
}

static mmc_status write_file(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                             void *user, mmci_error *error) {
  if (rows->dtype == MMC_BF16 || rows->dtype == MMC_BOOL)
    return mmci_fail(error, MMC_E_ARG, "hdf5 has no %s: every other dtype but %s can be written",
                     mmc_dtype_name(rows->dtype), rows->dtype == MMC_BOOL ? "bf16" : "bool");
  /* The room for the elements is a hole, which takes no space. */
  char path[MMCI_MEMORY_FILE_PATH_SIZE];
  const uint64_t size = mmci_file_rows_bytes(rows) + DESCRIPTION_MOST;
  const int descriptor = mmci_memory_file_create(size, path, error);
  if (descriptor < 0) return MMC_E_NOMEM;
  mmc_status status = send_file(descriptor, path, rows, member, write, user, error);
  close(descriptor);
  return status;
}

const mmci_format mmci_format_hdf5 = {.abi = MMCI_FORMAT_ABI,
                                      .size = sizeof(mmci_format),
                                      .open = open_dataset,
                                      .list = list,
                                      .write = write_file};

MMC_API const mmci_format *mmci_module_entry(void);

const mmci_format *mmci_module_entry(void) {
  return &mmci_format_hdf5;
}
