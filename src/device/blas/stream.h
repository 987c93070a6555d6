/* stream.h: memory that is read or written once. */
#ifndef MMCI_STREAM_H
#define MMCI_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { MMCI_LINE_BYTES = 64 };

/* Asks for what will be read soon; any address. */
static inline void mmci_prefetch(const void *from, size_t bytes) {
  const char *x = from;
  for (size_t t = 0; t < bytes; t += MMCI_LINE_BYTES) __builtin_prefetch(x + t);
}

/* Copies, the whole lines among what is written past the cache. Others see those after
 * mmci_stream_end(), by the thread that wrote them. */
static inline void mmci_stream(void *to, const void *from, size_t bytes) {
#ifdef __SSE2__
  size_t head = (size_t)(-(uintptr_t)to % MMCI_LINE_BYTES);
  if (head > bytes) head = bytes;
  size_t lines = (bytes - head) / MMCI_LINE_BYTES * MMCI_LINE_BYTES;
  const char *x = (const char *)from + head;
  char *y = (char *)to + head;
  memcpy(to, from, head);
  for (size_t t = 0; t < lines; t += sizeof(__m128i))
    _mm_stream_si128((__m128i *)(y + t), _mm_loadu_si128((const __m128i *)(x + t)));
  memcpy(y + lines, x + lines, bytes - head - lines);
#else
  memcpy(to, from, bytes);
#endif
}

static inline void mmci_stream_end(void) {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

#endif
