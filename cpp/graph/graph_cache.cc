#include "cpp/graph/graph_cache.h"

#include <algorithm>
#include <unordered_map>

#include "cpp/base/env.h"

namespace mxlite::graph {
namespace {

using Candidate = CachedGraph::Evictable;

// Counts the bytes that candidates use, and the bytes that would be freed if one candidate were
// dropped.
class Account {
 public:
  void protect(const CachedGraph::Footprint& footprint) {
    for (const auto& [id, bytes] : footprint.shared) users_[id] = kProtected;
  }
  void add(const CachedGraph::Footprint& footprint) {
    total_ += footprint.own;
    for (const auto& [id, bytes] : footprint.shared) {
      int& users = users_[id];
      if (users != kProtected && users++ == 0) total_ += bytes;
    }
  }
  void take(const CachedGraph::Footprint& footprint) {
    total_ -= footprint.own;
    for (const auto& [id, bytes] : footprint.shared) {
      int& users = users_[id];
      if (users != kProtected && --users == 0) total_ -= bytes;
    }
  }
  size_t total() const { return total_; }

 private:
  static constexpr int kProtected = -1;
  std::unordered_map<const void*, int> users_;  // number of users of each shared value
  size_t total_ = 0;
};

}  // namespace

GraphCache::GraphCache()
    : limit_(static_cast<size_t>(std::max<int64_t>(env_int("MXLITE_GRAPH_CACHE_MB", 32), 0))
             << 20) {}

GraphCache& GraphCache::get() {
  static auto* const instance = new GraphCache;  // leaked, as graphs may outlive static objects
  return *instance;
}

void GraphCache::add(CachedGraph& graph) {
  std::lock_guard lock(mutex_);
  graphs_.push_back(&graph);
}

void GraphCache::remove(CachedGraph& graph) noexcept {
  std::lock_guard lock(mutex_);
  std::erase(graphs_, &graph);
}

void GraphCache::trim() {
  if (Executable::total_bytes() + PackedWeights::total_bytes() <= limit_) return;
  std::vector<Candidate> candidates;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  Account account;
  for (CachedGraph* graph : graphs_) {
    size_t i = 0;
    for (Candidate& c : graph->by_last_use()) {
      if (i++ < kProtected)
        account.protect(c.footprint);
      else
        candidates.push_back(std::move(c));
    }
  }
  for (const Candidate& c : candidates) account.add(c.footprint);
  std::ranges::sort(candidates, {}, &Candidate::last_use);
  for (const Candidate& c : candidates) {
    if (account.total() <= limit_) break;
    account.take(c.footprint);
    c.graph->drop(c.entry);
  }
}

}  // namespace mxlite::graph
