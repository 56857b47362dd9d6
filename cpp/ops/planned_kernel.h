// Kernels prepared once for fixed shapes, in the memory format that their library prefers. Only
// executables use these kernels. An NDArray is always plain strided memory, so the layout pass
// inserts reorders from and to blocked formats.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite {

// Memory layout of a tensor. If `desc` is null, the layout is plain row-major; otherwise `desc` is
// the backend's descriptor (cpu/onednn/layout.h, cuda/channels_last.h) and `bytes` the size
// including padding.
struct Layout {
  std::shared_ptr<const void> desc;
  size_t bytes = 0;
  DeviceType backend = DeviceType::kCPU;  // backend of the descriptor
  bool is_plain() const { return desc == nullptr; }
};
bool same_layout(const Layout& a, const Layout& b);

// An operation that a kernel applies to its output before storing it.
struct PostOp {
  enum class Kind : uint8_t {
    kAdd,         // output += extra input (same shape, any layout)
    kActivation,  // output = act(output)
  };
  Kind kind = Kind::kActivation;
  const OpSchema* op = nullptr;  // the fused op; with `params` it defines the operation
  ParamsRef params;
};

struct PlanRequest {
  const OpSchema& op;
  const void* params;  // must outlive the plan
  bool training = false;
  std::span<const TensorSpec> inputs;  // the op's inputs, then one per kAdd of post_ops, in order
  std::span<const TensorSpec> outputs;
  std::span<const Layout> layouts;    // layouts of inputs as their producers wrote them
  std::span<const uint8_t> constant;  // for each input: 1 if it is constant between runs (a
                                      // weight), so that reordering has no cost
  std::span<const PostOp> post_ops;
};

struct Plan {
  std::vector<Layout> inputs;   // required layouts; if one differs from `layouts`, a reorder is
                                // added
  std::vector<Layout> outputs;  // layouts that the kernel writes
  // For each input: 1 if a constant is reordered in every run, to save the memory of a reordered
  // copy if the kernel takes much longer than the reorder. Empty means 0 for all.
  std::vector<uint8_t> reorder_each_run;
  size_t scratch_bytes = 0;
  // Pairs (input, output) that must share memory, e.g. the sum post-op.
  std::vector<InplacePair> required_inplace;
  std::function<void(KernelContext&, std::span<void* const> in, std::span<void* const> out,
                     void* scratch)>
      run;
};

// Returns nullopt if there is no planned kernel for this call; the plain kernel runs then.
using PlanFn = std::optional<Plan> (*)(const PlanRequest&);
// Returns whether `candidate` can be appended to the op and its fused post-ops `so_far`.
using FuseFn = bool (*)(const PlanRequest& so_far, const PostOp& candidate,
                        const TensorSpec* extra_input);

struct PlannedKernel {
  PlanFn plan = nullptr;
  FuseFn can_fuse = nullptr;  // if null, no post-ops are supported
};
// Registers a planned kernel; call this function at Stage::kPlans. Throws if the operator does not
// exist or already has a planned kernel for the device. (Planned kernels have a separate table, so
// that op_schema.h does not need this file.)
void add_planned_kernel(const OpRegistry& ops, std::string_view op, DeviceType device,
                        PlannedKernel kernel);
// Registers the planned kernel for all `pointwise` operators that do not have a planned kernel.
void add_pointwise_planned_kernel(DeviceType device, PlannedKernel kernel);
const PlannedKernel* find_planned_kernel(const OpSchema& op, DeviceType device);

// A chain of pointwise operators over the same elements, computed block by block so that
// intermediate values stay in the cache. Values are flat arrays: of full length, of one element, or
// inputs that are broadcast.
struct PointwiseChain {
  struct Operation {
    const OpSchema* op = nullptr;
    ParamsRef params;
    std::vector<int> inputs, outputs;  // indices into `values`
  };
  // For position i of the full shape, the element index of a broadcast input is the sum over its
  // terms of i / divisor % extent * stride.
  struct IndexTerm {
    int64_t divisor, extent, stride;
  };
  // Reduction or softmax that ends the chain, over rows of `length` adjacent elements.
  struct RowEnd {
    // kSum and kMean give a number per row, the other kinds give a row.
    enum class Kind : uint8_t { kSum, kMean, kSoftmax, kLogSoftmax };
    Kind kind = Kind::kSum;
    int64_t length = 0;
    float factor = 1;  // factor of softmax's input
  };
  std::vector<TensorSpec> values;  // the first num_inputs are the chain's inputs
  size_t num_inputs = 0;
  std::vector<std::vector<IndexTerm>> broadcast;  // by input; without terms (or without a
                                                  // list), an input is not broadcast
  std::vector<Operation> steps;                   // in order of execution
  std::optional<RowEnd> row_end;
  std::vector<int> outputs;  // indices of the values to store
  Device device;             // device on which the chain runs
  bool is_flat() const;      // has no broadcast inputs and no row end
};
// Plans a chain whose operands all store their elements in the same order. A Plan with an empty
// `run` means that the chain is not supported.
using PlanChainFn = Plan (*)(PointwiseChain chain);
struct ChainPlanner {
  PlanChainFn plan = nullptr;
  // Returns whether the planner supports chains that are not flat; null means false.
  bool (*takes_rows)(Device device) = nullptr;
};
void set_chain_planner(DeviceType device, ChainPlanner planner);
ChainPlanner find_chain_planner(DeviceType device);  // `plan` is null if there is no planner

// Plans a copy between two layouts of one tensor, one of which may be plain. Dtypes may differ.
Plan plan_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to);
// Functions that need the backend of a descriptor. Layouts that are not plain are backend-specific.
struct LayoutBackend {
  bool (*same)(const Layout& a, const Layout& b) = nullptr;  // both layouts are not plain
  Plan (*reorder)(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                  const Layout& to) = nullptr;  // at least one layout is not plain
};
void set_layout_backend(DeviceType device, LayoutBackend backend);

}  // namespace mxlite
