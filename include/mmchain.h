/* mmchain.h: multiply a chain of matrices A1*A2*...*An in the cheapest order, and say why.
 *
 * This header is the manual.
 *
 *     mmc_context_create  ->  mmc_chain_parse  ->  mmc_plan_create  ->  mmc_run_create
 *     ->  mmc_execute (many times)  ->  destroy, children before parents
 *
 * Vocabulary: a chain has n factors and n+1 dims; op(A_i) is dims[i-1] x dims[i]. An order is a
 * parenthesization. A product is one multiplication of an m x k by a k x n matrix; it costs mkn
 * multiplications, 2mkn flops. A plan is an order turned into steps, one a product, with a place
 * in memory for every intermediate. A run owns what executing a plan needs.
 *
 * Errors      Fallible calls return mmc_status. *out is written only on MMC_OK. The message of the
 *             last failure is kept on the context: mmc_context_message(). The library never
 *             prints, exits or aborts; errno is not a channel.
 * Ownership   Who creates destroys. Every _destroy(NULL) is a no-op. Matrices stay the caller's.
 * Threads     A context locks itself. Chains, plans and orders are immutable and may be shared by
 *             threads. A run belongs to one thread at a time.
 * Options     An options struct begins with its size and has an _INIT; NULL means the defaults.
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

/* "0.1.0": the version of the library that runs, which may differ from the header's. */
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

/* The text of MMC_STATUS_MAP; "unknown status" for other values. Never NULL. */
MMC_API const char *mmc_status_string(mmc_status status);

/* ---- callbacks ---------------------------------------------------------------------------- */

/* Takes size bytes of output; returns 0, or anything else to stop with MMC_E_IO. */
typedef int (*mmc_write_fn)(void *user, const char *bytes, size_t size);

/* Puts at most size bytes of input into bytes and returns how many; 0 at its end, less than 0 to
 * stop with MMC_E_IO. */
typedef ptrdiff_t (*mmc_read_fn)(void *user, char *bytes, size_t size);

/* Told the share of the work done, 0 to 1, several times a second from the calling thread;
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
/* The nearest double. */
MMC_API double mmc_count_to_double(mmc_count count);

/* ---- context ------------------------------------------------------------------------------ */

/* Holds the devices that are there, the wisdom store and the message of the last failure. */
typedef struct mmc_context mmc_context;

typedef struct mmc_context_options {
  size_t size;
  const char *module_dir;  /* where mmchain-*.so lie; NULL: MMCHAIN_MODULE_DIR, else beside us */
  const char *wisdom_path; /* the wisdom store; "": none; NULL: MMCHAIN_WISDOM, else
                              mmchain/wisdom.db under XDG_CACHE_HOME, else under ~/.cache */
} mmc_context_options;
#define MMC_CONTEXT_OPTIONS_INIT \
  { sizeof(mmc_context_options), NULL, NULL }

/* CONSTRUCTOR. Opens no device and no store: each is opened when first asked for.
 * Returns: E_ARG, E_NOMEM. */
MMC_API mmc_status mmc_context_create(const mmc_context_options *options, mmc_context **out);
/* DESTRUCTOR. Its chains, plans, runs, orders and files must be gone. */
MMC_API void mmc_context_destroy(mmc_context *context);
/* METHOD. Copies the message of the last call on this context that failed, cut to size, with a
 * final NUL; "" when none has. Returns text. */
MMC_API char *mmc_context_message(mmc_context *context, char *text, size_t size);

/* One device as `mmchain info` shows it. Strings live as long as the context. */
typedef struct mmc_device_info {
  const char *name;        /* as options and the command spell it: "blas", "ref", "cuda:0" */
  const char *description; /* "OpenBLAS 0.3.21 ..., 2 threads" */
  bool available;          /* false: description says what is missing and how to get it */
} mmc_device_info;

/* METHOD. Describes device number index, from 0. Returns: E_ARG past the last, E_NOMEM. */
MMC_API mmc_status mmc_device_describe(mmc_context *context, int index, mmc_device_info *out);

/* ---- matrices ----------------------------------------------------------------------------- */

typedef enum mmc_dtype {
  MMC_F32,
  MMC_F64,
  MMC_C64,
  MMC_C128,
  MMC_F16, /* IEEE binary16; sums in f32, intermediates rounded to f16 */
  MMC_BF16 /* the upper half of an f32; likewise */
} mmc_dtype;
typedef enum mmc_op { MMC_OP_N, MMC_OP_T, MMC_OP_H } mmc_op; /* as is, transposed, conjugated too */
typedef enum mmc_layout { MMC_ROW_MAJOR, MMC_COL_MAJOR } mmc_layout;
typedef enum mmc_location {
  MMC_HOST,
  MMC_DEVICE /* memory of the device that the plan is for; for "blas" and "ref" that is the host */
} mmc_location;

/* "f32", "f64", "c64", "c128", "f16", "bf16"; NULL for other values. */
MMC_API const char *mmc_dtype_name(mmc_dtype dtype);
/* Bytes an element takes: 4, 8, 8, 16, 2, 2; 0 for other values. */
MMC_API size_t mmc_dtype_size(mmc_dtype dtype);

