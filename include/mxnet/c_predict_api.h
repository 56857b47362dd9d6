/* MXNet 1.x's C interface for inference, implemented by libmxlite.so. New programs should use
 * <mxlite/predict.h>, which supports sizes of 64 bits, element types and any number of threads.
 *
 * Functions return 0, or -1 after an error; MXGetLastError() then returns the text of the calling
 * thread's last error. Intended differences from MXNet 1.9.1: Weights without a value, unknown
 * names of inputs, and a run before all inputs are set are errors. Each handle of
 * MXPredCreateMultiThread has its own inputs. Freed handles are refused. */
#ifndef MXNET_C_PREDICT_API_H_
#define MXNET_C_PREDICT_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXNET_DLL

typedef uint32_t mx_uint;
typedef float mx_float;
typedef void* PredictorHandle;
typedef void* NDListHandle;
typedef void* NDArrayHandle;

const char* MXGetLastError(void);

/* symbol_json_str: text of the -symbol.json file with a zero byte at its end.
 * param_bytes, param_size: content of the .params file.
 * dev_type: 1 for a CPU, 2 for a GPU.
 * input_shape_data: extents of all inputs. The extents of input i have the indices
 * input_shape_indptr[i] to input_shape_indptr[i + 1] - 1. */
int MXPredCreate(const char* symbol_json_str, const void* param_bytes, int param_size, int dev_type,
                 int dev_id, mx_uint num_input_nodes, const char** input_keys,
                 const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                 PredictorHandle* out);

/* The dtypes are for inputs that have no value in the parameters. Codes are as in .params files. */
int MXPredCreateEx(const char* symbol_json_str, const void* param_bytes, int param_size,
                   int dev_type, int dev_id, mx_uint num_input_nodes, const char** input_keys,
                   const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                   mx_uint num_provided_arg_dtypes, const char** provided_arg_dtype_names,
                   const int* provided_arg_dtypes, PredictorHandle* out);

/* The outputs are those of the named nodes: "fc1" for the value fc1_output. */
int MXPredCreatePartialOut(const char* symbol_json_str, const void* param_bytes, int param_size,
                           int dev_type, int dev_id, mx_uint num_input_nodes,
                           const char** input_keys, const mx_uint* input_shape_indptr,
                           const mx_uint* input_shape_data, mx_uint num_output_nodes,
                           const char** output_keys, PredictorHandle* out);

/* Writes one handle per thread to `out`. The handles share the weights. */
int MXPredCreateMultiThread(const char* symbol_json_str, const void* param_bytes, int param_size,
                            int dev_type, int dev_id, mx_uint num_input_nodes,
                            const char** input_keys, const mx_uint* input_shape_indptr,
                            const mx_uint* input_shape_data, int num_threads, PredictorHandle* out);

/* Creates another handle, which shares the weights. Both handles must be freed. */
int MXPredReshape(mx_uint num_input_nodes, const char** input_keys,
                  const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                  PredictorHandle handle, PredictorHandle* out);

/* The shape is valid until the handle is freed. */
int MXPredGetOutputShape(PredictorHandle handle, mx_uint index, mx_uint** shape_data,
                         mx_uint* shape_ndim);
int MXPredGetOutputType(PredictorHandle handle, mx_uint index, int* out_dtype);

/* `size` counts elements. `data` must have the type of the input, despite the pointer's type. */
int MXPredSetInput(PredictorHandle handle, const char* key, const mx_float* data, mx_uint size);

int MXPredForward(PredictorHandle handle);

/* A network is compiled into one step, so step 0 runs the whole network and sets step_left to 0. */
int MXPredPartialForward(PredictorHandle handle, int step, int* step_left);

/* `size` counts elements. Waits for the computation. `data` gets values of the output's type. */
int MXPredGetOutput(PredictorHandle handle, mx_uint index, mx_float* data, mx_uint size);

int MXPredFree(PredictorHandle handle);

/* Makes every later MXPredForward run the network node by node and call `callback` for the outputs
 * of each node and, if monitor_all is set, for its inputs. A null pointer ends this. The callback
 * owns the array and must free it. The callback must not call functions of this predictor. */
typedef void (*PredMonitorCallback)(const char* name, NDArrayHandle array, void* callback_handle);
int MXPredSetMonitorCallback(PredictorHandle handle, PredMonitorCallback callback,
                             void* callback_handle, bool monitor_all);

/* Functions for the arrays of a monitor. The shape is valid until the array is freed. `size` counts
 * elements of the array's type. Codes of types are as in .params files. */
int MXNDArrayGetShape(NDArrayHandle handle, mx_uint* ndim, const mx_uint** shape);
int MXNDArrayGetDType(NDArrayHandle handle, int* dtype);
int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size);
int MXNDArrayFree(NDArrayHandle handle);

/* Reads the float32 arrays of a .params file, such as a mean image. */
int MXNDListCreate(const char* nd_file_bytes, int nd_file_size, NDListHandle* out,
                   mx_uint* out_length);
/* The key (empty for arrays without names), data and shape are valid until the list is freed. */
int MXNDListGet(NDListHandle handle, mx_uint index, const char** out_key, const mx_float** out_data,
                const mx_uint** out_shape, mx_uint* out_ndim);
int MXNDListFree(NDListHandle handle);

#ifdef __cplusplus
}
#endif

#endif /* MXNET_C_PREDICT_API_H_ */
