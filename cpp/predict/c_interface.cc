// The functions of <mxlite/predict.h>.
#include <mxlite/predict.h>

#include "cpp/base/c_errors.h"
#include "cpp/predict/arguments.h"
#include "cpp/predict/handles.h"
#include "cpp/predict/predictor.h"

using mxlite::c_status;
using mxlite::pointed;
using namespace mxlite::predict;  // NOLINT: the implementation

namespace {

using Predictors = Handles<Predictor>;

mxlite_predictor* handle_of(std::unique_ptr<Predictor> predictor) {
  return reinterpret_cast<mxlite_predictor*>(Predictors::get().add(std::move(predictor)));
}

std::vector<GivenInput> given_inputs(int count, const char* const* names, const int* ndims,
                                     const int64_t* shapes, const int* dtypes) {
  std::vector<GivenInput> given;
  for (size_t i = 0; i < checked_count(count, "num_inputs"); ++i) {
    const int ndim = (&pointed(ndims, "ndims"))[i];
    GivenInput input{text_at(names, i, "names"), shape_of(shapes, ndim), {}};
    if (ndim > 0) shapes += ndim;
    if (dtypes && dtypes[i] != MXLITE_INFERRED) input.dtype = dtype_of(dtypes[i]);
    given.push_back(std::move(input));
  }
  return given;
}

size_t checked_index(int index, const std::vector<Value>& values, const char* what) {
  MX_CHECK_KIND(index >= 0 && static_cast<size_t>(index) < values.size(), mxlite::ErrorKind::kIndex,
                "the index of an ", what, " must be in [0, ", values.size(), "), got ", index);
  return static_cast<size_t>(index);
}

void describe(const Value& value, const char** name, int* dtype, int* ndim, const int64_t** shape) {
  if (name) *name = value.name.c_str();
  if (dtype) *dtype = static_cast<int>(value.spec.dtype);
  if (ndim) *ndim = value.spec.shape.ndim();
  if (shape) *shape = value.spec.shape.begin();
}

}  // namespace

extern "C" {

int mxlite_predict_version(void) { return MXLITE_PREDICT_VERSION; }

const char* mxlite_predict_error(void) { return mxlite::last_c_error(); }

int mxlite_predict_create_from_files(const char* symbol_file, const char* params_file,
                                     int device_type, int device_id, int num_inputs,
                                     const char* const* names, const int* ndims,
                                     const int64_t* shapes, const int* dtypes,
                                     mxlite_predictor** out) {
  return c_status(__func__, [&] {
    pointed(out, "out");
    const std::string source = &pointed(symbol_file, "symbol_file");
    auto network = make_network(read_text(source), source,
                                mxlite::load_params(&pointed(params_file, "params_file")),
                                device_of(device_type, device_id), {});
    *out = handle_of(std::make_unique<Predictor>(
        std::move(network), given_inputs(num_inputs, names, ndims, shapes, dtypes)));
  });
}

int mxlite_predict_create(const char* symbol, size_t symbol_size, const void* params,
                          size_t params_size, int device_type, int device_id, int num_inputs,
                          const char* const* names, const int* ndims, const int64_t* shapes,
                          const int* dtypes, int num_outputs, const char* const* outputs,
                          mxlite_predictor** out) {
  return c_status(__func__, [&] {
    pointed(out, "out");
    auto network =
        network_of({&pointed(symbol, "symbol"), symbol_size}, params, params_size,
                   device_of(device_type, device_id), texts(num_outputs, outputs, "outputs"));
    *out = handle_of(std::make_unique<Predictor>(
        std::move(network), given_inputs(num_inputs, names, ndims, shapes, dtypes)));
  });
}

int mxlite_predict_reshape(mxlite_predictor* predictor, int num_inputs, const char* const* names,
                           const int* ndims, const int64_t* shapes, mxlite_predictor** out) {
  return c_status(__func__, [&] {
    pointed(out, "out");
    *out = handle_of(Predictors::get().find(predictor)->reshaped(
        given_inputs(num_inputs, names, ndims, shapes, nullptr)));
  });
}

int mxlite_predict_free(mxlite_predictor* predictor) {
  return c_status(__func__, [&] {
    if (predictor) Predictors::get().remove(predictor);
  });
}

int mxlite_predict_num_inputs(mxlite_predictor* predictor, int* count) {
  return c_status(__func__, [&] {
    const size_t size = Predictors::get().find(predictor)->inputs().size();
    pointed(count, "count") = static_cast<int>(size);
  });
}

int mxlite_predict_num_outputs(mxlite_predictor* predictor, int* count) {
  return c_status(__func__, [&] {
    const size_t size = Predictors::get().find(predictor)->outputs().size();
    pointed(count, "count") = static_cast<int>(size);
  });
}

int mxlite_predict_find_input(mxlite_predictor* predictor, const char* name, int* index) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    pointed(index, "index") =
        static_cast<int>(index_of(found->inputs(), &pointed(name, "name"), "input"));
  });
}

int mxlite_predict_find_output(mxlite_predictor* predictor, const char* name, int* index) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    pointed(index, "index") =
        static_cast<int>(index_of(found->outputs(), &pointed(name, "name"), "output"));
  });
}

int mxlite_predict_input(mxlite_predictor* predictor, int index, const char** name, int* dtype,
                         int* ndim, const int64_t** shape) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    const size_t checked = checked_index(index, found->inputs(), "input");
    describe(found->inputs()[checked], name, dtype, ndim, shape);
  });
}

int mxlite_predict_output(mxlite_predictor* predictor, int index, const char** name, int* dtype,
                          int* ndim, const int64_t** shape) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    const size_t checked = checked_index(index, found->outputs(), "output");
    describe(found->outputs()[checked], name, dtype, ndim, shape);
  });
}

int mxlite_predict_set_input(mxlite_predictor* predictor, int index, const void* data,
                             size_t bytes) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    const auto* first = &pointed(static_cast<const std::byte*>(data), "data");
    found->set_input(checked_index(index, found->inputs(), "input"), {first, bytes});
  });
}

int mxlite_predict_forward(mxlite_predictor* predictor) {
  return c_status(__func__, [&] { Predictors::get().find(predictor)->forward(); });
}

int mxlite_predict_get_output(mxlite_predictor* predictor, int index, void* data, size_t bytes) {
  return c_status(__func__, [&] {
    const auto found = Predictors::get().find(predictor);
    auto* first = &pointed(static_cast<std::byte*>(data), "data");
    found->get_output(checked_index(index, found->outputs(), "output"), {first, bytes});
  });
}

}  // extern "C"
