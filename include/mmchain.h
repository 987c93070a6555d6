/* mmchain.h: multiply a chain of matrices A1*A2*...*An in the cheapest order, and say why.
 *
 * This header is the manual.
 *
 *     mmc_context_create  ->  mmc_chain_parse  ->  mmc_plan_create  ->  mmc_run_create
 *     ->  mmc_execute (many times)  ->  destroy, children before parents
 *     mmc_multiply does all of it once
 *
 * Vocabulary: a chain has n factors and n+1 dims; op(A_i) is dims[i-1] x dims[i]. An order is a
 * parenthesization. A product is one multiplication of an m x k by a k x n matrix; it costs mkn
 * multiplications, 2mkn flops. A plan is an order turned into steps, each a product, with a place
 * in memory for every intermediate. A run owns what executing a plan needs.
 *
 * Errors      Calls that can fail return mmc_status. *out is written only on MMC_OK. The message of
 *             the last failure is kept on the context: mmc_context_message(). The library never
 *             prints, exits or aborts, and does not report through errno.
 * Ownership   Who creates destroys. Every _destroy(NULL) is a no-op. Matrices stay the caller's.
 * Threads     A context locks itself. Chains, plans and orders never change and may be shared by
 *             threads. A run or a meter belongs to one thread at a time.
 * Options     An options struct begins with its size and has an _INIT; NULL means the defaults. A
 *             program that was built with an older mmchain.h has the defaults of the fields that
 *             its struct lacks; one that was built with a newer one gets E_ARG only for fields that
 *             it sets and this library does not know. New fields come last, and 0 is their default.
 */
#ifndef MMCHAIN_H
#define MMCHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MMC_VERSION_MAJOR 0
#define MMC_VERSION_MINOR 1
#define MMC_VERSION_PATCH 0

#ifndef MMC_API
#define MMC_API __attribute__((visibility("default")))
#endif

/* Returns the version of the library that runs, "0.1.0", which may differ from the header's. */
MMC_API const char *mmc_version(void);

/* ---- status ------------------------------------------------------------------------------- */

#define MMC_STATUS_MAP(X)                                 \
  X(OK, 0, "success")                                     \
  X(E_ARG, 10, "invalid argument")                        \
  X(E_FORMAT, 11, "not in the expected format")           \
  X(E_OVERFLOW, 12, "a size or cost does not fit")        \
  X(E_UNSUPPORTED, 20, "nothing here can do this")        \
  X(E_NOMEM, 30, "out of memory")                         \
  X(E_MEMORY_LIMIT, 31, "no order fits the memory limit") \
  X(E_DEVICE, 40, "a device call failed")                 \
  X(E_IO, 60, "reading or writing a file failed")         \
  X(E_INTERRUPTED, 70, "stopped by the progress callback")

typedef enum mmc_status {
#define MMC_STATUS_ENUM(name, value, text) MMC_##name = value,
  MMC_STATUS_MAP(MMC_STATUS_ENUM)
#undef MMC_STATUS_ENUM
} mmc_status;

/* Returns the text of MMC_STATUS_MAP; "unknown status" for other values, never NULL. */
MMC_API const char *mmc_status_string(mmc_status status);

/* ---- callbacks ---------------------------------------------------------------------------- */

/* Takes size bytes of output; returns 0, or anything else to stop with MMC_E_IO. */
typedef int (*mmc_write_fn)(void *user, const char *bytes, size_t size);

/* Puts at most size bytes of input into bytes and returns how many; 0 at its end, less than 0 to
 * stop with MMC_E_IO. */
typedef ptrdiff_t (*mmc_read_fn)(void *user, char *bytes, size_t size);

/* Is told the share of the work done, 0 to 1, several times a second from the calling thread;
 * returns 0, or anything else to stop with MMC_E_INTERRUPTED. */
typedef int (*mmc_progress_fn)(void *user, double done);

/* ---- counts ------------------------------------------------------------------------------- */

/* An exact count of multiplications: hi * 2^64 + lo. Nothing in mmchain lets one overflow
 * silently: what exceeds 128 bits is MMC_E_OVERFLOW. */
typedef struct mmc_count {
  uint64_t lo, hi;
} mmc_count;

enum { MMC_COUNT_TEXT_SIZE = 40 };

/* Writes the decimal digits, with a final NUL, and returns text. */
MMC_API char *mmc_count_format(mmc_count count, char text[MMC_COUNT_TEXT_SIZE]);
/* Returns the nearest double. */
MMC_API double mmc_count_to_double(mmc_count count);

/* ---- context ------------------------------------------------------------------------------ */

/* A context holds the devices that are there, the wisdom store and the message of the last
 * failure. */
typedef struct mmc_context mmc_context;

typedef struct mmc_context_options {
  size_t size;
  /* The folder of mmchain-*.so; NULL means MMCHAIN_MODULE_DIR, else the library's own. */
  const char *module_dir;
  const char *wisdom_path;  /* "" means no wisdom store; NULL means MMCHAIN_WISDOM, else
                               mmchain/wisdom.db under XDG_CACHE_HOME, else under ~/.cache */
  const char *blas_library; /* the OpenBLAS or other CBLAS that device "blas" loads, by its absolute
                               path or a name that dlopen() looks for; "own" means the one that the
                               library was linked with, else an OpenBLAS that dlopen() finds; NULL
                               means MMCHAIN_BLAS, which may be an absolute path, "own" or "none",
                               else "own". A process has one: once it is loaded, later contexts have
                               it too */
} mmc_context_options;
#define MMC_CONTEXT_OPTIONS_INIT \
  { sizeof(mmc_context_options), NULL, NULL, NULL }

/* CONSTRUCTOR. Makes a context without opening any device or store: each is opened when first asked
 * for.
 * Returns: E_ARG, E_NOMEM, E_UNSUPPORTED (blas_library is no CBLAS). */
MMC_API mmc_status mmc_context_create(const mmc_context_options *options, mmc_context **out);
/* DESTRUCTOR. Its chains, plans, runs, orders and files must have been destroyed. */
MMC_API void mmc_context_destroy(mmc_context *context);
/* METHOD. Copies the message of the last call on this context that failed, at most size bytes with
 * a final NUL; "" when none has failed. Returns text. */
MMC_API char *mmc_context_message(mmc_context *context, char *text, size_t size);
/* METHOD. Copies the name of the option that the message of the last failure is about, "solver" or
 * "memory limit", or of another argument, at most size bytes with a final NUL; the message then
 * begins with the name, a colon and a blank. "" means that it is about no option; an argument that
 * is wrong in itself, as NULL, may stand in the message alone. Returns text. */
MMC_API char *mmc_context_argument(mmc_context *context, char *text, size_t size);

/* One device as `mmchain info` shows it. Strings live as long as the context. */
typedef struct mmc_device_info {
  const char *name;        /* the name that options and the command take: "blas", "ref", "cuda:0" */
  const char *description; /* "OpenBLAS 0.3.21 ..., 2 threads"; where something makes the device
                              slower than it need be, "; slow: " and what to do about it */
  bool available;          /* when false, description says what is missing and how to get it */
} mmc_device_info;

/* METHOD. Describes device number index, from 0. Returns: E_ARG past the last one, E_NOMEM. */
MMC_API mmc_status mmc_device_describe(mmc_context *context, int index, mmc_device_info *out);

/* ---- matrices ----------------------------------------------------------------------------- */

typedef enum mmc_dtype {
  MMC_F32,
  MMC_F64,
  MMC_C64,
  MMC_C128,
  MMC_F16,  /* IEEE binary16; sums in f32, intermediates rounded to f16 */
  MMC_BF16, /* the upper half of an f32; summed and rounded as f16 is */
  /* Integers of so many bits, of two's complement and unsigned. Sums and products wrap around, as
   * NumPy's do, unless the chain says otherwise: see mmc_chain_options. */
  MMC_I8,
  MMC_I16,
  MMC_I32,
  MMC_I64,
  MMC_U8,
  MMC_U16,
  MMC_U32,
  MMC_U64,
  MMC_BOOL /* a byte, false when it is 0, written as 0 or 1; products are "and", sums "or" */
} mmc_dtype;
/* What takes the places of sums and of products of elements. The zero is what an empty sum is, and
 * its product by anything but NaN is the zero; NaN in a row of A or a column of B is in all that
 * these make, as in IEEE arithmetic. docs/running.md says more. */
typedef enum mmc_semiring {
  MMC_PLUS_TIMES,  /* numbers */
  MMC_MAX_PLUS,    /* f32, f64, i64: the greatest of sums; the zero is -inf, of i64 -2^63 */
  MMC_MIN_PLUS,    /* f32, f64, i64: the least of sums; the zero is inf, of i64 2^63 - 1 */
  MMC_LOG_SUM_EXP, /* f32, f64: the logarithm of a sum of exponentials of sums; the zero is -inf */
  MMC_OR_AND       /* bool: which it always has; the zero is false */
} mmc_semiring;
/* The matrix as it is, transposed, or transposed and conjugated. */
typedef enum mmc_op { MMC_OP_N, MMC_OP_T, MMC_OP_H } mmc_op;
typedef enum mmc_layout { MMC_ROW_MAJOR, MMC_COL_MAJOR } mmc_layout;
typedef enum mmc_location {
  MMC_HOST,
  MMC_DEVICE /* memory of the device that the plan is for; for "blas" and "ref" that is the host */
} mmc_location;

/* Returns "f32", "f64", "c64", "c128", "f16", "bf16", "i8" ... "u64", "bool"; NULL for other
 * values. */
MMC_API const char *mmc_dtype_name(mmc_dtype dtype);
/* Returns the bytes that an element takes, 4 for "f32" and 16 for "c128"; 0 for other values. */
MMC_API size_t mmc_dtype_size(mmc_dtype dtype);

/* Returns "plus-times", "max-plus", "min-plus", "log" or "or-and"; NULL for other values. */
MMC_API const char *mmc_semiring_name(mmc_semiring semiring);

/* A dense matrix as it lies in memory, before any op. Element (r, c) is
 *     data[r * ld + c] (row-major)   or   data[c * ld + r] (column-major).
 * ld is the leading dimension in elements, at least cols (rows); 0 means just that. data must be
 * aligned to the real type, and may be NULL when rows or cols is 0.
 *
 * For a batch of chains it stands for as many matrices, all of that shape and ld: matrix i begins
 * i * stride elements after data (a factor with stride 0 is shared by all chains), or at
 * addresses[i] where addresses is not NULL. Where the first factor alone is not shared, and its
 * rows and the results' follow each other from matrix to matrix, the batch is one product of as
 * many times the rows, and who gives it as that has it planned as that. A table of addresses itself
 * is host memory, wherever the matrices are, and may be released when the call that it was given to
 * has returned. */
typedef struct mmc_matrix {
  void *data;
  int64_t rows, cols, ld;
  mmc_layout layout;
  mmc_location location; /* where the elements are; 0 means MMC_HOST */
  int64_t stride;
  void *const *addresses;
} mmc_matrix;
/* A matrix of no rows and no columns. */
#define MMC_MATRIX_INIT \
  { NULL, 0, 0, 0, MMC_ROW_MAJOR, MMC_HOST, 0, NULL }

/* Makes matrix, whose data is the first one, stand for a batch that is a stack of ndim axes, the
 * last of which runs fastest: a step along axis d moves strides[d] elements, 0 where the stack is
 * repeated along it, as in NumPy's broadcasting. Sets stride where one stride says it; else fills
 * addresses, which has room for as many as the batch has matrices, and points matrix to it. Returns
 * false when addresses is NULL and needed, for a negative ndim or shape, and for strides beyond the
 * address space. */
MMC_API bool mmc_matrix_stack(mmc_matrix *matrix, mmc_dtype dtype, int ndim, const int64_t *shape,
                              const int64_t *strides, void **addresses);

/* Takes apart a stack of n matrices that is the chain itself: factor i begins i * step elements
 * after the stack's data and else lies as it does; of a batch, its stride is that of every factor.
 * Writes n matrices to factors, for mmc_execute() and mmc_enqueue(). Returns false for NULL, n < 1,
 * an unknown dtype or layout, a table of addresses, and steps beyond the address space. */
MMC_API bool mmc_matrix_chain(const mmc_matrix *stack, mmc_dtype dtype, int64_t n, int64_t step,
                              mmc_matrix *factors);

