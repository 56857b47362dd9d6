#include "cpp/ops/cuda/nn/attention_plan.h"

#include <mutex>
#include <string>

#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/nn/attention_graph.h"
#include "cpp/ops/dispatch_line.h"

namespace mxlite::cuda {

namespace fe = cudnn_frontend;

namespace {

class CudnnAttentionPlan final : public AttentionPlan {
 public:
  // Returns cuDNN's reason if it has no plan, otherwise an empty string.
  std::string build(KernelContext& ctx, const AttentionProblem& problem) {
    make_attention_nodes(graph_, problem);
    fe::error_t status = graph_.validate();
    if (status.is_good()) status = graph_.build_operation_graph(cudnn(ctx));
    if (status.is_good())
      status = graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    if (status.is_good()) status = graph_.check_support();
    if (status.is_good()) status = graph_.build_plans();
    int64_t bytes = 0;
    if (status.is_good()) status = graph_.get_workspace_size(bytes);
    workspace_bytes_ = static_cast<size_t>(bytes);
    if (status.is_good()) return "";
    const std::string text = status.get_message();
    return text.empty() ? "no reason given" : text.substr(0, text.find('\n'));
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  void run(KernelContext& ctx, AttentionPointers pointers, void* workspace) const override {
    fe::error_t status = graph_.execute(cudnn(ctx), pointers, workspace);
    MX_CHECK_KIND(status.is_good(), ErrorKind::kDevice,
                  "dot_product_attention: cuDNN: ", status.get_message());
  }

 private:
  fe::graph::Graph graph_;
  size_t workspace_bytes_ = 0;
};

struct Key {
  AttentionProblem problem;
  int device;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& k) const {
    return AttentionProblemHash()(k.problem) * 31 + static_cast<size_t>(k.device);
  }
};

class PlanCache {
 public:
  std::shared_ptr<const AttentionPlan> get(KernelContext& ctx, const AttentionProblem& problem) {
    // One worker thread per device makes plans; the lock is needed if there are several devices.
    const std::lock_guard lock(mutex_);
    const Key key{problem, ctx.device.index};
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    auto plan = std::make_shared<CudnnAttentionPlan>();
    const std::string reason = plan->build(ctx, problem);
    if (!reason.empty()) {
      plan = nullptr;
      print_dispatch(problem.text(), "cuDNN", reason.c_str());
    }
    return plans_.emplace(key, std::move(plan)).first->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const AttentionPlan>, KeyHash> plans_;  // guarded by
                                                                                  // mutex_
};

}  // namespace

std::shared_ptr<const AttentionPlan> find_attention_plan(KernelContext& ctx,
                                                         const AttentionProblem& problem) {
  static auto* const cache = new PlanCache;  // leaked: workers may outlive static destructors
  return cache->get(ctx, problem);
}

}  // namespace mxlite::cuda
