/* fuzz_hdf5.c: files that libhdf5 makes as the bytes say, of types, dimensions, layouts and sizes
 * that matrices have and others. Damaged files are not tried: what libhdf5 makes of them is its own
 * affair, and SECURITY.md says so. */
#include <hdf5.h>

#include "fuzz_format.h"

extern const mmci_format mmci_format_hdf5;

/* A type of elements; the caller closes it. */
static hid_t take_type(fuzz_input *input) {
  const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F64LE, H5T_STD_I32LE,
                         H5T_STD_U8BE,   H5T_C_S1,       H5T_IEEE_F32BE};
  uint8_t which = fuzz_byte(input);
  hid_t type = H5Tcopy(types[which % 7]);
  if (which < 128) return type;
  size_t size = H5Tget_size(type), gap = fuzz_byte(input) % 3;
  hid_t pair = H5Tcreate(H5T_COMPOUND, 2 * size + gap);
  H5Tinsert(pair, "b", which % 2 ? size + gap : 0, type);
  H5Tinsert(pair, "a", which % 2 ? 0 : size + gap, type);
  H5Tclose(type);
  return pair;
}

static hid_t take_layout(fuzz_input *input, int ndim) {
  hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk[4];
  uint8_t which = fuzz_byte(input);
  for (int d = 0; d < 4; d++) chunk[d] = 1 + fuzz_byte(input) % 5;
  if (which % 4 == 1) H5Pset_layout(properties, H5D_COMPACT);
  if (which % 4 >= 2 && ndim > 0) H5Pset_chunk(properties, ndim, chunk);
  if (which % 8 == 7 && ndim > 0) H5Pset_deflate(properties, 6);
  return properties;
}

static void make_dataset(hid_t file, const char *name, fuzz_input *input) {
  static unsigned char elements[1 << 16];
  hsize_t dims[4];
  int ndim = fuzz_byte(input) % 5;
  for (int d = 0; d < ndim; d++) {
    uint8_t which = fuzz_byte(input);
    dims[d] = which < 250 ? which % 7 : (hsize_t)fuzz_number(input);
  }
  hid_t space = ndim > 0 ? H5Screate_simple(ndim, dims, NULL) : H5Screate(H5S_SCALAR);
  hid_t type = take_type(input), properties = take_layout(input, ndim);
  bool small = (uint64_t)H5Sget_simple_extent_npoints(space) <= sizeof elements / H5Tget_size(type);
  if (small && fuzz_byte(input) % 2) H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
  hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (dataset >= 0 && small && fuzz_byte(input) % 4 > 0)
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements);
  if (dataset >= 0) H5Dclose(dataset);
  H5Pclose(properties);
  H5Tclose(type);
  if (space >= 0) H5Sclose(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  fuzz_input input = {bytes, size};
  char path[] = "/dev/shm/mmchain-fuzz-XXXXXX";
  int descriptor = mkstemp(path);
  MUST(descriptor >= 0);
  close(descriptor);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t properties = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_userblock(properties, fuzz_byte(&input) % 2 ? 512 : 0);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, properties, H5P_DEFAULT);
  MUST(file >= 0);
  make_dataset(file, "first", &input);
  make_dataset(file, "second", &input);
  H5Fclose(file);
  H5Pclose(properties);
  fuzz_format(&mmci_format_hdf5, path);
  unlink(path);
  return 0;
}
