#include "cpp/ops/vision/register.h"

namespace mxlite {

void register_vision(OpRegistry& ops) {
  register_box(ops);
  register_crop(ops);
}

}  // namespace mxlite
