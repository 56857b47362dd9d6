#include "cpp/ops/vision/crop.h"

#include <cstring>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void crop_window_native(KernelContext&, const CropParams& p, Inputs in, Outputs out) {
  const Shape &data = in[0].shape, &part = out[0].shape;
  const auto [first_row, first_column] = p.start(data, part);
  const int64_t size = static_cast<int64_t>(dtype_size(in[0].dtype));
  cpu::parallel_for(part[0] * part[1], part[2] * part[3],
                    [&, row = first_row, column = first_column](int64_t plane) {
                      const char* from =
                          in[0].as<char>() + ((plane * data[2] + row) * data[3] + column) * size;
                      char* to = out[0].as<char>() + plane * part[2] * part[3] * size;
                      for (int64_t y = 0; y < part[2]; ++y)
                        std::memcpy(to + y * part[3] * size, from + y * data[3] * size,
                                    static_cast<size_t>(part[3] * size));
                    });
}

}  // namespace

static const Registration crop_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<crop_window_native>("Crop");
});

}  // namespace mxlite
