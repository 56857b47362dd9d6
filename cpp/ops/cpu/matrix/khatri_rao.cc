#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void khatri_rao_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t rows = out[0].shape[0], columns = out[0].shape[1];
  dispatch_dtype(out[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(rows, 4 * columns, [&](int64_t row) {
      T* const to = out[0].as<T>() + row * columns;
      for (int64_t c = 0; c < columns; ++c) {
        ComputeType<T> product = 1;
        int64_t rest = row;
        for (size_t i = in.size(); i-- > 0;) {
          const int64_t length = in[i].shape[0];
          product = static_cast<ComputeType<T>>(
              product * static_cast<ComputeType<T>>(in[i].as<T>()[rest % length * columns + c]));
          rest /= length;
        }
        to[c] = static_cast<T>(product);
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<&khatri_rao_native>>("khatri_rao");
});

}  // namespace mxlite
