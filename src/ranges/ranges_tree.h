/* ranges_tree.h: what the files of this room share: the tree in memory, and products of its
 * nodes. */
#ifndef MMCI_RANGES_TREE_H
#define MMCI_RANGES_TREE_H

#include "ranges/ranges.h"

/* Positions first to end - 1. */
typedef struct mmci_span {
  int64_t first, end;
} mmci_span;

/* One level of the tree. Node q has slot q mod slots. Levels between the factors and the lowest
 * that is stored have no slots. */
typedef struct mmci_ranges_level {
  int64_t slots;
  char *values;     /* slots times value_bytes */
  mmci_span *spans; /* the factors whose product each slot holds; level 0 has none */
  int64_t *stale;   /* the nodes that are to be computed; level 0 has none */
  int64_t stale_count;
} mmci_ranges_level;

/* 2^40 factors are more than any memory holds. */
enum { MMCI_RANGES_LEVELS = 42 };

/* What depends on how many factors there is room for. */
typedef struct mmci_ranges_tree {
  int64_t capacity; /* factors that there is room for; 0 means that nothing is allocated */
  int block;        /* the lowest level above the factors that is stored */
  int top;          /* the level of which any row touches at most two nodes */
  mmci_ranges_level levels[MMCI_RANGES_LEVELS];
  /* Matrices for intermediate results: MMCI_RANGES_TEMPORARIES, then lanes. */
  char *scratch;
  int64_t lanes;   /* blocks of more than two factors that are computed at a time */
  uint64_t bytes;  /* bytes of all that is allocated here */
  void **tables;   /* three tables of addresses: the two operands and the result */
  int64_t entries; /* addresses in each table, a power of two */
  /* On a device with memory of its own: values, scratch and device_nodes are in it, and the first
   * nodes_used nodes may be read by what is enqueued. */
  mmci_tree_node *nodes;
  void *device_nodes;
  int64_t nodes_room, nodes_used;
} mmci_ranges_tree;

/* Two temporary matrices are for what is left of the middle of a range, two for what is right of
 * it. */
enum { MMCI_RANGES_TEMPORARIES = 4, MMCI_RANGES_BATCHES = 13 };

struct mmci_ranges {
  mmci_ranges_problem problem;
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  size_t element; /* bytes of an element */
  /* Bytes of a node's matrices, one for each chain of the batch, rounded to the alignment. */
  size_t value_bytes;
  size_t exponents_at; /* where a node has its exponents, one for each chain, if it is scaled */
  mmci_span row;       /* the positions that are in the row */
  mmci_ranges_tree tree;
  mmci_kernel *one; /* multiplies the batch of one node */
  /* The kernel at i multiplies 2^i matrices at addresses; it is made when first needed. */
  mmci_group_kernel *many[MMCI_RANGES_BATCHES];
  int64_t products; /* how many nodes were multiplied since the tree was made */

  /* The rest is for a device with memory of its own (ranges_device.h). */
  bool on_device, on_stream;
  void *stream;
  mmci_event *done; /* what was enqueued last, once it is recorded */
  bool pending;     /* whether anything was enqueued and may be under way */
  bool recorded;    /* false: it is on the default stream, and its end is still to be recorded */
  bool climbs;      /* the device goes up the tree by one call */
  /* Where a product is asked for, in rows without gaps; whoever goes up the tree writes the last
   * product there as well, and says which it is. */
  void *out;
  const char *out_is;
};

/* Returns the positions that node q of a level stands for and that are in the row. */
mmci_span mmci_ranges_clip(const mmci_ranges *ranges, int level, int64_t q);

/* Returns where the matrices of a stored node lie. */
char *mmci_ranges_value(const mmci_ranges *ranges, int level, int64_t q);

/* Returns the exponents of a node's matrices. */
static inline int64_t *mmci_ranges_exponents(const mmci_ranges *ranges, const char *value) {
  return (int64_t *)(void *)((char *)value + ranges->exponents_at);
}
/* Brings a node's matrices into range, and adds what that takes to its exponents. */
void mmci_ranges_scale(const mmci_ranges *ranges, char *value);

/* Gives the row room for as many factors, and keeps what it holds; nothing changes on failure. */
mmc_status mmci_ranges_reserve(mmci_ranges *ranges, int64_t count, mmci_error *error);
void mmci_ranges_tree_free(const mmci_ranges *ranges, mmci_ranges_tree *tree);

/* Multiplies count pairs of nodes' matrices: c[i] = a[i] b[i], where the tables are those of the
 * tree and count is at most entries divided by the batch, or 1. */
mmc_status mmci_ranges_multiply(mmci_ranges *ranges, int64_t count, const char *const *a,
                                const char *const *b, char *const *c, mmci_error *error);

/* Checks a caller's matrix, number i of the argument of this name, or the only one when i is
 * negative. */
mmc_status mmci_ranges_check(const mmci_ranges *ranges, const char *name, int64_t i,
                             const mmc_matrix *matrix, mmci_error *error);

#endif
