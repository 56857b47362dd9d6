#include "cpp/symbol/numpy_names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "cpp/ops/op_schema.h"
#include "cpp/symbol/names.h"

namespace mxlite::symbol {
namespace {

struct Name {
  const char* file;       // name in files
  const char* op;         // operator of the same meaning
  const char* from = "";  // attribute in files that has another name here
  const char* to = "";    // name of this attribute here
};

constexpr Name kNames[] = {
    {"_np_amax", "_np_max"},
    {"_np_amin", "_np_min"},
    {"_np_copy", "_copy"},
    {"_np_diag", "diag"},
    {"_np_product", "_np_prod"},
    {"_np_reshape", "Reshape", "newshape", "shape"},
    {"_np_squeeze", "squeeze"},
    {"_np_transpose", "transpose"},
    {"_npi_absolute", "abs"},
    {"_npi_add", "broadcast_add"},
    {"_npi_add_scalar", "_plus_scalar"},
    {"_npi_arange", "_arange"},
    {"_npi_broadcast_to", "broadcast_to"},
    {"_npi_cholesky", "_linalg_potrf"},
    {"_npi_concatenate", "Concat", "axis", "dim"},
    {"_npi_flip", "reverse"},
    {"_npi_full", "_full"},
    {"_npi_hypot", "broadcast_hypot"},
    {"_npi_hypot_scalar", "_hypot_scalar"},
    {"_npi_inv", "_linalg_inverse"},
    {"_npi_linspace", "_linspace"},
    {"_npi_matmul", "_matmul"},
    {"_npi_maximum", "broadcast_maximum"},
    {"_npi_maximum_scalar", "_maximum_scalar"},
    {"_npi_minimum", "broadcast_minimum"},
    {"_npi_minimum_scalar", "_minimum_scalar"},
    {"_npi_mod_scalar", "_mod_scalar"},
    {"_npi_multiply", "broadcast_mul"},
    {"_npi_multiply_scalar", "_mul_scalar"},
    {"_npi_normal", "_random_normal", "size", "shape"},
    {"_npi_ones", "_ones"},
    {"_npi_power", "broadcast_power"},
    {"_npi_power_scalar", "_power_scalar"},
    {"_npi_rmod_scalar", "_rmod_scalar"},
    {"_npi_rnn_param_concat", "_rnn_param_concat"},
    {"_npi_rpower_scalar", "_rpower_scalar"},
    {"_npi_rsubtract_scalar", "_rminus_scalar"},
    {"_npi_rtrue_divide_scalar", "_rdiv_scalar"},
    {"_npi_scatter_set_nd", "_scatter_set_nd"},
    {"_npi_slice_assign", "_slice_assign"},
    {"_npi_slice_assign_scalar", "_slice_assign_scalar"},
    {"_npi_stack", "stack"},
    {"_npi_subtract", "broadcast_sub"},
    {"_npi_subtract_scalar", "_minus_scalar"},
    {"_npi_true_divide", "broadcast_div"},
    {"_npi_true_divide_scalar", "_div_scalar"},
    {"_npi_uniform", "_random_uniform", "size", "shape"},
    {"_npi_zeros", "_zeros"},
    {"_npx_activation", "Activation"},
    {"_npx_arange_like", "_contrib_arange_like"},
    {"_npx_batch_flatten", "Flatten"},
    {"_npx_batch_norm", "BatchNorm"},
    {"_npx_convolution", "Convolution"},
    {"_npx_deconvolution", "Deconvolution"},
    {"_npx_dropout", "Dropout"},
    {"_npx_embedding", "Embedding"},
    {"_npx_fully_connected", "FullyConnected"},
    {"_npx_layer_norm", "LayerNorm"},
    {"_npx_leaky_relu", "LeakyReLU"},
    {"_npx_multibox_detection", "_contrib_MultiBoxDetection"},
    {"_npx_multibox_prior", "_contrib_MultiBoxPrior"},
    {"_npx_multibox_target", "_contrib_MultiBoxTarget"},
    {"_npx_pooling", "Pooling"},
    {"_npx_rnn", "RNN"},
    {"_npx_roi_pooling", "ROIPooling"},
    {"_npx_sequence_mask", "SequenceMask"},
};

std::vector<int64_t> integers(const std::string& text) {
  std::string numbers = text;
  std::ranges::replace_if(
      numbers, [](char c) { return c == '(' || c == ')' || c == ',' || c == '[' || c == ']'; },
      ' ');
  std::istringstream stream(numbers);
  return {std::istream_iterator<int64_t>(stream), {}};
}

std::string tuple_of(const std::vector<int64_t>& values) {
  std::string text = "(";
  for (const int64_t v : values) text += str(v, ",");
  return text + ")";
}

// Codes of _npx_reshape: -2 keeps an axis, -3 drops one, -4 keeps the rest, -5 joins two, -6 splits
// one. An integer index is written as codes -2 and -3, optionally followed by -4, and drops axes.
// Other combinations with -3 need the shape. They leave the node unchanged if `known` is true, and
// cause an error otherwise.
void translate_reshape(std::string& op, Attributes& attrs, bool known) {
  MX_CHECK_KIND(attrs.contains("newshape"), ErrorKind::kType,
                "_npx_reshape: newshape must be given, got no attribute newshape");
  const std::vector<int64_t> codes = integers(attrs.at("newshape"));
  const bool reverse = attrs.contains("reverse") && attrs.at("reverse") == "True";
  const bool drops = std::ranges::find(codes, -3) != codes.end();
  for (size_t i = 0; drops && i < codes.size(); ++i) {
    const bool rest = codes[i] == -4 && i + 1 == codes.size();
    if (!reverse && (codes[i] == -2 || codes[i] == -3 || rest)) continue;
    if (known) return;
    fail(ErrorKind::kNotSupported,
         "_npx_reshape: next to the code -3, codes must be -2, or -4 at the end, got newshape ",
         tuple_of(codes));
  }
  attrs.erase("newshape");
  attrs.erase("order");  // the order is always C
  if (!drops) {
    std::vector<int64_t> shape;
    for (const int64_t code : codes)
      shape.push_back(code == -2 ? 0 : code == -4 ? -2 : code == -5 ? -3 : code == -6 ? -4 : code);
    op = "Reshape";
    attrs["shape"] = tuple_of(shape);
    return;
  }
  std::vector<int64_t> axes;
  for (size_t i = 0; i < codes.size(); ++i)
    if (codes[i] == -3) axes.push_back(static_cast<int64_t>(i));
  op = "_np_max";  // reduces axes of length 1; unlike squeeze, it may remove all axes
  attrs.erase("reverse");
  attrs["axis"] = tuple_of(axes);
}

void translate_full_like(std::string& op, Attributes& attrs) {
  const std::string value = attrs.contains("fill_value") ? attrs.at("fill_value") : "0";
  MX_CHECK_KIND(value == "0" || value == "1", ErrorKind::kNotSupported,
                "_npi_full_like: fill_value must be 0 or 1 in a file, got ", value);
  op = value == "0" ? "zeros_like" : "ones_like";
  attrs.erase("fill_value");
  attrs.erase("ctx");
}

// Returns whether the call reduces the whole array (axis=None) or has an array in place of a number
// (loc=None). The operators in kNames support neither case.
bool takes_whole_or_array(const Attributes& attrs) {
  return std::ranges::any_of(std::array{"axis", "loc", "scale", "low", "high"},
                             [&](const char* key) {
                               const auto found = attrs.find(key);
                               return found != attrs.end() && found->second == "None";
                             });
}

}  // namespace

void translate_numpy(std::string& op, Attributes& attrs, bool known) {
  if (!op.starts_with("_np_") && !op.starts_with("_npi_") && !op.starts_with("_npx_")) return;
  if (ops().find(engine_name(op))) return;
  if (!known) attrs.erase("order");  // the order is always C
  if (op == "_npx_reshape") return translate_reshape(op, attrs, known);
  if (op == "_npi_full_like" && !known) return translate_full_like(op, attrs);
  const auto row = std::ranges::find(kNames, std::string_view(op),
                                     [](const Name& name) { return std::string_view(name.file); });
  if (known && (row == std::end(kNames) || takes_whole_or_array(attrs))) return;
  if (row != std::end(kNames)) {
    op = row->op;
    if (const auto found = attrs.find(row->from); found != attrs.end()) {
      attrs[row->to] = found->second;
      attrs.erase(row->from);
    }
    if (const auto axes = attrs.find("axes"); axes != attrs.end() && axes->second == "None")
      attrs.erase(axes);
    return;
  }
  const std::string plain = op.substr(op.find('_', 1) + 1);  // _npi_exp is exp, _npx_relu is relu
  if (ops().find(plain)) op = plain;
}

std::string numpy_file_name(const std::string& op) {
  return op == "where" ? "_npi_where" : op == "_matmul" ? "_npi_matmul" : op;
}

}  // namespace mxlite::symbol
