/* tee_acm2_page.c: the page of the TEE-ACM2 poster: its figures, its table and its claims, beside
 * what was measured here. */
#include "tee_acm2_page.h"

#include "tee_acm2_figures.h"

const cli_source cli_tee_acm2_source = {
    .experiment = "tee-acm2",
    .title = "TEE-ACM2, measured again",
    .citation =
        "TEE-ACM2: energy-efficient matrix chain multiplication on GPUs, poster at SC22; "
        "measured there on a V100, averages of ten samples of ten runs.",
    .words =
        "Numbers in the poster's bars are not in its text, so its claims in words stand "
        "beside the figures. Samples of the kernels that are compared take turns.",
    .parts = {&cli_tee_acm2_model, &cli_tee_acm2_products, &cli_tee_acm2_chains}};
