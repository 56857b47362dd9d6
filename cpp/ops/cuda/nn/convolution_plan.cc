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
#include "cpp/ops/plan_cache.h"
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
  bool fused = true;   // if false, a separate kernel applies the epilogue
};

// Returns the first line of an error's message, or "" if there is no error.
std::string reason_of(fe::error_t status) {
  if (status.is_good()) return "";
  const std::string text = status.get_message();
  return text.empty() ? "no reason given" : text.substr(0, text.find('\n'));
}

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
      : ctx_(ctx),
        graph_(plan.graph),
        operands_(operands),
        pointers_(bind(plan.problem, operands)) {}

  std::string list() override {
    fe::error_t status = graph_.validate();
    if (status.is_good()) status = graph_.build_operation_graph(cudnn(ctx_));
    if (status.is_good())
      status = graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    return reason_of(status);
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
  std::string supported() override { return reason_of(graph_.check_support(cudnn(ctx_))); }
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
    const Event begin, end;
    float best = kFailed;
    for (int i = 0; i <= kRepeats; ++i) {
      MX_CUDA(cudaEventRecord(begin.raw, stream(ctx_)));
      if (!run(index).empty()) return kFailed;
      MX_CUDA(cudaEventRecord(end.raw, stream(ctx_)));
      MX_CUDA(cudaEventSynchronize(end.raw));
      float elapsed = 0;
      MX_CUDA(cudaEventElapsedTime(&elapsed, begin.raw, end.raw));
      if (i > 0) best = std::min(best, elapsed);  // the first run warms up
    }
    return best;
  }
  // Runs a built candidate; returns why it failed, or "".
  std::string run(int64_t index) {
    const auto bytes = static_cast<size_t>(graph_.get_workspace_size_plan_at_index(index));
    void* const workspace = workspace_of(ctx_, operands_, bytes);
    const std::string reason =
        reason_of(graph_.execute_plan_at_index(cudnn(ctx_), pointers_, workspace, index));
    if (!reason.empty() && !is_capturing(ctx_)) {
      // After a failure of the device no other candidate can run.
      const cudaError_t status = cudaStreamQuery(stream(ctx_));
      if (status != cudaErrorNotReady) MX_CUDA(status);
    }
    return reason;
  }

 private:
  KernelContext& ctx_;
  fe::graph::Graph& graph_;
  const ConvolutionOperands& operands_;
  std::unordered_map<int64_t, void*> pointers_;
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
  return plan;
}

// Returns null if cuDNN has no plan, and prints the reason.
std::shared_ptr<ConvolutionPlan> find_plan(KernelContext& ctx, const ConvolutionProblem& problem,
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

}  // namespace

bool run_planned_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                             const ConvolutionOperands& operands) {
  using Cache = PlanCache<ConvolutionPlan, ConvolutionProblem, ConvolutionProblemHash>;
  static auto* const cache = new Cache;  // leaked: workers may outlive static destructors
  const auto make = [&] {
    // Measuring waits for the stream, which a capture does not allow.
    const bool measured = problem.tuning == ConvolutionTuning::kOff || !is_capturing(ctx);
    return Cache::Made{find_plan(ctx, problem, operands), measured};
  };
  const auto plan = cache->get(problem, ctx.device.index, make, [&] { return !is_capturing(ctx); });
  if (!plan) return false;
  Candidates candidates(ctx, *plan, operands);
  const auto run = [&](int64_t index) { return candidates.run(index); };
  if (const std::string reason = run(plan->index); !reason.empty())
    plan->index = run_other_candidate(candidates, plan->index, reason, plan->problem.text(), run);
  if (!plan->fused) convolution_epilogue(ctx, problem, operands);
  return true;
}

}  // namespace mxlite::cuda
