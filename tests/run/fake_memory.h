/* fake_memory.h: the memory of the fake device: addresses that the host must not touch.
 *
 * An address lies in a region that nobody may read or write; the bytes that it stands for lie
 * elsewhere. Addresses are never given twice, so that one used after it was freed is known. */
#ifndef MMC_TEST_FAKE_MEMORY_H
#define MMC_TEST_FAKE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that an operation touches: lines that lie pitch bytes apart. */
typedef struct fake_span {
  char *start;
  int64_t pitch, lines, line_bytes;
} fake_span;

bool fake_span_is_empty(const fake_span *span);
/* Says whether they have a byte in common. */
bool fake_spans_meet(const fake_span *x, const fake_span *y);

typedef struct fake_block {
  char *start;
  size_t size;
  char *bytes;       /* NULL: freed */
  bool of_test;      /* else the library's */
  const void *owner; /* the card whose memory it is */
} fake_block;

typedef struct fake_memory {
  char *region;
  size_t taken;
  fake_block *blocks;
  size_t count, room;
  uint64_t live_bytes, most_bytes; /* of the library's blocks */
} fake_memory;

void fake_memory_open(fake_memory *memory);
void fake_memory_close(fake_memory *memory);

/* Returns the address of a block whose bytes are all 0xff, which is NaN in every dtype. */
void *fake_memory_take(fake_memory *memory, size_t size, bool of_test, const void *owner);
void fake_memory_drop(fake_memory *memory, fake_block *block);

/* Says whether the address is the device's, whatever lies there. */
bool fake_memory_owns(const fake_memory *memory, const void *address);
/* Returns the block that holds the whole span, or NULL. */
fake_block *fake_memory_find(const fake_memory *memory, const fake_span *span);
/* Returns the bytes that the span's start stands for; NULL unless a live block holds all of it. */
char *fake_memory_bytes(const fake_memory *memory, const fake_span *span);

#endif
