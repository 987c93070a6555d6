#include "structure/rewrite.h"

#include <string.h>

#include "base/alloc.h"
#include "chain/traits.h"

/* A chain while it is written anew. */
typedef struct rewriting {
  const mmc_chain *chain;
  int32_t count; /* places that are filled */
  bool apart;    /* some group was taken apart */
  bool refused;  /* a factor of zeros would be an inverse */
  int32_t *factors, *stored;
  uint32_t *traits;
  mmc_op *ops;
  mmc_band *bands;
  int64_t *dims;
  mmc_inverse *inverses;
  int64_t inverse_count;
} rewriting;

/* Factors first to end-1, the inside of a group or not. */
typedef struct part {
  int32_t first, end;
  bool is_group;
} part;

/* Returns the widest group that begins with factor i and lies in the part, but is not all of it
 * where that is a group; or the factor alone. */
static part item_at(const rewriting *r, part of, int32_t i) {
  part item = {i, i + 1, false};
  for (int32_t g = 0; g < r->chain->inverse_count; g++) {
    const int32_t first = (int32_t)r->chain->inverses[g].first,
                  end = (int32_t)r->chain->inverses[g].last + 1;
    const bool all = of.is_group && first == of.first && end == of.end;
    if (first == i && end <= of.end && end > item.end && !all) item = (part){first, end, true};
  }
  return item;
}

/* Returns the square product that begins with factor i of a group: up to where the side of the
 * group comes again. It is a group itself where it is one of those that are given. */
static part block_at(const rewriting *r, part of, int32_t i) {
  const int64_t *dims = r->chain->dims, side = dims[of.first];
  part block = item_at(r, of, i);
  for (; dims[block.end] != side && block.end < of.end; block.is_group = false)
    block.end = item_at(r, of, block.end).end;
  return block;
}

static void write_factor(rewriting *r, int32_t i, bool inverted) {
  const int32_t at = r->count++;
  r->factors[at] = i;
  r->traits[at] = r->chain->traits[i] ^ (inverted ? (uint32_t)MMC_INVERSE : 0);
  r->refused = r->refused || mmci_traits_have(r->traits[at], MMC_ZERO | MMC_INVERSE);
  r->ops[at] = r->chain->ops[i];
  r->bands[at] = r->chain->bands[i];
  r->dims[at] = r->chain->dims[i];
  r->dims[at + 1] = r->chain->dims[i + 1];
}

static void write_part(rewriting *r, part of);

static void write_group(rewriting *r, part inside) {
  const int64_t first = r->count;
  write_part(r, inside);
  r->inverses[r->inverse_count++] = (mmc_inverse){.first = first, .last = r->count - 1};
}

/* Writes the inverse of the product of a group: those of its blocks, the last one first. */
static void write_inverse(rewriting *r, part group) {
  part last = block_at(r, group, group.first);
  if (last.end == group.end) { /* it is one block */
    write_group(r, group);
    return;
  }
  r->apart = true;
  for (int32_t end = group.end; end > group.first; end = last.first) {
    for (int32_t i = group.first; i < end; i = last.end) last = block_at(r, group, i);
    if (last.end == last.first + 1)
      write_factor(r, last.first, true);
    else if (last.is_group) /* the inverse of an inverse */
      write_part(r, last);
    else
      write_group(r, last);
  }
}

static void write_part(rewriting *r, part of) {
  for (int32_t i = of.first; i < of.end;) {
    const part item = item_at(r, of, i);
    if (item.is_group)
      write_inverse(r, item);
    else
      write_factor(r, i, false);
    i = item.end;
  }
}

/* Says for each place which is the first that is stored in the same matrix. */
static void find_stored(rewriting *r) {
  for (int32_t i = 0; i < r->count; i++) {
    int32_t first = 0;
    while (r->chain->stored[r->factors[first]] != r->chain->stored[r->factors[i]]) first++;
    r->stored[i] = first;
  }
}

mmc_status mmci_structure_rewrite(const mmc_chain *chain, mmci_structure_rewritten *out,
                                  mmci_error *error) {
  const size_t n = (size_t)chain->n, bytes = sizeof(mmc_inverse) + sizeof(int64_t) +
                                             sizeof(mmc_band) + 2 * sizeof(int32_t) +
                                             sizeof(uint32_t) + sizeof(mmc_op);
  *out = (mmci_structure_rewritten){0};
  if (chain->inverse_count == 0) return MMC_OK;
  rewriting r = {.chain = chain, .inverses = mmci_alloc_array(n + 1, bytes)};
  if (r.inverses == NULL) return mmci_fail_nomem(error, (n + 1) * bytes);
  r.dims = (int64_t *)(r.inverses + n);
  r.bands = (mmc_band *)(r.dims + n + 1);
  r.factors = (int32_t *)(r.bands + n);
  r.stored = r.factors + n;
  r.traits = (uint32_t *)(r.stored + n);
  r.ops = (mmc_op *)(r.traits + n);
  write_part(&r, (part){0, chain->n, false});
  find_stored(&r);
  mmc_status status = MMC_OK;
  if (r.apart && !r.refused) status = mmci_chain_copy(chain, &out->chain, error);
  if (out->chain == NULL) {
    free(r.inverses);
    return status;
  }
  *out = (mmci_structure_rewritten){out->chain, r.factors, r.inverses};
  out->chain->inverses = r.inverses;
  out->chain->inverse_count = (int32_t)r.inverse_count;
  out->chain->same = out->chain->shared = NULL;
  memcpy(out->chain->dims, r.dims, (n + 1) * sizeof *r.dims);
  memcpy(out->chain->ops, r.ops, n * sizeof *r.ops);
  memcpy(out->chain->traits, r.traits, n * sizeof *r.traits);
  memcpy(out->chain->bands, r.bands, n * sizeof *r.bands);
  memcpy(out->chain->stored, r.stored, n * sizeof *r.stored);
  return MMC_OK;
}

void mmci_structure_rewritten_destroy(mmci_structure_rewritten *rewritten) {
  mmc_chain_destroy(rewritten->chain);
  free(rewritten->inverses);
  *rewritten = (mmci_structure_rewritten){0};
}
