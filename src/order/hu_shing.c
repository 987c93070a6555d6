/* hu_shing.c: the cheapest order in O(n log n) time and O(n) memory.
 *
 * Hu and Shing, "Computation of matrix chain products", part I, SIAM J. Comput. 11(2), 1982, and
 * part II, 13(2), 1984. The chain is a convex polygon whose vertices carry the dims as weights; an
 * order is a partition into triangles, a triangle costs the product of its three weights.
 *
 * A diagonal (u, v) can only be in an optimal partition when every vertex on the far side of it,
 * seen from the lightest vertex V1, weighs at least as much as u and v (a "potential h-arc"). There
 * are fewer than n of them, no two cross, and a sweep with a stack finds them all. So they form
 * a tree under the whole polygon. Between an arc and the arcs chosen below it (its "ceilings") lies
 * a region, which is best cut into a fan from its lightest vertex, the lighter end of the arc.
 *
 * An arc below a fan from a vertex of weight w pays when its support weight
 *     S = (cost of the partition below it) / (boundary products below it - product of its ends)
 * is less than w. S is a ratio, numerator / denominator here. Walking up the tree, each arc keeps
 * a heap of the arcs present below it, the greatest S on top:
 *   - those with S >= the arc's own lighter end are dropped: the fan takes their region over;
 *   - those with S >= the arc's own S can only be present when the arc itself is: they are
 *     condensed into it.
 * What is still in the heap at the root is present in the optimal partition.
 *
 * Ties: of equal weights the one further left counts as the lighter, and an arc that does not pay
 * is dropped. order.h states the order that results. */
#include "base/alloc.h"
#include "order/order.h"

static bool applicable(const mmci_order_problem *problem, const char **reason) {
  if (problem->price != NULL) {
    *reason = "it minimises multiplications, not any other price";
    return false;
  }
  /* Numerators are sums of at most n products of three dims. */
  int64_t max = 0;
  for (int32_t t = 0; t <= problem->n; t++)
    if (problem->dims[t] > max) max = problem->dims[t];
  *reason = "it needs n+1 times the largest dim cubed to be below 2^127";
  mmci_u128 bound = mmci_u128_mul(mmci_multiplications(max, max, max), (mmci_u128)problem->n + 1);
  return bound < MMCI_U128_MAX / 2;
}

enum { NONE = -1 };

/* A potential h-arc between vertices u < v, numbered around the polygon from V1 = 0. */
typedef struct arc {
  mmci_u128 numerator;   /* cost of the partition below, with what is condensed into it */
  mmci_u128 denominator; /* base(), less the denominators of the other arcs present below */
  double support;        /* numerator / denominator, rounded */
  int64_t weight;        /* weight of the lighter end */
  int32_t u, v;
  int32_t heap; /* the arc of greatest S among those present below this one, and this one */
  int32_t child, sibling;   /* the first child and the next sibling in a pairing heap */
  int32_t below_u, below_v; /* the arc present before it that starts at u, that ends at v */
  int32_t held, held_last;  /* list of the arcs condensed into it */
  int32_t held_next;        /* the next arc in the list of the arc that it is condensed into */
  bool u_lighter, present;
} arc;

typedef struct triangle {
  int32_t first, split, last; /* vertices in the chain's numbering, ascending */
  int32_t next;               /* the next triangle with the same last, then with the same first */
} triangle;

typedef struct polygon {
  int32_t n;        /* how many vertices there are */
  int32_t lightest; /* vertex 0 of the polygon is this one of the chain */
  int32_t arc_count, triangle_count;
  arc *arcs;           /* children before parents; the whole polygon, (0, n), last */
  mmci_u128 *boundary; /* n+1 sums: boundary[t] adds weight[s] * weight[s+1] over s < t */
  int64_t *weight;     /* weights of the n+1 vertices from the lightest on; weight[n] = weight[0] */
  triangle *triangles; /* n-2 triangles */
  /* For each of n+1 vertices, the youngest arc present that starts (ends) there. */
  int32_t *from, *to;
  int32_t *stack; /* n+1 entries */
} polygon;

/* ---- the potential h-arcs ------------------------------------------------------------------ */

static int32_t place_in_chain(const polygon *g, int32_t t) {
  t += g->lightest;
  return t < g->n ? t : t - g->n;
}

/* Says whether vertex s is heavier than t; of equal weights, the one further right in the chain
 * is. */
