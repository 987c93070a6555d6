/* fake_device.h: a device with memory of its own that computes on the host, as late and in as odd
 * an order as the contract allows, and finds fault with whoever relies on more.
 *
 * Faults are: addresses outside any block, of freed blocks, of the host where the device's are
 * meant or the other way round; operands that overlap the result; races (see fake_work.h); host
 * memory that is read before its download has landed; whatever device.h does not allow in a
 * capture; what is left when the device is closed. The first one is kept. */
#ifndef MMC_TEST_FAKE_DEVICE_H
#define MMC_TEST_FAKE_DEVICE_H

#include "device/device.h"

typedef struct fake_options {
  uint64_t seed;
  int queues;            /* 0: 1 */
  uint64_t memory_bytes; /* that the library may take; 0: any */
  bool scratch;          /* products hold memory of their own, but for batches */
  enum { FAKE_ALL_BATCHES, FAKE_STRIDED_BATCHES, FAKE_NO_BATCHES } batches; /* that it supports */
} fake_options;

mmci_device *fake_open(const fake_options *options);
/* Another card of the same machine, to be closed before the first. It can read the others' memory
 * once it is joined with them, by copies only; that any of its other work does is a fault. */
mmci_device *fake_open_beside(mmci_device *first, const fake_options *options);
/* As a kind of device for the registry: with three queues, 16 GiB and scratch. When the library
 * closes one that has found a fault, it prints the fault and aborts. */
extern const mmci_device_ops mmci_device_fake;
/* Closes the device and gives its first fault: "" or, until the next is closed, its text. */
const char *fake_close(mmci_device *device);
const mmci_device_ops *fake_ops(mmci_device *device);
const char *fake_fault(const mmci_device *device);

/* What the library asked for, test and stream calls apart. */
typedef struct fake_counts {
  int64_t calls; /* of slots that may fail */
  int64_t allocs, prepares, queues, events, captures, launches;
  int64_t products, chains, copies, uploads, downloads;
  int64_t without_scratch;   /* prepares that found no memory for it */
  int64_t words_from_others; /* elements that copies read from other cards */
} fake_counts;
fake_counts fake_count(const mmci_device *device);
/* The most bytes that the library held at once. */
uint64_t fake_most_bytes(const mmci_device *device);

/* Call number `call` from now on, from 1, fails, and all after it when for_good; 0: none does. When
 * late, the call does its work nevertheless, unless it creates something. */
void fake_fail_at(mmci_device *device, int64_t call, bool for_good, bool late);
/* Of the preparations of chains from now on, so many are not supported. */
void fake_refuse_chains(mmci_device *device, int64_t count);
/* Says whether one has failed since. */
bool fake_has_failed(const mmci_device *device);

/* ---- the caller's side ----------------------------------------------------------------------- */

/* Memory of the device that the test gives to the library. */
void *fake_alloc(mmci_device *device, size_t size_bytes);
void fake_free(mmci_device *device, void *memory);
/* The bytes behind an address, for the test. It is a fault when something is under way there. */
char *fake_bytes(mmci_device *device, const void *address, size_t size_bytes);
/* It is a fault when anything is under way. */
void fake_expect_done(mmci_device *device);

/* The caller's streams: what queue_attach takes. NULL is the default stream. */
void *fake_stream_create(mmci_device *device);
/* Work on a stream: bytes, read now, written to the device's memory or the host's. */
void fake_stream_write(mmci_device *device, void *stream, void *to, const void *bytes,
                       size_t size_bytes);
/* The device's memory read into the host's, there when the stream has been waited for. */
void fake_stream_read(mmci_device *device, void *stream, const void *from, void *to,
                      size_t size_bytes);
void fake_stream_sync(mmci_device *device, void *stream);
/* later waits for what earlier was given so far. */
void fake_stream_order(mmci_device *device, void *earlier, void *later);

void fake_stream_capture_begin(mmci_device *device, void *stream);
/* NULL when the capture was spoilt. */
mmci_graph *fake_stream_capture_end(mmci_device *device, void *stream);
void fake_stream_launch(mmci_device *device, void *stream, mmci_graph *graph);
void fake_graph_destroy(mmci_graph *graph);

#endif
