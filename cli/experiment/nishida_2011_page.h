/* nishida_2011_page.h: the figures and tables of Nishida, Ito and Nakano (ICNC 2011). */
#ifndef MMC_CLI_NISHIDA_2011_PAGE_H
#define MMC_CLI_NISHIDA_2011_PAGE_H

#include "exhibits.h"

extern const cli_source cli_nishida_2011_source;

#endif
