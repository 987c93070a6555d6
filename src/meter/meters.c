/* meters.c: the list of all meters, in the order in which `mmchain info` shows them. */
#include "meter/meter.h"

const mmci_meter_ops *const mmci_meters[] = {&mmci_meter_rapl, &mmci_meter_nvml, &mmci_meter_replay,
                                             &mmci_meter_none, NULL};
