// sort, argsort, topk.
#pragma once
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "cpp/ops/attr.h"

namespace mxlite {

struct SortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  static constexpr auto fields() {
    return std::tuple(field("axis", &SortParams::axis, "Axis that is sorted; None flattens."),
                      field("is_ascend", &SortParams::is_ascend, "Smallest first."));
  }
};

struct ArgsortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(field("axis", &ArgsortParams::axis, "Axis that is sorted; None flattens."),
                      field("is_ascend", &ArgsortParams::is_ascend, "Smallest first."),
                      field("dtype", &ArgsortParams::dtype, "Type of the indices."));
  }
};

enum class TopkResult : uint8_t { kIndices, kValue, kMask, kBoth };
template <>
struct EnumNames<TopkResult> {
  static constexpr std::array<std::pair<const char*, TopkResult>, 4> names = {
      {{"indices", TopkResult::kIndices},
       {"value", TopkResult::kValue},
       {"mask", TopkResult::kMask},
       {"both", TopkResult::kBoth}}};
};

struct TopkParams {
  std::optional<int> axis = -1;
  int64_t k = 1;
  TopkResult ret_typ = TopkResult::kIndices;
  bool is_ascend = false;
  DType dtype = DType::kFloat32;
  static constexpr auto fields() {
    return std::tuple(field("axis", &TopkParams::axis, "Axis that is searched; None flattens."),
                      field("k", &TopkParams::k, "How many elements; below 1: all, sorted."),
                      field("ret_typ", &TopkParams::ret_typ,
                            "indices, value, a mask of data's shape, or both values and indices."),
                      field("is_ascend", &TopkParams::is_ascend, "Take the smallest elements."),
                      field("dtype", &TopkParams::dtype, "Type of the indices."));
  }
};

struct AlongAxisParams {
  int axis = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("axis", &AlongAxisParams::axis, "Axis that is indexed."));
  }
};

struct PutAlongAxisParams {
  Shape shape;
  int axis = -1;
  static constexpr auto fields() {
    return std::tuple(required_field("shape", &PutAlongAxisParams::shape, "Shape of the output."),
                      required_field("axis", &PutAlongAxisParams::axis, "Axis that is indexed."));
  }
};

// Sizes of data viewed as (outer, length, inner) around the sorted axis.
struct SortView {
  int64_t outer, length, inner;
};
SortView sort_view(const char* op, std::optional<int> axis, const Shape& shape);

}  // namespace mxlite
