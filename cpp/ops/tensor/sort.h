// sort, argsort, topk.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

struct SortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  MX_FIELDS(SortParams, MX_FIELD(axis, "Axis that is sorted; None sorts the flattened array."),
            MX_FIELD(is_ascend, "Whether the order is ascending."))
};

struct ArgsortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;
  MX_FIELDS(ArgsortParams, MX_FIELD(axis, "Axis that is sorted; None sorts the flattened array."),
            MX_FIELD(is_ascend, "Whether the order is ascending."),
            MX_FIELD(dtype, "Element type of the indices."))
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
  MX_FIELDS(TopkParams, MX_FIELD(axis, "Axis that is searched; None searches the flattened array."),
            MX_FIELD(k, "Number of elements; 0 or less: all elements."),
            MX_FIELD(ret_typ,
                     "What is returned: indices, values, both (values, then indices), or a mask of "
                     "data's shape with 1 at the selected elements."),
            MX_FIELD(is_ascend, "Whether to select the smallest elements, in ascending order."),
            MX_FIELD(dtype, "Element type of the indices."))
};

struct AlongAxisParams {
  int axis = -1;
  MX_FIELDS(AlongAxisParams, MX_REQUIRED_FIELD(axis, "Axis that indices select from."))
};

struct PutAlongAxisParams {
  Shape shape;
  int axis = -1;
  MX_FIELDS(PutAlongAxisParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_REQUIRED_FIELD(axis, "Axis that indices select from."))
};

// Sizes of data viewed as (outer, length, inner) around the sorted axis.
struct SortView {
  int64_t outer, length, inner;
};
SortView sort_view(const char* op, std::optional<int> axis, const Shape& shape);

}  // namespace mxlite
