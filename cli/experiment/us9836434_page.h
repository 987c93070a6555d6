/* us9836434_page.h: the figures and claims of US patent 9,836,434 B2. */
#ifndef MMC_CLI_US9836434_PAGE_H
#define MMC_CLI_US9836434_PAGE_H

#include "exhibits.h"

extern const cli_source cli_us9836434_source;

#endif
