#include "cpp/python/py_comm.h"

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"

namespace mxlite::python {

CollectiveTask::CollectiveTask(const char* task_name, engine::Origin task_origin,
                               std::vector<OperationRef> operations,
                               std::shared_ptr<Session> session)
    : DeferredTask(task_name, task_origin),
      operations_(std::move(operations)),
      session_(std::move(session)),
      left_(operations_.size()) {
  const Request& first = operations_[0]->request;
  text_ = str(first.name, " ", first.dtype, shape_text(first.shape));
  if (left_ > 1) text_ += str(" and ", left_ - 1, " more");
}

void CollectiveTask::start() {
  started_ = true;
  // An ended session tells at once, and then the operands are released in here.
  const auto session = session_;
  const std::vector<OperationRef> operations = operations_;
  for (const auto& o : operations)
    o->done = [self = IntrusivePtr<CollectiveTask>(this)](std::exception_ptr error) {
      self->told(std::move(error));
    };
  session->submit(operations);
}

void CollectiveTask::told(std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (error && !error_) error_ = std::move(error);
    if (--left_ > 0) return;
    error = error_;
    changed_.notify_all();
  }
  finish(std::move(error));
}

void CollectiveTask::wait() {
  const engine::BlockingScope blocking;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return left_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void CollectiveTask::release_operands() noexcept {
  if (!started_) announce_failure();
  operations_.clear();
  session_.reset();
}

// An input has failed, so the task does not run: the other ranks must not wait for it.
void CollectiveTask::announce_failure() noexcept {
  const auto cause = std::make_exception_ptr(
      Error(ErrorKind::kCommunicator, text_ + ": the tensor could not be computed on this rank"));
  for (const auto& o : operations_) {
    o->input.reset();
    o->output.reset();
    o->request.failure = "an operation before it has failed";
    o->done = [](std::exception_ptr) {};
  }
  session_->submit(operations_);
  std::lock_guard lock(mutex_);
  error_ = cause;
  left_ = 0;
  changed_.notify_all();
}

void CollectiveTask::describe(std::string& out) const { out += text_; }

}  // namespace mxlite::python
