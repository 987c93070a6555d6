/* torch.c: see torch.h. */
#include "torch.h"

#include <math.h>
#include <string.h>

#include "call.h"
#include "modes.h"
#include "plan.h"
#include "view.h"

enum {
  /* Up to here calls of mm take less than one of multi_dot, whose result is a view with a gradient
   * of its own. */
  MOST_BY_MM = 6,
  MOST_ORDERED = 32,  /* chains are ordered here up to so many factors */
  MOST_FACTORS = 128, /* PyTorch finds the order of more in longer than we */
  /* Many small matrices are one function with gradients of its own (_torch.py). */
  LEAST_BY_US = 20,
  LEAST_BY_US_ON_GPU = 4, /* where every product of PyTorch's is a launch */
  MOST_NEW_ON_GPU = 16,   /* of a chain that comes for one of the first times there */
  LARGEST_BY_US = 64,
  MOST_TERMS = 512, /* of sums of a small product, of which PyTorch's take long */
  /* Results of fewer columns, but one, or rows take MKL up to twenty times as long as us. */
  LEAST_COLUMNS = 16,
  LEAST_COLUMNS_C64 = 4,
  LEAST_ROWS = 4
};

static PyObject *types, *mm, *mv, *dot, *matmul, *multi_dot, *is_grad_enabled, *by_us, *precision;
static bool has_bf16; /* whether PyTorch multiplies bfloat16 by oneDNN on this processor */

PyObject *mmcp_set_torch(PyObject *module, PyObject *args) {
  enum { GIVEN = 9 };
  PyObject *given[GIVEN];
  int bf16;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!OOOOOOOOp:set_torch", &PyTuple_Type, &given[0], &given[1],
                        &given[2], &given[3], &given[4], &given[5], &given[6], &given[7], &given[8],
                        &bf16))
    return NULL;
  PyObject **kept[GIVEN] = {&types,           &mm,    &mv,       &dot, &matmul, &multi_dot,
                            &is_grad_enabled, &by_us, &precision};
  for (int i = 0; i < GIVEN; i++) Py_XSETREF(*kept[i], Py_NewRef(given[i]));
  has_bf16 = bf16 != 0;
  Py_RETURN_NONE;
}

/* A chain of PyTorch's matrices or stacks of them, the first and the last of which may be vectors.
 */
typedef struct chain {
  PyObject *const *items;
  int n;
  bool has_stacks;
  double counts[MOST_ORDERED]; /* matrices of each stack */
  int first_wanted;            /* the first that wants a gradient */
  bool is_recorded;            /* whether some do, and are to have it */
  mmc_dtype dtype;             /* that the products have */
  bool is_cast;                /* whether torch.autocast has factors on the CPU cast to lower */
  mmc_dtype lower;
  bool is_row, is_column;   /* whether the first, the last is a vector */
  bool is_on_gpu, anywhere; /* anywhere: no device was asked for */
  int64_t dims[MOST_FACTORS + 1];
  uint8_t splits[MOST_ORDERED][MOST_ORDERED]; /* by first and last factor: the last of the left */
} chain;

/* Has _torch.py tell, which the first tensor brings, what PyTorch's functions are. Returns 1; 0
 * where the item is none of PyTorch's; -1 with an exception set. */
static int learn_from(PyObject *item) {
  static PyTypeObject *other; /* the last type that was none */
  if (types != NULL || Py_TYPE(item) == other) return types != NULL;
  PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(item), "__module__");
  const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
  const bool is_torch =
      text != NULL && (strcmp(text, "torch") == 0 || strncmp(text, "torch.", 6) == 0);
  Py_XDECREF(name);
  PyErr_Clear();
  if (!is_torch) {
    other = Py_TYPE(item);
    return 0;
  }
  PyObject *module = PyImport_ImportModule("mmchain._torch");
  Py_XDECREF(module);
  return module != NULL ? types != NULL : -1;
}

static bool is_tensor(PyObject *item) {
  for (Py_ssize_t t = 0; types != NULL && t < PyTuple_GET_SIZE(types); t++)
    if ((PyObject *)Py_TYPE(item) == PyTuple_GET_ITEM(types, t)) return true;
  return false;
}

