/* Inference from C: runs a network from a -symbol.json and a .params file, without Python.
 *
 * Functions return 0, or -1 after an error; mxlite_predict_error() then returns the text of the
 * error. Functions throw no exceptions. They write results through pointers only if they return 0.
 *
 * Threads: use one predictor per thread. Predictors made by mxlite_predict_reshape share the
 * weights. If several threads call the same predictor, the calls run one after another.
 *
 * The interface is stable: later versions only add functions. mxlite_predict_version() returns the
 * version of the library, and MXLITE_PREDICT_VERSION is the version of this header. */
#ifndef MXLITE_PREDICT_H_
#define MXLITE_PREDICT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXLITE_PREDICT_VERSION 1

enum { MXLITE_CPU = 1, MXLITE_GPU = 2 };

/* Element types, with the codes of .params files. */
enum {
  MXLITE_INFERRED = -1, /* the type that the network and its weights imply, usually float32 */
  MXLITE_FLOAT32 = 0,
  MXLITE_FLOAT64 = 1,
  MXLITE_FLOAT16 = 2,
  MXLITE_UINT8 = 3,
  MXLITE_INT32 = 4,
  MXLITE_INT8 = 5,
  MXLITE_INT64 = 6,
  MXLITE_BOOL = 7,
  MXLITE_INT16 = 8,
  MXLITE_UINT16 = 9,
  MXLITE_UINT32 = 10,
  MXLITE_UINT64 = 11,
  MXLITE_BFLOAT16 = 12
};

typedef struct mxlite_predictor mxlite_predictor;

int mxlite_predict_version(void);

/* Returns the text of the calling thread's last error, "<function>: <text>". Valid until the next
 * error of this thread. */
const char* mxlite_predict_error(void);

/* Reads a network from files. The first forward compiles the network.
 *
 * device_type, device_id: MXLITE_CPU and 0, or MXLITE_GPU and the number of a GPU.
 * num_inputs, names: the inputs whose shapes are given, usually only "data".
 * ndims: the number of axes of each input.
 * shapes: the extents of all inputs, one after the other.
 * dtypes: the type of each input. A null pointer means MXLITE_INFERRED for all inputs.
 *
 * Shapes of other inputs are inferred where possible. Free the result with mxlite_predict_free. */
int mxlite_predict_create_from_files(const char* symbol_file, const char* params_file,
                                     int device_type, int device_id, int num_inputs,
                                     const char* const* names, const int* ndims,
                                     const int64_t* shapes, const int* dtypes,
                                     mxlite_predictor** out);

/* Like mxlite_predict_create_from_files, but reads from memory. The caller may free the memory
 * afterwards.
 *
 * symbol, symbol_size: text of the -symbol.json file and its length in bytes.
 * params, params_size: content of the .params file and its size in bytes.
 * num_outputs, outputs: names of values to return instead of the network's outputs, such as
 * "flatten0_output". 0 and null select the network's outputs. */
int mxlite_predict_create(const char* symbol, size_t symbol_size, const void* params,
                          size_t params_size, int device_type, int device_id, int num_inputs,
                          const char* const* names, const int* ndims, const int64_t* shapes,
                          const int* dtypes, int num_outputs, const char* const* outputs,
                          mxlite_predictor** out);

/* Creates another predictor of the same network, which shares the weights. Inputs that are not
 * named keep the shapes of `predictor`, so a call without names creates a predictor for another
 * thread. Both predictors must be freed, in any order. */
int mxlite_predict_reshape(mxlite_predictor* predictor, int num_inputs, const char* const* names,
                           const int* ndims, const int64_t* shapes, mxlite_predictor** out);

/* Frees the predictor after calls of other threads have ended. Does nothing for null. */
int mxlite_predict_free(mxlite_predictor* predictor);

/* Inputs are all variables without a value in the .params file, in the order of the network. */
int mxlite_predict_num_inputs(mxlite_predictor* predictor, int* count);
int mxlite_predict_num_outputs(mxlite_predictor* predictor, int* count);

/* Finds an input or output by its name. Outputs are named like "softmax_output". */
int mxlite_predict_find_input(mxlite_predictor* predictor, const char* name, int* index);
int mxlite_predict_find_output(mxlite_predictor* predictor, const char* name, int* index);

/* Describes an input or output. Each result pointer may be null. `name` and `shape`, which has
 * `ndim` extents, are valid until the predictor is freed. */
int mxlite_predict_input(mxlite_predictor* predictor, int index, const char** name, int* dtype,
                         int* ndim, const int64_t** shape);
int mxlite_predict_output(mxlite_predictor* predictor, int index, const char** name, int* dtype,
                          int* ndim, const int64_t** shape);

/* Copies `bytes` bytes, which must be the size of the input, in row-major order. The caller may
 * change the memory afterwards. An input keeps its value until it is set again. */
int mxlite_predict_set_input(mxlite_predictor* predictor, int index, const void* data,
                             size_t bytes);

/* Starts the computation and may return before it ends. All inputs must have been set, except for
 * labels of losses. */
int mxlite_predict_forward(mxlite_predictor* predictor);

/* Waits for the computation and copies an output of `bytes` bytes in row-major order. Also returns
 * errors of the computation. */
int mxlite_predict_get_output(mxlite_predictor* predictor, int index, void* data, size_t bytes);

/* Decodes a JPEG or PNG image, resizes its shorter side to `resize` pixels (-1: no resize), crops
 * the center to `height` x `width` pixels, and writes (value - mean) / std for values in [0, 255]
 * as floats of shape (3, height, width) in the order red, green, blue.
 *
 * mean, std: three numbers each. Null means a mean of 0 and an std of 1.
 * Libraries without OpenCV do not have this function. */
int mxlite_predict_decode_image(const void* image, size_t size, int resize, int height, int width,
                                const float* mean, const float* std, float* data);

#ifdef __cplusplus
}
#endif

#endif /* MXLITE_PREDICT_H_ */
