#include "cpp/ops/nn/dropout.h"

#include <cmath>

#include "cpp/core/random.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Returns the index in the mask for element i of data; the mask has size 1 along some axes.
int64_t mask_index(const Shape& data, const Shape& mask, int64_t i) {
  int64_t at = 0, step = 1;
  for (int axis = data.ndim() - 1; axis >= 0; --axis) {
    if (mask[axis] != 1) {
      at += i % data[axis] * step;
      step *= mask[axis];
    }
    i /= data[axis];
  }
  return at;
}

// y = x * scale where the mask is 1, else 0. The mask has the shape of x.
template <class T>
void apply_whole_mask(const T* x, const uint8_t* mask, float scale, T* y, int64_t n) {
  using Acc = ComputeType<T>;
  if constexpr (cpu::kHasVectorKernels<T>) {
    cpu::vector_kernels<T>().apply_mask(x, mask, scale, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i)
      y[i] = mask[i] ? static_cast<T>(static_cast<Acc>(x[i]) * static_cast<Acc>(scale)) : T(0);
  }
}

// Like the function above, then adds `added`. Rounds after the product and after the sum.
template <class T>
void apply_whole_mask(const T* x, const uint8_t* mask, float scale, const T* added, T* y,
                      int64_t n) {
  using Acc = ComputeType<T>;
  if constexpr (cpu::kHasVectorKernels<T>) {
    cpu::vector_kernels<T>().apply_mask_and_add(x, mask, scale, added, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const T kept =
          mask[i] ? static_cast<T>(static_cast<Acc>(x[i]) * static_cast<Acc>(scale)) : T(0);
      y[i] = static_cast<T>(static_cast<Acc>(kept) + static_cast<Acc>(added[i]));
    }
  }
}

template <class T>
void apply_mask(const T* x, const Shape& shape, const uint8_t* mask, const Shape& mask_shape,
                float scale, T* y) {
  using Acc = ComputeType<T>;
  const bool whole = mask_shape == shape;
  cpu::parallel_ranges(shape.size(), 1, [&](int64_t begin, int64_t end, int) {
    if (whole) return apply_whole_mask(x + begin, mask + begin, scale, y + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) {
      const bool keep = mask[mask_index(shape, mask_shape, i)];
      y[i] = keep ? static_cast<T>(static_cast<Acc>(x[i]) * static_cast<Acc>(scale)) : T(0);
    }
  });
}

// Random counters per 16 KiB part of the mask. Each part is drawn and applied before the next.
constexpr int64_t kCounters = 4096;

// Calls fn(first element, end) for every part of the mask as soon as it is drawn.
void draw_mask(const KernelContext& ctx, float p, uint8_t* mask, int64_t n, auto&& fn) {
  // The comparison equals to_uniform(bits) >= p without rounding, because uniform numbers are
  // multiples of 2^-24.
  const auto threshold = static_cast<uint32_t>(std::ceil(static_cast<double>(p) * 0x1p24));
  cpu::parallel_ranges((n + 3) / 4, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t quad = begin; quad < end; quad += kCounters) {
      const int64_t last = std::min(quad + kCounters, end);
      const int64_t whole = std::min(last, n / 4);
      const uint64_t counter = ctx.random.offset + static_cast<uint64_t>(quad);
      if (whole > quad)
        cpu::draw_mask(ctx.random.seed, counter, whole - quad, threshold, mask + 4 * quad);
      if (last > whole) {
        uint8_t rest[4];
        cpu::draw_mask(ctx.random.seed, ctx.random.offset + static_cast<uint64_t>(whole), 1,
                       threshold, rest);
        std::copy_n(rest, n - 4 * whole, mask + 4 * whole);
      }
      fn(4 * quad, std::min(4 * last, n));
    }
  });
}

void dropout_native(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  if (!p.is_active(ctx.training)) {
    if (in[0].data != out[0].data) std::copy_n(in[0].as<char>(), in[0].bytes(), out[0].as<char>());
    return;
  }
  uint8_t* const mask = out[1].as<uint8_t>();
  const bool whole = out[1].shape == in[0].shape;
  dispatch_floating("Dropout", in[0].dtype, [&]<class T>(T) {
    const T* const x = in[0].as<T>();
    T* const y = out[0].as<T>();
    draw_mask(ctx, p.p, mask, out[1].size(), [&](int64_t begin, int64_t end) {
      if (whole) apply_whole_mask(x + begin, mask + begin, p.scale(), y + begin, end - begin);
    });
    if (!whole) apply_mask(x, in[0].shape, mask, out[1].shape, p.scale(), y);
  });
}

// Requires a mask of the data's shape and p > 0, which the pass that emits this operator checks.
void dropout_add_native(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  uint8_t* const mask = out[1].as<uint8_t>();
  dispatch_floating("Dropout", in[0].dtype, [&]<class T>(T) {
    const T *const x = in[0].as<T>(), *const added = in[1].as<T>();
    T* const y = out[0].as<T>();
    draw_mask(ctx, p.p, mask, out[1].size(), [&](int64_t begin, int64_t end) {
      apply_whole_mask(x + begin, mask + begin, p.scale(), added + begin, y + begin, end - begin);
    });
  });
}

void dropout_backward_native(KernelContext&, const DropoutParams& p, Inputs in, Outputs out) {
  dispatch_floating("Dropout", in[0].dtype, [&]<class T>(T) {
    apply_mask(in[0].as<T>(), in[0].shape, in[1].as<uint8_t>(), in[1].shape, p.scale(),
               out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<dropout_native>("Dropout");
  ops.cpu_kernel<dropout_add_native>("_dropout_add");
  ops.cpu_kernel<dropout_backward_native>("_dropout_backward");
});

}  // namespace mxlite
