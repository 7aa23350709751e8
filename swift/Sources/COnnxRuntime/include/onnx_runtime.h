// The few functions of ONNX Runtime's C API that speaking needs, without its header: the library is opened by name when the program runs.
//
// OrtGetApiBase gives a table whose first entry gives, for a version, a table of functions. New versions append to that table and never
// move an entry (onnxruntime_c_api.h says so), so an entry's number, its offset in the struct divided by the size of a pointer, stays.
#ifndef KOKORO_ONNX_RUNTIME_H
#define KOKORO_ONNX_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

typedef struct OnnxStatus OnnxStatus; // NULL: it went well
typedef const void *const *OnnxApi;
enum { ONNX_API_VERSION = 17, ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_ERRORS_ONLY = 3 }; // the last: a level of the log

// `symbol`: the library's OrtGetApiBase, which gives its base.
const void *onnx_base(void *symbol);
// NULL where the library is older than the version above.
OnnxApi onnx_api(const void *base);
const char *onnx_version(const void *base);
const char *onnx_message(OnnxApi api, const OnnxStatus *status);
OnnxStatus *onnx_make_environment(OnnxApi api, void **environment);
OnnxStatus *onnx_make_options(OnnxApi api, int threads, void **options);
OnnxStatus *onnx_open(OnnxApi api, void *environment, const char *path, void *options, void **session);
OnnxStatus *onnx_make_memory(OnnxApi api, void **memory);
// The value reads `data` where it lies: it has to live as long.
OnnxStatus *onnx_make_value(OnnxApi api, void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int kind, void **value);
OnnxStatus *onnx_run(OnnxApi api, void *session, const char *const *input_names, void *const *inputs, size_t input_count,
                     const char *const *output_names, size_t output_count, void **outputs);
// Data, kind of element, rank of a value, and its shape where there is room for it.
OnnxStatus *onnx_look(OnnxApi api, void *value, void **data, int *kind, size_t *rank, int64_t *shape, size_t room);

typedef enum { ONNX_ENVIRONMENT, ONNX_STATUS, ONNX_MEMORY, ONNX_SESSION, ONNX_VALUE, ONNX_OPTIONS } OnnxKind;
void onnx_release(OnnxApi api, OnnxKind kind, void *thing);

// Freed blocks of a megabyte go back to the system, and threads share one heap; nothing where glibc is not.
void onnx_return_memory(void);
#endif
