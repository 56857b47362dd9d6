// Conversions between element types.
#include "cpp/ops/tensor/cast.h"

#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_cast(const CastParams& p, std::span<const TensorSpec> in) {
  return {{in[0].shape, p.dtype}};
}
// Leaves integers unchanged.
Specs infer_amp_cast(const CastParams& p, std::span<const TensorSpec> in) {
  return {{in[0].shape, is_floating(in[0].dtype) ? p.dtype : in[0].dtype}};
}

std::vector<ValueRef> cast_gradient(GradBuilder& g) {
  const DType from = g.input_spec(0).dtype;
  if (from == DType::kBool) return {{}};
  return {g.cast(g.output_grad(0), from)};
}

// The common type of float16 and bfloat16 is float32: neither can represent the other's values.
DType common_type(std::span<const TensorSpec> in, bool narrow) {
  std::optional<DType> common;
  for (const TensorSpec& s : in) {
    if (!is_floating(s.dtype)) continue;
    if (!common || *common == s.dtype) {
      common = s.dtype;
      continue;
    }
    const size_t have = dtype_size(*common), other = dtype_size(s.dtype);
    if (have == other)
      common = narrow ? *common : DType::kFloat32;
    else if (narrow ? other < have : other > have)
      common = s.dtype;
  }
  return common.value_or(DType::kFloat32);
}

Specs infer_multicast(const AmpMulticastParams& p, std::span<const TensorSpec> in) {
  MX_CHECK(p.num_outputs == static_cast<int>(in.size()),
           "amp_multicast: num_outputs must be the number of arrays, ", in.size(), ", got ",
           p.num_outputs);
  const DType common = common_type(in, p.cast_narrow);
  Specs out;
  for (const TensorSpec& s : in) out.push_back({s.shape, is_floating(s.dtype) ? common : s.dtype});
  return out;
}

std::vector<ValueRef> multicast_gradient(GradBuilder& g) {
  std::vector<ValueRef> grads;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const DType from = g.input_spec(i).dtype;
    if (!is_floating(from) || !g.has_output_grad(i))
      grads.push_back({});
    else
      grads.push_back(g.cast(g.output_grad(i), from));
  }
  return grads;
}

// In symbols, floating outputs have the widest type of the floating inputs, integers their own.
void multicast_types(const AmpMulticastParams&, KnownTypes in, KnownTypes out) {
  KnownType widest;
  bool all_known = true, mixed_halves = false;
  for (const KnownType& type : in) {
    all_known &= type.has_value();
    if (!type || !is_floating(*type)) continue;
    if (!widest || dtype_size(*type) > dtype_size(*widest)) {
      mixed_halves = false;
      widest = type;
    } else if (is_half(*type) && is_half(*widest) && *type != *widest) {
      mixed_halves = true;
    }
  }
  if (mixed_halves) widest = DType::kFloat32;
  for (size_t i = 0; i < out.size() && i < in.size(); ++i) {
    if (out[i]) continue;
    if (in[i] && !is_floating(*in[i]))
      out[i] = in[i];
    else if (all_known)
      out[i] = widest;
  }
}

}  // namespace

static const Registration cast_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CastParams>("Cast")
              .alias({"cast"})
              .doc("Converts data to another element type.")
              .shapes("any shape -> the same shape")
              .infer(infer_cast)
              .gradient(cast_gradient)
              .elementwise()
              .keeps_zeros()
              .identity()
              .refine(refine_all_alike)
              .symbol({.untied_inputs = {0}, .output_type = OutputType::kDtypeOrInputs}));
  ops.add(OpBuilder<CastParams>("amp_cast")
              .doc("Converts float types to dtype; integers stay unchanged.")
              .shapes("any shape -> the same shape")
              .infer(infer_amp_cast)
              .gradient(cast_gradient)
              .elementwise()
              .identity()
              .amp({.casts = true})
              .refine(refine_all_alike)
              .symbol({.untied_inputs = {0}, .output_type = OutputType::kDtypeOrInputs})
              .types([](const CastParams&, KnownTypes in, KnownTypes out) {
                if (in[0] && !is_floating(*in[0]) && !out[0]) out[0] = in[0];
              }));
  ops.add(OpBuilder<AmpMulticastParams>("amp_multicast")
              .variadic("data")
              .doc("Converts all float arrays to the widest or narrowest float type among them.")
              .shapes("any shapes -> the same shapes")
              .output_count([](const AmpMulticastParams& p, int) { return p.num_outputs; })
              .infer(infer_multicast)
              .refine([](const AmpMulticastParams&, PartialShapes& shapes) {
                for (int i = 0; i < std::min(shapes.num_inputs(), shapes.num_outputs()); ++i) {
                  shapes.refine_output(i, shapes.input(i));
                  shapes.refine_input(i, shapes.output(i));
                }
              })
              .gradient(multicast_gradient)
              .types(multicast_types)
              .symbol({.count_attribute = "num_outputs", .all_inputs_untied = true})
              .named_inputs([](const AmpMulticastParams& p) {
                std::vector<std::string> names;
                for (int i = 0; i < p.num_outputs; ++i) names.push_back(str("data_", i));
                return names;
              })
              .amp({.casts = true}));
});

}  // namespace mxlite
