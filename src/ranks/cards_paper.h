/* cards_paper.h: a card that is not here, for plans that nobody executes on this machine. */
#ifndef MMCI_RANKS_CARDS_PAPER_H
#define MMCI_RANKS_CARDS_PAPER_H

#include "device/device.h"

/* Tells what an NVIDIA H200 does, and multiplies nothing: prepare returns E_UNSUPPORTED. */
extern const mmci_device_ops mmci_device_paper;

/* Bytes per second that copies between two such cards reach. */
#define MMCI_PAPER_LINK_BYTES_PER_S 300e9

#endif
