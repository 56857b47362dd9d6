// Processes blocks of rows with adjacent inner positions together, so that memory is read in order
// for any axis. Sums are computed in double, because rows may be long.
#include "cpp/ops/nn/softmax.h"

#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "cpp/ops/cpu/convert_run.h"
#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/softmax.h"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

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

int64_t block_size(const ChannelBlocks& b) { return b.channels * std::min(kBlock, b.inner); }

// Calls fn(first element, row index, rows of the block, thread) for all blocks.
void for_blocks(const ChannelBlocks& b, auto&& fn) {
  const int64_t blocks = (b.inner + kBlock - 1) / kBlock;
  cpu::parallel_ranges(b.outer * blocks, block_size(b) * 2,
                       [&](int64_t begin, int64_t end, int thread) {
                         for (int64_t i = begin; i < end; ++i) {
                           const int64_t outer = i / blocks, inner = i % blocks * kBlock;
                           fn(outer * b.channels * b.inner + inner, outer * b.inner + inner,
                              std::min(kBlock, b.inner - inner), thread);
                         }
                       });
}

// float64 results are computed in float64 for all input types.
template <class T, class To>
using ForwardType = std::conditional_t<std::is_same_v<To, double>, double, ComputeType<T>>;

// Processes neighboring rows together; loops over r vectorize.
template <Form kForm, class T, class To>
void forward_block(double factor_of_x, const T* x, To* y, int64_t n, int64_t stride, int64_t rows,
                   const int64_t* lengths) {
  using Acc = ForwardType<T, To>;
  const Acc factor = static_cast<Acc>(factor_of_x);
  Acc top[kBlock];
  double sum[kBlock] = {};
  std::fill_n(top, kBlock, -std::numeric_limits<Acc>::infinity());
  for (int64_t k = 0; k < n; ++k)
#pragma omp simd
    for (int64_t r = 0; r < rows; ++r) {
      const Acc v = static_cast<Acc>(x[k * stride + r]) * factor;
      top[r] = k < lengths[r] && v > top[r] ? v : top[r];
    }
  // If all elements of a row are -inf, the result is NaN as in NumPy.
  for (int64_t k = 0; k < n; ++k)
#pragma omp simd
    for (int64_t r = 0; r < rows; ++r) {
      const Acc e =
          pointwise::exp_of_negative(static_cast<Acc>(x[k * stride + r]) * factor - top[r]);
      sum[r] += static_cast<double>(k < lengths[r] ? e : Acc(0));
    }
  Acc scale[kBlock];
  for (int64_t r = 0; r < rows; ++r)
    scale[r] = static_cast<Acc>(kForm == Form::kLogSoftmax ? std::log(sum[r]) : 1 / sum[r]);
  for (int64_t k = 0; k < n; ++k)
#pragma omp simd
    for (int64_t r = 0; r < rows; ++r) {
      const Acc shifted = static_cast<Acc>(x[k * stride + r]) * factor - top[r];
      const Acc v = kForm == Form::kLogSoftmax ? shifted - scale[r]
                                               : pointwise::exp_of_negative(shifted) * scale[r];
      y[k * stride + r] = static_cast<To>(k < lengths[r] ? v : Acc(0));
    }
}

// Processes one row of adjacent elements; loops over k vectorize. Softmax stores its exponentials
// in y if y has their type; otherwise it computes them twice.
template <Form kForm, class T, class To>
void forward_row(double factor_of_x, const T* x, To* y, int64_t n, int64_t length) {
  using Acc = ForwardType<T, To>;
  constexpr bool kLog = kForm == Form::kLogSoftmax, kKept = !kLog && std::is_same_v<To, Acc>;
  constexpr int64_t kPart = 256;  // parts are summed in Acc, and their sums in double
  const Acc factor = static_cast<Acc>(factor_of_x);
  Acc top = -std::numeric_limits<Acc>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t k = 0; k < length; ++k) {
    const Acc v = static_cast<Acc>(x[k]) * factor;
    top = v > top ? v : top;
  }
  double sum = 0;
  for (int64_t begin = 0; begin < length; begin += kPart) {
    const int64_t end = std::min(length, begin + kPart);
    Acc part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t k = begin; k < end; ++k) {
      const Acc e = pointwise::exp_of_negative(static_cast<Acc>(x[k]) * factor - top);
      if constexpr (kKept) y[k] = e;
      part += e;
    }
    sum += static_cast<double>(part);
  }
  const Acc scale = static_cast<Acc>(kLog ? std::log(sum) : 1 / sum);
