// Values computed from parameters (packed weights). All executables that need the same values share
// them, so that a network compiled for many input shapes keeps one packed copy of each weight.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "cpp/graph/run/arena.h"
#include "cpp/graph/run/packing.h"

namespace mxlite::graph {

// The version of a parameter's array from which a value was computed. The object keeps the memory
// alive, so that no other array can get the same address.
struct SourceVersion {
  StorageRef storage;
  int64_t offset = 0;
  Strides strides;
  uint64_t number = 0;

  bool same_array(const NDArray& a) const {
    return storage == a.storage() && offset == a.offset() && strides == a.strides();
  }
  bool is_current(const NDArray& a) const {
    return number == a.storage()->var().version() && same_array(a);
  }
};

class PackedWeights {
 public:
  ~PackedWeights();
  // One executable's use of a packing. `values` is null before the first call.
  struct Use {
    std::shared_ptr<const Packing> packing;
    std::shared_ptr<PackedWeights> values;
    std::vector<SourceVersion> seen;  // indexed by parameter of the packing

    // `parameters` are the parameters of the whole program.
    bool is_current(std::span<const NDArrayRef> parameters) const;
  };
  // Makes all uses current. Shares values that other executables have computed from the same
  // arrays, and pushes one task that computes missing or outdated values. Threads may call it
  // concurrently with different uses.
  static void update(std::span<Use> uses, std::span<const NDArrayRef> parameters, Device device,
                     const engine::PushOptions& options, const std::shared_ptr<Arena>& arena);

  const StorageRef& memory() const { return memory_; }

  static size_t total_bytes();  // total bytes of all packed weights in this process

 private:
  class Task;
  PackedWeights(std::shared_ptr<const Packing> packing, StorageRef memory,
                std::vector<SourceVersion> sources);
  // Returns the values that any executable has computed from the same arrays, or null.
  static std::shared_ptr<PackedWeights> find(const Use& use, std::span<const NDArrayRef> parameters,
                                             Device device);
  static std::shared_ptr<PackedWeights> make(const Use& use, std::span<const NDArrayRef> parameters,
                                             StorageRef memory);
  bool is_for(const Packing& packing, std::span<const NDArrayRef> parameters, Device device) const;

  const std::shared_ptr<const Packing> packing_;
  const Device device_;
  const StorageRef memory_;
  std::vector<SourceVersion> sources_;  // guarded by update_mutex; indexed by parameter
  bool computed_ = false;               // whether a task that computes the values was pushed;
                                        // guarded by update_mutex
};

}  // namespace mxlite::graph
