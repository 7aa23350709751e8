#include "onnx_runtime.h"

// Numbers of the functions in struct OrtApi, by offsetof on onnxruntime_c_api.h of 1.21.
enum {
  GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9,
  CREATE_SESSION_OPTIONS = 10, SET_INTRA_OP_NUM_THREADS = 24, CREATE_TENSOR_WITH_DATA = 49, GET_TENSOR_MUTABLE_DATA = 51,
  GET_TENSOR_ELEMENT_TYPE = 60, GET_DIMENSIONS_COUNT = 61, GET_DIMENSIONS = 62, GET_TENSOR_TYPE_AND_SHAPE = 65,
  CREATE_CPU_MEMORY_INFO = 69, RELEASE_ENV = 92, RELEASE_STATUS = 93, RELEASE_MEMORY_INFO = 94,
  RELEASE_SESSION = 95, RELEASE_VALUE = 96, RELEASE_TENSOR_TYPE_AND_SHAPE = 99, RELEASE_SESSION_OPTIONS = 100,
  ADD_SESSION_CONFIG_ENTRY = 130,
};
enum { ARENA = 1, DEFAULT_MEMORY = 0 };

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

OnnxStatus *onnx_make_environment(OnnxApi api, void **environment) {
  return ((OnnxStatus * (*)(int, const char *, void **)) api[CREATE_ENV])(ONNX_ERRORS_ONLY, "kokoro", environment);
}

OnnxStatus *onnx_make_options(OnnxApi api, int threads, void **options) {
  OnnxStatus *status = ((OnnxStatus * (*)(void **)) api[CREATE_SESSION_OPTIONS])(options);
  if (!status) status = ((OnnxStatus * (*)(void *, int)) api[SET_INTRA_OP_NUM_THREADS])(*options, threads);
  // Weights that are stored as int8 are unpacked once, when the file is opened.
  if (!status)
    status = ((OnnxStatus * (*)(void *, const char *, const char *)) api[ADD_SESSION_CONFIG_ENTRY])(*options, "session.disable_quant_qdq", "1");
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
