/* interval_dp_table.c: the memory of the table, and the table as the caller keeps it. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "order/interval_dp.h"

/* Tables of at least so many bytes are mapped, on huge pages where there are some: every tile is
 * read thousands of times, by columns as well as rows. */
static const size_t mapped_bytes = (size_t)4 << 20;

static mmci_u128 entry(const mmci_order_table *base, int32_t i, int32_t j) {
  const mmci_dp_table *table = (const mmci_dp_table *)base;
  return table->kernel->entry(table, i, j);
}

static void destroy(mmci_order_table *base) {
  mmci_dp_table_destroy((mmci_dp_table *)base);
}

/* Checks that the memory is there: what is promised but missing would end the process later. */
static mmc_status check_memory(size_t bytes, int32_t n, mmci_error *error) {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0 || bytes / (size_t)page_bytes < (size_t)pages) return MMC_OK;
  return mmci_fail(
      error, MMC_E_NOMEM,
      "out of memory: the table of %d factors takes %.1f GB, and this machine has %.1f GB", n,
      (double)bytes * 1e-9, (double)pages * (double)page_bytes * 1e-9);
}

mmc_status mmci_dp_table_create(int32_t n, const mmci_dp_kernel *kernel, mmci_dp_table **out,
                                mmci_error *error) {
  int32_t tiles = n / MMCI_DP_TILE + 1;
  size_t bytes = (size_t)tiles * ((size_t)tiles + 1) / 2 * MMCI_DP_CELLS * kernel->cell_bytes;
  mmc_status status = bytes >= mapped_bytes ? check_memory(bytes, n, error) : MMC_OK;
  if (status != MMC_OK) return status;

  mmci_dp_table *table = mmci_alloc_array(1, sizeof *table);
  if (table == NULL) return mmci_fail_nomem(error, sizeof *table);
  void *cells;
  if (bytes < mapped_bytes) {
    cells = mmci_alloc_aligned(bytes, 1);
  } else {
    cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED) cells = NULL;
  }
  if (cells == NULL) {
    free(table);
    return mmci_fail_nomem(error, bytes);
  }
#ifdef MADV_HUGEPAGE
  if (bytes >= mapped_bytes) (void)madvise(cells, bytes, MADV_HUGEPAGE);
#endif
  *table = (mmci_dp_table){
      .base = {.entry = entry, .destroy = destroy},
      .kernel = kernel,
      .cells = cells,
      .size_bytes = bytes,
      .n = n,
      .tiles = tiles,
  };
  *out = table;
  return MMC_OK;
}

void mmci_dp_table_destroy(mmci_dp_table *table) {
  if (table == NULL) return;
  if (table->size_bytes < mapped_bytes)
    free(table->cells);
  else
    (void)munmap(table->cells, table->size_bytes);
  free(table);
}
