#include "cpp/ops/nn/dropout.h"

#include "cpp/core/random.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Element of the mask for element i of data, where the mask has size 1 along some axes.
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

template <class T>
void apply_mask(const T* x, const Shape& shape, const uint8_t* mask, const Shape& mask_shape,
                float scale, T* y) {
  using Acc = ComputeType<T>;
  const bool whole = mask_shape == shape;
  cpu::parallel_ranges(shape.size(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const bool keep = mask[whole ? i : mask_index(shape, mask_shape, i)];
      y[i] = keep ? static_cast<T>(static_cast<Acc>(x[i]) * static_cast<Acc>(scale)) : T(0);
    }
  });
}

void draw_mask(const KernelContext& ctx, float p, uint8_t* mask, int64_t n) {
  cpu::parallel_for((n + 3) / 4, 16, [&](int64_t quad) {
    const auto bits = philox(ctx.random.seed, ctx.random.offset + static_cast<uint64_t>(quad));
    for (int64_t i = quad * 4; i < std::min(quad * 4 + 4, n); ++i)
      mask[i] = to_uniform(bits[i % 4]) >= p;
  });
}

void dropout_native(KernelContext& ctx, const DropoutParams& p, Inputs in, Outputs out) {
  if (!p.is_active(ctx.training)) {
    if (in[0].data != out[0].data) std::copy_n(in[0].as<char>(), in[0].bytes(), out[0].as<char>());
    return;
  }
  uint8_t* mask = out[1].as<uint8_t>();
  draw_mask(ctx, p.p, mask, out[1].size());
  dispatch_floating("Dropout", in[0].dtype, [&]<class T>(T) {
    apply_mask(in[0].as<T>(), in[0].shape, mask, out[1].shape, p.scale(), out[0].as<T>());
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
  ops.kernel<dropout_native>("Dropout", DeviceType::kCPU);
  ops.kernel<dropout_backward_native>("_dropout_backward", DeviceType::kCPU);
});

}  // namespace mxlite
