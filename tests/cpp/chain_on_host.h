// Interprets programs of pointwise operators in host memory, as the CUDA kernel does in a GPU's.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "cpp/ops/pointwise/chain_program.h"

namespace mxlite::test {

inline constexpr int kChainWidth = 8;

struct HostChainMemory {
  std::span<void*const> in, out;
  int64_t count;
  std::vector<float> slots = std::vector<float>(pointwise::ChainProgram::kMostKept * kChainWidth);

  template <class Fn>
  static void of_dtype(DType dtype, Fn&& fn) {
    if (dtype == DType::kFloat16)
      fn(float16{});
    else if (dtype == DType::kBFloat16)
      fn(bfloat16{});
    else
      fn(float{});
  }
  int width(int64_t at) const {
    return static_cast<int>(std::min<int64_t>(kChainWidth, count - at));
  }
  void load(int input, DType dtype, int64_t at, float (&to)[kChainWidth]) const {
    std::fill_n(to, kChainWidth, 0.0f);
    of_dtype(dtype, [&]<class T>(T) {
      const T* data = static_cast<const T*>(in[static_cast<size_t>(input)]) + at;
      for (int k = 0; k < width(at); ++k) to[k] = static_cast<float>(data[k]);
    });
  }
  float element(int input, DType dtype) const {
    float value = 0;
    of_dtype(dtype, [&]<class T>(T) {
      value = static_cast<float>(*static_cast<const T*>(in[static_cast<size_t>(input)]));
    });
    return value;
  }
  void store(int output, DType dtype, int64_t at, const float (&from)[kChainWidth]) const {
    of_dtype(dtype, [&]<class T>(T) {
      T* data = static_cast<T*>(out[static_cast<size_t>(output)]) + at;
      for (int k = 0; k < width(at); ++k) data[k] = static_cast<T>(from[k]);
    });
  }
  void keep(int slot, const float (&from)[kChainWidth]) {
    std::copy_n(from, kChainWidth, slots.begin() + slot * kChainWidth);
  }
  void kept(int slot, float (&to)[kChainWidth]) const {
    std::copy_n(slots.begin() + slot * kChainWidth, kChainWidth, to);
  }
};

inline void run_chain_on_host(const pointwise::ChainProgram& program, std::span<void* const> in,
                              std::span<void* const> out) {
  HostChainMemory memory{in, out, program.count};
  for (int64_t at = 0; at < program.count; at += kChainWidth)
    pointwise::run_chain<kChainWidth>(program, memory, at);
}

}  // namespace mxlite::test
