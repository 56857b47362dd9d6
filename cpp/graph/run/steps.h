// A list of steps that is ready to run. Operand offsets are computed once. A run adds base
// addresses and executes the steps.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "cpp/graph/run/program.h"

namespace mxlite::graph {

// Base addresses of a run by slot. The order is arena, scratch, block of donated inputs, inputs,
// parameters, constants, packed memory (one slot for each packing) and outputs of the program.
struct Slots {
  static constexpr uint32_t kArena = 0, kScratch = 1, kDonated = 2, kFirst = 3;
  uint32_t inputs = kFirst, parameters = 0, constants = 0, packed = 0, outputs = 0, count = 0;

  Slots(const Program& program);
  uint32_t of(const Buffer& buffer) const;
};

class Steps {
 public:
  Steps(const Program& program, const std::vector<Instruction>& instructions, Device device);
  ~Steps();
  Steps& operator=(Steps&&) = delete;  // neither copied nor moved

  // The device state that a run needs in addition to memory.
  struct OnDevice {
    Stream* stream = nullptr;
    const RandomState* random = nullptr;  // see KernelContext::device_random
  };
  // `random` is the first random counter of this run. Errors name the node. Thread-safe.
  void run(std::span<void* const> bases, RandomState random, const OnDevice& device) const {
    run_steps(0, steps_.size(), bases, random, device);
  }
  // Runs steps [first, last), which have the same indices as the instructions.
  void run_steps(size_t first, size_t last, std::span<void* const> bases, RandomState random,
                 const OnDevice& device) const;
  void run(std::span<void* const> bases, RandomState random) const { run(bases, random, {}); }
  bool empty() const { return steps_.empty(); }

 private:
  struct ProgramStep {
    KernelFn kernel = nullptr;   // if not null, the step calls the kernel
    const Plan* plan = nullptr;  // if not null, the step runs the plan; if both are null, it copies
                                 // copy_bytes
    const void* params = nullptr;
    size_t copy_bytes = 0;
    uint32_t first = 0, num_inputs = 0, num_outputs = 0;  // ranges in `refs` or `pointers`
    uint64_t random_offset = 0;
    const char* profile_name = nullptr;  // static text
  };
  struct Relocation {
    uint32_t index, slot;
    size_t offset;
  };
  // Operand addresses of all steps. Each concurrent run uses a separate frame.
  struct Frame {
    std::vector<TensorRef> refs;
    std::vector<void*> pointers;
  };

  void add_step(const Instruction& instruction);
  void relocate(std::vector<Relocation>& list, uint32_t index, int32_t buffer);
  std::unique_ptr<Frame> take_frame() const;
  void fill(Frame& frame, std::span<void* const> bases) const;

  const Program& program_;
  const std::vector<Instruction>& instructions_;
  Device device_;
  Slots slots_;
  std::vector<ProgramStep> steps_;
  std::vector<Relocation> ref_relocations_, pointer_relocations_;
  Frame template_;
  mutable std::atomic<Frame*> spare_{nullptr};
};

}  // namespace mxlite::graph
