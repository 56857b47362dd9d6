// Carries out responses: moves the tensors' bytes through a communicator. On a GPU the work is
// submitted to the communicator's stream.
#pragma once
#include <span>
#include <vector>

#include "cpp/jobs/operand_memory.h"
#include "cpp/jobs/operation.h"
#include "cpp/jobs/timeline.h"

namespace mxlite::jobs {

// A communicator with the memory on which it works.
struct Carrier {
  Communicator& group;
  OperandMemory& memory;
};

class OperationRunner {
 public:
  explicit OperationRunner(Timeline& timeline) : timeline_(timeline) {}
  OperationRunner(const OperationRunner&) = delete;
  OperationRunner& operator=(const OperationRunner&) = delete;

  // Runs this rank's operations of one kind as one. requests: by member, for the first operation;
  // members: the ranks of the group.
  void run(std::span<const OperationRef> operations, std::span<const Request> requests,
           const Carrier& carrier, std::span<const int> members);
  // Collective over the group: moves a message between two of its ranks. operation: null on ranks
  // that are neither; from, to: positions in the group.
  void message(Operation* operation, const Carrier& carrier, int from, int to);

 private:
  void all_reduce(Operation& operation, const Carrier& carrier);
  void all_reduce_fused(std::span<const OperationRef> operations, const Carrier& carrier);
  void all_gather(Operation& operation, std::span<const Request> requests, const Carrier& carrier);
  void broadcast(Operation& operation, const Carrier& carrier, std::span<const int> members);
  void all_to_all(Operation& operation, std::span<const Request> requests, const Carrier& carrier);
  void reduce_scatter(Operation& operation, const Carrier& carrier);
  void reduce(Operation& operation, const Carrier& carrier, std::span<const int> members);
  // Runs the call of an operator, whose blocks are equal.
  void run_blocks(Operation& operation, const Carrier& carrier);

  Timeline& timeline_;
};

// Splits the first dimension for reduce-scatter: the first ranks get one more row.
std::vector<int64_t> rows_by_rank(int64_t rows, int ranks);

}  // namespace mxlite::jobs
