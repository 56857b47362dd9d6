#include "cpp/engine/broken_device.h"

#include <algorithm>
#include <string>

#include "cpp/base/error.h"
#include "cpp/core/launch_log.h"
#include "cpp/engine/task.h"

namespace mxlite::engine {
namespace {

constexpr size_t kMostNames = 8;

std::exception_ptr explain(int device, const std::exception_ptr& error,
                           std::span<const Suspect> suspects) noexcept {
  try {
    Error explained(ErrorKind::kDevice, "");
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      explained = e;
    } catch (const std::exception& e) {
      explained = Error(ErrorKind::kDevice, e.what());
    }
    if (suspects.size() > 1)
      explained.add_context(str("one of ", suspects.size(), " tasks that gpu(", device,
                                ") had not finished has failed; MXLITE_ENGINE=naive runs one at a ",
                                "time and names it"));
    for (size_t i = 0; i < std::min(suspects.size(), kMostNames); ++i) {
      std::string line = suspects.size() > 1 ? str(i + 1, ". ") : "while running ";
      line += describe_with_origin(*suspects[i].task);
      const std::string kernels = kernels_of_task(suspects[i].sequence);
      if (!kernels.empty()) line += "; its kernels: " + kernels;
      explained.add_context(line);
    }
    if (suspects.size() > kMostNames)
      explained.add_context(str("... and ", suspects.size() - kMostNames, " later tasks"));
    explained.add_context(str("gpu(", device, ") takes no more work of this process"));
    return std::make_exception_ptr(std::move(explained));
  } catch (...) {
    return error;  // not enough memory for the text
  }
}

}  // namespace

FailureRef BrokenDevices::add(int device, const std::exception_ptr& error,
                              std::span<const Suspect> suspects) {
  auto failure = make_ref<Failure>(explain(device, error, suspects),
                                   suspects.empty() ? 0 : suspects[0].sequence);
  const std::lock_guard lock(mutex_);
  failure = failures_.emplace(device, std::move(failure)).first->second;
  any_.store(true, std::memory_order_release);
  return failure;
}

}  // namespace mxlite::engine
