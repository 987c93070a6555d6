/* formats.c: the table of formats, and what all of them share: the parts of a name, which member is
 * meant, and modules. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/module_dir.h"
#include "io/format.h"
#include "io/output_file.h"

#ifdef MMCI_ZLIB
#define NPZ &mmci_format_npz
#else
#define NPZ NULL
#endif
#ifdef MMCI_JANSSON
#define SAFETENSORS &mmci_format_safetensors
#else
#define SAFETENSORS NULL
#endif

enum { EXTENSIONS = 2, RESERVE_MIB = 16 };

typedef struct row {
  const char *name;
  const char *extensions[EXTENSIONS];
  bool has_members;
  const mmci_format *format; /* NULL when the format is in a module, or was not built */
  bool is_module;
  const char *holds;  /* what it is, for people */
  const char *absent; /* what to do when it is not here */
} row;

static const row rows[] = {
    {"npy", {".npy"}, false, &mmci_format_npy, false, "NumPy's arrays, mapped", NULL},
    {"npz",
     {".npz"},
     true,
     NPZ,
     false,
     "NumPy's archives; members that are not compressed are mapped",
     "needs zlib: build with zlib1g-dev installed and MMC_WITH_FORMATS not OFF"},
    {"safetensors",
     {".safetensors"},
     true,
     SAFETENSORS,
     false,
     "tensors, mapped",
     "needs Jansson: build with libjansson-dev installed and MMC_WITH_FORMATS not OFF"},
    {"hdf5",
     {".h5", ".hdf5"},
     true,
     NULL,
     true,
     "datasets; those in one piece are mapped",
     "needs the module mmchain-hdf5.so: build by CMake, not pip, with libhdf5-dev installed"},
    {"matlab",
     {".mat"},
     true,
     NULL,
     true,
     "MATLAB's variables",
     "needs the module mmchain-matlab.so: build by CMake, not pip, with libmatio-dev installed"},
    {"matrix-market",
     {".mtx"},
     false,
     &mmci_format_matrix_market,
     false,
     "text; sparse matrices are multiplied as such",
     NULL},
};

enum { FORMATS = sizeof rows / sizeof rows[0] };

/* The name of the member that is written when none is said. */
static const char default_member[] = "result";

/* ---- names --------------------------------------------------------------------------------- */

/* Returns where name goes on after the extension of a row, in letters of either case: at the end
 * or, where there are members, at the first colon behind an extension; NULL when it has none. */
static const char *after_extension(const row *r, const char *name) {
  for (int e = 0; e < EXTENSIONS && r->extensions[e] != NULL; e++) {
    size_t length = strlen(r->extensions[e]);
    for (const char *at = name; (at = strcasestr(at, r->extensions[e])) != NULL; at++)
      if (at[length] == '\0' || (r->has_members && at[length] == ':')) return at + length;
  }
  return NULL;
}

/* A member's name may look like a file's: that of the container, which comes first, rules. */
static const row *row_of(const char *name, const char **after) {
  const row *found = NULL;
  for (int f = 0; f < FORMATS; f++) {
    const char *end = after_extension(&rows[f], name);
    if (end == NULL || (found != NULL && end > *after)) continue;
    found = &rows[f];
    *after = end;
  }
  return found;
}

const char *mmci_file_format(const char *name, size_t *path_length) {
  const char *after = NULL;
  const row *r = row_of(name, &after);
  *path_length = r != NULL ? (size_t)(after - name) : strlen(name);
  return r != NULL ? r->name : NULL;
}

/* A name in parts, which are released with free(memory). */
typedef struct parts {
  const row *row;
  mmci_file_name name;
  char *memory;
} parts;

