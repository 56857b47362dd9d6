// A library for LD_PRELOAD that makes the n-th allocation of chosen libraries fail. It replaces C's
// functions, operator new and mmap. Allocations of others (the interpreter, NumPy, libgomp) are
// neither counted nor refused. tests/faults/out_of_memory.py calls the functions at the end.
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

// glibc's own functions.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct Range {
  uintptr_t begin, end;
};
std::array<Range, 64> watched;  // code of the chosen libraries
int num_watched = 0;
std::atomic<bool> armed{false};
std::atomic<long> seen{0};
long first_refused = 0, last_refused = 0;
bool shows_refusals = false;

bool is_watched(const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  for (int i = 0; i < num_watched; ++i)
    if (address >= watched[static_cast<size_t>(i)].begin &&
        address < watched[static_cast<size_t>(i)].end)
      return true;
  return false;
}

bool refuses(const void* caller) {
  if (!armed.load(std::memory_order_acquire) || !is_watched(caller)) return false;
  const long number = seen.fetch_add(1) + 1;
  if (number < first_refused || number > last_refused) return false;
  if (shows_refusals) {
    armed = false;
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
    armed = true;
  }
  errno = ENOMEM;
  return true;
}

void* checked(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

int watch(dl_phdr_info* library, size_t, void* names) {
  const char* path = library->dlpi_name;
  // `names` has a part of each library's name, with colons around it.
  const char* file = std::strrchr(path, '/');
  file = file ? file + 1 : path;
  char wanted[64];
  for (const char* name = static_cast<const char*>(names); *name;) {
    const size_t length = std::strcspn(name, ":");
    if (length > 0 && length < sizeof wanted) {
      std::memcpy(wanted, name, length);
      wanted[length] = 0;
      if (std::strncmp(file, wanted, length) == 0)
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const auto& segment = library->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          if (num_watched == static_cast<int>(watched.size())) return 1;
          const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
          watched[static_cast<size_t>(num_watched++)] = {begin, begin + segment.p_memsz};
        }
    }
    name += length;
    if (*name == ':') ++name;
  }
  return 0;
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

void* malloc(size_t bytes) { return refuses(CALLER) ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) {
  return refuses(CALLER) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return refuses(CALLER) ? nullptr : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return refuses(CALLER) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* memory = refuses(CALLER) ? nullptr : __libc_memalign(alignment, bytes);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (refuses(CALLER)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

// Counts the allocations of chosen libraries from 1, and makes those numbered `first` to `last`
// fail. `libraries` lists prefixes of the libraries' file names, separated by colons. If
// MXLITE_SHOW_REFUSALS is set, the stack of each allocation that fails is printed.
void mxlite_fail_allocations(const char* libraries, long first, long last) {
  armed = false;
  num_watched = 0;
  seen = 0;
  first_refused = first;
  last_refused = last;
  dl_iterate_phdr(watch, const_cast<char*>(libraries));
  shows_refusals = std::getenv("MXLITE_SHOW_REFUSALS") != nullptr;
  armed = true;
}

// Ends the refusals and returns how many allocations were counted.
long mxlite_stop_failing() {
  armed = false;
  return seen;
}

}  // extern "C"

void* operator new(size_t bytes) {
  if (refuses(CALLER)) throw std::bad_alloc();
  return checked(__libc_malloc(bytes ? bytes : 1));
}
void* operator new[](size_t bytes) {
  if (refuses(CALLER)) throw std::bad_alloc();
  return checked(__libc_malloc(bytes ? bytes : 1));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return refuses(CALLER) ? nullptr : __libc_malloc(bytes ? bytes : 1);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return refuses(CALLER) ? nullptr : __libc_malloc(bytes ? bytes : 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (refuses(CALLER)) throw std::bad_alloc();
  return checked(__libc_memalign(static_cast<size_t>(alignment), bytes));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  if (refuses(CALLER)) throw std::bad_alloc();
  return checked(__libc_memalign(static_cast<size_t>(alignment), bytes));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
