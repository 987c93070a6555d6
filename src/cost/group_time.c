#include "cost/group_time.h"

#include <math.h>

#include "base/lesser.h"

/* ---- facts --------------------------------------------------------------------------------- */

mmci_group_facts mmci_group_facts_of(const mmci_facts *facts, const mmci_roofline *roofline) {
  return (mmci_group_facts){.launch_s = roofline->launch_s,
                            .bytes_per_s = roofline->bytes_per_s,
                            .flops_per_s = roofline->flops_per_s * facts->group_share,
                            .caches = roofline->caches,
                            .share_s = roofline->share.least_s,
                            .product_s = facts->product_s,
                            .handover_s = facts->handover_s,
                            .width = facts->workers,
                            .tile = facts->tile,
                            .error = fmax(roofline->error, 0.5),
                            .keeps_common = facts->keeps_common != 0,
                            .modelled_side = facts->modelled_side,
                            .pairs = {facts->pairs[0], facts->pairs[1]}};
}

static bool is_modelled(const mmci_group_facts *facts, const mmci_group_part *parts,
                        int32_t count) {
  const int64_t side = facts->modelled_side;
  for (int32_t i = 0; side > 0 && i < count; i++)
    if (parts[i].m > side || parts[i].k > side || parts[i].n > side) return false;
  return true;
}

bool mmci_group_gains(const mmci_group_facts *facts, int64_t batch, const mmci_group_part *parts,
                      int32_t count) {
  if (is_modelled(facts, parts, count)) return true;
  if (count != 2) return false;
  const mmci_group_part *inner = &parts[0], *outer = &parts[1];
  /* Transposed, A (B C) is a pair (C' B') A', so both kinds are judged alike. */
  const int64_t first[] = {inner->m, inner->k, inner->n}, then[] = {outer->m, outer->k, outer->n};
  return mmci_pair_gains(facts->pairs, batch, first, then, outer->left == 0);
}

/* ---- the schedule -------------------------------------------------------------------------- */

typedef struct schedule {
  const mmci_group_facts *facts;
  double *done_s;  /* when a product is done, in seconds */
  double *free_s;  /* when a worker is free again, in seconds */
  int32_t *worker; /* the worker that does a product */
  int32_t workers; /* the number of workers that may have a product */
} schedule;

/* Returns how many workers may have a product: no more than there are products. */
static int32_t workers_of(const mmci_group_facts *facts, int32_t count) {
  return facts->width < count ? facts->width : count;
}

size_t mmci_group_scratch_bytes(const mmci_group_facts *facts, int32_t count) {
  size_t workers = (size_t)workers_of(facts, count), products = (size_t)count;
  return (products + workers) * sizeof(double) + products * sizeof(int32_t);
}

static double tiles(int64_t length, int32_t tile) {
  return ceil((double)length / tile);
}

/* Returns how many workers share a product. */
static double helpers_of(const mmci_group_facts *f, const mmci_group_part *x) {
  if (x->m <= f->tile && x->n <= f->tile) return 1;
  return mmci_lesser(mmci_greater(tiles(x->m, f->tile) * tiles(x->n, f->tile), 1), f->width);
}

static int32_t idlest(const schedule *s) {
  int32_t best = 0;
  for (int32_t w = 1; w < s->workers; w++)
    if (s->free_s[w] < s->free_s[best]) best = w;
  return best;
}

/* Returns the moment at which the operand is at the worker. */
static double arrives(const schedule *s, int32_t operand, int32_t worker) {
  if (operand < 0) return 0;
  return s->done_s[operand] + (s->worker[operand] != worker ? s->facts->handover_s : 0);
}

static void assign_worker(schedule *s, const mmci_group_part *x, int32_t index, double seconds) {
  int32_t late = x->left;
  if (late < 0 || (x->right >= 0 && s->done_s[x->right] > s->done_s[late])) late = x->right;
  int32_t worker = late >= 0 ? s->worker[late] : idlest(s);
  double start = mmci_greater(
      s->free_s[worker], mmci_greater(arrives(s, x->left, worker), arrives(s, x->right, worker)));
  s->worker[index] = worker;
  s->done_s[index] = s->free_s[worker] = start + seconds;
}

double mmci_group_seconds(const mmci_group_facts *f, mmc_dtype dtype, int64_t batch,
                          const mmci_group_part *parts, int32_t count, void *scratch) {
  schedule s = {.facts = f, .done_s = scratch, .workers = workers_of(f, count)};
  s.free_s = s.done_s + count;
  s.worker = (int32_t *)(s.free_s + s.workers);
  for (int32_t w = 0; w < s.workers; w++) s.free_s[w] = 0;
  const double rate = f->flops_per_s / f->width; /* of one worker */
  double work = 0, elements = (double)parts[count - 1].m * (double)parts[count - 1].n;
  for (int32_t i = 0; i < count; i++) {
    const mmci_group_part *x = &parts[i];
    const double flops = mmci_flops(dtype, x->m, x->k, x->n), alone_s = f->product_s + flops / rate,
                 helpers = helpers_of(f, x);
    assign_worker(&s, x, i, helpers > 1 ? f->product_s + flops / (rate * helpers) : alone_s);
    work += alone_s;
    if (x->left < 0) elements += (double)x->m * (double)x->k;
    if (x->right < 0) elements += (double)x->k * (double)x->n;
  }
  double bytes = elements * (double)mmc_dtype_size(dtype) * (double)batch;
  const mmci_share share = {f->width, f->share_s};
  /* One worker may do it all, which hands nothing over. */
  const double one_s = mmci_lesser(s.done_s[count - 1], work),
               longest =
                   mmci_greater(one_s, mmci_shared_s(&share, work * (double)batch / f->width));
  const double all_s = mmci_greater(mmci_traffic_s(&f->caches, f->bytes_per_s, bytes), longest);
  if (batch <= 1) return f->launch_s + (batch > 0 ? all_s : 0);
  /* One chain after the other finds its matrices in the caches, so that all take no longer. */
  const double bytes_of_one = bytes / (double)batch;
  const double single_s =
      f->launch_s + mmci_greater(mmci_traffic_s(&f->caches, f->bytes_per_s, bytes_of_one), one_s);
  return mmci_lesser(f->launch_s + all_s, (double)batch * single_s);
}
