// Runs operations, which move the bytes of arrays through a communicator. For GPU arrays, submits
// the work to the stream of an NCCL communicator.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/jobs/control.h"
#include "cpp/jobs/operand_memory.h"
#include "cpp/jobs/operation.h"
#include "cpp/jobs/process_sets.h"
#include "cpp/jobs/timeline.h"
#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite::jobs {

// A communicator and the memory that it uses.
struct Carrier {
  Communicator& group;
  OperandMemory& memory;
};

// The comm thread uses this class unless a function says otherwise.
class OperationRunner {
 public:
  struct Counts {
    std::atomic<uint64_t> calls{0}, tensors{0}, bytes{0};
    std::atomic<uint64_t> nccl_tensors{0};   // number of `tensors` whose data went through NCCL
    std::atomic<uint64_t> collective_ns{0};  // for GPUs, includes only the time to submit the work
  };

  OperationRunner(const ProcessSets& sets, ControlChannel& control, Timeline& timeline)
      : sets_(sets), control_(control), timeline_(timeline) {}
  OperationRunner& operator=(OperationRunner&&) = delete;  // neither copied nor moved

  // Runs operations of one kind and in one memory as a single collective, and notifies their
  // owners. `requests` are the requests of all members for the first operation. If a rank is lost,
  // notifies the owners and then throws.
  void run(std::vector<OperationRef>& operations, std::span<const Request> requests);
  // Takes part in a message between two other ranks, because a message is a collective of the whole
  // group.
  void attend_message(const CallChannel& channel);

  void remove_set(int set) { gpu_groups_.erase(set); }
  bool gpus_busy() const;
  void look_at_gpus();  // throws if a rank is lost
  void fail_all(const char* reason) noexcept;
  // Returns the GPU that this process uses in collectives of GPU arrays. This is the `index` of the
  // first call. Any thread may call this function.
  int choose_gpu(int index);
  const Counts& counts() const { return counts_; }  // any thread may read them

 private:
  struct GpuGroup {
    std::unique_ptr<DeviceCommunicator> communicator;
    std::string problem;  // the reason why `communicator` is null
  };
  // Returns the NCCL communicator of a process set. The first call creates the communicator and is
  // collective over the set. On failure, returns null and sets `problem` to the same text on all
  // ranks.
  DeviceCommunicator* gpu_group(int set, std::string& problem);
  void run_in(const Carrier& carrier, std::span<const OperationRef> operations,
              std::span<const Request> requests, std::span<const int> members);
  // `operation` is null on ranks that neither send nor receive. `from` and `to` are positions in
  // the group.
  void message(Operation* operation, const Carrier& carrier, int from, int to);
  void all_reduce(Operation& operation, const Carrier& carrier);
  void all_reduce_fused(std::span<const OperationRef> operations, const Carrier& carrier);
  void all_gather(Operation& operation, std::span<const Request> requests, const Carrier& carrier);
  void broadcast(Operation& operation, const Carrier& carrier, std::span<const int> members);
  void all_to_all(Operation& operation, std::span<const Request> requests, const Carrier& carrier);
  void reduce_scatter(Operation& operation, const Carrier& carrier);
  void reduce(Operation& operation, const Carrier& carrier, std::span<const int> members);
  // Runs a call of a collective operator. Such a call sends and receives blocks of equal size, one
  // for each rank.
  void run_blocks(Operation& operation, const Carrier& carrier);

  const ProcessSets& sets_;
  ControlChannel& control_;
  Timeline& timeline_;
  std::map<int, GpuGroup> gpu_groups_;  // the key is the process set; created on first use
  HostMemory host_memory_;
  std::atomic<int> gpu_{-1};  // index of the GPU that this process uses
  Counts counts_;
};

// Splits the first dimension for reduce-scatter. If the rows cannot be divided equally, the first
// ranks get one more row.
std::vector<int64_t> rows_by_rank(int64_t rows, int ranks);

}  // namespace mxlite::jobs
