// Collectives on host memory between the processes of one job. Every rank of the group must call
// the same functions in the same order, from one thread at a time. A call returns when its buffers
// may be used again. If a rank is dead, hung past the deadline or has failed, the call throws an
// Error of kind kCommunicator on every surviving rank. All later calls throw, too.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/core/dtype.h"

namespace mxlite {

// 16-bit floats are added in float32. For booleans, sum and max mean "or", and product and min mean
// "and".
enum class ReduceOp : uint8_t { kSum, kProduct, kMin, kMax };
const char* reduce_op_name(ReduceOp op);

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const char* backend() const = 0;  // "local", "shm", "mpi", "tcp", "tcp+shm"

  // Sets the text that describes the following calls in error messages ("fc1_weight, step 12").
  virtual void describe(std::string what) = 0;

  // Input and output must be the same memory or must not overlap. The results are bitwise equal on
  // all ranks.
  virtual void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                          ReduceOp op) = 0;
  // The input holds counts[r] elements for each rank r in the order of ranks. The output holds
  // counts[rank()] elements.
  virtual void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts,
                              DType dtype, ReduceOp op) = 0;
  // Rank r contributes bytes[r]. The output holds the inputs of all ranks in the order of ranks.
  virtual void all_gather(const void* input, void* output, std::span<const size_t> bytes) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  // The input holds send[r] bytes for each rank r in the order of ranks. The output holds
  // receive[r] bytes from each rank r.
  virtual void all_to_all(const void* input, std::span<const size_t> send, void* output,
                          std::span<const size_t> receive) = 0;
  // Returns whether all_to_all also accepts GPU memory.
  virtual bool takes_gpu_memory() const { return false; }
  virtual void barrier() = 0;

  // Collective. The ranks with the same color form a group, ordered by key and then by rank. Ranks
  // with color -1 get null.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Kills processes of this host that are stopped or do not call this function within the deadline.
  // Call this function after a failure and before the surviving ranks form a new group.
  virtual void end_hung_ranks() noexcept {}

  // Makes every later call fail on this rank. If the backend can notify other ranks, later calls
  // also fail on those ranks. Does not allocate, because memory may be exhausted.
  virtual void fail_all(const char* reason) noexcept = 0;
};

std::unique_ptr<Communicator> make_local_communicator();

}  // namespace mxlite
