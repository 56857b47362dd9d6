// Ranks of a job on one host, which are threads with a communicator through shared memory.
#pragma once
#include <functional>
#include <thread>
#include <vector>

#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite {

inline constexpr size_t kSharedBuffer = size_t{64} << 10;

using RankBody = std::function<void(Communicator&)>;

inline void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r) threads.emplace_back(body, r);
  for (std::thread& thread : threads) thread.join();
}

inline void on_shared_memory(int ranks, const RankBody& body) {
  const auto segment = shm::SharedSegment::create_unnamed(ranks, kSharedBuffer);
  run_threads(ranks, [&](int rank) {
    const auto group = shm::make_communicator(segment, rank);
    body(*group);
    group->barrier();
  });
}

}  // namespace mxlite
