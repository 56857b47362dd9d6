// The functions of <mxnet/c_predict_api.h>, MXNet 1.x's interface for inference.
#include <mxnet/c_predict_api.h>

#include <algorithm>
#include <cstring>

#include "cpp/ops/invoke.h"
#include "cpp/predict/arguments.h"
#include "cpp/predict/handles.h"

using mxlite::c_status;
using mxlite::NDArray;
using mxlite::NDArrayRef;
using mxlite::pointed;
using namespace mxlite::predict;  // NOLINT: the implementation

namespace {

using Predictors = Handles<Predictor>;

struct NDList {
  mxlite::NamedArrays arrays;
  std::vector<Value> values;  // indexed by array
};
using NDLists = Handles<NDList>;

// An array that a monitor gets.
struct Shown {
  NDArrayRef array;  // on the host
  Value value;
};
using ShownArrays = Handles<Shown>;

// The arguments that are common to all functions that create predictors.
struct Source {
  const char* symbol;
  const void* params;
  int params_size, device_type, device_id;

  std::shared_ptr<const Network> network(const std::vector<std::string>& outputs = {}) const {
    return network_of(&pointed(symbol, "symbol_json_str"), params,
                      checked_count(params_size, "param_size"), device_of(device_type, device_id),
                      outputs);
  }
};

std::vector<GivenInput> given_inputs(mx_uint count, const char** keys, const mx_uint* indptr,
                                     const mx_uint* extents) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < count; ++i) {
    const mx_uint begin = (&pointed(indptr, "input_shape_indptr"))[i];
    const int64_t ndim = int64_t{indptr[i + 1]} - begin;
    given.push_back(
        {text_at(keys, i, "input_keys"), shape_of(extents ? extents + begin : nullptr, ndim), {}});
  }
  return given;
}

void* handle_of(std::unique_ptr<Predictor> predictor) {
  return Predictors::get().add(std::move(predictor));
}

template <class Container>
size_t checked_index(mx_uint index, const Container& all) {
  MX_CHECK_KIND(index < all.size(), mxlite::ErrorKind::kIndex, "the index must be in [0, ",
                all.size(), "), got ", index);
  return index;
}

size_t bytes_of(const Value& value, mx_uint size) {
  MX_CHECK_SHAPE(size == value.spec.shape.size(), "the size of '", value.name, "' must be the ",
                 value.spec.shape.size(), " elements of shape ", value.spec.shape, ", got ", size);
  return value.spec.bytes();
}

}  // namespace

extern "C" {

const char* MXGetLastError(void) { return mxlite::last_c_error(); }

int MXPredCreate(const char* symbol_json_str, const void* param_bytes, int param_size, int dev_type,
                 int dev_id, mx_uint num_input_nodes, const char** input_keys,
                 const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                 PredictorHandle* out) {
  return c_status(__func__, [&] {
    PredictorHandle& result = pointed(out, "out");
    const Source source{symbol_json_str, param_bytes, param_size, dev_type, dev_id};
    result = handle_of(std::make_unique<Predictor>(
        source.network(),
        given_inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)));
  });
}

int MXPredCreateEx(const char* symbol_json_str, const void* param_bytes, int param_size,
                   int dev_type, int dev_id, mx_uint num_input_nodes, const char** input_keys,
                   const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                   mx_uint num_provided_arg_dtypes, const char** provided_arg_dtype_names,
                   const int* provided_arg_dtypes, PredictorHandle* out) {
  return c_status(__func__, [&] {
    PredictorHandle& result = pointed(out, "out");
    const Source source{symbol_json_str, param_bytes, param_size, dev_type, dev_id};
    auto given = given_inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data);
    for (size_t i = 0; i < num_provided_arg_dtypes; ++i) {
      const std::string name = text_at(provided_arg_dtype_names, i, "provided_arg_dtype_names");
      const auto input = std::ranges::find(given, name, &GivenInput::name);
      if (input != given.end())
        input->dtype = dtype_of((&pointed(provided_arg_dtypes, "provided_arg_dtypes"))[i]);
    }
    result = handle_of(std::make_unique<Predictor>(source.network(), given));
  });
}

