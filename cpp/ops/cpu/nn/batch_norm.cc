// Batch normalization over (outer, channels, inner). Each row is summed in float, and row sums are
// added in double. A second pass sums squared deviations, to avoid cancellation if the mean is
// large.
#include "cpp/ops/nn/batch_norm.h"

#include <cmath>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kBlock = 64;  // channels processed together if they are the last axis

// Calls fn(first channel, count) for blocks of channels.
void for_channels(const ChannelBlocks& b, auto&& fn) {
  const int64_t block = b.inner == 1 ? kBlock : 1;
  const int64_t blocks = (b.channels + block - 1) / block;
  cpu::parallel_for(blocks, b.outer * b.inner * block,
                    [&](int64_t i) { fn(i * block, std::min(block, b.channels - i * block)); });
}

struct Sums {
  double first[kBlock] = {}, second[kBlock] = {};
};

// Sums value(i, c) = {first, second} over all elements i of the channels [c0, c0 + count).
template <class Acc, class F>
void reduce(const ChannelBlocks& b, int64_t c0, int64_t count, Sums& sums, F&& value) {
  for (int64_t o = 0; o < b.outer; ++o) {
    const int64_t base = (o * b.channels + c0) * b.inner;
    if (b.inner == 1) {
      for (int64_t c = 0; c < count; ++c) {
        Acc first = 0, second = 0;
        value(base + c, c, first, second);
        sums.first[c] += first;
        sums.second[c] += second;
      }
    } else {
      Acc first = 0, second = 0;
#pragma omp simd reduction(+ : first, second)
      for (int64_t i = 0; i < b.inner; ++i) value(base + i, 0, first, second);
      sums.first[0] += first;
      sums.second[0] += second;
    }
  }
}

// Calls fn(i, c) for all elements of the channels.
void for_elements(const ChannelBlocks& b, int64_t c0, int64_t count, auto&& fn) {
  for (int64_t o = 0; o < b.outer; ++o) {
    const int64_t base = (o * b.channels + c0) * b.inner;
    if (b.inner == 1) {
      for (int64_t c = 0; c < count; ++c) fn(base + c, c);
    } else {
      for (int64_t i = 0; i < b.inner; ++i) fn(base + i, 0);
    }
  }
}

enum class End : uint8_t { kPlain, kRelu, kAddRelu };  // operation that follows the normalization

template <class T, class S, End kEnd>
void forward(const KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  const ChannelBlocks b = channel_blocks(in[0].shape, p.axis);
  const bool batch_stats = ctx.training && !p.use_global_stats;
  const T* x = in[0].as<T>();
  const T* added = kEnd == End::kAddRelu ? in[5].as<T>() : nullptr;
  T* y = out[0].as<T>();
  S *running_mean = in[3].as<S>(), *running_var = in[4].as<S>();
  const double count = static_cast<double>(b.outer * b.inner);
  for_channels(b, [&](int64_t c0, int64_t n) {
    Acc mean[kBlock], scale[kBlock], shift[kBlock];
    double var[kBlock];
    if (batch_stats && count > 0) {
      Sums sums, squares;
      reduce<Acc>(b, c0, n, sums, [&](int64_t i, int64_t, Acc& s, Acc&) { s += Acc(x[i]); });
      for (int64_t c = 0; c < n; ++c) mean[c] = static_cast<Acc>(sums.first[c] / count);
      reduce<Acc>(b, c0, n, squares, [&](int64_t i, int64_t c, Acc& s, Acc& d) {
        const Acc v = Acc(x[i]) - mean[c];
        s += v * v;
        d += v;
      });
      for (int64_t c = 0; c < n; ++c) {
        // Corrects the variance for `rest`, the rounding error of the mean in type Acc.
        const double rest = squares.second[c] / count;
        var[c] = squares.first[c] / count - rest * rest;
        const double m = static_cast<double>(p.momentum);
        const double used_mean = sums.first[c] / count;
        running_mean[c0 + c] = static_cast<S>(
            static_cast<Acc>(static_cast<double>(running_mean[c0 + c]) * m + used_mean * (1 - m)));
        running_var[c0 + c] = static_cast<S>(
            static_cast<Acc>(static_cast<double>(running_var[c0 + c]) * m + var[c] * (1 - m)));
      }
    } else {
      for (int64_t c = 0; c < n; ++c) {
        mean[c] = static_cast<Acc>(running_mean[c0 + c]);
        var[c] = static_cast<double>(running_var[c0 + c]);
      }
    }
    for (int64_t c = 0; c < n; ++c) {
      const double inv_std = 1 / std::sqrt(var[c] + p.eps);
      const double gamma = p.fix_gamma ? 1.0 : static_cast<double>(in[1].as<S>()[c0 + c]);
      out[1].as<S>()[c0 + c] = static_cast<S>(mean[c]);
      out[2].as<S>()[c0 + c] = static_cast<S>(static_cast<Acc>(inv_std));
      if (out.size() > 3) out[3].as<S>()[c0 + c] = static_cast<S>(static_cast<Acc>(var[c]));
      scale[c] = static_cast<Acc>(gamma * inv_std);
      shift[c] = static_cast<Acc>(in[2].as<S>()[c0 + c]);
    }
    for_elements(b, c0, n, [&](int64_t i, int64_t c) {
      Acc v = (Acc(x[i]) - mean[c]) * scale[c] + shift[c];
      // Rounds to T before the addition, as a separate BatchNorm operator would.
      if constexpr (kEnd == End::kAddRelu) v = Acc(static_cast<T>(v)) + Acc(added[i]);
      y[i] = static_cast<T>(kEnd != End::kPlain && v < 0 ? Acc(0) : v);  // keeps NaN
    });
  });
}

