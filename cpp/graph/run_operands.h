// The memory of one run of an executable: addresses by slot, and what keeps it alive.
#pragma once
#include <algorithm>
#include <vector>

#include "cpp/graph/deferred_memory.h"
#include "cpp/graph/segment.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::graph {

class RunOperands {
 public:
  explicit RunOperands(uint32_t slots) : bases_(slots, nullptr) {}

  void set(uint32_t slot, const NDArray& array) {
    held_.push_back(array.storage());
    const auto offset = static_cast<size_t>(array.offset()) * dtype_size(array.dtype());
    if (is_deferred(*array.storage()))
      deferred_.push_back({slot, array.storage().get(), offset});
    else
      bases_[slot] = array.data();
  }
  // The array is a donated input: sets the address of the block in which it lies.
  void set_donated(const NDArray& array) {
    const Storage& block = *array.storage();
    if (is_deferred(block))
      deferred_.push_back({Slots::kDonated, &block, 0});
    else
      bases_[Slots::kDonated] = block.data();
  }
  void set_packed(uint32_t slot, const StorageRef& storage) {
    bases_[slot] = storage->data();
    held_.push_back(storage);
  }
  void set_random(RandomState random) { random_ = random; }
  // The caller keeps the memory of this output from run to run.
  void set_kept(uint32_t slot) {
    kept_.resize(bases_.size());
    kept_[slot] = 1;
  }
  bool uses_foreign_memory() const {
    return std::any_of(held_.begin(), held_.end(),
                       [](auto& s) { return s->is_foreign() && !is_deferred(*s); });
  }

 protected:
  ~RunOperands() = default;
  void take_deferred_memory() {
    for (const Deferred& d : deferred_)
      bases_[d.slot] = static_cast<std::byte*>(materialize(*d.storage)) + d.offset;
  }
  void set_constants(const Slots& slots, const Program& program) {
    for (size_t i = 0; i < program.constants.size(); ++i)
      bases_[slots.constants + i] = program.constants[i]->data();
  }

  struct Deferred {
    uint32_t slot;
    const Storage* storage;  // keeps it alive
    size_t offset;
  };
  std::vector<Deferred> deferred_;
  SmallVector<void*, 12> bases_;
  SmallVector<StorageRef, 6> held_;
  std::vector<uint8_t> kept_;  // by slot; empty: none
  RandomState random_;
};

}  // namespace mxlite::graph
