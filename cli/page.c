#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "chart.h"
#include "xml.h"

/* A cell with more characters may have several lines. */
enum { LONG = 36 };

static const char style[] =
    "<style>"
    ":root{color-scheme:light dark;--ink:#16191d;--soft:#4d5763;--page:#fff;--line:#d5dae0;"
    "--band:#f3f5f7;--mark:#e3f0f9;--link:#0a5a92}"
    "@media (prefers-color-scheme:dark){:root{--ink:#eceff3;--soft:#aab4bf;--page:#14181d;"
    "--line:#333c46;--band:#1c2228;--mark:#173447;--link:#7cc4f2}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}"
    "main{max-width:1320px;margin:0 auto;padding:20px 24px 60px}"
    "h1{font-size:22px;margin:8px 0 2px;overflow-wrap:anywhere}"
    "h2{font-size:17px;margin:34px 0 8px;padding-top:14px;border-top:1px solid var(--line)}"
    "p{margin:6px 0;max-width:90ch;overflow-wrap:anywhere}.soft{color:var(--soft)}"
    ".figures{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}"
    ".figure{background:var(--band);border:1px solid var(--line);border-radius:8px;"
    "padding:10px 14px;min-width:150px;flex:0 1 auto}"
    ".figure b{display:block;font-size:20px;font-variant-numeric:tabular-nums}"
    ".figure span{color:var(--soft);font-size:13px}"
    ".pictures{display:flex;flex-wrap:wrap;gap:18px;align-items:flex-start}"
    ".picture{max-width:100%;overflow-x:auto}.picture svg{display:block}"
    ".table{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}"
    "th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top;white-space:nowrap}td.long{white-space:normal;min-width:30ch}"
    ".n{text-align:right}"
    "th button{all:unset;cursor:pointer;font-weight:600}"
    "th button:focus-visible{outline:2px solid var(--link)}"
    "th[aria-sort] button::after{content:\" \\2195\";color:var(--soft)}"
    "th[aria-sort=ascending] button::after{content:\" \\2191\"}"
    "th[aria-sort=descending] button::after{content:\" \\2193\"}"
    "tr.mark td{background:var(--mark)}"
    "pre{overflow-x:auto;background:var(--band);padding:12px;border-radius:8px;font-size:12.5px;"
    "line-height:1.4}"
    "summary{cursor:pointer;color:var(--link);margin-top:18px}"
    "section{break-inside:avoid}section p{max-width:100ch}a{color:var(--link)}"
    ".narrow{display:none}"
    "table.summary{margin:10px 0 0;width:100%}"
    ".summary td,.summary th{white-space:normal;padding-right:16px}"
    ".summary td:first-child{white-space:nowrap;font-weight:600}"
    ".summary td+td{width:44%}"
    ".verdict{font-size:12.5px;font-weight:600;border-radius:9px;padding:1px 8px;"
    "white-space:nowrap;border:1px solid}"
    ".holds{color:#00694c;background:#e2f4ee}.beaten{color:#0a5a92;background:#e3f0f9}"
    ".fails{color:#9c3f00;background:#fdeade}.open{color:#4d5763;background:#f3f5f7}"
    "@media (prefers-color-scheme:dark){.holds{color:#5fd4b1;background:#11332a}"
    ".beaten{color:#7cc4f2;background:#173447}.fails{color:#f5a36f;background:#41210f}"
    ".open{color:#aab4bf;background:#1c2228}}"
    "@media print{main{padding:0;max-width:none}.table,.picture{overflow:visible}"
    "td,th{white-space:normal}section{break-inside:auto}h2{break-after:avoid}"
    "tr,p,.picture{break-inside:avoid}th[aria-sort] button::after{content:none}}"
    "@media (max-width:700px){.wide{display:none}.narrow{display:block}"
    ".summary,.summary tbody,.summary tr,.summary td{display:block}.summary thead{display:none}"
    ".summary tr{border-bottom:1px solid var(--line);padding:6px 0}"
    ".summary td,.summary td+td{border:0;padding:2px 0;width:auto}}"
    "@media (max-width:640px){main{padding:12px 14px 40px}h1{font-size:18px}"
    ".figure{flex:1 1 130px;min-width:130px}.figure b{font-size:17px}}"
    "</style>\n";

/* It sorts the rows of a table by the column whose name was clicked; what is no number stands
 * last. */
