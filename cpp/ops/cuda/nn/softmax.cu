// If the axis is the last axis, a row that fits into the registers of a warp is processed by one
// warp and read once; a longer row by one block. Otherwise one thread processes a row, because then
// neighboring threads read neighboring elements.
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "cpp/base/host_device.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/softmax.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/softmax.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

enum class Form : uint8_t { kSoftmax, kLogSoftmax, kSoftmin };

struct Rows {
  ChannelBlocks b;
  Form form;
  double factor;  // factor of the logits
  const void* length = nullptr;
  DType length_dtype = DType::kInt32;

  MX_HOST_DEVICE int64_t count() const { return b.outer * b.inner; }
  __device__ __forceinline__ int64_t first(int64_t row) const {
    return row / b.inner * b.channels * b.inner + row % b.inner;
  }
  __device__ __forceinline__ int64_t length_of(int64_t row) const {
    if (!length) return b.channels;
    const int64_t given = load_as<int64_t>(length, length_dtype, row);
    return given < 0 ? 0 : given < b.channels ? given : b.channels;
  }
};

struct Array {
  void* data;
  DType dtype;
};
// If C is double, dispatches on the dtype: the input may be float32 and the result float64.
template <class C>
__device__ __forceinline__ C read(const Array& a, int64_t i) {
  if constexpr (std::is_same_v<C, double>)
    return load_any<C>(a.data, a.dtype, i);
  else
    return load_as<C>(a.data, a.dtype, i);
}

constexpr int kMostThreads = 1024;  // the largest block that shares a row

// The threads that process a row together: all threads of a block, or a single thread.
template <bool by_block>
struct Team {
  static constexpr int kThreadsOfBlock = by_block ? kMostThreads : kThreads;
  static __device__ __forceinline__ int64_t rank() { return by_block ? threadIdx.x : 0; }
  static __device__ __forceinline__ int64_t size() { return by_block ? blockDim.x : 1; }
  static __device__ __forceinline__ int64_t first_row() {
    return by_block ? blockIdx.x : global_index();
  }
  static __device__ __forceinline__ int64_t row_step() {
    return by_block ? gridDim.x : grid_stride();
  }
  template <class T>
  static __device__ __forceinline__ T sum(T v) {
    if constexpr (by_block) return block_sum(v);
    return v;
  }
  template <class T>
  static __device__ __forceinline__ T max(T v) {
    if constexpr (by_block) return block_max(v, -std::numeric_limits<T>::infinity());
    return v;
  }
};

template <class C, bool by_block>
__global__ void __launch_bounds__(Team<by_block>::kThreadsOfBlock)
    forward_rows(const __grid_constant__ Rows rows, Array x, Array y) {
  using T = Team<by_block>;
  const int64_t n = rows.b.channels, step = rows.b.inner;
  const C factor = static_cast<C>(rows.factor);
  for (int64_t row = T::first_row(); row < rows.count(); row += T::row_step()) {
    const int64_t first = rows.first(row), length = rows.length_of(row);
    C top = -std::numeric_limits<C>::infinity();
    for (int64_t k = T::rank(); k < length; k += T::size()) {
      const C v = read<C>(x, first + k * step) * factor;
      top = v > top ? v : top;
    }
    top = T::max(top);
    // If all elements of a row are -inf, there is no maximum to subtract, and the results are 0 / 0
    // as in NumPy.
    C sum = C(0);
    for (int64_t k = T::rank(); k < length; k += T::size())
      sum += pointwise::exp_of_negative(read<C>(x, first + k * step) * factor - top);
    sum = T::sum(sum);
    const bool logarithm = rows.form == Form::kLogSoftmax;
    const C scale = logarithm ? std::log(sum) : C(1) / sum;
    for (int64_t k = T::rank(); k < n; k += T::size()) {
      C v = C(0);
      if (k < length) {
        const C shifted = read<C>(x, first + k * step) * factor - top;
        v = logarithm ? shifted - scale : pointwise::exp_of_negative(shifted) * scale;
      }
      store_any<C>(y.data, y.dtype, first + k * step, v);
    }
  }
}

// softmax: factor * y * (g - sum(g y)); log_softmax: factor * (g - exp(y) * sum(g)).
template <class C, bool by_block>
__global__ void __launch_bounds__(Team<by_block>::kThreadsOfBlock)
    backward_rows(const __grid_constant__ Rows rows, Array grad, Array y, Array out) {
  using T = Team<by_block>;
  const int64_t n = rows.b.channels, step = rows.b.inner;
  const bool logarithm = rows.form == Form::kLogSoftmax;
  for (int64_t row = T::first_row(); row < rows.count(); row += T::row_step()) {
    const int64_t first = rows.first(row), length = rows.length_of(row);
    C sum = C(0);
    for (int64_t k = T::rank(); k < length; k += T::size()) {
      const C g = read<C>(grad, first + k * step);
      sum += logarithm ? g : g * read<C>(y, first + k * step);
    }
    sum = T::sum(sum);
    for (int64_t k = T::rank(); k < n; k += T::size()) {
      C v = C(0);
      if (k < length) {
        const C g = read<C>(grad, first + k * step), p = read<C>(y, first + k * step);
        v = logarithm ? g - pointwise::exp_of_negative(p) * sum : p * (g - sum);
      }
      store_any<C>(out.data, out.dtype, first + k * step, v * static_cast<C>(rows.factor));
    }
  }
}

