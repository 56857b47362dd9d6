// A row contains the elements of one sequence at one time step.
#include "cpp/ops/sequence/sequence.h"

#include <algorithm>
#include <cstring>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct Rows {
  int64_t times, batch, time_step, batch_step, inner;  // steps are in rows, inner in elements
  const int64_t* lengths;                              // null if all sequences have full length

  Rows(KernelContext& ctx, const Shape& shape, int axis, Inputs in)
      : times(shape[axis]),
        batch(shape[1 - axis]),
        time_step(axis == 0 ? batch : 1),
        batch_step(axis == 0 ? 1 : times),
        inner(shape.product(2, shape.ndim())),
        lengths(in.size() > 1 ? cpu::index_values(ctx, in[1]) : nullptr) {}
  int64_t length(int64_t sequence) const {
    return lengths ? std::clamp<int64_t>(lengths[sequence], 0, times) : times;
  }
  // As in 1.x, returns step length - 1. For an empty sequence returns step 0, where 1.x reads out
  // of bounds.
  int64_t last(int64_t sequence) const { return std::max<int64_t>(length(sequence) - 1, 0); }
  int64_t row(int64_t time, int64_t sequence) const {
    return time * time_step + sequence * batch_step;
  }
};

void mask_native(KernelContext& ctx, const SequenceMaskParams& p, Inputs in, Outputs out) {
  cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  if (in.size() < 2) return;
  const Rows r(ctx, in[0].shape, p.axis, in);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T value = static_cast<T>(static_cast<ComputeType<T>>(p.value));
    T* const to = out[0].as<T>();
    for (int64_t b = 0; b < r.batch; ++b)
      for (int64_t t = r.length(b); t < r.times; ++t)
        std::fill_n(to + r.row(t, b) * r.inner, r.inner, value);
  });
}

void copy_row(const TensorRef& from, int64_t from_row, const TensorRef& to, int64_t to_row,
              int64_t inner) {
  const int64_t bytes = inner * static_cast<int64_t>(dtype_size(from.dtype));
  std::memcpy(to.as<char>() + to_row * bytes, from.as<char>() + from_row * bytes,
              static_cast<size_t>(bytes));
}

void last_native(KernelContext& ctx, const SequenceParams& p, Inputs in, Outputs out) {
  const Rows r(ctx, in[0].shape, p.axis, in);
  for (int64_t b = 0; b < r.batch; ++b) copy_row(in[0], r.row(r.last(b), b), out[0], b, r.inner);
}

void last_backward_native(KernelContext& ctx, const SequenceLastBackwardParams& p, Inputs in,
                          Outputs out) {
  cpu::zero_fill(out[0].data, out[0].bytes());
  if (in[0].size() == 0) return;
  const Rows r(ctx, p.shape, p.axis, in);
  for (int64_t b = 0; b < r.batch; ++b) copy_row(in[0], b, out[0], r.row(r.last(b), b), r.inner);
}

void reverse_native(KernelContext& ctx, const SequenceParams&, Inputs in, Outputs out) {
  const Rows r(ctx, in[0].shape, 0, in);
  cpu::parallel_for(r.times, r.batch * r.inner, [&](int64_t t) {
    for (int64_t b = 0; b < r.batch; ++b) {
      const int64_t length = r.length(b);
      const int64_t source = t < length ? length - 1 - t : t;
      copy_row(in[0], r.row(source, b), out[0], r.row(t, b), r.inner);
    }
  });
}

}  // namespace

static const Registration sequence_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&mask_native>("SequenceMask");
  ops.cpu_kernel<&last_native>("SequenceLast");
  ops.cpu_kernel<&last_backward_native>("_sequence_last_backward");
  ops.cpu_kernel<&reverse_native>("SequenceReverse");
});

}  // namespace mxlite
