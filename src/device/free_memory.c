/* free_memory.c: see free_memory.h. */
#include "device/free_memory.h"

#include "base/monotonic.h"

/* Bytes are remembered in units of 64 KiB, up to 16 TiB of them, in the low bits of a word, and the
 * milliseconds of the monotonic clock, which begin again after two years, in those above. */
enum { UNIT_BITS = 16, BYTES_BITS = 28, MOMENT_MS = 10, SHARE = 64 };

static const uint64_t MOST_UNITS = (UINT64_C(1) << BYTES_BITS) - 1;
static const uint64_t MS_MASK = UINT64_MAX >> BYTES_BITS;
static const uint64_t LARGE_BYTES = UINT64_C(1) << 30, ALWAYS_BYTES = UINT64_C(1) << 20;

static uint64_t now_ms(void) {
  return (uint64_t)(1e3 * mmci_now_s()) & MS_MASK;
}

mmc_status mmci_free_memory_ask(const mmci_opened *on, uint64_t *free_bytes, mmci_error *error) {
  /* The answer is no older than this, which is read before. */
  const uint64_t ms = now_ms();
  uint64_t total_bytes;
  mmc_status status = on->ops->async->memory(on->device, free_bytes, &total_bytes, error);
  if (status != MMC_OK || on->free_memory == NULL) return status;
  const uint64_t units = *free_bytes >> UNIT_BITS;
  atomic_store_explicit(&on->free_memory->said,
                        ms << BYTES_BITS | (units < MOST_UNITS ? units : MOST_UNITS),
                        memory_order_relaxed);
  return MMC_OK;
}

uint64_t mmci_free_memory_for_sure(const mmci_opened *on, uint64_t *free_bytes) {
  *free_bytes = 0;
  if (on->free_memory == NULL) return 0;
  const uint64_t said = atomic_load_explicit(&on->free_memory->said, memory_order_relaxed);
  *free_bytes = (said & MOST_UNITS) << UNIT_BITS;
  const uint64_t always = *free_bytes >= LARGE_BYTES ? ALWAYS_BYTES : 0,
                 lately = *free_bytes / SHARE;
  if (lately <= always) return always;
  return ((now_ms() - (said >> BYTES_BITS)) & MS_MASK) < MOMENT_MS ? lately : always;
}
