// Log of the most recent kernel launches. A device reports a failed kernel in a later call, so the
// engine's error lists the kernels of the tasks that the device had not finished.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

// Attributes this thread's launches during the object's lifetime to a task. The first task has the
// number 1.
class LaunchScope {
 public:
  explicit LaunchScope(uint64_t task) noexcept;
  ~LaunchScope();
  LaunchScope& operator=(LaunchScope&&) = delete;  // neither copied nor moved

 private:
  const uint64_t outer_;
};

// Names the operator of this thread's next launches, for tasks that run several operators. Null
// means no operator. Stores the pointer.
void set_launching_operator(const char* name) noexcept;
// Called for each kernel that this thread submits. Stores the pointer, so the name must be static
// or interned.
void note_launch(const char* kernel) noexcept;

// Returns the last kernels of a task in launch order, each name once, such as "forward_rows of
// softmax, copy_rows, ...". Returns an empty text if the task launched no kernels or the log has
// overwritten them.
std::string kernels_of_task(uint64_t task);

// Converts a mangled kernel name to the name in the source: "_ZN6mxlite4cuda12forward_rowsIfEEvPf"
// to "forward_rows". Returns at most 80 characters of a name that is not mangled.
std::string short_kernel_name(const char* linker_name);
// Returns a copy that is never freed. Equal texts get the same pointer.
const char* intern_kernel_name(const std::string& name);

}  // namespace mxlite
