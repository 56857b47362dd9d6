// Functions that g++ -fsanitize=thread calls before every access to memory that other threads may
// see. Kernels are compiled with that option and linked without its library, so that the emulator
// runs other threads there. Host code beside the kernels calls them too.
#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"

#define HOOK extern "C" [[gnu::visibility("default")]]
#define ACCESS_HOOK(name) \
  HOOK void __tsan_##name(void*) { emulation::before_access(); }
#define ACCESS_HOOKS(name) \
  ACCESS_HOOK(name##1)     \
  ACCESS_HOOK(name##2)     \
  ACCESS_HOOK(name##4)     \
  ACCESS_HOOK(name##8)     \
  ACCESS_HOOK(name##16)

ACCESS_HOOKS(read)
ACCESS_HOOKS(write)
ACCESS_HOOKS(unaligned_read)
ACCESS_HOOKS(unaligned_write)
ACCESS_HOOKS(volatile_read)
ACCESS_HOOKS(volatile_write)

HOOK void __tsan_read_range(void*, size_t) { emulation::before_access(); }
HOOK void __tsan_write_range(void*, size_t) { emulation::before_access(); }

HOOK void __tsan_init() {}
HOOK void __tsan_func_entry(void*) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_vptr_read(void**) {}
HOOK void __tsan_vptr_update(void**, void*) {}

// The counters of std::shared_ptr in host code call this.
HOOK int __tsan_atomic32_fetch_add(volatile int* to, int v, int) {
  return __atomic_fetch_add(to, v, __ATOMIC_SEQ_CST);
}
