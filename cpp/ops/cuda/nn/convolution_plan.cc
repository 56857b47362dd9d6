#include "cpp/ops/cuda/nn/convolution_plan.h"

// Serialised graphs are not used; without them the header compiles in half the time.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cpp/ops/cuda/nn/convolution_epilogue.h"
#include "cpp/ops/plan_choice.h"
#include "cpp/ops/plan_store.h"

namespace mxlite::cuda {

namespace fe = cudnn_frontend;

namespace {

enum TensorId : int64_t { kData = 1, kWeight, kOutput, kBias, kAddend };

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return fe::DataType_t::HALF;
    case DType::kBFloat16:
      return fe::DataType_t::BFLOAT16;
    case DType::kFloat64:
      return fe::DataType_t::DOUBLE;
    default:
      return fe::DataType_t::FLOAT;
  }
}

template <class List>
std::vector<int64_t> first(const List& numbers, int count) {
  return {numbers.begin(), numbers.begin() + count};
}

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::graph::Tensor_attributes attributes(const ConvolutionProblem& p,
                                        const ConvolutionProblem::Numbers& dims, TensorId id) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_dim(first(dims, p.ndim))
      .set_stride(first(p.strides_of(dims), p.ndim));
}

// A weight or a whole window: settings that all three kinds of node have.
template <class Attributes>
Attributes window(const ConvolutionProblem& p, Attributes attributes) {
  const int n = p.ndim - 2;
  attributes.set_padding(first(p.pad, n))
      .set_stride(first(p.stride, n))
      .set_dilation(first(p.dilate, n));
  return attributes;
}

Tensor pointwise(fe::graph::Graph& graph, fe::PointwiseMode_t mode, const Tensor& a,
                 const Tensor& b = nullptr) {
  const auto attributes =
      fe::graph::Pointwise_attributes().set_mode(mode).set_compute_data_type(fe::DataType_t::FLOAT);
  return b ? graph.pointwise(a, b, attributes) : graph.pointwise(a, attributes);
}

Tensor forward_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor data = graph.tensor(attributes(p, p.data, kData));
  const Tensor weight = graph.tensor(attributes(p, p.weight, kWeight));
  Tensor y = graph.conv_fprop(data, weight, window(p, fe::graph::Conv_fprop_attributes()));
  if (p.bias) {
    ConvolutionProblem::Numbers dims{1, p.output[1], 1, 1, 1};
    y = pointwise(graph, fe::PointwiseMode_t::ADD, y, graph.tensor(attributes(p, dims, kBias)));
  }
  if (p.addend)
    y = pointwise(graph, fe::PointwiseMode_t::ADD, y,
                  graph.tensor(attributes(p, p.output, kAddend)));
  if (p.relu) y = pointwise(graph, fe::PointwiseMode_t::RELU_FWD, y);
  return y;
}

Tensor backward_data_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor output = graph.tensor(attributes(p, p.output, kOutput));
  const Tensor weight = graph.tensor(attributes(p, p.weight, kWeight));
  return graph.conv_dgrad(output, weight, window(p, fe::graph::Conv_dgrad_attributes()));
}

Tensor backward_weight_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor output = graph.tensor(attributes(p, p.output, kOutput));
  const Tensor data = graph.tensor(attributes(p, p.data, kData));
  return graph.conv_wgrad(output, data, window(p, fe::graph::Conv_wgrad_attributes()));
}

void make_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const bool wide = p.dtype == DType::kFloat64;
  graph.set_io_data_type(data_type(p.dtype))
      .set_intermediate_data_type(wide ? fe::DataType_t::DOUBLE : fe::DataType_t::FLOAT)
      .set_compute_data_type(wide ? fe::DataType_t::DOUBLE : fe::DataType_t::FLOAT);
  Tensor result;
  TensorId id = kOutput;
  const ConvolutionProblem::Numbers* dims = &p.output;
  switch (p.direction) {
    case ConvolutionDirection::kForward:
      result = forward_nodes(graph, p);
      break;
    case ConvolutionDirection::kBackwardData:
      result = backward_data_nodes(graph, p);
      id = kData;
      dims = &p.data;
      break;
    case ConvolutionDirection::kBackwardWeight:
      result = backward_weight_nodes(graph, p);
      id = kWeight;
      dims = &p.weight;
      break;
  }
  result->set_output(true)
      .set_uid(id)
      .set_data_type(data_type(p.dtype))
      .set_dim(first(*dims, p.ndim))
      .set_stride(first(p.strides_of(*dims), p.ndim));
}

