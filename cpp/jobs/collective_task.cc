#include "cpp/jobs/collective_task.h"

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/freeing_stream.h"
#include "cpp/engine/released_task.h"
#include "cpp/jobs/comm_thread.h"

namespace mxlite::jobs {
namespace {

// Returns the array. Throws if the job cannot use the array's device in collectives.
const NDArrayRef& usable(const NDArrayRef& array, const std::string& name, Job& job) {
  MX_CHECK(array->contiguous() && !array->is_traced() && !array->is_sparse(), name,
           ": the array must be contiguous, dense and not traced");
  const Device place = job.place_of(array->device(), array->dtype());
  MX_CHECK_KIND(place == array->device(), ErrorKind::kDevice, name, ": the array must be on ",
                place, ", got an array on ", array->device());
  return array;
}

bool is_fresh_in_compute(const NDArray& array) {
  if (array.device().type != DeviceType::kCUDA) return false;
  const engine::Var& var = array.storage()->var();
  return var.version() == 0 && engine::allocating_stream(var) == StreamKind::kCompute;
}

std::vector<OperationRef> operations_of(const CollectiveCall& call, Job& job) {
  Request terms = call.terms;
  if (!terms.group.empty()) terms.group_size = static_cast<int32_t>(call.names.size());
  std::vector<OperationRef> operations;
  operations.reserve(call.names.size());
  for (size_t i = 0; i < call.names.size(); ++i) {
    auto o = make_ref<Operation>();
    terms.name = call.names[i];
    // Copies the handle, because backward may assign other memory to the caller's handle before the
    // task runs.
    if (i < call.inputs.size()) {
      o->input = usable(call.inputs[i], terms.name, job)->detached();
      terms.dtype = o->input->dtype();
      terms.device = gpu_number(o->input->device());
      const auto shape = o->input->shape().span();
      terms.shape.assign(shape.begin(), shape.end());
    }
    if (i < call.outputs.size()) {
      const bool in_place = i < call.inputs.size() && call.outputs[i] == call.inputs[i];
      o->output = in_place ? o->input : usable(call.outputs[i], terms.name, job)->detached();
      MX_CHECK_KIND(gpu_number(o->output->device()) == terms.device, ErrorKind::kDevice, terms.name,
                    ": input and output must be on one device, got ", o->input->device(), " and ",
                    o->output->device());
    }
    o->fresh_in_compute = (o->input && is_fresh_in_compute(*o->input)) ||
                          (o->output && is_fresh_in_compute(*o->output));
    o->queues = o->output && o->output->storage() == o->input->storage();
    o->asked = job.share(terms);
    operations.push_back(std::move(o));
  }
  return operations;
}

}  // namespace

CollectiveTask::CollectiveTask(const char* task_name, engine::Origin task_origin,
                               std::vector<OperationRef> operations, std::shared_ptr<Job> job)
    : DeferredTask(task_name, task_origin),
      operations_(std::move(operations)),
      job_(std::move(job)),
      first_(operations_[0]->asked),
      count_(operations_.size()),
      left_(count_) {}

std::string CollectiveTask::text() const {
  const Request& first = first_->terms;
  std::string text = str(first.name, " ", first.dtype, shape_text(first.shape));
  if (count_ > 1) text += str(" and ", count_ - 1, " more");
  return text;
}

void CollectiveTask::start() {
  // If an output cannot be allocated, release_operands reports the failure to the other ranks.
  for (const auto& o : operations_)
    for (const NDArrayRef* array : {&o->input, &o->output})
      if (*array) (*array)->data();
  started_ = true;
  // Keeps the job alive. If the job has ended, submit notifies this task, which then resets job_.
  const auto job = job_;
  for (const auto& o : operations_) o->owner = this;
  job->submit(std::move(operations_));
}

void CollectiveTask::notify(size_t operations, std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (error && !error_) error_ = std::move(error);
    left_ -= operations;
    if (left_ > 0) return;
    error = error_;
    changed_.notify_all();
  }
  finish(std::move(error));
}

void CollectiveTask::wait() {
  std::unique_lock lock(mutex_);
  engine::wait_interruptibly(lock, changed_, [this] { return left_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void CollectiveTask::release_operands() noexcept {
  if (!started_) announce_failure();
  operations_.clear();
  job_.reset();
}

// Called instead of running the task if an input has failed. Tells the other ranks not to wait for
// this rank.
void CollectiveTask::announce_failure() noexcept {
  std::exception_ptr cause;
  try {
    cause = std::make_exception_ptr(Error(
        ErrorKind::kCommunicator, text() + ": the tensor could not be computed on this rank"));
    for (const auto& o : operations_) {
      o->input.reset();
      o->output.reset();
      o->asked = refused(o->request(), engine::failure_of_released_task());
    }
    job_->submit(std::move(operations_));
  } catch (...) {  // not enough memory to announce the failure
    cause = std::current_exception();
    job_->abort("a tensor could not be computed, and memory ran out");
  }
  std::lock_guard lock(mutex_);
  error_ = cause;
  left_ = 0;
  changed_.notify_all();
}

IntrusivePtr<CollectiveTask> push(const char* name, engine::Origin origin,
                                  std::vector<OperationRef> operations, std::shared_ptr<Job> job,
                                  const engine::Access& access, size_t bytes) {
  auto task = make_ref<CollectiveTask>(name, origin, std::move(operations), std::move(job));
  engine::Engine::get().push(task, access, {.may_inline = true, .bytes = bytes});
  return task;
}

PendingCollective start(const CollectiveCall& call, engine::Origin origin) {
  auto job = CommThread::get().running_job();
  std::vector<OperationRef> operations = operations_of(call, *job);
  if (call.ordered) {
    CallChannel channel;
    channel.set = call.terms.set;
    uint64_t number = job->ordered_calls().number_calls(operations.size(), channel);
    for (const OperationRef& operation : operations) {
      operation->channel = channel;
      operation->number = number++;
    }
  }
  std::vector<engine::Var*> reads, overwrites, updates;
  size_t bytes = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const NDArrayRef& input = call.inputs[i];
    const NDArray* output = i < call.outputs.size() ? call.outputs[i].get() : nullptr;
    const bool same = output && output->storage() == input->storage();
    if (!same) reads.push_back(&input->storage()->var());
    if (!output) continue;
    const bool whole = !same && output->spec().bytes() == output->storage()->bytes();
    (whole ? overwrites : updates).push_back(&output->storage()->var());
    bytes += output->storage()->take_new_bytes();
  }
  auto task = push(collective_name(call.terms.kind), origin, operations, std::move(job),
                   {reads, overwrites, updates}, bytes);
  return {std::move(operations), std::move(task)};
}

void start_bucket_call(OperationRef operation, const Request& terms, engine::Origin origin,
                       const engine::Access& access) {
  auto job = CommThread::get().running_job();
  operation->is_bucket = true;
  operation->asked = job->share(terms);
  operation->channel.set = terms.set;
  operation->number = job->ordered_calls().number_calls(1, operation->channel);
  push(collective_name(terms.kind), origin, {std::move(operation)}, std::move(job), access);
}

}  // namespace mxlite::jobs
