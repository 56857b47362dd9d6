// Runs an executable that holds collectives on a GPU, as one call of all ranks
// (cpp/ops/collective/graph_call.h).
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cpp/graph/replay.h"
#include "cpp/graph/run_operands.h"
#include "cpp/ops/collective/graph_call.h"

namespace mxlite::graph {

// Returns whether this graph can be compiled into executables that are calls: all collectives are
// of one process set, NCCL carries them all, and nothing else in the graph is called outside of
// executables. `why` receives the reason if it cannot.
bool runs_as_call(const Graph& graph, Device device, std::string& why);
// Prints why the collectives of a graph are separate calls.
void print_separate_calls(const std::string& name, const std::string& why);
// Whether the executable makes the calls of the graph, in the graph's order.
bool keeps_collectives(const Graph& graph, const Program& program);

// Owned by an executable whose program holds collectives.
class CollectiveSteps final : public CommunicatorUser {
 public:
  CollectiveSteps(const Program& program, const Segment& main, Device device, const char* name,
                  std::vector<Replay::CallerArray> arrays);
  ~CollectiveSteps() override;
  // Returns null if the program holds none.
  static std::shared_ptr<CollectiveSteps> make(const Program& program, const Segment& main,
                                               Device device, const char* name,
                                               const std::vector<Replay::CallerArray>& arrays);

  void let_go() noexcept override;
  // The executable is destroyed, and the program with it.
  void end() noexcept;

  // Throws if this process is not a member of the process set any more, or the set has changed.
  void check_ranks() const;
  void describe(collective::GraphCall& call) const;

  // The memory of intermediate values, which stays: only calls of this executable, which the
  // communicator's stream orders, use it.
  std::byte* arena();
  Replay& replay() { return *replay_; }
  // The collectives of the run that is submitted now.
  void use(collective::GraphCollectives* collectives) { collectives_ = collectives; }

 private:
  void run(std::span<void* const> bases, RandomState random, Stream& stream,
           const RandomState* device_random);

  const Program& program_;
  const Segment& main_;
  const Device device_;
  const char* const name_;
  std::vector<size_t> steps_;  // positions of the collectives in the main part
  int32_t process_set_ = 0;
  std::vector<int> ranks_;
  std::string text_;
  uint64_t hash_ = 0;
  size_t block_bytes_ = 0;  // the most of collective::step_bytes
  StorageRef memory_;
  collective::GraphCollectives* collectives_ = nullptr;
  std::mutex mutex_;                // guards against let_go while the executable is destroyed
  std::unique_ptr<Replay> replay_;  // null: the executable is destroyed
};

}  // namespace mxlite::graph