/* ---- chain -------------------------------------------------------------------------------- */

/* A product of n factors, or a batch of such products, of which each factor stands for one matrix a
 * product. */
typedef struct mmc_chain mmc_chain;

/* CONSTRUCTOR. Makes a chain of n >= 1 factors: op(A_i) is dims[i-1] x dims[i], so dims holds n+1
 * numbers, each 0 <= dim <= 2^62. ops holds n; NULL means MMC_OP_N for all. Both are copied.
 * Returns: E_ARG, E_NOMEM. context may be NULL: then the message is lost. */
MMC_API mmc_status mmc_chain_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                                    const int64_t *dims, const mmc_op *ops, mmc_chain **out);
/* What is known of a stored matrix A, whatever its op, and how it is used; a set is a sum of these.
 * The matrix is stored whole all the same: a lower triangular one with its zeros, a symmetric one
 * with both halves, a diagonal one as a square; but where mmc_plan_takes_line() says so, executions
 * take 1 x n elements for n x n: the diagonal, or of a permutation P the numbers, counted from 0,
 * of the columns where its rows have their ones, so that row i of P B is row data[i] of B. What is
 * claimed is believed, and a claim that does
 * not hold makes a wrong result. docs/structure.md says what is gained. */
typedef enum mmc_trait {
  MMC_LOWER = 1,
  MMC_UPPER = 2,
  MMC_DIAGONAL = 3, /* lower and upper triangular */
  MMC_UNIT = 4,     /* ones on the diagonal; beside one of those before */
  MMC_SYMMETRIC = 8,
  MMC_HERMITIAN = 16,
  MMC_POSITIVE_DEFINITE = 32, /* and Hermitian */
  MMC_IDENTITY = 64,
  MMC_ZERO = 128,
  MMC_INVERSE = 256,    /* the factor is the inverse of op(A) */
  MMC_ORTHOGONAL = 512, /* its inverse is its transposed matrix; of complex ones, conjugated too */
  MMC_PERMUTATION = 1024, /* one 1 in every row and column, and zeros */
  MMC_BANDED = 2048       /* zeros but for diagonals near the main one: see mmc_band */
} mmc_trait;

/* How many diagonals below and above the main one are not zero, of a matrix as it is stored: 1 and
 * 1 of a tridiagonal one. */
typedef struct mmc_band {
  int64_t below, above;
} mmc_band;

/* Factors first to last, counted from 0, whose product is inverted: a group in parentheses. */
typedef struct mmc_inverse {
  int64_t first, last;
} mmc_inverse;

typedef struct mmc_chain_options {
  size_t size;
  int64_t batch; /* how many chains of these dims and ops are multiplied together, 0 to 2^62 */
  /* n numbers: same[i] is the first factor that is the same matrix with the same op as factor i,
   * and i itself when none is; these must be one matrix in executions. NULL means unknown. It is
   * copied. */
  const int64_t *same;
  const uint32_t *traits; /* n sets of mmc_trait; NULL means that nothing is known. It is copied. */
  /* n numbers: stored[i] is the first factor that is stored in the same matrix as factor i,
   * whatever their ops: A A^T is seen by it. NULL means that same says all that is known. It is
   * copied. */
  const int64_t *stored;
  /* At most 255 groups whose product is inverted, of two factors or more; two of them are apart or
   * one within the other. They are copied. */
  const mmc_inverse *inverses;
  int64_t inverse_count;
  /* For integers: every product is computed modulo this number, 1 to 2^63 - 1, which dtype holds;
   * results are 0 to modulus - 1, whatever the factors are. 0 means that sums wrap around. */
  uint64_t modulus;
  /* For integers without a modulus: an execution fails with MMC_E_OVERFLOW, and its message names
   * the product, where an element of an intermediate or of the result exceeds dtype; partial sums
   * may. bool never does. */
  bool checked;
  /* n bands, of which those of factors with MMC_BANDED are read, NULL where there is none. They are
   * copied. */
  const mmc_band *bands;
  /* What takes the places of sums and products of elements. Such a chain has no MMC_OP_H, no traits
   * and no inverses, is planned for objective "flops", which counts one for each product of
   * elements, and is neither tuned nor differentiated. Sums of i64 that exceed its range become the
   * end of the range, short of the zero. */
  mmc_semiring semiring;
  /* n flags: factor i is one matrix for all chains of the batch, and in executions it has stride 0
   * or addresses that are all the same. Plans then count on it that a product of such factors alone
   * is computed once and not for every chain (docs/execution.md). A factor that is the same matrix
   * as such a one is one too. A GPU's kernels depend on what is shared as well. NULL means that
   * none is known; where the batch is 1, all are dropped. They are copied. */
  const bool *shared;
} mmc_chain_options;
#define MMC_CHAIN_OPTIONS_INIT \
  { sizeof(mmc_chain_options), 1, NULL, NULL, NULL, NULL, 0, 0, false, NULL, MMC_PLUS_TIMES, NULL }

/* CONSTRUCTOR. Makes a batch of chains, a chain whose factors repeat, or one whose factors have
 * structure. Errors and ownership are those of mmc_chain_create(). */
MMC_API mmc_status mmc_chain_create_batch(mmc_context *context, mmc_dtype dtype, int64_t n,
                                          const int64_t *dims, const mmc_op *ops,
                                          const mmc_chain_options *options, mmc_chain **out);
/* CONSTRUCTOR. Reads the text form, the same everywhere in mmchain:
 *     [dtype:]p0xp1x...xpn[@batch][:ops]      f64:10x30x5x60   c64:8x9x7:NH   f32:4x4x4@10000
 * where an integer dtype may have a modulus, i64%1000000007:64x64^1000, or an exclamation mark for
 * checked, i64!:8x9x7; and a dtype a semiring, f32~max-plus:64x64^1000.
 * dtype is f64 when left out, and batch is 1; ops is one letter a factor: N, T or H, of a factor
 * that is shared by all chains of the batch n, t or h: f64:135x651x77x34@32:nnN. Factors may
 * repeat: ^ behind a square one says how often that matrix stands there, 64x64^1000, which has one
 * letter; and =numbers at the end say of each factor that is written which, counted from 1, is the
 * first that is the same matrix: f64:8x9x8x9x8=1,2,1,2. A text with ^ has at most 131072 factors;
 * mmc_chain_create_batch() takes more.
 * Factors with structure have words in place of a letter, with commas between factors: lower,
 * upper, unit, diagonal, symmetric, hermitian, spd (positive definite), identity, zero, orthogonal,
 * permutation, tridiagonal, banded(1,2) with the diagonals below and above, inv, and a letter,
 * joined by dots; and a group in parentheses may be inverted: f64:80x80x5:lower.T.inv,N and
 * f64:5x80x5x80x1:(T,N).inv,T,N=1,1,1,4, where = also tells a matrix of another op.
 * Returns: E_ARG with the position and what was expected, E_NOMEM. context may be NULL. */
MMC_API mmc_status mmc_chain_parse(mmc_context *context, const char *text, mmc_chain **out);
MMC_API void mmc_chain_destroy(mmc_chain *chain);

MMC_API mmc_dtype mmc_chain_dtype(const mmc_chain *chain);
MMC_API int64_t mmc_chain_length(const mmc_chain *chain);      /* n, the number of factors */
MMC_API const int64_t *mmc_chain_dims(const mmc_chain *chain); /* n+1 numbers, owned by the chain */
MMC_API const mmc_op *mmc_chain_ops(const mmc_chain *chain);   /* n ops, owned by the chain */
/* Returns how many chains there are in the batch. */
MMC_API int64_t mmc_chain_batch(const mmc_chain *chain);
/* Returns the first factor that is known to be the same matrix as factor i, 0 <= i < n; i itself
 * for most. */
MMC_API int64_t mmc_chain_same(const mmc_chain *chain, int64_t i);
/* Says whether factor i, 0 <= i < n, is known to be one matrix for all chains of the batch, as
 * mmc_chain_options has it. */
MMC_API bool mmc_chain_shared(const mmc_chain *chain, int64_t i);
/* Returns the first factor that is known to be stored in the same matrix as factor i, 0 <= i < n,
 * though their ops may differ; i itself for most, -1 where there is no factor i. */
MMC_API int64_t mmc_chain_stored(const mmc_chain *chain, int64_t i);
/* Returns the set of mmc_trait of factor i, 0 <= i < n, with all that the claims imply; 0 for
 * most. */
MMC_API uint32_t mmc_chain_traits(const mmc_chain *chain, int64_t i);
/* Returns the band of factor i, 0 <= i < n, where MMC_BANDED is among its traits, and else zeros.
 */
MMC_API mmc_band mmc_chain_band(const mmc_chain *chain, int64_t i);
/* Returns the groups that are inverted, owned by the chain; *count, which may be NULL, says how
 * many. */
MMC_API const mmc_inverse *mmc_chain_inverses(const mmc_chain *chain, int64_t *count);
/* Returns the modulus of mmc_chain_options, 0 when there is none. */
MMC_API uint64_t mmc_chain_modulus(const mmc_chain *chain);
/* Says whether overflows are errors, as mmc_chain_options has it. */
MMC_API bool mmc_chain_checked(const mmc_chain *chain);
/* Returns what takes the places of sums and products of elements; MMC_OR_AND of bool. */
MMC_API mmc_semiring mmc_chain_semiring(const mmc_chain *chain);
/* Writes the text form, which mmc_chain_parse() reads back. Returns: E_IO. */
MMC_API mmc_status mmc_chain_write(const mmc_chain *chain, mmc_write_fn write, void *user);

/* ---- plan --------------------------------------------------------------------------------- */

typedef struct mmc_plan mmc_plan;

#define MMC_NO_LIMIT UINT64_MAX
/* The chip is taken to hold as many words as on the poster: 256 KiB of single precision, the
 * registers of a GPU's multiprocessor. */
#define MMC_ON_CHIP_WORDS 65536

