/* safetensors.c: .safetensors files: the length of a header (8 bytes, little-endian), the header in
 * JSON, read by Jansson, and the elements of all tensors.
 * (github.com/huggingface/safetensors, README.md, "Format") */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "io/format.h"

/* Bytes of a header at most, as the format's own reader has it. */
enum { LENGTH_SIZE = 8, HEADER_MAX = 100000000 };

static const struct {
  const char *name;
  mmc_dtype dtype;
} dtypes[] = {{"F16", MMC_F16}, {"BF16", MMC_BF16}, {"F32", MMC_F32}, {"F64", MMC_F64},
              {"C64", MMC_C64}, {"I8", MMC_I8},     {"I16", MMC_I16}, {"I32", MMC_I32},
              {"I64", MMC_I64}, {"U8", MMC_U8},     {"U16", MMC_U16}, {"U32", MMC_U32},
              {"U64", MMC_U64}, {"BOOL", MMC_BOOL}};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* The key of the header that is no tensor's. */
static const char reserved[] = "__metadata__";

static const bool host_is_foreign = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

/* ---- reading ------------------------------------------------------------------------------- */

static mmc_status damaged(const mmci_source *s, const char *what, mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT, "%s: no .safetensors file: %s", s->shown, what);
}

/* Reads the header, an object that is to be released, and says where the elements begin. */
static mmc_status read_header(mmci_source *s, json_t **out, size_t *begin, mmci_error *error) {
  mmc_status status = mmci_source_fetch(s, LENGTH_SIZE, error);
  if (status != MMC_OK) return status;
  if (s->have < LENGTH_SIZE) return damaged(s, "8 bytes say how long its header is", error);
  uint64_t length = 0;
  for (int b = LENGTH_SIZE - 1; b >= 0; b--) length = length << 8 | s->bytes[b];
  if (length > HEADER_MAX || (s->mapping != NULL && length > s->have - LENGTH_SIZE))
    return damaged(s, "its header is longer than it", error);
  status = mmci_source_fetch(s, LENGTH_SIZE + length, error);
  if (status != MMC_OK) return status;
  if (s->have < LENGTH_SIZE + length) return damaged(s, "its header is cut off", error);
  json_error_t reason = {.text = ""};
  json_t *header =
      json_loadb((const char *)s->bytes + LENGTH_SIZE, length, JSON_REJECT_DUPLICATES, &reason);
  /* Of a text that is wrong Jansson says why, of memory that is short mostly nothing. */
  bool is_short = reason.text[0] == '\0' || json_error_code(&reason) == json_error_out_of_memory;
  if (header == NULL && is_short) return mmci_fail_nomem(error, length);
  if (header == NULL || !json_is_object(header)) {
    json_decref(header);
    return damaged(s, "its header is no JSON object", error);
  }
  *out = header;
  *begin = LENGTH_SIZE + length;
  return MMC_OK;
}

static mmc_status read_dtype(mmci_file_array *array, const json_t *tensor, mmci_error *error) {
  const char *name = json_string_value(json_object_get(tensor, "dtype"));
  for (int d = 0; name != NULL && d < DTYPES; d++)
    if (strcmp(dtypes[d].name, name) == 0) {
      array->dtype = dtypes[d].dtype;
      return MMC_OK;
    }
  char shown[MMCI_PATH_TEXT_SIZE];
  return mmci_fail(error, MMC_E_FORMAT,
                   "%s: dtype '%.20s': F16, BF16, F32, F64, C64, I8 to I64, U8 to U64, BOOL "
                   "work",
                   array->source.shown, mmci_path_text(name != NULL ? name : "", shown));
}

static mmc_status read_shape(mmci_file_array *array, const json_t *tensor, mmci_error *error) {
  const int64_t most = INT64_C(1) << 62;
  const json_t *shape = json_object_get(tensor, "shape");
  size_t ndim = json_array_size(shape);
  if (!json_is_array(shape)) return damaged(&array->source, "a tensor has no shape", error);
  if (ndim < 1 || ndim > MMCI_NDIM_MAX)
    return mmci_fail(error, MMC_E_FORMAT, "%s: a tensor of %zu dimensions: 1 to %d dimensions work",
                     array->source.shown, ndim, MMCI_NDIM_MAX);
  array->ndim = (int)ndim;
  for (size_t d = 0; d < ndim; d++) {
    const json_t *size = json_array_get(shape, d);
    array->shape[d] = json_integer_value(size);
    if (!json_is_integer(size) || array->shape[d] < 0 || array->shape[d] > most)
      return damaged(&array->source, "a dimension is no number of 0 to 2^62", error);
  }
  return MMC_OK;
}

/* Checks that the elements lie in the file and are as many bytes as the shape says. */
static mmc_status place(mmci_file_array *array, const json_t *tensor, size_t begin,
                        mmci_error *error) {
  const json_t *offsets = json_object_get(tensor, "data_offsets");
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  size_t size;
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return damaged(&array->source, "a tensor has no data_offsets", error);
  int64_t from = json_integer_value(first), to = json_integer_value(last);
  mmc_status status = mmci_file_array_measure(array, &size, error);
  if (status != MMC_OK) return status;
  if (from < 0 || to < from || (uint64_t)(to - from) != size ||
      (uint64_t)from > PTRDIFF_MAX - (uint64_t)begin)
    return damaged(&array->source, "data_offsets do not fit the shape of a tensor", error);
  return mmci_file_array_place(array, begin + (size_t)from, error);
}

