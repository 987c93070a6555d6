/* table.c: the table of one fingerprint in memory. Products lie in a hash table with open
 * addressing and linear probing, at most half full; facts in as many lists as keep each short in an
 * average store; arrays, of which there are few, in one list. */
#include "wisdom/table.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "wisdom/record.h"

/* Records are copied into blocks, which are released all at once. */
typedef struct block {
  struct block *next;
  _Alignas(16) char bytes[];
} block;

typedef struct array_entry {
  struct array_entry *next;
  mmci_wisdom_array array;
} array_entry;

typedef struct fact_entry {
  struct fact_entry *next;
  mmci_wisdom_fact fact;
} fact_entry;

enum { FACT_LISTS = 256 };

struct mmci_wisdom_table {
  atomic_long references;
  mmci_fingerprint fingerprint;
  mmci_table_stamp stamp;
  mmci_wisdom_table *next;       /* the next table in the cache */
  size_t count, slots;           /* slots is 0 or a power of two above 2 * count */
  mmci_wisdom_product *products; /* a slot without a recipe is free */
  /* 8 bits for each slot, of which those of the products' hashes are set. Plans ask for many
   * products that are not there, and these bits stay in the caches. */
  uint64_t *filter;
  array_entry *arrays;
  fact_entry *facts[FACT_LISTS]; /* heads of lists of facts, chosen by the hash of their names */
  block *blocks;
  size_t left; /* bytes free at the end of the first block */
  char *top;   /* the address at which the free bytes begin */
};

/* ---- memory -------------------------------------------------------------------------------- */

enum { BLOCK_SIZE = 1 << 16 };

/* Returns memory aligned for anything; NULL when there is none. */
static void *take_memory(mmci_wisdom_table *table, size_t size) {
  size = (size + 15) & ~(size_t)15;
  if (size > table->left) {
    size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    block *fresh = mmci_alloc_array(sizeof *fresh + room, 1);
    if (fresh == NULL) return NULL;
    fresh->next = table->blocks;
    table->blocks = fresh;
    table->top = fresh->bytes;
    table->left = room;
  }
  void *taken = table->top;
  table->top += size;
  table->left -= size;
  return taken;
}

static void *take_copy(mmci_wisdom_table *table, const void *bytes, size_t size) {
  void *copy = take_memory(table, size);
  if (copy != NULL) memcpy(copy, bytes, size);
  return copy;
}

static char *take_text(mmci_wisdom_table *table, const char *text) {
  return take_copy(table, text, strlen(text) + 1);
}

/* ---- products ------------------------------------------------------------------------------ */

static uint64_t stir(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 29;
}

static uint64_t hash_of(const mmci_wisdom_key *key) {
  const uint64_t words =
      (uint64_t)key->op_a << 8 | (uint64_t)key->op_b << 4 | (uint64_t)key->objective;
  /* Odd numbers without a pattern make sums that sizes share rarely. */
  return stir(words, (uint64_t)key->m * UINT64_C(0xD6E8FEB86659FD93) +
                         (uint64_t)key->k * UINT64_C(0xA0761D6478BD642F) +
                         (uint64_t)key->n * UINT64_C(0xE7037ED1A0B428DB));
}

static bool same_key(const mmci_wisdom_key *a, const mmci_wisdom_key *b) {
  return a->m == b->m && a->k == b->k && a->n == b->n && a->op_a == b->op_a && a->op_b == b->op_b &&
         a->objective == b->objective;
}

/* Returns two bits of a word of the filter. */
static uint64_t bits_of(uint64_t hash) {
  return UINT64_C(1) << (hash >> 58) | UINT64_C(1) << (hash >> 52 & 63);
}

static uint64_t *word_of(const mmci_wisdom_table *table, uint64_t hash) {
  return &table->filter[hash >> 32 & (table->slots / 8 - 1)];
}

/* Returns the slot that holds the key, or the free slot where it would go. */
static mmci_wisdom_product *seek(const mmci_wisdom_table *table, const mmci_wisdom_key *key,
                                 uint64_t hash) {
  size_t slot = (size_t)(hash ^ hash >> 32) & (table->slots - 1);
  while (table->products[slot].recipe != NULL && !same_key(&table->products[slot].key, key))
    slot = (slot + 1) & (table->slots - 1);
  return &table->products[slot];
}

