#include "io/npy.h"

#include <string.h>

#include "io/npy_header.h"

/* Puts the name of the file before a message about the header. */
static mmc_status with_name(const mmci_source *s, const mmci_error *inner, mmci_error *error) {
  return mmci_fail(error, inner->status, "%s: %s", s->shown, inner->text);
}

mmc_status mmci_npy_read(mmci_file_array *array, mmci_error *error) {
  mmci_source *s = &array->source;
  mmci_error inner;
  mmc_status status = mmci_source_fetch(s, MMCI_NPY_PRELUDE_MAX, error);
  if (status != MMC_OK) return status;

  size_t prelude_size, dictionary_size;
  if (mmci_npy_prelude_parse(s->bytes, s->have, &prelude_size, &dictionary_size, &inner) != MMC_OK)
    return with_name(s, &inner, error);
  size_t offset = prelude_size + dictionary_size;
  status = mmci_source_fetch(s, offset, error);
  if (status != MMC_OK) return status;
  if (s->have < offset)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: truncated: %zu bytes are there, the .npy header alone needs %zu",
                     s->shown, s->have, offset);
  mmci_npy_header header;
  if (mmci_npy_dictionary_parse((const char *)s->bytes + prelude_size, dictionary_size, &header,
                                &inner) != MMC_OK)
    return with_name(s, &inner, error);

  array->dtype = header.type->dtype;
  array->foreign = header.foreign;
  array->fortran_order = header.fortran_order;
  array->ndim = header.ndim;
  memcpy(array->shape, header.shape, sizeof array->shape);
  return mmci_file_array_place(array, offset, error);
}

mmc_status mmci_npy_open(const char *path, mmci_file_array **out, mmci_error *error) {
  mmci_file_array *array;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = mmci_source_open(path, &array->source, error);
  if (status == MMC_OK) status = mmci_npy_read(array, error);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

size_t mmci_npy_header_of(const mmci_file_rows *rows, char *header) {
  return mmci_npy_header_format(mmci_npy_type_of(rows->dtype), rows->ndim, rows->shape, header);
}

mmc_status mmci_npy_write(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                          void *user, mmci_error *error) {
  (void)member;
  if (mmci_npy_type_of(rows->dtype) == NULL)
    return mmci_fail(error, MMC_E_ARG, "npy has no bf16: every other dtype can be written");
  char header[MMCI_NPY_HEADER_SIZE];
  if (write(user, header, mmci_npy_header_of(rows, header)) != 0) return MMC_E_IO;
  return mmci_file_rows_send(rows, write, user, error);
}

static mmc_status open_file(const mmci_file_name *name, mmci_file_array **out, mmci_error *error) {
  return mmci_npy_open(name->path, out, error);
}

const mmci_format mmci_format_npy = {.open = open_file, .write = mmci_npy_write};
