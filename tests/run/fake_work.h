/* fake_work.h: work that the fake device was given: what comes after what, and who may touch which
 * bytes at the same time.
 *
 * Work is done late and in a random order among those that the device may choose. A node comes
 * after the nodes that it names and what those come after. Two nodes of which neither comes after
 * the other, and of which one writes bytes that the other touches, are a race, whatever order they
 * were done in. A node is known when the host has waited for it: whatever is given later comes
 * after it, so it is forgotten. */
#ifndef MMC_TEST_FAKE_WORK_H
#define MMC_TEST_FAKE_WORK_H

#include "device/device.h"
#include "fake_memory.h"

typedef enum fake_kind {
  FAKE_NOTHING, /* only comes after others */
  FAKE_PRODUCT,
  FAKE_CHAIN,
  FAKE_COPY,
  FAKE_RESIZE,
  FAKE_STRUCTURED,
  FAKE_UPLOAD,
  FAKE_DOWNLOAD,
  FAKE_WRITE, /* of bytes of its own, to the device or the host */
} fake_kind;

typedef struct fake_access {
  fake_span span;
  bool writes, on_host;
} fake_access;

typedef struct fake_copy {
  mmc_dtype dtype;
  int64_t rows, cols;
  mmci_form form;
  int64_t to_ld;
  bool to_trans;
} fake_copy;

typedef struct fake_resize {
  mmci_resizing matrix;
  size_t size; /* of an element */
} fake_resize;

/* The most accesses of a node: the operands of a chain, and its result. */
enum { FAKE_ACCESSES = 32 };

typedef struct fake_node {
  uint64_t id; /* from 1, rising */
  fake_kind kind;
  uint64_t *after;
  size_t after_count;
  fake_access accesses[FAKE_ACCESSES]; /* of a product a, b, c and scratch; of a chain n, c; else
                                          from, to */
  int access_count;
  mmci_gemm gemm;
  mmci_group *chain;          /* its own */
  mmci_structured structured; /* accesses are of z, s, b and the pivot */
  fake_copy copy;
  fake_resize resize;
  char *bytes; /* of a write; of an upload that reads at once; of a download on its way */
  const void *lands_with; /* a download is on the host when this queue is waited for; or NULL */
  bool done;
  uint64_t mark;
} fake_node;

/* Nodes by rising id. */
typedef struct fake_list {
  fake_node *nodes;
  size_t count, room;
  uint64_t last_id;
} fake_list;

void fake_list_clear(fake_list *list);
/* Adds a node after up to two others (0: none), and returns its id. It keeps what.bytes
 * and what.chain. */
uint64_t fake_list_add(fake_list *list, const fake_node *what, uint64_t after, uint64_t and_after);
/* Marks node id and all that it comes after. */
void fake_list_mark(fake_list *list, uint64_t id, uint64_t mark);

typedef struct fake_work {
  fake_list list; /* what is not known to be done */
  fake_memory *memory;
  uint64_t random, marks;
  char fault[512]; /* the first that was found; "" */
} fake_work;

/* Notes a fault, unless there is one already. */
void fake_blame(fake_work *work, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the name of a node for messages, as "product 3". */
const char *fake_node_name(const fake_node *node, char text[64]);

/* Adds a node as above, checks it against all others, and may do some of the work. */
uint64_t fake_work_put(fake_work *work, const fake_node *what, uint64_t after, uint64_t and_after);
/* Adds a copy of the nodes of a graph, the first of them after two others, and one behind them all,
 * whose id it returns. */
uint64_t fake_work_put_all(fake_work *work, const fake_list *graph, uint64_t after,
                           uint64_t and_after);
/* Does node id and all that it comes after, and forgets them; downloads that land with another
 * queue stay. */
void fake_work_await(fake_work *work, uint64_t id, const void *queue);

#endif
