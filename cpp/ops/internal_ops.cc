#include "cpp/ops/internal_ops.h"

#include <algorithm>
#include <array>

namespace mxlite {
namespace {

// Helpers of gradients that check everything they read.
constexpr std::array<std::string_view, 4> kChecked = {"_gather_nd_backward", "_relu_backward",
                                                      "_sigmoid_backward", "_tanh_backward"};
// Helpers of gradients that do not have "_backward" in their names.
constexpr std::array<std::string_view, 2> kTrusting = {"_csr_sampled_dot", "_csr_spread"};

template <size_t kCount>
bool holds(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_internal(const OpSchema& op) {
  if (holds(kTrusting, op.name)) return true;
  const bool gradient = op.name.starts_with("_") && op.name.find("_backward") != std::string::npos;
  return gradient && !holds(kChecked, op.name);
}

const OpSchema& get_public_op(std::string_view name) {
  const OpSchema& op = ops().get(name);
  MX_CHECK_KIND(!is_internal(op), ErrorKind::kValue, "operator '", name,
                "' is internal: gradients use it, programs and files cannot");
  return op;
}

}  // namespace mxlite