/* A dense matrix as it lies in memory, before any op. Element (r, c) is
 *     data[r * ld + c] (row-major)   or   data[c * ld + r] (column-major).
 * ld is the leading dimension in elements, at least cols (rows); 0 means just that. data must be
 * aligned to the real type, and may be NULL when rows or cols is 0.
 *
 * For a batch of chains it stands for as many matrices, all of that shape and ld: matrix i begins
 * i * stride elements after data (a factor with stride 0 is shared by all chains), or at
 * addresses[i] where addresses is not NULL; that table itself is host memory, wherever the matrices
 * are, and is not looked at any more when the call that was given it has returned. */
typedef struct mmc_matrix {
  void *data;
  int64_t rows, cols, ld;
  mmc_layout layout;
  mmc_location location; /* 0: MMC_HOST */
  int64_t stride;
  void *const *addresses;
} mmc_matrix;

/* Makes matrix, whose data is the first one, stand for a batch that is a stack of ndim axes, the
 * last of which runs fastest: a step along axis d moves strides[d] elements, 0 where the stack is
 * repeated along it, as in NumPy's broadcasting. Sets stride where that says it; else fills
 * addresses, which holds as many as the batch has matrices, and points matrix to it. Returns false
 * when addresses is NULL and needed, and for a negative ndim or shape. */
MMC_API bool mmc_matrix_stack(mmc_matrix *matrix, mmc_dtype dtype, int ndim, const int64_t *shape,
                              const int64_t *strides, void **addresses);

/* ---- chain -------------------------------------------------------------------------------- */

/* One product of n factors, or a batch of as many as there are matrices of each. */
typedef struct mmc_chain mmc_chain;

/* CONSTRUCTOR. A chain of n >= 1 factors: op(A_i) is dims[i-1] x dims[i], so dims holds n+1
 * numbers, each 0 <= dim <= 2^62. ops holds n, or is NULL for none. Both are copied.
 * Returns: E_ARG, E_NOMEM. context may be NULL: then the message is lost. */
MMC_API mmc_status mmc_chain_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                                    const int64_t *dims, const mmc_op *ops, mmc_chain **out);
typedef struct mmc_chain_options {
  size_t size;
  int64_t batch; /* chains of these dims and ops that are multiplied together, 0 to 2^62 */
  /* n numbers: same[i] is the first factor that is the same matrix with the same op as factor i,
   * i itself when none is; then these must be one matrix in executions. NULL: unknown. Copied. */
  const int64_t *same;
} mmc_chain_options;
#define MMC_CHAIN_OPTIONS_INIT \
  { sizeof(mmc_chain_options), 1, NULL }

/* CONSTRUCTOR. The same for a batch of chains, or for factors that repeat. */
MMC_API mmc_status mmc_chain_create_batch(mmc_context *context, mmc_dtype dtype, int64_t n,
                                          const int64_t *dims, const mmc_op *ops,
                                          const mmc_chain_options *options, mmc_chain **out);
/* CONSTRUCTOR. The text form, as everywhere in mmchain:
 *     [dtype:]p0xp1x...xpn[@batch][:ops]      f64:10x30x5x60   c64:8x9x7:NH   f32:4x4x4@10000
 * dtype is f64 when left out; batch is 1; ops is one letter a factor: N, T or H. Factors that
 * repeat: ^ behind a square one says how often that matrix stands there, 64x64^1000, which has one
 * letter; and =numbers at the end say of each factor that is written which, counted from 1, is the
 * first that is the same matrix: f64:8x9x8x9x8=1,2,1,2.
 * A text with ^ has at most 131072 factors; mmc_chain_create_batch() takes more.
 * Returns: E_ARG with the position and what was expected, E_NOMEM. context may be NULL. */
MMC_API mmc_status mmc_chain_parse(mmc_context *context, const char *text, mmc_chain **out);
MMC_API void mmc_chain_destroy(mmc_chain *chain);

MMC_API mmc_dtype mmc_chain_dtype(const mmc_chain *chain);
MMC_API int64_t mmc_chain_length(const mmc_chain *chain);      /* n, the number of factors */
MMC_API const int64_t *mmc_chain_dims(const mmc_chain *chain); /* n+1 numbers, the chain's */
MMC_API const mmc_op *mmc_chain_ops(const mmc_chain *chain);   /* n ops, the chain's */
MMC_API int64_t mmc_chain_batch(const mmc_chain *chain);       /* how many chains */
/* The first factor that is known to be the same matrix as factor i, 0 <= i < n; i itself for most.
 */
MMC_API int64_t mmc_chain_same(const mmc_chain *chain, int64_t i);
/* Writes the text form, which mmc_chain_parse() reads back. Returns: E_IO. */
MMC_API mmc_status mmc_chain_write(const mmc_chain *chain, mmc_write_fn write, void *user);

/* ---- plan --------------------------------------------------------------------------------- */

typedef struct mmc_plan mmc_plan;

#define MMC_NO_LIMIT UINT64_MAX
/* The poster's: 256 KiB of single precision, the registers of a GPU's multiprocessor. */
#define MMC_ON_CHIP_WORDS 65536