constexpr int kMostPacks = 8;  // packs of a row for each lane of a warp
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));

// Calls fn(pack, index of its first element) for this lane's packs of a row.
template <int V, class F>
__device__ __forceinline__ void for_packs(int64_t length, F&& fn) {
#pragma unroll
  for (int p = 0; p < kMostPacks; ++p) {
    const int64_t at = (int64_t{p} * kWarp + threadIdx.x % kWarp) * V;
    if (at < length) fn(p, at);
  }
}

// Rows of T that are computed in float.
template <class T, int V>
__global__ void forward_warps(const __grid_constant__ Rows rows, const T* x, T* y) {
  const int64_t n = rows.b.channels, step = grid_stride() / kWarp;
  const float factor = static_cast<float>(rows.factor);
  const bool logarithm = rows.form == Form::kLogSoftmax;
  for (int64_t row = global_index() / kWarp; row < rows.count(); row += step) {
    const int64_t length = rows.length_of(row);
    float v[kMostPacks][V];
    float top = -std::numeric_limits<float>::infinity(), sum = 0;
    for_packs<V>(n, [&](int p, int64_t at) {
      load_pack<T>(x, row * n + at, v[p]);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        v[p][k] *= factor;
        if (at + k < length && v[p][k] > top) top = v[p][k];
      }
    });
    top = warp_max(top);
    for_packs<V>(n, [&](int p, int64_t at) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        v[p][k] -= top;
        const float e = pointwise::exp_of_negative(v[p][k]);
        if (at + k < length) sum += e;
        if (!logarithm) v[p][k] = e;
      }
    });
    sum = warp_sum(sum);
    const float scale = logarithm ? std::log(sum) : 1.0f / sum;
    for_packs<V>(n, [&](int p, int64_t at) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float result = logarithm ? v[p][k] - scale : v[p][k] * scale;
        v[p][k] = at + k < length ? result : 0.0f;
      }
      store_pack<T>(y, row * n + at, v[p]);
    });
  }
}

template <class T, int V>
__global__ void backward_warps(const __grid_constant__ Rows rows, const T* grad, const T* y,
                               T* out) {
  const int64_t n = rows.b.channels, step = grid_stride() / kWarp;
  const float factor = static_cast<float>(rows.factor);
  const bool logarithm = rows.form == Form::kLogSoftmax;
  for (int64_t row = global_index() / kWarp; row < rows.count(); row += step) {
    const int64_t length = rows.length_of(row);
    float g[kMostPacks][V], p[kMostPacks][V];
    float sum = 0;
    for_packs<V>(n, [&](int i, int64_t at) {
      load_pack<T>(grad, row * n + at, g[i]);
      load_pack<T>(y, row * n + at, p[i]);
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (at + k < length) sum += logarithm ? g[i][k] : g[i][k] * p[i][k];
    });
    sum = warp_sum(sum);
    for_packs<V>(n, [&](int i, int64_t at) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float v = logarithm ? g[i][k] - pointwise::exp_of_negative(p[i][k]) * sum
                                  : p[i][k] * (g[i][k] - sum);
        g[i][k] = at + k < length ? v * factor : 0.0f;
      }
      store_pack<T>(out, row * n + at, g[i]);
    });
  }
}

Array array(const TensorRef& t) { return {t.data, t.dtype}; }

// If a warp can process a row (contiguous, one float type, short enough for the warp's registers),
// calls fn(T{}, integral_constant<int, V>) and returns true.
bool dispatch_warps(const Rows& rows, std::initializer_list<const TensorRef*> arrays, auto&& fn) {
  const DType dtype = (*arrays.begin())->dtype;
  if (rows.b.inner != 1 || rows.b.channels == 0 || !is_floating(dtype) || dtype == DType::kFloat64)
    return false;
  bool aligned = true;
  for (const TensorRef* a : arrays) {
    if (a->dtype != dtype) return false;
    aligned &= is_aligned(a->data);
  }
  bool served = false;
  dispatch_float_elements("softmax", dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, double>) {
      const auto serve = [&](auto vector) {
        constexpr int V = decltype(vector)::value;
        served = rows.b.channels <= int64_t{kMostPacks} * kWarp * V;
        if (served && rows.count() > 0) fn(T{}, vector);
      };
      if (aligned && rows.b.channels % kVector<T> == 0)
        serve(std::integral_constant<int, kVector<T>>{});
      else
        serve(std::integral_constant<int, 1>{});
    }
  });
  return served;
}

