// Each rank publishes the addresses of its arrays. Then each rank repeatedly claims the next chunk,
// reduces it from the inputs of all ranks in rank order, and writes the result to the outputs of
// all ranks. No other rank accesses the chunk, so input and output may be the same memory.
#include "cpp/kvstore/comm/shm/direct.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cpp/base/cache_line.h"

namespace mxlite::shm {
namespace {

constexpr size_t kSmallestChunk = size_t{64} << 10;
constexpr size_t kLargestChunk = size_t{1} << 20;
constexpr size_t kChunksPerRank = 16;

// If this rank throws and continues, slower ranks might still write to its output. The destructor
// therefore moves the output to memory that other ranks have not mapped.
class OutputGuard {
 public:
  explicit OutputGuard(const void* output) : output_(output) {}
  ~OutputGuard() {
    if (output_) SharedMemory::get().make_private(output_);
  }
  OutputGuard& operator=(OutputGuard&&) = delete;  // neither copied nor moved
  void release() { output_ = nullptr; }

 private:
  const void* output_;
};

void copy_part(void* to, const void* from, size_t bytes) {
  if (bytes >= kStreamBytes)
    copy_streaming(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

// All ranks compare the same published data, so all ranks find the same new files.
bool same_file(const SharedPlace& a, const SharedPlace& b) {
  return a.process == b.process && a.device == b.device && a.inode == b.inode && a.file == b.file;
}

}  // namespace

// Maps new files of the ranks. Returns false on all ranks if any rank cannot map a file.
bool DirectCollectives::agree(int first, int last) {
  bool known = true, reached = true;
  for (int r = first; r < last; ++r)
    known &= same_file(files_[static_cast<size_t>(r)], published(r).input);
  if (known) return agreed_;
  for (int r = first; r < last; ++r) {
    const SharedPlace& place = published(r).input;
    files_[static_cast<size_t>(r)] = place;
    if (r != channel_.rank()) reached &= peers_.reach(r, place);
  }
  if (!reached) published(0).unreachable.store(1);
  channel_.wait_all(channel_.publish());
  return agreed_ = published(0).unreachable.load() == 0;
}

bool DirectCollectives::exchange(const void* input, size_t input_bytes, void* output,
                                 size_t output_bytes, int root) {
  buffer_ = channel_.acquire();
  Published& mine = *new (channel_.mine(buffer_)) Published;
  SharedMemory& memory = SharedMemory::get();
  if (root < 0 || root == channel_.rank()) {
    mine.input = memory.place_of(input, input_bytes);
    if (output == input)
      mine.output = mine.input;
    else if (output)
      mine.output = memory.place_of(output, output_bytes);
  }
  channel_.wait_all(channel_.publish());
  const int first = std::max(root, 0), last = root < 0 ? channel_.size() : root + 1;
  bool shared = true;
  for (int r = first; r < last; ++r)
    shared &= published(r).input.file >= 0 && (!output || published(r).output.file >= 0);
  if (shared) shared = agree(first, last);
  if (!shared) {
    channel_.free_after(buffer_, channel_.step() + 1);
    return false;
  }
  for (int r = first; r < last; ++r) {
    Arrays& a = arrays_[static_cast<size_t>(r)];
    a = {static_cast<const std::byte*>(input), static_cast<std::byte*>(output)};
    if (r == channel_.rank()) continue;
    a.input = peers_.at(r, published(r).input);
    if (output) a.output = peers_.at(r, published(r).output);
  }
  return true;
}

void DirectCollectives::finish() {
  const uint32_t step = channel_.publish();
  channel_.free_after(buffer_, step);
  channel_.wait_all(step);
}

bool DirectCollectives::all_reduce(const void* input, void* output, int64_t count, DType dtype,
                                   ReduceOp op) {
  const size_t width = dtype_size(dtype), bytes = static_cast<size_t>(count) * width;
  // The guard also covers the exchange: if this rank fails during the exchange, other ranks may
  // complete it and write to the output.
  OutputGuard guard(output);
  if (!exchange(input, bytes, output, bytes, -1)) {
    guard.release();
    return false;
  }
  const auto ranks = static_cast<size_t>(channel_.size());
  const size_t chunk_bytes =
      std::clamp(bytes / (kChunksPerRank * ranks), kSmallestChunk, kLargestChunk) /
      kCacheLineBytes * kCacheLineBytes;
  const auto chunk = static_cast<int64_t>(chunk_bytes / width);
  std::vector<const void*> inputs(ranks);
  std::vector<void*> outputs(ranks);
  std::atomic<int64_t>& claimed = published(0).claimed;
  const Stores stores = bytes >= kStreamBytes ? Stores::kStreaming : Stores::kCached;
  for (;;) {
    const int64_t first = claimed.fetch_add(1, std::memory_order_relaxed) * chunk;
    if (first >= count) break;
    for (size_t r = 0; r < ranks; ++r) {
      inputs[r] = arrays_[r].input + static_cast<size_t>(first) * width;
      outputs[r] = arrays_[r].output + static_cast<size_t>(first) * width;
    }
    reduce_to_all(inputs, outputs, std::min(chunk, count - first), dtype, op, stores);
  }
  finish();
  guard.release();
  return true;
}

bool DirectCollectives::all_gather(const void* input, void* output, std::span<const size_t> bytes) {
  const auto me = static_cast<size_t>(channel_.rank()), ranks = bytes.size();
  if (!exchange(input, bytes[me], nullptr, 0, -1)) return false;
  const std::vector<size_t> offsets = offsets_of(bytes);
  auto* out = static_cast<std::byte*>(output);
  for (size_t i = 1; i < ranks; ++i) {  // each rank starts with another peer
    const size_t r = (me + i) % ranks;
    copy_part(out + offsets[r], arrays_[r].input, bytes[r]);
  }
  finish();
  return true;
}

bool DirectCollectives::reduce_scatter(const void* input, void* output,
                                       std::span<const size_t> bytes, DType dtype, ReduceOp op) {
  const auto me = static_cast<size_t>(channel_.rank()), ranks = bytes.size();
  const std::vector<size_t> offsets = offsets_of(bytes);
  if (!exchange(input, offsets.back() + bytes.back(), nullptr, 0, -1)) return false;
  std::vector<const void*> inputs(ranks);
  for (size_t r = 0; r < ranks; ++r) inputs[r] = arrays_[r].input + offsets[me];
  const Stores stores = bytes[me] >= kStreamBytes ? Stores::kStreaming : Stores::kCached;
  const auto count = static_cast<int64_t>(bytes[me] / dtype_size(dtype));
  reduce_to_all(inputs, {&output, 1}, count, dtype, op, stores);
  finish();
  return true;
}

bool DirectCollectives::broadcast(void* data, size_t bytes, int root) {
  if (!exchange(data, bytes, nullptr, 0, root)) return false;
  if (channel_.rank() != root) copy_part(data, arrays_[static_cast<size_t>(root)].input, bytes);
  finish();
  return true;
}

}  // namespace mxlite::shm
