// BatchNorm of executables, with a following addition and relu, in two passes over memory:
// statistics (backward: sums), then the result. Channels-last memory or blocks of channels, float32
// or bfloat16 data, AVX-512 or AVX2.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite::cpu {

struct NormMemory {
  int64_t block = 0;      // channels of a block; 0: channels-last
  bool bfloat16 = false;  // data; statistics and parameters are float32
  int64_t batch = 0, pixels = 0, channels = 0;
  int threads = 1;  // upper bound
};

// Operation on the normalized data, and how backward finds out where relu was active.
enum class NormEnd : uint8_t {
  kPlain,
  kRelu,     // backward recomputes relu's input
  kAddRelu,  // another array is added before relu; backward reads the output
};
inline constexpr int kNormEnds = 3;

struct NormForwardArgs {
  const void *data, *added;   // added: of kAddRelu
  const float *gamma, *beta;  // gamma null: 1
  float *moving_mean, *moving_var;
  void* output;
  float *mean, *inv_std;  // outputs, may be null; inputs if stats is kGiven
  float eps, momentum;
  // Source of mean and variance: this batch (which updates the moving statistics), the moving
  // statistics, or for kGiven the inputs mean and inv_std unchanged.
  enum Stats : uint8_t { kBatch, kMoving, kGiven } stats;
};

struct NormBackwardArgs {
  const void *grad, *data, *output;  // output: of kAddRelu
  const float *gamma, *beta, *mean, *inv_std;
  void *data_grad, *added_grad;  // added_grad: of kAddRelu
  float *gamma_grad, *beta_grad;
  bool batch_stats;
};

size_t norm_scratch_bytes(const NormMemory& m);
void norm_forward(const NormMemory& m, NormEnd end, const NormForwardArgs& args, void* scratch);
// data_grad may be grad's memory (kAddRelu: added_grad's may), element by element.
void norm_backward(const NormMemory& m, NormEnd end, const NormBackwardArgs& args, void* scratch);

}  // namespace mxlite::cpu