// float32 stays float32 unless MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION=1, as in 1.x.
void exclude_engines(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  std::vector<fe::NumericalNote_t> notes;
  if (p.dtype == DType::kFloat32 && !p.allow_conversion)
    notes = {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS};
  if (is_half(p.dtype)) notes.push_back(fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION);
  if (p.deterministic) notes.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  graph.deselect_numeric_notes(notes);
  if (p.tuning != ConvolutionTuning::kFastest)
    graph.deselect_workspace_greater_than(p.workspace_bytes);
}

std::unordered_map<int64_t, void*> bind(const ConvolutionOperands& o) {
  return {{kData, o.data},
          {kWeight, o.weight},
          {kOutput, o.output},
          {kBias, o.bias},
          {kAddend, o.addend}};
}

}  // namespace

class ConvolutionPlan {
 public:
  fe::graph::Graph graph;
  int64_t index = 0;  // index among cuDNN's candidates
  size_t workspace_bytes = 0;
  bool fused = true;  // false: the epilogue is left to a kernel

  void run(KernelContext& ctx, const ConvolutionOperands& o) const {
    auto pointers = bind(o);
    void* const workspace = workspace_bytes > 0 ? ctx.scratch(workspace_bytes) : nullptr;
    fe::error_t status = graph.execute_plan_at_index(cudnn(ctx), pointers, workspace, index);
    MX_CHECK_KIND(status.is_good(), ErrorKind::kDevice,
                  "convolution: cuDNN: ", status.get_message());
  }
};

namespace {

struct Event {
  Event() { MX_CUDA(cudaEventCreate(&raw)); }
  ~Event() { MX_CUDA_NOEXCEPT(cudaEventDestroy(raw)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t raw = nullptr;
};

bool is_capturing(KernelContext& ctx) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  MX_CUDA(cudaStreamIsCapturing(stream(ctx), &status));
  return status != cudaStreamCaptureStatusNone;
}

PlanStore& plan_store(int device) {
  static std::mutex mutex;
  static auto* const stores = new std::unordered_map<int, std::unique_ptr<PlanStore>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<PlanStore>& store = (*stores)[device];
  if (!store) {
    cudaDeviceProp properties{};
    MX_CUDA(cudaGetDeviceProperties(&properties, device));
    store = std::make_unique<PlanStore>(plan_store_path(
        cache_folder(), "cudnn", std::to_string(cudnnGetVersion()), properties.name));
  }
  return *store;
}

// cuDNN's, in the heuristic's order.
class Candidates final : public PlanCandidates {
 public:
  Candidates(KernelContext& ctx, fe::graph::Graph& graph, const ConvolutionOperands& operands)
      : ctx_(ctx), graph_(graph), operands_(operands) {}

  int64_t count() const override { return graph_.get_execution_plan_count(); }
  std::string name(int64_t index) const override {
    std::string name;
    return graph_.get_plan_name_at_index(index, name).is_good() ? name : "";
  }
  bool build(int64_t index) override {
    return graph_.build_plan_at_index(cudnn(ctx_), index).is_good();
  }
  float measure(int64_t index) override {  // the best of a few
    constexpr int kRepeats = 3;
    constexpr float kFailed = std::numeric_limits<float>::infinity();
    const size_t bytes = workspace_bytes(index);
    auto pointers = bind(operands_);
    void* const workspace = bytes > 0 ? ctx_.scratch(bytes) : nullptr;
    const Event begin, end;
    float best = kFailed;
    for (int i = 0; i <= kRepeats; ++i) {
      MX_CUDA(cudaEventRecord(begin.raw, stream(ctx_)));
      if (graph_.execute_plan_at_index(cudnn(ctx_), pointers, workspace, index).is_bad())
        return kFailed;
      MX_CUDA(cudaEventRecord(end.raw, stream(ctx_)));
      MX_CUDA(cudaEventSynchronize(end.raw));
      float elapsed = 0;
      MX_CUDA(cudaEventElapsedTime(&elapsed, begin.raw, end.raw));
      if (i > 0) best = std::min(best, elapsed);  // the first run warms up
    }
    return best;
  }
  size_t workspace_bytes(int64_t index) const {
    return static_cast<size_t>(graph_.get_workspace_size_plan_at_index(index));
  }

