// Reports errors of functions with C linkage by a status and by the text of the calling thread's
// last error.
#pragma once
#include <new>

#include "cpp/base/error.h"

namespace mxlite {

const char* last_c_error() noexcept;
// Stores "<who>: <text>", or only the text if `who` is null. Replaces bytes that are not UTF-8.
void set_last_c_error(const char* who, const char* text) noexcept;

// Calls the function. Returns 0, or -1 if it throws; last_c_error() then returns the exception's
// text.
int c_status(const char* who, auto&& function) noexcept {
  try {
    function();
    return 0;
  } catch (const std::bad_alloc&) {
    set_last_c_error(who, "out of memory");
  } catch (const std::exception& error) {
    set_last_c_error(who, error.what());
  } catch (...) {
    set_last_c_error(who, "an unknown error");
  }
  return -1;
}

// Returns what the pointer points to. Throws a value error that begins with `what` if it is null.
template <class T>
T& pointed(T* pointer, const char* what) {
  MX_CHECK(pointer, what, " must be an address, got null");
  return *pointer;
}

}  // namespace mxlite
