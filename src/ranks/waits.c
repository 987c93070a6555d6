/* waits.c: keeps what was touched, by memory, and compares each new deed with it. */
#include "ranks/waits.h"

#include <string.h>

#include "base/alloc.h"

/* Bytes begin to end of one memory, and the deed that touched them. */
typedef struct touched {
  uint64_t begin, end;
  bool writes;
  int32_t deed;
} touched;

typedef struct memory {
  touched *items;
  int64_t count, capacity;
} memory;

/* Memories are the ranks' rooms, and their pieces of the result. What factors are is only read, and
 * the host's memory is written once. */
struct mmci_waits {
  int32_t ranks;
  int32_t
      *latest; /* of every lane of every rank: the last deed that the new one waits for, or -1 */
  memory memories[];
};

mmc_status mmci_waits_create(int32_t ranks, mmci_waits **out, mmci_error *error) {
  const size_t size = sizeof(mmci_waits) + 2 * (size_t)ranks * sizeof(memory);
  mmci_waits *waits = mmci_alloc_zeroed(1, size);
  if (waits == NULL) return mmci_fail_nomem(error, size);
  waits->ranks = ranks;
  waits->latest = mmci_alloc_array((size_t)ranks * MMCI_LANES, sizeof *waits->latest);
  if (waits->latest == NULL) {
    free(waits);
    return mmci_fail_nomem(error, (uint64_t)ranks * MMCI_LANES * sizeof *waits->latest);
  }
  *out = waits;
  return MMC_OK;
}

void mmci_waits_destroy(mmci_waits *waits) {
  if (waits == NULL) return;
  for (int32_t m = 0; m < 2 * waits->ranks; m++) free(waits->memories[m].items);
  free(waits->latest);
  free(waits);
}

static memory *memory_of(mmci_waits *waits, const mmci_spot *spot) {
  if (spot->rank == MMCI_ON_HOST || spot->store == MMCI_IN_FACTOR) return NULL;
  return &waits->memories[spot->rank + (spot->store == MMCI_IN_RESULT ? waits->ranks : 0)];
}

/* Notes what clashes with a touch, and forgets what it stands for from now on. */
static void compare(mmci_waits *waits, const mmci_cards_program *program, memory *m,
                    const touched *now) {
  int64_t kept = 0;
  for (int64_t i = 0; i < m->count; i++) {
    const touched *old = &m->items[i];
    const bool meets = old->begin < now->end && now->begin < old->end && old->deed != now->deed;
    if (meets && (old->writes || now->writes)) {
      const mmci_deed *deed = &program->deeds[old->deed];
      int32_t *latest = &waits->latest[deed->rank * MMCI_LANES + (int32_t)deed->lane];
      if (old->deed > *latest) *latest = old->deed;
    }
    const bool covered = now->writes && meets && old->begin >= now->begin && old->end <= now->end;
    if (!covered) m->items[kept++] = *old;
  }
  m->count = kept;
}

static mmc_status keep(memory *m, const touched *now, mmci_error *error) {
  if (m->count == m->capacity) {
    const int64_t capacity = 2 * m->capacity + 32;
    touched *items = mmci_alloc_array((size_t)capacity, sizeof *items);
    if (items == NULL) return mmci_fail_nomem(error, (uint64_t)capacity * sizeof *items);
    if (m->count > 0) memcpy(items, m->items, (size_t)m->count * sizeof *items);
    free(m->items);
    m->items = items;
    m->capacity = capacity;
  }
  m->items[m->count++] = *now;
  return MMC_OK;
}

static mmc_status add_wait(mmci_cards_program *program, int32_t deed, mmci_error *error) {
  if (program->wait_count == program->wait_room) {
    const int64_t room = 2 * program->wait_room + 64;
    int32_t *grown = mmci_alloc_array((size_t)room, sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, (uint64_t)room * sizeof *grown);
    if (program->wait_count > 0)
      memcpy(grown, program->waits, (size_t)program->wait_count * sizeof *grown);
    free(program->waits);
    program->waits = grown;
    program->wait_room = room;
  }
  if (program->deeds[deed].event < 0) program->deeds[deed].event = program->event_count++;
  program->waits[program->wait_count++] = deed;
  return MMC_OK;
}

mmc_status mmci_waits_add(mmci_waits *waits, mmci_cards_program *program,
                          const mmci_touch touches[MMCI_TOUCHES], mmci_error *error) {
  const int32_t number = (int32_t)(program->deed_count - 1), lanes = waits->ranks * MMCI_LANES;
  mmci_deed *deed = &program->deeds[number];
  for (int32_t l = 0; l < lanes; l++) waits->latest[l] = -1;
  for (int t = 0; t < MMCI_TOUCHES; t++) {
    memory *m = memory_of(waits, &touches[t].spot);
    if (m == NULL || touches[t].bytes == 0) continue;
    const uint64_t begin = touches[t].spot.offset_bytes;
    const touched now = {begin, begin + touches[t].bytes, touches[t].writes, number};
    compare(waits, program, m, &now);
    mmc_status status = keep(m, &now, error);
    if (status != MMC_OK) return status;
  }
  deed->wait_first = program->wait_count;
  for (int32_t l = 0; l < lanes; l++) {
    if (waits->latest[l] < 0 || l == deed->rank * MMCI_LANES + (int32_t)deed->lane) continue;
    mmc_status status = add_wait(program, waits->latest[l], error);
    if (status != MMC_OK) return status;
  }
  deed->wait_count = program->wait_count - deed->wait_first;
  return MMC_OK;
}
