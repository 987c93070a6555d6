#include "chart.h"

#include <math.h>
#include <string.h>

#include "xml.h"

enum {
  HUES = CLI_CHART_HUES,
  MARGIN = 12,
  ROW = 22,            /* pixels from bar to bar */
  BAR = 16,            /* pixels of a bar's height */
  HEADING = 24,        /* pixels of a group's heading */
  CHARACTER = 7,       /* pixels of a character's width, about */
  SMALL_HEIGHT = 9,    /* pixels of small text above the line it stands on */
  NAMES_MOST = 190,    /* pixels that names may take */
  NAMES_IN_PLANE = 64, /* names in a plane at most */
  DOTS_IN_PLANE = 320  /* dots that names keep off at most */
};

static const double small_width = 6.5; /* pixels of a character's width in small text, about */

static const char *const light[HUES] = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                        "#cc79a7", "#56b4e9", "#6b7280"};
static const char *const dark[HUES] = {"#4a9fd8", "#e69f00", "#2fbf95", "#f0803c",
                                       "#dd94ba", "#8fd0f5", "#a3acb8"};

static void print_hues(cli_stream *out, const char *const hues[HUES]) {
  for (int h = 0; h < HUES; h++)
    cli_print(out, ".mmchain-chart .hue%d{fill:%s;stroke:%s}.mmchain-chart .line.hue%d{fill:none}",
              h, hues[h], hues[h], h);
}

void cli_chart_style(cli_stream *out) {
  cli_print(out,
            "<style>.mmchain-chart text{font:12px system-ui,-apple-system,\"Segoe UI\","
            "\"DejaVu Sans\",sans-serif;fill:#16191d}"
            ".mmchain-chart .title{font-size:14px;font-weight:600}"
            ".mmchain-chart .group{font-weight:600}.mmchain-chart .soft{fill:#4d5763}"
            ".mmchain-chart .end{text-anchor:end}.mmchain-chart .middle{text-anchor:middle}"
            ".mmchain-chart .small{font-size:11px}"
            ".mmchain-chart .page{fill:#fff;stroke:none}"
            ".mmchain-chart .value{paint-order:stroke;stroke:#fff;stroke-width:4px}"
            ".mmchain-chart .grid{stroke:#dde1e6;fill:none}"
            ".mmchain-chart .axis{stroke:#5a6472;fill:none}"
            ".mmchain-chart .roof{stroke:#16191d;stroke-width:2;fill:none}"
            ".mmchain-chart .spread{stroke:#16191d;stroke-width:1.5;fill:none}"
            ".mmchain-chart .faint{fill-opacity:.35;stroke-dasharray:4 2}"
            ".mmchain-chart .second{fill-opacity:.5}.mmchain-chart .second.faint{fill-opacity:.2}"
            ".mmchain-chart .line{fill:none;stroke-width:2;stroke-linejoin:round}"
            ".mmchain-chart .dashed{stroke-dasharray:6 4}"
            ".mmchain-chart .error{fill:none;stroke-width:1}"
            ".mmchain-chart .mark{stroke:#16191d;stroke-width:1;stroke-dasharray:3 3;fill:none}");
  print_hues(out, light);
  cli_print(out,
            "@media (prefers-color-scheme:dark){.mmchain-chart text{fill:#eceff3}"
            ".mmchain-chart .soft{fill:#aab4bf}.mmchain-chart .page{fill:#14181d}"
            ".mmchain-chart .value{stroke:#14181d}"
            ".mmchain-chart .grid{stroke:#2c343d}.mmchain-chart .axis{stroke:#9aa5b1}"
            ".mmchain-chart .roof,.mmchain-chart .spread,.mmchain-chart .mark{stroke:#eceff3}");
  print_hues(out, dark);
  cli_print(out, "}</style>\n");
}