typedef struct mmc_plan_options {
  size_t size;
  /* How the order is found: "auto", "hu-shing", "table", "brute" (n <= 12), "left-to-right". All
   * but the last find the order of fewest multiplications, and the same one where several tie: see
   * mmc_order_create(). Where the chain says which factors are the same matrix, "auto" also
   * computes once what repeats when that takes fewer multiplications: A^1000 is some 14 products.
   * Where it says which factors are shared by a batch, products of these alone count once, of at
   * most 64 factors and but for "hu-shing". NULL means "auto". */
  const char *solver;
  /* "cpu" (the best that is built in), "blas", "ref", "cuda" or "cuda:i"; NULL means "cpu".
   * "cuda:all" and "cuda:0,1" are several GPUs of this host, which multiply the chain together
   * where that is predicted to be faster than the first of them alone (docs/cards.md). */
  const char *device;
  /* How many bytes of workspace are allowed, apart from factors and result, or MMC_NO_LIMIT. Of a
   * batch, fewer chains are multiplied at a time to keep within it. It includes what products on a
   * device hold for themselves; where there is no room for that, precision is "native". What
   * mmc_plan_workspace_bytes() says of a plan is enough for the same chain and options, and, for up
   * to 64 factors, for a plan that is no dearer. */
  uint64_t memory_limit_bytes;
  /* What to make least; NULL means "flops", the fewest multiplications.
   * "traffic": words moved off the chip, see fuse.
   * "time": seconds as predicted from what mmc_tune() has measured on this device, else from a
   * model (docs/tuning.md). With solver "auto" the order is chosen too, for at most 64 factors, and
   * that of fewest multiplications is left only for one that is surely faster. On a device that
   * takes several products as one call, trees that keep all of it at work are tried for any number
   * of factors, and more where such calls were measured. With another solver, only the recipe of
   * each product is chosen.
   * "energy": joules as measured by mmc_tune() or predicted from a model (docs/energy.md). It
   * chooses the order, the recipes and, of those no less exact than precision asks for, the
   * precision; the plan for time is left only for one that surely takes fewer joules. */
  const char *objective;
  /* The arithmetic of products; NULL means "native".
   * "native": that of the dtype.
   * "faithful": also other arithmetic where it is at least as accurate: large f32 and f64 products
   * on a Hopper GPU are emulated on tensor cores (docs/faithful.md).
   * "fast": also TF32, for f32 and c64 on a GPU.
   * "reproducible": the bits of the result depend on the factors and the order alone, not on the
   * device (but for f16 and bf16 on GPUs), threads, batch, memory or layouts: every element is one
   * chain of multiply-adds (docs/reproducible.md). Factors that are inverses are E_UNSUPPORTED.
   * "reproducible+faithful": so, too, but large products are sums of whole numbers, no less
   * accurate unless rows grow along k where columns shrink. A Hopper GPU computes them by integers
   * in a part of the time, a CPU slowly, and other GPUs not at all, which is E_UNSUPPORTED.
   * Or a tolerance, as "1e-10": the result may be off by so much of the product of the lengths of
   * all factors (their Frobenius norms). What is fastest of that which surely is nearer is taken,
   * on a Hopper GPU for f64 and c128 as few products of bytes as do; see mmc_plan_error_bound(). */
  const char *precision;
  /* Where factors and result will be, to judge what must fit into the device's memory. Executing
   * with others works too. */
  mmc_location location;
  uint64_t device_memory_bytes; /* the bytes that the plan may use at most, or MMC_NO_LIMIT */
  /* Which products share a kernel, for objective "traffic", which counts words moved between
   * off-chip and on-chip memory (docs/traffic.md): "none"; "exact", the best for the order of
   * fewest multiplications; "poster", the same as the TEE-ACM2 poster prices it; "joint", the best
   * of all orders, n <= 200. NULL means "exact". A pair that the device takes as one call, and that
   * is predicted to be faster as one, is executed as one; others are fused in the cost only. On a
   * GPU, where a rule is given, every pair that it takes is executed as one. */
  const char *fuse;
  int64_t on_chip_words; /* how many words the chip holds; 0 means MMC_ON_CHIP_WORDS */
  /* For objective "energy", the plan takes at most so many times the predicted seconds of the plan
   * for time; 1 or more. 0 means no bound. */
  double max_slowdown;
  /* The kernel to be measured, with objectives "flops" and "traffic": every product is computed, by
   * a call of its own, by the device's first kernel whose name begins so, "large_tile" or "cublaslt
   * 2" (see mmc_kernel_describe()); "" means the device's own choice. Where products have no such
   * kernel, pairs of products are one call wherever the device takes them by a kernel of that name,
   * whatever that is predicted to take. NULL means as the objective says. */
  const char *kernel;
  mmc_progress_fn progress; /* asked while orders are searched through; NULL: none */
  void *progress_user;
  /* The order itself, as mmc_order_write() and plans write it: "((A1 A2) (A3 A4))" or "[[1, 2], [3,
   * 4]]", factors in their order, two operands in a bracket. It is kept whatever it costs; the
   * objective chooses how its products are computed. Then solver is "auto" or NULL. NULL: solver
   * finds the order. */
  const char *order;
  /* For objective "traffic", the rows and columns of the tile that every kernel keeps on chip, cut
   * where the matrix is smaller, in place of the best tile of each; their product is at most
   * on_chip_words, and fuse is not "joint". 0 and 0 mean the best. */
  int64_t tile[2];
  /* With a device of several: how many there are, though they may not be here. Such a plan can be
   * explained; where there are not as many, it cannot be executed. 0 means those that are here. */
  int64_t ranks;
  /* f32, f64, c64, c128, on "cpu", "blas" or "ref", for objective "flops", without traits: the plan
   * is executed by mmc_execute_scaled(), step by step. */
  bool scaled;
} mmc_plan_options;
#define MMC_PLAN_OPTIONS_INIT                                                                     \
  {                                                                                               \
    sizeof(mmc_plan_options), NULL, NULL, MMC_NO_LIMIT, NULL, NULL, MMC_HOST, MMC_NO_LIMIT, NULL, \
        0, 0, NULL, NULL, NULL, NULL, {0, 0}, 0, false                                            \
  }

/* CONSTRUCTOR. Plans the chain: the order, the sequence of products, a place for every
 * intermediate. The chain is copied; the context must outlive the plan. Asked for the same again,
 * as long as nothing that it depends on has changed, the context may give the same plan again: each
 * call then wants an mmc_plan_destroy() of its own.
 * Cost:    O(n log n) time. A memory limit that turns the best order down costs O(n^3); the
 *          order is the best that fits for at most 128 factors, and one near it for more.
 *          fuse "joint" O(n^4).
 * Returns: E_ARG, E_NOMEM, E_UNSUPPORTED (no such device or kernel here), E_OVERFLOW (the count of
 *          multiplications exceeds 128 bits, or an intermediate the address space),
 *          E_MEMORY_LIMIT (the message says what the leanest order needs), E_DEVICE,
 *          E_INTERRUPTED (progress). */
MMC_API mmc_status mmc_plan_create(mmc_context *context, const mmc_chain *chain,
                                   const mmc_plan_options *options, mmc_plan **out);
MMC_API void mmc_plan_destroy(mmc_plan *plan);
/* CONSTRUCTOR. Plans again what mmc_plan_explain() has written of a plan as MMC_JSON, size bytes of
 * text: the same chain by the same objective, device and precision, with the same steps, splits and
 * kernels. chain, unless NULL, is what it must be for, but that more of its factors may be shared.
 * options may set other options than solver, device, objective, precision and order, which the text
 * says; NULL means the defaults.
 * Returns: as mmc_plan_create(); E_FORMAT (the message says where and what was expected), E_ARG
 * (the plan is for another chain), E_UNSUPPORTED (the message says which step would be another
 * now, and why). */
MMC_API mmc_status mmc_plan_read(mmc_context *context, const char *text, size_t size,
                                 const mmc_chain *chain, const mmc_plan_options *options,
                                 mmc_plan **out);

typedef enum mmc_format {
  MMC_TEXT, /* text for people */
  MMC_JSON, /* one object with the members of docs/json.md */
  MMC_DOT,  /* the graph of the steps, for Graphviz */
  MMC_SVG   /* a picture of the tree, at most 2000 pixels wide and 200 kB, for any chain */
} mmc_format;

/* METHOD. Says what the plan does and why. Returns: E_ARG, E_NOMEM, E_IO. */
MMC_API mmc_status mmc_plan_explain(const mmc_plan *plan, mmc_format format, mmc_write_fn write,
                                    void *user);

/* Returns the chain that the plan is for, which the plan owns: that of a plan which was read says
 * what its factors are, and by which arithmetic they are multiplied. NULL where plan is NULL. */
MMC_API const mmc_chain *mmc_plan_chain(const mmc_plan *plan);
/* Returns the multiplications of all chains of a batch together, those of products of shared
 * factors alone once. */
MMC_API mmc_count mmc_plan_multiplications(const mmc_plan *plan);
/* Returns the bytes that a run of the plan holds for intermediates. Those within a call of several
 * products are not among them: they stay in caches, or on a GPU's chip, and on the CPU have at most
 * 128 rows and columns. */
MMC_API uint64_t mmc_plan_workspace_bytes(const mmc_plan *plan);
/* Returns the name of the device that will execute it, "blas", which lives as long as the
 * context. */
MMC_API const char *mmc_plan_device(const mmc_plan *plan);
/* Returns how many devices the plan is for: 1 unless its name stands for several. */
MMC_API int64_t mmc_plan_device_count(const mmc_plan *plan);
/* Returns the name of device number index of those, "cuda:1", which lives as long as the context;
 * "" past the last one. */
MMC_API const char *mmc_plan_device_name(const mmc_plan *plan, int64_t index);

/* How a matrix lies on the devices of a plan for several. Blocks are as high, or as wide, as the
 * matrix as stored divided by the number of devices, rounded up: the last may be smaller or have
 * nothing. */
typedef enum mmc_cut {
  MMC_CUT_NONE, /* it is one matrix: on the host, or in the memory of the first device */
  MMC_CUT_ROWS, /* device i has block i of its rows */
  MMC_CUT_COLS, /* device i has block i of its columns */
  MMC_CUT_WHOLE /* every device has all of it */
} mmc_cut;

/* Returns how the plan would have factor index lie on its devices, as stored, or with n the result,
 * so that least has to travel. mmc_execute_pieces() takes any. Returns MMC_CUT_NONE where one
 * device has it, and past the result. */
MMC_API mmc_cut mmc_plan_cut(const mmc_plan *plan, int64_t index);

/* Says whether mmc_execute() takes the diagonal, or the index, for factor number index, a diagonal
 * matrix or a permutation: where the plan does nothing with it but to scale or to permute, in the
 * host's memory. False where plan is NULL or has no such factor. Any thread may ask. */
MMC_API bool mmc_plan_takes_line(const mmc_plan *plan, int64_t index);

/* One step of a plan: C = left * right. An operand is a factor (0 <= x < n) or the result of an
 * earlier step (x - n, counted in steps). The last step writes the result. */
typedef struct mmc_step {
  int64_t m, k, n;
  int64_t left, right;
  int64_t first, last; /* factors first..last, counted from 0; C is their product */
} mmc_step;

/* Returns n-1 for a plan of n factors; steps are in the order in which they run. There are fewer
 * when what repeats is computed once and read several times; then a factor is the first of those
 * that are the same matrix. Several steps may run as one call of the device: mmc_plan_explain()
 * says which. */
MMC_API int64_t mmc_plan_step_count(const mmc_plan *plan);
/* Writes step index. Returns: E_ARG past the last one. */
MMC_API mmc_status mmc_plan_step(const mmc_plan *plan, int64_t index, mmc_step *out);
/* Returns the multiplications of step index, of all chains: m k n for each, or once where its
 * factors are shared; those of its kernel where that uses the structure of factors; 0 past the last
 * one. */
MMC_API mmc_count mmc_plan_step_multiplications(const mmc_plan *plan, int64_t index);
/* Returns the device's name of the kernel that computes step index, "cublas sgemm"; "" past the
 * last one. It lives as long as the context. */
MMC_API const char *mmc_plan_step_kernel(const mmc_plan *plan, int64_t index);

typedef enum mmc_fusion { MMC_FUSION_NONE, MMC_FUSION_LEFT, MMC_FUSION_RIGHT } mmc_fusion;

/* The words that step index of a plan for "traffic" moves, and what it was chosen from. */
typedef struct mmc_step_traffic {
  /* The fusion of the step's kernel, whose later step takes its left or right operand from the
   * earlier. */
  mmc_fusion fusion;
  int64_t partner; /* the step in the same kernel, or -1; the later of the two is charged */
  int64_t tile[2]; /* rows and columns that the kernel keeps on chip; 0 when it moves nothing */
  /* Words of the kernel with the write of its result; the words of all steps are the plan's. */
  mmc_count words;
  /* The choices that OP_DM_Fuse had at this product, whether or not the plan uses them: for each
   * mmc_fusion, the words of the whole sub-chain without the write of its result. possible is false
   * where the operand is a factor, or where the words exceed 128 bits. */
  mmc_count choices[3];
  bool possible[3];
  mmc_fusion chosen;
  int64_t chosen_tile[2];
} mmc_step_traffic;

/* Returns all words that a plan for "traffic" moves for each chain of a batch; 0 for other
 * objectives. */
MMC_API mmc_count mmc_plan_traffic_words(const mmc_plan *plan);
/* Writes the traffic of step index. Returns: E_ARG past the last step and when the plan is not for
 * "traffic". */
MMC_API mmc_status mmc_plan_step_traffic(const mmc_plan *plan, int64_t index,
                                         mmc_step_traffic *out);

/* Returns the seconds that a plan for "time" or "energy" is predicted to take, or one for "flops"
 * over a semiring where the device tells them; NaN for others. */
MMC_API double mmc_plan_predicted_seconds(const mmc_plan *plan);

/* Returns what the result of a plan with a tolerance is off by at most, as a part of the product of
 * the factors' lengths, as long as nothing overflows or vanishes; it may be more than the tolerance
 * where no arithmetic of the dtype on the device is surely as exact. NaN for other plans. */
MMC_API double mmc_plan_error_bound(const mmc_plan *plan);

/* What single products are predicted by where they were not measured: the peak and the bandwidth
 * that bound them, and how long a call takes besides. */
typedef struct mmc_roofline {
  double flops_per_s, bytes_per_s, launch_s;
  bool calibrated; /* measured by mmc_tune() on this machine; else as the device tells */
} mmc_roofline;
/* Writes the roofline that a plan for "time" or "energy" was predicted by. Returns: E_ARG for other
 * objectives. */
MMC_API mmc_status mmc_plan_roofline(const mmc_plan *plan, mmc_roofline *out);

