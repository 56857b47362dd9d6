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
            MX_FIELD(ctx, "Device, as in cpu(0); default: current."),
            MX_FIELD(dtype, "Element type; None means float32."))
};

struct LikeParams {
  OptionalDType dtype;
  MX_FIELDS(LikeParams,
            MX_FIELD(dtype, "Accepted and without effect, as in 1.x: the result has data's."))
};

struct FullParams {
  Shape shape;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  Number value = 0;
  MX_FIELDS(FullParams, MX_FIELD(shape, "Shape of the result.").at_least(-1),
            MX_FIELD(ctx, "Device, as in cpu(0); default: current."),
            MX_FIELD(dtype, "Element type; None means float32."),
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
  MX_FIELDS(ArangeParams, MX_REQUIRED_FIELD(start, "First value; the end if stop is None."),
            MX_FIELD(stop, "End, not included; None: count from 0 to start."),
            MX_FIELD(step, "Distance between values."),
            MX_FIELD(repeat, "How often each value occurs.").between(1, kMaxSize),
            MX_FIELD(infer_range,
                     "Symbols: let the users of the result decide how many values it has."),
            MX_FIELD(ctx, "Device, as in cpu(0); default: current."),
            MX_FIELD(dtype, "Element type; None means float32."))
};

struct EyeParams {
  int64_t N = 0, M = 0, k = 0;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(EyeParams, MX_REQUIRED_FIELD(N, "Number of rows.").at_least(0),
            MX_FIELD(M, "Number of columns; 0 means N.").at_least(0),
            MX_FIELD(k, "Diagonal: above the main one if positive."),
            MX_FIELD(ctx, "Device, as in cpu(0); default: current."),
            MX_FIELD(dtype, "Element type; None means float32."))
};

struct LinspaceParams {
  double start = 0, stop = 0;
  int64_t num = 0;
  bool endpoint = true;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  MX_FIELDS(LinspaceParams, MX_REQUIRED_FIELD(start, "First value."),
            MX_REQUIRED_FIELD(stop, "Last value, or the one after it."),
            MX_REQUIRED_FIELD(num, "How many values.").at_least(0),
            MX_FIELD(endpoint, "Whether stop is the last value."),
            MX_FIELD(ctx, "Device, as in cpu(0); default: current."),
            MX_FIELD(dtype, "Element type; None means float32."))
};

}  // namespace mxlite
