/* rooms.c: first fit. */
#include "ranks/rooms.h"

#include <string.h>

#include "base/alloc.h"

static mmc_status grow(mmci_room *room, mmci_error *error) {
  if (room->count < room->capacity) return MMC_OK;
  const int64_t capacity = 2 * room->capacity + 16;
  mmci_room_part *parts = mmci_alloc_array((size_t)capacity, sizeof *parts);
  if (parts == NULL) return mmci_fail_nomem(error, (uint64_t)capacity * sizeof *parts);
  if (room->count > 0) memcpy(parts, room->parts, (size_t)room->count * sizeof *parts);
  free(room->parts);
  room->parts = parts;
  room->capacity = capacity;
  return MMC_OK;
}

mmc_status mmci_room_take(mmci_room *room, uint64_t bytes, uint64_t *offset_bytes,
                          mmci_error *error) {
  if (bytes > INT64_MAX / 2)
    return mmci_fail(error, MMC_E_OVERFLOW, "a piece takes more bytes than there can be");
  mmc_status status = grow(room, error);
  if (status != MMC_OK) return status;
  const uint64_t step = MMCI_ROOM_ALIGNMENT, size = (bytes + step - 1) / step * step + step;
  uint64_t begin = 0;
  int64_t at = 0;
  while (at < room->count && room->parts[at].begin - begin < size) begin = room->parts[at++].end;
  if (begin > INT64_MAX / 2)
    return mmci_fail(error, MMC_E_OVERFLOW, "the pieces take more bytes than there can be");
  memmove(&room->parts[at + 1], &room->parts[at], (size_t)(room->count - at) * sizeof *room->parts);
  room->parts[at] = (mmci_room_part){begin, begin + size};
  room->count++;
  if (begin + size > room->most_bytes) room->most_bytes = begin + size;
  *offset_bytes = begin;
  return MMC_OK;
}

void mmci_room_give(mmci_room *room, uint64_t offset_bytes) {
  int64_t at = 0;
  while (at < room->count && room->parts[at].begin != offset_bytes) at++;
  if (at == room->count) return;
  room->count--;
  memmove(&room->parts[at], &room->parts[at + 1], (size_t)(room->count - at) * sizeof *room->parts);
}

void mmci_room_destroy(mmci_room *room) {
  free(room->parts);
  *room = (mmci_room){0};
}
