/* hash.h: FNV-1a of 64 bits (Fowler, Noll and Vo): the same number on every machine. */
#ifndef MMCI_HASH_H
#define MMCI_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The hash of no bytes, with which every other begins. */
#define MMCI_HASH_START UINT64_C(0xCBF29CE484222325)

static inline uint64_t mmci_hash_byte(uint64_t hash, unsigned char byte) {
  return (hash ^ byte) * UINT64_C(0x100000001B3);
}

static inline uint64_t mmci_hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < size; i++) hash = mmci_hash_byte(hash, b[i]);
  return hash;
}

/* Returns the hash of what was hashed before and of the text without its final NUL. */
static inline uint64_t mmci_hash_text(uint64_t hash, const char *text) {
  return mmci_hash_bytes(hash, text, strlen(text));
}

#endif