#pragma omp simd
  for (int64_t k = 0; k < length; ++k) {
    if constexpr (kKept) {
      y[k] *= scale;
    } else {
      const Acc shifted = static_cast<Acc>(x[k]) * factor - top;
      y[k] = static_cast<To>(kLog ? shifted - scale : pointwise::exp_of_negative(shifted) * scale);
    }
  }
  std::fill(y + length, y + n, To(0));
}

// 16-bit floats are converted block by block, because loops over float16 do not vectorize.
template <class T, class To>
constexpr bool kConverts = sizeof(T) == 2 && !std::is_same_v<To, double>;

// Float memory for `arrays` blocks per thread, allocated before the threads start.
class FloatBlocks {
 public:
  FloatBlocks(const ChannelBlocks& b, int64_t arrays)
      : size_(block_size(b) * arrays),
        memory_(
            std::make_unique_for_overwrite<float[]>(static_cast<size_t>(size_ * cpu_threads()))) {}
  float* of(int thread) const { return memory_.get() + thread * size_; }

 private:
  const int64_t size_;
  const std::unique_ptr<float[]> memory_;
};

// Copies n runs of neighboring rows.
template <class From, class To>
void convert_block(const From* from, int64_t from_stride, To* to, int64_t to_stride, int64_t n,
                   int64_t rows) {
  if (rows == 1 && from_stride == 1 && to_stride == 1) return cpu::convert_run(from, to, n);
  for (int64_t k = 0; k < n; ++k)
    cpu::convert_run(from + k * from_stride, to + k * to_stride, rows);
}

template <Form kForm>
void run_forward(const SoftmaxParams& p, const ChannelBlocks& b, Inputs in, Outputs out) {
  const double factor = (kForm == Form::kSoftmin ? -1.0 : 1.0) / p.temperature.value_or(1.0);
  dispatch_floating("softmax", in[0].dtype, [&]<class T>(T) {
    dispatch_floating("softmax", out[0].dtype, [&]<class To>(To) {
      const FloatBlocks memory(b, kConverts<T, To> ? 1 : 0);
      for_blocks(b, [&](int64_t at, int64_t row, int64_t rows, [[maybe_unused]] int thread) {
        int64_t lengths[kBlock];
        for (int64_t r = 0; r < rows; ++r)
          lengths[r] = row_length(p, in.size() > 1 ? &in[1] : nullptr, row + r, b.channels);
        const T* x = in[0].as<T>() + at;
        To* y = out[0].as<To>() + at;
        const auto forward = [&](const auto* from, auto* to, int64_t stride) {
          if (b.inner == 1)
            forward_row<kForm>(factor, from, to, b.channels, lengths[0]);
          else
            forward_block<kForm>(factor, from, to, b.channels, stride, rows, lengths);
        };
        if constexpr (kConverts<T, To>) {
          float* const block = memory.of(thread);
          convert_block(x, b.inner, block, rows, b.channels, rows);
          forward(block, block, rows);
          convert_block(block, rows, y, b.inner, b.channels, rows);
        } else {
          forward(x, y, b.inner);
        }
      });
    });
  });
}

// softmax: factor * y * (g - sum(g y)); log_softmax: factor * (g - exp(y) * sum(g)).
template <Form kForm, class Acc>
MX_HD Acc backward_term(Acc g, Acc y) {
  return kForm == Form::kLogSoftmax ? g : g * y;
}
template <Form kForm, class Acc>
MX_HD Acc backward_value(Acc g, Acc y, Acc sum) {
  return kForm == Form::kLogSoftmax ? g - pointwise::exp_of_negative(y) * sum : y * (g - sum);
}

template <Form kForm, class T, class To>
void backward_block(double factor, const T* grad, const T* y, To* target, int64_t n, int64_t stride,
                    int64_t rows, const int64_t* lengths) {
  using Acc = ComputeType<T>;
  double sum[kBlock] = {};
  for (int64_t k = 0; k < n; ++k)
#pragma omp simd
    for (int64_t r = 0; r < rows; ++r) {
      const Acc term = backward_term<kForm>(static_cast<Acc>(grad[k * stride + r]),
                                            static_cast<Acc>(y[k * stride + r]));
      sum[r] += static_cast<double>(k < lengths[r] ? term : Acc(0));
    }
  for (int64_t k = 0; k < n; ++k)
#pragma omp simd
    for (int64_t r = 0; r < rows; ++r) {
      const Acc v =
          backward_value<kForm>(static_cast<Acc>(grad[k * stride + r]),
                                static_cast<Acc>(y[k * stride + r]), static_cast<Acc>(sum[r]));
      target[k * stride + r] =
          static_cast<To>(k < lengths[r] ? v * static_cast<Acc>(factor) : Acc(0));
    }
}