/* The answer of a function, or the value of an attribute, which this takes; -1 with an exception
 * set. */
static int truth_of(PyObject *value) {
  const int truth = value != NULL ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

/* Says whether products are PyTorch's because they are recorded as they are computed, or because it
 * casts their factors. */
static int is_theirs(chain *c) {
  int wants = 0;
  for (int i = 0; i < c->n && wants == 0; i++) {
    wants = mmcp_requires_grad(c->items[i]);
    c->first_wanted = i;
  }
  if (wants == 1) wants = truth_of(PyObject_CallNoArgs(is_grad_enabled));
  c->is_recorded = wants == 1;
  return wants == 0 ? c->is_cast : wants;
}

/* Says whether the factor may be one of the chain: a matrix, a stack, or a vector at an end. */
static bool read_shape(chain *c, int i, const dl_tensor *tensor) {
  c->is_row = c->is_row || (i == 0 && tensor->ndim == 1);
  c->is_column = c->is_column || (i == c->n - 1 && tensor->ndim == 1);
  const bool is_row = i == 0 && c->is_row, is_column = i == c->n - 1 && c->is_column;
  if (tensor->ndim < (is_row || is_column ? 1 : 2)) return false;
  if (tensor->ndim > 2) {
    if (c->n > MOST_ORDERED) return false;
    c->has_stacks = true;
  }
  if (i < MOST_ORDERED) c->counts[i] = 1;
  for (int d = 0; d + 2 < tensor->ndim; d++) c->counts[i] *= (double)tensor->shape[d];
  const int64_t rows = is_row ? 1 : tensor->shape[is_column ? 0 : tensor->ndim - 2];
  if (i == 0) c->dims[0] = rows;
  c->dims[i + 1] = is_column ? 1 : tensor->shape[tensor->ndim - 1];
  return rows == c->dims[i];
}

/* Says whether PyTorch finds the order too. A row would be made a matrix, and back, by every
 * product. */
static bool is_for_multi_dot(const chain *c) {
  if (c->is_on_gpu || c->has_stacks) return false;
  return (c->is_row && c->n > 2) || (c->n > MOST_BY_MM && c->n < LEAST_BY_US);
}

/* Reads the dtype and the dims of factors that torch.autocast casts to one dtype, or that have one,
 * on one device, and that fit together. Returns 0 when they are not that. */
static int read_dims(chain *c) {
  const dl_exchange *exchange = mmcp_exchange_of(c->items[0]);
  dl_device device = {0};
  if (exchange == NULL) return PyErr_Occurred() ? -1 : 0;
  for (int i = 0; i < c->n; i++) {
    dl_tensor tensor;
    mmc_dtype dtype;
    const int borrowed = mmcp_borrow(c->items[i], exchange, &tensor);
    if (borrowed != 1) return borrowed; /* it is sparse, or has no memory */
    if (i == 0) {
      device = tensor.device;
      c->is_on_gpu = device.type == DL_CUDA;
    }
    if ((device.type != DL_CPU && !(c->is_on_gpu && c->anywhere)) ||
        tensor.device.type != device.type || tensor.device.id != device.id ||
        !mmcp_dtype_of_dl(tensor.dtype, &dtype))
      return 0;
    const bool is_lowered = dtype == MMC_F32 || dtype == MMC_F16 || dtype == MMC_BF16;
    if (c->is_cast && !c->is_on_gpu && is_lowered) dtype = c->lower;
    if (i == 0) c->dtype = dtype;
    if (dtype != c->dtype || !read_shape(c, i, &tensor)) return 0;
  }
  /* With vectors beside stacks, what products make of them would be taken for matrices. */
  return !(c->has_stacks && (c->is_row || c->is_column));
}

/* Multiplications, and those that gradients take. Of stacks that broadcast, as many products are
 * counted as the larger one has matrices. */
typedef struct price {
  double forward, backward;
} price;

/* Returns the multiplications of a product of so many matrices. Of stacks every number that is read
 * or written counts as some more, which takes PyTorch as long. */
static double price_of(const chain *c, double count, int first, int split, int last) {
  const double a_number = 8, m = (double)c->dims[first], k = (double)c->dims[split + 1],
               n = (double)c->dims[last + 1];
  return c->has_stacks ? count * (m * k * n + a_number * (m * k + k * n + m * n)) : m * k * n;
}

/* Finds the order of fewest multiplications, and of those one whose gradients take the fewest where
 * it is told which factors want them: wanted[i] is how many of the first i do. Returns whether
 * there was a choice. */
static bool find_order(chain *c, const int *wanted) {
  price least[MOST_ORDERED][MOST_ORDERED];
  bool had_choice = false;
  for (int last = 0; last < c->n; last++) {
    double count = c->has_stacks ? c->counts[last] : 1;
    least[last][last] = (price){0, 0};
    for (int first = last - 1; first >= 0; first--) {
      if (c->has_stacks) count = fmax(count, c->counts[first]);
      price *best = &least[first][last];
      *best = (price){INFINITY, INFINITY};
      for (int split = last - 1; split >= first; split--) {
        const price *left = &least[first][split], *right = &least[split + 1][last];
        const double product = price_of(c, count, first, split, last);
        const double forward = left->forward + right->forward + product;
        if (forward > best->forward) continue;
        had_choice = had_choice || forward == best->forward;
        double backward = 0;
        if (wanted != NULL) {
          const int sides =
              (wanted[split + 1] > wanted[first]) + (wanted[last + 1] > wanted[split + 1]);
          backward = left->backward + right->backward + sides * product;
        }
        if (forward == best->forward && backward >= best->backward) continue;
        *best = (price){forward, backward};
        c->splits[first][last] = (uint8_t)split;
      }
    }
  }
  return had_choice;
}

/* Finds the order; which factors want gradients is asked only where it matters. */
static int choose_order(chain *c) {
  if (c->n == 2) c->splits[0][1] = 0;
  if (c->n == 2 || !find_order(c, NULL)) return 1;
  const int last_wants = mmcp_requires_grad(c->items[c->n - 1]);
  if (last_wants < 0 || (last_wants > 0 && c->first_wanted == 0)) return last_wants < 0 ? -1 : 1;
  int wanted[MOST_ORDERED + 1] = {0};
  for (int i = c->first_wanted; i < c->n; i++) {
    const int wants = i == c->first_wanted ? 1 : mmcp_requires_grad(c->items[i]);
    if (wants < 0) return -1;
    wanted[i + 1] = wanted[i] + wants;
  }
  find_order(c, wanted);
  return 1;
}

/* The product of the factors from the first to the last, as new reference; NULL with an exception
 * set. */
static PyObject *multiply(const chain *c, int first, int last) {
  if (first == last) return Py_NewRef(c->items[first]);
  const int split = c->splits[first][last];
  const bool row = c->is_row && first == 0, column = c->is_column && last == c->n - 1;
  /* torch.autocast casts what matmul multiplies, and not all that mv and dot do. */
  const int is_cast = row || column ? mmcp_is_autocast() : 0;
  if (is_cast < 0) return NULL;
  const bool by_matmul = c->has_stacks || (row && !column) || is_cast;
  PyObject *function = by_matmul ? matmul : row ? dot : column ? mv : mm;
  PyObject *sides[] = {multiply(c, first, split), NULL}, *product = NULL;
  if (sides[0] != NULL) sides[1] = multiply(c, split + 1, last);
  if (sides[1] != NULL) product = PyObject_Vectorcall(function, sides, 2, NULL);
  Py_XDECREF(sides[0]);
  Py_XDECREF(sides[1]);
  return product;
}

/* What does not fit together is said in NumPy's words, elsewhere: 0, or -1 with an exception set.
 */
static int no_result(void) {
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -1;
  PyErr_Clear();
  return 0;
}

static int call_multi_dot(PyObject *sequence, PyObject **out) {
  *out = PyObject_CallOneArg(multi_dot, sequence);
  return *out != NULL ? 1 : no_result();
}

static int64_t largest_dim(const chain *c) {
  int64_t largest = 0;
  for (int d = 0; d <= c->n; d++) largest = c->dims[d] > largest ? c->dims[d] : largest;
  return largest;
}

static bool is_for_us(const chain *c) {
  const int least = c->is_on_gpu ? LEAST_BY_US_ON_GPU : LEAST_BY_US;
  return c->n >= least && largest_dim(c) <= LARGEST_BY_US;
}

/* Says whether there are as many matrices of each. */
static bool are_alike(const chain *c) {
  for (int i = 1; c->has_stacks && i < c->n; i++)
    if (c->counts[i] != c->counts[0]) return false;
  return true;
}

/* Has _torch.py multiply them as one function: stacks and vectors by its own entrance. */
static int call_by_us(const chain *c, PyObject **out) {
  if (c->is_row || c->is_column || c->has_stacks) return 0;
  PyObject *dims = PyList_New(c->n + 1), *matrices = PyTuple_New(c->n);
  for (int d = 0; dims != NULL && d <= c->n; d++) {
    PyObject *dim = PyLong_FromLongLong(c->dims[d]);
    if (dim == NULL)
      Py_CLEAR(dims);
    else
      PyList_SET_ITEM(dims, d, dim);
  }
  for (int i = 0; matrices != NULL && i < c->n; i++)
    PyTuple_SET_ITEM(matrices, i, Py_NewRef(c->items[i]));
  *out = NULL;
  if (dims != NULL && matrices != NULL)
    *out = PyObject_CallFunctionObjArgs(by_us, matrices, dims, NULL);
  Py_XDECREF(dims);
  Py_XDECREF(matrices);
  if (*out == Py_None) Py_CLEAR(*out);
  return *out != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

static int multiply_in_order(chain *c, PyObject **out) {
  if (choose_order(c) < 0) return -1;
  *out = multiply(c, 0, c->n - 1);
  return *out != NULL ? 1 : no_result();
}

/* Says whether so many products take PyTorch no longer than us where ours are functions with
 * gradients or come after casts, some 20 us each: they have few multiplications, or are oneDNN's,
 * which PyTorch has multiply all but the smallest of a stack. */
static bool is_short(const chain *c, double each, double count) {
  enum { MOST = 1 << 15, LEAST_BY_ONEDNN = 400 };
  if (each * count <= MOST) return true;
  return has_bf16 && c->dtype == MMC_BF16 && (count == 1 || each >= LEAST_BY_ONEDNN);
}

/* The matrices of the largest stack among the factors from the first to the last. */
static double largest_count(const chain *c, int first, int last) {
  double count = 1;
  for (int i = first; i <= last; i++) count = fmax(count, c->counts[i]);
  return count;
}

static bool are_short(const chain *c, int first, int last) {
  if (first == last) return true;
  const int split = c->splits[first][last];
  double each = (double)c->dims[first] * (double)c->dims[split + 1] * (double)c->dims[last + 1];
  double count = largest_count(c, first, last);
  if (largest_count(c, split + 1, last) == 1) { /* the stack's rows are those of one matrix */
    each *= count;
    count = 1;
  }
  return is_short(c, each, count) && are_short(c, first, split) && are_short(c, split + 1, last);
}

/* Multiplies factors of 16 bits, or what is cast to them, on the CPU. */
static int multiply_halves(chain *c, PyObject *sequence, PyObject **out) {
  const double largest = (double)largest_dim(c);
  /* Where nothing is recorded, calls from within multi_dot take less than ours of mm. */
  const bool is_ordered = c->n <= MOST_ORDERED,
             are_all_short = !c->has_stacks && is_short(c, largest * largest * largest, 1),
             by_multi_dot = !c->has_stacks && c->n > (c->is_recorded ? MOST_BY_MM : 2);
  if (are_all_short && by_multi_dot) return call_multi_dot(sequence, out);
  if (is_ordered && choose_order(c) < 0) return -1;
  if (is_ordered ? !are_short(c, 0, c->n - 1) : !are_all_short) return 0;
  if (by_multi_dot) return call_multi_dot(sequence, out);
  *out = multiply(c, 0, c->n - 1);
  return *out != NULL ? 1 : no_result();
}

/* ---- large products on the CPU ----------------------------------------------------------------
 */

/* Says whether MKL has kernels for this processor: on others it takes those for AVX2. */
static bool is_mkls(void) {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

/* Multiplications of a product, and in bfloat16 of all of a stack, from which on PyTorch's take
 * less on the CPU, as measured with its MKL and oneDNN beside OpenBLAS 0.3.31; 0 where ours take no
 * more. They also leave no threads of an OpenBLAS behind, which would look for work on the
 * processors that PyTorch's next operation wants. */
static double least_for_torch(mmc_dtype dtype) {
  switch (dtype) {
    case MMC_F32:
      return 1 << 20;
    case MMC_BF16:
      return has_bf16 ? 1 << 19 : 0;
    case MMC_C64:
    case MMC_C128:
      return is_mkls() ? 1 << 13 : 1 << 19;
    default:
      return 0;
  }
}

static bool has_few_columns(mmc_dtype dtype, double n) {
  return n < (dtype == MMC_C64 ? LEAST_COLUMNS_C64 : LEAST_COLUMNS);
}
static bool has_few_rows(mmc_dtype dtype, double m) {
  return dtype != MMC_C64 && m < LEAST_ROWS;
}

/* Elements of the larger one of two factors in bfloat16 from which on oneDNN takes less than we, as
 * measured likewise. */
static const double least_elements = 1 << 16;

/* Says whether a product in bfloat16, or one of a stack, takes oneDNN less time than us, however
 * few its rows or columns are: few multiplications of large factors take as long as reading these.
 */
static bool is_onednns(mmc_dtype dtype, double m, double k, double n, bool is_of_stack) {
  if (!has_bf16 || dtype != MMC_BF16) return false;
  return k * fmax(m, n) >= least_elements || (m == 1 && n == 1 && !is_of_stack);
}

/* Says whether a large product does not take PyTorch long; products of 16 bits are not MKL's. */
static bool is_wide(mmc_dtype dtype, double m, double n) {
  return dtype == MMC_BF16 || !(has_few_rows(dtype, m) || has_few_columns(dtype, n));
}

/* Multiplications of a matrix and another one, or a vector, up to which PyTorch's call takes less
 * than a result takes to make as we do, as measured likewise. */
static double most_tiny(mmc_dtype dtype, bool by_vector) {
  switch (dtype) {
    case MMC_F32:
      return 1 << 11;
    case MMC_F64:
      return 1 << 10;
    case MMC_C64:
    case MMC_C128:
      return by_vector ? 1 << 8 : 1 << 9;
    case MMC_F16:
    case MMC_BF16:
      return by_vector ? 0 : 1 << 10;
    case MMC_BOOL: /* PyTorch has no product of it */
      return 0;
    case MMC_I8:
    case MMC_U8:
      return by_vector ? 1 << 9 : 1 << 14;
    default:
      return by_vector ? 1 << 9 : 1 << 12;
  }
}

/* From so many multiplications on ours can be stopped within a product, and take no longer. */
static const double most_for_torch = 1e10;

/* Says whether it is one product on the CPU that PyTorch is to multiply: a large one, or one that
 * takes less time than to make a result as we do. Of a row and a matrix PyTorch makes a transposed
 * one first. */
static bool is_one_for_torch(const chain *c) {
  if (c->n != 2 || c->is_on_gpu) return false;
  const double each = (double)c->dims[0] * (double)c->dims[1] * (double)c->dims[2],
               all = each * (c->has_stacks ? fmax(c->counts[0], c->counts[1]) : 1),
               least = least_for_torch(c->dtype);
  if (is_onednns(c->dtype, (double)c->dims[0], (double)c->dims[1], (double)c->dims[2],
                 c->has_stacks))
    return all <= most_for_torch;
  if (c->is_row && !c->is_column) return false;
  const bool is_long = !c->is_column && c->dims[1] > MOST_TERMS;
  if (!c->has_stacks && !is_long && each <= most_tiny(c->dtype, c->is_column)) return true;
  if (!is_wide(c->dtype, (double)c->dims[0], (double)c->dims[2])) return false;
  return !c->is_row && !c->is_column && least > 0 && all <= most_for_torch &&
         (c->dtype == MMC_BF16 ? all : each) >= least;
}

/* Multiplies the factors, which the sequence held; returns as mmcp_torch_multiply(). */
static int multiply_chain(chain *c, PyObject *sequence, PyObject **out) {
  int done = c->n == 2 ? read_dims(c) : is_theirs(c);
  if (done != 1) return done;
  if (is_one_for_torch(c)) return multiply_in_order(c, out);
  done = c->n == 2 ? is_theirs(c) : read_dims(c);
  if (done != 1 || c->dtype > MMC_BF16) return done < 0 ? -1 : 0;
  if (c->is_on_gpu && !c->is_recorded) return 0;
  if (c->dtype > MMC_C128 && !c->is_on_gpu) return multiply_halves(c, sequence, out);
  if (is_for_multi_dot(c)) return call_multi_dot(sequence, out);
  if (is_for_us(c) && (c->is_on_gpu || !c->has_stacks) && are_alike(c)) return call_by_us(c, out);
  if (c->n > MOST_ORDERED) return 0;
  if (c->n > MOST_BY_MM && !c->has_stacks && !c->is_on_gpu) return call_multi_dot(sequence, out);
  return multiply_in_order(c, out);
}

/* ---- several large products on the CPU ---------------------------------------------------------
 */

/* Says whether the items are tensors of the dtype in which they are multiplied. */
static bool are_tensors_of(const mmcp_call *c, PyObject *const *items) {
  for (int64_t i = 0; i < c->n; i++) {
    dl_tensor tensor;
    mmc_dtype dtype;
    if (!is_tensor(items[i])) return false;
    if (!c->gathers) continue; /* views tell it */
    if (c->views[0].exchange->borrow(items[i], &tensor) != 0) {
      PyErr_Clear();
      return false;
    }
    if (!mmcp_dtype_of_dl(tensor.dtype, &dtype) || dtype != c->dtype) return false;
  }
  return true;
}

/* Says whether products by a plan's order are PyTorch's: where its calls take less on average. */
static bool is_for_torch(const mmcp_call *c, PyObject *const *items, const mmc_plan *plan) {
  const double least = least_for_torch(c->dtype);
  const int64_t count = plan != NULL ? mmc_plan_step_count(plan) : 0;
  if (types == NULL || least == 0 || count == 0 || c->n > MOST_ORDERED) return false;
  if (c->device != MMCP_HOST || c->is_chain || c->together != 1 || c->exponents != NULL ||
      c->semiring != MMC_PLUS_TIMES)
    return false;
  /* PyTorch's products with vectors take longer but for oneDNN's, and between stacks it would take
   * a row for a matrix. */
  const bool has_vectors = !c->row || !c->column;
  if (has_vectors && (c->dtype != MMC_BF16 || c->stack_ndim > 0)) return false;
  if (!are_tensors_of(c, items)) return false;
  double sum = 0;
  bool are_onednns = true;
  for (int64_t s = 0; s < count; s++) {
    mmc_step step;
    if (mmc_plan_step(plan, s, &step) != MMC_OK) return false;
    const double m = (double)step.m, k = (double)step.k, n = (double)step.n;
    if (!is_wide(c->dtype, m, n)) return false;
    are_onednns = are_onednns && is_onednns(c->dtype, m, k, n, c->stack_ndim > 0);
    sum += m * k * n;
  }
  const double all = sum * (double)c->stack_count;
  if (are_onednns) return all <= most_for_torch;
  return !has_vectors && (c->dtype == MMC_BF16 ? all : sum) >= least * (double)count &&
         all <= most_for_torch;
}

int mmcp_torch_execute(const mmcp_call *c, PyObject *const *items, const mmc_plan *plan,
                       PyObject **out) {
  if (!is_for_torch(c, items, plan)) return 0;
  PyObject *results[MOST_ORDERED];
  const int64_t count = mmc_plan_step_count(plan);
  int64_t made = 0;
  for (; made < count; made++) {
    mmc_step step;
    if (mmc_plan_step(plan, made, &step) != MMC_OK) break;
    const int64_t numbers[] = {step.left, step.right};
    PyObject *sides[2];
    for (int i = 0; i < 2; i++)
      sides[i] = numbers[i] < c->n ? items[numbers[i]] : results[numbers[i] - c->n];
    results[made] = PyObject_Vectorcall(matmul, sides, 2, NULL);
    if (results[made] == NULL) break;
  }
  *out = made > 0 && made == count ? Py_NewRef(results[count - 1]) : NULL;
  for (int64_t s = 0; s < made; s++) Py_DECREF(results[s]);
  return *out != NULL ? 1 : -1;
}

double mmcp_torch_most_by_us(const mmcp_call *c) {
  const double least = least_for_torch(c->dtype);
  if (types == NULL || c->device != MMCP_HOST || c->views[0].exchange == NULL) return 0;
  /* Fewer multiplications than a factor's elements are not a product of it. */
  if (c->dtype == MMC_BF16) return least > 0 ? least_elements / fmax((double)c->stack_count, 1) : 0;
  return least * (double)(c->n - 1);
}

/* ---- what comes for the first time on a GPU ----------------------------------------------------
 */

bool mmcp_torch_can(const mmcp_call *c, PyObject *const *items) {
  const bool has_vectors = !c->row || !c->column;
  return types != NULL && c->device != MMCP_HOST && !c->is_chain && c->views[0].exchange != NULL &&
         c->n >= 2 && c->n <= MOST_NEW_ON_GPU && c->dtype <= MMC_BF16 &&
         !(has_vectors && c->stack_ndim > 0) && are_tensors_of(c, items);
}

/* Says whether products of f32 are computed in f32. */
static int is_exact_in_f32(void) {
  static PyObject *highest;
  if (highest == NULL) highest = PyUnicode_InternFromString("highest");
  PyObject *now = highest != NULL ? PyObject_CallNoArgs(precision) : NULL;
  const int same = now != NULL ? PyObject_RichCompareBool(now, highest, Py_EQ) : -1;
  Py_XDECREF(now);
  return same;
}

int mmcp_torch_execute_new(const mmcp_call *call, PyObject *const *items, PyObject **out) {
  chain c = {.items = items,
             .n = (int)call->n,
             .dtype = call->dtype,
             .is_row = !call->row,
             .is_column = !call->column,
             .has_stacks = call->stack_ndim > 0,
             .is_on_gpu = true};
  if (call->dtype == MMC_F32 || call->dtype == MMC_C64) {
    const int exact = is_exact_in_f32();
    if (exact != 1) return exact;
  }
  for (int i = 0; i <= c.n; i++) c.dims[i] = call->dims[i];
  for (int i = 0; i < c.n; i++) {
    const mmcp_view *view = mmcp_view_of(call, i);
    c.counts[i] = 1;
    for (int64_t d = 0; d < mmcp_stack_ndim(call, i); d++) c.counts[i] *= (double)view->shape[d];
  }
  if (c.n == 2)
    c.splits[0][1] = 0;
  else
    find_order(&c, NULL);
  *out = multiply(&c, 0, c.n - 1);
  return *out != NULL ? 1 : -1;
}

/* ---- what wants gradients by a plan -----------------------------------------------------------
 */

/* Says whether a plan is for nothing but such chains as this one. */
static bool is_planned(const chain *c, const mmcp_plan *plan) {
  const mmc_chain *planned = plan->chain;
  const double batch = (double)mmc_chain_batch(planned);
  if (!mmcp_plan_is_usual(plan) || mmc_chain_semiring(planned) != MMC_PLUS_TIMES ||
      mmc_chain_length(planned) != c->n || mmc_chain_dtype(planned) != c->dtype ||
      memcmp(mmc_chain_dims(planned), c->dims, (size_t)(c->n + 1) * sizeof *c->dims) != 0)
    return false;
  if (batch == 1) return true;
  for (int i = 0; i < c->n && c->has_stacks; i++)
    if (c->counts[i] != 1 && c->counts[i] != batch) return false;
  return c->has_stacks;
}

/* Reads the order of a plan. Returns 0 where some of its products stand for several. */
static int read_order(chain *c, mmcp_plan *plan) {
  if (mmcp_plan_ensure(plan) < 0) return -1;
  if (mmc_plan_step_count(plan->plan) != c->n - 1) return 0;
  for (int64_t s = 0; s < c->n - 1; s++) {
    mmc_step step, left = {0};
    if (mmc_plan_step(plan->plan, s, &step) != MMC_OK ||
        (step.left >= c->n && mmc_plan_step(plan->plan, step.left - c->n, &left) != MMC_OK))
      return 0;
    c->splits[step.first][step.last] = (uint8_t)(step.first + left.last - left.first);
  }
  return 1;
}

static int multiply_by(chain *c, mmcp_plan *plan, PyObject **out) {
  const int cast = mmcp_is_autocast(); /* a plan says what dtype its products have */
  int done = cast != 0 ? -(cast < 0) : is_theirs(c);
  if (done == 1) done = read_dims(c);
  if (done != 1 || c->dtype > MMC_BF16 || !is_planned(c, plan)) return done < 0 ? -1 : 0;
  const bool is_half = c->dtype > MMC_C128,
             are_matrices = !c->has_stacks && !c->is_row && !c->is_column,
             has_own_order = plan->order != Py_None ||
                             PyUnicode_CompareWithASCIIString(plan->solver, "auto") != 0;
  if (!is_half && are_matrices && !has_own_order && is_for_us(c)) return call_by_us(c, out);
  if (c->n > MOST_ORDERED) return 0;
  done = read_order(c, plan);
  if (done != 1 || (is_half && !are_short(c, 0, c->n - 1))) return done < 0 ? -1 : 0;
  *out = multiply(c, 0, c->n - 1);
  return *out != NULL ? 1 : no_result();
}

/* ---- entrances --------------------------------------------------------------------------------
 */

/* Begins a chain of the tensors of a sequence, for which items has room. Returns 1; 0 where they
 * are no tensors; -1 with an exception set. */
static int open_chain(chain *c, PyObject **items, PyObject *sequence) {
  PyObject *const *given = PySequence_Fast_ITEMS(sequence);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
  if (n < 2 || n > MOST_FACTORS) return 0;
  const int learned = learn_from(given[0]);
  if (learned != 1) return learned;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_tensor(given[i])) return 0;
  for (Py_ssize_t i = 0; i < n; i++) items[i] = Py_NewRef(given[i]); /* a list may change */
  c->items = items;
  c->n = (int)n;
  c->first_wanted = 0;
  c->is_recorded = false;
  c->is_cast = mmcp_autocast(&c->lower);
  c->is_row = c->is_column = c->is_on_gpu = c->has_stacks = c->anywhere = false;
  return 1;
}

static void close_chain(const chain *c) {
  for (int i = 0; i < c->n; i++) Py_DECREF(c->items[i]);
}

int mmcp_torch_multiply(PyObject *sequence, bool anywhere, PyObject **out) {
  PyObject *items[MOST_FACTORS];
  chain c;
  int done = open_chain(&c, items, sequence);
  if (done != 1) return done;
  c.anywhere = anywhere;
  done = multiply_chain(&c, sequence, out);
  close_chain(&c);
  return done;
}

int mmcp_torch_multiply_by(mmcp_plan *plan, PyObject *sequence, PyObject **out) {
  PyObject *items[MOST_FACTORS];
  chain c;
  int done = open_chain(&c, items, sequence);
  if (done != 1) return done;
  done = multiply_by(&c, plan, out);
  close_chain(&c);
  return done;
}