typedef struct mmc_plan_options {
  size_t size;
  /* How the order is found: "auto", "hu-shing", "table", "brute" (n <= 12), "left-to-right".
   * All but the last find the order of fewest multiplications, the same one where several tie: see
   * mmc_order_create(). "auto" also computes once what repeats, where the chain says which factors
   * are the same matrix and that takes fewer: A^1000 is some 14 products. NULL: "auto". */
  const char *solver;
  /* "cpu" (the best there is), "blas", "ref", "cuda" or "cuda:i"; NULL: "cpu". */
  const char *device;
  /* Workspace allowed, apart from factors and result. Of a batch, fewer chains are multiplied at a
   * time to keep within it. What products on a device hold for themselves counts; where there is no
   * room for that, precision is "native". */
  uint64_t memory_limit_bytes;
  /* What to make least: "flops"; "traffic", see fuse; "time" as predicted, from what mmc_tune() has
   * measured on this device, else from a model: docs/tuning.md. Of time, solver "auto" chooses the
   * order too, for at most 64 factors, and leaves that of fewest multiplications only for one that
   * is surely faster; on a device that takes several products as one call it tries trees that keep
   * all of it at work, for any number of factors, and where such calls were measured others. With
   * another solver only how each product is computed is chosen. "energy", joules as measured by
   * mmc_tune() or from a model, else the same: order, ways to compute the products and, of those no
   * less exact than precision, the precision; that of the plan for time is left only for a choice
   * of surely fewer joules. docs/energy.md. NULL: "flops". */
  const char *objective;
  /* "native": the arithmetic of the dtype. "faithful": other arithmetic where it is at least as
   * accurate: large f32 products on a Hopper GPU go by tensor cores (docs/faithful.md). "fast":
   * TF32 for f32 and c64 on a GPU. NULL: "native". */
  const char *precision;
  /* Where factors and result will be, for what must fit into the device's memory: executing with
   * others works too. */
  mmc_location location;
  uint64_t device_memory_bytes; /* of the device's memory, what the plan may use at most */
  /* For objective "traffic", least words moved between off-chip and on-chip memory:
   * docs/traffic.md. Which products share a kernel: "none"; "exact", the best for the order of
   * fewest multiplications; "poster", the same as the TEE-ACM2 poster prices it; "joint", the best
   * of all orders, n <= 200. NULL: "exact". A pair that the device takes as one call, and that is
   * predicted to be faster so, is executed so; others are fused in the cost only. */
  const char *fuse;
  int64_t on_chip_words; /* that the chip holds; 0: MMC_ON_CHIP_WORDS */
  /* For objective "energy", at most so many times the predicted seconds of the plan for time; from
   * 1, 0: no bound. */
  double max_slowdown;
  /* To measure kernels, with objectives "flops" and "traffic": every product by the device's first
   * way whose kernel's name begins so, "large_tile" or "cublaslt 2" (see mmc_kernel_describe()), by
   * a call of its own; "": by the device's own choice. Where a product has no such way, pairs of
   * products as one call, wherever the device takes them by a kernel of that name, whatever that is
   * predicted to take. NULL: as the objective says. */
  const char *kernel;
} mmc_plan_options;
#define MMC_PLAN_OPTIONS_INIT                                                                     \
  {                                                                                               \
    sizeof(mmc_plan_options), NULL, NULL, MMC_NO_LIMIT, NULL, NULL, MMC_HOST, MMC_NO_LIMIT, NULL, \
        0, 0, NULL                                                                                \
  }

/* CONSTRUCTOR. Plans the chain: the order, the sequence of products, a place for every
 * intermediate. The chain is copied; the context must outlive the plan.
 * Cost:    O(n log n). A memory limit that turns the best order down costs O(n^3) and more, fuse
 *          "joint" O(n^4).
 * Returns: E_ARG, E_NOMEM, E_UNSUPPORTED (no such device or kernel here), E_OVERFLOW (the count of
 *          multiplications exceeds 128 bits, or an intermediate the address space),
 *          E_MEMORY_LIMIT (the message says what the leanest order needs), E_DEVICE. */
MMC_API mmc_status mmc_plan_create(mmc_context *context, const mmc_chain *chain,
                                   const mmc_plan_options *options, mmc_plan **out);
MMC_API void mmc_plan_destroy(mmc_plan *plan);

typedef enum mmc_format {
  MMC_TEXT, /* for people */
  MMC_JSON, /* one object, members as in docs/json.md */
  MMC_DOT   /* the graph of the steps, for Graphviz */
} mmc_format;

/* METHOD. Says what the plan does and why. Returns: E_ARG, E_NOMEM, E_IO. */
MMC_API mmc_status mmc_plan_explain(const mmc_plan *plan, mmc_format format, mmc_write_fn write,
                                    void *user);

/* Of all chains of a batch together. */
MMC_API mmc_count mmc_plan_multiplications(const mmc_plan *plan);
/* Bytes that a run of the plan holds for intermediates. */
MMC_API uint64_t mmc_plan_workspace_bytes(const mmc_plan *plan);
/* The device that will execute it: "blas". */
MMC_API const char *mmc_plan_device(const mmc_plan *plan);

