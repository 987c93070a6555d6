#include "fake_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t region_bytes = (size_t)1 << 38;
enum { BLOCK_ALIGNMENT = 256 };

/* ---- spans ----------------------------------------------------------------------------------- */

bool fake_span_is_empty(const fake_span *span) {
  return span->lines <= 0 || span->line_bytes <= 0;
}

/* Returns the bytes from the first byte to past the last. */
static uint64_t extent(const fake_span *span) {
  if (fake_span_is_empty(span)) return 0;
  return (uint64_t)((span->lines - 1) * span->pitch + span->line_bytes);
}

/* Blocks lie apart, so what tells them apart is numbers. */
static uintptr_t number(const void *address) {
  return (uintptr_t)address;
}

bool fake_spans_meet(const fake_span *x, const fake_span *y) {
  if (fake_span_is_empty(x) || fake_span_is_empty(y)) return false;
  uintptr_t x_start = number(x->start), y_start = number(y->start);
  if (x_start >= y_start + extent(y) || y_start >= x_start + extent(x)) return false;
  if (x->lines > y->lines) return fake_spans_meet(y, x);
  for (int64_t i = 0; i < x->lines; i++) {
    /* The first line of y that ends behind the start of this one. */
    int64_t start = (int64_t)(x_start - y_start) + i * x->pitch, line = 0;
    if (start >= y->line_bytes) line = y->lines == 1 ? 1 : (start - y->line_bytes) / y->pitch + 1;
    if (line < y->lines && line * y->pitch < start + x->line_bytes) return true;
  }
  return false;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void fake_memory_open(fake_memory *memory) {
  void *region =
      mmap(NULL, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) abort();
  *memory = (fake_memory){.region = region};
}

void fake_memory_close(fake_memory *memory) {
  for (size_t b = 0; b < memory->count; b++) free(memory->blocks[b].bytes);
  free(memory->blocks);
  munmap(memory->region, region_bytes);
}

void *fake_memory_take(fake_memory *memory, size_t size, bool of_test, const void *owner) {
  size_t room = (size / BLOCK_ALIGNMENT + 2) * BLOCK_ALIGNMENT; /* a gap behind it */
  if (memory->count == memory->room) {
    memory->room = 2 * memory->room + 16;
    memory->blocks = realloc(memory->blocks, memory->room * sizeof *memory->blocks);
  }
  char *bytes = malloc(size > 0 ? size : 1);
  if (memory->blocks == NULL || bytes == NULL || memory->taken + room > region_bytes) abort();
  memset(bytes, 0xff, size);
  fake_block *block = &memory->blocks[memory->count++];
  *block = (fake_block){.start = memory->region + memory->taken + BLOCK_ALIGNMENT,
                        .size = size,
                        .bytes = bytes,
                        .of_test = of_test,
                        .owner = owner};
  memory->taken += room;
  if (!of_test) memory->live_bytes += size;
  if (memory->live_bytes > memory->most_bytes) memory->most_bytes = memory->live_bytes;
  return block->start;
}

void fake_memory_drop(fake_memory *memory, fake_block *block) {
  free(block->bytes);
  block->bytes = NULL;
  if (!block->of_test) memory->live_bytes -= block->size;
}

bool fake_memory_owns(const fake_memory *memory, const void *address) {
  uintptr_t region = number(memory->region);
  return number(address) >= region && number(address) < region + region_bytes;
}

fake_block *fake_memory_find(const fake_memory *memory, const fake_span *span) {
  uintptr_t start = number(span->start), end = start + extent(span);
  for (size_t b = memory->count; b-- > 0;) {
    fake_block *x = &memory->blocks[b];
    uintptr_t block = number(x->start);
    if (start >= block && end <= block + x->size) return x;
  }
  return NULL;
}

char *fake_memory_bytes(const fake_memory *memory, const fake_span *span) {
  const fake_block *block = fake_memory_find(memory, span);
  if (block == NULL || block->bytes == NULL) return NULL;
  return block->bytes + (span->start - block->start);
}
