#include "cpp/ops/nn/fully_connected.h"

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void fully_connected_native(KernelContext&, const FullyConnectedParams& p, Inputs in, Outputs out) {
  const auto [rows, columns] = fully_connected_rows(p, in[0].shape);
  const bool bias = !p.no_bias;
  // Stores the bias first and adds the product to it, so that 16-bit floats are rounded once.
  if (bias) {
    const size_t row_bytes = in[2].bytes();
    cpu::parallel_for(rows, p.num_hidden, [&](int64_t r) {
      std::copy_n(in[2].as<char>(), row_bytes, out[0].as<char>() + r * row_bytes);
    });
  }
  cpu::gemm(in[0].dtype, false, true, rows, p.num_hidden, columns, in[0].data, columns, in[1].data,
            columns, out[0].data, p.num_hidden, 1, bias ? 1 : 0);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<fully_connected_native>>("FullyConnected", {.inline_ok = false});
});

}  // namespace mxlite