static bool heavier(const polygon *g, int32_t s, int32_t t) {
  if (g->weight[s] != g->weight[t]) return g->weight[s] > g->weight[t];
  return place_in_chain(g, s) > place_in_chain(g, t);
}

static mmci_u128 side(const polygon *g, int32_t u, int32_t v) {
  return (mmci_u128)(uint64_t)g->weight[u] * (uint64_t)g->weight[v];
}

/* Returns the products along the boundary between u and v, less that of u and v: all denominators
 * below the arc together. */
static mmci_u128 base(const polygon *g, const arc *a) {
  return g->boundary[a->v] - g->boundary[a->u] - side(g, a->u, a->v);
}

static void add_arc(polygon *g, int32_t u, int32_t v) {
  bool u_lighter = v == g->n || heavier(g, v, u);
  g->arcs[g->arc_count++] = (arc){
      .u = u,
      .v = v,
      .u_lighter = u_lighter,
      .weight = g->weight[u_lighter ? u : v],
      .heap = NONE,
      .child = NONE,
      .sibling = NONE,
      .held = NONE,
      .held_next = NONE,
  };
}

/* The sweep of part II: a vertex heavier than the next is a local maximum among those left, and its
 * neighbours are the ends of an h-arc. Arcs from vertex 0 are left out: they are sides of the fan
 * from V1 whenever they matter. */
static void find_arcs(polygon *g) {
  int32_t top = 0;
  for (int32_t t = 0; t < g->n; t++) {
    while (top >= 2 && heavier(g, g->stack[top - 1], t)) {
      top--;
      if (g->stack[top - 1] != 0) add_arc(g, g->stack[top - 1], t);
    }
    g->stack[top++] = t;
  }
  add_arc(g, 0, g->n);
}

/* ---- the heap of arcs present -------------------------------------------------------------- */

/* Returns the sign of S - ratio by the rounded quotients; 0 when they are closer than their
 * error. */
static int rounded_sign(double support, double ratio) {
  double difference = support - ratio, margin = 1e-13 * (support + ratio);
  return difference > margin ? 1 : difference < -margin ? -1 : 0;
}

static bool support_at_least(const arc *a, const arc *b) {
  int sign = rounded_sign(a->support, b->support);
  if (sign != 0) return sign > 0;
  return mmci_ratio_compare(a->numerator, a->denominator, b->numerator, b->denominator) >= 0;
}

static bool support_at_least_weight(const arc *a, int64_t weight) {
  int sign = rounded_sign(a->support, (double)weight);
  if (sign != 0) return sign > 0;
  return a->numerator >= a->denominator * (uint64_t)weight;
}

static int32_t heap_merge(polygon *g, int32_t x, int32_t y) {
  if (x == NONE) return y;
  if (y == NONE) return x;
  if (!support_at_least(&g->arcs[x], &g->arcs[y])) {
    int32_t other = x;
    x = y;
    y = other;
  }
  g->arcs[y].sibling = g->arcs[x].child;
  g->arcs[x].child = y;
  return x;
}

/* Removes the top of the heap and returns the rest: children are merged in pairs, then the pairs
 * from the last to the first. */
static int32_t heap_pop(polygon *g, int32_t top) {
  int32_t next = g->arcs[top].child, pairs = NONE;
  while (next != NONE) {
    int32_t x = next, y = g->arcs[x].sibling;
    next = y != NONE ? g->arcs[y].sibling : NONE;
    int32_t pair = heap_merge(g, x, y);
    g->arcs[pair].sibling = pairs;
    pairs = pair;
  }
  int32_t heap = NONE;
  while (pairs != NONE) {
    int32_t pair = pairs;
    pairs = g->arcs[pair].sibling;
    heap = heap_merge(g, heap, pair);
  }
  return heap;
}

/* ---- which arcs are present ---------------------------------------------------------------- */

static void drop_vertex(polygon *g, int32_t x) {
  g->arcs[x].present = false;
  for (int32_t t = g->arcs[x].held; t != NONE; t = g->arcs[t].held_next) g->arcs[t].present = false;
}

/* Condenses x, and what it holds, into a: from now on they are present exactly when a is. */
static void condense(polygon *g, arc *a, int32_t x) {
  arc *b = &g->arcs[x];
  b->held_next = b->held;
  if (a->held == NONE)
    a->held = x;
  else
    g->arcs[a->held_last].held_next = x;
  a->held_last = b->held != NONE ? b->held_last : x;
}

