// Collectives between processes of one host through shared memory. Data passes through buffers that
// are small enough to stay in the caches.
#pragma once
#include <memory>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/shm/channel.h"

namespace mxlite::shm {

// Returns the size of each of the three buffers of a rank.
size_t default_buffer_bytes(int ranks);

// All ranks must have opened the segment before the first call that waits. `members` are the ranks
// of the job, for error texts. If it is empty, the ranks of the segment are used.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<SharedSegment> segment, int rank,
                                                std::vector<int> members = {});

// All-reduces through the ranks' buffers. Call inside an operation of the channel.
void all_reduce(Channel& channel, const void* input, void* output, int64_t count, DType dtype,
                ReduceOp op);

}  // namespace mxlite::shm
