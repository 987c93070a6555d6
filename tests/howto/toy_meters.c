/* toy_meters.c: src/meter/meters.c with the meter "lamp". */
#include "howto/toy_device.h"

const mmci_meter_ops *const mmci_meters[] = {&mmci_meter_rapl, &toy_meter, &mmci_meter_replay,
                                             &mmci_meter_none, NULL};
