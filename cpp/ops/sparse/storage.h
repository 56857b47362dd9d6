// Parameters of operators that choose a storage type.
#pragma once
#include "cpp/ops/matrix/dot.h"

namespace mxlite::sparse {

struct CastStorageParams {
  StorageType stype = StorageType::kDefault;
  MX_FIELDS(CastStorageParams, MX_REQUIRED_FIELD(stype, "Storage type of the result."))
};

}  // namespace mxlite::sparse
