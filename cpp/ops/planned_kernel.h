// Kernels prepared once for fixed shapes, in the memory format their library likes best. Only
// executables use them: an NDArray is always plain strided memory, so blocked formats begin and
// end at reorders that the layout pass inserts.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite {

// Memory layout of a tensor. A null desc is plain row-major; otherwise desc is the backend's own
// descriptor (cpu/onednn/layout.h, cuda/channels_last.h) and bytes its size, padding included.
struct Layout {
  std::shared_ptr<const void> desc;
  size_t bytes = 0;
  DeviceType backend = DeviceType::kCPU;  // backend of the descriptor
  bool is_plain() const { return desc == nullptr; }
};
bool same_layout(const Layout& a, const Layout& b);

// Work appended to a kernel's output before it is stored.
struct PostOp {
  enum class Kind : uint8_t {
    kAdd,         // output += extra input (same shape, any layout)
    kActivation,  // output = act(output)
  };
  Kind kind = Kind::kActivation;
  const OpSchema* op = nullptr;  // the op that was fused: its name and params define the meaning
  ParamsRef params;
};

struct PlanRequest {
  const OpSchema& op;
  const void* params;  // must live as long as the plan
  bool training = false;
  std::span<const TensorSpec> inputs;  // the op's own, then one per kAdd of post_ops, in order
  std::span<const TensorSpec> outputs;
  std::span<const Layout> layouts;    // layouts of inputs, as left by their producers
  std::span<const uint8_t> constant;  // 1: fixed between runs (weights), reordering is free
  std::span<const PostOp> post_ops;
};

struct Plan {
  std::vector<Layout> inputs;   // wanted; a reorder is inserted if one differs from `layouts`
  std::vector<Layout> outputs;  // given
  // Has 1 by input (empty: none) where a constant is reordered in every run instead of keeping a
  // copy; the kernel takes so long that the memory is worth more.
  std::vector<uint8_t> reorder_each_run;
  size_t scratch_bytes = 0;
  // Pairs (input, output) that must share memory, e.g. the sum post-op.
  std::vector<InplacePair> required_inplace;
  std::function<void(KernelContext&, std::span<void* const> in, std::span<void* const> out,
                     void* scratch)>
      run;
};

// nullopt: no planned kernel for this call, use the plain one.
using PlanFn = std::optional<Plan> (*)(const PlanRequest&);
// Whether `candidate` may be appended to the op with what is already fused.
using FuseFn = bool (*)(const PlanRequest& so_far, const PostOp& candidate,
                        const TensorSpec* extra_input);

struct PlannedKernel {
  PlanFn plan = nullptr;
  FuseFn can_fuse = nullptr;  // null: takes no post-ops
};
// Kept beside the schemas so that op_schema.h does not depend on this file. Called at
// Stage::kPlans; throws if there is no such operator or it has a planned kernel for the device.
void add_planned_kernel(const OpRegistry& ops, std::string_view op, DeviceType device,
                        PlannedKernel kernel);
// Used for every operator with the trait pointwise that has none of its own.
void add_pointwise_planned_kernel(DeviceType device, PlannedKernel kernel);
const PlannedKernel* find_planned_kernel(const OpSchema& op, DeviceType device);

// Pointwise operators over the same places, to be computed block by block so that what only they
// exchange never leaves the cache. Values are flat: as long as the whole, or one element, or inputs
// that are broadcast.
struct PointwiseChain {
  struct Step {
    const OpSchema* op = nullptr;
    ParamsRef params;
    std::vector<int> inputs, outputs;  // values
  };
  // The element of a broadcast input at position i of the whole is the sum over its terms of
  // i / divisor % extent * stride.
  struct IndexTerm {
    int64_t divisor, extent, stride;
  };
  // Says what the last step computes of rows, each `length` neighboring elements.
  struct RowEnd {
    enum class Kind : uint8_t { kSum, kMean, kSoftmax, kLogSoftmax };  // a number, or a row
    Kind kind = Kind::kSum;
    int64_t length = 0;
    float factor = 1;  // on what softmax normalizes
  };
  std::vector<TensorSpec> values;  // the first num_inputs come from outside
  size_t num_inputs = 0;
  std::vector<std::vector<IndexTerm>> broadcast;  // by input, or nothing; no terms: not broadcast
  std::vector<Step> steps;                        // in order
  std::optional<RowEnd> row_end;
  std::vector<int> outputs;  // values that are kept
  Device device;             // device on which the chain runs
  bool is_flat() const;      // has no broadcast inputs and no row end
};
// Reads inputs and writes outputs, all in one order of elements; without `run`: not this chain.
using PlanChainFn = Plan (*)(PointwiseChain chain);
struct ChainPlanner {
  PlanChainFn plan = nullptr;
  // Returns whether the planner takes chains that are not flat; null: never.
  bool (*takes_rows)(Device device) = nullptr;
};
void set_chain_planner(DeviceType device, ChainPlanner planner);
ChainPlanner find_chain_planner(DeviceType device);  // plan is null if there is none

// Copies between two layouts of one tensor, one of which may be plain; dtypes may differ.
Plan plan_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to);
// Functions that need the backend of a descriptor. Layouts that are not plain are backend-specific.
struct LayoutBackend {
  bool (*same)(const Layout& a, const Layout& b) = nullptr;  // both not plain
  Plan (*reorder)(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to) = nullptr;  // one or both not plain
};
void set_layout_backend(DeviceType device, LayoutBackend backend);

}  // namespace mxlite
