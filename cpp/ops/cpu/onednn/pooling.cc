#include "cpp/ops/cpu/onednn/pooling.h"

#include <string_view>

#include "cpp/ops/cpu/onednn/eager.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {

std::optional<PoolDescs> describe(const PoolingParams& p, const Shape& data, const Shape& output,
                                  DType dtype) {
  PoolDescs d;
  const bool average = p.pool_type == PoolType::kAvg;
  if (!average && p.pool_type != PoolType::kMax) return std::nullopt;
  const bool last = p.channels_last();
  d.data = last ? channels_last_desc(data, dtype) : plain_desc(data, dtype);
  d.output = last ? channels_last_desc(output, dtype) : plain_desc(output, dtype);
  d.algorithm = !average           ? dnnl::algorithm::pooling_max
                : p.includes_pad() ? dnnl::algorithm::pooling_avg_include_padding
                                   : dnnl::algorithm::pooling_avg_exclude_padding;
  const SpatialWindow w = p.window(data);
  const int spatial = data.ndim() - 2;
  for (int i = 0, at = 3 - spatial; i < spatial; ++i, ++at) {
    const int64_t in_size = data[i + (last ? 1 : 2)], out_size = output[i + (last ? 1 : 2)];
    // With the conventions `full` and `same`, the last window may extend beyond the padding.
    const int64_t last_start = (out_size - 1) * w.stride[at] - w.pad[at];
    const int64_t end = last_start + w.kernel[at] - in_size;
    if (last_start >= in_size) return std::nullopt;  // a window without data
    if (average && p.includes_pad() && end > w.pad[at]) return std::nullopt;
    d.kernel.push_back(w.kernel[at]);
    d.stride.push_back(w.stride[at]);
    d.dilate.push_back(0);
    d.pad.push_back(w.pad[at]);
    d.pad_end.push_back(end);
  }
  return d;
}

dnnl::pooling_forward::primitive_desc forward_desc(const PoolDescs& d, const Desc& data,
                                                   const Desc& output,
                                                   const dnnl::primitive_attr& attr) {
  apply_thread_count(memory_work(data));
  const dnnl::pooling_forward::primitive_desc pd(
      engine(), dnnl::prop_kind::forward_inference, d.algorithm, data, output, d.stride, d.kernel,
      d.dilate, d.pad, d.pad_end, attr, /*allow_empty=*/true);
  if (pd.get(true) && std::string_view(pd.impl_info_str()).starts_with("ref")) return {};
  return pd;
}

namespace {

PrimitiveCallRef prepare(const PoolingParams& p, SpecSpan in, SpecSpan out) {
  if (p.is_whole_average()) return nullptr;  // the native kernel is faster
  Key key("Pooling");
  key.add(p.kernel).add(p.stride).add(p.pad).add(int64_t{p.global_pool});
  key.add(static_cast<int64_t>(p.pool_type)).add(int64_t{p.includes_pad()});
  key.add(int64_t{p.channels_last()}).add(in[0]).add(out[0]);
  return cached_call("Pooling", key, [&] {
    Shape data = in[0].shape, output = out[0].shape;
    data[0] = output[0] = samples_at_once(p, in[0]);
    const auto d = describe(p, data, output, in[0].dtype);
    if (!d) return PrimitiveCall();
    const auto pd = forward_desc(*d, d->data, d->output, user_scratchpad());
    return pd.get(true) ? PrimitiveCall(pd, {}) : PrimitiveCall();
  });
}

void run(KernelContext& ctx, const PoolingParams& p, Inputs in, Outputs out) {
  const PrimitiveCallRef call = prepare(p, specs_of(in), specs_of(out));
  if (p.pool_type != PoolType::kMax) {
    call->run(ctx, {{DNNL_ARG_SRC, in[0].data}, {DNNL_ARG_DST, out[0].data}});
    return;
  }
  const int64_t batch = in[0].shape[0], count = samples_at_once(p, {in[0].shape, in[0].dtype});
  Shape data = in[0].shape, output = out[0].shape;
  data[0] = output[0] = count;
  const auto d = describe(p, data, output, in[0].dtype);
  const size_t parts = static_cast<size_t>(batch / count);
  for (size_t i = 0; i < parts; ++i) {
    auto* const from = in[0].as<std::byte>() + in[0].bytes() / parts * i;
    auto* const to = out[0].as<std::byte>() + out[0].bytes() / parts * i;
    call->run(ctx, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
    keep_nans(*d, d->data, d->output, from, to);
  }
}

}  // namespace

static const Registration registration(Stage::kLibraryKernels, [](OpRegistry& ops) {
  add_kernel<PoolingParams, prepare, &run>(ops, "Pooling");
});

}  // namespace mxlite::onednn