void cli_chart_begin(cli_stream *out, const char *title, int width, int height, bool alone) {
  if (alone) cli_print(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  cli_print(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"mmchain-chart\" role=\"img\" "
            "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<title>",
            width, height, width, height);
  cli_print_xml(out, title);
  cli_print(out, "</title>\n");
  if (alone) {
    cli_chart_style(out);
    cli_print(out, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", width, height);
  }
}

void cli_chart_text(cli_stream *out, const char *class, double x, double y, const char *text) {
  cli_print(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
  cli_print_xml(out, text);
  cli_print(out, "</text>\n");
}

/* ---- bars ------------------------------------------------------------------------------------ */

typedef struct bar_layout {
  int names;    /* the width of the column of names */
  int from, to; /* where bars begin and where the longest ends */
  double most;  /* the value of the longest */
  int height;
} bar_layout;

static bool begins_group(const cli_bars *c, int b) {
  return c->bars[b].group[0] != '\0' &&
         (b == 0 || strcmp(c->bars[b].group, c->bars[b - 1].group) != 0);
}

static double length_of(const cli_bar *bar) {
  double value = isfinite(bar->value) ? fabs(bar->value) : 0;
  if (isfinite(bar->more)) value += fabs(bar->more);
  return isfinite(bar->high) ? fmax(value, fabs(bar->high)) : value;
}

static cli_quantity value_of(const cli_bars *c, const cli_bar *bar) {
  cli_quantity q;
  snprintf(q.text, sizeof q.text, "%s", bar->text != NULL ? bar->text : "");
  if (bar->text != NULL) return q;
  return cli_in_units(bar->value + (isfinite(bar->more) ? bar->more : 0), c->unit);
}

static bar_layout lay_out(const cli_bars *c) {
  bar_layout l = {.height = MARGIN + (c->untitled ? 0 : 22) + (c->subtitle[0] != '\0' ? 18 : 0) +
                            (c->mark > 0 ? 16 : 0) + (c->second_mark > 0 ? 16 : 0)};
  size_t name = 0, value = 0;
  for (int b = 0; b < c->count; b++) {
    const cli_bar *bar = &c->bars[b];
    size_t behind = strlen(value_of(c, bar).text) + strlen(bar->note) + 1;
    if (!isfinite(bar->value)) behind = 0; /* the whole row is free for the note */
    if (strlen(bar->name) > name) name = strlen(bar->name);
    if (behind > value) value = behind;
    l.most = fmax(fmax(l.most, length_of(bar)), fmax(c->mark, c->second_mark));
    l.height += ROW + (begins_group(c, b) ? HEADING : 0);
  }
  l.names = (int)name * CHARACTER + 8;
  if (l.names > NAMES_MOST) l.names = NAMES_MOST;
  l.from = MARGIN + l.names;
  l.to = c->width - MARGIN - (int)value * CHARACTER - 10;
  if (l.to < l.from + 60) l.to = l.from + 60;
  l.height += (c->parts[0] != NULL ? ROW : 0) + MARGIN;
  return l;
}

static void put_bar(cli_stream *out, const cli_bars *c, const bar_layout *l, const cli_bar *bar,
                    int y) {
  double scale = l->most > 0 ? (l->to - l->from) / l->most : 0;
  char name[64];
  snprintf(name, sizeof name, "%.*s", NAMES_MOST / CHARACTER, bar->name);
  cli_chart_text(out, "", MARGIN, y + BAR - 4, name);
  double first = isfinite(bar->value) ? scale * fabs(bar->value) : 0;
  double second = isfinite(bar->more) ? scale * fabs(bar->more) : 0;
  const char *faint = bar->faint ? " faint" : "";
  if (isfinite(bar->value))
    cli_print(out, "<rect class=\"bar hue%d%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
              bar->hue % HUES, faint, l->from, y, fmax(first, 1), BAR);
  if (second > 0)
    cli_print(out,
              "<rect class=\"hue%d second%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
              bar->hue % HUES, faint, l->from + first, y, second, BAR);
  double end = first + second;
  if (isfinite(bar->low) && isfinite(bar->high)) {
    double low = l->from + scale * bar->low, high = l->from + scale * bar->high;
    cli_print(out, "<path class=\"spread\" d=\"M%.1f %dv6M%.1f %dh%.1fM%.1f %dv6\"/>\n", low, y + 5,
              low, y + 8, high - low, high, y + 5);
    end = fmax(end, scale * bar->high);
  }
  char behind[160];
  snprintf(behind, sizeof behind, "%s%s%.100s", value_of(c, bar).text,
           bar->note[0] != '\0' ? " " : "", bar->note);
  cli_chart_text(out, "value", l->from + end + 6, y + BAR - 4, behind);
}

/* Says what the two parts of stacked bars are. */
static void put_parts(cli_stream *out, const cli_bars *c, int y) {
  int x = MARGIN;
  for (int part = 0; part < 2; part++) {
    cli_print(out, "<rect class=\"hue0%s\" x=\"%d\" y=\"%d\" width=\"16\" height=\"12\"/>\n",
              part == 1 ? " second" : "", x, y);
    cli_chart_text(out, "", x + 22, y + 10, c->parts[part]);
    x += 40 + (int)strlen(c->parts[part]) * (CHARACTER + 1);
  }
}

/* Draws a line that bars are compared with, down from y. */
static void put_mark(cli_stream *out, const cli_bars *c, const bar_layout *l, int y, double mark,
                     const char *name) {
  double x = l->from + (l->most > 0 ? (l->to - l->from) / l->most : 0) * mark;
  bool left = x > c->width * 0.6;
  cli_chart_text(out, left ? "small value end" : "small value", x + (left ? -4 : 4), y - 4, name);
  cli_print(out, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>\n", x, y - 12,
            l->height - MARGIN - (c->parts[0] != NULL ? ROW : 0));
}

void cli_chart_bars(cli_stream *out, const cli_bars *c, bool alone) {
  bar_layout l = lay_out(c);
  cli_chart_begin(out, c->title, c->width, l.height, alone);
  int y = c->untitled ? MARGIN - 10 : MARGIN + 14;
  if (!c->untitled) cli_chart_text(out, "title", MARGIN, y, c->title);
  if (c->subtitle[0] != '\0') cli_chart_text(out, "soft", MARGIN, y += 18, c->subtitle);
  y += 10;
  if (c->mark > 0) put_mark(out, c, &l, y += 16, c->mark, c->mark_name);
  if (c->second_mark > 0) put_mark(out, c, &l, y += 16, c->second_mark, c->second_mark_name);
  for (int b = 0; b < c->count; b++) {
    if (begins_group(c, b)) {
      cli_chart_text(out, "group", MARGIN, y + 16, c->bars[b].group);
      y += HEADING;
    }
    put_bar(out, c, &l, &c->bars[b], y);
    y += ROW;
  }
  if (c->parts[0] != NULL) put_parts(out, c, y + 4);
  cli_print(out, "</svg>\n");
}

/* ---- points ---------------------------------------------------------------------------------- */

/* The plane's place in the picture, and what its edges stand for, as powers of ten. */
typedef struct plane_layout {
  double left, right, top, bottom;
  double x_low, x_high, y_low, y_high;
} plane_layout;

static void widen(double value, double *low, double *high) {
  if (!(value > 0) || !isfinite(value)) return;
  *low = fmin(*low, floor(log10(value)));
  *high = fmax(*high, ceil(log10(value)));
}

static plane_layout lay_out_plane(const cli_plane *c) {
  plane_layout l = {.left = 76,
                    .right = c->width - 20,
                    .top = 48,
                    .bottom = c->height - 48,
                    .x_low = (double)INFINITY,
                    .x_high = -(double)INFINITY,
                    .y_low = (double)INFINITY,
                    .y_high = -(double)INFINITY};
  for (int i = 0; i < c->count; i++) {
    widen(c->points[i].x, &l.x_low, &l.x_high);
    widen(c->points[i].y, &l.y_low, &l.y_high);
    widen(1.3 * c->points[i].y, &l.y_low, &l.y_high); /* a dot has a size */
  }
  if (c->roof.slope > 0 && c->roof.flat > 0) {
    /* The ridge of the roof must not lie at an edge. */
    double ridge = c->roof.flat / c->roof.slope;
    widen(2 * c->roof.flat, &l.y_low, &l.y_high);
    widen(c->roof.flat / 4, &l.y_low, &l.y_high);
    widen(ridge / 2, &l.x_low, &l.x_high);
    widen(4 * ridge, &l.x_low, &l.x_high);
  }
  if (!(l.x_low < l.x_high)) l.x_high = l.x_low + 1;
  if (!(l.y_low < l.y_high)) l.y_high = l.y_low + 1;
  if (!isfinite(l.x_low)) l.x_low = 0, l.x_high = 1;
  if (!isfinite(l.y_low)) l.y_low = 0, l.y_high = 1;
  return l;
}

static double x_of(const plane_layout *l, double x) {
  return l->left + (l->right - l->left) * (log10(x) - l->x_low) / (l->x_high - l->x_low);
}

static double y_of(const plane_layout *l, double y) {
  return l->bottom - (l->bottom - l->top) * (log10(y) - l->y_low) / (l->y_high - l->y_low);
}

/* Prints a line across at each power of ten, or at some where there are many. */
static void put_grid(cli_stream *out, const cli_plane *c, const plane_layout *l) {
  int x_step = (int)ceil((l->x_high - l->x_low) / 8),
      y_step = (int)ceil((l->y_high - l->y_low) / 8);
  for (int e = (int)l->x_low; e <= (int)l->x_high; e += x_step) {
    double x = x_of(l, pow(10, e));
    cli_print(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, l->top, l->bottom);
    cli_chart_text(out, "small middle", x, l->bottom + 16,
                   cli_in_units(pow(10, e), c->x_unit).text);
  }
  for (int e = (int)l->y_low; e <= (int)l->y_high; e += y_step) {
    double y = y_of(l, pow(10, e));
    cli_print(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", l->left, y, l->right);
    cli_chart_text(out, "small end", l->left - 6, y + 4, cli_in_units(pow(10, e), c->y_unit).text);
  }
  cli_print(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", l->left, l->top, l->bottom,
            l->right);
  cli_chart_text(out, "middle", (l->left + l->right) / 2, l->bottom + 36, c->x_name);
  cli_chart_text(out, "", MARGIN, l->top - 12, c->y_name);
}

/* The line that is the roof: from its start up to the ridge, then level to the right edge. It has
 * no length where there is no roof. */
typedef struct roof_line {
  double start_x, start_y, ridge_x, ridge_y, right;
} roof_line;

static roof_line roof_of(const cli_roof *roof, const plane_layout *l) {
  if (!(roof->slope > 0) || !(roof->flat > 0)) return (roof_line){0};
  double start = pow(10, fmax(l->x_low, l->y_low - log10(roof->slope)));
  return (roof_line){.start_x = x_of(l, start),
                     .start_y = y_of(l, roof->slope * start),
                     .ridge_x = x_of(l, roof->flat / roof->slope),
                     .ridge_y = y_of(l, roof->flat),
                     .right = l->right};
}

/* Where the roof rises, the x that it has at a y. */
static double rise_at(const roof_line *r, double y) {
  double share = (r->start_y - y) / (r->start_y - r->ridge_y);
  return r->start_x + fmin(fmax(share, 0), 1) * (r->ridge_x - r->start_x);
}

typedef struct place {
  double x, y;
} place;

/* A box that text takes, in pixels. */
typedef struct box {
  double left, right, top, bottom;
} box;

static box box_of(place at, const char *text) {
  const double width = (double)strlen(text) * small_width;
  return (box){at.x - 2, at.x + width + 2, at.y - SMALL_HEIGHT - 1, at.y + 3};
}

static bool meets_roof(const roof_line *r, box b) {
  if (r->right <= r->start_x) return false;
  if (b.top < r->ridge_y && r->ridge_y < b.bottom && b.right > r->ridge_x) return true;
  double top = fmax(b.top, r->ridge_y), bottom = fmin(b.bottom, r->start_y);
  return top < bottom && rise_at(r, bottom) < b.right && rise_at(r, top) > b.left;
}

/* The boxes of the dots and names in a plane. Names lie within its frame, off its roof and off the
 * dots. */
typedef struct names {
  const plane_layout *frame;
  roof_line roof;
  box boxes[NAMES_IN_PLANE + DOTS_IN_PLANE];
  int count;
} names;

/* Says whether a name has room in a box, and takes it. */
static bool take_box(names *m, box b) {
  const plane_layout *l = m->frame;
  if (b.left < l->left || b.right > l->right || b.top < l->top || b.bottom > l->bottom)
    return false;
  if (m->count == DOTS_IN_PLANE + NAMES_IN_PLANE || meets_roof(&m->roof, b)) return false;
  for (int i = 0; i < m->count; i++) {
    const box *other = &m->boxes[i];
    if (b.left < other->right && other->left < b.right && b.top < other->bottom &&
        other->top < b.bottom)
      return false;
  }
  m->boxes[m->count++] = b;
  return true;
}

/* Puts a name at the first of these places that has room; at none it is left out. */
static void put_name(cli_stream *out, names *m, const place *places, int count, const char *name) {
  for (int p = 0; p < count; p++) {
    if (!take_box(m, box_of(places[p], name))) continue;
    cli_chart_text(out, "small", places[p].x, places[p].y, name);
    return;
  }
}

/* The slope's name stands below the line, beside its lower end, or where that is no room above. */
static void put_roof(cli_stream *out, const cli_roof *roof, names *m) {
  const roof_line *r = &m->roof;
  if (r->right <= r->start_x) return;
  cli_print(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"/>\n", r->start_x, r->start_y,
            r->ridge_x, r->ridge_y, r->right);
  const double width = (double)strlen(roof->flat_name) * small_width;
  const place flat[] = {{r->right - 4 - width, r->ridge_y - 7},
                        {r->right - 4 - width, r->ridge_y + 16}};
  put_name(out, m, flat, 2, roof->flat_name);
  place rising[8];
  const double length = (double)strlen(roof->slope_name) * small_width;
  for (int p = 0; p < 8; p++) {
    const double low = fmin(r->start_y, m->frame->bottom) - 6, step = (low - r->ridge_y) / 4;
    const int level = p / 2; /* to the right of the line, then to the left */
    const double y = low - step * level;
    const double below = rise_at(r, y - SMALL_HEIGHT - 1) + 8, above = rise_at(r, y + 3) - 8;
    rising[p] = (place){p % 2 == 0 ? below : above - length, y};
  }
  put_name(out, m, rising, 8, roof->slope_name);
}

static bool is_in_plane(const cli_point *p) {
  return p->x > 0 && p->y > 0 && isfinite(p->x) && isfinite(p->y);
}

static double radius_of(const cli_point *p) {
  return 4 + 12 * sqrt(fmin(fmax(p->share, 0), 1));
}

static void put_dot(cli_stream *out, const cli_point *p, names *m) {
  if (!is_in_plane(p)) return;
  const double x = x_of(m->frame, p->x), y = y_of(m->frame, p->y), radius = radius_of(p);
  cli_print(out,
            "<circle class=\"hue%d%s\" style=\"fill-opacity:%s\" cx=\"%.1f\" cy=\"%.1f\" "
            "r=\"%.1f\"><title>",
            p->hue % HUES, p->faint ? " faint" : "", p->faint ? ".15" : ".5", x, y, radius);
  cli_print_xml(out, p->label);
  cli_print(out, "</title></circle>\n");
  if (m->count < DOTS_IN_PLANE)
    m->boxes[m->count++] = (box){x - radius, x + radius, y - radius, y + radius};
}

static void put_dots_name(cli_stream *out, const cli_point *p, names *m) {
  if (!is_in_plane(p) || p->mark[0] == '\0') return;
  const double x = x_of(m->frame, p->x), y = y_of(m->frame, p->y), radius = radius_of(p);
  const double width = (double)strlen(p->mark) * small_width;
  const place places[] = {{x + radius + 4, y + 4},         {x - radius - 4 - width, y + 4},
                          {x - width / 2, y - radius - 5}, {x - width / 2, y + radius + 13},
                          {x + radius + 14, y + 12},       {x - radius - 14 - width, y + 12},
                          {x + radius + 14, y - 6},        {x - radius - 14 - width, y - 6}};
  put_name(out, m, places, 8, p->mark);
}

void cli_chart_plane(cli_stream *out, const cli_plane *c) {
  plane_layout l = lay_out_plane(c);
  cli_chart_begin(out, c->title, c->width, c->height, false);
  cli_chart_text(out, "title", MARGIN, MARGIN + 8, c->title);
  put_grid(out, c, &l);
  names m = {.frame = &l, .roof = roof_of(&c->roof, &l)};
  put_roof(out, &c->roof, &m);
  for (int i = 0; i < c->count; i++) put_dot(out, &c->points[i], &m);
  for (int i = 0; i < c->count; i++) put_dots_name(out, &c->points[i], &m);
  cli_print(out, "</svg>\n");
}
