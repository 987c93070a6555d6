/* rooms.h: places for pieces in the memory of a rank, by first fit. */
#ifndef MMCI_RANKS_ROOMS_H
#define MMCI_RANKS_ROOMS_H

#include <stdint.h>

#include "base/status.h"

enum { MMCI_ROOM_ALIGNMENT = 256 }; /* bytes, as CUDA's own allocations have */

typedef struct mmci_room_part {
  uint64_t begin, end;
} mmci_room_part;

/* Parts that are taken, by rising addresses; it starts as {0}. */
typedef struct mmci_room {
  mmci_room_part *parts;
  int64_t count, capacity;
  uint64_t most_bytes; /* the end of the last part that there ever was */
} mmci_room;

/* Takes so many bytes. Returns E_NOMEM, E_OVERFLOW. */
mmc_status mmci_room_take(mmci_room *room, uint64_t bytes, uint64_t *offset_bytes,
                          mmci_error *error);
/* Gives back what begins at this offset. */
void mmci_room_give(mmci_room *room, uint64_t offset_bytes);
void mmci_room_destroy(mmci_room *room);

#endif
