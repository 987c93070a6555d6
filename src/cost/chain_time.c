#include "cost/chain_time.h"

#include <math.h>
#include <string.h>

/* ---- facts --------------------------------------------------------------------------------- */

mmci_chain_facts mmci_chain_facts_of(const char *device, const mmci_roofline *roofline) {
  static const struct {
    const char *device;
    double share; /* of the peak, in small tiles */
    double product_s, handover_s;
    int32_t width, tile;
  } kinds[] = {
      {"ref", 1, 1e-8, 0, 1, 1},
      {"cuda", 0.6, 4e-7, 1.5e-6, 132, 64},
      {"", 0.4, 3e-8, 1e-6, 2, 128},
  };
  size_t k = 0;
  while (kinds[k].device[0] != '\0' && strcmp(kinds[k].device, device) != 0) k++;
  return (mmci_chain_facts){.launch_s = roofline->launch_s,
                            .bytes_per_s = roofline->bytes_per_s,
                            .flops_per_s = roofline->flops_per_s * kinds[k].share,
                            .product_s = kinds[k].product_s,
                            .handover_s = kinds[k].handover_s,
                            .width = kinds[k].width,
                            .tile = kinds[k].tile,
                            .error = fmax(roofline->error, 0.5)};
}

/* ---- the schedule -------------------------------------------------------------------------- */

typedef struct schedule {
  const mmci_chain_facts *facts;
  double *done_s;  /* of a product */
  double *free_s;  /* of a worker: when it has done what it was given */
  int32_t *worker; /* of a product */
} schedule;

size_t mmci_chain_scratch_bytes(const mmci_chain_facts *facts, int32_t count) {
  size_t workers = (size_t)facts->width, products = (size_t)count;
  return (products + workers) * sizeof(double) + products * sizeof(int32_t);
}

static double tiles(int64_t length, int32_t tile) {
  return ceil((double)length / tile);
}

/* How long a product takes the workers that share it. */
static double product_seconds(const mmci_chain_facts *f, mmc_dtype dtype, const mmci_part *x) {
  double helpers = fmin(fmax(tiles(x->m, f->tile) * tiles(x->n, f->tile), 1), f->width);
  double rate = f->flops_per_s / f->width * helpers;
  return f->product_s + mmci_flops(dtype, x->m, x->k, x->n) / rate;
}

static int32_t idlest(const schedule *s) {
  int32_t best = 0;
  for (int32_t w = 1; w < s->facts->width; w++)
    if (s->free_s[w] < s->free_s[best]) best = w;
  return best;
}

/* When the operand is at the worker. */
static double arrives(const schedule *s, int32_t operand, int32_t worker) {
  if (operand < 0) return 0;
  return s->done_s[operand] + (s->worker[operand] != worker ? s->facts->handover_s : 0);
}

static void assign(schedule *s, const mmci_part *x, int32_t index, double seconds) {
  int32_t late = x->left;
  if (late < 0 || (x->right >= 0 && s->done_s[x->right] > s->done_s[late])) late = x->right;
  int32_t worker = late >= 0 ? s->worker[late] : idlest(s);
  double start =
      fmax(s->free_s[worker], fmax(arrives(s, x->left, worker), arrives(s, x->right, worker)));
  s->worker[index] = worker;
  s->done_s[index] = s->free_s[worker] = start + seconds;
}

double mmci_chain_seconds(const mmci_chain_facts *f, mmc_dtype dtype, int64_t batch,
                          const mmci_part *parts, int32_t count, void *scratch) {
  schedule s = {.facts = f, .done_s = scratch};
  s.free_s = s.done_s + count;
  s.worker = (int32_t *)(s.free_s + f->width);
  memset(s.free_s, 0, (size_t)f->width * sizeof *s.free_s);
  double work = 0, elements = (double)parts[count - 1].m * (double)parts[count - 1].n;
  for (int32_t i = 0; i < count; i++) {
    const mmci_part *x = &parts[i];
    assign(&s, x, i, product_seconds(f, dtype, x));
    work += f->product_s + mmci_flops(dtype, x->m, x->k, x->n) / (f->flops_per_s / f->width);
    if (x->left < 0) elements += (double)x->m * (double)x->k;
    if (x->right < 0) elements += (double)x->k * (double)x->n;
  }
  double bytes = elements * (double)mmc_dtype_size(dtype) * (double)batch;
  double longest = fmax(s.done_s[count - 1], work * (double)batch / f->width);
  return f->launch_s + fmax(bytes / f->bytes_per_s, batch > 0 ? longest : 0);
}
