// where, one_hot, conversions of indices, padding. Each element of the result is computed
// independently.
#include <cstring>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/one_hot.h"
#include "cpp/ops/tensor/pad.h"

namespace mxlite::cuda {
namespace {

// `row` elements share one condition.
template <class Word>
__global__ void select(int64_t n, int64_t row, const void* condition, DType dtype, const Word* x,
                       const Word* y, Word* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    out[i] = load_any<double>(condition, dtype, i / row) != 0 ? x[i] : y[i];
}
void where(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const int64_t row = n / std::max<int64_t>(in[0].size(), 1);
  dispatch_size(dtype_size(out[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, select<Word>, n, n, row, in[0].data, in[0].dtype, in[1].as<Word>(),
                 in[2].as<Word>(), out[0].as<Word>());
  });
}

__global__ void mark(int64_t n, int64_t depth, const void* indices, DType dtype, double on,
                     double off, void* out, DType out_dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t index = load_any<int64_t>(indices, dtype, i / depth);
    store_any<double>(out, out_dtype, i, i % depth == index ? on : off);
  }
}
void one_hot(KernelContext& ctx, const OneHotParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  launch_items(ctx, mark, n, n, p.depth, in[0].data, in[0].dtype, static_cast<double>(p.on_value),
               static_cast<double>(p.off_value), out[0].data, out[0].dtype);
}

struct Dims {
  int ndim;
  int64_t size[Shape::kMaxNdim];
};
Dims dims_of(const Shape& shape) {
  Dims d{shape.ndim()};
  for (int i = 0; i < shape.ndim(); ++i) d.size[i] = shape[i];
  return d;
}

__global__ void ravel_indices(int64_t n, const __grid_constant__ Dims d, const void* in,
                              DType in_dtype, void* out, DType out_dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t index = 0;
    for (int axis = 0; axis < d.ndim; ++axis)
      index = (axis ? index * d.size[axis] : 0) + load_any<int64_t>(in, in_dtype, axis * n + i);
    store_any<int64_t>(out, out_dtype, i, index);
  }
}
void ravel(KernelContext& ctx, const RavelParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  launch_items(ctx, ravel_indices, n, n, dims_of(p.shape), in[0].data, in[0].dtype, out[0].data,
               out[0].dtype);
}

__global__ void unravel_indices(int64_t n, const __grid_constant__ Dims d, const void* in,
                                DType in_dtype, void* out, DType out_dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t rest = load_any<int64_t>(in, in_dtype, i);
    for (int axis = d.ndim - 1; axis > 0; --axis) {
      store_any<int64_t>(out, out_dtype, axis * n + i, rest % d.size[axis]);
      rest /= d.size[axis];
    }
    store_any<int64_t>(out, out_dtype, i, rest);
  }
}
void unravel(KernelContext& ctx, const RavelParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].size();
  launch_items(ctx, unravel_indices, n, n, dims_of(p.shape), in[0].data, in[0].dtype, out[0].data,
               out[0].dtype);
}

template <class Word>
__global__ void fill_chosen(int64_t rows, int64_t columns, const Word* values, const void* indices,
                            DType dtype, Word* out) {
  for (int64_t i = global_index(); i < rows; i += grid_stride()) {
    const int64_t given = load_any<int64_t>(indices, dtype, i);
    const int64_t column = given < 0 ? 0 : given < columns ? given : columns - 1;
    out[i * columns + column] = values[i];
  }
}
void fill_element(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, fill_chosen<Word>, in[0].shape[0], in[0].shape[0], in[0].shape[1],
                 in[1].as<Word>(), in[2].data, in[2].dtype, out[0].as<Word>());
  });
}

struct Padding {
  int ndim;
  PadMode mode;
  int64_t plain[Shape::kMaxNdim], padded[Shape::kMaxNdim], before[Shape::kMaxNdim];

  // Returns the index in the plain array for index i of the padded array along an axis, or -1.
  __device__ __forceinline__ int64_t source(int axis, int64_t i) const {
    const int64_t k = i - before[axis], length = plain[axis];
    if (k >= 0 && k < length) return k;
    if (mode == PadMode::kConstant) return -1;
    if (mode == PadMode::kEdge) return k < 0 ? 0 : length - 1;
    return k < 0 ? -k : 2 * length - 2 - k;
  }
};
Padding padding_of(const PadParams& p, const Shape& plain, const Shape& padded) {
  Padding d{padded.ndim(), p.mode};
  for (int i = 0; i < padded.ndim(); ++i) {
    d.plain[i] = plain[i];
    d.padded[i] = padded[i];
    d.before[i] = p.before(i);
  }
  return d;
}

template <class I>
struct Axes {
  Division<I> size[Shape::kMaxNdim];
  explicit Axes(const Padding& d) {
    for (int i = 0; i < d.ndim; ++i) size[i] = Division<I>(d.padded[i]);
  }
};

template <class Word, class I>
__global__ void pad_elements(int64_t n, const __grid_constant__ Padding d,
                             const __grid_constant__ Axes<I> padded, Word constant, const Word* in,
                             Word* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    I rest = static_cast<I>(i);
    int64_t at = 0, step = 1;
    bool inside = true;
    for (int axis = d.ndim - 1; axis >= 0; --axis) {
      const int64_t k = d.source(axis, padded.size[axis].split(rest));
      inside &= k >= 0;
      at += k * step;
      step *= d.plain[axis];
    }
    out[i] = inside ? in[at] : constant;
  }
}

