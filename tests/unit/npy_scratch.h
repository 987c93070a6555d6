/* npy_scratch.h: what the tests of .npy files share: a directory of their own, files in it, and the
 * descriptors that a test may have lost. */
#ifndef NPY_SCRATCH_H
#define NPY_SCRATCH_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
/* cmocka.h wants the four above. */
#include <cmocka.h>

#include "mmchain.h"

enum { SCRATCH_PATH_SIZE = 512 };

/* The directory, made by scratch_setup() and removed by scratch_teardown(). */
static char scratch_directory[SCRATCH_PATH_SIZE / 2];

/* Returns the path of a file in the directory. The text is good until the call after the next. */
static inline const char *scratch(const char *name) {
  static char paths[2][SCRATCH_PATH_SIZE];
  static int turn;
  turn = !turn;
  snprintf(paths[turn], sizeof paths[turn], "%s/%s", scratch_directory, name);
  return paths[turn];
}

static inline int entries_in(const char *path) {
  DIR *directory = opendir(path);
  assert_non_null(directory);
  int count = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) count++;
  closedir(directory);
  return count;
}

/* Removes every file in the directory. */
static inline void scratch_clear(void) {
  DIR *directory = opendir(scratch_directory);
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    assert_int_equal(remove(scratch(entry->d_name)), 0);
  }
  closedir(directory);
}

static int descriptors_before;

static inline int scratch_setup(void **state) {
  (void)state;
  const char *parent = getenv("TMPDIR");
  snprintf(scratch_directory, sizeof scratch_directory, "%s/mmchain-test-XXXXXX",
           parent != NULL && strlen(parent) < 100 ? parent : "/tmp");
  if (mkdtemp(scratch_directory) == NULL) return -1;
  descriptors_before = entries_in("/proc/self/fd");
  return 0;
}

static inline int scratch_teardown(void **state) {
  (void)state;
  scratch_clear();
  return rmdir(scratch_directory);
}

/* The last test of each file: whatever failed before, no descriptor and no mapping is left. */
static inline void test_nothing_left(void **state) {
  (void)state;
  assert_int_equal(entries_in("/proc/self/fd"), descriptors_before);
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  char line[SCRATCH_PATH_SIZE + 128];
  while (fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, scratch_directory) != NULL) fail_msg("still mapped: %s", line);
  fclose(maps);
}

/* Root has every permission, and could put a file in the place of a device. So, for a while, be
 * somebody who cannot; false when that is not to be had. */
static inline bool drop_privileges(void) {
  return geteuid() != 0 || seteuid(65534) == 0;
}

static inline void restore_privileges(void) {
  if (getuid() == 0) assert_int_equal(seteuid(0), 0);
}

static inline void put_file(const char *path, const void *bytes, size_t size) {
  unlink(path); /* some file systems wait for the disk when a file is cut and written anew */
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* Returns the bytes of a whole file, to be freed, and their number in *size. */
static inline unsigned char *get_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

static inline void assert_content(const char *path, const char *content) {
  size_t size;
  unsigned char *bytes = get_file(path, &size);
  assert_int_equal(size, strlen(content));
  assert_memory_equal(bytes, content, size);
  free(bytes);
}

/* Lets no file of this process grow beyond size bytes; RLIM_INFINITY lifts that. */
static inline void limit_files(rlim_t size) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = size < limit.rlim_max ? size : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Fails unless text holds part. */
#define assert_holds(text, part)                                               \
  do {                                                                         \
    if (strstr(text, part) == NULL)                                            \
      fail_msg("\"%s\" was expected in \"%s\"", (part), (const char *)(text)); \
  } while (0)

/* Returns the bytes of the real type. */
static inline size_t real_size_of(mmc_dtype dtype) {
  if (dtype == MMC_F16) return 2;
  return dtype == MMC_F32 || dtype == MMC_C64 ? 4 : 8;
}

static inline size_t element_size_of(mmc_dtype dtype) {
  return real_size_of(dtype) * (dtype == MMC_C64 || dtype == MMC_C128 ? 2 : 1);
}

#endif
