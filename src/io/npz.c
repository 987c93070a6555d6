/* npz.c: .npz files: zip archives whose members are .npy files, stored or deflated.
 *
 * The directory at the end of the archive is read here, so that stored members can be mapped where
 * they lie; zlib inflates the others and has the checksum. (PKWARE's APPNOTE.TXT 6.3.10; sections
 * are named below.) Members that were stored and mapped are not checksummed, as .npy files are not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "io/npy.h"
#include "io/npy_header.h"

enum {
  LOCAL_SIZE = 30,   /* bytes of a local header (4.3.7), without name and extra field */
  CENTRAL_SIZE = 46, /* bytes of an entry of the directory (4.3.12), without name and extra field */
  END_SIZE = 22,     /* bytes of the end of the directory (4.3.16), without comment */
  LOCATOR_SIZE = 20, /* bytes of the locator of the ZIP64 end (4.3.15) */
  END_64_SIZE = 56,  /* bytes of the ZIP64 end (4.3.14) */
  COMMENT_MAX = 65535,
  STORED = 0,
  DEFLATED = 8,
  ENCRYPTED = 1,      /* a flag of a member */
  NAME_MAX_SIZE = 512 /* bytes that hold the name of any member that is written */
};
static const uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50,
                      locator_mark = 0x07064b50, end_64_mark = 0x06064b50;
static const uint32_t elsewhere = UINT32_MAX; /* a number that the ZIP64 extra field has */
static const char suffix[] = ".npy";

/* ---- numbers ------------------------------------------------------------------------------- */

static uint64_t number_at(const unsigned char *bytes, int size) {
  uint64_t number = 0;
  for (int b = size - 1; b >= 0; b--) number = number << 8 | bytes[b];
  return number;
}

static uint32_t number16(const unsigned char *bytes) {
  return (uint32_t)number_at(bytes, 2);
}

static uint32_t number32(const unsigned char *bytes) {
  return (uint32_t)number_at(bytes, 4);
}

/* ---- the directory ------------------------------------------------------------------------- */

/* A member as the directory tells it. */
typedef struct entry {
  const char *name; /* the name, without a final NUL */
  size_t name_length;
  uint32_t flags, method, checksum;
  uint64_t stored_bytes, size_bytes, offset;
} entry;

static mmc_status damaged(const mmci_source *s, const char *what, mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT, "%s: a damaged zip archive: %s", s->shown, what);
}

/* The directory: entries between at and end. */
typedef struct directory {
  const unsigned char *at, *end;
} directory;

/* Finds the directory by the record at the end, behind which a comment may stand. */
static mmc_status find_directory(const mmci_source *s, directory *out, mmci_error *error) {
  if (s->have < END_SIZE || number32(s->bytes) != local_mark) {
    if (s->have < END_SIZE || number32(s->bytes) != end_mark)
      return mmci_fail(error, MMC_E_FORMAT, "%s: not an .npz file: these begin with PK", s->shown);
  }
  size_t most = s->have - END_SIZE, back = 0;
  while (back <= most && back <= COMMENT_MAX && number32(s->bytes + most - back) != end_mark)
    back++;
  if (back > most || back > COMMENT_MAX) return damaged(s, "it has no directory at its end", error);
  const unsigned char *record = s->bytes + most - back;
  uint64_t size = number32(record + 12), offset = number32(record + 16);
  size_t before = (size_t)(record - s->bytes);
  if (before >= LOCATOR_SIZE && number32(record - LOCATOR_SIZE) == locator_mark) {
    uint64_t at = number_at(record - LOCATOR_SIZE + 8, 8);
    if (s->have < END_64_SIZE || at > s->have - END_64_SIZE ||
        number32(s->bytes + at) != end_64_mark)
      return damaged(s, "the end of its directory lies outside", error);
    size = number_at(s->bytes + at + 40, 8);
    offset = number_at(s->bytes + at + 48, 8);
  }
  if (offset > s->have || size > s->have - offset)
    return damaged(s, "its directory lies outside", error);
  *out = (directory){s->bytes + offset, s->bytes + offset + size};
  return MMC_OK;
}

