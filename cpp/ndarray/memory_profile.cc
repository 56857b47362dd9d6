#include "cpp/ndarray/memory_profile.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace mxlite {

std::atomic<bool> memory_profile_has_entries{false};

namespace {

struct Attribution {
  MemoryOfBlock* row;
  int64_t bytes;
  bool counted = false;
};

struct Profile {
  std::mutex mutex;
  bool runs = false;
  std::map<std::tuple<DeviceType, int, std::string>, MemoryOfBlock> rows;
  std::unordered_map<const void*, Attribution> attributed;  // the key is the address of the storage
};
Profile& profile() {
  static auto* const instance = new Profile;  // leaked, as arrays may outlive static objects
  return *instance;
}

thread_local std::vector<std::string> scopes;

}  // namespace

void start_memory_profile() {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  if (std::exchange(p.runs, true)) return;
  p.attributed.clear();
  p.rows.clear();
  memory_profile_has_entries = true;
}

void stop_memory_profile() {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  p.runs = false;
  if (p.attributed.empty()) memory_profile_has_entries = false;
}

std::vector<MemoryOfBlock> memory_by_block() {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  std::vector<MemoryOfBlock> rows;
  for (const auto& [key, row] : p.rows)
    if (row.allocations > 0) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryOfBlock& a, const MemoryOfBlock& b) {
    return std::tuple(a.device.type, a.device.index, -a.peak_bytes) <
           std::tuple(b.device.type, b.device.index, -b.peak_bytes);
  });
  return rows;
}

void enter_memory_scope(const std::string& block) { scopes.push_back(block); }

void leave_memory_scope() noexcept {
  if (!scopes.empty()) scopes.pop_back();
}

void attribute_to_block(Device device, const void* storage, size_t bytes) {
  if (bytes == 0) return;
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  if (!p.runs) return;
  const std::string block = scopes.empty() ? "" : scopes.back();
  MemoryOfBlock& row = p.rows[{device.type, device.index, block}];
  row.device = device;
  row.block = block;
  p.attributed[storage] = {&row, static_cast<int64_t>(bytes)};
}

void count_attributed(const void* storage) noexcept {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  const auto found = p.attributed.find(storage);
  if (found == p.attributed.end()) return;
  MemoryOfBlock& row = *found->second.row;
  found->second.counted = true;
  ++row.allocations;
  row.bytes += found->second.bytes;
  row.peak_bytes = std::max(row.peak_bytes, row.bytes);
}

void forget_attribution(const void* storage) noexcept {
  Profile& p = profile();
  const std::lock_guard lock(p.mutex);
  const auto found = p.attributed.find(storage);
  if (found == p.attributed.end()) return;
  if (found->second.counted) found->second.row->bytes -= found->second.bytes;
  p.attributed.erase(found);
  if (!p.runs && p.attributed.empty()) memory_profile_has_entries = false;
}

}  // namespace mxlite