int MXPredCreatePartialOut(const char* symbol_json_str, const void* param_bytes, int param_size,
                           int dev_type, int dev_id, mx_uint num_input_nodes,
                           const char** input_keys, const mx_uint* input_shape_indptr,
                           const mx_uint* input_shape_data, mx_uint num_output_nodes,
                           const char** output_keys, PredictorHandle* out) {
  return c_status(__func__, [&] {
    PredictorHandle& result = pointed(out, "out");
    const Source source{symbol_json_str, param_bytes, param_size, dev_type, dev_id};
    std::vector<std::string> outputs = texts(num_output_nodes, output_keys, "output_keys");
    for (std::string& name : outputs) name += "_output";
    result = handle_of(std::make_unique<Predictor>(
        source.network(outputs),
        given_inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)));
  });
}

int MXPredCreateMultiThread(const char* symbol_json_str, const void* param_bytes, int param_size,
                            int dev_type, int dev_id, mx_uint num_input_nodes,
                            const char** input_keys, const mx_uint* input_shape_indptr,
                            const mx_uint* input_shape_data, int num_threads,
                            PredictorHandle* out) {
  return c_status(__func__, [&] {
    pointed(out, "out");
    const size_t count = checked_count(num_threads, "num_threads");
    const Source source{symbol_json_str, param_bytes, param_size, dev_type, dev_id};
    const auto network = source.network();
    const auto given =
        given_inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data);
    std::vector<std::unique_ptr<Predictor>> made;
    for (size_t i = 0; i < count; ++i) made.push_back(std::make_unique<Predictor>(network, given));
    for (size_t i = 0; i < count; ++i) out[i] = handle_of(std::move(made[i]));
  });
}

int MXPredReshape(mx_uint num_input_nodes, const char** input_keys,
                  const mx_uint* input_shape_indptr, const mx_uint* input_shape_data,
                  PredictorHandle handle, PredictorHandle* out) {
  return c_status(__func__, [&] {
    PredictorHandle& result = pointed(out, "out");
    result = handle_of(Predictors::get().find(handle)->reshaped(
        given_inputs(num_input_nodes, input_keys, input_shape_indptr, input_shape_data)));
  });
}

int MXPredGetOutputShape(PredictorHandle handle, mx_uint index, mx_uint** shape_data,
                         mx_uint* shape_ndim) {
  return c_status(__func__, [&] {
    const auto predictor = Predictors::get().find(handle);
    const Value& value = predictor->outputs()[checked_index(index, predictor->outputs())];
    pointed(shape_ndim, "shape_ndim") = static_cast<mx_uint>(value.shape_32.size());
    pointed(shape_data, "shape_data") = const_cast<mx_uint*>(value.shape_32.data());
  });
}

int MXPredGetOutputType(PredictorHandle handle, mx_uint index, int* out_dtype) {
  return c_status(__func__, [&] {
    const auto predictor = Predictors::get().find(handle);
    const Value& value = predictor->outputs()[checked_index(index, predictor->outputs())];
    pointed(out_dtype, "out_dtype") = static_cast<int>(value.spec.dtype);
  });
}

int MXPredSetInput(PredictorHandle handle, const char* key, const mx_float* data, mx_uint size) {
  return c_status(__func__, [&] {
    const auto predictor = Predictors::get().find(handle);
    const size_t index = index_of(predictor->inputs(), &pointed(key, "key"), "input");
    const auto* first = reinterpret_cast<const std::byte*>(&pointed(data, "data"));
    predictor->set_input(index, {first, bytes_of(predictor->inputs()[index], size)});
  });
}

int MXPredForward(PredictorHandle handle) {
  return c_status(__func__, [&] { Predictors::get().find(handle)->forward(); });
}

int MXPredPartialForward(PredictorHandle handle, int step, int* step_left) {
  return c_status(__func__, [&] {
    checked_count(step, "step");
    if (step == 0) Predictors::get().find(handle)->forward();
    pointed(step_left, "step_left") = 0;
  });
}

int MXPredGetOutput(PredictorHandle handle, mx_uint index, mx_float* data, mx_uint size) {
  return c_status(__func__, [&] {
    const auto predictor = Predictors::get().find(handle);
    checked_index(index, predictor->outputs());
    auto* first = reinterpret_cast<std::byte*>(&pointed(data, "data"));
    predictor->get_output(index, {first, bytes_of(predictor->outputs()[index], size)});
  });
}