/* Returns the product of the lighter end of a with its neighbour on the boundary of the region
 * below a: the boundary product that the fan does not pay. The outermost arc present at that end is
 * the youngest one, since those below a that share an end nest, and the outer has the greater S, so
 * that they leave in the opposite order. */
static mmci_u128 unpaid_side(polygon *g, const arc *a) {
  if (a->v == g->n) /* a fan from V1 leaves out both its sides */
    return side(g, 0, 1) + side(g, 0, g->n - 1);
  int32_t end = a->u_lighter ? a->u : a->v, neighbour = a->u_lighter ? a->u + 1 : a->v - 1;
  int32_t *outer = a->u_lighter ? &g->from[end] : &g->to[end];
  while (*outer != NONE && !g->arcs[*outer].present)
    *outer = a->u_lighter ? g->arcs[*outer].below_u : g->arcs[*outer].below_v;
  if (*outer == NONE) return side(g, end, neighbour);
  return side(g, g->arcs[*outer].u, g->arcs[*outer].v);
}

static void set_fan_cost(polygon *g, arc *a) {
  a->numerator = (a->denominator + side(g, a->u, a->v) - unpaid_side(g, a)) * (uint64_t)a->weight;
}

static void set_support(arc *a) {
  a->support = mmci_u128_to_double(a->numerator) / mmci_u128_to_double(a->denominator);
}

static void choose_arcs(polygon *g) {
  for (int32_t t = 0; t <= g->n; t++) g->from[t] = g->to[t] = NONE;
  int32_t top = 0; /* height of the stack of finished arcs without a parent */
  for (int32_t x = 0; x < g->arc_count; x++) {
    arc *a = &g->arcs[x];
    int32_t heap = NONE;
    a->denominator = base(g, a);
    while (top != 0 && g->arcs[g->stack[top - 1]].u >= a->u) {
      const arc *child = &g->arcs[g->stack[--top]];
      a->denominator -= base(g, child);
      heap = heap_merge(g, heap, child->heap);
    }
    while (heap != NONE && support_at_least_weight(&g->arcs[heap], a->weight)) {
      a->denominator += g->arcs[heap].denominator;
      drop_vertex(g, heap);
      heap = heap_pop(g, heap);
    }
    if (x == g->arc_count - 1) break; /* the whole polygon is no arc */
    set_fan_cost(g, a);
    set_support(a);
    while (heap != NONE && support_at_least(&g->arcs[heap], a)) {
      a->denominator += g->arcs[heap].denominator;
      a->numerator += g->arcs[heap].numerator;
      set_support(a);
      condense(g, a, heap);
      heap = heap_pop(g, heap);
    }
    a->present = true;
    a->below_u = g->from[a->u];
    g->from[a->u] = x;
    a->below_v = g->to[a->v];
    g->to[a->v] = x;
    a->heap = heap_merge(g, heap, x);
    g->stack[top++] = x;
  }
}

/* ---- from arcs to triangles to splits ------------------------------------------------------ */

static void add_triangle(polygon *g, int32_t s, int32_t t, int32_t r) {
  int32_t a = place_in_chain(g, s), b = place_in_chain(g, t), c = place_in_chain(g, r), swap;
  if (a > b) swap = a, a = b, b = swap;
  if (b > c) swap = b, b = c, c = swap;
  if (a > b) swap = a, a = b, b = swap;
  g->triangles[g->triangle_count++] = (triangle){.first = a, .split = b, .last = c};
}

/* Cuts the region below every arc present, innermost first, into a fan. next leads along what is
 * left of the boundary. */
static void cut_into_triangles(polygon *g) {
  int32_t *next = g->stack;
  for (int32_t t = 0; t < g->n; t++) next[t] = t + 1;
  for (int32_t x = 0; x < g->arc_count; x++) {
    const arc *a = &g->arcs[x];
    bool whole = a->v == g->n;
    if (!a->present && !whole) continue;
    if (a->u_lighter) {
      for (int32_t t = next[a->u]; t != a->v && next[t] != g->n; t = next[t])
        add_triangle(g, a->u, t, next[t]);
    } else {
      for (int32_t t = a->u; next[t] != a->v; t = next[t]) add_triangle(g, t, next[t], a->v);
    }
    next[a->u] = a->v;
  }
}