static void put_product(mmci_wisdom_table *table, const mmci_wisdom_product *product) {
  const uint64_t hash = hash_of(&product->key);
  *seek(table, &product->key, hash) = *product;
  *word_of(table, hash) |= bits_of(hash);
}

static mmc_status grow_slots(mmci_wisdom_table *table, mmci_error *error) {
  mmci_wisdom_table grown = {.slots = table->slots == 0 ? 16 : 2 * table->slots};
  grown.products = mmci_alloc_zeroed(grown.slots, sizeof *grown.products + 1);
  if (grown.products == NULL)
    return mmci_fail_nomem(error, (uint64_t)grown.slots * (sizeof *grown.products + 1));
  grown.filter = (uint64_t *)(grown.products + grown.slots);
  for (size_t s = 0; s < table->slots; s++)
    if (table->products[s].recipe != NULL) put_product(&grown, &table->products[s]);
  free(table->products);
  table->products = grown.products;
  table->filter = grown.filter;
  table->slots = grown.slots;
  return MMC_OK;
}

static mmc_status add_product(mmci_wisdom_table *table, const mmci_wisdom_product *product,
                              mmci_error *error) {
  mmc_status status = 2 * (table->count + 1) >= table->slots ? grow_slots(table, error) : MMC_OK;
  if (status != MMC_OK) return status;
  mmci_wisdom_product copy = *product;
  copy.recipe = take_text(table, product->recipe);
  copy.source = take_text(table, product->source);
  if (copy.recipe == NULL || copy.source == NULL) return mmci_fail_nomem(error, BLOCK_SIZE);
  put_product(table, &copy);
  table->count++;
  return MMC_OK;
}

bool mmci_wisdom_has_products(const mmci_wisdom_table *table) {
  return table->count > 0;
}

const mmci_wisdom_product *mmci_wisdom_find(const mmci_wisdom_table *table,
                                            const mmci_wisdom_key *key) {
  if (table->count == 0) return NULL;
  const uint64_t hash = hash_of(key);
  if ((bits_of(hash) & ~*word_of(table, hash)) != 0) return NULL;
  const mmci_wisdom_product *found = seek(table, key, hash);
  return found->recipe != NULL ? found : NULL;
}

/* ---- arrays and facts ---------------------------------------------------------------------- */

static mmc_status add_array(mmci_wisdom_table *table, const mmci_wisdom_array *array,
                            mmci_error *error) {
  array_entry *entry = take_memory(table, sizeof *entry);
  if (entry == NULL) return mmci_fail_nomem(error, BLOCK_SIZE);
  *entry = (array_entry){.next = table->arrays, .array = *array};
  mmci_wisdom_grid *grid = &entry->array.grid;
  size_t size = mmci_grid_size(grid) * sizeof *grid->values;
  grid->values = take_copy(table, grid->values, size);
  bool fits = grid->values != NULL;
  for (int d = 0; d < 3; d++) {
    grid->axis[d] = take_copy(table, grid->axis[d], (size_t)grid->count[d] * sizeof(int64_t));
    fits = fits && grid->axis[d] != NULL;
  }
  if (!fits) return mmci_fail_nomem(error, size);
  table->arrays = entry;
  return MMC_OK;
}

const mmci_wisdom_array *mmci_wisdom_find_array(const mmci_wisdom_table *table, mmc_op op_a,
                                                mmc_op op_b, mmci_wisdom_objective objective) {
  for (const array_entry *e = table->arrays; e != NULL; e = e->next)
    if (e->array.op_a == op_a && e->array.op_b == op_b && e->array.objective == objective)
      return &e->array;
  return NULL;
}

static size_t list_of(const char *name) {
  uint64_t hash = 1;
  for (; *name != '\0'; name++) hash = stir(hash, (unsigned char)*name);
  return (size_t)(hash ^ hash >> 32) % FACT_LISTS;
}

