/* lines.c: lines in a plane of two axes, each linear or logarithmic, with how far values spread. */
#include <math.h>
#include <string.h>

#include "chart.h"
#include "xml.h"

enum {
  EDGE = 12,
  LEFT = 80,
  TOP = 30,
  BOTTOM = 42,
  CHARACTER_PX = 7,
  NAME_ROW = 18,
  TICKS_MOST = 40
};

/* An axis in pixels, and what its ends stand for: numbers, or their logarithms. */
typedef struct axis {
  double from, to;
  double low, high;
  bool log;
} axis;

static double place(const axis *a, double value) {
  double at = a->log ? log10(value) : value;
  return a->from + (a->to - a->from) * (at - a->low) / (a->high - a->low);
}

static bool shown(const axis *a, double value) {
  return isfinite(value) && (!a->log || value > 0);
}

static void widen(axis *a, double value) {
  if (!shown(a, value)) return;
  double at = a->log ? log10(value) : value;
  a->low = fmin(a->low, at);
  a->high = fmax(a->high, at);
}

/* A round step that gives at most so many ticks. */
static double step_of(double range, int ticks) {
  double step = pow(10, floor(log10(range / ticks)));
  static const double factors[] = {1, 2, 2.5, 5, 10};
  for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++)
    if (range / (step * factors[f]) <= ticks) return step * factors[f];
  return 10 * step;
}

static void settle(axis *a, bool from_zero) {
  if (!(a->low <= a->high)) a->low = 0, a->high = 1;
  if (from_zero && !a->log) a->low = fmin(a->low, 0);
  if (a->high - a->low < 1e-12 * fmax(1, fabs(a->high))) {
    a->low -= 0.5;
    a->high += 0.5;
  }
}

/* Collects the places of ticks; returns how many. Those of a logarithmic axis are powers of ten; of
 * a short one powers of two or, where it has a unit, 1, 2 and 5 of each power of ten. */
static int ticks_of(const axis *a, const char *unit, int most, double ticks[TICKS_MOST]) {
  const double range = a->high - a->low, edge = 1e-9;
  int count = 0;
  if (!a->log) {
    double step = step_of(range, most);
    for (double at = ceil(a->low / step - edge) * step;
         at <= a->high + edge * step && count < TICKS_MOST; at += step)
      ticks[count++] = fabs(at) < edge * step ? 0 : at;
    return count;
  }
  if (unit[0] != '\0' && range < 2) {
    static const int factors[] = {1, 2, 5};
    const int last = (int)floor(a->high + edge);
    for (int e = (int)floor(a->low - edge); e <= last; e++)
      for (int f = 0; f < 3; f++) {
        double at = e + log10(factors[f]);
        if (at >= a->low - edge && at <= a->high + edge) ticks[count++] = factors[f] * pow(10, e);
      }
    return count;
  }
  double one = unit[0] == '\0' && range < 4 ? log10(2) : 1;
  int step = (int)fmax(1, ceil(range / one / most));
  for (double e = ceil(a->low / one - edge); e * one <= a->high + edge && count < TICKS_MOST;
       e += step)
    ticks[count++] = pow(10, e * one);
  return count;
}

static cli_quantity label_of(double value, const char *unit) {
  cli_quantity q;
  if (unit[0] != '\0') return cli_in_units(value, unit);
  snprintf(q.text, sizeof q.text, fabs(value) < 1e9 ? "%.9g" : "%.3g", value);
  return q;
}

