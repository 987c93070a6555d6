/* interval_dp_scalar.h: the operations that interval_dp_body.h asks for, on vectors of one cell, in
 * plain C. The loops over them are left to the compiler. The file that includes this one defines
 * `cell`. */
typedef cell vec;
enum { LANES = 1, GROUP = 4, PANEL = 16, ROW_PANEL = 64 };

static inline vec load(const cell *x) {
  return *x;
}
static inline void store(cell *to, vec x) {
  *to = x;
}
static inline vec splat(cell x) {
  return x;
}
static inline vec subtract(vec x, vec y) {
  return x - y;
}
static inline vec least(vec x, vec y) {
  return x < y ? x : y;
}
static inline vec greatest(vec x, vec y) {
  return x > y ? x : y;
}
static inline unsigned less(vec x, vec y) {
  return x < y;
}
static inline cell lanes_least(vec x) {
  return x;
}
static inline cell lanes_greatest(vec x) {
  return x;
}

static inline vec add(vec x, vec y) {
  return x + y;
}
static inline vec multiply(vec x, vec y) {
  return x * y;
}
static inline vec multiply_add(vec x, vec y, vec z) {
  return x * y + z;
}