static mmc_status split(const char *name, parts *out, mmci_error *error) {
  const char *after = name + strlen(name);
  const row *r = row_of(name, &after);
  size_t length = (size_t)(after - name);
  char *path = strdup(name);
  if (path == NULL) {
    mmci_fail_nomem(error, strlen(name) + 1);
    return MMC_E_NOMEM;
  }
  bool said = r != NULL && *after == ':' && after[1] != '\0';
  path[length] = '\0';
  *out = (parts){.row = r != NULL ? r : &rows[0],
                 .name = {.path = path, .member = said ? path + length + 1 : NULL},
                 .memory = path};
  return MMC_OK;
}

/* ---- what is here -------------------------------------------------------------------------- */

/* Returns the format of a module, which stays loaded; NULL after saying why there is none. */
static const mmci_format *load_module(const char *module_dir, const row *r, char *why,
                                      size_t why_size) {
  char path[MMCI_MODULE_PATH_SIZE];
  mmci_error reason;
  if (mmci_module_path(module_dir, r->name, path, &reason) != MMC_OK) {
    snprintf(why, why_size, "%.255s", reason.text);
    return NULL;
  }
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == NULL) {
    snprintf(why, why_size, "%s (%.150s)", r->absent, dlerror());
    return NULL;
  }
  /* By POSIX a pointer from dlsym() may be a function's; ISO C has no cast for that. */
  mmci_format_entry_fn entry;
  void *symbol = dlsym(module, "mmci_module_entry");
  memcpy(&entry, &symbol, sizeof entry);
  const mmci_format *format = symbol != NULL ? entry() : NULL;
  dlclose(module);
  if (format != NULL && format->abi == MMCI_FORMAT_ABI && format->size == sizeof *format)
    return format;
  snprintf(why, why_size, "%.180s is of another version of mmchain", path);
  return NULL;
}

static const mmci_format *find_format(const char *module_dir, const row *r, char *why,
                                      size_t why_size) {
  if (r->is_module) return load_module(module_dir, r, why, why_size);
  if (r->format == NULL) snprintf(why, why_size, "%s", r->absent);
  return r->format;
}

mmc_status mmci_file_format_describe(const char *module_dir, int index, mmc_file_format_info *out,
                                     mmci_error *error) {
  if (index < 0 || index >= FORMATS)
    return mmci_fail(error, MMC_E_ARG, "index: expected 0 to %d, got %d", FORMATS - 1, index);
  const row *r = &rows[index];
  *out = (mmc_file_format_info){.name = r->name, .has_members = r->has_members};
  snprintf(out->extensions, sizeof out->extensions, "%s%s%s", r->extensions[0],
           r->extensions[1] != NULL ? " " : "", r->extensions[1] != NULL ? r->extensions[1] : "");
  out->available = find_format(module_dir, r, out->description, sizeof out->description) != NULL;
  if (out->available) snprintf(out->description, sizeof out->description, "%s", r->holds);
  return MMC_OK;
}

/* The libraries behind modules are one, and not all are made for threads. */
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

/* Says whether there is memory for what libhdf5 and matio do besides the elements, of the heap and
 * of the system. Where one of their own allocations fails, they may end the process, fail ever
 * after, or not tell: so what was read counts when there still is. */
static bool has_reserve(void) {
  const size_t pages = (size_t)RESERVE_MIB << 20, piece = (size_t)64 << 10;
  void *volatile of_heap = malloc(piece);
  free(of_heap);
  if (of_heap == NULL) return false;
  void *mapped = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  munmap(mapped, pages);
  return true;
}

static mmc_status fail_reserve(mmci_error *error) {
  return mmci_fail_nomem(error, (uint64_t)RESERVE_MIB << 20);
}

static mmc_status acquire(const char *module_dir, const parts *p, const mmci_format **out,
                          mmci_error *error) {
  char why[256], shown[MMCI_PATH_TEXT_SIZE];
  *out = find_format(module_dir, p->row, why, sizeof why);
  if (*out == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "%.180s: %s files: %s",
                     mmci_path_text(p->name.path, shown), p->row->name, why);
  if (p->row->is_module && !has_reserve()) return fail_reserve(error);
  if (p->row->is_module) pthread_mutex_lock(&modules_lock);
  return MMC_OK;
}

