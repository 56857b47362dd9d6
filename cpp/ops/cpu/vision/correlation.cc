#include "cpp/ops/vision/correlation.h"

#include <cmath>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// One pair of zero-padded images in the compute type.
struct Geometry {
  int64_t channels, height, width;  // size of data
  int64_t pad, padded_height, padded_width;
  int64_t rows, columns;  // number of patches

  Geometry(const CorrelationParams& p, const Shape& data)
      : channels(data[1]),
        height(data[2]),
        width(data[3]),
        pad(p.pad_size),
        padded_height(height + 2 * pad),
        padded_width(width + 2 * pad),
        rows(p.patches(height)),
        columns(p.patches(width)) {
    checked_mul(padded_size(), sizeof(double));  // throws if the size of the scratch memory
                                                 // overflows
  }
  int64_t padded_plane() const { return checked_mul(padded_height, padded_width); }
  int64_t padded_size() const { return checked_mul(channels, padded_plane()); }
};

template <class T, class Acc>
void add_border(const Geometry& g, const T* image, Acc* padded) {
  cpu::parallel_for(g.channels, g.padded_plane(), [&](int64_t c) {
    Acc* to = padded + c * g.padded_plane();
    std::fill_n(to, g.padded_plane(), Acc(0));
    for (int64_t y = 0; y < g.height; ++y)
      for (int64_t x = 0; x < g.width; ++x)
        to[(y + g.pad) * g.padded_width + x + g.pad] =
            static_cast<Acc>(image[(c * g.height + y) * g.width + x]);
  });
}

// Offset of the displaced patch for output channel k, in elements.
int64_t displacement(const CorrelationParams& p, const Geometry& g, int64_t k) {
  const int64_t n = p.displacements();
  return (k / n - p.radius()) * p.stride2 * g.padded_width + (k % n - p.radius()) * p.stride2;
}

// Calls fn(offset) for each element of the patches of row i. Offsets are those of the first patch
// in data1's plane.
void for_patch(const CorrelationParams& p, const Geometry& g, int64_t i, auto&& fn) {
  for (int64_t h = 0; h < p.kernel_size; ++h)
    for (int64_t w = 0; w < p.kernel_size; ++w)
      fn((i * p.stride1 + p.max_displacement + h) * g.padded_width + p.max_displacement + w);
}

// Calls fn(constant 1) for dense patches, so that the compiler knows that elements are adjacent;
// otherwise fn(stride).
void with_stride(int64_t stride, auto&& fn) {
  if (stride == 1)
    fn(std::integral_constant<int64_t, 1>{});
  else
    fn(stride);
}

void correlation_native(KernelContext& ctx, const CorrelationParams& p, Inputs in, Outputs out) {
  const Geometry g(p, in[0].shape);
  const int64_t displacements = out[0].shape[1], size = in[0].shape.product(1, 4);
  dispatch_floating("Correlation", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t first_at = plan.add<Acc>(g.padded_size());
    const size_t second_at = plan.add<Acc>(g.padded_size());
    const size_t row_at = plan.add<Acc>(g.columns * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    Acc *first = cpu::part<Acc>(block, first_at), *second = cpu::part<Acc>(block, second_at);
    const Acc count = static_cast<Acc>(p.kernel_size * p.kernel_size * g.channels);
    const int64_t work = g.columns * g.channels * p.kernel_size * p.kernel_size;
    for (int64_t n = 0; n < in[0].shape[0]; ++n) {
      add_border(g, in[0].as<T>() + n * size, first);
      add_border(g, in[1].as<T>() + n * size, second);
      T* image = out[0].as<T>() + n * displacements * g.rows * g.columns;
      cpu::parallel_ranges(displacements * g.rows, work, [&](int64_t begin, int64_t end, int t) {
        Acc* sum = cpu::part<Acc>(block, row_at) + t * g.columns;
        for (int64_t item = begin; item < end; ++item) {
          const int64_t moved = displacement(p, g, item / g.rows);
          std::fill_n(sum, g.columns, Acc(0));
          for (int64_t c = 0; c < g.channels; ++c)
            for_patch(p, g, item % g.rows, [&](int64_t at) {
              const Acc* a = first + c * g.padded_plane() + at;
              const Acc* b = second + c * g.padded_plane() + at + moved;
              with_stride(p.stride1, [&](auto step) {
                if (p.is_multiply)
                  for (int64_t j = 0; j < g.columns; ++j) sum[j] += a[j * step] * b[j * step];
                else
                  for (int64_t j = 0; j < g.columns; ++j)
                    sum[j] += std::abs(a[j * step] - b[j * step]);
              });
            });
          for (int64_t j = 0; j < g.columns; ++j)
            image[item * g.columns + j] = static_cast<T>(sum[j] / count);
        }
      });
    }
  });
}

