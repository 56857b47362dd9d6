#include "cpp/ops/cpu/onednn/float_copies.h"

#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::onednn {
namespace {

size_t aligned_bytes(const TensorRef& ref) {
  return (static_cast<size_t>(ref.size()) * sizeof(float) + 63) / 64 * 64;
}

}  // namespace

SpecList as_float32(SpecSpan specs) {
  SpecList result;
  for (const TensorSpec& s : specs) result.push_back({s.shape, DType::kFloat32});
  return result;
}

const char* check_float_copies(SpecSpan in, SpecSpan out) {
  const DType dtype = in[0].dtype;
  if (!is_half(dtype) || computes_in(dtype)) return "only for halves that oneDNN lacks here";
  for (const SpecSpan specs : {in, out})
    for (const TensorSpec& s : specs)
      if (s.dtype != dtype) return "only for arrays of one dtype";
  return check_common(as_float32(in), as_float32(out));
}

FloatCopies::FloatCopies(Inputs in, Outputs out) : inputs_(in.size()) {
  size_t bytes = 0;
  for (const Inputs list : {in, out})
    for (const TensorRef& ref : list) bytes += aligned_bytes(ref);
  block_ = cpu_allocator().allocate(bytes);
  auto* at = static_cast<std::byte*>(block_.data);
  for (const Inputs list : {in, out})
    for (const TensorRef& ref : list) {
      TensorRef& copy = refs_.emplace_back(ref);
      copy.data = at;
      copy.dtype = DType::kFloat32;
      at += aligned_bytes(ref);
    }
  for (size_t i = 0; i < in.size(); ++i)
    dispatch_floating("float copies", in[i].dtype, [&]<class T>(T) {
      cpu::convert(in[i].as<T>(), refs_[i].as<float>(), in[i].size());
    });
}

void FloatCopies::store(Outputs out) const {
  for (size_t i = 0; i < out.size(); ++i)
    dispatch_floating("float copies", out[i].dtype, [&]<class T>(T) {
      cpu::convert(refs_[inputs_ + i].as<float>(), out[i].as<T>(), out[i].size());
    });
}

}  // namespace mxlite::onednn
