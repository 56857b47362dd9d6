// CPU kernels of the image operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_image_color_cpu(OpRegistry&);
void register_image_geometry_cpu(OpRegistry&);

void register_image_cpu(OpRegistry& ops) {
  register_image_color_cpu(ops);
  register_image_geometry_cpu(ops);
}

}  // namespace mxlite