/* One step of a plan: C = left * right. An operand is a factor (0 <= x < n) or the result of an
 * earlier step (x - n, counted in steps). The last step writes the result. */
typedef struct mmc_step {
  int64_t m, k, n;
  int64_t left, right;
  int64_t first, last; /* the product of factors first..last, counted from 0, and of all like it */
} mmc_step;

/* A plan of n factors has n-1 steps, in the order in which they run; fewer when what repeats is
 * computed once and read several times, then a factor is the first of those that are the same
 * matrix. Several steps may run as one call of the device: mmc_plan_explain() says which. */
MMC_API int64_t mmc_plan_step_count(const mmc_plan *plan);
/* Returns: E_ARG past the last. */
MMC_API mmc_status mmc_plan_step(const mmc_plan *plan, int64_t index, mmc_step *out);
/* The device's name of the kernel that computes step index: "cublas sgemm"; "" past the last. Lives
 * as long as the context. */
MMC_API const char *mmc_plan_step_kernel(const mmc_plan *plan, int64_t index);

typedef enum mmc_fusion { MMC_FUSION_NONE, MMC_FUSION_LEFT, MMC_FUSION_RIGHT } mmc_fusion;

/* The words that step index of a plan for "traffic" moves, and what it was chosen from. */
typedef struct mmc_step_traffic {
  mmc_fusion fusion; /* of its kernel: with its left or right operand, or as that of its partner */
  int64_t partner; /* the step in the same kernel, -1: none; of the two the later one is charged */
  int64_t tile[2]; /* rows and columns that the kernel keeps on chip; 0 when it moves nothing */
  mmc_count words; /* of the kernel, its result's write included; they add up to the plan's */
  /* The choice that OP_DM_Fuse had at this product, whether the plan uses it or, because it is the
   * partner of a later step, not. By mmc_fusion: the words of the whole sub-chain without the
   * write of its result; possible is false where the operand is a factor (or
   * the words exceed 128 bits). */
  mmc_count choices[3];
  bool possible[3];
  mmc_fusion chosen;
  int64_t chosen_tile[2];
} mmc_step_traffic;

/* All words that a plan for "traffic" moves, of a batch for each chain; 0 for other objectives. */
MMC_API mmc_count mmc_plan_traffic_words(const mmc_plan *plan);
/* Returns: E_ARG past the last step and when the plan is not for "traffic". */
MMC_API mmc_status mmc_plan_step_traffic(const mmc_plan *plan, int64_t index,
                                         mmc_step_traffic *out);

/* What a plan for "time" or "energy" is predicted to take; NaN for other objectives. */
MMC_API double mmc_plan_predicted_seconds(const mmc_plan *plan);

enum { MMC_SPLIT_SIZE = 256 };

/* How step index of a plan for "time" or "energy" is computed, and why. */
typedef struct mmc_step_time {
  double predicted_s;
  char split[MMC_SPLIT_SIZE]; /* the parts, as docs/tuning.md spells them; "": one plain call */
  /* "measured": this very product, on this machine. "array": interpolated between measurements.
   * "model": a roofline that was calibrated here; "model, not calibrated": one that was assumed. */
  const char *source;
} mmc_step_time;

/* Returns: E_ARG past the last step and when the plan is for neither. */
MMC_API mmc_status mmc_plan_step_time(const mmc_plan *plan, int64_t index, mmc_step_time *out);

/* Joules that a plan for "energy" is predicted to take; NaN for other objectives. */
MMC_API double mmc_plan_predicted_joules(const mmc_plan *plan);

/* The joules of step index of a plan for "energy". */
typedef struct mmc_step_energy {
  double predicted_j;
  /* "measured": this very product, on this machine. "model": static power, joules a flop and a
   * byte, fitted here; "model, not calibrated": assumed. */
  const char *source;
} mmc_step_energy;

/* Returns: E_ARG past the last step and when the plan is not for "energy". */
MMC_API mmc_status mmc_plan_step_energy(const mmc_plan *plan, int64_t index, mmc_step_energy *out);

/* ---- run ---------------------------------------------------------------------------------- */

typedef struct mmc_run mmc_run;

/* CONSTRUCTOR. Takes the workspace and prepares every step. The plan must outlive the run.
 * Returns: E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_run_create(const mmc_plan *plan, mmc_run **out);
MMC_API void mmc_run_destroy(mmc_run *run);

/* METHOD. out = op(factors[0]) * ... * op(factors[n-1]), complete on return.
 * factors: n matrices as stored, so factor i is dims[i] x dims[i+1] when its op is N and
 *          dims[i+1] x dims[i] when it is T or H; any layout and ld; read where they lie, never
 *          copied or transposed, but for those on the host when the device has memory of its own.
 *          The same matrix may be given several times.
 * out:     dims[0] x dims[n], any layout and ld; must not overlap a factor. Elements between the
 *          rows (columns) of an ld are left alone. NaN and Inf pass through as in IEEE arithmetic.
 * Of a batch, each matrix stands for as many (see mmc_matrix), results apart from each other, their
 * stride in size no less than what one extends over. Chains have nothing to do with each other: one
 * that holds NaN does not touch its neighbours. A batch of 0 does nothing. Returns: E_ARG (the
 * message names the factor), E_DEVICE, E_NOMEM. Allocates nothing when the matrices lie as in the
 * execution before. */