static mmc_status read_tensor(mmci_file_array *array, const char *member, mmci_error *error) {
  json_t *header;
  size_t begin;
  mmc_status status = read_header(&array->source, &header, &begin, error);
  if (status != MMC_OK) return status;
  const json_t *tensor = json_object_get(header, member);
  array->foreign = host_is_foreign;
  if (tensor == NULL || strcmp(member, reserved) == 0) status = MMC_E_ARG;
  if (status == MMC_OK) status = read_dtype(array, tensor, error);
  if (status == MMC_OK) status = read_shape(array, tensor, error);
  if (status == MMC_OK) status = place(array, tensor, begin, error);
  json_decref(header);
  return status;
}

static mmc_status open_tensor(const mmci_file_name *name, mmci_file_array **out,
                              mmci_error *error) {
  mmci_file_array *array;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = mmci_source_open(name->path, &array->source, error);
  if (status == MMC_OK) status = read_tensor(array, name->member, error);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

static mmc_status list(const char *path, mmci_member_fn tell, void *user, mmci_error *error) {
  mmci_source s;
  json_t *header;
  size_t begin;
  mmc_status status = mmci_source_open(path, &s, error);
  if (status == MMC_OK) status = read_header(&s, &header, &begin, error);
  mmci_source_release(&s);
  if (status != MMC_OK) return status;
  const char *name;
  json_t *tensor;
  json_object_foreach(header, name, tensor) {
    if (strcmp(name, reserved) != 0 && !tell(user, name)) break;
  }
  json_decref(header);
  return MMC_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Says whether text is UTF-8 (RFC 3629, section 4). */
static bool is_utf8(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  while (*at != 0) {
    int more = *at < 0x80   ? 0
               : *at < 0xC2 ? -1
               : *at < 0xE0 ? 1
               : *at < 0xF0 ? 2
               : *at < 0xF5 ? 3
                            : -1;
    if (more < 0) return false;
    uint32_t code = more == 0 ? *at : *at & (0x3Fu >> more);
    for (int m = 1; m <= more; m++) {
      if ((at[m] & 0xC0) != 0x80) return false;
      code = code << 6 | (at[m] & 0x3F);
    }
    bool is_long = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (is_long || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    at += more + 1;
  }
  return true;
}

static void write_header(mmci_text *text, const mmci_file_rows *rows, const char *member,
                         const char *dtype) {
  mmci_text_bytes(text, "{", 1);
  mmci_text_json_string(text, member);
  mmci_text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
  for (int d = 0; d < rows->ndim; d++)
    mmci_text_printf(text, "%s%" PRId64, d > 0 ? "," : "", rows->shape[d]);
  mmci_text_printf(text, "],\"data_offsets\":[0,%" PRIu64 "]}}", mmci_file_rows_bytes(rows));
}

static int add_size(void *user, const char *bytes, size_t size) {
  (void)bytes;
  *(uint64_t *)user += size;
  return 0;
}

static mmc_status write_file(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                             void *user, mmci_error *error) {
  enum { ALIGNMENT = 64 };
  static const char spaces[ALIGNMENT + 1] =
      "                                                                ";
  const char *dtype = NULL;
  for (int d = 0; d < DTYPES; d++)
    if (dtypes[d].dtype == rows->dtype) dtype = dtypes[d].name;
  if (dtype == NULL)
    return mmci_fail(error, MMC_E_ARG, "safetensors has no %s: every other dtype can be written",
                     mmc_dtype_name(rows->dtype));
  if (host_is_foreign)
    return mmci_fail(error, MMC_E_ARG, "safetensors are little-endian and this machine is not");
  if (!is_utf8(member)) return mmci_fail(error, MMC_E_ARG, "the name of a tensor: expected UTF-8");
  if (strcmp(member, reserved) == 0)
    return mmci_fail(error, MMC_E_ARG, "the name of a tensor: expected another than %s", reserved);
  mmci_text text;
  uint64_t length = 0;
  mmci_text_start(&text, add_size, &length);
  write_header(&text, rows, member, dtype);
  if (mmci_text_finish(&text, NULL) != MMC_OK) return MMC_E_IO;
  /* Spaces behind the header align the elements. */
  uint64_t padding = (ALIGNMENT - (LENGTH_SIZE + length) % ALIGNMENT) % ALIGNMENT;
  char size[LENGTH_SIZE];
  for (int b = 0; b < LENGTH_SIZE; b++) size[b] = (char)((length + padding) >> (8 * b));
  mmci_text_start(&text, write, user);
  mmci_text_bytes(&text, size, sizeof size);
  write_header(&text, rows, member, dtype);
  mmci_text_bytes(&text, spaces, padding);
  if (mmci_text_finish(&text, NULL) != MMC_OK) return MMC_E_IO;
  return mmci_file_rows_send(rows, write, user, error);
}

const mmci_format mmci_format_safetensors = {
    .open = open_tensor, .list = list, .write = write_file};
