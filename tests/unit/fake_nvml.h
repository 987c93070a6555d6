/* fake_nvml.h: what tests may change about the GPUs that fake_nvml.c makes up. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum { FAKE_GPUS_MOST = 4 };

/* NVML's results; 0 is success. */
typedef struct fake_nvml {
  int init, count, handle, energy, fields, field, power, clock, temperature, throttle;
  unsigned gpus;
  /* The counter; when ticking, by the clock instead: 150 W, brought up to date every 100 ms. */
  int ticking;
  unsigned long long millijoules[FAKE_GPUS_MOST];
  int field_type; /* of instant power */
  unsigned instant_mw, power_mw, sm_mhz, memory_mhz, celsius;
  unsigned long long reasons;
  int started; /* nvmlInit less nvmlShutdown */
} fake_nvml;

/* The library exports one, called fake_nvml_control. */

#endif