MMC_API mmc_status mmc_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out);

/* METHOD. As mmc_execute(), ordered like a kernel on the caller's stream, a cudaStream_t (NULL is
 * CUDA's default stream), and without waiting when all matrices are on the device. Other devices
 * ignore the stream and wait.
 * Executions of one run follow each other on whatever streams they are. Executed again with the
 * same matrices on a device, the whole chain is one CUDA graph launch. The run must not be
 * destroyed before the work is done. */
MMC_API mmc_status mmc_enqueue(mmc_run *run, void *stream, const mmc_matrix *factors,
                               const mmc_matrix *out);

/* METHOD. Waits until what mmc_enqueue() was given is done. Returns: E_DEVICE. */
MMC_API mmc_status mmc_wait(mmc_run *run);

/* ---- memory of a device -----------------------------------------------------------------------
 */

/* For factors and results with location MMC_DEVICE, where the caller has no other means to allocate
 * there; on "blas" and "ref" it is host memory. */
typedef struct mmc_memory mmc_memory;

/* CONSTRUCTOR. size_bytes of uninitialised memory of a device, named as in mmc_plan_options. The
 * context must outlive it. Returns: E_ARG, E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_memory_create(mmc_context *context, const char *device, size_t size_bytes,
                                     mmc_memory **out);
MMC_API void mmc_memory_destroy(mmc_memory *memory);
/* Where it begins, as mmc_matrix wants it; aligned to 64 bytes at least. */
MMC_API void *mmc_memory_address(const mmc_memory *memory);
/* METHODS. Copy size bytes to offset from the host, and back; done on return.
 * Returns: E_ARG (beyond the end), E_DEVICE. */
MMC_API mmc_status mmc_memory_write(mmc_memory *memory, size_t offset, const void *from,
                                    size_t size);
MMC_API mmc_status mmc_memory_read(mmc_memory *memory, size_t offset, void *to, size_t size);

/* ---- order: the ordering problem itself ------------------------------------------------------ */

/* A parenthesization of n factors and its cost, at any n; no matrices involved. */
typedef struct mmc_order mmc_order;

/* The price of multiplying (factors i..k-1) by (factors k..j-1), that is dims[i] x dims[k] by
 * dims[k] x dims[j]; 0 <= i < k < j <= n. Must be >= 0, may be infinite, must depend on i, k, j
 * alone, and is called from several threads at once. The price of an order is the sum. */
typedef double (*mmc_price_fn)(void *user, int64_t i, int64_t k, int64_t j);

