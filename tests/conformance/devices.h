/* devices.h: the frame of a test of the conformance suite, and the devices that it runs on.
 *
 *     conformance_NAME [small | race | full] [DEVICE ...]
 *
 * Without a DEVICE the test runs on those that are compiled in: "ref"; "cpu", which is blas where
 * it was built; "toy", the device of docs/howto-device.md; and "fake", a device with memory of its
 * own (tests/run/fake_device.h). A DEVICE may also be the path of a module, as
 * ".../mmchain-cuda.so": that module must load, and the test then runs on the first of its devices.
 * "small" is for tools that check every access, "race" for one that does not outlive thousands of
 * launches.
 *
 * Exit status 77: the device of a module is not on this machine. */
#ifndef MMC_TEST_DEVICES_H
#define MMC_TEST_DEVICES_H

#include "../expect.h"
#include "device/device.h"

/* A device under test. */
typedef struct subject {
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_queue *queue;
  const char *name;       /* "blas", "cuda:0" */
  const char *module_dir; /* where a context finds it */
  bool is_cuda, is_blas, is_fake;
  bool small, race; /* race is small, too */
} subject;

typedef struct conformance_test {
  const char *name;
  void (*run)(const subject *on);
  bool races; /* is run under "race", too */
} conformance_test;

/* Runs the tests on every device that the arguments name, and returns what main returns. The list
 * of tests ends with a name that is NULL. */
int conformance_main(int argc, char **argv, const conformance_test *tests);

/* A device with memory of its own takes no addresses of the host's. */
bool has_own_memory(const subject *on);
bool supports_dtype(const subject *on, mmc_dtype dtype);

#endif
