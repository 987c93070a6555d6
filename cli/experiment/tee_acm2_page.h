/* tee_acm2_page.h: the figures and claims of the TEE-ACM2 poster. */
#ifndef MMC_CLI_TEE_ACM2_PAGE_H
#define MMC_CLI_TEE_ACM2_PAGE_H

#include "exhibits.h"

extern const cli_source cli_tee_acm2_source;

#endif
