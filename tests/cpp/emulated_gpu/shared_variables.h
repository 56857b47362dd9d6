// Copies of __shared__ variables for blocks that take turns. The variables are thread-local ones of
// the host, so the block that runs has its values in them and the others have theirs in copies.
#pragma once
#include <cstddef>
#include <vector>

namespace emulation {

inline constexpr int kFreshShared = 0x7f;  // every byte of shared memory when a block begins

// The shared variables of one function, in the memory of this thread of the host, without those
// that the compiler removed.
struct FunctionVariables {
  struct Variable {
    char* data;
    size_t bytes;
  };
  std::vector<Variable> variables;
  size_t bytes = 0;  // all together
};

// The values that one block's shared variables have.
class SharedVariables {
 public:
  // Adds the variables of the function that has the marker of a __shared__ declaration, and fills
  // them with kFreshShared, unless it was called with the marker of that function before.
  void use(const void* marker);
  void save();     // copies the values out of the variables
  void restore();  // copies the values into the variables
  void clear();    // before the next block
  size_t bytes() const { return bytes_; }

 private:
  struct Used {
    const FunctionVariables* function;
    std::vector<char> values;
  };
  std::vector<const void*> markers_;
  std::vector<Used> used_;
  size_t bytes_ = 0;
};

}  // namespace emulation