/* Lists the triangles by first vertex, each list from the greatest last vertex down, as
 * mmci_tree_from_splits() will ask for them. The heads of the lists are in from[]. */
static void sort_triangles(polygon *g) {
  for (int32_t t = 0; t <= g->n; t++) g->from[t] = g->to[t] = NONE;
  for (int32_t t = 0; t < g->triangle_count; t++) {
    g->triangles[t].next = g->to[g->triangles[t].last];
    g->to[g->triangles[t].last] = t;
  }
  for (int32_t last = 0; last < g->n; last++) {
    for (int32_t t = g->to[last]; t != NONE;) {
      int32_t after = g->triangles[t].next, first = g->triangles[t].first;
      g->triangles[t].next = g->from[first];
      g->from[first] = t;
      t = after;
    }
  }
}

static int32_t next_split(void *user, int32_t i, int32_t j) {
  (void)j;
  polygon *g = user;
  const triangle *t = &g->triangles[g->from[i]];
  g->from[i] = t->next;
  return t->split;
}

/* ---- the solver ---------------------------------------------------------------------------- */

/* Chains up to this length are solved without allocating. */
enum { SHORT = 32 };

static size_t scratch_bytes(size_t n) {
  return n * (sizeof(arc) + sizeof(mmci_u128) + sizeof(int64_t) + sizeof(triangle) +
              3 * sizeof(int32_t)) +
         4 * sizeof(mmci_u128);
}

/* Returns the lightest dim, the leftmost of equals. */
static int32_t lightest_dim(const int64_t *dims, int32_t n) {
  int32_t least = 0;
  for (int32_t t = 1; t <= n; t++)
    if (dims[t] < dims[least]) least = t;
  return least;
}

static void lay_out_polygon(polygon *g, const int64_t *dims, void *scratch) {
  size_t n = (size_t)g->n;
  g->arcs = scratch;
  /* There are at most n-2 arcs and the whole polygon. */
  g->boundary = (mmci_u128 *)(g->arcs + n - 1);
  g->weight = (int64_t *)(g->boundary + n + 1);
  g->triangles = (triangle *)(g->weight + n + 1);
  g->from = (int32_t *)(g->triangles + n);
  g->to = g->from + n + 1;
  g->stack = g->to + n + 1;
  for (int32_t t = 0; t < g->n; t++) g->weight[t] = dims[place_in_chain(g, t)];
  g->weight[g->n] = g->weight[0];
  g->boundary[0] = 0;
  for (int32_t t = 0; t < g->n; t++) g->boundary[t + 1] = g->boundary[t] + side(g, t, t + 1);
}

static mmc_status solve(const mmci_order_problem *problem, bool keep_table, mmci_order_answer *out,
                        mmci_error *error) {
  (void)keep_table;
  mmci_tree tree;
  mmc_status status = mmci_tree_create(problem->n, &tree, error);
  if (status != MMC_OK) return status;

  _Alignas(mmci_u128) char small[SHORT * 256];
  polygon g = {.n = problem->n + 1, .lightest = lightest_dim(problem->dims, problem->n)};
  size_t bytes = scratch_bytes((size_t)g.n + 1);
  void *scratch = bytes <= sizeof small ? small : mmci_alloc_array(1, bytes);
  if (scratch == NULL) {
    mmci_tree_destroy(&tree);
    return mmci_fail_nomem(error, bytes);
  }
  if (g.n >= 3) {
    lay_out_polygon(&g, problem->dims, scratch);
    if (g.weight[0] != 0) {
      find_arcs(&g);
      choose_arcs(&g);
    } else {
      add_arc(&g, 0, g.n); /* a fan from a dim of 0 costs nothing */
    }
    cut_into_triangles(&g);
    sort_triangles(&g);
    status = mmci_tree_from_splits(&tree, next_split, &g, error);
  }
  *out = (mmci_order_answer){.tree = tree, .kernel = ""};
  for (int32_t t = 0; t < g.triangle_count; t++)
    out->multiplications += mmci_multiplications(problem->dims[g.triangles[t].first],
                                                 problem->dims[g.triangles[t].split],
                                                 problem->dims[g.triangles[t].last]);
  if (scratch != small) free(scratch);
  if (status != MMC_OK) mmci_tree_destroy(&tree);
  return status;
}

const mmci_solver mmci_solver_hu_shing = {
    .name = "hu-shing",
    .applicable = applicable,
    .solve = solve,
};
