// Parameters of operators that choose a storage type.
#pragma once
#include "cpp/ops/matrix/dot.h"

namespace mxlite::sparse {

struct CastStorageParams {
  StorageType stype = StorageType::kDefault;
  static constexpr auto fields() {
    return std::tuple(
        required_field("stype", &CastStorageParams::stype, "Storage type of the result."));
  }
};

}  // namespace mxlite::sparse