enum { MMC_SPLIT_SIZE = 256 };

/* How step index of a plan for "time" or "energy" is computed, and why. */
typedef struct mmc_step_time {
  double predicted_s;
  char split[MMC_SPLIT_SIZE]; /* the parts, as docs/tuning.md spells them; "" for one plain call */
  /* Where the seconds come from. "measured": this very product was measured on this machine.
   * "array": they are interpolated between measurements. "model": a roofline that was calibrated
   * here; "model, not calibrated": one that was assumed. */
  const char *source;
} mmc_step_time;

/* Writes the time of step index. Returns: E_ARG past the last step and when the plan is for
 * neither. */
MMC_API mmc_status mmc_plan_step_time(const mmc_plan *plan, int64_t index, mmc_step_time *out);

/* Returns the joules that a plan for "energy" is predicted to take; NaN for other objectives. */
MMC_API double mmc_plan_predicted_joules(const mmc_plan *plan);

/* The joules of step index of a plan for "energy". */
typedef struct mmc_step_energy {
  double predicted_j;
  /* Where the joules come from. "measured": this very product was measured on this machine.
   * "model": static power, joules a flop and joules a byte, fitted here; "model, not calibrated":
   * assumed. */
  const char *source;
} mmc_step_energy;

/* Writes the energy of step index. Returns: E_ARG past the last step and when the plan is not for
 * "energy". */
MMC_API mmc_status mmc_plan_step_energy(const mmc_plan *plan, int64_t index, mmc_step_energy *out);

/* ---- run ---------------------------------------------------------------------------------- */

typedef struct mmc_run mmc_run;

/* CONSTRUCTOR. Takes the workspace and prepares every step. The plan must outlive the run.
 * Returns: E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_run_create(const mmc_plan *plan, mmc_run **out);
MMC_API void mmc_run_destroy(mmc_run *run);

/* METHOD. out = op(factors[0]) * ... * op(factors[n-1]), complete on return.
 * factors: n matrices as stored, so factor i is dims[i] x dims[i+1] when its op is N and
 *          dims[i+1] x dims[i] when it is T or H, in any layout and ld. They are read where they
 *          lie, never copied or transposed, but for those on the host when the device has memory of
 *          its own. The same matrix may be given several times.
 * out:     dims[0] x dims[n], in any layout and ld; it must not overlap a factor. Elements between
 *          the rows (columns) of an ld are left alone. NaN and Inf pass through as in IEEE
 *          arithmetic.
 * Of a batch, each matrix stands for as many (see mmc_matrix). Results must not overlap: their
 * stride is at least what one of them extends over. Chains have nothing to do with each other: one
 * that holds NaN does not touch its neighbours. A batch of 0 does nothing. Allocates nothing when
 * the matrices lie as in the execution before, but for integers that have become larger, inverses,
 * results at addresses that are not evenly spaced, and what a CBLAS takes for its threads.
 * Returns: E_ARG (the message names the factor), E_OVERFLOW (of a checked chain; out is undefined
 * then), E_DEVICE, E_NOMEM, E_INTERRUPTED (mmc_run_progress). */
MMC_API mmc_status mmc_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out);
/* METHOD. Does the same for a plan that is scaled: the product of chain b of the batch is out times
 * 2^exponents[b], so that it neither overflows nor vanishes, however many factors there are.
 * Results on the way whose largest element leaves the middle of the dtype's range are multiplied by
 * a power of two, which rounds nothing: the digits are those of mmc_execute(), where that stays
 * within the range. A factor whose own elements are so large or so small is copied. Returns: as
 * mmc_execute(), which returns E_ARG for such a plan; E_ARG for others. */
MMC_API mmc_status mmc_execute_scaled(mmc_run *run, const mmc_matrix *factors,
                                      const mmc_matrix *out, int64_t *exponents);

/* METHOD of a context. Multiplies once: does what a plan of these options, its run and
 * mmc_execute() do, with the same bits, and keeps nothing of it: for shapes that do not come again.
 * Where the device works on host memory, a chain of up to 16 factors, no side above 2^20, with up
 * to 2^27 multiplications, or 2^20 in all of a batch of which no product is computed once, takes
 * neither plan nor run, unless four factors or more repeat, or what was tuned says more than
 * prices; planning then costs less than a microsecond for few factors. Returns: as
 * mmc_plan_create(), mmc_run_create() and mmc_execute().
 */
MMC_API mmc_status mmc_multiply(mmc_context *context, const mmc_chain *chain,
                                const mmc_plan_options *options, const mmc_matrix *factors,
                                const mmc_matrix *out);

/* METHOD. Has later calls of mmc_execute() on this run ask progress between products on the host,
 * and in the midst of large ones, some 20 times a second; NULL has them ask no more. What it stops
 * returns MMC_E_INTERRUPTED and leaves out undefined; the run may execute again. Asking changes no
 * bit of what is computed. Products on a GPU do not ask. A run of NULL is a no-op. */
MMC_API void mmc_run_progress(mmc_run *run, mmc_progress_fn progress, void *user);

/* A matrix in pieces: of "none" one, else one for each device, in its memory and of any layout and
 * ld; those that have nothing are not read. */
typedef struct mmc_pieces {
  mmc_cut cut;
  const mmc_matrix *pieces;
} mmc_pieces;

/* METHOD. Does what mmc_execute() does, of a run of a plan for several devices, with factors and
 * result in pieces: factors are n, as stored. What the devices were given before must be done. The
 * layouts of intermediates are chosen for these. Returns: as mmc_execute(); E_MEMORY_LIMIT. */
MMC_API mmc_status mmc_execute_pieces(mmc_run *run, const mmc_pieces *factors,
                                      const mmc_pieces *out);

/* METHOD. Does what mmc_execute() does, ordered like a kernel on the caller's stream, a
 * cudaStream_t (NULL is CUDA's default stream), and without waiting when all matrices are on the
 * device. Other devices ignore the stream and wait. Executions of one run follow each other on
 * whatever streams they are. Executed again with the same matrices on a device, the whole chain is
 * one launch of a CUDA graph. The run must outlive the work, and a graph of the caller's that
 * captures it, which works in the run's workspace. Returns: as mmc_execute(). */
MMC_API mmc_status mmc_enqueue(mmc_run *run, void *stream, const mmc_matrix *factors,
                               const mmc_matrix *out);

/* METHOD. Waits until what mmc_enqueue() was given is done. Returns: E_DEVICE. */
MMC_API mmc_status mmc_wait(mmc_run *run);

/* ---- ranges: products of parts of a row that changes ------------------------------------------
 */

/* A row of n x n matrices, of which the product of any range can be asked for while factors are
 * changed, appended at its end and taken from its front (docs/running.md). The factors are copied.
 * Products of 2, 4, 8, ... neighbours are kept, some 2 matrices for each factor, and computed when
 * they are first needed: after one of T factors has changed, the product of all takes at most
 * log2(T) + 1 products of two matrices, rounded up, and that of another range at most twice as
 * many. Changes between two products are computed together, as batches.
 *
 * A range is multiplied in an order that its factors' places since the first one was appended
 * decide, and a memory limit; never what was asked for or changed before.
 *
 * A mmc_ranges belongs to one thread at a time. */
typedef struct mmc_ranges mmc_ranges;

typedef struct mmc_ranges_options {
  size_t size;
  /* Name of the device, as in mmc_plan_options. NULL means "cpu". On a GPU, n is from 1 to 64, the
   * dtype no integer, there are no exponents and no other sums than those of products, and matrices
   * are in the GPU's memory, of a batch with a stride. */
  const char *device;
  int64_t batch; /* rows that are multiplied at once, 1 or more: every factor stands for as many
                    matrices */
  /* How many bytes may be held, factors included, or MMC_NO_LIMIT. Where it is less than all
   * products take, those of 2, 4, ... factors are not kept and computed when they are needed, which
   * takes as many products more. While the row outgrows its memory, there are two of them. */
  uint64_t memory_limit_bytes;
  /* f32, f64, c64, c128: every product has an exponent, as in mmc_scan_options. */
  bool scaled;
  /* What takes the places of sums and products of elements, without scaled; the product of no
   * factors has ones of it, and zeros around them. */
  mmc_semiring semiring;
} mmc_ranges_options;
#define MMC_RANGES_OPTIONS_INIT \
  { sizeof(mmc_ranges_options), NULL, 1, MMC_NO_LIMIT, false, MMC_PLUS_TIMES }

/* CONSTRUCTOR. Makes a row without factors. n is from 0 to 2^31. The context must outlive it.
 * Returns: E_ARG, E_NOMEM, E_OVERFLOW, E_UNSUPPORTED (no such device, or a row that it does not
 * keep), E_DEVICE. */
MMC_API mmc_status mmc_ranges_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                                     const mmc_ranges_options *options, mmc_ranges **out);
MMC_API void mmc_ranges_destroy(mmc_ranges *ranges);

/* METHOD. Has the methods below be ordered like kernels on the caller's stream from now on, a
 * cudaStream_t (NULL is CUDA's default stream), and not wait but where the row outgrows its memory.
 * What they were given before, on whichever stream, comes first. Other devices ignore the stream
 * and wait. A NULL ranges is a no-op. */
MMC_API void mmc_ranges_on_stream(mmc_ranges *ranges, void *stream);

/* METHODS. Append count factors at the end; put count others in place of those with these indices,
 * from 0, where of an index that is given several times the last counts; take count factors from
 * the front. factors are count matrices, n x n, on the host or the GPU, in any layout and ld (see
 * mmc_matrix_chain() for those of one array). Nothing is multiplied yet, and on failure nothing
 * changes. Return: E_ARG (the message names the argument), E_NOMEM, E_MEMORY_LIMIT and E_OVERFLOW
 * (append). */
MMC_API mmc_status mmc_ranges_append(mmc_ranges *ranges, int64_t count, const mmc_matrix *factors);
MMC_API mmc_status mmc_ranges_update(mmc_ranges *ranges, int64_t count, const int64_t *indices,
                                     const mmc_matrix *factors);
MMC_API mmc_status mmc_ranges_pop_front(mmc_ranges *ranges, int64_t count);

/* METHOD. out = the product of factors first, first + 1, ... end - 1, where 0 <= first <= end <=
 * the length; of none, the identity. out is n x n, in any layout and ld. NaN and Inf pass through
 * as in IEEE arithmetic, and never from a factor outside the range. It is complete on return.
 * Returns: E_ARG (the message names the argument), E_DEVICE, E_NOMEM, E_MEMORY_LIMIT (the limit has
 * no room for one factor and a product), E_INTERRUPTED (mmc_ranges_progress). */
MMC_API mmc_status mmc_ranges_product(mmc_ranges *ranges, int64_t first, int64_t end,
                                      const mmc_matrix *out);

/* METHOD. Does the same in a row that is scaled: the product is out times 2^exponents[b] for row b
 * of the batch. Returns: as mmc_ranges_product(), which returns E_ARG for such a row. */
MMC_API mmc_status mmc_ranges_product_scaled(mmc_ranges *ranges, int64_t first, int64_t end,
                                             const mmc_matrix *out, int64_t *exponents);

/* METHOD. Has later products of this row ask progress on the host, as mmc_run_progress() says of
 * mmc_execute(), but that done is 0 all along. What it stops returns E_INTERRUPTED and leaves out
 * undefined; the row is as good as before. A row of NULL is a no-op. */
MMC_API void mmc_ranges_progress(mmc_ranges *ranges, mmc_progress_fn progress, void *user);

typedef struct mmc_ranges_info {
  int64_t length;   /* factors in the row */
  int64_t block;    /* factors of the shortest product that is kept */
  int64_t products; /* products of two matrices, each a batch, that were computed so far */
  uint64_t bytes;   /* bytes that are held */
} mmc_ranges_info;
/* METHOD. Describes the row. Returns: E_ARG. */
MMC_API mmc_status mmc_ranges_describe(const mmc_ranges *ranges, mmc_ranges_info *out);

/* ---- gradients --------------------------------------------------------------------------------
 */

/* The gradients of all factors of a chain, from the cotangent of its product: where C = op(A) B and
 * dC is the gradient of a number by C, that by op(A) is dC B^H, and B's is op(A)^H dC. They go back
 * through the chain's tree, in at most 2 (n - 1) products (docs/running.md).
 *
 * A mmc_gradients belongs to one thread at a time. */
typedef struct mmc_gradients mmc_gradients;