static void release(const parts *p) {
  if (p->row->is_module) pthread_mutex_unlock(&modules_lock);
}

/* ---- members ------------------------------------------------------------------------------- */

/* What a file holds: how many members, a few of their names for a message, and the only one. */
typedef struct members {
  const char *but; /* this one is not counted; NULL means none */
  int count;
  char names[200]; /* "a, b, ..." */
  char *only;      /* when count is 1 */
  bool short_of_memory;
} members;

/* A path in a file may begin at its root or not. */
static const char *from_root(const char *member) {
  return member + strspn(member, "/");
}

/* Counts no further than a message shows. */
static bool note(void *user, const char *member) {
  members *m = user;
  if (m->but != NULL && strcmp(from_root(member), from_root(m->but)) == 0) return true;
  char text[MMCI_PATH_TEXT_SIZE];
  size_t used = strlen(m->names), room = sizeof m->names - used;
  mmci_path_text(member, text);
  bool fits = used + strlen(text) + sizeof ", ..." < sizeof m->names;
  snprintf(m->names + used, room, "%s%s", m->count > 0 ? ", " : "", fits ? text : "...");
  if (m->count++ == 0) {
    m->only = strdup(member);
    m->short_of_memory = m->only == NULL;
  }
  return fits;
}

/* Says that there is no such member, and which there are. */
static mmc_status fail_missing(const mmci_format *format, const mmci_file_name *name,
                               mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE], member[MMCI_PATH_TEXT_SIZE];
  members m = {0};
  (void)format->list(name->path, note, &m, NULL);
  free(m.only);
  return mmci_fail(error, MMC_E_ARG, "%.180s: no '%.60s' in it: it holds %s",
                   mmci_path_text(name->path, shown), mmci_path_text(name->member, member),
                   m.count > 0 ? m.names : "no arrays");
}