typedef struct mmc_order_options {
  size_t size;
  const char *solver;    /* as in mmc_plan_options */
  const char *device;    /* "cpu"; "cuda" or "cuda:i" for solver "table" */
  const char *kernel;    /* "table" on CUDA: "auto", "tiled", "thread", "block", "blocks",
                            "paper"; on the CPU: "auto", "avx512", "avx2", "portable" */
  int threads;           /* CPU threads; 0: as many as cores */
  int threads_per_block; /* kernels thread, block, blocks: 32, 64, 128 or 256; 0: the fastest */
  int blocks_per_entry;  /* kernel blocks: 2, 4, 8 or 16; 0: the fastest */
  mmc_price_fn price;    /* NULL: multiplications. Otherwise solver "table" on the CPU */
  void *price_user;
  bool keep_table;          /* keep m and s for mmc_order_entry() */
  mmc_progress_fn progress; /* NULL: none */
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
 * Solvers: "hu-shing" O(n log n) time and O(n) memory (Hu and Shing 1982, 1984);
 *          "table" O(n^3) time, about 4n^2 bytes (Godbole 1973), blocked and threaded, or on CUDA;
 *          "brute" every order, n <= 12. "auto": hu-shing when it applies, else table.
 * Ties:    every solver returns the same order. Let K be the splits k of a sub-chain dims[i..j]
 *          that cost the same and L the position of the least dim among i, j and K (the leftmost
 *          of equals). The split is L when it is in K, the greatest in K when L is i, the least
 *          when L is j. So equal dims are multiplied left to right. docs/order.md says why.
 * dims:    n+1 numbers, 0 <= dim <= 2^62; 1 <= n < 2^30.
 * Returns: E_ARG, E_NOMEM, E_OVERFLOW (fewest multiplications >= 2^128 - 1), E_UNSUPPORTED,
 *          E_DEVICE, E_INTERRUPTED. */
MMC_API mmc_status mmc_order_create(mmc_context *context, int64_t n, const int64_t *dims,
                                    const mmc_order_options *options, mmc_order **out);
MMC_API void mmc_order_destroy(mmc_order *order);

MMC_API int64_t mmc_order_length(const mmc_order *order);            /* n */
MMC_API mmc_count mmc_order_multiplications(const mmc_order *order); /* of this order */
MMC_API double mmc_order_price(const mmc_order *order);              /* with options.price */
MMC_API double mmc_order_seconds(const mmc_order *order);            /* solving took */
MMC_API const char *mmc_order_solver(const mmc_order *order);        /* that ran: "hu-shing" */
MMC_API const char *mmc_order_device(const mmc_order *order);        /* "cpu", "cuda:0" */
MMC_API const char *mmc_order_kernel(const mmc_order *order);        /* "avx2", "tiled"; "" */

/* Product t, 0 <= t < n-1, children before parents: factors first..split-1 by split..last, counted
 * from 0. Returns: E_ARG past the last. */
MMC_API mmc_status mmc_order_product(const mmc_order *order, int64_t t, int64_t *first,
                                     int64_t *split, int64_t *last);
/* Entry of the tables m and s of Nishida, Ito and Nakano (2011) for factors i..j, 1 <= i <= j <= n:
 * m is the fewest multiplications, s the first factor of the right part (0 when i = j).
 * Returns: E_ARG, E_UNSUPPORTED when solved without keep_table. */
MMC_API mmc_status mmc_order_entry(const mmc_order *order, int64_t i, int64_t j, mmc_count *m,
                                   int64_t *s);

typedef enum mmc_order_format {
  MMC_ORDER_TEXT,  /* ((A1 (A2 A3)) A4) */
  MMC_ORDER_JSON,  /* [[1, [2, 3]], 4] */
  MMC_ORDER_BINARY /* "MMCORDER", then little-endian: uint32 version 1, uint32 0, uint64 n,
                      n-1 pairs of uint32 (left, right), children before parents: a number below n
                      is a factor, n + t the result of product t */
} mmc_order_format;
/* Returns: E_ARG, E_NOMEM, E_IO. */
MMC_API mmc_status mmc_order_write(const mmc_order *order, mmc_order_format format,
                                   mmc_write_fn write, void *user);

/* ---- energy -------------------------------------------------------------------------------- */

/* One meter as `mmchain info` shows it. */
typedef struct mmc_meter_info {
  char name[32];         /* as mmc_meter_open() and the command spell it: "rapl", "nvml:0" */
  char description[480]; /* what it reads */
  bool available;        /* false: description says what is missing and how to get it */
} mmc_meter_info;

/* METHOD. Describes meter number index, from 0. Returns: E_ARG past the last, E_NOMEM. */
MMC_API mmc_status mmc_meter_describe(mmc_context *context, int index, mmc_meter_info *out);

typedef struct mmc_meter mmc_meter;

/* CONSTRUCTOR. The meter of a device, by the device's name or the meter's own:
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
  double idle_s; /* idle power is measured so long before the work; 0: not at all */
  /* A run of the work, or the enqueueing of one; called again and again, from the calling thread.
   * Returns 0, or anything else to stop. NULL: only idle power is measured. */
  int (*work)(void *user);
  /* Returns once all that work has enqueued is done: 0, or anything else to stop. NULL: runs are
   * done when work returns. */
  int (*wait)(void *user);
  void *user;
} mmc_energy_options;
#define MMC_ENERGY_OPTIONS_INIT \
  { sizeof(mmc_energy_options), 2, 0.5, 1, NULL, NULL, NULL }

/* What is not known is NaN, never 0. Power is told with its least and its most over slices of a
 * quarter of a second. */
typedef struct mmc_energy {
  bool measured;    /* false: reason says why not */
  char reason[480]; /* "" when measured */
  char meter[16];   /* "rapl", "nvml", "replay", "none" */
  double joules;    /* of one run, idle power included */
  double seconds;   /* of one run, in the window */
  double watts, watts_min, watts_max;
  double idle_watts, idle_watts_min, idle_watts_max;
  double window_s;   /* from tick to tick of the energy counter */
  double runs;       /* in the window, the first and the last by the part of them within */
  int64_t ticks;     /* steps of the counter in the window */
  double tick_error; /* the most, relative, that joules and watts are off by when ticks were seen */
  double crosscheck; /* mean of the power as sampled over that by the counter, less 1 */
  double sm_mhz_min, sm_mhz_median, sm_mhz_max;
  double memory_mhz_min, memory_mhz_median, memory_mhz_max;
  double celsius_max;
  char throttle[160]; /* why clocks were held back: "power cap, thermal", "none", "unknown" */
} mmc_energy;

/* METHOD. Measures what a run of the work takes: idle power, then the work again and again, warming
 * up, then from the first tick of the meter's counter to the first after min_s. Meanwhile the meter
 * is read every few milliseconds in a thread of its own, so that long runs do not blur the ticks.
 * A machine that cannot measure is no failure: see out->measured.
 * Returns: E_ARG, E_INTERRUPTED (work or wait has stopped it; the context's message is left alone),
 *          E_NOMEM. */
MMC_API mmc_status mmc_meter_measure(mmc_meter *meter, const mmc_energy_options *options,
                                     mmc_energy *out);
/* ---- wisdom ------------------------------------------------------------------------------- */

/* What was measured on a machine, kept in one file for the next run: how single products run best,
 * efficiency arrays, calibrated facts, and how far tuning is. Each entry belongs to a fingerprint:
 * device, model, driver, BLAS, version of mmchain, dtype, precision. Those of other fingerprints
 * are kept, shown and exported, and never used. docs/wisdom.md describes the file and the text
 * form.
 *
 * Several processes may use one store at once. What is damaged is passed over; a corrupt file is
 * renamed to PATH.corrupt-N by the next call that uses it, which begins a new one with the entries
 * that can still be read. Without SQLite there is no store. All return E_UNSUPPORTED (there is no
 * store, the message says why), E_FORMAT (the file is no store of this version of mmchain, or
 * corrupt), E_IO (it cannot be read or written, or another process held it too long), E_NOMEM. A
 * file that is not there is an empty store. Callbacks must not use the context. */