static const char script[] =
    "<script>\n"
    "for (const button of document.querySelectorAll('th button'))\n"
    "  button.addEventListener('click', () => {\n"
    "    const head = button.parentElement, body = head.closest('table').tBodies[0];\n"
    "    const at = head.cellIndex, number = head.classList.contains('n');\n"
    "    const up = head.getAttribute('aria-sort') === (number ? 'descending' : 'ascending') ?\n"
    "      number : !number;\n"
    "    for (const other of head.parentElement.cells) other.setAttribute('aria-sort', 'none');\n"
    "    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');\n"
    "    const key = (row) => number ? parseFloat(row.cells[at].dataset.v) :\n"
    "      row.cells[at].textContent;\n"
    "    const order = (a, b) => number ?\n"
    "      isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : up ? a - b : b - a :\n"
    "      (up ? 1 : -1) * a.localeCompare(b, undefined, {numeric: true});\n"
    "    body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));\n"
    "  });\n"
    "</script>\n";

void cli_page_begin(cli_stream *out, const char *title) {
  cli_print(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>");
  cli_print_xml(out, title);
  cli_print(out, "</title>\n%s", style);
  cli_chart_style(out);
  cli_print(out, "</head>\n<body>\n<main>\n<h1>");
  cli_print_xml(out, title);
  cli_print(out, "</h1>\n");
}

void cli_page_end(cli_stream *out) {
  cli_print(out, "</main>\n%s</body>\n</html>\n", script);
}

void cli_page_section(cli_stream *out, const char *heading) {
  cli_print(out, "<h2>");
  cli_print_xml(out, heading);
  cli_print(out, "</h2>\n");
}

void cli_page_words(cli_stream *out, const char *format, ...) {
  char text[2001];
  va_list args;
  va_start(args, format);
  if (vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
  va_end(args);
  cli_print(out, "<p class=\"soft\">");
  cli_print_xml(out, text);
  cli_print(out, "</p>\n");
}

void cli_page_figures_begin(cli_stream *out) {
  cli_print(out, "<div class=\"figures\">\n");
}

void cli_page_figure(cli_stream *out, const char *value, const char *what) {
  cli_print(out, "<div class=\"figure\"><b>");
  cli_print_xml(out, value);
  cli_print(out, "</b><span>");
  cli_print_xml(out, what);
  cli_print(out, "</span></div>\n");
}

void cli_page_figures_end(cli_stream *out) {
  cli_print(out, "</div>\n");
}

void cli_page_pictures_begin(cli_stream *out) {
  cli_print(out, "<div class=\"pictures\">\n");
}

void cli_page_picture_begin(cli_stream *out) {
  cli_print(out, "<div class=\"picture\">\n");
}

void cli_page_picture_end(cli_stream *out) {
  cli_print(out, "</div>\n");
}

void cli_page_pictures_end(cli_stream *out) {
  cli_print(out, "</div>\n");
}

void cli_page_table_begin(cli_stream *out, const cli_column *columns, int count) {
  cli_print(out, "<div class=\"table\"><table>\n<thead><tr>");
  for (int c = 0; c < count; c++) {
    cli_print(out, "<th%s aria-sort=\"none\"><button>", columns[c].number ? " class=\"n\"" : "");
    cli_print_xml(out, columns[c].name);
    cli_print(out, "</button></th>");
  }
  cli_print(out, "</tr></thead>\n<tbody>\n");
}

void cli_page_row_begin(cli_stream *out, bool marked) {
  cli_print(out, marked ? "<tr class=\"mark\">" : "<tr>");
}

void cli_page_cell(cli_stream *out, const char *text) {
  cli_print(out, strlen(text) > LONG ? "<td class=\"long\">" : "<td>");
  cli_print_xml(out, text);
  cli_print(out, "</td>");
}

void cli_page_cell_number(cli_stream *out, const char *text, double value) {
  cli_print(out, "<td class=\"n\" data-v=\"");
  if (isfinite(value)) cli_print(out, "%.9g", value);
  cli_print(out, "\">");
  cli_print_xml(out, text);
  cli_print(out, "</td>");
}

void cli_page_row_end(cli_stream *out) {
  cli_print(out, "</tr>\n");
}

void cli_page_table_end(cli_stream *out) {
  cli_print(out, "</tbody></table></div>\n");
}

void cli_page_fold(cli_stream *out, const char *heading, const char *text) {
  cli_print(out, "<details><summary>");
  cli_print_xml(out, heading);
  cli_print(out, "</summary><pre>");
  cli_print_xml(out, text);
  cli_print(out, "</pre></details>\n");
}