/* CONSTRUCTOR. Prepares the gradients of those factors i for which wanted[i] is true, of n; NULL
 * means all. The plan says the chain, the device and the order; where its order was not given and
 * another takes as many multiplications, whose products wait less for one another, that is taken.
 * The plan must outlive it. On a GPU, matrices have at most 64 rows and columns, and lie, as the
 * memory does, on it. Returns: E_ARG, E_NOMEM, E_OVERFLOW, E_DEVICE, E_UNSUPPORTED (a device
 * without gradients, or larger matrices; a plan that computes once what repeats, or that uses the
 * structure of factors, see mmc_chain_options). */
MMC_API mmc_status mmc_gradients_create(const mmc_plan *plan, const bool *wanted,
                                        mmc_gradients **out);
/* CONSTRUCTOR. The same, whose memory is at most memory_limit_bytes; MMC_NO_LIMIT is none. Where
 * the results of the chain's products would take more, one is computed after the other, those that
 * the way back does not read are let go, and those that take the fewest multiplications for their
 * size are computed again there. Returns also E_MEMORY_LIMIT (the message says how much would do;
 * it is never less than what the gradients themselves take). */
MMC_API mmc_status mmc_gradients_create_within(const mmc_plan *plan, const bool *wanted,
                                               uint64_t memory_limit_bytes, mmc_gradients **out);
MMC_API void mmc_gradients_destroy(mmc_gradients *gradients);

/* Returns the bytes of the memory that the two methods below work in: about those of all
 * gradients. */
MMC_API uint64_t mmc_gradients_bytes(const mmc_gradients *gradients);
/* Returns where in that memory the gradient of factor i begins, in bytes; UINT64_MAX when it is not
 * wanted. It is as large as the factor as stored, in rows without gaps; of a batch, one follows the
 * other. Where the factor is transposed by its op, so is its gradient. */
MMC_API uint64_t mmc_gradients_offset(const mmc_gradients *gradients, int64_t i);

/* METHOD. Has the two methods below be ordered like kernels on the caller's stream from now on, a
 * cudaStream_t (NULL is CUDA's default stream), and not wait. Other devices ignore the stream and
 * wait. A NULL gradients is a no-op. */
MMC_API void mmc_gradients_on_stream(mmc_gradients *gradients, void *stream);

/* METHOD. Has the two methods below ask progress on the host, as mmc_run_progress() says of
 * mmc_execute(): where it answers other than 0 they return E_INTERRUPTED, and
 * mmc_gradients_forward() is to be called again before the way back. progress NULL: nobody is
 * asked. A NULL gradients is a no-op. */
MMC_API void mmc_gradients_progress(mmc_gradients *gradients, mmc_progress_fn progress, void *user);

/* METHOD. out = the product, as by mmc_execute(), with the results that the gradients need kept in
 * memory: mmc_gradients_bytes() of them, aligned to 64, the caller's. factors and out are as for
 * mmc_execute(). Returns: E_ARG (the message names the argument), E_DEVICE, E_NOMEM, E_INTERRUPTED
 * (mmc_gradients_progress). */
MMC_API mmc_status mmc_gradients_forward(mmc_gradients *gradients, const mmc_matrix *factors,
                                         void *memory, const mmc_matrix *out);
/* METHOD. Puts the gradients into memory, in place of what mmc_gradients_forward() has kept there,
 * which is to be called before each call of this one: what else memory holds makes wrong gradients,
 * and is not noticed. factors hold what they held then. cotangent is dims[0] x dims[n]; of a batch,
 * stride 0 shares one. copies, unless NULL, are n matrices as factors are, of which those that are
 * wanted get copies; they must not overlap anything else. Returns: as mmc_gradients_forward(). */
MMC_API mmc_status mmc_gradients_backward(mmc_gradients *gradients, const mmc_matrix *factors,
                                          void *memory, const mmc_matrix *cotangent,
                                          const mmc_matrix *copies);

/* ---- running products ---------------------------------------------------------------------- */

/* All products A1, A1 A2, ..., A1*...*AT of a stack of T square matrices, or all states x1, ..., xT
 * of the recurrence x_t = A_t x_(t-1) + b_t, in one call: in whatever order is cheapest here, with
 * fewer than two products a factor. docs/running.md says how. */
typedef struct mmc_scan mmc_scan;

typedef struct mmc_scan_options {
  size_t size;
  const char *device; /* as in mmc_plan_options */
  int64_t batch;      /* how many stacks are worked through together, 0 to 2^62 */
  bool reverse;       /* from the end: result t is A_t*...*AT, or x_t = A_t x_(t+1) + b_t */
  bool exclusive;  /* without its own factor: result t is A1*...*A_(t-1), the first is the initial
                      matrix, or the identity; with reverse, A_(t+1)*...*AT, and the last is */
  bool initial;    /* executions are given a matrix X that goes before: result t is X*A1*...*A_t;
                      with reverse, A_t*...*AT*X */
  int64_t columns; /* 0: products of matrices. m >= 1: a recurrence, whose states are n x m and
                      whose initial matrix, which it needs, is x_0 */
  bool addend;     /* executions of a recurrence are given b_1 to b_T */
  mmc_semiring semiring; /* what takes the places of sums and products of elements; the identity
                            then has zeros of the semiring around ones of it */
  bool scaled; /* f32, f64, c64, c128, without an addend: every result has an exponent, and stands
                  for itself times 2^exponent, so that it neither overflows nor vanishes. One whose
                  largest element stays near 1 has exponent 0; another has the digits that it would
                  have without one, of products one after the other. */
} mmc_scan_options;
#define MMC_SCAN_OPTIONS_INIT \
  { sizeof(mmc_scan_options), NULL, 1, false, false, false, 0, false, MMC_PLUS_TIMES, false }

/* CONSTRUCTOR. Prepares running products of `length` n x n matrices, each of n and length from 0 to
 * 2^62; options may be NULL. The context must outlive it, and it belongs to one thread at a time.
 * Returns: E_ARG, E_UNSUPPORTED (no such device), E_NOMEM, E_DEVICE, E_OVERFLOW (more than 2^62
 * elements). */
MMC_API mmc_status mmc_scan_create(mmc_context *context, mmc_dtype dtype, int64_t n, int64_t length,
                                   const mmc_scan_options *options, mmc_scan **out);
MMC_API void mmc_scan_destroy(mmc_scan *scan);

/* METHOD. Says how it is computed and why, for MMC_TEXT and MMC_JSON. Returns: E_ARG, E_IO. */
MMC_API mmc_status mmc_scan_explain(const mmc_scan *scan, mmc_format format, mmc_write_fn write,
                                    void *user);

/* What an execution reads and writes. Each is the first matrix of a stack, matrix t of which begins
 * t * step elements after it; the stack of another scan of the batch begins matrix.stride elements
 * after that. Tables of addresses are not taken. What the options do not ask for is left alone. */
typedef struct mmc_scan_operands {
  size_t size;
  mmc_matrix factors; /* n x n each; a step or stride of 0 is one matrix again and again */
  int64_t factors_step;
  mmc_matrix initial; /* n x n, or n x m */
  mmc_matrix addend;  /* n x m each */
  int64_t addend_step;
  mmc_matrix out; /* n x n, or n x m, each; apart from each other and from all that is read */
  int64_t out_step;
  int64_t *exponents; /* scaled: on the host; that of result t of scan b becomes number
                         b * length + t */
} mmc_scan_operands;
#define MMC_SCAN_OPERANDS_INIT                                                          \
  {                                                                                     \
    sizeof(mmc_scan_operands), MMC_MATRIX_INIT, 0, MMC_MATRIX_INIT, MMC_MATRIX_INIT, 0, \
        MMC_MATRIX_INIT, 0, NULL                                                        \
  }

/* METHOD. Computes all results, complete on return. Matrices are in any layout and ld, all of them
 * on the host or all on the device. NaN and Inf pass through as in IEEE arithmetic: those of a
 * factor reach the results that hold it, and no others. Allocates nothing when the matrices lie as
 * in the execution before. Returns: E_ARG (the message names the operand), E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_scan_execute(mmc_scan *scan, const mmc_scan_operands *operands);
/* METHOD. Does the same on the caller's stream, as mmc_enqueue() does. Matrices on the host are
 * waited for. */
MMC_API mmc_status mmc_scan_enqueue(mmc_scan *scan, void *stream,
                                    const mmc_scan_operands *operands);
/* METHOD. Waits until what mmc_scan_enqueue() was given is done. Returns: E_DEVICE. */
MMC_API mmc_status mmc_scan_wait(mmc_scan *scan);
/* METHOD. Has later executions of this scan ask progress, as mmc_run_progress() does for a run:
 * what it stops returns MMC_E_INTERRUPTED, leaves out and exponents undefined, and the scan may
 * execute again. A scan on a GPU does not ask. A scan of NULL is a no-op. */
MMC_API void mmc_scan_progress(mmc_scan *scan, mmc_progress_fn progress, void *user);

/* ---- memory of a device -----------------------------------------------------------------------
 */

/* Memory of a device, for factors and results with location MMC_DEVICE where the caller has no
 * other means to allocate there; on "blas" and "ref" it is host memory. */
typedef struct mmc_memory mmc_memory;

/* CONSTRUCTOR. Takes size_bytes of uninitialised memory of a device, named as in mmc_plan_options.
 * The context must outlive it. Returns: E_ARG, E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_memory_create(mmc_context *context, const char *device, size_t size_bytes,
                                     mmc_memory **out);
MMC_API void mmc_memory_destroy(mmc_memory *memory);
/* Returns the address where it begins, as mmc_matrix wants it; it is aligned to at least 64
 * bytes. */
MMC_API void *mmc_memory_address(const mmc_memory *memory);
/* METHODS. Copy size bytes from the host to offset, in bytes, and back; done on return.
 * Returns: E_ARG (beyond the end), E_DEVICE. */
MMC_API mmc_status mmc_memory_write(mmc_memory *memory, size_t offset, const void *from,
                                    size_t size);
MMC_API mmc_status mmc_memory_read(mmc_memory *memory, size_t offset, void *to, size_t size);

/* ---- order: the ordering problem itself ------------------------------------------------------ */

/* A parenthesization of n factors and its cost, at any n; no matrices involved. */
typedef struct mmc_order mmc_order;

/* Returns the price of multiplying (factors i..k-1) by (factors k..j-1), that is dims[i] x dims[k]
 * by dims[k] x dims[j]; 0 <= i < k < j <= n. It must be >= 0, may be infinite, must depend on i, k
 * and j alone, and is called from several threads at once. The price of an order is the sum over
 * its products. */
typedef double (*mmc_price_fn)(void *user, int64_t i, int64_t k, int64_t j);

typedef struct mmc_order_options {
  size_t size;
  const char *solver; /* name of the solver, as in mmc_plan_options */
  const char *device; /* "cpu"; "cuda" or "cuda:i" for solver "table" */
  const char *kernel; /* of solver "table", which it chooses; on CUDA: "auto", "tiled", "thread",
                         "block", "blocks", "paper"; on the CPU: "auto", "avx512", "avx2",
                         "portable" */
  int threads;        /* threads on the CPU; 0 means as many as cores */
  /* "thread", "block", "blocks" take 32, 64, 128 or 256; 0 means the fastest. */
  int threads_per_block;
  int blocks_per_entry; /* kernel "blocks" takes 2, 4, 8 or 16; 0 means the fastest */
  mmc_price_fn price;   /* taken by solver "table" on the CPU; NULL means multiplications */
  void *price_user;
  bool keep_table;          /* keeps the tables m and s for mmc_order_entry() */
  mmc_progress_fn progress; /* told how far solving is; may be NULL */
  void *progress_user;
  mmc_write_fn profile; /* kernels thread, block, blocks, paper: takes CSV lines
                           "l,kernel,seconds", the time of each kernel on each diagonal */
  void *profile_user;
} mmc_order_options;
#define MMC_ORDER_OPTIONS_INIT                                                                 \
  {                                                                                            \
    sizeof(mmc_order_options), NULL, NULL, NULL, 0, 0, 0, NULL, NULL, false, NULL, NULL, NULL, \
        NULL                                                                                   \
  }

