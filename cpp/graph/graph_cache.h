// Limits the memory of all graphs that this process has compiled. Drops the least recently used
// graphs.
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

  // Drops signatures until the remaining signatures fit into the limit. The kProtected most
  // recently used signatures of each graph are kept and do not count. A program that alternates
  // between training and evaluation thus does not recompile.
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
