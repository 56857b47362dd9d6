// A block processes a row and reads it once: each thread keeps the largest element so far, and the
// sum of the exponentials relative to this element.
#include <limits>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr int kRowThreads = 512;

struct Picks {
  int64_t rows, n;
  const void* index;
  DType dtype;

  __device__ __forceinline__ int64_t at(int64_t row) const {
    const auto given = load_any<int64_t>(index, dtype, row);
    return given < 0 ? 0 : given < n ? given : n - 1;
  }
};

// Calls pack(first) for groups of V elements that begin at multiples of 16 bytes, and one(i) for
// the elements of a row before and after these groups; `data` is the row.
template <int V, class T>
__device__ __forceinline__ void for_elements(const T* data, int64_t n, bool packs, auto&& pack,
                                             auto&& one) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  int64_t head = packs ? static_cast<int64_t>((16 - address % 16) % 16 / sizeof(T)) : n;
  if (head > n) head = n;
  const int64_t groups = (n - head) / V;
  for (int64_t i = threadIdx.x; i < head; i += blockDim.x) one(i);
  for (int64_t i = threadIdx.x; i < groups; i += blockDim.x) pack(head + i * V);
  for (int64_t i = head + groups * V + threadIdx.x; i < n; i += blockDim.x) one(i);
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    forward(const __grid_constant__ Picks p, const T* data, T* picked, AccOf<T>* statistics) {
  using Acc = AccOf<T>;
  constexpr int V = 16 / sizeof(T);
  constexpr Acc kLowest = -std::numeric_limits<Acc>::infinity();
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T* const x = data + row * p.n;
    Acc top = kLowest, sum = Acc(0);
    const auto take = [&](const auto& v) {
      Acc largest = top;
      for (const Acc e : v) largest = e > largest ? e : largest;
      if (largest > top) {
        sum *= exp(top - largest);
        top = largest;
      }
      for (const Acc e : v) sum += e > kLowest ? exp(e - top) : e == e ? Acc(0) : e;  // keeps NaN
    };
    for_elements<V>(
        x, p.n, true,
        [&](int64_t i) {
          Acc v[V];
          load_pack<T>(x, i, v);
          take(v);
        },
        [&](int64_t i) {
          const Acc v[1] = {convert<Acc>(x[i])};
          take(v);
        });
    const Acc all = block_max(top, kLowest);
    // If all elements are -inf, the result is NaN, as in log_softmax.
    sum = block_sum(top > kLowest ? sum * exp(top - all) : sum);
    if (threadIdx.x != 0) continue;
    const Acc scale = all > kLowest ? log(sum) : std::numeric_limits<Acc>::quiet_NaN();
    statistics[2 * row] = all;
    statistics[2 * row + 1] = scale;
    picked[row] = convert<T>(convert<Acc>(x[p.at(row)]) - all - scale);
  }
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    backward(const __grid_constant__ Picks p, bool packs, const T* grads, const T* data,
             const AccOf<T>* statistics, T* result) {
  using Acc = AccOf<T>;
  constexpr int V = 16 / sizeof(T);
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T* const x = data + row * p.n;
    T* const to = result + row * p.n;
    const Acc top = statistics[2 * row], scale = statistics[2 * row + 1];
    const Acc grad = convert<Acc>(grads[row]);
    const int64_t at = p.at(row);
    const auto value = [&](Acc e, int64_t i) {
      return (i == at ? grad : Acc(0)) - grad * pointwise::exp_of_negative(e - top - scale);
    };
    for_elements<V>(
        x, p.n, packs,
        [&](int64_t i) {
          Acc v[V];
          load_pack<T>(x, i, v);
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = value(v[k], i + k);
          store_pack<T>(to, i, v);
        },
        [&](int64_t i) { to[i] = convert<T>(value(convert<Acc>(x[i]), i)); });
  }
}

Picks picks_of(const TensorRef& data, const TensorRef& index) {
  return {index.size(), data.shape[data.shape.ndim() - 1], index.data, index.dtype};
}

void pick_log_softmax(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Picks p = picks_of(in[0], in[1]);
  dispatch_float_elements("pick_log_softmax", in[0].dtype, [&]<class T>(T) {
    launch(ctx, forward<T>, blocks_per_task(ctx, p.rows), kRowThreads, p, in[0].as<const T>(),
           out[0].as<T>(), out[1].as<AccOf<T>>());
  });
}

void pick_log_softmax_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Picks p = picks_of(in[1], in[2]);
  const bool packs =
      (reinterpret_cast<uintptr_t>(in[1].data) - reinterpret_cast<uintptr_t>(out[0].data)) % 16 ==
      0;
  dispatch_float_elements("pick_log_softmax", in[1].dtype, [&]<class T>(T) {
    launch(ctx, backward<T>, blocks_per_task(ctx, p.rows), kRowThreads, p, packs,
           in[0].as<const T>(), in[1].as<const T>(), in[3].as<const AccOf<T>>(), out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::pick_log_softmax>("_contrib_pick_log_softmax");
  ops.cuda_kernel<&cuda::pick_log_softmax_backward>("_pick_log_softmax_backward");
});

}  // namespace mxlite::cuda
