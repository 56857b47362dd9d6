// Attention on interleaved projections: the attention kernels get views of the projections' parts.
#include "cpp/ops/nn/interleaved_attention.h"

#include <cstring>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/dot_product_attention.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Params = InterleavedAttentionParams;
using Views = SmallVector<TensorRef, 12>;

// Adds the views of query, key and value. For self-attention, all of them are in projections[0].
template <bool Self>
void add_parts(Views& to, std::span<const TensorRef> projections, int64_t heads) {
  if (Self) {
    for (int64_t i = 0; i < 3; ++i) to.push_back(view_of_part(projections[0], heads, 3, i));
    return;
  }
  to.push_back(view_of_part(projections[0], heads, 1, 0));
  for (int64_t i = 0; i < 2; ++i) to.push_back(view_of_part(projections[1], heads, 2, i));
}

template <bool Self>
void forward(KernelContext& ctx, const Params& p, Inputs in, Outputs out) {
  constexpr size_t kProjections = Self ? 1 : 2;
  Views inputs;
  add_parts<Self>(inputs, in, p.heads);
  for (const TensorRef& t : in.subspan(kProjections)) inputs.push_back(t);
  const TensorRef outputs[] = {view_of_part(out[0], p.heads, 1, 0), out[1], out[2]};
  cpu::run_attention(ctx, p, {inputs.begin(), inputs.end()}, outputs);
}

template <bool Self>
void backward(KernelContext& ctx, const Params& p, Inputs in, Outputs out) {
  constexpr size_t kProjections = Self ? 1 : 2;
  if (in[0].size() == 0 || in[kProjections].size() == 0) {
    for (const TensorRef& grad : out) std::memset(grad.data, 0, grad.bytes());
    return;
  }
  Views inputs, outputs;
  inputs.push_back(view_of_part(in[0], p.heads, 1, 0));
  add_parts<Self>(inputs, in.subspan(1), p.heads);
  inputs.push_back(view_of_part(in[kProjections + 1], p.heads, 1, 0));
  for (const TensorRef& t : in.subspan(kProjections + 2)) inputs.push_back(t);
  add_parts<Self>(outputs, out, p.heads);
  cpu::run_attention_backward(ctx, p, {inputs.begin(), inputs.end()},
                              {outputs.begin(), outputs.end()});
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<forward<true>>>("_interleaved_selfatt", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<forward<false>>>("_interleaved_encdec", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<backward<true>>>("_interleaved_selfatt_backward", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<backward<false>>>("_interleaved_encdec_backward", kWorkerOnly);
});

}  // namespace mxlite
