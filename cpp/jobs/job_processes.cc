#include "cpp/jobs/job_processes.h"

#include <array>

#include "cpp/core/host_memory.h"
#include "cpp/engine/polling.h"
#include "cpp/jobs/collective_task.h"
#include "cpp/jobs/comm_thread.h"
#include "cpp/kvstore/comm/world.h"
#include "cpp/ops/collective/processes.h"

namespace mxlite::jobs {
namespace {

using collective::CollectiveCall;
using collective::Kind;
using collective::Reduction;

CollectiveKind kind_of(Kind kind) {
  using enum CollectiveKind;
  constexpr std::array kKinds = {kAllReduce,     kReduce,   kBroadcast, kAllGather,
                                 kReduceScatter, kAllToAll, kMessage,   kMessage};
  return kKinds.at(static_cast<size_t>(kind));  // `kind` is not kNone: operators without
                                                // communication start no call
}

ReduceOp reduce_op_of(Reduction reduction) {
  using enum ReduceOp;
  constexpr std::array kOps = {kSum, kSum, kProduct, kMin, kMax};
  return kOps.at(static_cast<size_t>(reduction));
}

CallChannel channel_of(const collective::Terms& terms, int rank) {
  CallChannel channel;
  channel.set = terms.process_set;
  if (terms.kind == Kind::kSend) channel.from = rank, channel.to = terms.peer;
  if (terms.kind == Kind::kReceive) channel.from = terms.peer, channel.to = rank;
  return channel;
}

Request request_of(const collective::Terms& terms, const TensorSpec& spec,
                   const CallChannel& channel, Job& job) {
  Request request;
  request.name = terms.text;
  request.kind = kind_of(terms.kind);
  request.dtype = spec.dtype;
  request.op = reduce_op_of(terms.reduction);
  request.set = terms.process_set;
  if (channel.is_message())
    request.splits = {channel.from, channel.to};
  else
    request.root = terms.peer;
  if (terms.reduction == Reduction::kMean)
    request.postscale =
        1.0 / static_cast<double>(job.process_sets().members(terms.process_set).size());
  const auto shape = spec.shape.span();
  request.shape.assign(shape.begin(), shape.end());
  request.same_shapes = true;
  static_assert(collective::kGivenUp == kGivenUp);
  request.later = terms.later;
  return request;
}

// Returns an operation for the call, with the next number of its channel.
OperationRef operation_of(const CollectiveCall& call, const std::string& failure, Job& job) {
  const CallChannel channel = channel_of(call.terms, job.rank);
  Request request = request_of(call.terms, call.spec, channel, job);
  if (call.output) request.device = gpu_number(call.output->device());
  request.failure = failure;
  auto operation = make_ref<Operation>();
  // Copies the handle, because backward may assign other memory to the caller's handle before the
  // operation runs.
  if (call.input) operation->input = call.input->detached();
  if (call.output) operation->output = call.output->detached();
  operation->asked = job.share(request);
  operation->channel = channel;
  operation->number = call.terms.later == collective::kGivenUp
                          ? job.ordered_calls().number_given_up_call(channel)
                          : job.ordered_calls().number_calls(1, channel);
  return operation;
}

// A collective call that the task of a compiled graph makes.
class JobCall final : public collective::PendingCall, public OperationOwner {
 public:
  JobCall(RequestRef asked, std::shared_ptr<Job> job)
      : operation_(make_ref<Operation>()), job_(std::move(job)) {
    operation_->asked = std::move(asked);
    operation_->channel.set = operation_->request().set;
  }

  void number() override {
    operation_->number = job_->ordered_calls().number_calls(1, operation_->channel);
  }

  void begin(collective::CallOwner& owner, size_t position, engine::TaskRef task, NDArrayRef input,
             NDArrayRef output) override {
    owner_ = &owner;
    position_ = position;
    task_ = std::move(task);
    operation_->input = std::move(input);
    operation_->output = std::move(output);
    operation_->owner = this;
    self_ = IntrusivePtr<JobCall>(this);
    // Keeps the job alive. During submit, another thread may end the call and destroy this object.
    const auto job = std::move(job_);
    job->submit({std::move(operation_)});
  }

