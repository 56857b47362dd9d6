// Rules that the updates of many weights share: a call lists the arrays of each weight in turn.
#pragma once
#include <string>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

constexpr int kMaxInplace = 64;  // 1.x aggregates at most 60 weights

struct MultiRow {
  const char* name;
  const char* doc;
  std::vector<std::string> group;  // arrays of one weight
  bool mixed;                      // all but weight and grad are float32
};

// Checks `weights` groups and `extra` arrays after them; the outputs are like the weights.
Specs infer_groups(const MultiRow& row, int64_t weights, size_t extra, const char* extra_text,
                   std::span<const TensorSpec> in);

// States are changed; a new weight may use the memory of the old one.
template <class P>
OpBuilder<P> multi_update(const MultiRow& row) {
  const int group = static_cast<int>(row.group.size());
  OpBuilder<P> op(row.name);
  std::vector<int> mutated;
  for (int i = 2; i < group; ++i) mutated.push_back(i);
  if (!mutated.empty()) op.mutates_every(group, mutated);
  for (int i = 0; i < kMaxInplace; ++i) op.inplace(i * group, i);
  op.variadic("data").doc(row.doc);
  return op;
}

}  // namespace mxlite::optimizer
