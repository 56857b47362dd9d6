// The kernels that were launched last. A device reports a failed kernel at a later call, so the
// engine's error lists the kernels of the tasks that the device had not finished.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

// Attributes the launches of this thread to a task while it lives. Tasks are numbered from 1.
class LaunchScope {
 public:
  explicit LaunchScope(uint64_t task) noexcept;
  ~LaunchScope();
  LaunchScope& operator=(LaunchScope&&) = delete;  // neither copied nor moved

 private:
  const uint64_t outer_;
};

// Names the operator to which the next launches of this thread belong, for tasks that run several;
// null: none. The pointer is kept.
void set_launching_operator(const char* name) noexcept;
// Called for each kernel that this thread submits. The pointer is kept, so the name has to be
// static or interned.
void note_launch(const char* kernel) noexcept;

// Returns "forward_rows of softmax, copy_rows, ...": the last kernels of a task, each name once,
// in the order of their launch; empty if the task launched none or the log no longer has them.
std::string kernels_of_task(uint64_t task);

// Returns the name of a kernel as its source has it, from the linker's: "forward_rows" for
// "_ZN6mxlite4cuda12forward_rowsIfEEvPf". A name that is not mangled stays, up to 80 characters.
std::string short_kernel_name(const char* linker_name);
// Returns a copy that is never freed; the same pointer for the same text.
const char* intern_kernel_name(const std::string& name);

}  // namespace mxlite