template <Form kForm, class T, class To>
void backward_row(double factor, const T* grad, const T* y, To* target, int64_t n, int64_t length) {
  using Acc = ComputeType<T>;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < length; ++k)
    sum += static_cast<double>(
        backward_term<kForm>(static_cast<Acc>(grad[k]), static_cast<Acc>(y[k])));
#pragma omp simd
  for (int64_t k = 0; k < length; ++k)
    target[k] =
        static_cast<To>(backward_value<kForm>(static_cast<Acc>(grad[k]), static_cast<Acc>(y[k]),
                                              static_cast<Acc>(sum)) *
                        static_cast<Acc>(factor));
  std::fill(target + length, target + n, To(0));
}

template <Form kForm>
void run_backward(const SoftmaxParams& p, const ChannelBlocks& b, Inputs in, Outputs out) {
  const double factor = (kForm == Form::kSoftmin ? -1.0 : 1.0) / p.temperature.value_or(1.0);
  dispatch_floating("softmax", in[1].dtype, [&]<class T>(T) {
    dispatch_floating("softmax", out[0].dtype, [&]<class To>(To) {
      const FloatBlocks memory(b, kConverts<T, To> ? 2 : 0);
      for_blocks(b, [&](int64_t at, int64_t row, int64_t rows, [[maybe_unused]] int thread) {
        const T *grad = in[0].as<T>() + at, *y = in[1].as<T>() + at;
        To* target = out[0].as<To>() + at;
        int64_t lengths[kBlock];
        for (int64_t r = 0; r < rows; ++r)
          lengths[r] = row_length(p, in.size() > 2 ? &in[2] : nullptr, row + r, b.channels);
        const auto backward = [&](const auto* g, const auto* v, auto* to, int64_t stride) {
          if (b.inner == 1)
            backward_row<kForm>(factor, g, v, to, b.channels, lengths[0]);
          else
            backward_block<kForm>(factor, g, v, to, b.channels, stride, rows, lengths);
        };
        if constexpr (kConverts<T, To>) {
          float *const block = memory.of(thread), *const results = block + b.channels * rows;
          convert_block(grad, b.inner, block, rows, b.channels, rows);
          convert_block(y, b.inner, results, rows, b.channels, rows);
          backward(block, results, block, rows);
          convert_block(block, rows, target, b.inner, b.channels, rows);
        } else {
          backward(grad, y, target, b.inner);
        }
      });
    });
  });
}

template <Form kForm>
void softmax_native(KernelContext&, const SoftmaxParams& p, Inputs in, Outputs out) {
  run_forward<kForm>(p, p.blocks(in[0].shape), in, out);
}
template <Form kForm>
void softmax_backward_native(KernelContext&, const SoftmaxGradParams& p, Inputs in, Outputs out) {
  run_backward<kForm>(p, p.blocks(in[1].shape), in, out);
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

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<softmax_native<Form::kSoftmax>>>("softmax");
  ops.cpu_kernel<cpu::flushing<softmax_native<Form::kLogSoftmax>>>("log_softmax");
  ops.cpu_kernel<cpu::flushing<softmax_native<Form::kSoftmin>>>("softmin");
  ops.cpu_kernel<cpu::flushing<softmax_backward_native<Form::kSoftmax>>>("_softmax_backward");
  ops.cpu_kernel<cpu::flushing<softmax_backward_native<Form::kLogSoftmax>>>(
      "_log_softmax_backward");
  ops.cpu_kernel<cpu::flushing<softmax_backward_native<Form::kSoftmin>>>("_softmin_backward");
  ops.cpu_kernel<cpu::flushing<softmax_activation_native>>("SoftmaxActivation");
  ops.cpu_kernel<cpu::flushing<softmax_activation_backward_native>>("_softmax_activation_backward");
});

}  // namespace mxlite
