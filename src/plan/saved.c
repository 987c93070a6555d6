/* saved.c: see saved.h. The text is JSON (RFC 8259), of which every value is read and most are
 * passed over. */
#include "plan/saved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

enum { MOST_DEPTH = 16 };

typedef struct reader {
  const char *begin, *at, *end;
  mmci_error *error;
  int depth;
} reader;

static mmc_status fail(const reader *r, const char *expected) {
  return mmci_fail_argument(r->error, MMC_E_FORMAT, "plan",
                            "expected %s at byte %zu, as plan --json writes it", expected,
                            (size_t)(r->at - r->begin));
}

static char peek(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
    r->at++;
  return r->at < r->end ? *r->at : '\0';
}

/* Reads a string of ASCII; escapes are those that explain.c writes: of quotes and backslashes. */
static mmc_status read_string(reader *r, char **out) {
  if (peek(r) != '"') return fail(r, "a string");
  const char *from = ++r->at;
  while (r->at < r->end && *r->at != '"') r->at += *r->at == '\\' ? 2 : 1;
  if (r->at >= r->end) {
    r->at = r->end;
    return fail(r, "the end of a string");
  }
  char *text = mmci_alloc_array((size_t)(r->at - from) + 1, 1), *to = text;
  if (text == NULL) return mmci_fail_nomem(r->error, (uint64_t)(r->at - from) + 1);
  for (; from < r->at; from++) *to++ = *from == '\\' ? *++from : *from;
  *to = '\0';
  r->at++;
  *out = text;
  return MMC_OK;
}

/* Says of a member what to do with its value: the string goes to where this points, or NULL. */
typedef mmc_status (*member_fn)(reader *r, void *user, const char *name);

static mmc_status skip(reader *r);

/* Reads an object, member by member. */
static mmc_status read_object(reader *r, member_fn member, void *user) {
  if (peek(r) != '{') return fail(r, "an object");
  if (++r->depth > MOST_DEPTH) return fail(r, "fewer levels");
  r->at++;
  mmc_status status = MMC_OK;
  bool more = peek(r) != '}';
  while (more && status == MMC_OK) {
    char *name = NULL;
    status = read_string(r, &name);
    if (status == MMC_OK && peek(r) != ':') status = fail(r, "a colon");
    if (status == MMC_OK && name != NULL) {
      r->at++;
      status = member(r, user, name);
    }
    free(name);
    if (status != MMC_OK) break;
    more = peek(r) == ',';
    if (more) r->at++;
  }
  if (status == MMC_OK && peek(r) != '}') status = fail(r, "a comma or the end of the object");
  if (status == MMC_OK) r->at++;
  r->depth--;
  return status;
}

/* Reads an array, whose elements one function reads. */
static mmc_status read_array(reader *r, mmc_status (*element)(reader *r, void *user), void *user) {
  if (peek(r) != '[') return fail(r, "an array");
  if (++r->depth > MOST_DEPTH) return fail(r, "fewer levels");
  r->at++;
  mmc_status status = MMC_OK;
  bool more = peek(r) != ']';
  while (more && status == MMC_OK) {
    status = element(r, user);
    more = status == MMC_OK && peek(r) == ',';
    if (more) r->at++;
  }
  if (status == MMC_OK && peek(r) != ']') status = fail(r, "a comma or the end of the array");
  if (status == MMC_OK) r->at++;
  r->depth--;
  return status;
}

static mmc_status skip_member(reader *r, void *user, const char *name) {
  (void)user, (void)name;
  return skip(r);
}

static mmc_status skip_element(reader *r, void *user) {
  (void)user;
  return skip(r);
}

/* Passes over any value. */
static mmc_status skip(reader *r) {
  const char first = peek(r);
  char *text = NULL;
  if (first == '{') return read_object(r, skip_member, NULL);
  if (first == '[') return read_array(r, skip_element, NULL);
  if (first == '"') {
    mmc_status status = read_string(r, &text);
    free(text);
    return status;
  }
  const char *from = r->at;
  while (r->at < r->end && *r->at != '\0' &&
         strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *r->at) != NULL)
    r->at++;
  return r->at > from ? MMC_OK : fail(r, "a value");
}

/* Reads a string, or null as "". The later of two of one name counts. */
static mmc_status read_text(reader *r, char **out) {
  char *text = NULL;
  mmc_status status;
  if (peek(r) == 'n') {
    status = skip(r);
    if (status == MMC_OK && (text = mmci_alloc_zeroed(1, 1)) == NULL)
      status = mmci_fail_nomem(r->error, 1);
  } else {
    status = read_string(r, &text);
  }
  if (status != MMC_OK) return status;
  free(*out);
  *out = text;
  return MMC_OK;
}

