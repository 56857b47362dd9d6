// Eager FullyConnected on the user's own memory: weights are not copied into another layout.
#include "cpp/ops/nn/fully_connected.h"

#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/onednn/eager.h"
#include "cpp/ops/cpu/onednn/fully_connected.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {

dnnl::primitive_desc_base product_desc(const RowsColumns& size, int64_t outputs, DType dtype,
                                       const Desc& bias, const Desc& weight,
                                       const dnnl::primitive_attr& attr, bool as_matmul) {
  apply_thread_count(
      product_work(static_cast<double>(size.rows * size.columns) * static_cast<double>(outputs)));
  const Desc data({size.rows, size.columns}, data_type(dtype), dnnl::memory::format_tag::ab);
  const Desc output({size.rows, outputs}, data_type(dtype), dnnl::memory::format_tag::ab);
  // inner_product has the faster bfloat16 matrix-vector product; for other cases matmul is faster.
  const bool any = weight.get_format_kind() == dnnl::memory::format_kind::any;
  if (size.rows == 1 || (any && !as_matmul)) {
    using PD = dnnl::inner_product_forward::primitive_desc;
    const auto prop = dnnl::prop_kind::forward_inference;
    return bias.is_zero() ? PD(engine(), prop, data, weight, output, attr, /*allow_empty=*/true)
                          : PD(engine(), prop, data, weight, bias, output, attr,
                               /*allow_empty=*/true);
  }
  using PD = dnnl::matmul::primitive_desc;
  const Desc transposed =
      any ? Desc({size.columns, outputs}, data_type(dtype), dnnl::memory::format_tag::any)
          : weight.permute_axes({1, 0});
  return bias.is_zero() ? PD(engine(), data, transposed, output, attr, /*allow_empty=*/true)
                        : PD(engine(), data, transposed, bias.reshape({1, outputs}), output, attr,
                             /*allow_empty=*/true);
}

namespace {

PrimitiveCallRef prepare(const FullyConnectedParams& p, SpecSpan in, SpecSpan) {
  const RowsColumns size = fully_connected_rows(p, in[0].shape);
  // Small products run inline in the native kernel.
  if (cpu::is_small_gemm(size.rows, p.num_hidden, size.columns)) return nullptr;
  // The native kernel computes single float32 rows by matrix_vector.
  if (size.rows == 1 && in[0].dtype == DType::kFloat32) return nullptr;
  Key key("FullyConnected");
  key.add(size.rows).add(size.columns).add(in[1]).add(static_cast<int64_t>(in.size()));
  return cached_call("FullyConnected", key, [&] {
    const Desc bias = in.size() > 2 ? plain_desc(in[2]) : Desc();
    const auto pd =
        product_desc(size, p.num_hidden, in[0].dtype, bias, plain_desc(in[1]), user_scratchpad());
    return pd.get(true) ? PrimitiveCall(pd, {}) : PrimitiveCall();
  });
}

void run(KernelContext& ctx, const FullyConnectedParams& p, Inputs in, Outputs out) {
  prepare(p, specs_of(in), {})
      ->run(ctx, {{DNNL_ARG_SRC, in[0].data},
                  {DNNL_ARG_WEIGHTS, in[1].data},
                  {DNNL_ARG_BIAS, in.size() > 2 ? in[2].data : nullptr},
                  {DNNL_ARG_DST, out[0].data}});
}

}  // namespace

static const Registration registration(Stage::kLibraryKernels, [](OpRegistry& ops) {
  add_kernel<FullyConnectedParams, prepare, &run>(ops, "FullyConnected");
});

}  // namespace mxlite::onednn
