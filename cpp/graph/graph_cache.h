// Bounds the memory of all graphs compiled in this process: signatures that were not used
// for the longest time are dropped first.
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

#include "cpp/graph/cached_graph.h"

namespace mxlite::graph {

class GraphCache {
 public:
  static GraphCache& get();

  void add(CachedGraph& graph);
  void remove(CachedGraph& graph) noexcept;

  // Drops signatures until what remains fits into the limit. The kProtected most recently used
  // ones of each graph stay in any case, and what they take does not count: a program that
  // alternates between training and evaluation never compiles again.
  void trim();
  static constexpr size_t kProtected = 2;

  size_t limit() const { return limit_; }

 private:
  GraphCache();

  std::mutex mutex_;
  std::vector<CachedGraph*> graphs_;  // guarded by mutex_
  const size_t limit_;
};

}  // namespace mxlite::graph
