#include "cpp/ops/cpu/onednn/layout.h"

#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/nn/winograd/winograd.h"
#include "cpp/ops/cpu/onednn/pair_panels.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

using dnnl::memory;

// Strides, sizes and blocks of a tensor in memory. A dimension of size 1 has stride 0, because its
// stride has no effect. A single block that covers its whole dimension is described by a stride.
struct Addressing {
  Dims size, stride, block;
  std::vector<memory::dim> block_dims;
  memory::data_type type;
  bool operator==(const Addressing&) const = default;
};

Addressing addressing(const Desc& d) {
  Addressing a{d.get_dims(), d.get_strides(), d.get_inner_blks(), {}, d.get_data_type()};
  const auto idxs = d.get_inner_idxs();
  a.block_dims.assign(idxs.begin(), idxs.end());
  if (a.block.size() == 1 && d.get_padded_dims() == a.size) {
    const auto axis = static_cast<size_t>(a.block_dims[0]);
    const bool one_block = a.size[axis] == a.block[0];
    if (one_block || a.stride[axis] == a.block[0]) {
      a.stride[axis] = 1;
      a.block.clear();
      a.block_dims.clear();
    }
  }
  for (size_t i = 0; i < a.size.size(); ++i)
    if (d.get_padded_dims()[i] == 1) a.stride[i] = 0;
  return a;
}

Desc row_major(const Dims& size, memory::data_type type) {
  Dims step(size.size(), 1);
  for (size_t i = size.size() - 1; i-- > 0;)
    step[i] = step[i + 1] * std::max<int64_t>(size[i + 1], 1);
  return Desc(size, type, step);
}

}  // namespace

bool same_memory(const Desc& a, const Desc& b) {
  if (a == b) return true;
  if (a.get_format_kind() != memory::format_kind::blocked ||
      b.get_format_kind() != memory::format_kind::blocked)
    return false;
  return a.get_size() == b.get_size() && addressing(a) == addressing(b);
}

const MemoryFormat& format_of(const Layout& layout) {
  return *static_cast<const MemoryFormat*>(layout.desc.get());
}

Desc desc_of(const Layout& layout, const TensorSpec& spec) {
  return layout.is_plain() ? plain_desc(spec) : format_of(layout).desc;
}

Layout make_layout(const Desc& desc) {
  const bool plain = desc.get_format_kind() == memory::format_kind::blocked &&
                     desc.get_submemory_offset() == 0 &&
                     same_memory(desc, row_major(desc.get_dims(), desc.get_data_type()));
  return {plain ? nullptr : std::make_shared<const MemoryFormat>(MemoryFormat{desc}),
          desc.get_size()};
}

Desc winograd_weight_desc(const Shape& weight) {
  return Desc(dims(weight), memory::data_type::f32, memory::format_tag::Abcd16a);
}

Desc winograd_rotated_desc(const Shape& weight) {
  return Desc(dims(weight), memory::data_type::f32, memory::format_tag::aBcd16b);
}

Layout winograd_layout(const Shape& weight) {
  return {std::make_shared<const MemoryFormat>(
              MemoryFormat{winograd_weight_desc(weight), /*winograd=*/true}),
          cpu::winograd_weight_bytes(weight[1], weight[0])};
}

Desc channels_to_second(const Desc& user) {
  const int ndim = user.get_ndims();
  std::vector<int> to(static_cast<size_t>(ndim));  // dimension i becomes dimension to[i]
  for (int i = 1; i < ndim - 1; ++i) to[i] = i + 1;
  to[ndim - 1] = 1;
  return user.permute_axes(to);
}

Desc channels_to_last(const Desc& own) {
  const int ndim = own.get_ndims();
  std::vector<int> to(static_cast<size_t>(ndim));
  for (int i = 2; i < ndim; ++i) to[i] = i - 1;
  to[1] = ndim - 1;
  return own.permute_axes(to);
}

Desc channels_last_of(const Shape& shape, DType dtype) {
  Shape user{shape[0]};
  for (int i = 2; i < shape.ndim(); ++i) user.push_back(shape[i]);
  user.push_back(shape[1]);
  return channels_last_desc(user, dtype);
}

bool is_channels_last(const Desc& d) {
  return d.get_format_kind() == memory::format_kind::blocked && d.get_inner_nblks() == 0 &&
         d.get_ndims() >= 3 && d.get_strides()[1] == 1;
}

int64_t channel_block() { return cpu::has_avx512() ? 16 : 8; }

Desc blocked_of(const Shape& shape, DType dtype) {
  return Desc(dims(shape), data_type(dtype),
              channel_block() == 16 ? memory::format_tag::aBcd16b : memory::format_tag::aBcd8b);
}

