#include "cpp/engine/broken_device.h"

#include <algorithm>
#include <string>

#include "cpp/base/error.h"
#include "cpp/engine/task.h"

namespace mxlite::engine {
namespace {

constexpr size_t kMostNames = 8;

std::string names(std::span<Task* const> tasks) {
  std::string list;
  for (size_t i = 0; i < std::min(tasks.size(), kMostNames); ++i) {
    if (i > 0) list += ", ";
    tasks[i]->describe(list);
  }
  if (tasks.size() > kMostNames) list += ", ...";
  return list;
}

std::exception_ptr explain(int device, const std::exception_ptr& error,
                           std::span<Task* const> suspects) noexcept {
  try {
    Error told(ErrorKind::kDevice, "");
    try {
      std::rethrow_exception(suspects.size() == 1 ? decorate(error, *suspects[0]) : error);
    } catch (const Error& e) {
      told = e;
    } catch (const std::exception& e) {
      told = Error(ErrorKind::kDevice, e.what());
    }
    if (suspects.size() > 1)
      told.add_context(str("one of ", suspects.size(), " tasks that gpu(", device,
                           ") had not finished has failed: ", names(suspects),
                           "; MXLITE_ENGINE=naive runs one at a time and names it"));
    told.add_context(str("gpu(", device, ") takes no more work of this process"));
    return std::make_exception_ptr(std::move(told));
  } catch (...) {
    return error;  // no memory for the text
  }
}

}  // namespace

FailureRef BrokenDevices::add(int device, const std::exception_ptr& error,
                              std::span<Task* const> suspects, uint64_t sequence_of_first) {
  auto failure = make_ref<Failure>(explain(device, error, suspects), sequence_of_first);
  const std::lock_guard lock(mutex_);
  failure = failures_.emplace(device, std::move(failure)).first->second;
  any_.store(true, std::memory_order_release);
  return failure;
}

}  // namespace mxlite::engine
