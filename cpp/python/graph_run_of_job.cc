#include "cpp/python/graph_run_of_job.h"

#include <algorithm>
#include <vector>

#include "cpp/base/error.h"

namespace mxlite::python {
namespace {

using collective::Kind;
using collective::Reduction;

// Submits the collectives of a run.
class Collectives final : public collective::GraphCollectives {
 public:
  // failed: whether the last collective has failed.
  Collectives(DeviceCommunicator& group, std::span<const int> members, bool& failed)
      : group_(group), members_(members), failed_(failed) {}

  void run(const collective::Terms& terms, const TensorSpec& spec, const void* input, void* output,
           Stream& stream) override {
    failed_ = true;
    if (&stream != &group_.stream()) group_.submit_to(&stream);
    try {
      submit(terms, spec, input, output, stream);
    } catch (...) {
      group_.submit_to(nullptr);
      throw;
    }
    group_.submit_to(nullptr);
    failed_ = false;
  }

 private:
  void submit(const collective::Terms& terms, const TensorSpec& spec, const void* input,
              void* output, Stream& stream) {
    const ReduceOp op = terms.reduction == Reduction::kProduct ? ReduceOp::kProduct
                        : terms.reduction == Reduction::kMin   ? ReduceOp::kMin
                        : terms.reduction == Reduction::kMax   ? ReduceOp::kMax
                                                               : ReduceOp::kSum;
    const int64_t ranks = group_.size(), count = spec.shape.size();
    const auto size = static_cast<size_t>(ranks);
    const double factor =
        terms.reduction == Reduction::kMean ? 1.0 / static_cast<double>(ranks) : 1.0;
    const int root = static_cast<int>(std::ranges::find(members_, terms.peer) - members_.begin());
    switch (terms.kind) {
      case Kind::kAllReduce:
        group_.all_reduce(input, output, count, spec.dtype, op);
        return group_.scale(output, count, spec.dtype, factor);
      case Kind::kReduce:
        group_.all_reduce(input, output, count, spec.dtype, op);
        if (group_.rank() != root) group_.clear(output, spec.bytes());
        return;
      case Kind::kBroadcast:
        if (group_.rank() == root) stream.copy(output, input, spec.bytes());
        return group_.broadcast(output, spec.bytes(), root);
      case Kind::kAllGather:
        return group_.all_gather(input, output, std::vector<size_t>(size, spec.bytes()));
      case Kind::kReduceScatter: {
        const std::vector<int64_t> counts(size, count / ranks);
        group_.reduce_scatter(input, output, counts, spec.dtype, op);
        return group_.scale(output, count / ranks, spec.dtype, factor);
      }
      case Kind::kAllToAll: {
        const std::vector<size_t> bytes(size, spec.bytes() / size);
        return group_.all_to_all(input, bytes, output, bytes);
      }
      case Kind::kSend:
      case Kind::kReceive:
      case Kind::kNone:
        break;
    }
    MX_ASSERT(false);
  }

  DeviceCommunicator& group_;
  const std::span<const int> members_;
  bool& failed_;
};

class JobGraphRun final : public horovod::GraphRun {
 public:
  explicit JobGraphRun(IntrusivePtr<collective::GraphRun> run) : run_(std::move(run)) {}

  GraphWay choose(Stream& stream, Recordings& recorded) override {
    return run_->choose(stream, recorded);
  }
  void run_step_by_step(DeviceCommunicator& group, std::span<const int> members) override {
    Collectives collectives(group, members, group_failed_);
    run_->run_step_by_step(group.stream(), collectives);
  }
  bool record(DeviceCommunicator& group, std::span<const int> members, uint64_t number,
              std::string& why, bool& transient) override {
    Collectives collectives(group, members, group_failed_);
    return run_->record(group.stream(), collectives, number, why, transient);
  }
  void drop_recording(uint64_t number) override { run_->drop_recording(number); }
  void replay(Stream& stream, uint64_t number) override { run_->replay(stream, number); }
  bool group_failed() const override { return group_failed_; }
  std::shared_ptr<CommunicatorUser> recordings() override { return run_->recordings(); }

 private:
  const IntrusivePtr<collective::GraphRun> run_;
  bool group_failed_ = false;
};

}  // namespace

IntrusivePtr<horovod::GraphRun> graph_run_of_job(IntrusivePtr<collective::GraphRun> run) {
  return make_ref<JobGraphRun>(std::move(run));
}

}  // namespace mxlite::python