/* CONSTRUCTOR. Finds the order of fewest multiplications, or of least price, for dims[0..n].
 * Solvers: "hu-shing" takes O(n log n) time and O(n) memory (Hu and Shing 1982, 1984); "table"
 * O(n^3) time and about 4n^2 bytes (Godbole 1973), blocked and threaded, or on CUDA; "brute" tries
 * every order, n <= 12. "auto" is hu-shing when it applies, else table.
 * dims:    n+1 numbers, 0 <= dim <= 2^62; 1 <= n < 2^30.
 * Ties:    Every solver returns the same order. Let K be the splits k of a sub-chain dims[i..j]
 *          that cost the same and L the position of the least dim among i, j and K (the leftmost of
 *          equals). The split is L when it is in K, the greatest in K when L is i, the least when L
 *          is j. So equal dims are multiplied left to right. docs/order.md says why.
 * Returns: E_ARG, E_NOMEM, E_OVERFLOW (fewest multiplications >= 2^128 - 1), E_UNSUPPORTED,
 *          E_DEVICE, E_INTERRUPTED. */
MMC_API mmc_status mmc_order_create(mmc_context *context, int64_t n, const int64_t *dims,
                                    const mmc_order_options *options, mmc_order **out);
MMC_API void mmc_order_destroy(mmc_order *order);

MMC_API int64_t mmc_order_length(const mmc_order *order); /* n */
/* Multiplications of this order. */
MMC_API mmc_count mmc_order_multiplications(const mmc_order *order);
MMC_API double mmc_order_price(const mmc_order *order);       /* in units of options.price */
MMC_API double mmc_order_seconds(const mmc_order *order);     /* seconds that solving took */
MMC_API const char *mmc_order_solver(const mmc_order *order); /* the solver that ran: "hu-shing" */
MMC_API const char *mmc_order_device(const mmc_order *order); /* "cpu", "cuda:0" */
MMC_API const char *mmc_order_kernel(const mmc_order *order); /* "avx2", "tiled"; "" */

/* Writes product t, 0 <= t < n-1, children before parents: factors first..split-1 by split..last,
 * counted from 0. Returns: E_ARG past the last one. */
MMC_API mmc_status mmc_order_product(const mmc_order *order, int64_t t, int64_t *first,
                                     int64_t *split, int64_t *last);
/* Writes an entry of the tables m and s of Nishida, Ito and Nakano (2011) for factors i..j, 1 <= i
 * <= j <= n: m is the fewest multiplications, s the first factor of the right part (0 when i = j).
 * Returns: E_ARG, E_UNSUPPORTED when solved without keep_table. */
MMC_API mmc_status mmc_order_entry(const mmc_order *order, int64_t i, int64_t j, mmc_count *m,
                                   int64_t *s);

typedef enum mmc_order_format {
  MMC_ORDER_TEXT,  /* ((A1 (A2 A3)) A4) */
  MMC_ORDER_JSON,  /* [[1, [2, 3]], 4] */
  MMC_ORDER_BINARY /* "MMCORDER", then little-endian: uint32 version 1, uint32 0, uint64 n, n-1
                      pairs of uint32 (left, right), children before parents: a number below n is a
                      factor, n + t the result of product t */
} mmc_order_format;
/* Writes the order in that format. Returns: E_ARG, E_NOMEM, E_IO. */
MMC_API mmc_status mmc_order_write(const mmc_order *order, mmc_order_format format,
                                   mmc_write_fn write, void *user);

/* ---- energy -------------------------------------------------------------------------------- */

/* One meter as `mmchain info` shows it. */
typedef struct mmc_meter_info {
  char name[32];         /* the name that mmc_meter_open() and the command take: "rapl", "nvml:0" */
  char description[480]; /* what it reads */
  bool available;        /* when false, description says what is missing and how to get it */
} mmc_meter_info;

/* METHOD. Describes meter number index, from 0. Returns: E_ARG past the last one, E_NOMEM. */
MMC_API mmc_status mmc_meter_describe(mmc_context *context, int index, mmc_meter_info *out);

typedef struct mmc_meter mmc_meter;

/* CONSTRUCTOR. Opens the meter of a device, by the device's name or the meter's own:
 *   "cpu", "blas", "ref"  "rapl": the processor packages, by Linux's powercap
 *   "cuda", "cuda:i"      "nvml:i": the whole board, by NVIDIA's management library
 *   "replay:FILE"         plays a recording: lines of "time_s joules [watts [sm_mhz [memory_mhz
 *                         [celsius [reasons]]]]]", - for unknown, # before a comment; reasons as
 *                         NVML's sum of clock event reasons
 *   "none"                measures nothing
 * A meter that is not here is opened too; mmc_meter_measure() then says why nothing is measurable.
 * The context must outlive the meter, which belongs to one thread at a time.
 * Returns: E_ARG (no such name), E_IO and E_FORMAT (the recording, with the line), E_NOMEM. */
MMC_API mmc_status mmc_meter_open(mmc_context *context, const char *device, mmc_meter **out);
MMC_API void mmc_meter_destroy(mmc_meter *meter);

typedef struct mmc_energy_options {
  size_t size;
  double min_s;  /* the window is at least so long */
  double warm_s; /* work runs so long before the window */
  double idle_s; /* idle power is measured so long before the work; 0 means not at all */
  /* Does a run of the work, or enqueues one; it is called again and again, from the calling thread.
   * Returns 0, or anything else to stop. When it is NULL, only idle power is measured. */
  int (*work)(void *user);
  /* Returns once all that work has enqueued is done: 0, or anything else to stop. NULL means that
   * runs are done when work returns. */
  int (*wait)(void *user);
  void *user;
} mmc_energy_options;
#define MMC_ENERGY_OPTIONS_INIT \
  { sizeof(mmc_energy_options), 2, 0.5, 1, NULL, NULL, NULL }

/* What is not known is NaN, never 0. The least and the most power are those of slices of the
 * window, each at least a quarter of a second long. */
typedef struct mmc_energy {
  bool measured;    /* when false, reason says why not */
  char reason[480]; /* "" when measured */
  char meter[16];   /* "rapl", "nvml", "replay", "none" */
  double joules;    /* joules of one run, idle power included */
  double seconds;   /* seconds of one run in the window */
  double watts, watts_min, watts_max;
  double idle_watts, idle_watts_min, idle_watts_max;
  double window_s;   /* seconds from tick to tick of the energy counter */
  double runs;       /* runs in the window; those that it cuts count by the part within */
  int64_t ticks;     /* steps of the counter in the window */
  double tick_error; /* the most, relative, that seeing ticks late puts joules and watts off */
  double crosscheck; /* mean power as sampled divided by that of the counter, less 1 */
  double sm_mhz_min, sm_mhz_median, sm_mhz_max;
  double memory_mhz_min, memory_mhz_median, memory_mhz_max;
  double celsius_max;
  char throttle[160]; /* why clocks were held back: "power cap, thermal", "none", "unknown" */
} mmc_energy;

/* METHOD. Measures what a run of the work takes: idle power first, then the work is repeated,
 * warming up, from there to the first tick of the meter's counter, and on to the first tick after
 * min_s. Meanwhile the meter is read every few milliseconds in a thread of its own, so that long
 * runs do not blur the ticks. A machine that cannot measure is no failure: see out->measured.
 * Returns: E_ARG, E_INTERRUPTED (work or wait has stopped it; the context's message is left alone),
 * E_NOMEM. */
MMC_API mmc_status mmc_meter_measure(mmc_meter *meter, const mmc_energy_options *options,
                                     mmc_energy *out);
/* ---- sparse chains --------------------------------------------------------------------------- */

/* A sparse matrix by rows (CSR), before any op, in host memory: row r holds elements indptr[r] to
 * indptr[r + 1] - 1, and element e stands in column indices[e], from 0. Columns of a row may be in
 * any order; of several elements in one place the sum is meant. indptr[0] is 0. Numbers of indptr
 * and indices are int32_t or int64_t. */
typedef struct mmc_csr {
  int64_t rows, cols;  /* at most 2^31 - 1 each */
  int index_bytes;     /* 4 for int32_t, 8 for int64_t */
  const void *indptr;  /* rows + 1 numbers */
  const void *indices; /* indptr[rows] numbers */
  const void *values;  /* indptr[rows] elements */
} mmc_csr;

/* A factor: a sparse matrix or a dense one, the other is NULL. */
typedef struct mmc_sparse_factor {
  const mmc_csr *csr;
  const mmc_matrix *dense; /* on the host, without a table of addresses */
  mmc_op op;
} mmc_sparse_factor;

/* A sparse matrix of the library's own, which never changes. */
typedef struct mmc_sparse mmc_sparse;
MMC_API void mmc_sparse_destroy(mmc_sparse *sparse);
MMC_API mmc_dtype mmc_sparse_dtype(const mmc_sparse *sparse);
/* Returns the matrix, which lives as long as its owner: rows in order, each place once, int64_t in
 * both arrays where index_bytes is 8. index_bytes is 4 where the nonzeros are fewer than 2^31. */
MMC_API mmc_csr mmc_sparse_csr(const mmc_sparse *sparse);

/* Says whether a file holds a sparse matrix: Matrix Market's coordinates, or what
 * scipy.sparse.save_npz() writes. It is false for what cannot be read, and for what is no regular
 * file. */
MMC_API bool mmc_sparse_is_file(mmc_context *context, const char *name);
/* CONSTRUCTOR. Reads a file of which mmc_sparse_is_file() is true. Elements of Matrix Market's
 * files are f64 or c128.
 * Returns: E_ARG, E_IO, E_FORMAT (damaged, of another dtype than f32, f64, c64 and c128, or in
 * another of SciPy's formats than csr and csc), E_UNSUPPORTED, E_NOMEM. */
MMC_API mmc_status mmc_sparse_open(mmc_context *context, const char *name, mmc_sparse **out);
/* Writes a matrix as such a file, .mtx or .npz, whole or not at all, as mmc_file_write() does. For
 * .npz, columns of a row should be in order. Returns: E_ARG (another format, or a member), E_IO,
 * E_UNSUPPORTED, E_NOMEM. */
MMC_API mmc_status mmc_sparse_write(mmc_context *context, const char *name, mmc_dtype dtype,
                                    const mmc_csr *matrix);

/* A product of factors of which some are sparse, in the cheapest order by their nonzeros
 * (docs/sparse.md). It belongs to one thread at a time. */
typedef struct mmc_sparse_chain mmc_sparse_chain;

typedef struct mmc_sparse_options {
  size_t size;
  const char *device;     /* as in mmc_plan_options, with memory of the host; NULL means "cpu" */
  const char *objective;  /* "flops" or "time"; NULL means "flops" */
  const char *solver;     /* "auto" or "left-to-right"; NULL means "auto" */
  bool dense_result;      /* whether the result is to be dense */
  const uint32_t *traits; /* n sets of MMC_ traits, 0 for a sparse factor; NULL: nothing is said */
} mmc_sparse_options;
#define MMC_SPARSE_OPTIONS_INIT \
  { sizeof(mmc_sparse_options), NULL, NULL, NULL, false, NULL }

/* CONSTRUCTOR. Plans the product of 1 to 64 factors, of f32, f64, c64 or c128. The nonzeros of
 * every product are estimated by the paths through its factors, counted from both ends in one
 * passage over those of a factor for every sub-chain, and all orders are weighed; with "time" also
 * whether a product is held sparse or dense, and where a dense factor at an end has the fewest
 * lines of all, the order from there is taken at once if it takes less time than this. A dense
 * factor of which MMC_INVERSE is said is solved with, by what else is said of it, or its inverse is
 * formed where that is cheaper. The context must outlive it; factors and traits are not kept.
 * Returns: E_ARG (the message names the factor), E_NOMEM, E_UNSUPPORTED. */
MMC_API mmc_status mmc_sparse_chain_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                                           const mmc_sparse_factor *factors,
                                           const mmc_sparse_options *options,
                                           mmc_sparse_chain **out);
MMC_API void mmc_sparse_chain_destroy(mmc_sparse_chain *chain);
/* METHOD. Says how it is computed, as MMC_TEXT or MMC_JSON. Returns: E_ARG, E_IO. */
MMC_API mmc_status mmc_sparse_chain_explain(const mmc_sparse_chain *chain, mmc_format format,
                                            mmc_write_fn write, void *user);
