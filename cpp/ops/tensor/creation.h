// Parameters of operators that make arrays without inputs.
#pragma once
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// Throws if the shape of an array to make has an extent of -1. Only symbols may have such a shape,
// because consumers of the symbol can determine the extent.
inline void check_made_shape(const std::string& op, const Shape& shape) {
  for (const int64_t extent : shape)
    MX_CHECK(extent >= 0, op, ": entries of parameter shape must be at least 0, got ", shape);
}

using OptionalDType = std::optional<DType>;

struct FillParams {
  Shape shape;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(FillParams, MX_FIELD(shape, "Shape of the result.").at_least(-1),
            MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
            MX_FIELD(dtype, "Element type of the output; None means float32."))
};

struct LikeParams {
  OptionalDType dtype;
  MX_FIELDS(LikeParams,
            MX_FIELD(dtype, "Has no effect, as in MXNet 1.x: the output has the dtype of data."))
};

struct FullParams {
  Shape shape;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  Number value = 0;
  MX_FIELDS(FullParams, MX_FIELD(shape, "Shape of the result.").at_least(-1),
            MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
            MX_FIELD(dtype, "Element type of the output; None means float32."),
            MX_REQUIRED_FIELD(value, "Value of every element."))
};

struct ArangeParams {
  Number start = 0;
  std::optional<Number> stop;
  Number step = 1;
  int64_t repeat = 1;
  bool infer_range = false;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(
      ArangeParams,
      MX_REQUIRED_FIELD(start, "First value, or the end of the interval if stop is None."),
      MX_FIELD(stop,
               "End of the interval, which is excluded; None: the interval is from 0 to start."),
      MX_FIELD(step, "Difference of adjacent values."),
      MX_FIELD(repeat, "How many times each value is repeated.").between(1, kMaxSize),
      MX_FIELD(
          infer_range,
          "Whether symbols infer the number of values from the operators that use the result."),
      MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
      MX_FIELD(dtype, "Element type of the output; None means float32."))
};

struct EyeParams {
  int64_t N = 0, M = 0, k = 0;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(EyeParams, MX_REQUIRED_FIELD(N, "Number of rows.").at_least(0),
            MX_FIELD(M, "Number of columns; 0 means as many as rows.").at_least(0),
            MX_FIELD(k,
                     "Diagonal of the ones: positive above the main diagonal, negative below it."),
            MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
            MX_FIELD(dtype, "Element type of the output; None means float32."))
};

struct LinspaceParams {
  double start = 0, stop = 0;
  int64_t num = 0;
  bool endpoint = true;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(LinspaceParams, MX_REQUIRED_FIELD(start, "First value."),
            MX_REQUIRED_FIELD(stop,
                              "Last value, or the value after the last one if endpoint is False."),
            MX_REQUIRED_FIELD(num, "Number of values.").at_least(0),
            MX_FIELD(endpoint, "Whether stop is the last value."),
            MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
            MX_FIELD(dtype, "Element type of the output; None means float32."))
};

}  // namespace mxlite
