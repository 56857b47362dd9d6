// Looks up functions of a library that was loaded at run time.
#pragma once
#include <dlfcn.h>

namespace mxlite {

class FunctionFinder {
 public:
  explicit FunctionFinder(void* library) : library_(library) {}  // a handle returned by dlopen

  // Sets `function` to the library's function of this name, or to null if the library has no such
  // function.
  template <class F>
  void operator()(const char* name, F*& function) {
    function = reinterpret_cast<F*>(dlsym(library_, name));
    if (!function && !missing_) missing_ = name;
  }
  // Returns the name of the first function that the library lacks, or null.
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace mxlite
