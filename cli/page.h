/* page.h: a page of HTML that needs nothing else: rules, pictures, tables that can be sorted. It
 * follows the reader's choice of light or dark, and is as wide as the window.
 *
 *     cli_page_begin -> cli_page_section -> (cli_page_words, pictures, tables) ... -> cli_page_end
 *
 * Text is escaped; what is written to the stream directly is not. */
#ifndef MMC_CLI_PAGE_H
#define MMC_CLI_PAGE_H

#include "output.h"

void cli_page_begin(cli_stream *out, const char *title);
void cli_page_end(cli_stream *out);
/* Begins a part of the page with a heading. */
void cli_page_section(cli_stream *out, const char *heading);
/* Writes a paragraph. */
void cli_page_words(cli_stream *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A figure that stands out, with what it is below it; between cli_page_figures_begin() and end().
 */
void cli_page_figures_begin(cli_stream *out);
void cli_page_figure(cli_stream *out, const char *value, const char *what);
void cli_page_figures_end(cli_stream *out);

/* Pictures stand side by side where there is room, and can be moved where one is too wide. */
void cli_page_pictures_begin(cli_stream *out);
void cli_page_picture_begin(cli_stream *out);
void cli_page_picture_end(cli_stream *out);
void cli_page_pictures_end(cli_stream *out);

typedef struct cli_column {
  const char *name;
  bool number; /* the column is sorted as numbers and aligned to the right */
} cli_column;

/* A table has rows of count cells each. A click on a column's name sorts by it. */
void cli_page_table_begin(cli_stream *out, const cli_column *columns, int count);
void cli_page_row_begin(cli_stream *out, bool marked);
void cli_page_cell(cli_stream *out, const char *text);
/* Writes a cell that is sorted by value; NaN stands last. */
void cli_page_cell_number(cli_stream *out, const char *text, double value);
void cli_page_row_end(cli_stream *out);
void cli_page_table_end(cli_stream *out);

/* Writes text as it is, in a part that is closed at first. */
void cli_page_fold(cli_stream *out, const char *heading, const char *text);

#endif
