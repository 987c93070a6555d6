/* fuzz_recording.c: recordings of a meter, as replay:FILE plays them. */
#include "fuzz.h"
#include "meter/meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char path[FUZZ_PATH_SIZE], text[256];
  int descriptor = fuzz_file(bytes, size, path);
  mmci_meter *meter;
  mmci_error error;
  const mmci_meter_source source = {.recording = path};
  if (mmci_meter_replay.open(&source, &meter, &error) == MMC_OK) {
    mmci_meter_replay.describe(meter, text, sizeof text);
    for (int i = 0; i < 8; i++) {
      double joules;
      mmci_meter_state state;
      (void)mmci_meter_replay.joules(meter, 0.3 * i, &joules, &error);
      mmci_meter_replay.state(meter, 0.3 * i, &state);
    }
    mmci_meter_replay.close(meter);
  }
  close(descriptor);
  return 0;
}
