#include "cpp/jobs/operation.h"

#include <algorithm>

#include "cpp/base/error.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kMaxCause = 3000;  // maximum bytes of an error text that is sent to all ranks

std::string text_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

void notify(std::span<const OperationRef> operations, const std::exception_ptr& error) {
  for (size_t i = 0, end = 0; i < operations.size(); i = end) {
    OperationOwner* owner = operations[i] ? operations[i]->owner : nullptr;
    for (end = i + 1; owner && end < operations.size(); ++end)
      if (!operations[end] || operations[end]->owner != owner) break;
    if (!owner) continue;
    for (size_t k = i; k < end; ++k) operations[k]->owner = nullptr;
    owner->notify(end - i, error);
  }
}

std::exception_ptr communicator_error(const char* text) noexcept {
  try {
    return std::make_exception_ptr(Error(ErrorKind::kCommunicator, text));
  } catch (...) {
    return std::current_exception();
  }
}

int32_t gpu_number(Device device) { return device.type == DeviceType::kCUDA ? device.index : -1; }

std::string cause_text(std::string text) {
  for (const char* place : {"\n    while running ", "\n\nAt:\n"})
    text.resize(std::min(text.size(), text.find(place)));
  // Each rank that forwards a cause prepends its own text, so the original cause is at the end.
  if (text.size() > kMaxCause) text.replace(0, text.size() - kMaxCause, "...");
  return text;
}

RequestRef refused(const Request& request, const std::exception_ptr& cause) {
  const std::string why = cause_text(text_of(cause));
  Request failed = request;
  failed.failure = "an operation before it has failed";
  if (!why.empty()) failed.failure += ": " + why;
  return make_ref<const SharedRequest>(std::move(failed));
}

}  // namespace mxlite::jobs
