/* xla.h: the binary interface of XLA's foreign functions, version 0, as far as it is read and
 * written here. Layout and numbers are those of xla/ffi/api/c_api.h, whose structs grow at their
 * ends only. */
#ifndef MMCP_XLA_H
#define MMCP_XLA_H

#include <stddef.h>
#include <stdint.h>

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { XLA_F16 = 10, XLA_F32 = 11, XLA_F64 = 12, XLA_C64 = 15, XLA_BF16 = 16, XLA_C128 = 18 };
enum { XLA_METADATA = 1 };
enum { XLA_EXECUTE = 3 };
enum { XLA_SCALAR = 3 };
enum { XLA_RESOURCE_EXHAUSTED = 8, XLA_INTERNAL = 13 };

typedef struct xla_extension {
  size_t size;
  int32_t type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
  size_t size;
  xla_extension *extensions;
  int32_t major, minor;
} xla_version;

/* What a handler is asked for when it is registered. */
typedef struct xla_metadata {
  size_t size;
  xla_version version;
} xla_metadata;
typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

typedef struct xla_buffer {
  size_t size;
  xla_extension *extensions;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
} xla_buffer;

/* The buffers of all arguments, or of all results. */
typedef struct xla_buffers {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  int32_t *types;
  xla_buffer **buffers;
} xla_buffers;

typedef struct xla_text {
  const char *bytes;
  size_t length;
} xla_text;
typedef struct xla_scalar {
  int32_t dtype;
  void *value;
} xla_scalar;
typedef struct xla_attributes {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  int32_t *types;
  xla_text **names;
  void **values;
} xla_attributes;

typedef struct xla_error_arguments {
  size_t size;
  xla_extension *extensions;
  const char *message;
  int32_t code;
} xla_error_arguments;

typedef struct xla_api {
  size_t size;
  xla_extension *extensions;
  xla_version version;
  const void *internal;
  void *(*error_create)(xla_error_arguments *arguments);
} xla_api;

typedef struct xla_call {
  size_t size;
  xla_extension *extensions;
  const xla_api *api;
  void *context;
  int32_t stage;
  xla_buffers arguments, results;
  xla_attributes attributes;
} xla_call;

/* xla_target(minor): a capsule of the function that multiplies a chain on the CPU, for
 * jax.ffi.register_ffi_target(), by version 0.minor of the interface. */
PyObject *mmcp_xla_target(PyObject *module, PyObject *minor);

#endif
