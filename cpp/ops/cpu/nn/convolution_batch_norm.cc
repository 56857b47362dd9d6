// Convolution and BatchNorm by the kernels of the separate operators. This kernel is only a
// reference for tests of the GPU kernels: CPU graphs never contain this operator.
#include "cpp/ops/nn/convolution_batch_norm.h"

#include <vector>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void run(const char* op, KernelContext& ctx, const void* params, const std::vector<TensorRef>& in,
         const std::vector<TensorRef>& out) {
  const auto specs = [](const std::vector<TensorRef>& refs) {
    std::vector<TensorSpec> list;
    for (const TensorRef& t : refs) list.push_back({t.shape, t.dtype});
    return list;
  };
  const Kernel& kernel =
      ops().get(op).select_kernel(DeviceType::kCPU, params, specs(in), specs(out));
  kernel.run(ctx, params, in, out);
}

void add_up(const TensorRef& data, float* sums) {
  const int64_t channels = data.shape[data.shape.ndim() - 1];
  std::vector<double> total(static_cast<size_t>(2 * channels));
  dispatch_floating("_convolution_batch_norm", data.dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < data.size(); ++i) {
      const double x = static_cast<double>(data.as<T>()[i]);
      const auto c = static_cast<size_t>(i % channels);
      total[c] += x;
      total[c + static_cast<size_t>(channels)] += x * x;
    }
  });
  for (size_t i = 0; i < total.size(); ++i) sums[i] = static_cast<float>(total[i]);
}

void convolution_batch_norm(KernelContext& ctx, const ConvolutionBatchNormParams& p, Inputs in,
                            Outputs out) {
  const ConvolutionParams& convolution = p;
  const TensorRef& convolved = out[3];
  run("Convolution", ctx, &convolution, {in[0], in[1]}, {convolved});
  add_up(convolved, out[4].as<float>());
  std::vector<TensorRef> norm_inputs{convolved};
  norm_inputs.insert(norm_inputs.end(), in.begin() + 2, in.end());
  const BatchNormParams norm = p.norm();
  std::vector<TensorRef> norm_outputs{out[0], out[1], out[2]};
  if (p.added) norm_outputs.push_back(out[5]);
  run(p.norm_op(), ctx, &norm, norm_inputs, norm_outputs);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<&convolution_batch_norm>>("_convolution_batch_norm");
});

}  // namespace mxlite
