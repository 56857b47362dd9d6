// Collectives between processes of one host through shared memory: data passes through
// buffers small enough to stay in the caches.
#pragma once
#include <memory>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/shm/channel.h"

namespace mxlite::shm {

// Returns the size of each of a rank's three buffers.
size_t default_buffer_bytes(int ranks);

// All ranks must have opened the segment before the first call that waits. `members`: the ranks of
// the job, for the text of errors; empty: those of the segment.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<SharedSegment> segment, int rank,
                                                std::vector<int> members = {});

// All-reduces through the ranks' buffers, inside an operation of the channel.
void all_reduce(Channel& channel, const void* input, void* output, int64_t count, DType dtype,
                ReduceOp op);

}  // namespace mxlite::shm
