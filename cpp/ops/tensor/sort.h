// sort, argsort, topk.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

struct SortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  MX_FIELDS(SortParams, MX_FIELD(axis, "Axis that is sorted; None flattens."),
            MX_FIELD(is_ascend, "Smallest first."))
};

struct ArgsortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;
  MX_FIELDS(ArgsortParams, MX_FIELD(axis, "Axis that is sorted; None flattens."),
            MX_FIELD(is_ascend, "Smallest first."), MX_FIELD(dtype, "Type of the indices."))
};

enum class TopkResult : uint8_t { kIndices, kValue, kMask, kBoth };
MX_ENUM_NAMES(TopkResult, {"indices", E::kIndices}, {"value", E::kValue}, {"mask", E::kMask},
              {"both", E::kBoth})

struct TopkParams {
  std::optional<int> axis = -1;
  int64_t k = 1;
  TopkResult ret_typ = TopkResult::kIndices;
  bool is_ascend = false;
  DType dtype = DType::kFloat32;
  MX_FIELDS(TopkParams, MX_FIELD(axis, "Axis that is searched; None flattens."),
            MX_FIELD(k, "How many elements; below 1: all, sorted."),
            MX_FIELD(ret_typ,
                     "indices, value, a mask of data's shape, or both values and indices."),
            MX_FIELD(is_ascend, "Take the smallest elements."),
            MX_FIELD(dtype, "Type of the indices."))
};

struct AlongAxisParams {
  int axis = -1;
  MX_FIELDS(AlongAxisParams, MX_REQUIRED_FIELD(axis, "Axis that is indexed."))
};

struct PutAlongAxisParams {
  Shape shape;
  int axis = -1;
  MX_FIELDS(PutAlongAxisParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_REQUIRED_FIELD(axis, "Axis that is indexed."))
};

// Sizes of data viewed as (outer, length, inner) around the sorted axis.
struct SortView {
  int64_t outer, length, inner;
};
SortView sort_view(const char* op, std::optional<int> axis, const Shape& shape);

}  // namespace mxlite