// Calls fn with the types of data and of the statistics.
void dispatch_types(DType data, DType stats, auto&& fn) {
  dispatch_floating("BatchNorm", data, [&]<class T>(T t) {
    if constexpr (!std::is_same_v<T, ComputeType<T>>)
      if (stats == DType::kFloat32) return fn(t, float{});
    fn(t, t);
  });
}

template <End kEnd>
void batch_norm_native(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  dispatch_types(in[0].dtype, in[1].dtype,
                 [&]<class T, class S>(T, S) { forward<T, S, kEnd>(ctx, p, in, out); });
}

void relu_again_native(KernelContext&, const BatchNormParams& p, Inputs in, Outputs out) {
  const ChannelBlocks b = channel_blocks(in[0].shape, p.axis);
  dispatch_types(in[0].dtype, in[1].dtype, [&]<class T, class S>(T, S) {
    using Acc = ComputeType<T>;
    const auto value = [&](size_t input, int64_t c) {
      return static_cast<Acc>(in[input].as<S>()[c]);
    };
    for_channels(b, [&](int64_t c0, int64_t n) {
      Acc mean[kBlock], scale[kBlock], shift[kBlock];
      for (int64_t c = 0; c < n; ++c) {
        mean[c] = value(3, c0 + c);
        scale[c] = (p.fix_gamma ? Acc(1) : value(1, c0 + c)) * value(4, c0 + c);
        shift[c] = value(2, c0 + c);
      }
      for_elements(b, c0, n, [&](int64_t i, int64_t c) {
        const Acc v = (Acc(in[0].as<T>()[i]) - mean[c]) * scale[c] + shift[c];
        out[0].as<T>()[i] = static_cast<T>(v < 0 ? Acc(0) : v);  // keeps NaN
      });
    });
  });
}

void sync_batch_norm_native(KernelContext& ctx, const SyncBatchNormParams& p, Inputs in,
                            Outputs out) {
  MX_CHECK_KIND(p.ndev == 1 || !ctx.training || p.use_global_stats, ErrorKind::kNotSupported,
                "_contrib_SyncBatchNorm: ndev must be 1 in training, got ", p.ndev, " for key '",
                p.key, "'; statistics of several devices are not shared");
  const TensorRef outputs[] = {out[0], out[1], out[3], out[2]};
  batch_norm_native<End::kPlain>(ctx, p, in, outputs);
}

// With batch statistics, for one channel of n elements and x_hat = (x - mean) * inv_std:
// grad = gamma * inv_std * (og - sum(og) / n - x_hat * sum(og * x_hat) / n).
// og is the gradient after relu: kRelu recomputes relu's input, kAddRelu reads its output.
template <class T, class S, End kEnd>
void backward(const BatchNormGradParams& p, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  constexpr bool kAdd = kEnd == End::kAddRelu;
  constexpr size_t kData = kAdd ? 2 : 1, kGamma = kData + 1;
  constexpr size_t kMean = kEnd == End::kRelu ? 4 : kGamma + 1, kInvStd = kMean + 1;
  const ChannelBlocks b = channel_blocks(in[kData].shape, p.axis);
  const T *output_grad = in[0].as<T>(), *x = in[kData].as<T>();
  const T* y = kAdd ? in[1].as<T>() : nullptr;
  T* data_grad = out[0].as<T>();
  T* added_grad = kAdd ? out[3].as<T>() : nullptr;
  const double count = static_cast<double>(b.outer * b.inner);
  for_channels(b, [&](int64_t c0, int64_t n) {
    Acc mean[kBlock], scale[kBlock], offset[kBlock], slope[kBlock];
    Acc shift[kBlock] = {};
    for (int64_t c = 0; c < n; ++c) {
      mean[c] = static_cast<Acc>(in[kMean].as<S>()[c0 + c]);
      const double gamma = p.fix_gamma ? 1.0 : static_cast<double>(in[kGamma].as<S>()[c0 + c]);
      scale[c] = static_cast<Acc>(gamma * static_cast<double>(in[kInvStd].as<S>()[c0 + c]));
      if (kEnd == End::kRelu) shift[c] = static_cast<Acc>(in[3].as<S>()[c0 + c]);
    }
    const auto grad = [&](int64_t i, int64_t c) {
      if constexpr (kEnd == End::kRelu)
        return (Acc(x[i]) - mean[c]) * scale[c] + shift[c] > 0 ? Acc(output_grad[i]) : Acc(0);
      if constexpr (kAdd) return Acc(y[i]) > 0 ? Acc(output_grad[i]) : Acc(0);
      return Acc(output_grad[i]);
    };
    Sums sums;
    reduce<Acc>(b, c0, n, sums, [&](int64_t i, int64_t c, Acc& s, Acc& d) {
      s += grad(i, c);
      d += grad(i, c) * (Acc(x[i]) - mean[c]);
    });
    for (int64_t c = 0; c < n; ++c) {
      const double inv_std = static_cast<double>(in[kInvStd].as<S>()[c0 + c]);
      const double gamma_grad = p.fix_gamma ? 0.0 : sums.second[c] * inv_std;
      out[1].as<S>()[c0 + c] = static_cast<S>(static_cast<Acc>(gamma_grad));
      out[2].as<S>()[c0 + c] = static_cast<S>(static_cast<Acc>(sums.first[c]));
      const bool through_stats = p.batch_stats && count > 0;
      offset[c] = through_stats ? static_cast<Acc>(sums.first[c] / count) : Acc(0);
      slope[c] =
          through_stats ? static_cast<Acc>(sums.second[c] * inv_std * inv_std / count) : Acc(0);
    }
    for_elements(b, c0, n, [&](int64_t i, int64_t c) {
      const Acc g = grad(i, c);
      if constexpr (kAdd) added_grad[i] = static_cast<T>(g);
      data_grad[i] = static_cast<T>(scale[c] * (g - offset[c] - (Acc(x[i]) - mean[c]) * slope[c]));
    });
  });
}