  void refuse(const std::exception_ptr& cause) noexcept override {
    const auto job = std::move(job_);
    try {
      operation_->asked = refused(operation_->request(), cause);
      job->submit({std::move(operation_)});
    } catch (...) {  // not enough memory to announce the failure
      job->abort("a tensor could not be computed, and memory ran out");
    }
  }

  void notify(size_t, std::exception_ptr error) override {
    const auto self = std::move(self_);
    const auto task = std::move(task_);
    owner_->call_ended(position_, std::move(error));
  }

 private:
  OperationRef operation_;
  std::shared_ptr<Job> job_;
  collective::CallOwner* owner_ = nullptr;
  size_t position_ = 0;
  engine::TaskRef task_;        // keeps the owner alive until it is notified
  IntrusivePtr<JobCall> self_;  // keeps this object alive until the owner is notified
};

class PreparedJobCall final : public collective::PreparedCall {
 public:
  PreparedJobCall(RequestRef asked, std::shared_ptr<Job> job)
      : asked_(std::move(asked)), job_(job) {}

  collective::PendingCallRef make() const override {
    auto job = CommThread::get().job();
    if (!job || job != job_.lock()) return nullptr;
    return make_ref<JobCall>(asked_, std::move(job));
  }

 private:
  const RequestRef asked_;
  const std::weak_ptr<Job> job_;
};

class JobProcesses final : public collective::Processes {
 public:
  bool running() const override {
    if (CommThread::get().job()) return true;
    MX_CHECK_KIND(launched_processes() == 1, ErrorKind::kCommunicator,
                  "this process was started as one of ", launched_processes(),
                  " and has not joined them: ", kHowToJoin, " before collective operators run");
    return false;
  }

  collective::ProcessGroup group(int32_t process_set) const override {
    const auto job = CommThread::get().running_job();
    return {job->process_sets().members(process_set), job->rank};
  }

  // A message between two ranks runs as a collective of all ranks of the set. Ranks that neither
  // send nor receive do not know the array's device, so messages use host memory.
  Device place_of(Kind kind, DType dtype, Device device) const override {
    if (is_host_memory(device)) return device;
    if (kind == Kind::kSend || kind == Kind::kReceive) return {DeviceType::kPinned, 0};
    return CommThread::get().running_job()->place_of(device, dtype);
  }

  void start(CollectiveCall call) override {
    auto job = CommThread::get().running_job();
    std::vector<OperationRef> operations = {operation_of(call, "", *job)};
    std::vector<engine::Var*> reads, overwrites = {&call.output->storage()->var()};
    if (call.input) reads.push_back(&call.input->storage()->var());
    const size_t bytes = call.output->storage()->take_new_bytes();
    try {
      push(call.op, call.origin, std::move(operations), job, {reads, overwrites, {}}, bytes);
    } catch (const std::bad_alloc&) {  // other ranks already wait for the call, because it has a
                                       // number
      job->abort("memory ran out while a collective was started");
      throw;
    }
  }

  collective::PreparedCallRef prepare(const collective::Terms& terms,
                                      const TensorSpec& spec) override {
    auto job = CommThread::get().running_job();
    const CallChannel channel = channel_of(terms, job->rank);
    const RequestRef asked = job->share(request_of(terms, spec, channel, *job));
    return make_ref<PreparedJobCall>(asked, std::move(job));
  }

  void refuse(CollectiveCall call, const std::string& reason) override {
    const auto job = CommThread::get().running_job();
    job->submit({operation_of(call, cause_text(reason), *job)});
  }
};

}  // namespace

void provide_processes() {
  static JobProcesses& processes = *new JobProcesses;
  collective::set_processes(&processes);
  engine::set_poll_hook([](bool idle) {
    try {
      return SlotCalls::poll_current(idle);
    } catch (const std::bad_alloc&) {
      return false;  // harmless, because the comm thread also polls the calls
    }
  });
}

}  // namespace mxlite::jobs
