// Schemas of the image operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_image_color(OpRegistry&);
void register_image_geometry(OpRegistry&);

void register_image(OpRegistry& ops) {
  register_image_color(ops);
  register_image_geometry(ops);
}

}  // namespace mxlite