/* Takes from the ZIP64 extra field (4.5.3) what had no room: the three in this order. */
static bool read_extra(const unsigned char *at, const unsigned char *end, entry *e) {
  uint64_t *const numbers[] = {&e->size_bytes, &e->stored_bytes, &e->offset};
  while (end - at >= 4) {
    size_t id = number16(at), size = number16(at + 2);
    at += 4;
    if (size > (size_t)(end - at)) return false;
    const unsigned char *field = at, *field_end = at + size;
    at = field_end;
    if (id != 1) continue;
    for (int n = 0; n < 3; n++) {
      if (*numbers[n] != elsewhere) continue;
      if (field_end - field < 8) return false;
      *numbers[n] = number_at(field, 8);
      field += 8;
    }
  }
  return true;
}

/* Reads the next entry; *more is false at the end. */
static mmc_status next_entry(const mmci_source *s, directory *d, entry *out, bool *more,
                             mmci_error *error) {
  *more = d->at != d->end;
  if (!*more) return MMC_OK;
  const unsigned char *at = d->at;
  if (d->end - at < CENTRAL_SIZE || number32(at) != central_mark)
    return damaged(s, "an entry of its directory is cut off", error);
  size_t name = number16(at + 28), extra = number16(at + 30), comment = number16(at + 32);
  if (name + extra + comment > (size_t)(d->end - at) - CENTRAL_SIZE)
    return damaged(s, "an entry of its directory is cut off", error);
  *out = (entry){.name = (const char *)at + CENTRAL_SIZE,
                 .name_length = name,
                 .flags = number16(at + 8),
                 .method = number16(at + 10),
                 .checksum = number32(at + 16),
                 .stored_bytes = number32(at + 20),
                 .size_bytes = number32(at + 24),
                 .offset = number32(at + 42)};
  const unsigned char *fields = at + CENTRAL_SIZE + name;
  if (!read_extra(fields, fields + extra, out))
    return damaged(s, "an entry of its directory is cut off", error);
  d->at = fields + extra + comment;
  return MMC_OK;
}

static mmc_status open_archive(const char *path, mmci_source *s, directory *d, mmci_error *error) {
  mmc_status status = mmci_source_open(path, s, error);
  if (status == MMC_OK) status = mmci_source_fetch(s, PTRDIFF_MAX, error);
  if (status == MMC_OK) status = find_directory(s, d, error);
  return status;
}

/* Returns the length of an entry's name without .npy; 0 when it does not end so. */
static size_t stem_length(const entry *e) {
  size_t length = sizeof suffix - 1;
  bool ends =
      e->name_length > length && memcmp(e->name + e->name_length - length, suffix, length) == 0;
  return ends ? e->name_length - length : 0;
}

static mmc_status list(const char *path, mmci_member_fn tell, void *user, mmci_error *error) {
  mmci_source s;
  directory d;
  mmc_status status = open_archive(path, &s, &d, error);
  entry e;
  for (bool more = true; status == MMC_OK;) {
    status = next_entry(&s, &d, &e, &more, error);
    if (status != MMC_OK || !more) break;
    char *name = stem_length(&e) > 0 ? strndup(e.name, stem_length(&e)) : NULL;
    if (stem_length(&e) > 0 && name == NULL) status = mmci_fail_nomem(error, e.name_length);
    bool on = name == NULL || tell(user, name);
    free(name);
    if (!on) break;
  }
  mmci_source_release(&s);
  return status;
}

/* Finds a member, by its name with or without .npy. Of several of one name the last is meant, as
 * Python's zipfile has it. Returns also: E_ARG, without a message. */
static mmc_status find(const mmci_source *s, directory d, const char *member, entry *out,
                       mmci_error *error) {
  mmc_status found = MMC_E_ARG;
  size_t length = strlen(member);
  for (;;) {
    entry e;
    bool more;
    mmc_status status = next_entry(s, &d, &e, &more, error);
    if (status != MMC_OK) return status;
    if (!more) return found;
    if (memcmp(e.name, member, length < e.name_length ? length : e.name_length) != 0 ||
        (e.name_length != length && stem_length(&e) != length))
      continue;
    *out = e;
    found = MMC_OK;
  }
}

/* ---- members ------------------------------------------------------------------------------- */

/* Bytes of a deflated member, and the archive that they come from. */
typedef struct inflater {
  z_stream stream;
  mmci_source archive;
  uint64_t left; /* bytes of the member that the stream has not been given yet */
  uint64_t size_bytes, made;
  uint32_t checksum, expected;
} inflater;

