// Rows along the axis are read in blocks of neighbouring inner positions, so that any axis reads
// memory in order. Sums are taken in double: rows may be long.
#include "cpp/ops/nn/softmax.h"

#include <cmath>
#include <limits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/softmax.h"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/nn/register.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

enum class Form { kSoftmax, kLogSoftmax, kSoftmin };
constexpr int64_t kBlock = 16;

int64_t row_length(const SoftmaxParams& p, const TensorRef* length, int64_t row, int64_t n) {
  if (!p.use_length) return n;
  const int64_t given =
      length->dtype == DType::kInt32 ? length->as<int32_t>()[row] : length->as<int64_t>()[row];
  return std::clamp<int64_t>(given, 0, n);
}

// fn(first element, row index, rows of the block, stride along the axis)
template <class F>
void for_blocks(const ChannelBlocks& b, F&& fn) {
  const int64_t blocks = (b.inner + kBlock - 1) / kBlock;
  cpu::parallel_for(b.outer * blocks, b.channels * std::min(kBlock, b.inner) * 2, [&](int64_t i) {
    const int64_t outer = i / blocks, inner = i % blocks * kBlock;
    fn(outer * b.channels * b.inner + inner, outer * b.inner + inner,
       std::min(kBlock, b.inner - inner));
  });
}

template <Form kForm, class T, class To>
void forward_block(const SoftmaxParams& p, const T* x, To* y, int64_t n, int64_t stride,
                   int64_t rows, const int64_t* lengths) {
  using Acc = ComputeType<T>;
  const Acc factor =
      static_cast<Acc>((kForm == Form::kSoftmin ? -1.0 : 1.0) / p.temperature.value_or(1.0));
  Acc top[kBlock];
  double sum[kBlock] = {};
  std::fill_n(top, rows, -std::numeric_limits<Acc>::infinity());
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r)
      if (k < lengths[r]) top[r] = std::max(top[r], static_cast<Acc>(x[k * stride + r]) * factor);
  // A row of -inf only has no maximum to subtract; its exponentials are 0 / 0 as in NumPy.
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r)
      if (k < lengths[r]) sum[r] += std::exp(static_cast<Acc>(x[k * stride + r]) * factor - top[r]);
  Acc scale[kBlock];
  for (int64_t r = 0; r < rows; ++r)
    scale[r] = static_cast<Acc>(kForm == Form::kLogSoftmax ? std::log(sum[r]) : 1 / sum[r]);
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < rows; ++r) {
      const Acc shifted = static_cast<Acc>(x[k * stride + r]) * factor - top[r];
      const Acc v = kForm == Form::kLogSoftmax ? shifted - scale[r] : std::exp(shifted) * scale[r];
      y[k * stride + r] = k < lengths[r] ? static_cast<To>(v) : To(0);
    }
}

template <Form kForm>
void run_forward(const SoftmaxParams& p, const ChannelBlocks& b, Inputs in, Outputs out) {
  dispatch_floating("softmax", in[0].dtype, [&]<class T>(T) {
    dispatch_floating("softmax", out[0].dtype, [&]<class To>(To) {
      for_blocks(b, [&](int64_t at, int64_t row, int64_t rows) {
        int64_t lengths[kBlock];
        for (int64_t r = 0; r < rows; ++r)
          lengths[r] = row_length(p, in.size() > 1 ? &in[1] : nullptr, row + r, b.channels);
        forward_block<kForm>(p, in[0].as<T>() + at, out[0].as<To>() + at, b.channels, b.inner, rows,
                             lengths);
      });
    });
  });
}

// softmax: y * (g - sum(g y)); log_softmax: g - exp(y) * sum(g); both times factor.
template <Form kForm>
void run_backward(const SoftmaxParams& p, const ChannelBlocks& b, Inputs in, Outputs out) {
  const double factor = (kForm == Form::kSoftmin ? -1.0 : 1.0) / p.temperature.value_or(1.0);
  dispatch_floating("softmax", in[1].dtype, [&]<class T>(T) {
    dispatch_floating("softmax", out[0].dtype, [&]<class To>(To) {
      using Acc = ComputeType<T>;
      for_blocks(b, [&](int64_t at, int64_t row, int64_t rows) {
        const T *grad = in[0].as<T>() + at, *y = in[1].as<T>() + at;
        To* target = out[0].as<To>() + at;
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t length =
              row_length(p, in.size() > 2 ? &in[2] : nullptr, row + r, b.channels);
          double sum = 0;
          for (int64_t k = 0; k < length; ++k) {
            const Acc g = static_cast<Acc>(grad[k * b.inner + r]);
            sum += kForm == Form::kLogSoftmax ? g : g * static_cast<Acc>(y[k * b.inner + r]);
          }
          for (int64_t k = 0; k < b.channels; ++k) {
            const Acc g = static_cast<Acc>(grad[k * b.inner + r]);
            const Acc v = static_cast<Acc>(y[k * b.inner + r]);
            const Acc value = kForm == Form::kLogSoftmax ? g - std::exp(v) * static_cast<Acc>(sum)
                                                         : v * (g - static_cast<Acc>(sum));
            target[k * b.inner + r] =
                k < length ? static_cast<To>(static_cast<Acc>(value * factor)) : To(0);
          }
        }
      });
    });
  });
}

template <Form kForm>
void softmax_native(KernelContext&, const SoftmaxParams& p, Inputs in, Outputs out) {
  run_forward<kForm>(p, channel_blocks(in[0].shape, p.axis), in, out);
}
template <Form kForm>
void softmax_backward_native(KernelContext&, const SoftmaxGradParams& p, Inputs in, Outputs out) {
  run_backward<kForm>(p, channel_blocks(in[1].shape, p.axis), in, out);
}

void softmax_activation_native(KernelContext&, const SoftmaxActivationParams& p, Inputs in,
                               Outputs out) {
  run_forward<Form::kSoftmax>({}, p.blocks(in[0].shape), in, out);
}
void softmax_activation_backward_native(KernelContext&, const SoftmaxActivationParams& p, Inputs in,
                                        Outputs out) {
  run_backward<Form::kSoftmax>({}, p.blocks(in[1].shape), in, out);
}

}  // namespace

void cpu::softmax_forward(const ChannelBlocks& b, Inputs in, Outputs out) {
  run_forward<Form::kSoftmax>({}, b, in.first(1), out);
}

void register_softmax_cpu(OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<softmax_native<Form::kSoftmax>>("softmax", kCPU);
  ops.kernel<softmax_native<Form::kLogSoftmax>>("log_softmax", kCPU);
  ops.kernel<softmax_native<Form::kSoftmin>>("softmin", kCPU);
  ops.kernel<softmax_backward_native<Form::kSoftmax>>("_softmax_backward", kCPU);
  ops.kernel<softmax_backward_native<Form::kLogSoftmax>>("_log_softmax_backward", kCPU);
  ops.kernel<softmax_backward_native<Form::kSoftmin>>("_softmin_backward", kCPU);
  ops.kernel<softmax_activation_native>("SoftmaxActivation", kCPU);
  ops.kernel<softmax_activation_backward_native>("_softmax_activation_backward", kCPU);
}

}  // namespace mxlite