/* Returns how many multiplications the order is estimated to take; exact for two factors. */
MMC_API double mmc_sparse_chain_multiplications(const mmc_sparse_chain *chain);
/* METHOD. Multiplies: factors of the sides, kinds and ops that were planned for; their nonzeros may
 * be others, for which the order was not chosen. With dense_result the product goes to dense, which
 * must not overlap a factor, and sparse is NULL; else dense is NULL and *sparse becomes the
 * product, the caller's. NaN and Inf do not pass through places that are not stored, but where
 * the plan holds them densely (mmc_sparse_chain_explain() tells): there their zeros are IEEE's.
 * Returns: E_ARG (the message names the factor, also one that is singular or not definite),
 * E_NOMEM, E_DEVICE, E_UNSUPPORTED, E_INTERRUPTED (mmc_sparse_chain_progress). */
MMC_API mmc_status mmc_sparse_chain_execute(mmc_sparse_chain *chain,
                                            const mmc_sparse_factor *factors,
                                            const mmc_matrix *dense, mmc_sparse **sparse);
/* METHOD. Has later executions of this chain ask progress, as mmc_run_progress() does for a run. A
 * chain of NULL is a no-op. */
MMC_API void mmc_sparse_chain_progress(mmc_sparse_chain *chain, mmc_progress_fn progress,
                                       void *user);

/* ---- wisdom ------------------------------------------------------------------------------- */

/* What was measured on a machine is kept in one file for the next run: how single products run
 * best, efficiency arrays, calibrated facts, and how far tuning is. Each entry belongs to a
 * fingerprint: device, model, driver, BLAS, version of mmchain, dtype, precision. Those of other
 * fingerprints are kept, shown and exported, and never used. docs/wisdom.md describes the file and
 * the text form.
 *
 * Several processes may use one store at once. What is damaged is passed over; a corrupt file is
 * renamed to PATH.corrupt-N by the next call that uses it, which begins a new one with the entries
 * that can still be read. Without SQLite there is no store. All calls return E_UNSUPPORTED (there
 * is no store, the message says why), E_FORMAT (the file is no store of this version of mmchain, or
 * corrupt), E_IO (it cannot be read or written, or another process held it too long), E_NOMEM. A
 * file that is not there is an empty store. Callbacks must not use the context. */

/* The store as `mmchain info` shows it. */
typedef struct mmc_wisdom_info {
  const char *path;      /* lives as long as the context; "" when there is no store */
  bool available;        /* when false, description says what is wrong */
  int64_t entries;       /* entries of this machine's fingerprints */
  int64_t foreign;       /* entries of other fingerprints */
  int64_t damaged;       /* entries that cannot be read and are passed over */
  char description[512]; /* what the store is, in one line */
  char notice[512];      /* says that a file was corrupt and what it is called now; usually "" */
} mmc_wisdom_info;

/* METHOD. Describes the store. What is wrong with it is no failure here. Returns: E_ARG,
 * E_NOMEM. */
MMC_API mmc_status mmc_wisdom_describe(mmc_context *context, mmc_wisdom_info *out);
/* METHOD. Copies what has become of a corrupt file in calls on this context, at most size bytes
 * with a final NUL; usually "". It opens no file. Returns text. */
MMC_API char *mmc_wisdom_notice(mmc_context *context, char *text, size_t size);
/* METHOD. Lists the store: MMC_TEXT for people, MMC_JSON one object. Returns also: E_ARG. */
MMC_API mmc_status mmc_wisdom_write(mmc_context *context, mmc_format format, mmc_write_fn write,
                                    void *user);
/* METHOD. Writes the text form of the whole store; the same entries give the same bytes. */
MMC_API mmc_status mmc_wisdom_export(mmc_context *context, mmc_write_fn write, void *user);
/* METHOD. Adds the entries of a text form, all, or none on failure. Of two with one key the later
 * measured stays, and of two as old the imported. E_FORMAT names the line. */
MMC_API mmc_status mmc_wisdom_import(mmc_context *context, mmc_read_fn read, void *user);

/* Chooses the entries to forget: those that fit every field. */
typedef struct mmc_wisdom_filter {
  size_t size;
  const char *device; /* kind of device, as in fingerprints: "blas", "cuda"; NULL means any */
  const char *dtype;  /* "f32"; NULL means any */
  bool foreign;       /* only those of other fingerprints than this machine's */
  bool progress;      /* only how far tuning is: it starts over, and what it found stays */
} mmc_wisdom_filter;
#define MMC_WISDOM_FILTER_INIT \
  { sizeof(mmc_wisdom_filter), NULL, NULL, false, false }

/* METHOD. Deletes entries; a filter of NULL chooses all. *count, unless count is NULL, says how
 * many they were. Returns also: E_ARG. */
MMC_API mmc_status mmc_wisdom_forget(mmc_context *context, const mmc_wisdom_filter *filter,
                                     int64_t *count);

/* ---- tune --------------------------------------------------------------------------------- */

/* One product: op(A) op(B) is m x k by k x n; all three are from 1 to 2^62. */
typedef struct mmc_tune_product {
  mmc_dtype dtype;
  int64_t m, k, n;
  mmc_op op_a, op_b;
} mmc_tune_product;

/* What was decided about a product. */
typedef struct mmc_tuned {
  mmc_tune_product product;
  const char *recipe; /* "whole" for the plain call, else as docs/tuning.md spells it */
  double plain_s, seconds;
  double gain, gain_low, gain_high; /* plain_s / seconds, and its bounds; 1 for plain */
  /* These are known for objective "energy", else NaN; then the gain is one of joules. */
  double plain_joules, joules;
} mmc_tuned;

/* What several products, or a batch of one, were measured to take as one call of the device. */
typedef struct mmc_timed {
  const char *call; /* "call NNN 10x30x5:0*1 10x5x60:3*2 @1", as docs/wisdom.md spells it */
  mmc_dtype dtype;
  double seconds, low, high; /* the median, and its bounds */
} mmc_timed;

/* How far mmc_tune() is. */
typedef struct mmc_tune_progress {
  double spent; /* the share of the budget that is spent, 0 to 1; NaN without a budget */
  /* What is being measured of dtype, one after the other: "samples" for the facts of the model,
   * "calls" of several products, of a range "sizes along m", "k" and "n", "grid points",
   * "trials" of what they predict and "trials between" them, "products", then "confirmations" of
   * what was chosen, and "cuts" of the range's sizes. It lives until the callback returns. */
  const char *unit;
  int64_t decided, count; /* how many of these are decided, fewer than there are */
  mmc_dtype dtype;
} mmc_tune_progress;

typedef struct mmc_tune_options {
  size_t size;
  const char *device;    /* name of the device, as in mmc_plan_options */
  const char *precision; /* name of the precision, as in mmc_plan_options */
  /* "time"; or "energy", which also measures the joules of known sizes, in windows of two seconds
   * each, and the facts of the model of energy. NULL means "time". */
  const char *objective;
  const char *meter; /* meter of joules, as mmc_meter_open() names it; NULL means the device's */
  double budget_s;   /* seconds to measure, all together; 0 means as long as it takes */
  /* What to tune, any of these. Chains are known sizes: for chains of up to 6 factors, all products
   * that any order needs are tuned, for others those of the fewest multiplications, together with
   * the groups of them that a device takes as one call, and for a batch the products of all chains.
   * products are known sizes as well. */
  const mmc_chain *const *chains;
  int64_t chain_count;
  const mmc_tune_product *products;
  int64_t product_count;
  /* The efficiency array of all sizes up to range, of this dtype and these ops; 0 means none. */
  int64_t range;
  mmc_dtype dtype;
  mmc_op op_a, op_b;
  /* Measures the facts of the model for dtype, even where nothing else is asked for; they are
   * measured in any case where they are not known. */
  bool calibrate;
  /* These functions get user, and must not use the context; each may be NULL, and returns 0, or
   * anything else to stop. progress is told before every measurement, and several times a second
   * within long ones; what earlier calls measured is decided. decided is told of every product; for
   * time, when all of a dtype are decided, since each choice is measured again after the others. */
  int (*progress)(void *user, const mmc_tune_progress *progress);
  int (*decided)(void *user, const mmc_tuned *tuned);
  int (*timed)(void *user, const mmc_timed *timed);
  void *user;
} mmc_tune_options;
#define MMC_TUNE_OPTIONS_INIT                                                                    \
  {                                                                                              \
    sizeof(mmc_tune_options), NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, 0, MMC_F64, MMC_OP_N, \
        MMC_OP_N, false, NULL, NULL, NULL, NULL                                                  \
  }

typedef struct mmc_tune_report {
  int64_t measurements;      /* measurements of this call, without those of earlier calls */
  int64_t products, decided; /* products of known sizes, each once */
  int64_t calls;             /* how many calls of several products were timed */
  int64_t cut;               /* how many sizes of the range are proven to gain by a cut in two */
  bool complete;             /* false when the budget is spent */
} mmc_tune_report;

/* METHOD. Measures how products run best on this machine and keeps it in the wisdom store: every
 * measurement as soon as it is made, so that the next call takes up where one was stopped or
 * killed. Other work on the machine makes worse choices, not wrong results. report, unless it is
 * NULL, is written on E_INTERRUPTED too. Returns: E_ARG, E_UNSUPPORTED (no such device, no store,
 * no meter), E_INTERRUPTED (progress, decided or timed), E_NOMEM, E_DEVICE, E_IO and E_FORMAT (the
 * store). */
MMC_API mmc_status mmc_tune(mmc_context *context, const mmc_tune_options *options,
                            mmc_tune_report *report);

/* ---- kernels ------------------------------------------------------------------------------ */

/* One variant by which a device computes a product, and what a block of its threads takes of the
 * chip; where a variant has several kernels, those of the largest. What is not known is 0. */
typedef struct mmc_kernel_info {
  const char *name; /* the device's name of it: "cublas sgemm"; lives as long as the context */
  bool available;   /* false when it does not compute this product */
  int64_t registers_per_thread, threads_per_block, shared_bytes_per_block;
} mmc_kernel_info;

/* METHOD. Describes variant number index of a device for the product, whose matrices lie row-major,
 * without gaps; 0 is the device's own choice. device and precision are as in mmc_plan_options.
 * Returns: E_ARG (also past the last one), E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_kernel_describe(mmc_context *context, const char *device,
                                       const char *precision, const mmc_tune_product *product,
                                       int index, mmc_kernel_info *out);

/* ---- teams -------------------------------------------------------------------------------- */

/* Several processes, the ranks of a team, that multiply one chain together: each holds a piece of
 * every matrix, and the plan chooses which (docs/distributed.md). Calls that say collective are
 * made by all ranks in the same order, and return the same status on all of them; the message says
 * which rank failed. A team belongs to one thread at a time, and outlives its plans. */
typedef struct mmc_team mmc_team;

/* An engine of teams, as `mmchain info` shows it. */
typedef struct mmc_engine_info {
  const char *name;      /* "scalapack"; always there */
  char description[480]; /* its libraries */
  bool available;        /* when false, description says what is missing and how to get it */
} mmc_engine_info;

/* METHOD. Describes engine number index, from 0, of this process alone: nothing is started.
 * Returns: E_ARG (also past the last one). */
MMC_API mmc_status mmc_engine_describe(mmc_context *context, int index, mmc_engine_info *out);

/* CONSTRUCTOR. Collective. Joins a team by an engine: "scalapack", which needs the module
 * mmchain-mpi.so and a ScaLAPACK, or what MMCHAIN_SCALAPACK names. communicator is the address of
 * an MPI_Comm, which is duplicated; NULL means all processes that were started together, and then
 * MPI is initialized where it is not, and finalized by mmc_team_close() of the last team that is
 * open. A rank that cannot speak to the others, for want of the module, an engine or an address,
 * fails alone. Returns: E_ARG, E_UNSUPPORTED (no module, no engine; ranks have different versions
 * of mmchain), E_DEVICE, E_NOMEM. */
MMC_API mmc_status mmc_team_open(mmc_context *context, const char *engine, const void *communicator,
                                 mmc_team **out);
/* DESTRUCTOR. Collective. */
MMC_API void mmc_team_close(mmc_team *team);
/* Return the number of this rank, from 0, and how many ranks there are; 0 for NULL. */
MMC_API int mmc_team_rank(const mmc_team *team);
MMC_API int mmc_team_count(const mmc_team *team);
/* METHOD. Copies what the engine is, at most size bytes with a final NUL. Returns text. */
MMC_API char *mmc_team_describe(const mmc_team *team, char *text, size_t size);
/* METHOD. Collective. Copies size bytes, as many on all ranks, of every rank to all, count * size
 * bytes, by rank. Returns: E_ARG, E_DEVICE. */
