// The first convolution of a network (its stem), whose input has few channels. Reads plain images
// and writes channels-last output, so that no reorder is needed. Requires float32 and AVX-512.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite::cpu {

struct StemProblem {
  int64_t batch = 0, channels = 0, height = 0, width = 0;
  int64_t filters = 0;  // a multiple of 16
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilate[2] = {1, 1}, pad[2] = {0, 0};
  int64_t out_height = 0, out_width = 0;
  int threads = 1;  // maximum; determines the size of the scratch memory
};

struct StemArgs {
  const float* data;    // (batch, channels, height, width)
  const float* weight;  // [channels][kernel][kernel][filters]
  const float* bias;    // null if there is no bias
  float* output;        // (batch, out_height, out_width, filters)
  bool relu;
};

size_t stem_scratch_bytes(const StemProblem& p);
void stem_convolution(const StemProblem& p, const StemArgs& args, void* scratch);

}  // namespace mxlite::cpu
