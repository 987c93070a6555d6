/* rapl.c: reads the processor's own energy counters, through Linux's powercap.
 *
 * /sys/class/powercap/intel-rapl:N is a domain, on AMD too; the domains named package-N are summed.
 * Their sub-domains (core, uncore, dram) have two numbers, are part of a package or beside it, and
 * are left out, as is psys, the whole board. energy_uj counts microjoules up to max_energy_range_uj
 * and starts over, after some minutes under load; it moves about every millisecond. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "meter/meter.h"

enum { NAME_SIZE = 40, PATH_SIZE = 1024 };

typedef struct domain {
  int file; /* energy_uj, a descriptor */
  char name[NAME_SIZE];
  uint64_t range_uj, last_uj;
} domain;

struct mmci_meter {
  domain *domains;
  size_t count;
  double joules; /* joules of all domains since the meter was opened */
};

/* ---- files --------------------------------------------------------------------------------- */

/* Reads the first line of a file, without its end. Returns false with errno set. */
static bool read_line(int file, char *text, size_t size) {
  ssize_t length = pread(file, text, size - 1, 0);
  if (length < 0) return false;
  text[length] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return true;
}

static bool read_number(int file, uint64_t *out) {
  char text[32], *end;
  if (!read_line(file, text, sizeof text)) return false;
  errno = 0;
  uint64_t value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0') errno = EINVAL;
  if (errno != 0) return false;
  *out = value;
  return true;
}

/* Opens ROOT/DOMAIN/NAME. Returns -1 with errno set. */
static int open_domain_file(const char *root, const char *name, const char *file) {
  char path[PATH_SIZE];
  int length = snprintf(path, sizeof path, "%s/%s/%s", root, name, file);
  if (length < 0 || (size_t)length >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return open(path, O_RDONLY | O_CLOEXEC);
}

/* Says whether ROOT/DOMAIN is a package, and writes its name to out. */
static bool is_package(const char *root, const char *entry, char out[NAME_SIZE]) {
  static const char prefix[] = "intel-rapl:";
  if (strncmp(entry, prefix, strlen(prefix)) != 0) return false;
  const char *digits = entry + strlen(prefix);
  if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0') return false;
  int file = open_domain_file(root, entry, "name");
  if (file < 0) return false;
  bool read = read_line(file, out, NAME_SIZE);
  close(file);
  return read && strncmp(out, "package-", strlen("package-")) == 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void rapl_close(mmci_meter *meter) {
  for (size_t d = 0; d < meter->count; d++) close(meter->domains[d].file);
  free(meter->domains);
  free(meter);
}

static mmc_status fail_file(const char *root, const char *entry, const char *file, int code,
                            mmci_error *error) {
  if (code == EACCES || code == EPERM)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "%.200s/%s/%s is for root alone: allow it by `sudo chmod a+r "
                     "%.100s/intel-rapl:*/energy_uj`, until the next boot, or run as root",
                     root, entry, file, root);
  return mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s/%s/%s: %s", root, entry, file,
                   code == EINVAL ? "expected a whole number" : strerror(code));
}

static mmc_status add_domain(mmci_meter *meter, const char *root, const char *entry,
                             const char *name, mmci_error *error) {
  size_t size = (meter->count + 1) * sizeof *meter->domains;
  domain *grown = realloc(meter->domains, size);
  if (grown == NULL) return mmci_fail_nomem(error, size);
  meter->domains = grown;
  domain *d = &grown[meter->count];
  *d = (domain){.file = open_domain_file(root, entry, "energy_uj")};
  if (d->file < 0) return fail_file(root, entry, "energy_uj", errno, error);
  meter->count++;
  snprintf(d->name, sizeof d->name, "%s", name);
  if (!read_number(d->file, &d->last_uj)) return fail_file(root, entry, "energy_uj", errno, error);
  int range = open_domain_file(root, entry, "max_energy_range_uj");
  bool read = range >= 0 && read_number(range, &d->range_uj);
  int code = errno;
  if (range >= 0) close(range);
  return read ? MMC_OK : fail_file(root, entry, "max_energy_range_uj", code, error);
}

static mmc_status add_domains(mmci_meter *meter, const char *root, mmci_error *error) {
  static const char how[] =
      "the kernel's module intel_rapl_msr shows the counters (`sudo modprobe intel_rapl_msr`); "
      "virtual machines and containers seldom have them";
  DIR *directory = opendir(root);
  if (directory == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s: %s: %s", root, strerror(errno), how);
  mmc_status status = MMC_OK;
  for (struct dirent *entry; status == MMC_OK && (entry = readdir(directory)) != NULL;) {
    char name[NAME_SIZE];
    if (is_package(root, entry->d_name, name))
      status = add_domain(meter, root, entry->d_name, name, error);
  }
  closedir(directory);
  if (status == MMC_OK && meter->count == 0)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "%.200s: no package is there: %s", root, how);
  return status;
}

static mmc_status rapl_open(const mmci_meter_source *source, mmci_meter **out, mmci_error *error) {
  mmci_meter *meter = mmci_alloc_zeroed(1, sizeof *meter);
  if (meter == NULL) return mmci_fail_nomem(error, sizeof *meter);
  const char *root = source->powercap != NULL ? source->powercap : "/sys/class/powercap";
  mmc_status status = add_domains(meter, root, error);
  if (status != MMC_OK) {
    rapl_close(meter);
    return status;
  }
  *out = meter;
  return MMC_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void rapl_describe(const mmci_meter *meter, char *text, size_t size) {
  int length = snprintf(text, size, "processor energy counters:");
  for (size_t d = 0; d < meter->count && length >= 0 && (size_t)length < size; d++)
    length += snprintf(text + length, size - (size_t)length, "%s %s", d > 0 ? " +" : "",
                       meter->domains[d].name);
}

static mmc_status rapl_joules(mmci_meter *meter, double time_s, double *joules, mmci_error *error) {
  (void)time_s;
  double sum_uj = 0;
  for (size_t i = 0; i < meter->count; i++) {
    domain *d = &meter->domains[i];
    uint64_t now_uj;
    if (!read_number(d->file, &now_uj))
      return mmci_fail(error, MMC_E_DEVICE, "energy_uj of %s: %s", d->name,
                       errno == EINVAL ? "expected a whole number" : strerror(errno));
    if (now_uj < d->last_uj && d->last_uj > d->range_uj)
      return mmci_fail(error, MMC_E_DEVICE,
                       "energy_uj of %s fell from %" PRIu64 ", above its range of %" PRIu64,
                       d->name, d->last_uj, d->range_uj);
    sum_uj += now_uj >= d->last_uj ? (double)(now_uj - d->last_uj)
                                   : (double)(d->range_uj - d->last_uj) + (double)now_uj;
    d->last_uj = now_uj;
  }
  meter->joules += sum_uj * 1e-6;
  *joules = meter->joules;
  return MMC_OK;
}

const mmci_meter_ops mmci_meter_rapl = {
    .name = "rapl",
    .open = rapl_open,
    .close = rapl_close,
    .describe = rapl_describe,
    .joules = rapl_joules,
};
