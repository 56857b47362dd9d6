#include "cpp/ops/cuda/nn/attention_plan.h"

#include <string>

#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/nn/attention_graph.h"
#include "cpp/ops/dispatch_line.h"
#include "cpp/ops/plan_cache.h"

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

}  // namespace

std::shared_ptr<const AttentionPlan> find_attention_plan(KernelContext& ctx,
                                                         const AttentionProblem& problem) {
  using Cache = PlanCache<const AttentionPlan, AttentionProblem, AttentionProblemHash>;
  static auto* const cache = new Cache;  // leaked: workers may outlive static destructors
  const auto make = [&] {
    auto plan = std::make_shared<CudnnAttentionPlan>();
    const std::string reason = plan->build(ctx, problem);
    if (reason.empty()) return Cache::Made{plan};
    print_dispatch(problem.text(), "cuDNN", reason.c_str());
    return Cache::Made{};
  };
  return cache->get(problem, ctx.device.index, make, [] { return false; });
}

}  // namespace mxlite::cuda