/* Finds the only member; *out is released with free(). */
static mmc_status only_member(const mmci_format *format, const mmci_file_name *name, char **out,
                              mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  mmci_path_text(name->path, shown);
  members m = {0};
  mmc_status status = format->list(name->path, note, &m, error);
  if (status == MMC_OK && m.short_of_memory) status = mmci_fail_nomem(error, 1);
  if (status == MMC_OK && m.count == 0)
    status = mmci_fail(error, MMC_E_FORMAT, "%.180s: it holds no arrays", shown);
  if (status == MMC_OK && m.count > 1)
    status = mmci_fail(error, MMC_E_ARG, "%.140s: it holds %s: say which, as in %.60s:%.60s", shown,
                       m.names, shown, m.only);
  if (status == MMC_OK)
    *out = m.only;
  else
    free(m.only);
  return status;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Says whether a file holds a sparse matrix. Memory that is too short to see becomes *status. */
static bool is_sparse(const mmci_format *format, const mmci_file_name *name, mmc_status *status,
                      mmci_error *error) {
  mmci_error found = {0};
  if (format->sparse_is == NULL || name->member != NULL) return false;
  const mmc_status is = format->sparse_is(name->path, &found);
  if (is == MMC_E_NOMEM) *status = mmci_fail(error, is, "%s", found.text);
  return is == MMC_OK;
}

/* Reads a file whose members are those of a sparse matrix as a dense one. */
static mmc_status open_as_dense(const mmci_format *format, const mmci_file_name *name,
                                mmci_file_array **out, mmci_error *error) {
  mmci_csr csr = {0};
  mmci_file_array *array;
  char shown[MMCI_PATH_TEXT_SIZE];
  mmc_status status = mmci_file_array_create(&array, error);
  if (status != MMC_OK) return status;
  status = format->sparse_open(name->path, &csr, error);
  if (status == MMC_OK) {
    size_t size = 0;
    array->dtype = csr.dtype;
    array->ndim = 2;
    array->shape[0] = csr.rows;
    array->shape[1] = csr.cols;
    status = mmci_file_array_measure(array, &size, error);
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (status == MMC_OK && size > memory)
      status = mmci_fail(error, MMC_E_FORMAT,
                         "%.180s: a sparse matrix, which as a dense one exceeds this machine's "
                         "memory",
                         mmci_path_text(name->path, shown));
    /* Zeros that are not touched take no memory. */
    array->copy = status == MMC_OK ? calloc(size + 1, 1) : NULL;
    if (status == MMC_OK && array->copy == NULL) status = mmci_fail_nomem(error, size);
    array->matrix.data = size > 0 ? array->copy : NULL;
    if (status == MMC_OK && size > 0) mmci_csr_add_to_dense(&csr, array->copy, csr.cols);
  }
  mmci_csr_release(&csr);
  if (status == MMC_OK)
    *out = array;
  else
    mmci_file_array_destroy(array);
  return status;
}

static mmc_status open_member(const mmci_format *format, const mmci_file_name *name,
                              mmci_file_array **out, mmci_error *error) {
  char *only = NULL;
  mmci_file_name said = *name;
  if (format->list != NULL && said.member == NULL) {
    mmc_status status = only_member(format, name, &only, error);
    /* A sparse matrix is several arrays. */
    if (status == MMC_E_ARG && is_sparse(format, name, &status, error))
      return open_as_dense(format, name, out, error);
    if (status != MMC_OK) return status;
    said.member = only;
  }
  mmc_status status = format->open(&said, out, error);
  if (status == MMC_E_ARG && format->list != NULL) status = fail_missing(format, &said, error);
  free(only);
  return status;
}

mmc_status mmci_file_open(const char *module_dir, const char *name, mmci_file_array **out,
                          mmci_error *error) {
  parts p;
  const mmci_format *format;
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = acquire(module_dir, &p, &format, error);
  if (status == MMC_OK) {
    mmci_file_array *array;
    status = open_member(format, &p.name, &array, error);
    release(&p);
    if (status == MMC_OK && p.row->is_module && !has_reserve()) {
      mmci_file_array_destroy(array);
      status = fail_reserve(error);
    }
    if (status == MMC_OK) *out = array;
  }
  free(p.memory);
  return status;
}

/* ---- writing ------------------------------------------------------------------------------- */

static const char *member_of(const parts *p) {
  if (!p->row->has_members) return NULL;
  return p->name.member != NULL ? p->name.member : default_member;
}

static mmc_status stream(const char *module_dir, const parts *p, const mmci_file_rows *array,
                         mmc_write_fn write, void *user, mmci_error *error) {
  const mmci_format *format;
  mmc_status status = acquire(module_dir, p, &format, error);
  if (status != MMC_OK) return status;
  status = format->write(array, member_of(p), write, user, error);
  release(p);
  return status;
}

mmc_status mmci_file_stream(const char *module_dir, const char *name, const mmci_file_rows *array,
                            mmc_write_fn write, void *user, mmci_error *error) {
  parts p;
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = stream(module_dir, &p, array, write, user, error);
  free(p.memory);
  if (status == MMC_E_IO) return mmci_fail(error, status, "the write callback failed");
  return status;
}

static mmc_status check_output(const char *module_dir, const parts *p, mmci_error *error) {
  const mmci_format *format;
  mmc_status status = acquire(module_dir, p, &format, error);
  if (status != MMC_OK || format->list == NULL) {
    if (status == MMC_OK) release(p);
    return status;
  }
  char shown[MMCI_PATH_TEXT_SIZE];
  members others = {.but = member_of(p)};
  /* What is no such file is replaced. */
  bool memory_failed = format->list(p->name.path, note, &others, error) == MMC_E_NOMEM;
  release(p);
  free(others.only);
  if (memory_failed) return MMC_E_NOMEM;
  if (others.count == 0) return MMC_OK;
  return mmci_fail(
      error, MMC_E_ARG,
      "%.180s: it holds %s, and the whole file would be replaced: expected another file",
      mmci_path_text(p->name.path, shown), others.names);
}

mmc_status mmci_file_check_output(const char *module_dir, const char *name, mmci_error *error) {
  parts p;
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = check_output(module_dir, &p, error);
  free(p.memory);
  return status;
}

typedef struct file_writer {
  mmci_output_file *file;
  mmci_error *error;
} file_writer;

static int write_to_file(void *user, const char *bytes, size_t size) {
  file_writer *writer = user;
  return mmci_output_file_write(writer->file, bytes, size, writer->error) != MMC_OK;
}

mmc_status mmci_file_write(const char *module_dir, const char *name, const mmci_file_rows *array,
                           mmci_error *error) {
  parts p;
  file_writer writer = {.error = error};
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = check_output(module_dir, &p, error);
  if (status == MMC_OK) status = mmci_output_file_create(p.name.path, &writer.file, error);
  if (status == MMC_OK) {
    status = stream(module_dir, &p, array, write_to_file, &writer, error);
    if (status == MMC_OK)
      status = mmci_output_file_commit(writer.file, error);
    else
      mmci_output_file_discard(writer.file);
  }
  free(p.memory);
  return status;
}

/* ---- sparse matrices ------------------------------------------------------------------------- */

bool mmci_file_is_sparse(const char *module_dir, const char *name) {
  parts p = {0};
  const mmci_format *format;
  struct stat found;
  if (split(name, &p, NULL) != MMC_OK || p.memory == NULL) return false;
  bool is = p.name.member == NULL && stat(p.name.path, &found) == 0 && S_ISREG(found.st_mode) &&
            acquire(module_dir, &p, &format, NULL) == MMC_OK;
  if (is) {
    mmc_status ignored;
    is = is_sparse(format, &p.name, &ignored, NULL);
    release(&p);
  }
  free(p.memory);
  return is;
}

static mmc_status fail_kind(const char *name, const char *expected, mmci_error *error) {
  char shown[MMCI_PATH_TEXT_SIZE];
  return mmci_fail(error, MMC_E_ARG, "%.180s: %s", mmci_path_text(name, shown), expected);
}

mmc_status mmci_file_open_sparse(const char *module_dir, const char *name, mmci_csr *out,
                                 mmci_error *error) {
  parts p = {0};
  const mmci_format *format;
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = acquire(module_dir, &p, &format, error);
  if (status == MMC_OK) {
    if (is_sparse(format, &p.name, &status, error))
      status = format->sparse_open(p.name.path, out, error);
    else if (status == MMC_OK)
      status = fail_kind(name, "it holds no sparse matrix", error);
    release(&p);
  }
  free(p.memory);
  return status;
}

static mmc_status stream_sparse(const mmci_format *format, const parts *p, const mmci_csr *matrix,
                                mmci_error *error) {
  file_writer writer = {.error = error};
  mmc_status status = mmci_output_file_create(p->name.path, &writer.file, error);
  if (status != MMC_OK) return status;
  status = format->sparse_write(matrix, write_to_file, &writer, error);
  if (status == MMC_OK) return mmci_output_file_commit(writer.file, error);
  mmci_output_file_discard(writer.file);
  return status;
}

mmc_status mmci_file_write_sparse(const char *module_dir, const char *name, const mmci_csr *matrix,
                                  mmci_error *error) {
  parts p = {0};
  const mmci_format *format;
  mmc_status status = split(name, &p, error);
  if (status != MMC_OK) return status;
  status = acquire(module_dir, &p, &format, error);
  if (status == MMC_OK) {
    if (format->sparse_write == NULL || p.name.member != NULL)
      status =
          fail_kind(name, "expected a name that ends with .npz or .mtx for a sparse matrix", error);
    else
      status = stream_sparse(format, &p, matrix, error);
    release(&p);
  }
  free(p.memory);
  return status;
}