static void put_axes(cli_stream *out, const cli_lines *c, const axis *x, const axis *y) {
  double ticks[TICKS_MOST];
  int count = ticks_of(x, c->x_unit, (int)((x->to - x->from) / 62), ticks);
  for (int t = 0; t < count; t++) {
    double at = place(x, ticks[t]);
    cli_print(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", at, y->to, y->from);
    cli_chart_text(out, "small middle", at, y->from + 16, label_of(ticks[t], c->x_unit).text);
  }
  count = ticks_of(y, c->y_unit, (int)((y->from - y->to) / 36), ticks);
  for (int t = 0; t < count; t++) {
    double at = place(y, ticks[t]);
    cli_print(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", x->from, at, x->to);
    cli_chart_text(out, "small end", x->from - 6, at + 4, label_of(ticks[t], c->y_unit).text);
  }
  cli_print(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", x->from, y->to, y->from,
            x->to);
  cli_chart_text(out, "middle", (x->from + x->to) / 2, y->from + 34, c->x_name);
  cli_chart_text(out, "", EDGE, y->to - 12, c->y_name);
}

/* Draws how far a value spreads, as far as the picture goes: the axes are made for the values. */
static void put_spread(cli_stream *out, const cli_series *s, int i, const axis *x, const axis *y) {
  if (s->low == NULL || !shown(y, s->low[i]) || !shown(y, s->high[i])) return;
  cli_print(out, "<path class=\"error hue%d\" d=\"M%.1f %.1fV%.1f\"/>\n", s->hue % CLI_CHART_HUES,
            place(x, s->x[i]), fmin(place(y, s->low[i]), y->from),
            fmax(place(y, s->high[i]), y->to));
}

static void put_series(cli_stream *out, const cli_series *s, const axis *x, const axis *y) {
  bool begun = false;
  for (int i = 0; i < s->count; i++) {
    if (!shown(x, s->x[i]) || !shown(y, s->y[i])) continue;
    if (!begun)
      cli_print(out, "<path class=\"line hue%d%s\" d=\"", s->hue % CLI_CHART_HUES,
                s->dashed ? " dashed" : "");
    cli_print(out, "%c%.1f %.1f", begun ? 'L' : 'M', place(x, s->x[i]), place(y, s->y[i]));
    begun = true;
  }
  if (begun) cli_print(out, "\"/>\n");
  for (int i = 0; i < s->count; i++) {
    if (!shown(x, s->x[i]) || !shown(y, s->y[i])) continue;
    put_spread(out, s, i, x, y);
    if (s->dotted)
      cli_print(out, "<circle class=\"hue%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                s->hue % CLI_CHART_HUES, place(x, s->x[i]), place(y, s->y[i]));
  }
}

/* Writes the names of the lines below the picture, or only counts the pixels that they take. */
static int put_names(cli_stream *out, const cli_lines *c, int y) {
  int x = EDGE, rows = c->count > 0 ? 1 : 0;
  for (int s = 0; s < c->count; s++) {
    int width = 36 + (int)strlen(c->series[s].name) * CHARACTER_PX + 14;
    if (x > EDGE && x + width > c->width) {
      x = EDGE;
      rows++;
    }
    int at = y + (rows - 1) * NAME_ROW;
    if (out != NULL) {
      cli_print(out, "<path class=\"line hue%d%s\" d=\"M%d %dh26\"/>\n",
                c->series[s].hue % CLI_CHART_HUES, c->series[s].dashed ? " dashed" : "", x, at + 6);
      cli_chart_text(out, "", x + 32, at + 10, c->series[s].name);
    }
    x += width;
  }
  return rows * NAME_ROW + 4;
}

void cli_chart_lines(cli_stream *out, const cli_lines *c, bool alone) {
  int title = c->untitled ? 0 : 22;
  axis x = {.from = LEFT, .to = c->width - 18, .low = INFINITY, .high = -INFINITY, .log = c->x_log};
  axis y = {.from = c->height - BOTTOM,
            .to = TOP + title,
            .low = INFINITY,
            .high = -INFINITY,
            .log = c->y_log};
  for (int s = 0; s < c->count; s++)
    for (int i = 0; i < c->series[s].count; i++) {
      const cli_series *line = &c->series[s];
      if (!shown(&x, line->x[i]) || !shown(&y, line->y[i])) continue;
      widen(&x, line->x[i]);
      widen(&y, line->y[i]);
    }
  settle(&x, false);
  settle(&y, c->from_zero);
  cli_chart_begin(out, c->title, c->width, c->height + put_names(NULL, c, 0), alone);
  if (!c->untitled) cli_chart_text(out, "title", EDGE, EDGE + 8, c->title);
  put_axes(out, c, &x, &y);
  for (int s = 0; s < c->count; s++) put_series(out, &c->series[s], &x, &y);
  put_names(out, c, c->height);
  cli_print(out, "</svg>\n");
}
