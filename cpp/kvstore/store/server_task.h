// Runs an operation of a worker's client as a task of the engine.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "cpp/engine/deferred.h"
#include "cpp/kvstore/store/server_client.h"

namespace mxlite::store {

// Submits the operation when its arrays are ready. Ends when the servers have answered.
// `others_wait` means that other workers wait for this push. A failure to compute its array is then
// reported.
class ServerTask final : public engine::DeferredTask {
 public:
  ServerTask(const char* task_name, engine::Origin task_origin, ServerOperation operation,
             std::shared_ptr<ServerClient> client, bool others_wait)
      : DeferredTask(task_name, task_origin),
        operation_(std::move(operation)),
        client_(std::move(client)),
        others_wait_(others_wait) {}

  void start() override {
    for (const NDArrayRef* array : {&operation_.push, &operation_.pull})
      if (*array) (*array)->data();  // allocates the result; throws if memory is exhausted
    started_ = true;
    ServerOperation operation = operation_;
    operation.done = [self = IntrusivePtr<ServerTask>(this)](std::exception_ptr error) {
      self->finish(std::move(error));
    };
    const auto client = client_;  // keeps the client alive, because submit may call
                                  // release_operands
    client->submit(std::move(operation));
  }
  void release_operands() noexcept override {
    if (!started_ && operation_.push && others_wait_ && client_)
      client_->report_missing_push(*operation_.stored,
                                   "the array could not be computed on this worker");
    operation_ = {};
    client_.reset();
  }
  void describe(std::string& out) const override {
    if (operation_.stored)
      out += str(name, " of '", operation_.stored->key, "' ", operation_.stored->spec);
    else
      out += name;
  }

 private:
  ServerOperation operation_;
  std::shared_ptr<ServerClient> client_;
  const bool others_wait_;
  bool started_ = false;  // used only by the thread that runs the task
};

}  // namespace mxlite::store
