#include "cpp/ops/vision/register.h"

namespace mxlite {

void register_vision_cpu(OpRegistry& ops) {
  register_box_cpu(ops);
  register_crop_cpu(ops);
}

}  // namespace mxlite