static ptrdiff_t more_of_member(mmci_origin origin, unsigned char *bytes, size_t size,
                                mmci_error *error) {
  inflater *x = origin.state;
  const uint64_t most = 1 << 30;
  x->stream.next_out = bytes;
  x->stream.avail_out = (uInt)(size < most ? size : most);
  int code = Z_OK;
  while (x->stream.next_out == bytes && code == Z_OK) {
    if (x->stream.avail_in == 0) {
      x->stream.avail_in = (uInt)(x->left < most ? x->left : most);
      x->left -= x->stream.avail_in;
    }
    code = inflate(&x->stream, Z_NO_FLUSH);
  }
  ptrdiff_t got = x->stream.next_out - bytes;
  x->checksum = (uint32_t)crc32_z(x->checksum, bytes, (size_t)got);
  x->made += (uint64_t)got;
  bool ended = code == Z_STREAM_END;
  if (code == Z_MEM_ERROR) {
    mmci_fail_nomem(error, size);
    return -1;
  }
  if ((code != Z_OK && !ended && code != Z_BUF_ERROR) || x->made > x->size_bytes ||
      (ended && (x->made != x->size_bytes || x->checksum != x->expected)) || (got == 0 && !ended)) {
    mmci_fail(error, MMC_E_FORMAT,
              "a damaged zip archive: a member does not inflate to what it was");
    return -1;
  }
  return got;
}

static void close_member(mmci_origin origin) {
  inflater *x = origin.state;
  inflateEnd(&x->stream);
  mmci_source_release(&x->archive);
  free(x);
}

/* Makes the source, an archive, one of a member's inflated bytes. */
static mmc_status inflate_member(mmci_source *s, const entry *e, uint64_t begin,
                                 mmci_error *error) {
  inflater *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->left = e->stored_bytes;
  x->size_bytes = e->size_bytes;
  x->expected = e->checksum;
  x->stream.next_in = s->bytes + begin;
  /* The bytes have no header: -15 is the largest window, negative for that. */
  if (inflateInit2(&x->stream, -MAX_WBITS) != Z_OK) {
    free(x);
    return mmci_fail_nomem(error, sizeof *x);
  }
  x->archive = *s;
  s->bytes = NULL;
  s->mapping = NULL;
  s->have = s->capacity = 0;
  s->more = more_of_member;
  s->more_close = close_member;
  s->origin.state = x;
  return MMC_OK;
}

/* Makes the source, an archive, one of the member alone. */
static mmc_status go_to_member(mmci_source *s, const entry *e, mmci_error *error) {
  if (e->flags & ENCRYPTED)
    return mmci_fail(error, MMC_E_FORMAT, "%s: an encrypted member", s->shown);
  if (e->method != STORED && e->method != DEFLATED)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%s: a member of compression method %" PRIu32
                     ": 0 (stored) and 8 (deflated) "
                     "work",
                     s->shown, e->method);
  if (s->have < LOCAL_SIZE || e->offset > s->have - LOCAL_SIZE ||
      number32(s->bytes + e->offset) != local_mark)
    return damaged(s, "a member lies outside", error);
  const unsigned char *local = s->bytes + e->offset;
  uint64_t begin = e->offset + LOCAL_SIZE + number16(local + 26) + number16(local + 28);
  if (begin > s->have || e->stored_bytes > s->have - begin)
    return damaged(s, "a member lies outside", error);
  if (e->method == DEFLATED) return inflate_member(s, e, begin, error);
  if (s->mapping == NULL) { /* what was read belongs to realloc() at its start */
    memmove(s->bytes, s->bytes + begin, e->stored_bytes);
  } else {
    s->bytes += begin;
  }
  s->have = e->stored_bytes;
  return MMC_OK;
}

