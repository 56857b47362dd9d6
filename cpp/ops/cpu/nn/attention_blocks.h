// The blocked loops of dot-product attention, compiled once per instruction set. A loop processes
// queries in blocks of rows and keys in blocks of columns, and stores the scores of one pair of
// blocks at a time. T is the compute type: double for double, float for float and 16-bit floats, or
// bfloat16 for bfloat16 if has_bfloat16_attention(). With bfloat16, factors of matrix products are
// rounded to bfloat16, while sums and the operations between the products are float32.
#pragma once
#include <cstdint>
#include <vector>

#include "cpp/core/random.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// An array (batch, heads, rows, columns) in any layout. Strides are in elements, and 0 along
// broadcast axes.
struct AttentionArray {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t batch = 0, head = 0, row = 0, column = 1;
  explicit operator bool() const { return data != nullptr; }
};

struct AttentionCall {
  int64_t batch = 0, heads = 0, key_heads = 0, q_length = 0, k_length = 0, d = 0, dv = 0;
  double scale = 1;
  bool causal = false;
  float dropout = 0;  // 0 unless training
  RandomState random;
  std::vector<int64_t> lengths;  // by sample, at most k_length
  AttentionArray query, key, value, mask, output;
  void* log_sum = nullptr;  // (batch, heads, q_length) of float or double; infinity for masked rows
  // Only backward uses the following fields.
  AttentionArray output_grad, query_grad, key_grad, value_grad;

  int64_t group() const { return heads / key_heads; }  // number of heads that share a key head
};

// Divides a call into blocks of queries and into work items, and describes the scratch memory. An
// item is a key head and a part of its queries. The sums of a backward item are its gradients of
// key and value: one array per thread, or one per item if key heads have several parts.
struct AttentionPlan {
  int64_t block_rows = 0, blocks = 0;  // queries per block, and blocks per head
  int64_t parts = 1;                   // number of items per key head
  int threads = 1;
  int64_t thread_bytes = 0, sum_bytes = 0;

  int64_t items(const AttentionCall& c) const { return c.batch * c.key_heads * parts; }
  size_t bytes(const AttentionCall& c) const {
    const int64_t sums = parts == 1 ? threads : items(c);
    return static_cast<size_t>(threads * thread_bytes + sums * sum_bytes);
  }
};

// Returns whether this processor multiplies bfloat16 tiles (AMX). AVX512_BF16 is not used, because
// its dot products were slower in these loops than dot products of float32.
bool has_bfloat16_attention();

// Plans use the widest vectors of this processor. `scratch` has plan.bytes(call) bytes, aligned to
// 64. No dimension may be 0.
template <class T>
AttentionPlan plan_attention_forward(const AttentionCall& call);
template <class T>
AttentionPlan plan_attention_backward(const AttentionCall& call);
template <class T>
void attention_forward(const AttentionCall& call, const AttentionPlan& plan, void* scratch);
template <class T>
void attention_backward(const AttentionCall& call, const AttentionPlan& plan, void* scratch);

template <>
AttentionPlan plan_attention_forward<bfloat16>(const AttentionCall& call);
template <>
AttentionPlan plan_attention_backward<bfloat16>(const AttentionCall& call);
template <>
void attention_forward<bfloat16>(const AttentionCall& call, const AttentionPlan&, void* scratch);
template <>
void attention_backward<bfloat16>(const AttentionCall& call, const AttentionPlan&, void* scratch);

namespace avx2 {
void attention_forward(const AttentionCall&, const AttentionPlan&, float* scratch);
void attention_forward(const AttentionCall&, const AttentionPlan&, double* scratch);
void attention_backward(const AttentionCall&, const AttentionPlan&, float* scratch);
void attention_backward(const AttentionCall&, const AttentionPlan&, double* scratch);
}  // namespace avx2
namespace avx512 {
void attention_forward(const AttentionCall&, const AttentionPlan&, float* scratch);
void attention_forward(const AttentionCall&, const AttentionPlan&, double* scratch);
void attention_backward(const AttentionCall&, const AttentionPlan&, float* scratch);
void attention_backward(const AttentionCall&, const AttentionPlan&, double* scratch);
}  // namespace avx512
// The functions compute in bfloat16; sums of backward are float32.
namespace amx {
void attention_forward(const AttentionCall&, const AttentionPlan&, float* scratch);
void attention_backward(const AttentionCall&, const AttentionPlan&, float* scratch);
}  // namespace amx

}  // namespace mxlite::cpu
