/* meter.h: the contract of an energy meter, and the list of meters.
 *
 * A meter reads a counter of joules that only rises, and, where it can, the power, the clocks, the
 * temperature and the reasons why clocks are held back. It judges nothing: measure.h makes joules
 * of a run of what it reads. A meter is called by one thread at a time. */
#ifndef MMCI_METER_H
#define MMCI_METER_H

#include "base/status.h"

/* Where a meter finds what it reads; each meter looks at its own fields. */
typedef struct mmci_meter_source {
  const char *reason;    /* none: why nothing is measurable */
  const char *powercap;  /* rapl: NULL means /sys/class/powercap */
  const char *library;   /* nvml: NULL means libnvidia-ml.so.1 */
  const char *address;   /* nvml: the PCI bus, "0000:1b:00.0" */
  const char *recording; /* replay: the file */
} mmci_meter_source;

/* Why clocks are held back, numbered as NVML does. */
enum {
  MMCI_THROTTLE_IDLE = 0x1,
  MMCI_THROTTLE_APPLICATION_CLOCKS = 0x2,
  MMCI_THROTTLE_POWER_CAP = 0x4,
  MMCI_THROTTLE_HARDWARE = 0x8,
  MMCI_THROTTLE_SYNC_BOOST = 0x10,
  MMCI_THROTTLE_THERMAL = 0x20,
  MMCI_THROTTLE_HARDWARE_THERMAL = 0x40,
  MMCI_THROTTLE_POWER_BRAKE = 0x80,
  MMCI_THROTTLE_DISPLAY_CLOCKS = 0x100
};

/* What a meter may know besides the joules. Unknown figures are NaN, an unknown throttle is -1. */
typedef struct mmci_meter_state {
  double watts;
  double sm_mhz, memory_mhz;
  double celsius;
  int64_t throttle;
} mmci_meter_state;

extern const mmci_meter_state mmci_meter_state_unknown;

enum { MMCI_METER_ADDRESS_SIZE = 32 };

typedef struct mmci_meter mmci_meter; /* an open meter; each implementation has its own */

/* time_s is the moment of the call by the clock of the measurement; only replay looks at it. */
typedef struct mmci_meter_ops {
  const char *name;
  bool plays_file; /* users give a file with the name: "replay:FILE" */
  /* (optional, for meters that are numbered: "nvml:1") Finds the address of number index, for
   * machines whose devices do not tell it. Returns E_ARG past the last one, E_UNSUPPORTED. */
  mmc_status (*locate)(int index, char address[MMCI_METER_ADDRESS_SIZE], mmci_error *error);
  /* Opens the meter. Returns E_UNSUPPORTED when it is not here; the error says what is missing and
   * how to get it. */
  mmc_status (*open)(const mmci_meter_source *source, mmci_meter **out, mmci_error *error);
  void (*close)(mmci_meter *meter);
  /* Writes one line that says what it reads, at most size bytes with the final NUL. */
  void (*describe)(const mmci_meter *meter, char *text, size_t size);
  /* Reads the joules since some moment; when the hardware's counter wraps around, that is
   * undone. */
  mmc_status (*joules)(mmci_meter *meter, double time_s, double *joules, mmci_error *error);
  /* (optional) Reads the rest; what cannot be read is unknown, which is no failure. */
  void (*state)(mmci_meter *meter, double time_s, mmci_meter_state *out);
} mmci_meter_ops;

extern const mmci_meter_ops mmci_meter_none;
extern const mmci_meter_ops mmci_meter_rapl;
extern const mmci_meter_ops mmci_meter_nvml;
extern const mmci_meter_ops mmci_meter_replay;

/* All meters, in meters.c; NULL ends the list. */
extern const mmci_meter_ops *const mmci_meters[];

#endif
