// Greedy non-maximum suppression: candidates are processed best first and compared with the boxes
// kept so far. A structure of arrays and branch-free blocks let the compiler vectorize comparisons.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {

template <class T>
struct Candidate {
  T left, top, right, bottom, area;
  int32_t group;  // only boxes of one group are compared
};

template <class T>
class KeptBoxes {
 public:
  // Memory for `capacity` boxes, in a block of bytes(capacity).
  static size_t bytes(int64_t capacity) {
    return static_cast<size_t>(padded(capacity)) * (5 * sizeof(T) + sizeof(int32_t));
  }
  KeptBoxes(void* block, int64_t capacity) {
    T* column = static_cast<T*>(block);
    for (T** to : {&left_, &top_, &right_, &bottom_, &area_}) {
      *to = column;
      column += padded(capacity);
    }
    group_ = reinterpret_cast<int32_t*>(column);
  }

  int64_t size() const { return size_; }
  void push_back(const Candidate<T>& c) {
    left_[size_] = c.left;
    top_[size_] = c.top;
    right_[size_] = c.right;
    bottom_[size_] = c.bottom;
    area_[size_] = c.area;
    group_[size_++] = c.group;
  }

  // Returns whether a kept box of c's group satisfies rule(kept, c).
  template <class Rule>
  bool any(const Candidate<T>& c, Rule rule) const {
    for (int64_t begin = 0; begin < size_; begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, size_);
      int32_t found = 0;
      for (int64_t i = begin; i < end; ++i) {
        const Candidate<T> kept{left_[i], top_[i], right_[i], bottom_[i], area_[i], group_[i]};
        found |= static_cast<int32_t>(kept.group == c.group) & static_cast<int32_t>(rule(kept, c));
      }
      if (found) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kBlock = 64;
  static int64_t padded(int64_t capacity) { return (capacity + 15) / 16 * 16; }
  T *left_, *top_, *right_, *bottom_, *area_;
  int32_t* group_;
  int64_t size_ = 0;
};

}  // namespace mxlite::cpu
