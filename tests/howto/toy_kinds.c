/* toy_kinds.c: src/device/kinds.c with a line for the device "toy". */
#include "howto/toy_device.h"

const mmci_device_kind mmci_device_kinds[] = {
    {.name = "ref", .ops = &mmci_device_ref, .meter = "rapl"},
    {.name = "toy", .ops = &toy_device, .meter = "lamp"},
    {.name = NULL},
};
