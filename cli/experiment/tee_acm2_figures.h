/* tee_acm2_figures.h: what the figures and claims of the TEE-ACM2 poster have in common: ratios to
 * the plain kernels, and pictures of bars. */
#ifndef MMC_CLI_TEE_ACM2_FIGURES_H
#define MMC_CLI_TEE_ACM2_FIGURES_H

#include "exhibits.h"

enum { CLI_TEE_RATIOS_MOST = 96 };

/* A family of kernels has one hue in all figures. */
enum {
  CLI_TEE_HUE_PLAIN = 0,
  CLI_TEE_HUE_TEE = 1,
  CLI_TEE_HUE_FAITHFUL = 2,
  CLI_TEE_HUE_FUSED = 3,
  CLI_TEE_HUE_OTHER = 6
};

/* Returns the hue of a family of kernels. */
int cli_tee_hue(const char *family);

/* What a figure shows of each trial. */
typedef struct cli_tee_figure {
  const char *part, *suffix, *title, *unit, *mark_name;
  const char *field; /* of samples; NULL where value is asked */
  double (*value)(const cli_record *t);
  bool ratio;    /* to the plain kernels, which then have no bars; else as it is */
  double theirs; /* the poster's average, as a ratio; 0 where it has none */
  bool sorted;   /* by value, as there is no other order */
  bool creation;
} cli_tee_figure;

/* Answers that there are no joules, and why, or else what was not measured. */
void cli_tee_answer_without_joules(const cli_records *all, cli_answer *out, const char *missing);

/* Says whether a text ends so. */
bool cli_tee_ends_with(const char *text, const char *end);

/* Returns sample i of a field; NaN where there is none. */
double cli_tee_sample(const cli_record *r, const char *field, int i);

/* The ratios of a family's trials of a part to the plain ones, of those that were measured
 * themselves. order NULL means any. */
cli_spread cli_tee_ratios(const cli_records *all, const char *part, const char *suffix,
                          const char *order, const char *family, const char *field);

/* The ratios of one order to another by the plain kernels, of chains whose names begin and end so
 * and whose plans differ. */
cli_spread cli_tee_order_ratios(const cli_records *all, const char *over, const char *under,
                                const char *begin, const char *end, const char *field);
/* Those of OP_Count to in-order. */
cli_spread cli_tee_tree_ratios(const cli_records *all, const char *begin, const char *end,
                               const char *field);

/* Answers for a claim about a GPU's kernels, where there is none. Returns whether it did. */
bool cli_tee_cannot(const cli_records *all, cli_answer *out, cli_spread found, bool of_joules);

/* Draws a figure, as cli_exhibit says. */
bool cli_tee_draw(cli_stream *out, const cli_records *all, const cli_tee_figure *f, int width,
                  bool alone);

/* Tells every reason for which trials did not run, once. */
void cli_tee_tell_reasons(cli_stream *out, const cli_records *all, const char *part,
                          const char *suffix);

/* The poster's exhibits: of its model, of products and of chains. */
extern const cli_exhibits cli_tee_acm2_model, cli_tee_acm2_products, cli_tee_acm2_chains;

#endif
