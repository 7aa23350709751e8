#include "onnx_runtime.h"

// Numbers of the functions in struct OrtApi, by offsetof on onnxruntime_c_api.h of 1.21.
enum {
  GET_ERROR_CODE = 1, GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9,
  CREATE_SESSION_OPTIONS = 10, DISABLE_MEMORY_PATTERN = 17, SET_INTRA_OP_NUM_THREADS = 24, CREATE_TENSOR_WITH_DATA = 49, GET_TENSOR_MUTABLE_DATA = 51,
  GET_TENSOR_ELEMENT_TYPE = 60, GET_DIMENSIONS_COUNT = 61, GET_DIMENSIONS = 62, GET_TENSOR_TYPE_AND_SHAPE = 65,
  CREATE_CPU_MEMORY_INFO = 69, RELEASE_ENV = 92, RELEASE_STATUS = 93, RELEASE_MEMORY_INFO = 94,
  RELEASE_SESSION = 95, RELEASE_VALUE = 96, RELEASE_TENSOR_TYPE_AND_SHAPE = 99, RELEASE_SESSION_OPTIONS = 100,
  ADD_SESSION_CONFIG_ENTRY = 130, CREATE_AND_REGISTER_ALLOCATOR = 144, CREATE_ARENA_CONFIG = 156, RELEASE_ARENA_CONFIG = 157,
};
enum { ARENA = 1, DEFAULT_MEMORY = 0, UNLIMITED = 0, BY_DOUBLING = 0, AS_USUAL = -1, INVALID_ARGUMENT = 2 };
typedef struct { OnnxApi (*api)(uint32_t version); const char *(*version)(void); } const *Base;
#define CALL(number, ...) ((OnnxStatus * (*)(__VA_ARGS__)) api[number])
#define RELEASE(number, thing) ((void (*)(void *))api[number])(thing)

const void *onnx_base(void *symbol) { return ((const void *(*)(void))symbol)(); }
OnnxApi onnx_api(const void *base) { return ((Base)base)->api(ONNX_API_VERSION); }
const char *onnx_version(const void *base) { return ((Base)base)->version(); }
const char *onnx_message(OnnxApi api, const OnnxStatus *status) { return ((const char *(*)(const OnnxStatus *))api[GET_ERROR_MESSAGE])(status); }

// One arena for all sessions, which run one after the other: each would keep its own at the size of the longest sentence.
static OnnxStatus *share_arena(OnnxApi api, void *environment) {
  void *memory = NULL, *config = NULL;
  OnnxStatus *status = onnx_make_memory(api, &memory);
  if (!status) status = CALL(CREATE_ARENA_CONFIG, size_t, int, int, int, void **)(UNLIMITED, BY_DOUBLING, AS_USUAL, AS_USUAL, &config);
  if (!status) status = CALL(CREATE_AND_REGISTER_ALLOCATOR, void *, void *, void *)(environment, memory, config);
  // A process has one environment, which refuses a second arena: there is one already.
  if (status && ((int (*)(const OnnxStatus *))api[GET_ERROR_CODE])(status) == INVALID_ARGUMENT) {
    onnx_release(api, ONNX_STATUS, status);
    status = NULL;
  }
  if (config) RELEASE(RELEASE_ARENA_CONFIG, config);
  onnx_release(api, ONNX_MEMORY, memory);
  return status;
}

OnnxStatus *onnx_make_environment(OnnxApi api, void **environment) {
  OnnxStatus *status = CALL(CREATE_ENV, int, const char *, void **)(ONNX_ERRORS_ONLY, "kokoro", environment);
  return status ? status : share_arena(api, *environment);
}

OnnxStatus *onnx_make_options(OnnxApi api, int threads, void **options) {
  OnnxStatus *status = CALL(CREATE_SESSION_OPTIONS, void **)(options);
  if (!status) status = CALL(SET_INTRA_OP_NUM_THREADS, void *, int)(*options, threads);
  // Plans of memory are kept for every length that was seen, and weights stored as int8 are unpacked once, when the file is opened.
  if (!status) status = CALL(DISABLE_MEMORY_PATTERN, void *)(*options);
  if (!status) status = CALL(ADD_SESSION_CONFIG_ENTRY, void *, const char *, const char *)(*options, "session.use_env_allocators", "1");
  if (!status) status = CALL(ADD_SESSION_CONFIG_ENTRY, void *, const char *, const char *)(*options, "session.disable_quant_qdq", "1");
  return status;
}

OnnxStatus *onnx_open(OnnxApi api, void *environment, const char *path, void *options, void **session) {
  return CALL(CREATE_SESSION, void *, const char *, void *, void **)(environment, path, options, session);
}

OnnxStatus *onnx_make_memory(OnnxApi api, void **memory) { return CALL(CREATE_CPU_MEMORY_INFO, int, int, void **)(ARENA, DEFAULT_MEMORY, memory); }

OnnxStatus *onnx_make_value(OnnxApi api, void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int kind, void **value) {
  return CALL(CREATE_TENSOR_WITH_DATA, void *, void *, size_t, const int64_t *, size_t, int, void **)(memory, data, bytes, shape, rank, kind, value);
}

OnnxStatus *onnx_run(OnnxApi api, void *session, const char *const *input_names, void *const *inputs, size_t input_count,
                     const char *const *output_names, size_t output_count, void **outputs) {
  return CALL(RUN, void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **)(
      session, NULL, input_names, inputs, input_count, output_names, output_count, outputs);
}

OnnxStatus *onnx_look(OnnxApi api, void *value, void **data, int *kind, size_t *rank, int64_t *shape, size_t room) {
  void *type = NULL;
  OnnxStatus *status = CALL(GET_TENSOR_TYPE_AND_SHAPE, void *, void **)(value, &type);
  if (status) return status;
  status = CALL(GET_TENSOR_ELEMENT_TYPE, void *, int *)(type, kind);
  if (!status) status = CALL(GET_DIMENSIONS_COUNT, void *, size_t *)(type, rank);
  if (!status && *rank <= room) status = CALL(GET_DIMENSIONS, void *, int64_t *, size_t)(type, shape, *rank);
  if (!status) status = CALL(GET_TENSOR_MUTABLE_DATA, void *, void **)(value, data);
  RELEASE(RELEASE_TENSOR_TYPE_AND_SHAPE, type);
  return status;
}

void onnx_release(OnnxApi api, OnnxKind kind, void *thing) {
  static const int number[] = {RELEASE_ENV, RELEASE_STATUS, RELEASE_MEMORY_INFO, RELEASE_SESSION, RELEASE_VALUE, RELEASE_SESSION_OPTIONS};
  if (thing) RELEASE(number[kind], thing);
}

#ifdef __GLIBC__
#include <malloc.h>
void onnx_return_memory(void) { mallopt(M_MMAP_THRESHOLD, 1 << 20), mallopt(M_ARENA_MAX, 1); }
#else
void onnx_return_memory(void) {}
#endif