template <End kEnd>
void batch_norm_backward_native(KernelContext&, const BatchNormGradParams& p, Inputs in,
                                Outputs out) {
  dispatch_types(in[0].dtype, out[1].dtype,
                 [&]<class T, class S>(T, S) { backward<T, S, kEnd>(p, in, out); });
}

void add_relu_bits_native(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  batch_norm_native<End::kAddRelu>(ctx, p, in, out.first(3));
  uint8_t* const bits = out[3].as<uint8_t>();
  const int64_t n = out[0].size();
  dispatch_floating("BatchNorm", out[0].dtype, [&]<class T>(T) {
    const T* const y = out[0].as<T>();
    cpu::parallel_for(out[3].size(), 8, [&](int64_t byte) {
      unsigned passed = 0;
      for (int64_t k = 0; k < 8 && 8 * byte + k < n; ++k)
        passed |= static_cast<unsigned>(static_cast<ComputeType<T>>(y[8 * byte + k]) > 0) << k;
      bits[byte] = static_cast<uint8_t>(passed);
    });
  });
}

// Inputs: output_grad, bits, data, gamma, mean, inverse deviation, and other_grad if two_grads is
// set. The gradient that passes through relu is both the addend's gradient and the output gradient
// of a plain BatchNorm.
void add_relu_bits_backward_native(KernelContext& ctx, const BatchNormGradParams& p, Inputs in,
                                   Outputs out) {
  const uint8_t* const bits = in[1].as<uint8_t>();
  dispatch_floating("BatchNorm", in[0].dtype, [&]<class T>(T) {
    const T* const grad = in[0].as<T>();
    const T* const other = p.two_grads ? in[6].as<T>() : nullptr;
    T* const passed = out[3].as<T>();
    cpu::parallel_for(in[0].size(), 1, [&](int64_t i) {
      const T sum =
          other ? static_cast<T>(ComputeType<T>(grad[i]) + ComputeType<T>(other[i])) : grad[i];
      passed[i] = bits[i / 8] >> (i % 8) & 1 ? sum : T(0.0f);
    });
  });
  const TensorRef inputs[] = {out[3], in[2], in[3], in[4], in[5]};
  batch_norm_backward_native<End::kPlain>(ctx, p, inputs, out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<batch_norm_native<End::kPlain>>>("BatchNorm");
  ops.cpu_kernel<cpu::flushing<batch_norm_native<End::kRelu>>>("_contrib_BatchNormWithReLU");
  ops.cpu_kernel<cpu::flushing<batch_norm_native<End::kRelu>>>("_batch_norm_relu");
  ops.cpu_kernel<cpu::flushing<batch_norm_native<End::kAddRelu>>>("_batch_norm_add_relu");
  ops.cpu_kernel<cpu::flushing<add_relu_bits_native>>("_batch_norm_add_relu_bits");
  ops.cpu_kernel<cpu::flushing<add_relu_bits_backward_native>>(
      "_batch_norm_add_relu_bits_backward");
  ops.cpu_kernel<cpu::flushing<relu_again_native>>("_batch_norm_relu_again");
  ops.cpu_kernel<cpu::flushing<sync_batch_norm_native>>("_contrib_SyncBatchNorm");
  ops.cpu_kernel<cpu::flushing<batch_norm_backward_native<End::kPlain>>>("_batch_norm_backward");
  ops.cpu_kernel<cpu::flushing<batch_norm_backward_native<End::kRelu>>>(
      "_batch_norm_relu_backward");
  ops.cpu_kernel<cpu::flushing<batch_norm_backward_native<End::kAddRelu>>>(
      "_batch_norm_add_relu_backward");
});

}  // namespace mxlite
