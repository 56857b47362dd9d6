// A row contains the elements of one sequence at one time step.
#include <cstring>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sequence/sequence.h"

namespace mxlite::cuda {
namespace {

struct Rows {
  int64_t times, batch, time_step, batch_step, inner;  // steps in rows, inner in elements
  const void* lengths;                                 // null if all sequences have full length
  DType dtype;

  __device__ __forceinline__ int64_t length(int64_t sequence) const {
    if (!lengths) return times;
    const int64_t given = load_any<int64_t>(lengths, dtype, sequence);
    return given < 0 ? 0 : given < times ? given : times;
  }
  __device__ __forceinline__ int64_t last(int64_t sequence) const {
    const int64_t n = length(sequence);
    return n > 0 ? n - 1 : 0;
  }
  __device__ __forceinline__ int64_t row(int64_t time, int64_t sequence) const {
    return time * time_step + sequence * batch_step;
  }
  __device__ __forceinline__ int64_t time_of(int64_t row) const { return row / time_step % times; }
  __device__ __forceinline__ int64_t sequence_of(int64_t row) const {
    return row / batch_step % batch;
  }
};

Rows rows_of(const Shape& shape, int axis, Inputs in) {
  const int64_t times = shape[axis], batch = shape[1 - axis];
  Rows r{times,
         batch,
         axis == 0 ? batch : 1,
         axis == 0 ? 1 : times,
         shape.product(2, shape.ndim()),
         in.size() > 1 ? in[1].data : nullptr,
         in.size() > 1 ? in[1].dtype : DType::kInt32};
  return r;
}

template <class Word>
__global__ void mask_rows(int64_t n, const __grid_constant__ Rows r, Word value, const Word* from,
                          Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / r.inner;
    to[i] = r.time_of(row) < r.length(r.sequence_of(row)) ? from[i] : value;
  }
}
void mask(KernelContext& ctx, const SequenceMaskParams& p, Inputs in, Outputs out) {
  if (in.size() < 2) return copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  const int64_t n = out[0].size();
  if (n == 0) return;
  const Rows r = rows_of(in[0].shape, p.axis, in);
  uint64_t bits = 0;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T value = static_cast<T>(static_cast<ComputeType<T>>(p.value));
    std::memcpy(&bits, &value, sizeof(T));
  });
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, mask_rows<Word>, n, n, r, static_cast<Word>(bits), in[0].as<Word>(),
                 out[0].as<Word>());
  });
}

// Gathers the last row of every sequence, or writes it into an array of zeros.
template <class Word, bool put>
__global__ void last_rows(int64_t n, const __grid_constant__ Rows r, const Word* from, Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t sequence = i / r.inner;
    const int64_t place = r.row(r.last(sequence), sequence) * r.inner + i % r.inner;
    if (put)
      to[place] = from[i];
    else
      to[i] = from[place];
  }
}
template <bool put>
void run_last(KernelContext& ctx, const Rows& r, int64_t n, const TensorRef& from,
              const TensorRef& to) {
  dispatch_size(dtype_size(to.dtype), [&]<class Word>(Word) {
    launch_items(ctx, last_rows<Word, put>, n, n, r, from.as<Word>(), to.as<Word>());
  });
}
void last(KernelContext& ctx, const SequenceParams& p, Inputs in, Outputs out) {
  run_last<false>(ctx, rows_of(in[0].shape, p.axis, in), out[0].size(), in[0], out[0]);
}
void last_backward(KernelContext& ctx, const SequenceLastBackwardParams& p, Inputs in,
                   Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  if (in[0].size() == 0) return;
  run_last<true>(ctx, rows_of(p.shape, p.axis, in), in[0].size(), in[0], out[0]);
}

template <class Word>
__global__ void reverse_rows(int64_t n, const __grid_constant__ Rows r, const Word* from,
                             Word* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / r.inner, t = r.time_of(row), b = r.sequence_of(row);
    const int64_t length = r.length(b);
    to[i] = from[r.row(t < length ? length - 1 - t : t, b) * r.inner + i % r.inner];
  }
}
void reverse_sequences(KernelContext& ctx, const SequenceParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const Rows r = rows_of(in[0].shape, 0, in);
  dispatch_size(dtype_size(in[0].dtype), [&]<class Word>(Word) {
    launch_items(ctx, reverse_rows<Word>, n, n, r, in[0].as<Word>(), out[0].as<Word>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::mask>("SequenceMask");
  ops.cuda_kernel<&cuda::last>("SequenceLast");
  ops.cuda_kernel<&last_backward>("_sequence_last_backward");
  ops.cuda_kernel<&reverse_sequences>("SequenceReverse");
});

}  // namespace mxlite::cuda