PixelLayout pixel_layout(const Layout& given, const Shape& shape) {
  const bool blocked = !given.is_plain() && same_memory(format_of(given).desc, blocked_of(shape));
  return {blocked,
          make_layout(blocked ? blocked_of(shape) : channels_last_of(shape, DType::kFloat32))};
}

void bind_run(Plan& plan, const dnnl::primitive_desc_base& pd, Binding binding) {
  auto primitive = std::make_shared<const Primitive>(pd);
  plan.scratch_bytes = primitive->scratch_bytes();
  plan.run = [primitive, binding = std::move(binding)](KernelContext&, std::span<void* const> in,
                                                       std::span<void* const> out, void* scratch) {
    SmallVector<Arg, 8> args;
    for (size_t i = 0; i < binding.inputs.size(); ++i)
      if (binding.inputs[i]) args.push_back({binding.inputs[i], in[i]});
    for (size_t i = 0; i < binding.outputs.size(); ++i)
      if (binding.outputs[i]) args.push_back({binding.outputs[i], out[i]});
    primitive->run(args, scratch);
  };
}

bool same_format(const Layout& a, const Layout& b) {
  const auto &x = format_of(a), &y = format_of(b);
  return x.winograd == y.winograd && x.halved == y.halved && same_memory(x.desc, y.desc);
}

Plan plan_format_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                         const Layout& to) {
  return guarded("reorder", [&] {
    Desc source = desc_of(from, from_spec), target = desc_of(to, to_spec);
    apply_thread_count(memory_work(source));
    // A packed weight has the groups as a separate dimension.
    if (source.get_ndims() != target.get_ndims())
      (from.is_plain() ? source : target) =
          (from.is_plain() ? source : target)
              .reshape((from.is_plain() ? target : source).get_dims());
    Plan plan;
    plan.inputs = {from};
    plan.outputs = {to};
    if (!to.is_plain() && format_of(to).winograd) {
      // Only weights have the Winograd form, and their source is plain.
      const auto pack = std::make_shared<const Primitive>(make_reorder(source, target));
      const int64_t channels = to_spec.shape[1], filters = to_spec.shape[0];
      const int kernel = static_cast<int>(to_spec.shape[2]);
      const size_t packed_bytes = (target.get_size() + 63) / 64 * 64;
      plan.scratch_bytes = packed_bytes + pack->scratch_bytes();
      plan.run = [=](KernelContext&, std::span<void* const> in, std::span<void* const> out,
                     void* scratch) {
        pack->run({{DNNL_ARG_FROM, in[0]}, {DNNL_ARG_TO, scratch}},
                  static_cast<std::byte*>(scratch) + packed_bytes);
        cpu::winograd_transform(channels, filters, kernel, static_cast<const float*>(scratch),
                                static_cast<float*>(out[0]));
      };
      return plan;
    }
    if (!to.is_plain() && format_of(to).halved) {  // the source is a plain int8 weight
      const auto pack = std::make_shared<const Primitive>(make_reorder(source, target));
      const int64_t count = from_spec.shape.size();
      const auto halves_bytes = static_cast<size_t>((count + 63) / 64 * 64);
      plan.scratch_bytes = halves_bytes + pack->scratch_bytes();
      plan.run = [=](KernelContext&, std::span<void* const> in, std::span<void* const> out,
                     void* scratch) {
        const auto* weight = static_cast<const int8_t*>(in[0]);
        auto* halves = static_cast<int8_t*>(scratch);
        for (int64_t i = 0; i < count; ++i)
          halves[i] = static_cast<int8_t>(std::nearbyint(static_cast<float>(weight[i]) / 2));
        pack->run({{DNNL_ARG_FROM, halves}, {DNNL_ARG_TO, out[0]}}, halves + halves_bytes);
      };
      return plan;
    }
    if (const auto pairs = pair_panels(target); pairs && from.is_plain() && cpu::has_avx512()) {
      // oneDNN's reorder of transposed matrices takes longer than their product, so pack_pairs is
      // used.
      plan.run = [pairs = *pairs](KernelContext&, std::span<void* const> in,
                                  std::span<void* const> out, void*) {
        cpu::pack_pairs(static_cast<const uint16_t*>(in[0]), pairs.transposed, pairs.panels,
                        static_cast<uint16_t*>(out[0]));
      };
      return plan;
    }
    bind_run(plan,
             dnnl::reorder::primitive_desc(engine(), source, engine(), target, user_scratchpad()),
             {{DNNL_ARG_FROM}, {DNNL_ARG_TO}});
    return plan;
  });
}

static const Registration registration(Stage::kPlans, [](OpRegistry&) {
  set_layout_backend(DeviceType::kCPU, {same_format, plan_format_reorder});
});

}  // namespace mxlite::onednn
