#include "device/host.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"

/* There is nothing to open and nothing to wait for; the handles only have to point somewhere. */
struct mmci_device {
  char nothing;
};
struct mmci_queue {
  char nothing;
};

mmc_status mmci_host_probe(int *count, mmci_error *error) {
  (void)error;
  *count = 1;
  return MMC_OK;
}

mmc_status mmci_host_open(int index, mmci_device **out, mmci_error *error) {
  (void)index;
  mmci_device *device = malloc(sizeof *device);
  if (device == NULL) return mmci_fail_nomem(error, sizeof *device);
  *out = device;
  return MMC_OK;
}

void mmci_host_close(mmci_device *device) {
  free(device);
}

bool mmci_host_supports(const mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return true;
}

int mmci_host_variants(mmci_device *device, const mmci_gemm *gemm) {
  (void)device, (void)gemm;
  return 0;
}

/* The text is kept, because the system writes /proc/cpuinfo anew for every reader, which takes
 * longer than planning a chain. */
static char model[192];

static void find_model(void) {
  char line[256], name[128] = "";
  struct utsname system;
  if (uname(&system) == 0) snprintf(name, sizeof name, "%.127s", system.machine);
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    const char *value = strchr(line, ':');
    if (strncmp(line, "model name", strlen("model name")) != 0 || value == NULL) continue;
    value += 1 + strspn(value + 1, " \t");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  if (file != NULL) fclose(file);
  snprintf(model, sizeof model, "%s, %ld cores", name, sysconf(_SC_NPROCESSORS_ONLN));
}

void mmci_host_model(char *text, size_t size) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_model);
  snprintf(text, size, "%s", model);
}

mmc_status mmci_host_queue_open(mmci_device *device, mmci_queue **out, mmci_error *error) {
  (void)device;
  mmci_queue *queue = malloc(sizeof *queue);
  if (queue == NULL) return mmci_fail_nomem(error, sizeof *queue);
  *out = queue;
  return MMC_OK;
}

void mmci_host_queue_close(mmci_queue *queue) {
  free(queue);
}

mmc_status mmci_host_sync(mmci_queue *queue, mmci_error *error) {
  (void)queue, (void)error;
  return MMC_OK;
}

mmc_status mmci_host_alloc(mmci_device *device, size_t size_bytes, void **out, mmci_error *error) {
  (void)device;
  void *memory = mmci_alloc_aligned(size_bytes, 1);
  if (memory == NULL) return mmci_fail_nomem(error, size_bytes);
  *out = memory;
  return MMC_OK;
}

void mmci_host_dealloc(mmci_device *device, void *memory) {
  (void)device;
  free(memory);
}
