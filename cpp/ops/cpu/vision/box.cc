#include "cpp/ops/vision/box.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/vision/boxes.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using cpu::Box;

template <BoxFormat kFormat, class T>
void iou_row(const T* one, const T* many, int64_t count, T* to) {
  using Acc = ComputeType<T>;
  const Box<Acc> a = cpu::load_box<kFormat, Acc>(one);
  for (int64_t i = 0; i < count; ++i) {
    const Box<Acc> b = cpu::load_box<kFormat, Acc>(many + 4 * i);
    const Acc common = cpu::common_length(a.x, b.x) * cpu::common_length(a.y, b.y);
    const Acc all = a.area + b.area - common;
    to[i] = static_cast<T>(common > 0 ? common / all : Acc(0));
  }
}

void iou_native(KernelContext&, const BoxIouParams& p, Inputs in, Outputs out) {
  const int64_t rows = in[0].size() / 4, columns = in[1].size() / 4;
  dispatch_floating("_contrib_box_iou", out[0].dtype, [&]<class T>(T) {
    const auto row = p.format == BoxFormat::kCorner ? iou_row<BoxFormat::kCorner, T>
                                                    : iou_row<BoxFormat::kCenter, T>;
    cpu::parallel_for(rows, columns * 4, [&](int64_t i) {
      row(in[0].as<T>() + 4 * i, in[1].as<T>(), columns, out[0].as<T>() + i * columns);
    });
  });
}

// A box given by center and size.
template <class Acc>
struct CenterBox {
  Acc x, y, width, height;
};
template <class Acc, class T>
CenterBox<Acc> center_of(const T* corner) {
  const Acc left = static_cast<Acc>(corner[0]), top = static_cast<Acc>(corner[1]);
  const Acc width = static_cast<Acc>(corner[2]) - left, height = static_cast<Acc>(corner[3]) - top;
  return {left + width * Acc(0.5), top + height * Acc(0.5), width, height};
}

template <class T>
void encode(Inputs in, Outputs out, int64_t i) {
  using Acc = ComputeType<T>;
  const int64_t num_anchors = in[2].shape[1], num_refs = in[3].shape[1];
  T* const target = out[0].as<T>() + 4 * i;
  const bool positive = static_cast<Acc>(in[0].as<T>()[i]) > Acc(0.5);
  for (int k = 0; k < 4; ++k) {
    target[k] = T(0);
    out[1].as<T>()[4 * i + k] = T(positive ? 1 : 0);
  }
  if (!positive || num_refs == 0) return;
  const Acc match = static_cast<Acc>(in[1].as<T>()[i]);  // indices out of range select the nearest
                                                         // box
  const Acc last = static_cast<Acc>(num_refs - 1);
  const int64_t ref = match > 0 ? static_cast<int64_t>(match < last ? match : last) : 0;
  const auto from = center_of<Acc>(in[3].as<T>() + 4 * (i / num_anchors * num_refs + ref));
  const auto anchor = center_of<Acc>(in[2].as<T>() + 4 * i);
  const Acc encoded[4] = {(from.x - anchor.x) / anchor.width, (from.y - anchor.y) / anchor.height,
                          std::log(from.width / anchor.width),
                          std::log(from.height / anchor.height)};
  for (int k = 0; k < 4; ++k) {
    const Acc mean = static_cast<Acc>(in[4].as<T>()[k]), std = static_cast<Acc>(in[5].as<T>()[k]);
    target[k] = static_cast<T>((encoded[k] - mean) / std);
  }
}

void encode_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating("_contrib_box_encode", out[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(in[0].size(), 32, [&](int64_t i) { encode<T>(in, out, i); });
  });
}

template <class T>
void decode(const BoxDecodeParams& p, const T* data, const T* anchor, T* to) {
  using Acc = ComputeType<T>;
  CenterBox<Acc> box;
  if (p.format == BoxFormat::kCorner) {
    box = center_of<Acc>(anchor);
  } else {
    box = {static_cast<Acc>(anchor[0]), static_cast<Acc>(anchor[1]), static_cast<Acc>(anchor[2]),
           static_cast<Acc>(anchor[3])};
  }
  const Acc x = static_cast<Acc>(data[0]) * static_cast<Acc>(p.std0) * box.width + box.x;
  const Acc y = static_cast<Acc>(data[1]) * static_cast<Acc>(p.std1) * box.height + box.y;
  Acc width = static_cast<Acc>(data[2]) * static_cast<Acc>(p.std2);
  Acc height = static_cast<Acc>(data[3]) * static_cast<Acc>(p.std3);
  if (const Acc clip = static_cast<Acc>(p.clip); clip > 0) {
    width = width < clip ? width : clip;
    height = height < clip ? height : clip;
  }
  const Acc half_width = std::exp(width) * box.width * Acc(0.5);
  const Acc half_height = std::exp(height) * box.height * Acc(0.5);
  to[0] = static_cast<T>(x - half_width);
  to[1] = static_cast<T>(y - half_height);
  to[2] = static_cast<T>(x + half_width);
  to[3] = static_cast<T>(y + half_height);
}

void decode_native(KernelContext&, const BoxDecodeParams& p, Inputs in, Outputs out) {
  const int64_t boxes = in[0].size() / 4, num_anchors = in[1].shape[1];
  dispatch_floating("_contrib_box_decode", out[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(boxes, 32, [&](int64_t i) {
      decode(p, in[0].as<T>() + 4 * i, in[1].as<T>() + 4 * (i % num_anchors),
             out[0].as<T>() + 4 * i);
    });
  });
}

}  // namespace

static const Registration box_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&iou_native>("_contrib_box_iou", kWorkerOnly);
  ops.cpu_kernel<&encode_native>("_contrib_box_encode", kWorkerOnly);
  ops.cpu_kernel<&decode_native>("_contrib_box_decode", kWorkerOnly);
});

}  // namespace mxlite
