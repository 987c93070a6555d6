/* hdf5_silence.h: libhdf5 prints its errors, unless it is told not to. */
#ifndef MMCI_HDF5_SILENCE_H
#define MMCI_HDF5_SILENCE_H

#include <hdf5.h>

typedef struct mmci_hdf5_silence {
  H5E_auto2_t print;
  void *data;
} mmci_hdf5_silence;

static inline void mmci_hdf5_silence_begin(mmci_hdf5_silence *s) {
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &s->print, &s->data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static inline void mmci_hdf5_silence_end(const mmci_hdf5_silence *s) {
  H5Eset_auto2(H5E_DEFAULT, s->print, s->data);
}

#endif
