/* dlpack.h: the binary interface of DLPack 1.x, and of the managed tensor of 0.x, as far as it is
 * read and written here. Names and layout are those of
 * https://dmlc.github.io/dlpack/latest/c_api.html. */
#ifndef MMCP_DLPACK_H
#define MMCP_DLPACK_H

#include <stdint.h>

enum { DL_VERSION_MAJOR = 1, DL_VERSION_MINOR = 1 };

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };
enum { DL_FLAG_READ_ONLY = 1 };

typedef struct dl_device {
  int32_t type, id;
} dl_device;

typedef struct dl_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: C-contiguous */
  uint64_t byte_offset;
} dl_tensor;

/* A capsule named "dltensor" holds this tensor of version 0.x. */
typedef struct dl_managed {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_version {
  uint32_t major, minor;
} dl_version;

/* A capsule named "dltensor_versioned" holds this tensor of version 1.x. */
typedef struct dl_managed_versioned {
  dl_version version;
  void *manager;
  void (*deleter)(struct dl_managed_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed_versioned;

/* What a type's attribute __dlpack_c_exchange_api__ holds, in a capsule named
 * "dlpack_exchange_api": tensors to and from C without a call into Python. Functions return 0, or
 * -1 with an exception set. */
typedef struct dl_exchange {
  dl_version version;
  struct dl_exchange *previous;
  int (*allocate)(dl_tensor *prototype, dl_managed_versioned **out, void *error_context,
                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*managed_from_object)(void *object, dl_managed_versioned **out);
  int (*managed_to_object)(dl_managed_versioned *managed, void **out); /* takes managed */
  int (*borrow)(void *object, dl_tensor *out); /* valid while the object lives unchanged */
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange;

#endif
