// The memory of one run of an executable: an address for each slot, and references that keep the
// memory alive.
#pragma once
#include <algorithm>
#include <vector>

#include "cpp/graph/run/steps.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::graph {

class RunOperands {
 public:
  explicit RunOperands(uint32_t slots) : bases_(slots, nullptr) {}

  void set(uint32_t slot, const NDArray& array) {
    held_.push_back({slot, array.place()});
    new_bytes_ += array.storage()->take_new_bytes();
  }
  // Sets the address of the block that contains donated inputs.
  void set_donated(const NDArray& array) { held_.push_back({Slots::kDonated, {array.storage()}}); }
  void set_packed(uint32_t slot, const StorageRef& storage) { held_.push_back({slot, {storage}}); }
  void set_random(RandomState random) { random_ = random; }
  // Marks an output whose memory the caller reuses in each run.
  void set_kept(uint32_t slot) {
    kept_.resize(bases_.size());
    kept_[slot] = 1;
  }
  bool uses_foreign_memory() const {
    return std::any_of(held_.begin(), held_.end(),
                       [](auto& operand) { return operand.place.storage->is_foreign(); });
  }
  size_t new_bytes() const { return new_bytes_; }  // value for PushOptions::bytes

 protected:
  ~RunOperands() = default;
  // Call within the task. Allocates the results only now, so that a queued run needs no memory for
  // them.
  void take_addresses() {
    for (const Operand& operand : held_) bases_[operand.slot] = operand.place.data();
  }
  void set_constants(const Slots& slots, const Program& program) {
    for (size_t i = 0; i < program.constants.size(); ++i)
      bases_[slots.constants + i] = program.constants[i]->data();
  }

  struct Operand {
    uint32_t slot;
    StoragePlace place;
  };
  SmallVector<void*, 12> bases_;
  SmallVector<Operand, 6> held_;
  size_t new_bytes_ = 0;
  std::vector<uint8_t> kept_;  // indexed by slot; empty if no output is kept
  RandomState random_;
};

}  // namespace mxlite::graph