MMC_API mmc_status mmc_team_gather(mmc_team *team, const void *mine, size_t size, void *all);
/* METHOD. Collective. Returns the status of the first rank whose status is not MMC_OK, after making
 * "rank 2: " and that rank's message the message of every rank's context; MMC_OK when all are
 * fine. message may be NULL. */
MMC_API mmc_status mmc_team_agree(mmc_team *team, mmc_status status, const char *message);

/* METHOD. Collective. Measures what the ranks take for products of dtype, for their memory and for
 * messages, with all of them at work, about a second long; rank 0 keeps it in the wisdom store.
 * Plans for this engine and dtype go by it then, whatever the number of their ranks. Returns:
 * E_ARG, E_UNSUPPORTED (the dtype; no store), E_DEVICE, E_IO, E_FORMAT, E_NOMEM. */
MMC_API mmc_status mmc_team_calibrate(mmc_team *team, mmc_dtype dtype);

typedef enum mmc_spread_kind {
  MMC_SPREAD_ROWS, /* a block of rows a rank */
  MMC_SPREAD_COLS, /* a block of columns a rank */
  MMC_SPREAD_GRID, /* a block of a grid: rank r has the block (r / grid_cols, r % grid_cols) */
  MMC_SPREAD_WHOLE /* every rank has the whole matrix */
} mmc_spread_kind;

/* How a matrix lies on the ranks of a team. Blocks are the matrix divided by the ranks, or by the
 * grid, rounded up: the last ones may be smaller, or empty. */
typedef struct mmc_spread {
  mmc_spread_kind kind;
  int32_t grid_rows, grid_cols; /* for a grid, whose product is the number of ranks */
} mmc_spread;

/* Rows row to row+rows-1 and columns col to col+cols-1 of a matrix. */
typedef struct mmc_piece {
  int64_t row, col, rows, cols;
} mmc_piece;

typedef struct mmc_team_options {
  size_t size;
  const char *engine;  /* for a plan without a team: "scalapack", which NULL means too */
  int32_t ranks;       /* for a plan without a team: how many ranks there would be, 1 to 65536 */
  bool all_ranks;      /* use all ranks even where fewer are predicted to be faster */
  uint64_t rank_bytes; /* bytes that a rank may hold at most, all its pieces among it, or
                          MMC_NO_LIMIT */
  /* What to make least: "time", "energy", or "words", those that ranks send. NULL means "time". */
  const char *objective;
  const char *solver, *order; /* how the order is found, as in mmc_plan_options */
  /* n layouts, of the factors after their ops. NULL means that factors are whole matrices on every
   * rank, as of files that are mapped, of which a rank reads no more than pieces. */
  const mmc_spread *factors;
  const mmc_spread *result; /* the layout of the result; NULL means the plan's choice */
  /* "native", or "reproducible": the bits of mmc_execute(), on any number of ranks, for which no
   * sums of partial products travel. NULL means "native". */
  const char *precision;
  /* What prices go by instead of what was measured or is assumed: real flops of a rank in a second,
   * seconds that a byte travels between two ranks, seconds of a message. All are 0, or none is. */
  double flops_per_s, byte_s, message_s;
} mmc_team_options;
#define MMC_TEAM_OPTIONS_INIT                                                                      \
  {                                                                                                \
    sizeof(mmc_team_options), NULL, 0, false, MMC_NO_LIMIT, NULL, NULL, NULL, NULL, NULL, NULL, 0, \
        0, 0                                                                                       \
  }

/* A plan over ranks: the order, and for every product the layouts, the way in which ranks multiply,
 * and the words that they send. */
typedef struct mmc_team_plan mmc_team_plan;

/* CONSTRUCTOR. Collective where there is a team; a team of NULL plans for options->ranks ranks that
 * need not be there. chain is one of f32, f64, c64 or c128 without a batch and without structure.
 * It is copied; the context and the team must outlive the plan.
 * Returns: as mmc_plan_create(); E_ARG also where ranks do not have the same chain and options;
 * E_MEMORY_LIMIT (the message says what a rank needs). */
MMC_API mmc_status mmc_team_plan_create(mmc_context *context, mmc_team *team,
                                        const mmc_chain *chain, const mmc_team_options *options,
                                        mmc_team_plan **out);
MMC_API void mmc_team_plan_destroy(mmc_team_plan *plan);
/* METHOD. Says what the plan does and why, as MMC_TEXT or MMC_JSON. Returns: E_ARG, E_NOMEM,
 * E_IO. */
MMC_API mmc_status mmc_team_plan_explain(const mmc_team_plan *plan, mmc_format format,
                                         mmc_write_fn write, void *user);
/* Returns the words, elements of matrices, that all ranks send together; exactly these are sent. */
MMC_API mmc_count mmc_team_plan_words(const mmc_team_plan *plan);
/* Returns the seconds that the plan is predicted to take, and the bytes that a rank holds at most,
 * factors and the result among it. A result that is column-major, or has gaps, is held twice.
 */
MMC_API double mmc_team_plan_predicted_seconds(const mmc_team_plan *plan);
MMC_API uint64_t mmc_team_plan_rank_bytes(const mmc_team_plan *plan);
/* METHOD. Writes what rank has of factor number `operand`, from 0, when factors have layouts, or of
 * the result, which is -1. Returns: E_ARG. */
MMC_API mmc_status mmc_team_plan_piece(const mmc_team_plan *plan, int64_t operand, int rank,
                                       mmc_piece *out);
/* METHOD. Collective. Multiplies. Each rank passes its pieces: factors[i] is the stored piece, so
 * that its op makes it the piece of mmc_team_plan_piece(); or the whole stored matrix, where
 * factors have no layouts. out is this rank's piece of the result, which is written, and must not
 * overlap a factor; its data may be NULL when it is empty. All are host memory, without tables of
 * addresses. Returns: E_ARG, E_NOMEM, E_DEVICE, E_UNSUPPORTED. */
MMC_API mmc_status mmc_team_execute(const mmc_team_plan *plan, const mmc_matrix *factors,
                                    const mmc_matrix *out);
/* Looks at a whole result, and returns MMC_OK, or why it must not be kept. */
typedef mmc_status (*mmc_check_fn)(void *user, const mmc_matrix *result);
/* METHOD. Collective. Writes the result, of which each rank passes its piece, row-major without
 * gaps, into one .npy file of ndim dimensions, as mmc_file_write() does: it appears whole or not at
 * all. check, unless NULL, is called on rank 0 with the whole matrix as it lies in the file, before
 * that gets its name; what it returns but MMC_OK drops the file, and is returned on every rank.
 * Returns: E_ARG, E_IO, E_UNSUPPORTED (no .npy), E_NOMEM. */
MMC_API mmc_status mmc_team_write(const mmc_team_plan *plan, const char *name,
                                  const mmc_matrix *piece, int ndim, mmc_check_fn check,
                                  void *user);

/* ---- files -------------------------------------------------------------------------------- */

/* A matrix in a file. The ending of the file's name says the format (mmc_file_format_describe()
 * lists them): .npy, .npz, .safetensors, .h5, .hdf5, .mat, .mtx, in capitals or not; without one of
 * these it is .npy.
 * Files of some formats have members, arrays with names, which follow a colon: "w.npz:w1",
 * "d.h5:/layer/w".
 *
 * Elements are of a dtype of mmchain; a file of others (longdouble, objects) is refused. Where
 * byte order and alignment are the machine's, .npy, .safetensors, members of .npz that are not
 * compressed and datasets of HDF5 in one piece are mapped, not copied; all else is copied into
 * memory. A mapped file must not be cut off while it is open: reading what is gone raises SIGBUS,
 * for which the library has no handler. The command has one, and checks that a file is as it was.
 */
typedef struct mmc_file mmc_file;

/* A format, as `mmchain info` shows it. */
typedef struct mmc_file_format_info {
  const char *name;      /* "hdf5"; always there */
  char extensions[32];   /* ".h5 .hdf5" */
  bool has_members;      /* a name of the file may be followed by a colon and one of a member */
  bool available;        /* when false, description says what is missing */
  char description[256]; /* what the format is, in one line */
} mmc_file_format_info;

/* METHOD. Describes format index, counted from 0. Returns: E_ARG (also past the last one). */
MMC_API mmc_status mmc_file_format_describe(mmc_context *context, int index,
                                            mmc_file_format_info *out);
/* Returns the name of the format that the ending of a name says, and NULL when it says none.
 * *path_length, unless NULL, becomes the bytes of the name that are the file's, without a member.
 */
MMC_API const char *mmc_file_format(const char *name, size_t *path_length);

/* CONSTRUCTOR. Opens a matrix by its name. A member that is not said is the only one in the file.
 * Returns: E_ARG (no such member, or several; the message lists them), E_IO (missing, unreadable),
 * E_FORMAT (damaged, a dtype or number of dimensions that no factor can have; the message says
 * which work), E_UNSUPPORTED (built without the format's library; the message names it), E_NOMEM.
 */
MMC_API mmc_status mmc_file_open(mmc_context *context, const char *path, mmc_file **out);
MMC_API void mmc_file_destroy(mmc_file *file);
MMC_API mmc_dtype mmc_file_dtype(const mmc_file *file);
MMC_API int mmc_file_ndim(const mmc_file *file);             /* 1 to 64 */
MMC_API const int64_t *mmc_file_shape(const mmc_file *file); /* ndim numbers, owned by the file */
/* Returns the matrix as stored, owned by the file and read-only. A 1-D array of length k is 1 x k,
 * row-major. The dimensions before the last two make a stack, in C order, of matrices that follow
 * each other, stride elements apart. */
MMC_API mmc_matrix mmc_file_matrix(const mmc_file *file);

/* Writes matrix, which is on the host, whatever its layout, as the only array of a file in the
 * format of the name: to a temporary file beside it, renamed when complete, so that path holds the
 * old content or the new and never a part. Both are on the disk on return, so that the same holds
 * where the power fails. An ndim of 2 writes a matrix, 1 drops the dimension that is 1, and 0
 * writes a 1 x 1 matrix as a scalar. A member that is not said is called "result". Returns: E_ARG
 * (also what the format cannot hold, and a file with other members, which would be lost),
 * E_UNSUPPORTED, E_IO, E_NOMEM. */
MMC_API mmc_status mmc_file_write(mmc_context *context, const char *name, mmc_dtype dtype,
                                  const mmc_matrix *matrix, int ndim);
/* Writes a matrix as .npy (version 1.0, C order) to a callback. Returns: E_ARG, E_IO (write
 * failed), E_NOMEM. */
MMC_API mmc_status mmc_file_stream(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                                   int ndim, mmc_write_fn write, void *user);
/* Writes a stack as mmc_file_write() writes a matrix: batch matrices one after the other, as an
 * array of ndim dimensions, 0 to 64, whose shape has as many elements as they have together.
 * Returns: what mmc_file_write() does. */
MMC_API mmc_status mmc_file_write_stack(mmc_context *context, const char *name, mmc_dtype dtype,
                                        const mmc_matrix *matrix, int64_t batch, int ndim,
                                        const int64_t *shape);
/* Writes a stack as .npy to a callback. Returns: what mmc_file_stream() does. */
MMC_API mmc_status mmc_file_stream_stack(mmc_context *context, mmc_dtype dtype,
                                         const mmc_matrix *matrix, int64_t batch, int ndim,
                                         const int64_t *shape, mmc_write_fn write, void *user);
/* Writes a stack to a callback in the format of a name, which is not opened. Returns: E_ARG
 * (also what the format cannot hold), E_UNSUPPORTED (the format is not built in), E_IO (write
 * failed), E_NOMEM. */
MMC_API mmc_status mmc_file_stream_as(mmc_context *context, const char *name, mmc_dtype dtype,
                                      const mmc_matrix *matrix, int64_t batch, int ndim,
                                      const int64_t *shape, mmc_write_fn write, void *user);
/* Says, before anything is computed, whether mmc_file_write() would refuse the name.
 * Returns: E_ARG (the file has other members), E_UNSUPPORTED, E_NOMEM. */
MMC_API mmc_status mmc_file_check_output(mmc_context *context, const char *name);

#ifdef __cplusplus
}
#endif

#endif