/* Reads a number as strtod() does, or null as 0. */
static mmc_status read_number(reader *r, double *out) {
  char text[48] = "", *end;
  (void)peek(r);
  const char *from = r->at;
  mmc_status status = skip(r);
  if (status != MMC_OK) return status;
  const size_t size = (size_t)(r->at - from);
  *out = 0;
  if (size == 4 && memcmp(from, "null", size) == 0) return MMC_OK;
  if (size < sizeof text) memcpy(text, from, size);
  *out = mmci_number_read(text, &end);
  if (end != text && *end == '\0') return MMC_OK;
  r->at = from;
  return fail(r, "a number");
}

/* Reads a whole number of 63 bits, or null as 0. */
static mmc_status read_whole(reader *r, int64_t *out) {
  char text[24] = "", *end;
  double number;
  (void)peek(r);
  const char *from = r->at;
  mmc_status status = read_number(r, &number);
  if (status != MMC_OK) return status;
  *out = 0;
  if (*from == 'n') return MMC_OK;
  const size_t size = (size_t)(r->at - from);
  if (size < sizeof text) memcpy(text, from, size);
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (end != text && *end == '\0' && errno == 0) return MMC_OK;
  r->at = from;
  return fail(r, "a whole number below 2^63");
}

/* A side of the tile: x, and then y. */
static mmc_status read_side(reader *r, void *user) {
  mmci_saved *saved = user;
  saved->tile[0] = saved->tile[1];
  return read_whole(r, &saved->tile[1]);
}

static mmc_status step_member(reader *r, void *user, const char *name) {
  mmci_saved_step *step = user;
  if (strcmp(name, "product") == 0) return read_text(r, &step->product);
  if (strcmp(name, "kernel") == 0) return read_text(r, &step->kernel);
  if (strcmp(name, "split") == 0) return read_text(r, &step->split);
  return skip(r);
}

static mmc_status read_step(reader *r, void *user) {
  mmci_saved *saved = user;
  const int64_t count = saved->step_count;
  if ((count & (count - 1)) == 0) {
    mmci_saved_step *more = mmci_alloc_zeroed(count > 0 ? 2 * (size_t)count : 1, sizeof *more);
    if (more == NULL) return mmci_fail_nomem(r->error, 2 * (uint64_t)count * sizeof *more);
    if (saved->steps != NULL) memcpy(more, saved->steps, (size_t)count * sizeof *more);
    free(saved->steps);
    saved->steps = more;
  }
  mmci_saved_step *step = &saved->steps[saved->step_count++];
  mmc_status status = read_object(r, step_member, step);
  if (status == MMC_OK && (step->product == NULL || step->kernel == NULL || step->split == NULL))
    status = fail(r, "product, kernel and split of the step before");
  return status;
}

static mmc_status plan_member(reader *r, void *user, const char *name) {
  mmci_saved *saved = user;
  if (strcmp(name, "chain") == 0) return read_text(r, &saved->chain);
  if (strcmp(name, "objective") == 0) return read_text(r, &saved->objective);
  if (strcmp(name, "solver") == 0) return read_text(r, &saved->solver);
  if (strcmp(name, "device") == 0) return read_text(r, &saved->device);
  if (strcmp(name, "precision") == 0) return read_text(r, &saved->precision);
  if (strcmp(name, "order") == 0) return read_text(r, &saved->order);
  if (strcmp(name, "fuse") == 0) return read_text(r, &saved->fuse);
  if (strcmp(name, "on_chip_words") == 0) return read_whole(r, &saved->on_chip_words);
  if (strcmp(name, "given_tile") == 0) return read_array(r, read_side, saved);
  if (strcmp(name, "max_slowdown") == 0) return read_number(r, &saved->max_slowdown);
  if (strcmp(name, "steps") == 0 && saved->step_count == 0) return read_array(r, read_step, saved);
  return skip(r);
}

mmc_status mmci_saved_read(const char *text, size_t size, mmci_saved *out, mmci_error *error) {
  reader r = {.begin = text, .at = text, .end = text + size, .error = error};
  *out = (mmci_saved){0};
  mmc_status status = read_object(&r, plan_member, out);
  if (status == MMC_OK && peek(&r) != '\0') status = fail(&r, "the end");
  const bool whole = out->chain != NULL && out->objective != NULL && out->device != NULL &&
                     out->precision != NULL && out->order != NULL;
  if (status == MMC_OK && !whole)
    status = fail(&r, "chain, objective, device, precision and order before the end");
  if (status != MMC_OK) mmci_saved_free(out);
  return status;
}

void mmci_saved_free(mmci_saved *saved) {
  for (int64_t s = 0; s < saved->step_count; s++) {
    free(saved->steps[s].product);
    free(saved->steps[s].kernel);
    free(saved->steps[s].split);
  }
  free(saved->steps);
  free(saved->chain);
  free(saved->objective);
  free(saved->solver);
  free(saved->device);
  free(saved->precision);
  free(saved->fuse);
  free(saved->order);
  *saved = (mmci_saved){0};
}
