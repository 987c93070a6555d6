/* toy_device.h: the device of docs/howto-device.md and the meter of docs/howto-meter.md. */
#ifndef MMC_TEST_TOY_DEVICE_H
#define MMC_TEST_TOY_DEVICE_H

#include "device/device.h"
#include "meter/meter.h"

enum { TOY_WATTS = 60 };

extern const mmci_device_ops toy_device;
extern const mmci_meter_ops toy_meter;

#endif
