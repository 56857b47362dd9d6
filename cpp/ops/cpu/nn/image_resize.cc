#include "cpp/ops/nn/image_resize.h"

#include <algorithm>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/resize_sample.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct Planes {
  int64_t count, height, width, out_height, out_width;
};
Planes planes(const Shape& data, const Shape& output) {
  return {data[0] * data[1], data[2], data[3], output[2], output[3]};
}

// Input rows (or columns) [begin, end) that contribute to one output position.
struct Range {
  int64_t begin, end;
};
Range pool_range(int64_t i, int64_t size, int64_t out_size) {
  return {i * size / out_size, ((i + 1) * size + out_size - 1) / out_size};
}

void adaptive_pooling_native(KernelContext&, const AdaptiveAvgPoolingParams&, Inputs in,
                             Outputs out) {
  const Planes q = planes(in[0].shape, out[0].shape);
  dispatch_floating("AdaptiveAvgPooling2D", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(q.count, q.height * q.width, [&](int64_t plane) {
      const T* x = in[0].as<T>() + plane * q.height * q.width;
      T* y = out[0].as<T>() + plane * q.out_height * q.out_width;
      for (int64_t i = 0; i < q.out_height; ++i)
        for (int64_t j = 0; j < q.out_width; ++j) {
          const Range rows = pool_range(i, q.height, q.out_height);
          const Range columns = pool_range(j, q.width, q.out_width);
          Acc sum = 0;
          for (int64_t r = rows.begin; r < rows.end; ++r)
            for (int64_t c = columns.begin; c < columns.end; ++c) sum += Acc(x[r * q.width + c]);
          const int64_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
          y[i * q.out_width + j] = static_cast<T>(sum / static_cast<Acc>(count));
        }
    });
  });
}

// Accumulates in Acc, one plane per thread, and rounds once. add(sum plane, output row, output
// column, gradient) distributes one gradient.
void scatter(KernelContext& ctx, const Planes& q, Inputs in, Outputs out, auto&& add) {
  dispatch_floating("resize", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const int64_t pixels = q.height * q.width, out_pixels = q.out_height * q.out_width;
    Acc* scratch =
        static_cast<Acc*>(ctx.scratch(static_cast<size_t>(pixels * cpu_threads()) * sizeof(Acc)));
    cpu::parallel_ranges(q.count, pixels + out_pixels * 4, [&](int64_t begin, int64_t end, int t) {
      Acc* sum = scratch + t * pixels;
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill_n(sum, pixels, Acc(0));
        const T* grad = in[0].as<T>() + plane * out_pixels;
        for (int64_t i = 0; i < q.out_height; ++i)
          for (int64_t j = 0; j < q.out_width; ++j)
            add(sum, i, j, static_cast<Acc>(grad[i * q.out_width + j]));
        for (int64_t k = 0; k < pixels; ++k)
          out[0].as<T>()[plane * pixels + k] = static_cast<T>(sum[k]);
      }
    });
  });
}

void adaptive_pooling_backward_native(KernelContext& ctx, const ImageResizeGradParams&, Inputs in,
                                      Outputs out) {
  const Planes q = planes(out[0].shape, in[0].shape);
  scatter(ctx, q, in, out, [&]<class Acc>(Acc* sum, int64_t i, int64_t j, Acc grad) {
    const Range rows = pool_range(i, q.height, q.out_height);
    const Range columns = pool_range(j, q.width, q.out_width);
    const Acc v = grad / static_cast<Acc>((rows.end - rows.begin) * (columns.end - columns.begin));
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = columns.begin; c < columns.end; ++c) sum[r * q.width + c] += v;
  });
}

void bilinear_resize_native(KernelContext&, const BilinearResizeParams& p, Inputs in, Outputs out) {
  const Planes q = planes(in[0].shape, out[0].shape);
  dispatch_floating("BilinearResize2D", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(q.count, q.out_height * q.out_width * 8, [&](int64_t plane) {
      const T* x = in[0].as<T>() + plane * q.height * q.width;
      T* y = out[0].as<T>() + plane * q.out_height * q.out_width;
      for (int64_t i = 0; i < q.out_height; ++i) {
        const ResizeSample row(i, q.height, q.out_height, p.align_corners);
        const T *top = x + row.first * q.width, *bottom = x + row.second * q.width;
        const Acc down = static_cast<Acc>(row.weight);
        for (int64_t j = 0; j < q.out_width; ++j) {
          const ResizeSample column(j, q.width, q.out_width, p.align_corners);
          const Acc right = static_cast<Acc>(column.weight);
          const Acc upper = Acc(top[column.first]) * (1 - right) + Acc(top[column.second]) * right;
          const Acc lower =
              Acc(bottom[column.first]) * (1 - right) + Acc(bottom[column.second]) * right;
          y[i * q.out_width + j] = static_cast<T>(upper * (1 - down) + lower * down);
        }
      }
    });
  });
}

void bilinear_resize_backward_native(KernelContext& ctx, const ImageResizeGradParams& p, Inputs in,
                                     Outputs out) {
  const Planes q = planes(out[0].shape, in[0].shape);
  scatter(ctx, q, in, out, [&]<class Acc>(Acc* sum, int64_t i, int64_t j, Acc grad) {
    const ResizeSample row(i, q.height, q.out_height, p.align_corners);
    const ResizeSample column(j, q.width, q.out_width, p.align_corners);
    const Acc down = static_cast<Acc>(row.weight), right = static_cast<Acc>(column.weight);
    sum[row.first * q.width + column.first] += grad * (1 - down) * (1 - right);
    sum[row.first * q.width + column.second] += grad * (1 - down) * right;
    sum[row.second * q.width + column.first] += grad * down * (1 - right);
    sum[row.second * q.width + column.second] += grad * down * right;
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<adaptive_pooling_native>("_contrib_AdaptiveAvgPooling2D", {.inline_ok = false});
  ops.cpu_kernel<adaptive_pooling_backward_native>("_adaptive_avg_pooling_backward",
                                                   {.inline_ok = false});
  ops.cpu_kernel<bilinear_resize_native>("_contrib_BilinearResize2D", {.inline_ok = false});
  ops.cpu_kernel<bilinear_resize_backward_native>("_bilinear_resize_backward",
                                                  {.inline_ok = false});
});

}  // namespace mxlite
