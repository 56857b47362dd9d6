#include "cpp/ops/cpu/matrix/lapack.h"

#include <dlfcn.h>

#include <mutex>
#include <utility>

#include "cpp/base/error.h"

namespace mxlite::lapack {
namespace {

struct Library {
  std::mutex mutex;
  std::string path;        // guarded by mutex
  void* handle = nullptr;  // guarded by mutex
};
Library& library() {
  static Library instance;
  return instance;
}

}  // namespace

void set_library(const std::string& path) {
  Library& l = library();
  std::lock_guard lock(l.mutex);
  l.path = path;
  l.handle = nullptr;
}

void* find(const char* op, const std::string& routine) {
  Library& l = library();
  std::lock_guard lock(l.mutex);
  if (!l.handle && !l.path.empty()) l.handle = dlopen(l.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (l.handle)
    // Tries OpenBLAS in NumPy's wheels (64-bit integers), then older wheels and distributions.
    for (const auto& [prefix, suffix] :
         {std::pair("scipy_", "_64_"), {"", "_64_"}, {"scipy_", "_"}, {"", "_"}})
      if (void* const found = dlsym(l.handle, (prefix + routine + suffix).c_str())) return found;
  fail(ErrorKind::kNotSupported, op,
       ": NumPy must contain a LAPACK library, but the installed NumPy has none");
}

}  // namespace mxlite::lapack
