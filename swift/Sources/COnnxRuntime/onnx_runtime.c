#include "onnx_runtime.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

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

typedef struct {
  OnnxApi (*api)(uint32_t version);
  const char *(*version)(void);
} Base;
typedef const Base *(*GetBase)(void);

OnnxApi onnx_api(void *symbol) { return ((GetBase)symbol)()->api(ONNX_API_VERSION); }
const char *onnx_version(void *symbol) { return ((GetBase)symbol)()->version(); }

const char *onnx_message(OnnxApi api, const OnnxStatus *status) {
  return ((const char *(*)(const OnnxStatus *))api[GET_ERROR_MESSAGE])(status);
}

// One arena for all sessions, which run one after the other: each would keep its own at the size of the longest sentence.
static OnnxStatus *share_arena(OnnxApi api, void *environment) {
  void *memory = NULL, *config = NULL;
  OnnxStatus *status = onnx_make_memory(api, &memory);
  if (!status)
    status = ((OnnxStatus * (*)(size_t, int, int, int, void **)) api[CREATE_ARENA_CONFIG])(UNLIMITED, BY_DOUBLING, AS_USUAL, AS_USUAL, &config);
  if (!status) {
    status = ((OnnxStatus * (*)(void *, void *, void *)) api[CREATE_AND_REGISTER_ALLOCATOR])(environment, memory, config);
    // A process has one environment, and refuses a second arena in it: there is one already.
    if (status && ((int (*)(const OnnxStatus *))api[GET_ERROR_CODE])(status) == INVALID_ARGUMENT) {
      onnx_release(api, ONNX_STATUS, status);
      status = NULL;
    }
  }
  if (config) ((void (*)(void *))api[RELEASE_ARENA_CONFIG])(config);
  onnx_release(api, ONNX_MEMORY, memory);
  return status;
}

OnnxStatus *onnx_make_environment(OnnxApi api, void **environment) {
  OnnxStatus *status = ((OnnxStatus * (*)(int, const char *, void **)) api[CREATE_ENV])(ONNX_ERRORS_ONLY, "kokoro", environment);
  return status ? status : share_arena(api, *environment);
}

static OnnxStatus *set(OnnxApi api, void *options, const char *key, const char *value) {
  return ((OnnxStatus * (*)(void *, const char *, const char *)) api[ADD_SESSION_CONFIG_ENTRY])(options, key, value);
}

OnnxStatus *onnx_make_options(OnnxApi api, int threads, void **options) {
  OnnxStatus *status = ((OnnxStatus * (*)(void **)) api[CREATE_SESSION_OPTIONS])(options);
  if (!status) status = ((OnnxStatus * (*)(void *, int)) api[SET_INTRA_OP_NUM_THREADS])(*options, threads);
  // Plans of memory are kept for every length that was seen: they grow with the text.
  if (!status) status = ((OnnxStatus * (*)(void *)) api[DISABLE_MEMORY_PATTERN])(*options);
  if (!status) status = set(api, *options, "session.use_env_allocators", "1");
  // Weights that are stored as int8 are unpacked once, when the file is opened.
  if (!status) status = set(api, *options, "session.disable_quant_qdq", "1");
  return status;
}

OnnxStatus *onnx_open(OnnxApi api, void *environment, const char *path, void *options, void **session) {
  return ((OnnxStatus * (*)(void *, const char *, void *, void **)) api[CREATE_SESSION])(environment, path, options, session);
}

OnnxStatus *onnx_make_memory(OnnxApi api, void **memory) {
  return ((OnnxStatus * (*)(int, int, void **)) api[CREATE_CPU_MEMORY_INFO])(ARENA, DEFAULT_MEMORY, memory);
}

OnnxStatus *onnx_make_value(OnnxApi api, void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int kind, void **value) {
  return ((OnnxStatus * (*)(void *, void *, size_t, const int64_t *, size_t, int, void **)) api[CREATE_TENSOR_WITH_DATA])(
      memory, data, bytes, shape, rank, kind, value);
}

OnnxStatus *onnx_run(OnnxApi api, void *session, const char *const *input_names, void *const *inputs, size_t input_count,
                     const char *const *output_names, size_t output_count, void **outputs) {
  return ((OnnxStatus * (*)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **)) api[RUN])(
      session, NULL, input_names, inputs, input_count, output_names, output_count, outputs);
}

// What ONNX Runtime knows of a value: a thing of its own, to be forgotten again.
static OnnxStatus *described(OnnxApi api, void *value, void **type) {
  return ((OnnxStatus * (*)(void *, void **)) api[GET_TENSOR_TYPE_AND_SHAPE])(value, type);
}

static void forget(OnnxApi api, void *type) { ((void (*)(void *))api[RELEASE_TENSOR_TYPE_AND_SHAPE])(type); }

OnnxStatus *onnx_look(OnnxApi api, void *value, void **data, int *kind, size_t *rank) {
  void *type = NULL;
  OnnxStatus *status = described(api, value, &type);
  if (status) return status;
  status = ((OnnxStatus * (*)(void *, int *)) api[GET_TENSOR_ELEMENT_TYPE])(type, kind);
  if (!status) status = ((OnnxStatus * (*)(void *, size_t *)) api[GET_DIMENSIONS_COUNT])(type, rank);
  if (!status) status = ((OnnxStatus * (*)(void *, void **)) api[GET_TENSOR_MUTABLE_DATA])(value, data);
  forget(api, type);
  return status;
}

OnnxStatus *onnx_shape(OnnxApi api, void *value, int64_t *shape, size_t rank) {
  void *type = NULL;
  OnnxStatus *status = described(api, value, &type);
  if (status) return status;
  status = ((OnnxStatus * (*)(void *, int64_t *, size_t)) api[GET_DIMENSIONS])(type, shape, rank);
  forget(api, type);
  return status;
}

void onnx_release(OnnxApi api, OnnxKind kind, void *thing) {
  static const int number[] = {RELEASE_ENV, RELEASE_STATUS, RELEASE_MEMORY_INFO, RELEASE_SESSION, RELEASE_VALUE, RELEASE_SESSION_OPTIONS};
  if (thing) ((void (*)(void *))api[number[kind]])(thing);
}

void onnx_return_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_ARENA_MAX, 1);
#endif
}
