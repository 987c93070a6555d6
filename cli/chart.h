/* chart.h: charts as SVG, in one style: bars with their values on them, and points in a plane of
 * two logarithmic axes. Hues are those of Okabe and Ito (2008), which colour-blind people tell
 * apart, and no chart needs them to be read. */
#ifndef MMC_CLI_CHART_H
#define MMC_CLI_CHART_H

#include "output.h"

/* The rules of all charts, to be written once into a page; a picture of its own holds them too. */
void cli_chart_style(cli_stream *out);

/* Begin a picture, which ends with "</svg>", and write a line of text into it; class is "" or names
 * of classes. For charts of other files. */
void cli_chart_begin(cli_stream *out, const char *title, int width, int height, bool alone);
void cli_chart_text(cli_stream *out, const char *class, double x, double y, const char *text);
/* How many hues there are; hue h of a chart is class "hue<h % CLI_CHART_HUES>". */
enum { CLI_CHART_HUES = 7 };

/* ---- bars ------------------------------------------------------------------------------------ */

/* One bar, with a row of its own. */
typedef struct cli_bar {
  const char *group; /* a heading where it differs from the row before; "" means none */
  const char *name;
  const char *text; /* stands behind the bar; NULL means the value in units */
  const char *note; /* stands behind the value: "predicted"; "" means none */
  int hue;          /* any number from 0; equal hues mean the same kind of thing */
  double value;     /* NaN means that it is not known; the note says why */
  double more;      /* a second part that is stacked on it; NaN means none */
  double low, high; /* how far values spread; NaN means unknown */
  bool faint;       /* drawn faintly, as what was not measured */
} cli_bar;

typedef struct cli_bars {
  const char *title, *subtitle; /* subtitle may be "" */
  bool untitled;                /* the title stands elsewhere already */
  const char *unit;             /* "s", "J"; "" for ratios */
  const char *parts[2];         /* the names of the two parts of stacked bars; NULL for others */
  const cli_bar *bars;
  int count;
  int width; /* in pixels; 320 at least */
  /* Lines across all bars at these values, with names; 0 means none. */
  double mark, second_mark;
  const char *mark_name, *second_mark_name;
} cli_bars;

/* Writes one picture. alone says that it is a document of its own. */
void cli_chart_bars(cli_stream *out, const cli_bars *chart, bool alone);

/* ---- lines ----------------------------------------------------------------------------------- */

/* One line through points; points that are not finite, or not above 0 on a logarithmic axis, are
 * left out. */
typedef struct cli_series {
  const char *name;
  int hue;
  bool dashed, dotted; /* dotted: the points are marked */
  const double *x, *y;
  const double *low, *high; /* how far values spread; NULL when it is not known */
  int count;
} cli_series;

typedef struct cli_lines {
  const char *title;
  bool untitled;                /* the title stands elsewhere already */
  const char *x_name, *y_name;  /* what the axes show */
  const char *x_unit, *y_unit;  /* as cli_in_units() takes them; "" for plain numbers */
  bool x_log, y_log, from_zero; /* from_zero: a linear y begins at 0 */
  const cli_series *series;
  int count;
  int width, height; /* of the picture but for the names of the lines, which stand below it */
} cli_lines;

void cli_chart_lines(cli_stream *out, const cli_lines *chart, bool alone);

/* ---- points ---------------------------------------------------------------------------------- */

typedef struct cli_point {
  const char *label; /* what it says when it is pointed at */
  const char *mark;  /* a short name that stands beside it where there is room; "" means none */
  double x, y;       /* above 0 */
  double share;      /* the point's area, as a share from 0 to 1 of the largest */
  int hue;
  bool faint; /* drawn faintly, as what was not measured */
} cli_point;

/* A roof over the points: y = min(slope x, flat). */
typedef struct cli_roof {
  double slope, flat;
  const char *slope_name, *flat_name;
} cli_roof;

typedef struct cli_plane {
  const char *title, *x_name, *y_name;
  const char *x_unit, *y_unit; /* units, as cli_in_units() takes them */
  cli_roof roof;
  const cli_point *points;
  int count;
  int width, height;
} cli_plane;

void cli_chart_plane(cli_stream *out, const cli_plane *chart);

#endif