unsigned threads_for(int64_t length) {
  constexpr int64_t kElementsPerThread = 4;
  const int64_t wanted = (length + kElementsPerThread - 1) / kElementsPerThread;
  return static_cast<unsigned>(std::clamp<int64_t>((wanted + 31) / 32 * 32, 32, kMostThreads));
}

template <class... Arrays>
void run(KernelContext& ctx, const Rows& rows, DType computed, void (*by_block)(Rows, Arrays...),
         void (*by_block64)(Rows, Arrays...), void (*alone)(Rows, Arrays...),
         void (*alone64)(Rows, Arrays...), const std::type_identity_t<Arrays>&... arrays) {
  if (rows.count() == 0 || rows.b.channels == 0) return;
  const bool wide = computed == DType::kFloat64;
  if (rows.b.inner == 1)
    launch(ctx, wide ? by_block64 : by_block, blocks_per_task(ctx, rows.count()),
           threads_for(rows.b.channels), rows, arrays...);
  else
    launch_items(ctx, wide ? alone64 : alone, rows.count(), rows, arrays...);
}

Rows make_rows(Form form, const SoftmaxParams& p, const ChannelBlocks& b, const TensorRef* length) {
  Rows rows{b, form, (form == Form::kSoftmin ? -1.0 : 1.0) / p.temperature.value_or(1.0)};
  if (p.use_length && length) {
    rows.length = length->data;
    rows.length_dtype = length->dtype;
  }
  return rows;
}

// A float64 result is computed in float64, whatever the input's type.
void forward(KernelContext& ctx, const Rows& rows, Inputs in, Outputs out) {
  if (dispatch_warps(rows, {&in[0], &out[0]}, [&]<class T, class V>(T, V) {
        launch(ctx, forward_warps<T, V::value>, blocks_for(rows.count() * kWarp, ctx), kThreads,
               rows, in[0].as<T>(), out[0].as<T>());
      }))
    return;
  const DType computed = out[0].dtype == DType::kFloat64 ? out[0].dtype : in[0].dtype;
  run<Array, Array>(ctx, rows, computed, forward_rows<float, true>, forward_rows<double, true>,
                    forward_rows<float, false>, forward_rows<double, false>, array(in[0]),
                    array(out[0]));
}
void backward(KernelContext& ctx, const Rows& rows, Inputs in, Outputs out) {
  if (dispatch_warps(rows, {&in[1], &in[0], &out[0]}, [&]<class T, class V>(T, V) {
        launch(ctx, backward_warps<T, V::value>, blocks_for(rows.count() * kWarp, ctx), kThreads,
               rows, in[0].as<T>(), in[1].as<T>(), out[0].as<T>());
      }))
    return;
  run<Array, Array, Array>(ctx, rows, in[1].dtype, backward_rows<float, true>,
                           backward_rows<double, true>, backward_rows<float, false>,
                           backward_rows<double, false>, array(in[0]), array(in[1]), array(out[0]));
}

template <Form form>
void softmax(KernelContext& ctx, const SoftmaxParams& p, Inputs in, Outputs out) {
  forward(ctx, make_rows(form, p, p.blocks(in[0].shape), in.size() > 1 ? &in[1] : nullptr), in,
          out);
}
template <Form form>
void softmax_backward(KernelContext& ctx, const SoftmaxGradParams& p, Inputs in, Outputs out) {
  backward(ctx, make_rows(form, p, p.blocks(in[1].shape), in.size() > 2 ? &in[2] : nullptr), in,
           out);
}

void softmax_activation(KernelContext& ctx, const SoftmaxActivationParams& p, Inputs in,
                        Outputs out) {
  softmax_forward(ctx, p.blocks(in[0].shape), in, out);
}
void softmax_activation_backward(KernelContext& ctx, const SoftmaxActivationParams& p, Inputs in,
                                 Outputs out) {
  backward(ctx, make_rows(Form::kSoftmax, {}, p.blocks(in[1].shape), nullptr), in, out);
}

}  // namespace

void softmax_forward(KernelContext& ctx, const ChannelBlocks& b, Inputs in, Outputs out) {
  forward(ctx, make_rows(Form::kSoftmax, {}, b, nullptr), in, out);
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&softmax<Form::kSoftmax>>("softmax");
  ops.cuda_kernel<&softmax<Form::kLogSoftmax>>("log_softmax");
  ops.cuda_kernel<&softmax<Form::kSoftmin>>("softmin");
  ops.cuda_kernel<&softmax_backward<Form::kSoftmax>>("_softmax_backward");
  ops.cuda_kernel<&softmax_backward<Form::kLogSoftmax>>("_log_softmax_backward");
  ops.cuda_kernel<&softmax_backward<Form::kSoftmin>>("_softmin_backward");
  ops.cuda_kernel<&softmax_activation>("SoftmaxActivation");
  ops.cuda_kernel<&softmax_activation_backward>("_softmax_activation_backward");
});

}  // namespace mxlite::cuda