static mmc_status open_member(const mmci_file_name *name, mmci_file_array **out,
                              mmci_error *error) {
  mmci_file_array *array;
  directory d;
  entry e;
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = open_archive(name->path, &array->source, &d, error);
  if (status == MMC_OK) status = find(&array->source, d, name->member, &e, error);
  if (status == MMC_OK) status = go_to_member(&array->source, &e, error);
  if (status == MMC_OK) status = mmci_npy_read(array, error);
  if (status != MMC_OK) {
    mmci_file_array_destroy(array);
    return status;
  }
  *out = array;
  return MMC_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* A header while it is put together. */
typedef struct record {
  unsigned char bytes[LOCAL_SIZE + END_64_SIZE + LOCATOR_SIZE + CENTRAL_SIZE + END_SIZE +
                      NAME_MAX_SIZE + 128];
  size_t size;
} record;

static void put(record *r, uint64_t number, int size) {
  for (int b = 0; b < size; b++, number >>= 8) r->bytes[r->size++] = (unsigned char)number;
}

static void put_text(record *r, const char *text) {
  memcpy(r->bytes + r->size, text, strlen(text));
  r->size += strlen(text);
}

/* What both headers of a member say: 4.3.7 and 4.3.12, from the version that is needed to the
 * length of the name. Without a date it is as old as can be. */
static void put_facts(record *r, uint64_t size_bytes, uint32_t checksum, const char *name) {
  const uint64_t first_day = 1 << 5 | 1;
  bool large = size_bytes >= elsewhere;
  put(r, large ? 45 : 20, 2);
  put(r, 0x800, 2); /* the name is in UTF-8 */
  put(r, STORED, 2);
  put(r, 0, 2);
  put(r, first_day, 2);
  put(r, checksum, 4);
  put(r, large ? elsewhere : size_bytes, 4);
  put(r, large ? elsewhere : size_bytes, 4);
  put(r, strlen(name), 2);
}

/* The ZIP64 extra field, when there is need for one. */
static void put_extra(record *r, uint64_t size_bytes) {
  if (size_bytes < elsewhere) return;
  put(r, 1, 2);
  put(r, 16, 2);
  put(r, size_bytes, 8);
  put(r, size_bytes, 8);
}

/* The local header, filled up by an extra field of zeros so that the elements behind it are aligned
 * and can be mapped. */
static void put_local(record *r, uint64_t size_bytes, uint32_t checksum, const char *name) {
  enum { ALIGNMENT = 64, EXTRA_HEAD = 4, EXTRA_64 = 20, NO_MEANING = 0x6d6d };
  size_t extra = size_bytes < elsewhere ? 0 : EXTRA_64;
  size_t used = LOCAL_SIZE + strlen(name) + extra + EXTRA_HEAD;
  size_t filling = (ALIGNMENT - used % ALIGNMENT) % ALIGNMENT;
  put(r, local_mark, 4);
  put_facts(r, size_bytes, checksum, name);
  put(r, extra + EXTRA_HEAD + filling, 2);
  put_text(r, name);
  put_extra(r, size_bytes);
  put(r, NO_MEANING, 2);
  put(r, filling, 2);
  memset(r->bytes + r->size, 0, filling);
  r->size += filling;
}

/* An entry of the directory, of a member whose local header is at so many bytes. */
static void put_entry(record *r, uint64_t at, uint64_t size_bytes, uint32_t checksum,
                      const char *name) {
  const bool far = at >= elsewhere;
  put(r, central_mark, 4);
  put(r, 45, 2);
  put_facts(r, size_bytes, checksum, name);
  put(r,
      (size_bytes < elsewhere ? 0 : 20) + (far && size_bytes < elsewhere ? 4 : 0) + (far ? 8 : 0),
      2);
  put(r, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
  put(r, far ? elsewhere : at, 4);
  put_text(r, name);
  if (far) {
    put(r, 1, 2);
    put(r, size_bytes < elsewhere ? 8 : 24, 2);
    if (size_bytes >= elsewhere) {
      put(r, size_bytes, 8);
      put(r, size_bytes, 8);
    }
    put(r, at, 8);
    return;
  }
  put_extra(r, size_bytes);
}

/* The end of a directory of so many entries, which is the record and begins at so many bytes. */
static void put_end(record *r, uint64_t begin, uint64_t count) {
  uint64_t length = r->size, end = begin + length;
  bool large = end >= elsewhere;
  if (large) {
    put(r, end_64_mark, 4);
    put(r, END_64_SIZE - 12, 8);
    put(r, 45, 2);
    put(r, 45, 2);
    put(r, 0, 4 + 4);
    put(r, count, 8);
    put(r, count, 8);
    put(r, length, 8);
    put(r, begin, 8);
    put(r, locator_mark, 4);
    put(r, 0, 4);
    put(r, end, 8);
    put(r, 1, 4);
  }
  put(r, end_mark, 4);
  put(r, 0, 2 + 2);
  put(r, count, 2);
  put(r, count, 2);
  put(r, length, 4);
  put(r, large ? elsewhere : begin, 4);
  put(r, 0, 2);
}

static int add_to_checksum(void *user, const char *bytes, size_t size) {
  uint32_t *checksum = user;
  *checksum = (uint32_t)crc32_z(*checksum, (const unsigned char *)bytes, size);
  return 0;
}

static mmc_status write_archive(const mmci_file_rows *rows, const char *member, mmc_write_fn write,
                                void *user, mmci_error *error) {
  char name[NAME_MAX_SIZE];
  int length = snprintf(name, sizeof name, "%s%s", member, suffix);
  if (length < 0 || length >= NAME_MAX_SIZE)
    return mmci_fail(error, MMC_E_ARG, "a member's name of %zu bytes: expected at most %d",
                     strlen(member), NAME_MAX_SIZE - (int)sizeof suffix);
  /* The checksum stands before the bytes, so they are gone through twice. */
  uint32_t checksum = 0;
  mmc_status status = mmci_npy_write(rows, NULL, add_to_checksum, &checksum, error);
  if (status != MMC_OK) return status;
  char header[MMCI_NPY_HEADER_SIZE];
  uint64_t size_bytes = mmci_npy_header_of(rows, header) + mmci_file_rows_bytes(rows);
  record r = {.size = 0};
  put_local(&r, size_bytes, checksum, name);
  uint64_t begin = r.size + size_bytes;
  if (write(user, (const char *)r.bytes, r.size) != 0) return MMC_E_IO;
  status = mmci_npy_write(rows, NULL, write, user, error);
  if (status != MMC_OK) return status;
  r.size = 0;
  put_entry(&r, 0, size_bytes, checksum, name);
  put_end(&r, begin, 1);
  return write(user, (const char *)r.bytes, r.size) != 0 ? MMC_E_IO : MMC_OK;
}

/* ---- sparse matrices ------------------------------------------------------------------------- */

/* scipy.sparse.save_npz() writes these members. */
enum { INDICES, INDPTR, FORMAT, SHAPE, DATA, SPARSE_MEMBERS };
static const char *const sparse_members[SPARSE_MEMBERS] = {"indices", "indptr", "format", "shape",
                                                           "data"};

/* Which members were found, as bits, and whether one says where elements lie, in any format. */
typedef struct members {
  unsigned found;
  bool places;
} members;

static bool note_member(void *user, const char *member) {
  static const char *const places[] = {"indices", "indptr", "row", "col", "coords", "offsets"};
  members *all = user;
  for (int m = 0; m < SPARSE_MEMBERS; m++)
    if (strcmp(member, sparse_members[m]) == 0) all->found |= 1U << m;
  for (size_t p = 0; p < sizeof places / sizeof places[0]; p++)
    all->places = all->places || strcmp(member, places[p]) == 0;
  return true;
}

/* All of SciPy's formats have these members, and some that say where elements lie; open_sparse()
 * says which formats work. */
static mmc_status is_sparse(const char *path, mmci_error *error) {
  const unsigned wanted = 1U << FORMAT | 1U << SHAPE | 1U << DATA;
  members all = {0};
  mmc_status status = list(path, note_member, &all, error);
  if (status != MMC_OK || ((all.found & wanted) == wanted && all.places)) return status;
  return MMC_E_ARG;
}

/* Reads the letters of the member format: "csr" of |S3 or <U3. */
static mmc_status read_format(const char *path, char out[8], mmci_error *error) {
  mmci_source s;
  directory d;
  entry e;
  size_t prelude, dictionary, letters = 0;
  mmc_status status = open_archive(path, &s, &d, error);
  if (status == MMC_OK) status = find(&s, d, sparse_members[FORMAT], &e, error);
  if (status == MMC_OK) status = go_to_member(&s, &e, error);
  if (status == MMC_OK) status = mmci_source_fetch(&s, PTRDIFF_MAX, error);
  if (status == MMC_OK)
    status = mmci_npy_prelude_parse(s.bytes, s.have, &prelude, &dictionary, error);
  for (size_t at = status == MMC_OK ? prelude + dictionary : 0;
       status == MMC_OK && at < s.have && letters < 7; at++)
    if (s.bytes[at] != 0) out[letters++] = (char)s.bytes[at];
  out[letters] = '\0';
  mmci_source_release(&s);
  return status;
}

static int64_t whole_at(const mmci_file_array *x, int64_t i) {
  return x->dtype == MMC_I32 ? ((const int32_t *)x->matrix.data)[i]
                             : ((const int64_t *)x->matrix.data)[i];
}

static mmc_status check_sparse(mmci_file_array *const arrays[], const char *path,
                               mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  mmci_path_text(path, shown);
  for (int m = 0; m < SPARSE_MEMBERS; m++) {
    if (m == FORMAT) continue;
    const mmci_file_array *x = arrays[m];
    const bool whole = x->dtype == MMC_I32 || x->dtype == MMC_I64;
    if (x->ndim != 1 || (m != DATA && !whole) || (m == SHAPE && x->shape[0] != 2) ||
        (m == INDPTR && x->shape[0] < 1))
      return mmci_fail(error, MMC_E_FORMAT, "%.180s: no sparse matrix of csr or csc: its %s", shown,
                       sparse_members[m]);
  }
  if (arrays[INDICES]->shape[0] != arrays[DATA]->shape[0])
    return mmci_fail(error, MMC_E_FORMAT, "%.180s: its indices and data are of different lengths",
                     shown);
  if (arrays[DATA]->dtype > MMC_C128)
    return mmci_fail(error, MMC_E_FORMAT,
                     "%.180s: a sparse matrix of %s: f32, f64, c64 and c128 work", shown,
                     mmc_dtype_name(arrays[DATA]->dtype));
  return MMC_OK;
}

/* Makes a matrix of the members' arrays; rows are the lines of what is stored. */
static mmc_status make_sparse(mmci_file_array *const arrays[], const char *path, bool by_columns,
                              mmci_csr *out, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  const int64_t sides[2] = {whole_at(arrays[SHAPE], 0), whole_at(arrays[SHAPE], 1)};
  const int64_t lines = sides[by_columns], length = sides[!by_columns],
                count = arrays[INDICES]->shape[0];
  const size_t size = mmc_dtype_size(arrays[DATA]->dtype);
  mmci_path_text(path, shown);
  if (lines < 0 || length < 0 || lines > MMCI_CSR_SIDE || length > MMCI_CSR_SIDE ||
      arrays[INDPTR]->shape[0] != lines + 1)
    return mmci_fail(error, MMC_E_FORMAT, "%.180s: its indptr does not fit its shape", shown);
  /* A file of a few bytes must not ask for much memory. */
  if (length > 1000000 + 64 * (lines + count))
    return mmci_fail(error, MMC_E_FORMAT, "%.180s: sides out of all proportion to its elements",
                     shown);
  mmci_csr a;
  mmc_status status = mmci_csr_create(arrays[DATA]->dtype, lines, length, count, &a, error);
  if (status != MMC_OK) return status;
  bool fits = true;
  for (int64_t r = 0; r <= lines && fits; r++) {
    a.indptr[r] = whole_at(arrays[INDPTR], r);
    fits = a.indptr[r] >= (r > 0 ? a.indptr[r - 1] : 0) && (r > 0 || a.indptr[0] == 0);
  }
  fits = fits && a.indptr[lines] == count;
  for (int64_t e = 0; e < count && fits; e++) {
    const int64_t col = whole_at(arrays[INDICES], e);
    fits = col >= 0 && col < length;
    a.indices[e] = (int32_t)col;
  }
  if (!fits) {
    mmci_csr_release(&a);
    return mmci_fail(error, MMC_E_FORMAT, "%.180s: its indptr and indices do not fit each other",
                     shown);
  }
  if (count > 0) memcpy(a.values, arrays[DATA]->matrix.data, (size_t)count * size);
  if (by_columns) {
    status = mmci_csr_transpose(&a, false, out, error);
    mmci_csr_release(&a);
    return status;
  }
  *out = a;
  return MMC_OK;
}

static mmc_status open_sparse(const char *path, mmci_csr *out, mmci_error *error) {
  mmci_file_array *arrays[SPARSE_MEMBERS] = {NULL};
  char format[8], shown[MMCI_PATH_TEXT_SIZE], text[MMCI_PATH_TEXT_SIZE];
  mmc_status status = read_format(path, format, error);
  const bool by_columns = status == MMC_OK && strcmp(format, "csc") == 0;
  if (status == MMC_OK && !by_columns && strcmp(format, "csr") != 0)
    status = mmci_fail(error, MMC_E_FORMAT,
                       "%.180s: a sparse matrix in SciPy's format %.60s: csr and csc work",
                       mmci_path_text(path, shown), mmci_path_text(format, text));
  for (int m = 0; m < SPARSE_MEMBERS && status == MMC_OK; m++)
    if (m != FORMAT)
      status = open_member(&(mmci_file_name){.path = path, .member = sparse_members[m]}, &arrays[m],
                           error);
  if (status == MMC_OK) status = check_sparse(arrays, path, error);
  if (status == MMC_OK) status = make_sparse(arrays, path, by_columns, out, error);
  for (int m = 0; m < SPARSE_MEMBERS; m++) mmci_file_array_destroy(arrays[m]);
  return status;
}

/* An array as a member that is written: its header and its bytes. */
typedef struct written {
  char name[16], header[MMCI_NPY_HEADER_SIZE];
  size_t header_size, size;
  const void *bytes;
  uint32_t checksum;
  uint64_t at;
} written;

static void describe(written *w, int member, const mmci_npy_type *type, int64_t length,
                     const void *bytes) {
  const int ndim = member == FORMAT ? 0 : 1;
  snprintf(w->name, sizeof w->name, "%s%s", sparse_members[member], suffix);
  w->header_size = mmci_npy_header_format(type, ndim, &length, w->header);
  w->size = (size_t)length * type->size;
  w->bytes = bytes;
  uint32_t checksum = (uint32_t)crc32_z(0, (const unsigned char *)w->header, w->header_size);
  w->checksum = (uint32_t)crc32_z(checksum, bytes, w->size);
}

static mmc_status write_members(written members[SPARSE_MEMBERS], mmc_write_fn write, void *user) {
  uint64_t at = 0;
  for (int m = 0; m < SPARSE_MEMBERS; m++) {
    written *w = &members[m];
    record r = {.size = 0};
    put_local(&r, w->header_size + w->size, w->checksum, w->name);
    w->at = at;
    at += r.size + w->header_size + w->size;
    if (write(user, (const char *)r.bytes, r.size) != 0 ||
        write(user, w->header, w->header_size) != 0 || write(user, w->bytes, w->size) != 0)
      return MMC_E_IO;
  }
  record r = {.size = 0};
  for (int m = 0; m < SPARSE_MEMBERS; m++)
    put_entry(&r, members[m].at, members[m].header_size + members[m].size, members[m].checksum,
              members[m].name);
  put_end(&r, at, SPARSE_MEMBERS);
  return write(user, (const char *)r.bytes, r.size) != 0 ? MMC_E_IO : MMC_OK;
}

/* Indices are of one type, as SciPy wants them. */
static mmc_status write_sparse(const mmci_csr *a, mmc_write_fn write, void *user,
                               mmci_error *error) {
  static const mmci_npy_type letters = {.code = "S3", .size = 1};
  const int64_t shape[2] = {a->rows, a->cols}, count = mmci_csr_nonzeros(a);
  const bool narrow = count <= INT32_MAX;
  const mmci_npy_type *whole = mmci_npy_type_of(narrow ? MMC_I32 : MMC_I64);
  const size_t others = narrow ? (size_t)a->rows + 1 : (size_t)count;
  void *converted = mmci_alloc_array(others, narrow ? sizeof(int32_t) : sizeof(int64_t));
  written *members = mmci_alloc_zeroed(SPARSE_MEMBERS, sizeof *members);
  if (converted == NULL || members == NULL) {
    free(converted);
    free(members);
    return mmci_fail_nomem(error, others * sizeof(int64_t));
  }
  for (size_t i = 0; i < others; i++) {
    if (narrow)
      ((int32_t *)converted)[i] = (int32_t)a->indptr[i];
    else
      ((int64_t *)converted)[i] = a->indices[i];
  }
  describe(&members[INDICES], INDICES, whole, count, narrow ? a->indices : converted);
  describe(&members[INDPTR], INDPTR, whole, a->rows + 1, narrow ? converted : (void *)a->indptr);
  describe(&members[FORMAT], FORMAT, &letters, 3, "csr");
  describe(&members[SHAPE], SHAPE, mmci_npy_type_of(MMC_I64), 2, shape);
  describe(&members[DATA], DATA, mmci_npy_type_of(a->dtype), count, a->values);
  mmc_status status = write_members(members, write, user);
  free(converted);
  free(members);
  return status;
}

const mmci_format mmci_format_npz = {.open = open_member,
                                     .list = list,
                                     .write = write_archive,
                                     .sparse_is = is_sparse,
                                     .sparse_open = open_sparse,
                                     .sparse_write = write_sparse};
