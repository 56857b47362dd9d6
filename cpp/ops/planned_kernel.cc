#include "cpp/ops/planned_kernel.h"

#include <mutex>
#include <string>
#include <unordered_map>

namespace mxlite {

void register_onednn_plans();             // cpu/onednn
void register_pointwise_chain_planner();  // cpu/pointwise

namespace {

struct Table {
  std::unordered_map<std::string, PlannedKernel> kernels;
  PlanChainFn chain = nullptr;
  LayoutBackend layouts;
};

Table& table(DeviceType device) {
  static auto* const tables = new DeviceMap<Table>;  // leaked: executables outlive statics
  return (*tables)[device];
}

// For pointwise operators without a row of their own; kernels are registered before the first look.
constexpr const char* kAnyPointwise = "*";

void register_all() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_onednn_plans();
    register_pointwise_chain_planner();
  });
}

const LayoutBackend& layouts_of(DeviceType device) {
  register_all();
  return table(device).layouts;
}

}  // namespace

bool same_layout(const Layout& a, const Layout& b) {
  if (a.is_plain() || b.is_plain()) return a.is_plain() && b.is_plain();
  return a.backend == b.backend && layouts_of(a.backend).same(a, b);
}

Plan plan_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to) {
  const DeviceType backend = from.is_plain() ? to.backend : from.backend;
  return layouts_of(backend).reorder(from_spec, from, to_spec, to);
}

void set_layout_backend(DeviceType device, LayoutBackend backend) {
  table(device).layouts = backend;
}

void add_planned_kernel(std::string_view op, DeviceType device, PlannedKernel kernel) {
  table(device).kernels[std::string(op)] = kernel;
}

void add_pointwise_planned_kernel(DeviceType device, PlannedKernel kernel) {
  add_planned_kernel(kAnyPointwise, device, kernel);
}

const PlannedKernel* find_planned_kernel(const OpSchema& op, DeviceType device) {
  register_all();
  const auto& kernels = table(device).kernels;
  auto it = kernels.find(op.name);
  if (it == kernels.end() && op.pointwise) it = kernels.find(kAnyPointwise);
  return it == kernels.end() ? nullptr : &it->second;
}

void set_chain_planner(DeviceType device, PlanChainFn planner) { table(device).chain = planner; }

PlanChainFn find_chain_planner(DeviceType device) {
  register_all();
  return table(device).chain;
}

}  // namespace mxlite
