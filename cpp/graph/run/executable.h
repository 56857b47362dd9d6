// A graph compiled for one signature. A call is one engine task, or one task for each segment of
// the program. If parameters have changed, another task first recomputes packed values.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/graph/run/arena.h"
#include "cpp/graph/run/operands.h"
#include "cpp/graph/run/output_memory.h"
#include "cpp/graph/run/packed_weights.h"
#include "cpp/graph/run/program_segments.h"
#include "cpp/graph/run/replay.h"
#include "cpp/graph/run/steps.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

// Returns the name of a graph's tasks. The name is never freed, because the profiler keeps the
// pointer.
const char* task_name_of(const std::string& graph_name);

class Executable final : public RefCounted {
 public:
  // Runs the passes, lowers the graph and plans memory.
  static IntrusivePtr<Executable> compile(Graph graph, Device device, bool exact,
                                          const Border& border = {});
  Executable(Program program, Device device, bool may_inline);
  ~Executable() override;

  struct LaunchArgs {
    std::span<const NDArrayRef> inputs, parameters;
    engine::Origin origin = {};
    RandomState* random = nullptr;  // receives the first counter of this run's random numbers
    // Arrays that receive the outputs, in order. A new array is allocated for an output if its
    // entry is null or missing or does not have the output's shape and dtype.
    std::span<const NDArrayRef> into = {};
  };
  // Pushes the work and returns its outputs. Inputs must have the signature's shapes
  // and dtypes. The executable may overwrite the memory of donated inputs.
  // Thread-safe.
  NDArrays launch(const LaunchArgs& call);
  // Like launch, but pushes a task for each segment, so that tasks that wait for an output can
  // start early.
  NDArrays launch_segments(const LaunchArgs& call);
  const std::vector<ProgramSegment>& segments();  // has at most one element if cutting is not
                                                  // worthwhile

  // The work of one call for use inside the caller's task. The caller's task runs the work once and
  // declares its reads.
  struct Work {
    engine::TaskRef task;  // never pushed
    NDArrays outputs;
    SmallVector<engine::Var*, 8> reads;
    size_t new_bytes;  // value for PushOptions::bytes
  };
  Work work(const LaunchArgs& call);  // requires can_be_part_of_a_task
  bool can_be_part_of_a_task() const;

  const Program& program() const { return program_; }
  bool may_inline() const { return may_inline_; }
  // Releases packed weights, because they keep alive the parameters from which they were computed.
  // The next launch finds or recomputes them.
  void forget_packed();
  // Adds the memory of this executable to `own` and `shared`. `own` gets its own bytes, an
  // estimate, because the size of library code is unknown. `shared` gets packed weights by their
  // identity.
  void add_to(size_t& own, std::vector<std::pair<const void*, size_t>>& shared);
  static size_t total_bytes();  // total own bytes of all executables in this process

 private:
  class MainTask;
  class SegmentTask;
  struct Prepared;

  void prepare_for_gpu();
  // Creates a replay of steps [first, last). `may_move` is 1 for each slot of an input or output
  // whose memory the replay may replace by a copy.
  std::unique_ptr<Replay> make_replay(size_t first, size_t last,
                                      const std::vector<uint8_t>& may_move);
  void make_segment_replays();
  Prepared prepare(const LaunchArgs& call);
  engine::PushOptions push_options() const;
  void check_parameters(std::span<const NDArrayRef> parameters) const;
  void add_packed(const LaunchArgs& call, RunOperands& task, SmallVector<engine::Var*, 8>& reads);

  Program program_;  // constant, except that equal packings may replace each other
  const Device device_;
  const bool may_inline_;
  const char* const task_name_;
  const Slots slots_;
  const Steps main_;
  const std::shared_ptr<Arena> arena_;
  std::vector<int> read_parameters_, written_parameters_;  // parameters that the main part uses
  std::vector<TensorSpec> output_buffers_;                 // indexed by output slot
  std::vector<Saved> saved_;  // for each output slot: position in the block of saved values
  size_t own_bytes_ = 0;

  // Null on the CPU.
  std::unique_ptr<Replay> replay_;
  std::shared_ptr<OutputMemory> output_memory_;

  std::once_flag cut_once_;
  std::vector<ProgramSegment> segments_;
  struct SegmentReplay {
    std::unique_ptr<Replay> replay;
    std::vector<uint8_t> used_slots;
  };
  std::vector<SegmentReplay> segment_replays_;    // indexed by segment; empty on the CPU
  std::unique_ptr<OutputMemory> segment_memory_;  // for arenas of segments; null on the CPU

  std::mutex mutex_;
  std::vector<PackedWeights::Use> packed_;  // by packing; guarded by mutex_
};
using ExecutableRef = IntrusivePtr<Executable>;

}  // namespace mxlite::graph