/* The store as `mmchain info` shows it. */
typedef struct mmc_wisdom_info {
  const char *path;      /* lives as long as the context; "" when there is no store */
  bool available;        /* false: description says what is wrong */
  int64_t entries;       /* of this machine's fingerprints */
  int64_t foreign;       /* of others */
  int64_t damaged;       /* passed over */
  char description[512]; /* one line */
  char notice[512];      /* a file that was corrupt and is now called otherwise; "" usually */
} mmc_wisdom_info;

/* METHOD. What is wrong with the store is no failure here. Returns: E_ARG, E_NOMEM. */
MMC_API mmc_status mmc_wisdom_describe(mmc_context *context, mmc_wisdom_info *out);
/* METHOD. Copies what has become of a corrupt file in calls on this context, cut to size, with a
 * final NUL; "" usually. Opens no file. Returns text. */
MMC_API char *mmc_wisdom_notice(mmc_context *context, char *text, size_t size);
/* METHOD. Lists the store: MMC_TEXT for people, MMC_JSON one object. Also E_ARG. */
MMC_API mmc_status mmc_wisdom_write(mmc_context *context, mmc_format format, mmc_write_fn write,
                                    void *user);
/* METHOD. Writes the text form of the whole store; the same entries give the same bytes. */
MMC_API mmc_status mmc_wisdom_export(mmc_context *context, mmc_write_fn write, void *user);
/* METHOD. Adds the entries of a text form: all, or none on failure. Of two with one key the later
 * measured stays, of equals the imported. E_FORMAT names the line. */
MMC_API mmc_status mmc_wisdom_import(mmc_context *context, mmc_read_fn read, void *user);

/* Which entries to forget: those that fit every field. */
typedef struct mmc_wisdom_filter {
  size_t size;
  const char *device; /* as in fingerprints: "blas", "cuda"; NULL: any */
  const char *dtype;  /* "f32"; NULL: any */
  bool foreign;       /* only those of other fingerprints than this machine's */
  bool progress;      /* only how far tuning is: it starts over, what it found stays */
} mmc_wisdom_filter;
#define MMC_WISDOM_FILTER_INIT \
  { sizeof(mmc_wisdom_filter), NULL, NULL, false, false }

/* METHOD. Deletes entries; filter NULL: all. count, unless NULL: how many. Also E_ARG. */
MMC_API mmc_status mmc_wisdom_forget(mmc_context *context, const mmc_wisdom_filter *filter,
                                     int64_t *count);

/* ---- tune --------------------------------------------------------------------------------- */

/* One product: op(A) op(B) is m x k by k x n, all of them from 1. */
typedef struct mmc_tune_product {
  mmc_dtype dtype;
  int64_t m, k, n;
  mmc_op op_a, op_b;
} mmc_tune_product;

/* What was decided of a product. */
typedef struct mmc_tuned {
  mmc_tune_product product;
  const char *recipe; /* "whole" for the plain call, else as docs/tuning.md spells it */
  double plain_s, seconds;
  double gain, gain_low, gain_high; /* plain seconds by seconds, and its bounds; 1 for plain */
  /* For objective "energy", else NaN; then the gain is of joules. */
  double plain_joules, joules;
} mmc_tuned;

/* What several products were measured to take as one call of the device, or a batch of one. */
typedef struct mmc_timed {
  const char *call; /* "call NNN 10x30x5:0*1 10x5x60:3*2 @1", as docs/wisdom.md spells it */
  mmc_dtype dtype;
  double seconds, low, high; /* and its bounds */
} mmc_timed;

typedef struct mmc_tune_options {
  size_t size;
  const char *device;    /* as in mmc_plan_options */
  const char *precision; /* likewise */
  /* "time"; "energy": joules too, of known sizes, by windows of two seconds each, and the facts of
   * energy's model. NULL: "time". */
  const char *objective;
  const char *meter; /* for objective "energy", as mmc_meter_open() names it; NULL: the device's */
  double budget_s;   /* to measure, all together; 0: as long as it takes */
  /* What to tune; any of them. Known sizes: the products of these chains, of which those of up to
   * 6 factors have all that any order needs and others those of the fewest multiplications, with
   * the calls that a device takes several of them as, and of a batch the products of all; and these
   * products. */
  const mmc_chain *const *chains;
  int64_t chain_count;
  const mmc_tune_product *products;
  int64_t product_count;
  /* The efficiency array of all sizes up to range, 0: none, of this dtype and these ops. */
  int64_t range;
  mmc_dtype dtype;
  mmc_op op_a, op_b;
  /* The facts of the model, which are measured in any case where they are not known: by itself for
   * dtype. */
  bool calibrate;
  /* All with user; they must not use the context. progress is told, before every measurement, the
   * share done of all that is asked for, what earlier calls did included, which never falls and is
   * less than 1, and the seconds left of this call: estimates, infinite where nothing is known.
   * decided is told of every product, for time when all of a dtype are: what was chosen for one is
   * measured again after the others. All return 0, or anything else to stop. NULL: none. */
  int (*progress)(void *user, double done, double left_s);
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
  int64_t measurements;      /* made now: what an earlier call has measured is not made again */
  int64_t products, decided; /* of known sizes, each once */
  int64_t calls;             /* whose seconds are known */
  int64_t cut;               /* sizes of the range that are cut in two, proven */
  bool complete;             /* false: the budget is spent */
} mmc_tune_report;

