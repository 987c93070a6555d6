#include "device/blas/phases.h"

#include <string.h>

#include "base/alloc.h"

/* Groups for each thread in the first phase, so that all finish together. */
enum { GROUPS_A_THREAD = 4 };
static const double worthwhile = 0.8;

/* A product while groups are formed. */
typedef struct node {
  double seconds;  /* seconds of the sub-tree, without the groups below it */
  int32_t readers; /* how many products read the result */
  int32_t reader;  /* the last product that reads the result; -1 when there is none */
  int32_t phase, group;
  bool is_last; /* whether it is the last product of its group */
} node;

/* Lists the products that product s reads, each once. */
static int children(const mmci_group *group, int32_t s, int32_t out[2]) {
  const mmci_group_product *x = &group->products[s];
  int count = 0;
  if (x->left >= group->n) out[count++] = x->left - group->n;
  if (x->right >= group->n && x->right != x->left) out[count++] = x->right - group->n;
  return count;
}

/* Cuts the tree into sub-trees that take at most limit_s seconds, and where a result has several
 * readers. */
static void cut(const mmci_group *group, const double *seconds, double limit_s, node *nodes) {
  for (int32_t s = 0; s < group->count; s++) nodes[s] = (node){.seconds = seconds[s], .reader = -1};
  for (int32_t s = 0; s < group->count; s++) {
    int32_t below[2];
    int count = children(group, s, below);
    for (int c = 0; c < count; c++) {
      nodes[below[c]].readers++;
      nodes[below[c]].reader = s;
    }
  }
  for (int32_t s = 0; s < group->count; s++) {
    int32_t below[2];
    int count = children(group, s, below);
    double all_s = seconds[s];
    for (int c = 0; c < count; c++)
      if (nodes[below[c]].readers == 1) all_s += nodes[below[c]].seconds;
    for (int c = 0; c < count; c++) {
      node *child = &nodes[below[c]];
      child->is_last = child->readers > 1 || all_s > limit_s;
      if (!child->is_last) nodes[s].seconds += child->seconds;
      int32_t phase = child->phase + (child->is_last ? 1 : 0);
      if (phase > nodes[s].phase) nodes[s].phase = phase;
    }
  }
  for (int32_t s = 0; s < group->count; s++)
    if (nodes[s].readers == 0) nodes[s].is_last = true;
}

/* Estimates the seconds of the phases when their groups are shared out. */
static double shared_s(const node *nodes, int32_t count, int threads, int32_t phase_count,
                       double *sums, double *longest) {
  for (int32_t p = 0; p < phase_count; p++) sums[p] = longest[p] = 0;
  for (int32_t s = 0; s < count; s++) {
    if (!nodes[s].is_last) continue;
    sums[nodes[s].phase] += nodes[s].seconds / threads;
    if (nodes[s].seconds > longest[nodes[s].phase]) longest[nodes[s].phase] = nodes[s].seconds;
  }
  double all_s = 0;
  for (int32_t p = 0; p < phase_count; p++) all_s += sums[p] > longest[p] ? sums[p] : longest[p];
  return all_s;
}

/* Numbers the groups phase by phase and sorts the products by them. */
static void number(node *nodes, int32_t count, mmci_phases *out) {
  for (int32_t p = 0; p < out->phase_count; p++) {
    out->phases[p] = out->group_count;
    for (int32_t s = 0; s < count; s++)
      if (nodes[s].is_last && nodes[s].phase == p) nodes[s].group = out->group_count++;
  }
  out->phases[out->phase_count] = out->group_count;
  for (int32_t s = count - 1; s >= 0; s--)
    if (!nodes[s].is_last) nodes[s].group = nodes[nodes[s].reader].group;
  memset(out->groups, 0, ((size_t)count + 1) * sizeof *out->groups);
  for (int32_t s = 0; s < count; s++) out->groups[nodes[s].group + 1]++;
  for (int32_t g = 0; g < out->group_count; g++) out->groups[g + 1] += out->groups[g];
  for (int32_t s = 0; s < count; s++) out->order[out->groups[nodes[s].group]++] = s;
  memmove(out->groups + 1, out->groups, (size_t)out->group_count * sizeof *out->groups);
  out->groups[0] = 0;
}

static void one_group(int32_t count, mmci_phases *out) {
  for (int32_t s = 0; s < count; s++) out->order[s] = s;
  out->group_count = out->phase_count = 1;
  out->groups[0] = out->phases[0] = 0;
  out->groups[1] = count;
  out->phases[1] = 1;
}

mmc_status mmci_phases_create(const mmci_group *group, const double *seconds, int threads,
                              mmci_phases *out, mmci_error *error) {
  size_t count = (size_t)group->count;
  mmci_phases groups = {.order = mmci_alloc_array(3 * count + 2, sizeof *groups.order)};
  node *nodes = mmci_alloc_array(count, sizeof *nodes);
  double *times = mmci_alloc_array(2 * count, sizeof *times);
  if (groups.order == NULL || nodes == NULL || times == NULL) {
    free(groups.order);
    free(nodes);
    free(times);
    return mmci_fail_nomem(error, count * sizeof *nodes);
  }
  groups.groups = groups.order + count;
  groups.phases = groups.groups + count + 1;

  double all_s = 0;
  for (size_t s = 0; s < count; s++) all_s += seconds[s];
  if (threads > 1) {
    cut(group, seconds, all_s / (GROUPS_A_THREAD * threads), nodes);
    groups.phase_count = nodes[count - 1].phase + 1;
  }
  if (threads > 1 && shared_s(nodes, group->count, threads, groups.phase_count, times,
                              times + count) <= worthwhile * all_s)
    number(nodes, group->count, &groups);
  else
    one_group(group->count, &groups);
  free(nodes);
  free(times);
  *out = groups;
  return MMC_OK;
}

void mmci_phases_destroy(mmci_phases *groups) {
  free(groups->order);
}