 private:
  KernelContext& ctx_;
  fe::graph::Graph& graph_;
  const ConvolutionOperands& operands_;
};

// Null and a reason where cuDNN cannot do it.
std::shared_ptr<ConvolutionPlan> make_plan(KernelContext& ctx, const ConvolutionProblem& p,
                                           const ConvolutionOperands& o, std::string& reason) {
  auto plan = std::make_shared<ConvolutionPlan>();
  fe::graph::Graph& graph = plan->graph;
  make_nodes(graph, p);
  exclude_engines(graph, p);
  fe::error_t status = graph.validate();
  if (status.is_good()) status = graph.build_operation_graph(cudnn(ctx));
  if (status.is_good())
    status = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (status.is_good()) status = graph.check_support(cudnn(ctx));
  if (status.is_bad()) {
    reason = status.get_message();
    return nullptr;
  }
  const bool tune = p.tuning != ConvolutionTuning::kOff && !is_capturing(ctx);
  Candidates candidates(ctx, graph, o);
  plan->index = choose_plan(candidates, p.text(), tune ? &plan_store(ctx.device.index) : nullptr);
  if (plan->index < 0) {
    reason = "no engine could be built";
    return nullptr;
  }
  plan->workspace_bytes = candidates.workspace_bytes(plan->index);
  return plan;
}

struct Key {
  ConvolutionProblem problem;
  int device;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& k) const {
    return ConvolutionProblemHash()(k.problem) * 31 + static_cast<size_t>(k.device);
  }
};

class PlanCache {
 public:
  std::shared_ptr<const ConvolutionPlan> get(KernelContext& ctx, const ConvolutionProblem& problem,
                                             const ConvolutionOperands& operands) {
    // One worker per device makes plans; the lock is for several devices.
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const ConvolutionPlan>& plan = plans_[{problem, ctx.device.index}];
    if (!plan) plan = find(ctx, problem, operands);
    return plan;
  }

 private:
  static std::shared_ptr<const ConvolutionPlan> find(KernelContext& ctx,
                                                     const ConvolutionProblem& problem,
                                                     const ConvolutionOperands& operands) {
    std::string reason;
    if (auto plan = make_plan(ctx, problem, operands, reason)) return plan;
    if (problem.bias || problem.addend || problem.relu) {
      ConvolutionProblem bare = problem;
      bare.bias = bare.addend = bare.relu = false;
      if (auto plan = make_plan(ctx, bare, operands, reason)) {
        plan->fused = false;
        return plan;
      }
    }
    fail(ErrorKind::kNotSupported, problem.text(), ": cuDNN has no plan (", reason, ")");
  }

  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const ConvolutionPlan>, KeyHash> plans_;  // guarded by
                                                                                    // mutex_
};

}  // namespace

std::shared_ptr<const ConvolutionPlan> convolution_plan(KernelContext& ctx,
                                                        const ConvolutionProblem& problem,
                                                        const ConvolutionOperands& operands) {
  static auto* const cache = new PlanCache;  // leaked: workers may outlive static destructors
  return cache->get(ctx, problem, operands);
}

void run_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                     const ConvolutionOperands& operands) {
  const auto plan = convolution_plan(ctx, problem, operands);
  plan->run(ctx, operands);
  if (!plan->fused) convolution_epilogue(ctx, problem, operands);
}

}  // namespace mxlite::cuda
