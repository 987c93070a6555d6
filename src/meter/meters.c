/* meters.c: every meter, in the order of `mmchain info`. */
#include "meter/meter.h"

const mmci_meter_ops *const mmci_meters[] = {&mmci_meter_rapl, &mmci_meter_nvml, &mmci_meter_replay,
                                             &mmci_meter_none, NULL};
