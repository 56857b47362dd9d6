#include "cpp/ops/nn/softmax_output.h"

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/softmax.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void softmax_output_native(KernelContext&, const SoftmaxOutputParams& p, Inputs in, Outputs out) {
  cpu::softmax_forward(p.blocks(in[0].shape), in, out);
}

// Returns the divisor of the gradient. As in 1.x, only "valid" ignores the positions of a sample.
template <class T>
double divisor(const SoftmaxOutputParams& p, const ChannelBlocks& b, const TensorRef& label) {
  double positions = p.multi_output && p.normalization != LossNormalization::kValid
                         ? static_cast<double>(b.inner)
                         : 1.0;
  if (p.normalization == LossNormalization::kBatch) {
    positions *= static_cast<double>(b.outer);
  } else if (p.normalization == LossNormalization::kValid) {
    int64_t valid = 0;
    for (int64_t i = 0; i < label.size(); ++i)
      valid += static_cast<int64_t>(static_cast<double>(label.as<T>()[i])) !=
               static_cast<int64_t>(p.ignore_label);
    positions *= static_cast<double>(std::max<int64_t>(valid, 1));
  }
  return std::max(positions, 1.0);
}

template <class T>
void index_gradient(const SoftmaxOutputParams& p, Inputs in, const TensorRef& out) {
  using Acc = ComputeType<T>;
  const ChannelBlocks b = p.blocks(in[0].shape);
  const Acc scale = static_cast<Acc>(p.grad_scale / divisor<T>(p, b, in[1]));
  const Acc alpha = static_cast<Acc>(p.smooth_alpha);
  const Acc other = b.channels > 1 ? alpha / static_cast<Acc>(b.channels - 1) : Acc(0);
  const T *y = in[0].as<T>(), *label = in[1].as<T>();
  const T* head = in.size() > 2 ? in[2].as<T>() : nullptr;
  cpu::parallel_for(b.outer * b.inner, b.channels, [&](int64_t row) {
    const int64_t first = row / b.inner * b.channels * b.inner + row % b.inner;
    const Acc given = static_cast<Acc>(label[row]);
    const int64_t wanted = static_cast<int64_t>(given);
    const bool ignored = p.use_ignore && wanted == static_cast<int64_t>(p.ignore_label);
    for (int64_t k = 0; k < b.channels; ++k) {
      const int64_t i = first + k * b.inner;
      Acc v = static_cast<Acc>(y[i]) - (k == wanted ? 1 - alpha : other);
      v = ignored ? Acc(0) : v * scale;
      if (head) v *= static_cast<Acc>(head[i]);
      out.as<T>()[i] = static_cast<T>(v);
    }
  });
}

void softmax_output_backward_native(KernelContext&, const SoftmaxOutputParams& p, Inputs in,
                                    Outputs out) {
  dispatch_floating("SoftmaxOutput", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    if (in[1].shape != in[0].shape) return index_gradient<T>(p, in, out[0]);
    const T *y = in[0].as<T>(), *label = in[1].as<T>();
    cpu::parallel_for(in[0].size(), 1, [&](int64_t i) {
      Acc v =
          (static_cast<Acc>(y[i]) - static_cast<Acc>(label[i])) * static_cast<Acc>(p.grad_scale);
      if (in.size() > 2) v *= static_cast<Acc>(in[2].as<T>()[i]);
      out[0].as<T>()[i] = static_cast<T>(v);
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<softmax_output_native>>("SoftmaxOutput");
  ops.cpu_kernel<cpu::flushing<softmax_output_backward_native>>("_softmax_output_backward");
});

}  // namespace mxlite
