// Finds the user's line that last wrote to an array. Note [Lines of writes]: The upper bits of the
// version of the array's variable store the line, so that calls without in-place writes have no
// extra cost. The lower bits count the writes.
#pragma once
#include <cstdint>

#include "cpp/engine/task.h"

namespace mxlite::engine {

// While this object exists, this thread's writes are attributed to `line`.
class WriteLine {
 public:
  explicit WriteLine(Origin line) noexcept;
  ~WriteLine();
  WriteLine& operator=(WriteLine&&) = delete;  // neither copied nor moved

 private:
  uint64_t outer_;
};

// Returns the version that follows `version` if this thread writes to the variable.
uint64_t version_after(uint64_t version);

// Returns the line whose write produced this version. Its file is null if no line was known.
Origin line_of_version(uint64_t version);

}  // namespace mxlite::engine
