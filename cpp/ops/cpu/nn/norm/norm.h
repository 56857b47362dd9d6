// BatchNorm for executables, optionally followed by an addition and relu, in two passes over
// memory: statistics (backward: sums), then the result. Supports channels-last memory or blocks of
// channels, float32 or bfloat16 data, AVX-512 or AVX2.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite::cpu {

struct NormMemory {
  int64_t block = 0;      // channels per block: 16 with AVX-512, 8 with AVX2; 0: channels-last
  bool bfloat16 = false;  // type of the data; statistics and parameters are float32
  int64_t batch = 0, pixels = 0, channels = 0;
  int threads = 1;  // maximum number of threads
};

// Operation on the normalized data, and how backward determines where relu was active.
enum class NormEnd : uint8_t {
  kPlain,
  kRelu,     // backward recomputes relu's input
  kAddRelu,  // another array is added before relu; backward reads the output
};
inline constexpr int kNormEnds = 3;

struct NormForwardArgs {
  const void *data, *added;   // added: for kAddRelu
  const float *gamma, *beta;  // null gamma means 1
  float *moving_mean, *moving_var;
  void* output;
  float *mean, *inv_std;  // outputs (may be null), or inputs if stats is kGiven
  float eps, momentum;
  // Source of mean and variance: this batch (which updates the moving statistics), the moving
  // statistics, or, with kGiven, the inputs mean and inv_std, which stay unchanged.
  enum Stats : uint8_t { kBatch, kMoving, kGiven } stats;
};

struct NormBackwardArgs {
  const void *grad, *data, *output;  // output: for kAddRelu
  const float *gamma, *beta, *mean, *inv_std;
  void *data_grad, *added_grad;  // added_grad: for kAddRelu
  float *gamma_grad, *beta_grad;
  bool batch_stats;
};

size_t norm_scratch_bytes(const NormMemory& m);
void norm_forward(const NormMemory& m, NormEnd end, const NormForwardArgs& args, void* scratch);
// data_grad (with kAddRelu, added_grad) may use grad's memory, because elements are processed
// independently.
void norm_backward(const NormMemory& m, NormEnd end, const NormBackwardArgs& args, void* scratch);

}  // namespace mxlite::cpu
