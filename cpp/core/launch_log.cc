#include "cpp/core/launch_log.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mxlite {
namespace {

constexpr uint64_t kEntries = 8192;  // enough for a few steps of a large network
constexpr size_t kMostKernels = 12;  // maximum number of kernels in the text of one task
constexpr size_t kLongestName = 80;

// A launch in the log. The log is read only after a device has failed. An entry that is being
// overwritten belongs to no task.
struct Entry {
  std::atomic<uint64_t> task{0};
  std::atomic<const char*> kernel{nullptr};
  std::atomic<const char*> of{nullptr};
};
struct Log {
  std::atomic<uint64_t> next{0};
  std::array<Entry, kEntries> entries;
};
constinit Log launches;

thread_local uint64_t current_task = 0;
thread_local const char* current_operator = nullptr;

}  // namespace

LaunchScope::LaunchScope(uint64_t task) noexcept : outer_(std::exchange(current_task, task)) {
  current_operator = nullptr;
}

LaunchScope::~LaunchScope() {
  current_task = outer_;
  current_operator = nullptr;
}

void set_launching_operator(const char* name) noexcept { current_operator = name; }

void note_launch(const char* kernel) noexcept {
  if (current_task == 0) return;
  const uint64_t i = launches.next.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = launches.entries[i % kEntries];
  entry.task.store(0, std::memory_order_release);
  entry.kernel.store(kernel, std::memory_order_relaxed);
  entry.of.store(current_operator, std::memory_order_relaxed);
  entry.task.store(current_task, std::memory_order_release);
}

std::string kernels_of_task(uint64_t task) {
  const uint64_t end = launches.next.load(std::memory_order_acquire);
  std::vector<std::string> names;
  for (uint64_t i = end > kEntries ? end - kEntries : 0; i < end; ++i) {
    const Entry& entry = launches.entries[i % kEntries];
    if (entry.task.load(std::memory_order_acquire) != task) continue;
    std::string name = entry.kernel.load(std::memory_order_relaxed);
    if (const char* of = entry.of.load(std::memory_order_relaxed)) name += std::string(" of ") + of;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  std::string list;
  const size_t first = names.size() > kMostKernels ? names.size() - kMostKernels : 0;
  for (size_t i = first; i < names.size(); ++i) list += (i > first ? ", " : "") + names[i];
  return first > 0 ? "..., " + list : list;
}

std::string short_kernel_name(const char* linker_name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(linker_name, nullptr, nullptr, &status), &std::free);
  if (!readable || status != 0) return std::string(linker_name).substr(0, kLongestName);
  std::string name = readable.get();
  // Extracts the name from "void mxlite::cuda::(anonymous namespace)::forward_rows<float,
  // true>(Rows, Array)". The name ends at the first bracket that does not belong to an anonymous
  // namespace.
  static const std::string unnamed = "(anonymous namespace)::";
  for (size_t at; (at = name.find(unnamed)) != std::string::npos;) name.erase(at, unnamed.size());
  name.resize(std::min(name.find_first_of("<("), name.size()));
  const size_t begin = name.find_last_of(": ");
  if (begin != std::string::npos && begin + 1 < name.size()) name.erase(0, begin + 1);
  return name.substr(0, kLongestName);
}

const char* intern_kernel_name(const std::string& name) {
  // The mutex and the set are leaked, because the log and the profiler store the pointers, and
  // threads may outlive static destructors.
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::unordered_set<std::string>;
  const std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

}  // namespace mxlite
