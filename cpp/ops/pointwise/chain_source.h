// Generates CUDA C++ for pointwise chains. The source depends on functions, dtypes and access to
// operands. Sizes and constants are arguments, so that few sources serve many shapes.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/device_code.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite::pointwise {

struct ChainCode {
  static constexpr int kThreads = 256;  // threads of each block
  static constexpr int kWidth = 8;      // neighboring elements that a thread computes at a time

  std::string source;  // source of the kernel without chain_prelude(), which must precede it
  std::string kernel;  // name of the kernel
  size_t num_inputs = 0;
  std::vector<size_t> packed_inputs;  // inputs that are read in packs if they are aligned
  std::vector<float> constants;
  std::vector<int64_t> numbers;  // divisors, extents and strides of broadcast inputs
  int64_t count = 0;             // number of elements
  int64_t rows = 0, length = 0;  // 0 for chains without a row end
  int row_threads = 0;           // number of threads that process a row together: a warp or a block

  // Returns the number of blocks that have work, at most `most`.
  unsigned blocks(int64_t most) const;
};

// Returns the source of a kernel with that name. Returns nullopt and the reason if a step has no
// function, or a value is not float32, float16 or bfloat16.
std::optional<ChainCode> generate_chain(const PointwiseChain& chain, const std::string& kernel,
                                        std::string* why_not);
// Returns the functions that kernels call: the functors of all other kernels, and functions that
// NVRTC lacks.
const std::string& chain_prelude();
// Returns the NVRTC options for compiling generated chains.
std::vector<std::string> chain_options();

// The arguments of one launch.
class ChainArguments {
 public:
  ChainArguments(const ChainCode& code, std::span<void* const> in, std::span<void* const> out);
  std::span<const KernelArgument> get() const { return arguments_; }

  ChainArguments& operator=(ChainArguments&&) = delete;  // neither copied nor moved

 private:
  std::vector<void*> pointers_;
  int packed_ = 1;
  std::vector<KernelArgument> arguments_;
};

}  // namespace mxlite::pointwise