// Gradients of one channel of both images, padded.
template <class Acc>
void channel_gradient(const CorrelationParams& p, const Geometry& g, const Acc* grad,
                      const Acc* first, const Acc* second, Acc* first_grad, Acc* second_grad) {
  const int64_t displacements = p.displacements() * p.displacements();
  for (int64_t item = 0; item < displacements * g.rows; ++item) {
    const int64_t moved = displacement(p, g, item / g.rows);
    const Acc* row = grad + item * g.columns;
    for_patch(p, g, item % g.rows, [&](int64_t at) {
      const Acc *a = first + at, *b = second + at + moved;
      Acc *to_a = first_grad + at, *to_b = second_grad + at + moved;
      with_stride(p.stride1, [&](auto step) {
        if (p.is_multiply) {
          for (int64_t j = 0; j < g.columns; ++j) {
            to_a[j * step] += row[j] * b[j * step];
            to_b[j * step] += row[j] * a[j * step];
          }
        } else {
          for (int64_t j = 0; j < g.columns; ++j) {
            const Acc v = a[j * step] >= b[j * step] ? row[j] : -row[j];
            to_a[j * step] += v;
            to_b[j * step] -= v;
          }
        }
      });
    });
  }
}

template <class T, class Acc>
void cut_border(const Geometry& g, const Acc* padded, T* plane) {
  for (int64_t y = 0; y < g.height; ++y)
    for (int64_t x = 0; x < g.width; ++x)
      plane[y * g.width + x] = static_cast<T>(padded[(y + g.pad) * g.padded_width + x + g.pad]);
}

// `in`: output_grad, data1, data2.
void correlation_backward_native(KernelContext& ctx, const CorrelationParams& p, Inputs in,
                                 Outputs out) {
  const Geometry g(p, in[1].shape);
  const int64_t plane = g.height * g.width, grads = in[0].shape.product(1, 4);
  dispatch_floating("Correlation", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::ScratchPlan plan;
    const size_t first_at = plan.add<Acc>(g.padded_size());
    const size_t second_at = plan.add<Acc>(g.padded_size());
    const size_t grad_at = plan.add<Acc>(grads);
    const size_t planes_at = plan.add<Acc>(2 * g.padded_plane() * cpu_threads());
    void* block = ctx.scratch(plan.bytes());
    Acc *first = cpu::part<Acc>(block, first_at), *second = cpu::part<Acc>(block, second_at);
    Acc* grad = cpu::part<Acc>(block, grad_at);
    const Acc count = static_cast<Acc>(p.kernel_size * p.kernel_size * g.channels);
    for (int64_t n = 0; n < in[1].shape[0]; ++n) {
      const int64_t image = n * g.channels * plane;
      add_border(g, in[1].as<T>() + image, first);
      add_border(g, in[2].as<T>() + image, second);
      const T* from = in[0].as<T>() + n * grads;
      for (int64_t i = 0; i < grads; ++i) grad[i] = static_cast<Acc>(from[i]) / count;
      const int64_t work = grads * p.kernel_size * p.kernel_size * 2;
      cpu::parallel_ranges(g.channels, work, [&](int64_t begin, int64_t end, int t) {
        Acc* first_grad = cpu::part<Acc>(block, planes_at) + t * 2 * g.padded_plane();
        Acc* second_grad = first_grad + g.padded_plane();
        for (int64_t c = begin; c < end; ++c) {
          std::fill_n(first_grad, 2 * g.padded_plane(), Acc(0));
          channel_gradient(p, g, grad, first + c * g.padded_plane(), second + c * g.padded_plane(),
                           first_grad, second_grad);
          cut_border(g, first_grad, out[0].as<T>() + image + c * plane);
          cut_border(g, second_grad, out[1].as<T>() + image + c * plane);
        }
      });
    }
  });
}

}  // namespace

static const Registration correlation_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<correlation_native>>("Correlation", {.inline_ok = false});
  ops.cpu_kernel<cpu::flushing<correlation_backward_native>>("_correlation_backward",
                                                             {.inline_ok = false});
});

}  // namespace mxlite
