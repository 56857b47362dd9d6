// Thread-local free lists of task memory by size. A block is added to the list of the thread that
// frees it, even if another thread allocated it.
#include "cpp/engine/task_memory.h"

#include <array>
#include <cstdint>
#include <new>

#include "cpp/engine/task.h"

namespace mxlite::engine {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kReuse = false;  // reuse would hide a use after free
#else
constexpr bool kReuse = true;
#endif
constexpr size_t kStep = 64;
constexpr uint32_t kKeptPerSize = 256;

struct FreeBlock {
  FreeBlock* next;
};

struct FreeLists {
  std::array<FreeBlock*, kLargestReusedTask / kStep> head{};
  std::array<uint32_t, kLargestReusedTask / kStep> count{};
  bool closed = false;  // true if the thread is ending; later deletes then free the memory
  ~FreeLists() {
    closed = true;
    for (FreeBlock* block : head)
      while (block) ::operator delete(std::exchange(block, block->next));
  }
};
thread_local FreeLists lists;

size_t size_index(size_t bytes) { return (bytes - 1) / kStep; }

}  // namespace

void* Task::operator new(size_t bytes) {
  if (!kReuse || bytes > kLargestReusedTask) return ::operator new(bytes);
  const size_t i = size_index(bytes);
  FreeLists& free = lists;
  if (FreeBlock* block = free.head[i]; block && !free.closed) {
    free.head[i] = block->next;
    --free.count[i];
    return block;
  }
  return ::operator new((i + 1) * kStep);
}

void Task::operator delete(void* memory, size_t bytes) noexcept {
  FreeLists& free = lists;
  const size_t i = size_index(bytes);
  if (!kReuse || bytes > kLargestReusedTask || free.closed || free.count[i] == kKeptPerSize)
    return ::operator delete(memory);
  free.head[i] = new (memory) FreeBlock{free.head[i]};
  ++free.count[i];
}

}  // namespace mxlite::engine
