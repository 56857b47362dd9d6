// Parameters of operators that make arrays without inputs.
#pragma once
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// Throws if the shape of an array to make has an extent of -1. Only symbols may have such a shape,
// because consumers of the symbol can determine the extent.
inline void check_made_shape(const std::string& op, const Shape& shape) {
  for (const int64_t extent : shape)
    MX_CHECK(extent >= 0, op, ": parameter shape: ", shape, " given, at least 0 expected");
}

using OptionalDType = std::optional<DType>;

struct FillParams {
  Shape shape;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(field("shape", &FillParams::shape, "Shape of the result.").at_least(-1),
                      field("ctx", &FillParams::ctx, "Device, as in cpu(0); default: current."),
                      field("dtype", &FillParams::dtype, "Element type; None means float32."));
  }
};

struct LikeParams {
  OptionalDType dtype;
  static constexpr auto fields() {
    return std::tuple(field("dtype", &LikeParams::dtype,
                            "Accepted and without effect, as in 1.x: the result has data's."));
  }
};

struct FullParams {
  Shape shape;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  Number value = 0;
  static constexpr auto fields() {
    return std::tuple(field("shape", &FullParams::shape, "Shape of the result.").at_least(-1),
                      field("ctx", &FullParams::ctx, "Device, as in cpu(0); default: current."),
                      field("dtype", &FullParams::dtype, "Element type; None means float32."),
                      required_field("value", &FullParams::value, "Value of every element."));
  }
};

struct ArangeParams {
  Number start = 0;
  std::optional<Number> stop;
  Number step = 1;
  int64_t repeat = 1;
  bool infer_range = false;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(
        required_field("start", &ArangeParams::start, "First value; the end if stop is None."),
        field("stop", &ArangeParams::stop, "End, not included; None: count from 0 to start."),
        field("step", &ArangeParams::step, "Distance between values."),
        field("repeat", &ArangeParams::repeat, "How often each value occurs.").between(1, kMaxSize),
        field("infer_range", &ArangeParams::infer_range,
              "Symbols: let the users of the result decide how many values it has."),
        field("ctx", &ArangeParams::ctx, "Device, as in cpu(0); default: current."),
        field("dtype", &ArangeParams::dtype, "Element type; None means float32."));
  }
};

struct EyeParams {
  int64_t N = 0, M = 0, k = 0;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(required_field("N", &EyeParams::N, "Number of rows.").at_least(0),
                      field("M", &EyeParams::M, "Number of columns; 0 means N.").at_least(0),
                      field("k", &EyeParams::k, "Diagonal: above the main one if positive."),
                      field("ctx", &EyeParams::ctx, "Device, as in cpu(0); default: current."),
                      field("dtype", &EyeParams::dtype, "Element type; None means float32."));
  }
};

struct LinspaceParams {
  double start = 0, stop = 0;
  int64_t num = 0;
  bool endpoint = true;
  std::string ctx;
  OptionalDType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(
        required_field("start", &LinspaceParams::start, "First value."),
        required_field("stop", &LinspaceParams::stop, "Last value, or the one after it."),
        required_field("num", &LinspaceParams::num, "How many values.").at_least(0),
        field("endpoint", &LinspaceParams::endpoint, "Whether stop is the last value."),
        field("ctx", &LinspaceParams::ctx, "Device, as in cpu(0); default: current."),
        field("dtype", &LinspaceParams::dtype, "Element type; None means float32."));
  }
};

}  // namespace mxlite