static mmc_status add_fact(mmci_wisdom_table *table, const mmci_wisdom_fact *fact,
                           mmci_error *error) {
  fact_entry *entry = take_memory(table, sizeof *entry);
  char *name = take_text(table, fact->name);
  if (entry == NULL || name == NULL) return mmci_fail_nomem(error, BLOCK_SIZE);
  fact_entry **list = &table->facts[list_of(name)];
  *entry = (fact_entry){.next = *list, .fact = *fact};
  entry->fact.name = name;
  *list = entry;
  return MMC_OK;
}

const mmci_wisdom_fact *mmci_wisdom_find_fact(const mmci_wisdom_table *table, const char *name) {
  for (const fact_entry *e = table->facts[list_of(name)]; e != NULL; e = e->next)
    if (strcmp(e->fact.name, name) == 0) return &e->fact;
  return NULL;
}

void mmci_wisdom_each_fact(const mmci_wisdom_table *table, const char *beginning,
                           void (*visit)(void *user, const mmci_wisdom_fact *fact), void *user) {
  size_t length = strlen(beginning);
  for (size_t l = 0; l < FACT_LISTS; l++)
    for (const fact_entry *e = table->facts[l]; e != NULL; e = e->next)
      if (strncmp(e->fact.name, beginning, length) == 0) visit(user, &e->fact);
}

static void note(void *user, const mmci_wisdom_fact *fact) {
  (void)fact;
  *(bool *)user = true;
}

bool mmci_wisdom_has_facts(const mmci_wisdom_table *table, const char *beginning) {
  bool found = false;
  mmci_wisdom_each_fact(table, beginning, note, &found);
  return found;
}

/* ---- tables -------------------------------------------------------------------------------- */

mmc_status mmci_table_create(const mmci_fingerprint *fingerprint, mmci_table_stamp stamp,
                             mmci_wisdom_table **out, mmci_error *error) {
  mmci_wisdom_table *table = mmci_alloc_zeroed(1, sizeof *table);
  if (table == NULL) return mmci_fail_nomem(error, sizeof *table);
  atomic_init(&table->references, 1);
  table->fingerprint = *fingerprint;
  table->stamp = stamp;
  *out = table;
  return MMC_OK;
}

void mmci_wisdom_release(mmci_wisdom_table *table) {
  if (table == NULL || atomic_fetch_sub(&table->references, 1) != 1) return;
  for (block *b = table->blocks, *next; b != NULL; b = next) {
    next = b->next;
    free(b);
  }
  free(table->products);
  free(table);
}

mmc_status mmci_table_add(void *user, const mmci_wisdom_record *record, mmci_error *error) {
  mmci_wisdom_table *table = user;
  switch (record->kind) {
    case MMCI_WISDOM_PRODUCT:
      return add_product(table, &record->product, error);
    case MMCI_WISDOM_ARRAY:
      return add_array(table, &record->array, error);
    case MMCI_WISDOM_FACT:
      return add_fact(table, &record->fact, error);
    default:
      return MMC_OK;
  }
}

/* ---- the cache ----------------------------------------------------------------------------- */

static mmci_wisdom_table **place_of_table(mmci_table_cache *cache,
                                          const mmci_fingerprint *fingerprint) {
  mmci_wisdom_table **at = &cache->first;
  while (*at != NULL && !mmci_fingerprint_equal(&(*at)->fingerprint, fingerprint))
    at = &(*at)->next;
  return at;
}

mmci_wisdom_table *mmci_table_cached(mmci_table_cache *cache, const mmci_fingerprint *fingerprint,
                                     mmci_table_stamp stamp) {
  mmci_wisdom_table *table = *place_of_table(cache, fingerprint);
  if (table == NULL || table->stamp.generation != stamp.generation ||
      table->stamp.data_version != stamp.data_version)
    return NULL;
  atomic_fetch_add(&table->references, 1);
  return table;
}

void mmci_table_keep(mmci_table_cache *cache, mmci_wisdom_table *table) {
  mmci_wisdom_table **at = place_of_table(cache, &table->fingerprint), *old = *at;
  atomic_fetch_add(&table->references, 1);
  table->next = old != NULL ? old->next : NULL;
  *at = table;
  mmci_wisdom_release(old);
}

void mmci_table_drop_all(mmci_table_cache *cache) {
  while (cache->first != NULL) {
    mmci_wisdom_table *table = cache->first;
    cache->first = table->next;
    mmci_wisdom_release(table);
  }
}
