// Names, types and backward shape rules of operators on tensors in symbols.
#include "cpp/ops/symbol_traits.h"

#include <algorithm>
#include <vector>

#include "cpp/ops/tensor/cast.h"
#include "cpp/ops/tensor/concat.h"
#include "cpp/ops/tensor/reshape.h"
#include "cpp/ops/tensor/sort.h"
#include "cpp/ops/tensor/transpose.h"

namespace mxlite {
namespace {

int wrapped(int axis, int ndim) { return ((axis % ndim) + ndim) % ndim; }

// Extents other than those along `axis` are equal in all arrays.
void refine_other_axes(PartialShapes& shapes, int axis) {
  int ndim = -1;
  std::vector<const Shape*> all;
  for (int i = 0; i < shapes.num_outputs(); ++i) all.push_back(&shapes.output(i));
  for (int i = 0; i < shapes.num_inputs(); ++i) all.push_back(&shapes.input(i));
  for (const Shape* shape : all) {
    if (shape->ndim() < 0) continue;
    if (ndim >= 0 && shape->ndim() != ndim) return;
    ndim = shape->ndim();
  }
  if (ndim <= 0) return;
  axis = wrapped(axis, ndim);
  Shape joint = Shape::filled(ndim, -1);
  for (const Shape* shape : all)
    for (int i = 0; i < shape->ndim(); ++i)
      if (i != axis && (*shape)[i] != -1) joint[i] = (*shape)[i];
  const auto with_joint = [&](const Shape& old) {
    Shape shape = joint;
    shape[axis] = old.ndim() < 0 ? -1 : old[axis];
    return shape;
  };
  for (int i = 0; i < shapes.num_outputs(); ++i)
    shapes.refine_output(i, with_joint(shapes.output(i)));
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_input(i, with_joint(shapes.input(i)));
}

// The input of a split into equal parts follows from the parts.
void refine_slice_channel(const SliceChannelParams& p, PartialShapes& shapes) {
  for (int i = 0; i < shapes.num_outputs(); ++i) {
    Shape part = shapes.output(i);
    if (part.ndim() < 0) continue;
    const int ndim = part.ndim() + (p.squeeze_axis ? 1 : 0);
    if (ndim == 0) continue;
    const int axis = wrapped(p.axis, ndim);
    if (p.squeeze_axis) {
      const Shape& whole = shapes.input(0);
      if (whole.ndim() != ndim) continue;
      part.insert(axis, whole[axis]);
    } else if (part[axis] != -1) {
      part[axis] = checked_mul(part[axis], p.num_outputs);
    }
    shapes.refine_input(0, part);
  }
  if (!p.squeeze_axis) refine_other_axes(shapes, p.axis);
}

void refine_expand_dims(const ExpandDimsParams& p, PartialShapes& shapes) {
  Shape out = shapes.output(0);
  if (out.ndim() <= 0) return;
  out.erase(wrapped(p.axis, out.ndim()));
  shapes.refine_input(0, out);
}

void refine_transpose(const TransposeParams& p, PartialShapes& shapes) {
  const Shape& out = shapes.output(0);
  if (out.ndim() < 0) return;
  const Shape axes = resolve_axes(p, out.ndim());
  Shape before = out;
  for (int i = 0; i < out.ndim(); ++i) before[static_cast<int>(axes[i])] = out[i];
  shapes.refine_input(0, before);
}

// The number of elements stays, so that one unknown extent follows from the others.
void refine_reshape(const ReshapeParams&, PartialShapes& shapes) {
  const Shape &data = shapes.input(0), &out = shapes.output(0);
  if (data.ndim() < 0 || !out.is_known() || std::count(data.begin(), data.end(), -1) != 1) return;
  int64_t known = 1;
  for (const int64_t extent : data)
    if (extent != -1) known = checked_mul(known, extent);
  const int64_t whole = out.size();
  if (known == 0 || whole % known != 0) return;
  Shape before = data;
  std::replace(before.begin(), before.end(), int64_t{-1}, whole / known);
  shapes.refine_input(0, before);
}

// What is cut from an axis of unknown length has an unknown length.
void forward_slice(const void*, std::span<const Shape> in, std::span<Shape> out) {
  for (Shape& shape : out)
    for (int i = 0; i < shape.ndim() && i < in[0].ndim(); ++i)
      if (in[0][i] == -1) shape[i] = -1;
}

// A condition of few dimensions may choose rows.
void forward_where(const void*, std::span<const Shape> in, std::span<Shape> out) {
  if (in[0].is_known()) return;
  for (Shape& shape : out) shape = Shape::unknown();
}

// The widest of the floating inputs; integers keep their type.
void multicast_types(const void*, KnownTypes in, KnownTypes out) {
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

void add_types(SymbolTraitsTable& table) {
  for (const char* name : {"Cast", "amp_cast"}) {
    SymbolTraits& traits = table[name];
    traits.refine = refine_all_alike;
    traits.free_types = {0};
    traits.typed_by_parameter = traits.dtype_keeps = true;
  }
  table["amp_cast"].types = [](const void*, KnownTypes in, KnownTypes out) {
    if (in[0] && !is_floating(*in[0]) && !out[0]) out[0] = in[0];  // integers stay
  };
  table["amp_multicast"].types = multicast_types;
  table["amp_multicast"].inputs_apart = true;
  table["amp_multicast"].count_attribute = "num_outputs";
  for (const char* name :
       {"_zeros", "_ones", "_full", "_arange", "_linspace", "_eye", "one_hot", "argsort"})
    table[name].typed_by_parameter = true;
  for (const char* name : {"one_hot", "topk", "argsort", "shape_array", "size_array", "where"})
    table[name].free_types = {0};
  for (const char* name :
       {"take", "batch_take", "pick", "gather_nd", "scatter_nd", "_contrib_index_copy",
        "SequenceMask", "SequenceLast", "SequenceReverse"})
    table[name].free_types = {1};
  table["_scatter_set_nd"].free_types = {2};
  for (const char* name : {"shape_array", "size_array"}) {
    table[name].output_type_apart = true;
    table[name].types = [](const void*, KnownTypes, KnownTypes out) {
      if (!out[0]) out[0] = DType::kInt64;
    };
  }
  table["_contrib_arange_like"].output_type_apart = true;
  table["topk"].set_types<TopkParams>([](const TopkParams& p, KnownTypes in, KnownTypes out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const bool values = p.ret_typ == TopkResult::kValue || p.ret_typ == TopkResult::kMask ||
                          (p.ret_typ == TopkResult::kBoth && i == 0);
      if (!out[i]) out[i] = values ? in[0] : p.dtype;
    }
  });
}

}  // namespace

void add_tensor_traits(SymbolTraitsTable& table) {
  add_types(table);
  for (const char* name : {"Pad", "SliceChannel", "SwapAxis"})
    table[name].names_single_input = true;
  table["sort"].total_outputs = [](const void*, int) { return 2; };
  for (const char* name : {"Concat", "stack", "_rnn_param_concat"})
    table[name].count_attribute = "num_args";
  for (const char* name : {"argmax", "argmax_channel", "argmin", "argsort", "one_hot",
                           "shape_array", "size_array", "topk", "_contrib_index_array"})
    table[name].constant_output = true;

  for (const char* name : {"_zeros", "_ones", "_full"}) table[name].shape_from_users = true;
  for (const char* name : {"zeros_like", "ones_like", "_identity_with_attr_like_rhs"})
    table[name].refine = refine_all_alike;
  for (const char* name : {"SequenceMask", "SequenceReverse"})
    table[name].refine = refine_like_first;
  table["Concat"].set_refine<ConcatParams>(
      [](const ConcatParams& p, PartialShapes& shapes) { refine_other_axes(shapes, p.dim); });
  table["SliceChannel"].set_refine<SliceChannelParams>(refine_slice_channel);
  table["_split_v2"].set_refine<SplitV2Params>([](const SplitV2Params& p, PartialShapes& shapes) {
    if (!p.squeeze_axis) refine_other_axes(shapes, p.axis);
  });
  table["expand_dims"].set_refine<ExpandDimsParams>(refine_expand_dims);
  table["transpose"].set_refine<TransposeParams>(refine_transpose);
  table["Reshape"].set_refine<ReshapeParams>(refine_reshape);
  for (const char* name : {"slice", "slice_axis"}) table[name].forward = forward_slice;
  table["where"].forward = forward_where;
}

}  // namespace mxlite
