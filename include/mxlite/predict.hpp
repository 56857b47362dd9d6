// C++17 wrapper of <mxlite/predict.h>. The class Predictor frees itself and throws
// std::runtime_error.
#ifndef MXLITE_PREDICT_HPP_
#define MXLITE_PREDICT_HPP_

#include <mxlite/predict.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mxlite {

// Type code of a C++ type, such as MXLITE_FLOAT32 for float.
template <class T>
struct PredictType;
#define MXLITE_PREDICT_TYPE(type, code_of_type) \
  template <>                                   \
  struct PredictType<type> {                    \
    static constexpr int code = code_of_type;   \
  };
MXLITE_PREDICT_TYPE(float, MXLITE_FLOAT32)
MXLITE_PREDICT_TYPE(double, MXLITE_FLOAT64)
MXLITE_PREDICT_TYPE(int8_t, MXLITE_INT8)
MXLITE_PREDICT_TYPE(uint8_t, MXLITE_UINT8)
MXLITE_PREDICT_TYPE(int32_t, MXLITE_INT32)
MXLITE_PREDICT_TYPE(int64_t, MXLITE_INT64)
#undef MXLITE_PREDICT_TYPE

struct PredictInput {
  std::string name;
  std::vector<int64_t> shape;
  int dtype = MXLITE_INFERRED;
};

// Name, type and shape of an input or output.
struct PredictValue {
  std::string name;
  int dtype;
  std::vector<int64_t> shape;
  size_t size() const {
    size_t product = 1;
    for (const int64_t extent : shape) product *= static_cast<size_t>(extent);
    return product;
  }
};

// Use one object per thread. See share().
class Predictor {
 public:
  struct Device {
    int type = MXLITE_CPU;
    int id = 0;
  };

  Predictor(const std::string& symbol_file, const std::string& params_file,
            const std::vector<PredictInput>& inputs, Device device = {MXLITE_CPU, 0}) {
    const Arguments given(inputs);
    own([&](mxlite_predictor** out) {
      return mxlite_predict_create_from_files(
          symbol_file.c_str(), params_file.c_str(), device.type, device.id, given.count(),
          given.names.data(), given.ndims.data(), given.shapes.data(), given.dtypes.data(), out);
    });
  }

  // Reads the contents of the two files from memory. `outputs` replace the network's outputs unless
  // the list is empty.
  static Predictor from_memory(const std::string& symbol, const void* params, size_t params_size,
                               const std::vector<PredictInput>& inputs,
                               const std::vector<std::string>& outputs = {},
                               Device device = {MXLITE_CPU, 0}) {
    const Arguments given(inputs);
    std::vector<const char*> names;
    for (const std::string& name : outputs) names.push_back(name.c_str());
    Predictor made;
    made.own([&](mxlite_predictor** out) {
      return mxlite_predict_create(symbol.data(), symbol.size(), params, params_size, device.type,
                                   device.id, given.count(), given.names.data(), given.ndims.data(),
                                   given.shapes.data(), given.dtypes.data(),
                                   static_cast<int>(names.size()), names.data(), out);
    });
    return made;
  }

  // Returns a predictor for other shapes. It shares the weights.
  Predictor reshaped(const std::vector<PredictInput>& inputs) const {
    const Arguments given(inputs);
    Predictor made;
    made.own([&](mxlite_predictor** out) {
      return mxlite_predict_reshape(handle_.get(), given.count(), given.names.data(),
                                    given.ndims.data(), given.shapes.data(), out);
    });
    return made;
  }
  // Returns a predictor for another thread. It shares the weights.
  Predictor share() const { return reshaped({}); }

  std::vector<PredictValue> inputs() const {
    return values(mxlite_predict_num_inputs, mxlite_predict_input);
  }
  std::vector<PredictValue> outputs() const {
    return values(mxlite_predict_num_outputs, mxlite_predict_output);
  }

  template <class T>
  void set_input(const std::string& name, const std::vector<T>& data) {
    int index = 0, dtype = 0;
    check(mxlite_predict_find_input(handle_.get(), name.c_str(), &index));
    check(mxlite_predict_input(handle_.get(), index, nullptr, &dtype, nullptr, nullptr));
    check_type<T>(name, dtype);
    check(mxlite_predict_set_input(handle_.get(), index, data.data(), data.size() * sizeof(T)));
  }

  void forward() { check(mxlite_predict_forward(handle_.get())); }

  // Waits for the computation.
  template <class T = float>
  std::vector<T> output(int index = 0) const {
    const PredictValue described = value(mxlite_predict_output, index);
    check_type<T>(described.name, described.dtype);
    std::vector<T> data(described.size());
    check(mxlite_predict_get_output(handle_.get(), index, data.data(), data.size() * sizeof(T)));
    return data;
  }
  template <class T = float>
  std::vector<T> output(const std::string& name) const {
    int index = 0;
    check(mxlite_predict_find_output(handle_.get(), name.c_str(), &index));
    return output<T>(index);
  }

 private:
  struct Arguments {
    explicit Arguments(const std::vector<PredictInput>& inputs) {
      for (const PredictInput& input : inputs) {
        names.push_back(input.name.c_str());
        ndims.push_back(static_cast<int>(input.shape.size()));
        shapes.insert(shapes.end(), input.shape.begin(), input.shape.end());
        dtypes.push_back(input.dtype);
      }
    }
    int count() const { return static_cast<int>(names.size()); }
    std::vector<const char*> names;
    std::vector<int> ndims, dtypes;
    std::vector<int64_t> shapes;
  };

  Predictor() = default;

  static void check(int status) {
    if (status != 0) throw std::runtime_error(mxlite_predict_error());
  }
  template <class T>
  static void check_type(const std::string& name, int dtype) {
    if (dtype != PredictType<T>::code)
      throw std::runtime_error("mxlite::Predictor: the type of '" + name +
                               "' must be that of the " + "network, code " + std::to_string(dtype) +
                               ", got code " + std::to_string(PredictType<T>::code));
  }
  template <class Create>
  void own(Create create) {
    mxlite_predictor* made = nullptr;
    check(create(&made));
    handle_.reset(made);
  }
  template <class Describe>
  PredictValue value(Describe describe, int index) const {
    const char* name = nullptr;
    int dtype = 0, ndim = 0;
    const int64_t* shape = nullptr;
    check(describe(handle_.get(), index, &name, &dtype, &ndim, &shape));
    return {name, dtype, {shape, shape + ndim}};
  }
  template <class Count, class Describe>
  std::vector<PredictValue> values(Count count, Describe describe) const {
    int size = 0;
    check(count(handle_.get(), &size));
    std::vector<PredictValue> found;
    for (int i = 0; i < size; ++i) found.push_back(value(describe, i));
    return found;
  }

  struct Free {
    void operator()(mxlite_predictor* handle) const { mxlite_predict_free(handle); }
  };
  std::unique_ptr<mxlite_predictor, Free> handle_;
};

}  // namespace mxlite

#endif  // MXLITE_PREDICT_HPP_