int MXPredFree(PredictorHandle handle) {
  return c_status(__func__, [&] { Predictors::get().remove(handle); });
}

int MXPredSetMonitorCallback(PredictorHandle handle, PredMonitorCallback callback,
                             void* callback_handle, bool monitor_all) {
  return c_status(__func__, [&] {
    Monitor monitor;
    if (callback)
      monitor = [=](const std::string& name, const NDArrayRef& array) {
        NDArrayRef shown = on_host(array);
        Value value = value_of(name, shown->spec());
        callback(name.c_str(),
                 ShownArrays::get().add(
                     std::make_unique<Shown>(Shown{std::move(shown), std::move(value)})),
                 callback_handle);
      };
    Predictors::get().find(handle)->set_monitor(monitor, monitor_all);
  });
}

int MXNDArrayGetShape(NDArrayHandle handle, mx_uint* ndim, const mx_uint** shape) {
  return c_status(__func__, [&] {
    const auto shown = ShownArrays::get().find(handle);
    pointed(ndim, "ndim") = static_cast<mx_uint>(shown->value.shape_32.size());
    pointed(shape, "shape") = shown->value.shape_32.data();
  });
}

int MXNDArrayGetDType(NDArrayHandle handle, int* dtype) {
  return c_status(__func__, [&] {
    pointed(dtype, "dtype") = static_cast<int>(ShownArrays::get().find(handle)->value.spec.dtype);
  });
}

int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size) {
  return c_status(__func__, [&] {
    const auto shown = ShownArrays::get().find(handle);
    MX_CHECK_SHAPE(size == static_cast<size_t>(shown->value.spec.shape.size()),
                   "the size must be the ", shown->value.spec.shape.size(), " elements of '",
                   shown->value.name, "', got ", size);
    if (size > 0)
      std::memcpy(&pointed(static_cast<std::byte*>(data), "data"), shown->array->data(),
                  shown->value.spec.bytes());
  });
}

int MXNDArrayFree(NDArrayHandle handle) {
  return c_status(__func__, [&] { ShownArrays::get().remove(handle); });
}

int MXNDListCreate(const char* nd_file_bytes, int nd_file_size, NDListHandle* out,
                   mx_uint* out_length) {
  return c_status(__func__, [&] {
    const auto* first =
        reinterpret_cast<const std::byte*>(&pointed(nd_file_bytes, "nd_file_bytes"));
    auto list = std::make_unique<NDList>();
    list->arrays = mxlite::read_params(mxlite::bytes_in_memory(
        {first, checked_count(nd_file_size, "nd_file_size")}, "the arrays"));
    for (size_t i = 0; i < list->arrays.arrays.size(); ++i) {
      const NDArray* array = list->arrays.arrays[i].get();
      MX_CHECK_DTYPE(array && !array->is_sparse() && array->dtype() == mxlite::DType::kFloat32,
                     "the arrays must be dense and float32, got another kind of array at position ",
                     i);
      const auto& names = list->arrays.names;
      list->values.push_back(value_of(names.empty() ? "" : names[i], array->spec()));
    }
    NDListHandle& result = pointed(out, "out");
    pointed(out_length, "out_length") = static_cast<mx_uint>(list->values.size());
    result = NDLists::get().add(std::move(list));
  });
}

int MXNDListGet(NDListHandle handle, mx_uint index, const char** out_key, const mx_float** out_data,
                const mx_uint** out_shape, mx_uint* out_ndim) {
  return c_status(__func__, [&] {
    const auto list = NDLists::get().find(handle);
    const Value& value = list->values[checked_index(index, list->values)];
    pointed(out_key, "out_key") = value.name.c_str();
    pointed(out_data, "out_data") = static_cast<float*>(list->arrays.arrays[index]->data());
    pointed(out_shape, "out_shape") = value.shape_32.data();
    pointed(out_ndim, "out_ndim") = static_cast<mx_uint>(value.shape_32.size());
  });
}

int MXNDListFree(NDListHandle handle) {
  return c_status(__func__, [&] { NDLists::get().remove(handle); });
}

}  // extern "C"
