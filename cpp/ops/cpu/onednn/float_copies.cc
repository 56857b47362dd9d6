#include "cpp/ops/cpu/onednn/float_copies.h"

#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::onednn {

SpecList as_float32(SpecSpan specs) {
  SpecList result;
  for (const TensorSpec& s : specs) result.push_back({s.shape, DType::kFloat32});
  return result;
}

const char* check_float_copies(SpecSpan in, SpecSpan out) {
  const DType dtype = in[0].dtype;
  if (!is_half(dtype) || computes_in(dtype)) return "only for 16-bit floats that oneDNN lacks";
  for (const SpecSpan specs : {in, out})
    for (const TensorSpec& s : specs)
      if (s.dtype != dtype) return "only for arrays of one dtype";
  return check_common(as_float32(in), as_float32(out));
}

FloatCopies::FloatCopies(Inputs in, Outputs out) : inputs_(in.size()) {
  cpu::ScratchPlan plan;
  SmallVector<size_t, 4> offsets;
  for (const Inputs list : {in, out})
    for (const TensorRef& ref : list) {
      refs_.push_back(ref);
      offsets.push_back(plan.add<float>(ref.size()));
    }
  block_ = cpu_allocator().allocate(plan.bytes());
  for (size_t i = 0; i < refs_.size(); ++i) {
    refs_[i].data = cpu::part<float>(block_.data, offsets[i]);
    refs_[i].dtype = DType::kFloat32;
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
