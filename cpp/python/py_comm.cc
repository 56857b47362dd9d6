#include "cpp/python/py_comm.h"

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/released_task.h"
#include "cpp/kvstore/comm/device_communicator.h"
#include "cpp/python/refused_call.h"

namespace mxlite::python {

Device place_for_collectives(Device device, DType dtype, Session& session) {
  if (device.type != DeviceType::kCUDA) return device;
  if (!travels_through_nccl(device, dtype)) return {DeviceType::kPinned, 0};
  return {DeviceType::kCUDA, session.choose_gpu(device.index)};
}

int32_t gpu_number(Device device) { return device.type == DeviceType::kCUDA ? device.index : -1; }

CollectiveTask::CollectiveTask(const char* task_name, engine::Origin task_origin,
                               std::vector<OperationRef> operations,
                               std::shared_ptr<Session> session)
    : DeferredTask(task_name, task_origin),
      operations_(std::move(operations)),
      session_(std::move(session)),
      first_(operations_[0]->asked),
      count_(operations_.size()),
      left_(count_) {}

std::string CollectiveTask::text() const {
  const Request& first = first_->terms;
  std::string text = str(first.name, " ", first.dtype, horovod::shape_text(first.shape));
  if (count_ > 1) text += str(" and ", count_ - 1, " more");
  return text;
}

void CollectiveTask::start() {
  // If there is no memory for a result, release_operands tells the other ranks.
  for (const auto& o : operations_)
    for (const NDArrayRef* array : {&o->input, &o->output})
      if (*array) (*array)->data();
  started_ = true;
  // An ended session notifies at once, which releases the operands in here.
  const auto session = session_;
  for (const auto& o : operations_) o->owner = this;
  session->submit(std::move(operations_));
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
  session_.reset();
}

// An input has failed, so the task does not run: the other ranks must not wait for it.
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
    session_->submit(std::move(operations_));
  } catch (...) {  // no memory to announce the failure
    cause = std::current_exception();
    session_->abort("a tensor could not be computed, and memory ran out");
  }
  std::lock_guard lock(mutex_);
  error_ = cause;
  left_ = 0;
  changed_.notify_all();
}

}  // namespace mxlite::python