// Appends constants to short rows, for example channels to the pixels of an image: a thread writes
// a whole row of N elements.
template <class Word, int N>
__global__ void extend_rows(int64_t rows, int plain, Word constant, const Word* in, Word* out) {
  for (int64_t row = global_index(); row < rows; row += grid_stride()) {
    Pack<Word, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k) pack.v[k] = k < plain ? in[row * plain + k] : constant;
    store_vectors(reinterpret_cast<Pack<Word, N>*>(out) + row, pack);
  }
}

// Returns the length of padded rows if the last axis alone grows, at its end, otherwise 0.
int64_t extended_row(const Padding& d) {
  const int last = d.ndim - 1;
  if (d.mode != PadMode::kConstant || d.ndim == 0) return 0;
  for (int i = 0; i < d.ndim; ++i)
    if (d.before[i] != 0 || (i < last && d.padded[i] != d.plain[i])) return 0;
  return d.padded[last];
}

// Pads if rows of N elements fill words of at most 16 bytes; otherwise returns false.
template <class Word, int N>
bool run_extend(KernelContext& ctx, const Padding& d, Word constant, const TensorRef& in,
                const TensorRef& out) {
  if constexpr (N * sizeof(Word) <= 16) {
    if (extended_row(d) != N || !is_aligned(out.data)) return false;
    const int64_t rows = out.size() / N;
    launch_items(ctx, extend_rows<Word, N>, rows, rows, static_cast<int>(d.plain[d.ndim - 1]),
                 constant, in.as<Word>(), out.as<Word>());
    return true;
  }
  return false;
}

void pad(KernelContext& ctx, const PadParams& p, Inputs in, Outputs out) {
  const Padding d = padding_of(p, in[0].shape, out[0].shape);
  uint64_t bits = 0;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T value = p.constant_value.as<T>();
    std::memcpy(&bits, &value, sizeof(T));
  });
  const int64_t n = out[0].size();
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    const auto constant = static_cast<Word>(bits);
    if (run_extend<Word, 4>(ctx, d, constant, in[0], out[0]) ||
        run_extend<Word, 8>(ctx, d, constant, in[0], out[0]))
      return;
    const auto run = [&]<class I>(I) {
      launch_items(ctx, pad_elements<Word, I>, n, n, d, Axes<I>(d), constant, in[0].as<Word>(),
                   out[0].as<Word>());
    };
    if (n < int64_t{1} << 31)
      run(int32_t{});
    else
      run(int64_t{});
  });
}

// Every plain element sums its copies in the padded array: along each axis its own position, then
// the border (edge), or up to one mirrored position on either side (reflect).
template <class C>
__global__ void pad_gradient(int64_t n, const __grid_constant__ Padding d, DType dtype,
                             const void* grad, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    // Candidates per axis: a run [begin, end) and up to two mirrored positions.
    int64_t begin[Shape::kMaxNdim], end[Shape::kMaxNdim], low[Shape::kMaxNdim],
        high[Shape::kMaxNdim], at[Shape::kMaxNdim];
    int64_t rest = i;
    for (int axis = d.ndim - 1; axis >= 0; --axis) {
      const int64_t k = rest % d.plain[axis], length = d.plain[axis], before = d.before[axis];
      rest /= d.plain[axis];
      begin[axis] = d.mode == PadMode::kEdge && k == 0 ? 0 : before + k;
      end[axis] = d.mode == PadMode::kEdge && k == length - 1 ? d.padded[axis] : before + k + 1;
      low[axis] = high[axis] = -1;
      if (d.mode == PadMode::kReflect) {
        if (k > 0 && before - k >= 0) low[axis] = before - k;
        const int64_t mirror = before + 2 * length - 2 - k;
        if (k < length - 1 && mirror < d.padded[axis]) high[axis] = mirror;
      }
      at[axis] = begin[axis];
    }
    C sum = C(0);
    for (bool more = true; more;) {
      int64_t offset = 0;
      for (int axis = 0; axis < d.ndim; ++axis) offset = offset * d.padded[axis] + at[axis];
      sum += load_as<C>(grad, dtype, offset);
      more = false;
      for (int axis = d.ndim - 1; axis >= 0 && !more; --axis) {
        // Advances to the next candidate of this axis, or back to its first.
        if (at[axis] >= begin[axis] && at[axis] + 1 < end[axis]) {
          ++at[axis];
          more = true;
        } else if (at[axis] >= begin[axis] && at[axis] < end[axis] && low[axis] >= 0) {
          at[axis] = low[axis];
          more = true;
        } else if (at[axis] != high[axis] && high[axis] >= 0) {
          at[axis] = high[axis];
          more = true;
        } else {
          at[axis] = begin[axis];
        }
      }
    }
    store_as<C>(out, dtype, i, sum);
  }
}
void pad_backward(KernelContext& ctx, const PadParams& p, Inputs in, Outputs out) {
  const Padding d = padding_of(p, out[0].shape, in[0].shape);
  const int64_t n = out[0].size();
  if (n == 0) return;
  const auto run = [&]<class C>(C) {
    launch_items(ctx, pad_gradient<C>, n, n, d, in[0].dtype, in[0].data, out[0].data);
  };
  if (in[0].dtype == DType::kFloat64)
    run(double{});
  else if (is_floating(in[0].dtype))
    run(float{});
  else if (in[0].dtype == DType::kUInt64)
    run(uint64_t{});
  else
    run(int64_t{});
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&where>("where");
  ops.cuda_kernel<&one_hot>("one_hot");
  ops.cuda_kernel<&ravel>("ravel_multi_index");
  ops.cuda_kernel<&unravel>("unravel_index");
  ops.cuda_kernel<&fill_element>("fill_element_0index");
  ops.cuda_kernel<&pad>("Pad");
  ops.cuda_kernel<&pad_backward>("_pad_backward");
});

}  // namespace mxlite::cuda
