#include "cpp/ops/planned_kernel.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace mxlite {

namespace {

struct Table {
  std::unordered_map<std::string, PlannedKernel> kernels;
  PlannedKernel any_pointwise;  // for pointwise operators that are not in `kernels`
  ChainPlanner chain;
  LayoutBackend layouts;
};

// A table is filled when operators are registered; for an accelerator, when its plug-in is loaded.
Table& table(DeviceType device) {
  static auto* const tables = new DeviceMap<Table>;  // leaked: executables outlive statics
  return (*tables)[device];
}

const Table& registered(DeviceType device) {
  ops();
  return table(device);
}

}  // namespace

bool same_layout(const Layout& a, const Layout& b) {
  if (a.is_plain() || b.is_plain()) return a.is_plain() && b.is_plain();
  return a.backend == b.backend && registered(a.backend).layouts.same(a, b);
}

Plan plan_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to) {
  const DeviceType backend = from.is_plain() ? to.backend : from.backend;
  return registered(backend).layouts.reorder(from_spec, from, to_spec, to);
}

void set_layout_backend(DeviceType device, LayoutBackend backend) {
  table(device).layouts = backend;
}

void add_planned_kernel(const OpRegistry& ops, std::string_view op, DeviceType device,
                        PlannedKernel kernel) {
  if (!ops.find(op)) fail(ErrorKind::kError, "planned kernel for an unknown operator: ", op);
  if (!table(device).kernels.try_emplace(std::string(op), kernel).second)
    fail(ErrorKind::kError, "two planned kernels for ", op, " on ", device_type_name(device));
}

void add_pointwise_planned_kernel(DeviceType device, PlannedKernel kernel) {
  table(device).any_pointwise = kernel;
}

const PlannedKernel* find_planned_kernel(const OpSchema& op, DeviceType device) {
  const Table& known = registered(device);
  const auto found = known.kernels.find(op.name);
  if (found != known.kernels.end()) return &found->second;
  return op.pointwise && known.any_pointwise.plan ? &known.any_pointwise : nullptr;
}

void set_chain_planner(DeviceType device, ChainPlanner planner) { table(device).chain = planner; }

ChainPlanner find_chain_planner(DeviceType device) { return registered(device).chain; }

bool PointwiseChain::is_flat() const {
  return !row_end && std::all_of(broadcast.begin(), broadcast.end(),
                                 [](const auto& terms) { return terms.empty(); });
}

}  // namespace mxlite