/* METHOD. Measures how products run best on this machine and keeps it in the wisdom store: every
 * measurement as soon as it is made, so that a call that was stopped or killed is taken up by the
 * next. Other work on the machine makes worse choices, not wrong results. report, unless NULL, is
 * written on E_INTERRUPTED too.
 * Returns: E_ARG, E_UNSUPPORTED (no such device, no store, no meter), E_INTERRUPTED (progress,
 *          decided or timed), E_NOMEM, E_DEVICE, E_IO and E_FORMAT (the store). */
MMC_API mmc_status mmc_tune(mmc_context *context, const mmc_tune_options *options,
                            mmc_tune_report *report);

/* ---- kernels ------------------------------------------------------------------------------ */

/* One way of a device to compute a product, and what a block of its threads takes of the chip; of a
 * way of several kernels, the largest of them. What is not known is 0. */
typedef struct mmc_kernel_info {
  const char *name; /* as the device calls it: "cublas sgemm"; lives as long as the context */
  bool available;   /* false: not for this product */
  int64_t registers_per_thread, threads_per_block, shared_bytes_per_block;
} mmc_kernel_info;

/* METHOD. Describes way number index of a device to compute the product, whose matrices lie
 * row-major, without gaps; 0 is the device's own choice. device and precision as in
 * mmc_plan_options. Returns: E_ARG (past the last, too), E_UNSUPPORTED, E_NOMEM, E_DEVICE. */
MMC_API mmc_status mmc_kernel_describe(mmc_context *context, const char *device,
                                       const char *precision, const mmc_tune_product *product,
                                       int index, mmc_kernel_info *out);

/* ---- files -------------------------------------------------------------------------------- */

/* A matrix read from an .npy file (NumPy format versions 1 to 3, C or Fortran order, either byte
 * order; float16, float32, float64, complex64, complex128; one dimension or more). Mapped, not
 * copied, when its byte order and alignment are the machine's; a stack in Fortran order is copied.
 * A mapped file must not be cut off while it is open: reading what is gone raises SIGBUS, for which
 * the library has no handler. The command has one, and checks that a file is as it was. */
typedef struct mmc_file mmc_file;

/* CONSTRUCTOR. Returns: E_IO (missing, unreadable), E_FORMAT (not npy, truncated, a dtype or number
 * of dimensions that no factor can have; the message says which work), E_NOMEM. */
MMC_API mmc_status mmc_file_open(mmc_context *context, const char *path, mmc_file **out);
MMC_API void mmc_file_destroy(mmc_file *file);
MMC_API mmc_dtype mmc_file_dtype(const mmc_file *file);
MMC_API int mmc_file_ndim(const mmc_file *file);             /* 1 to 64 */
MMC_API const int64_t *mmc_file_shape(const mmc_file *file); /* ndim numbers, the file's */
/* As stored; a 1-D array of length k comes as 1 x k, row-major. The dimensions before the last two
 * make a stack, in C order, of matrices that follow each other, stride elements apart. Do not write
 * through it. */
MMC_API mmc_matrix mmc_file_matrix(const mmc_file *file);

/* Writes matrix as .npy (version 1.0, C order) to path: to a temporary file beside it, renamed
 * when complete, so that path holds the old content or the new and never a part; both are on the
 * disk on return, so that the same holds where the power fails. ndim 2; 1 drops
 * the dimension that is 1; 0 writes a scalar of a 1 x 1.
 * Returns: E_ARG, E_IO, E_NOMEM. */
MMC_API mmc_status mmc_file_write(mmc_context *context, const char *path, mmc_dtype dtype,
                                  const mmc_matrix *matrix, int ndim);
/* The same bytes to a callback. */
MMC_API mmc_status mmc_file_stream(mmc_context *context, mmc_dtype dtype, const mmc_matrix *matrix,
                                   int ndim, mmc_write_fn write, void *user);
/* The same of a stack: batch matrices one after the other, as an array of ndim dimensions, 0 to 64,
 * whose shape has as many elements as they have together. */
MMC_API mmc_status mmc_file_write_stack(mmc_context *context, const char *path, mmc_dtype dtype,
                                        const mmc_matrix *matrix, int64_t batch, int ndim,
                                        const int64_t *shape);
MMC_API mmc_status mmc_file_stream_stack(mmc_context *context, mmc_dtype dtype,
                                         const mmc_matrix *matrix, int64_t batch, int ndim,
                                         const int64_t *shape, mmc_write_fn write, void *user);

#ifdef __cplusplus
}
#endif

#endif
