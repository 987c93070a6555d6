/* measure.h: makes a device the machine of a search.
 *
 * Operands are normal numbers (of mean 0 and variance 1; values move power and so clocks) from a
 * seed. A sample is as many runs in a row as take sample_least_s. A time is the median of samples,
 * of a few where a device with a clock of its own gives the same each time. A comparison takes
 * turns, plain call and recipe one after the other with alternating order, and its gain is the
 * median of the turns' ratios, so that what else the machine does hits both alike. It ends early
 * when the recipe is most likely not worth it, and when its gain is known well.
 *
 * Caches: every run uses the operands of the one before, so what fits a cache is read from there.
 * With cold_bytes, sets of operands take turns through that much memory, and come from beyond
 * caches smaller than it. A comparison is confirmed with confirm_cold_bytes, because in a chain,
 * operands may be in a cache or not.
 *
 * A device with memory of its own runs a sample as one captured graph, its calls as they would be
 * in the graph of a chain: the time of launching calls one by one is not in it. Queues are its
 * queues. Where it has timers, turns are launched without waiting between them, and its own clock
 * is read afterwards.
 *
 * With a meter, joules are those of samples one after the other, from tick to tick of its
 * counter. */
#ifndef MMCI_TUNE_MEASURE_H
#define MMCI_TUNE_MEASURE_H

#include "device/device.h"
#include "meter/measure.h"
#include "tune/tuner.h"

typedef struct mmci_measure_options {
  double sample_least_s; /* 0 means 50 us on the host, 1 ms on a device with memory of its own, 0.2
                            ms where that has timers */
  int samples;           /* samples of a time at most; 9 */
  int turns;             /* turns of a comparison at most; 31 */
  double least_gain;     /* the share that a recipe must gain to be worth it; 0.01 */
  double risk;           /* chance that a true median is outside of its bounds; 0.001 */
  uint64_t cold_bytes;
  uint64_t confirm_cold_bytes; /* UINT64_MAX means cold_bytes on the host, and 128 MiB on a device
                                  with memory of its own, if that is more */
  uint64_t seed;
  const mmci_meter_ops *meter_ops; /* meter of joules; NULL means that none are measured */
  mmci_meter *meter;               /* the meter; it must stay while anything is measured */
  double window_s;                 /* seconds in which joules are measured, at least; 2 */
  double (*now_s)(void *user);     /* the host's clock; NULL means the monotonic one */
  void *clock_user;
  /* Is asked before every turn of samples and what comes before the first; other than 0 stops with
   * E_INTERRUPTED. May be NULL. */
  int (*ask)(void *user);
  void *ask_user;
} mmci_measure_options;

mmci_measure_options mmci_measure_defaults(void);

/* A device and memory for operands. It belongs to one thread. */
typedef struct mmci_bench mmci_bench;

/* Opens a bench; the device must outlive it. Returns: E_ARG, E_UNSUPPORTED (no products), E_NOMEM,
 * E_DEVICE. */
mmc_status mmci_bench_open(const mmci_device_ops *ops, mmci_device *device,
                           const mmci_measure_options *options, mmci_bench **out,
                           mmci_error *error);
void mmci_bench_close(mmci_bench *bench);

/* Returns the machine that the bench is; valid while the bench is open. */
mmci_machine mmci_bench_machine(mmci_bench *bench);

#endif
