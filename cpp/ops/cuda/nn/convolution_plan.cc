#include "cpp/ops/cuda/nn/convolution_plan.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/nn/convolution_epilogue.h"
#include "cpp/ops/cuda/nn/convolution_graph.h"
#include "cpp/ops/plan_choice.h"
#include "cpp/ops/plan_store.h"

namespace mxlite::cuda {

namespace fe = cudnn_frontend;

namespace {

std::unordered_map<int64_t, void*> bind(const ConvolutionProblem& p, const ConvolutionOperands& o) {
  std::unordered_map<int64_t, void*> pointers{{kData, o.data},
                                              {kWeight, o.weight},
                                              {kOutput, o.output},
                                              {kBias, o.bias},
                                              {kAddend, o.addend}};
  if (p.sums) {
    pointers[kSum] = o.sums;
    pointers[kSquareSum] = o.sums + p.output[1];
  }
  return pointers;
}

void* workspace_of(KernelContext& ctx, const ConvolutionOperands& o, size_t bytes) {
  if (bytes == 0 || o.workspace) return o.workspace;
  return ctx.scratch(bytes);
}

struct ConvolutionPlan {
  explicit ConvolutionPlan(const ConvolutionProblem& p) : problem(p) {}
  const ConvolutionProblem problem;
  fe::graph::Graph graph;
  int64_t index = -1;  // index among cuDNN's candidates
  size_t workspace_bytes = 0;
  bool fused = true;  // if false, a separate kernel applies the epilogue

  void run(KernelContext& ctx, const ConvolutionOperands& o) const {
    auto pointers = bind(problem, o);
    void* const workspace = workspace_of(ctx, o, workspace_bytes);
    fe::error_t status = graph.execute_plan_at_index(cudnn(ctx), pointers, workspace, index);
    MX_CHECK_KIND(status.is_good(), ErrorKind::kDevice,
                  "convolution: cuDNN: ", status.get_message());
  }
};

struct Event {
  Event() { MX_CUDA(cudaEventCreate(&raw)); }
  ~Event() { MX_CUDA_NOEXCEPT(cudaEventDestroy(raw)); }
  Event& operator=(Event&&) = delete;  // neither copied nor moved
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

// cuDNN's candidate plans, in the order of its heuristic.
class Candidates final : public PlanCandidates {
 public:
  Candidates(KernelContext& ctx, ConvolutionPlan& plan, const ConvolutionOperands& operands)
      : ctx_(ctx), graph_(plan.graph), problem_(plan.problem), operands_(operands) {}

  std::string list() override {
    fe::error_t status = graph_.validate();
    if (status.is_good()) status = graph_.build_operation_graph(cudnn(ctx_));
    if (status.is_good())
      status = graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    return reason(status);
  }
  void exclude(const PlanRules& rules) override {
    std::vector<fe::NumericalNote_t> notes;
    if (rules.no_tensor_cores) notes.push_back(fe::NumericalNote_t::TENSOR_CORE);
    if (rules.no_down_conversion) notes.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
    if (rules.no_reduced_reduction)
      notes.push_back(fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION);
    if (rules.deterministic) notes.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
    graph_.deselect_numeric_notes(notes);
    graph_.deselect_workspace_greater_than(rules.most_workspace);
  }
  std::string supported() override { return reason(graph_.check_support(cudnn(ctx_))); }
  int64_t count() const override { return graph_.get_execution_plan_count(); }
  std::string name(int64_t index) const override {
    std::string name;
    return graph_.get_plan_name_at_index(index, name).is_good() ? name : "";
  }
  bool build(int64_t index) override {
    return graph_.build_plan_at_index(cudnn(ctx_), index).is_good();
  }
  float measure(int64_t index) override {  // returns the minimum of a few runs
    constexpr int kRepeats = 3;
    constexpr float kFailed = std::numeric_limits<float>::infinity();
    const size_t bytes = workspace_bytes(index);
    auto pointers = bind(problem_, operands_);
    void* const workspace = workspace_of(ctx_, operands_, bytes);
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
  static std::string reason(fe::error_t status) {
    if (status.is_good()) return "";
    std::string text = status.get_message();
    return text.empty() ? "no reason given" : text.substr(0, text.find('\n'));
  }

  KernelContext& ctx_;
  fe::graph::Graph& graph_;
  const ConvolutionProblem& problem_;
  const ConvolutionOperands& operands_;
};

// Returns null and sets `reason` if cuDNN has no plan.
std::shared_ptr<ConvolutionPlan> make_plan(KernelContext& ctx, const ConvolutionProblem& p,
                                           const ConvolutionOperands& o, std::string& reason) {
  auto plan = std::make_shared<ConvolutionPlan>(p);
  make_convolution_nodes(plan->graph, p);
  Candidates candidates(ctx, *plan, o);
  std::optional<Tuning> tuning;
  // Measuring synchronizes the stream, which a capture does not allow.
  const bool may_wait = !is_capturing(ctx);
  if (p.tuning != ConvolutionTuning::kOff && may_wait)
    tuning.emplace(Tuning{plan_store(ctx.device.index), TuningBudget::of_process()});
  const PlanChoice choice =
      choose_plan(candidates, plan_rules(p), p.text(), tuning ? &*tuning : nullptr);
  if (choice.index < 0) {
    reason = choice.reason;
    return nullptr;
  }
  plan->index = choice.index;
  plan->workspace_bytes = candidates.workspace_bytes(choice.index);
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
  // Returns null if cuDNN has no plan; the reason is printed at most once per problem.
  std::shared_ptr<const ConvolutionPlan> get(KernelContext& ctx, const ConvolutionProblem& problem,
                                             const ConvolutionOperands& operands) {
    // One worker thread per device makes plans; the lock is needed if there are several devices.
    const std::lock_guard lock(mutex_);
    const Key key{problem, ctx.device.index};
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    return plans_.emplace(key, find(ctx, problem, operands)).first->second;
  }

 private:
  static std::shared_ptr<const ConvolutionPlan> find(KernelContext& ctx,
                                                     const ConvolutionProblem& problem,
                                                     const ConvolutionOperands& operands) {
    std::string reason;
    if (auto plan = make_plan(ctx, problem, operands, reason)) return plan;
    if (problem.sums) {  // callers of problems with sums have a fallback
      static const bool verbose =
          env_string("MXLITE_VERBOSE", "").find("dispatch") != std::string::npos;
      if (verbose)
        std::fprintf(
            stderr,
            "mxlite: %s: BatchNorm reads the output for its sums, because cuDNN has no plan: %s\n",
            problem.text().c_str(), reason.c_str());
      return nullptr;
    }
    if (problem.bias || problem.addend || problem.relu) {
      ConvolutionProblem bare = problem;
      bare.bias = bare.addend = bare.relu = false;
      if (auto plan = make_plan(ctx, bare, operands, reason)) {
        plan->fused = false;
        return plan;
      }
    }
    std::fprintf(stderr, "mxlite: %s: cuDNN has no plan (%s), so plain loops run, which are slow\n",
                 problem.text().c_str(), reason.c_str());
    return nullptr;
  }

  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const ConvolutionPlan>, KeyHash> plans_;  // guarded by
                                                                                    // mutex_
};

}  // namespace

bool run_planned_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                             const ConvolutionOperands& operands) {
  static auto* const cache = new PlanCache;  // leaked: workers may outlive static destructors
  const auto plan = cache->get(ctx, problem, operands);
  if (!plan) return false;
  plan->run(ctx, operands);
  if (!plan->fused) convolution_epilogue(ctx, problem, operands);
  return true;
}

}  // namespace mxlite::cuda
