#include "cpp/graph/run/steps.h"

#include <cstring>
#include <new>

#include "cpp/core/device_timer.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite::graph {

Slots::Slots(const Program& p) {
  parameters = inputs + static_cast<uint32_t>(p.input_specs.size());
  constants = parameters + static_cast<uint32_t>(p.parameter_specs.size());
  packed = constants + static_cast<uint32_t>(p.constants.size());
  // The program of a packing has one slot of packed memory.
  outputs = packed + (p.prologue.empty() ? static_cast<uint32_t>(p.packings.size()) : 1);
  uint32_t num_outputs = 0;
  for (const Buffer& b : p.buffers) num_outputs += b.place == Place::kOutput && b.merged_into < 0;
  count = outputs + num_outputs;
}

uint32_t Slots::of(const Buffer& buffer) const {
  const auto i = static_cast<uint32_t>(buffer.index);
  switch (buffer.place) {
    case Place::kArena:
      return kArena;
    case Place::kPacked:
      return packed + (buffer.index < 0 ? 0 : i);
    case Place::kInput:
      return inputs + i;
    case Place::kParameter:
      return parameters + i;
    case Place::kConstant:
      return constants + i;
    case Place::kOutput:
      return outputs + i;
    case Place::kDonated:
      return kDonated;
  }
  return kArena;
}

Steps::Steps(const Program& program, const std::vector<Instruction>& instructions, Device device)
    : program_(program), instructions_(instructions), device_(device), slots_(program) {
  for (const Instruction& i : instructions) add_step(i);
}

Steps::~Steps() { delete spare_.load(); }

void Steps::relocate(std::vector<Relocation>& list, uint32_t index, int32_t buffer) {
  const Buffer& b = program_.root(buffer);
  list.push_back({index, slots_.of(b), b.offset});
}

void Steps::add_step(const Instruction& instruction) {
  ProgramStep step;
  step.params = instruction.params.get();
  step.plan = instruction.plan.get();
  step.random_offset = instruction.random_offset;
  step.profile_name = instruction.kind_name();
  step.num_inputs = static_cast<uint32_t>(instruction.inputs.size());
  step.num_outputs = static_cast<uint32_t>(instruction.outputs.size());
  if (instruction.kernel) {
    step.kernel = instruction.kernel->run;
    step.first = static_cast<uint32_t>(template_.refs.size());
    for (const auto* operands : {&instruction.inputs, &instruction.outputs})
      for (const Operand& o : *operands) {
        relocate(ref_relocations_, static_cast<uint32_t>(template_.refs.size()), o.buffer);
        template_.refs.push_back(
            {nullptr, o.spec.shape, contiguous_strides(o.spec.shape), o.spec.dtype, true});
      }
  } else {
    step.first = static_cast<uint32_t>(template_.pointers.size());
    const Operand& out = instruction.outputs[0];
    step.copy_bytes = out.layout.is_plain() ? out.spec.bytes() : out.layout.bytes;
    for (const auto* operands : {&instruction.inputs, &instruction.outputs})
      for (const Operand& o : *operands) {
        relocate(pointer_relocations_, static_cast<uint32_t>(template_.pointers.size()), o.buffer);
        template_.pointers.push_back(nullptr);
      }
  }
  steps_.push_back(step);
}

std::unique_ptr<Steps::Frame> Steps::take_frame() const {
  std::unique_ptr<Frame> frame(spare_.exchange(nullptr, std::memory_order_acquire));
  if (!frame) frame = std::make_unique<Frame>(template_);
  return frame;
}

void Steps::fill(Frame& frame, std::span<void* const> bases) const {
  for (const Relocation& r : ref_relocations_)
    frame.refs[r.index].data = static_cast<std::byte*>(bases[r.slot]) + r.offset;
  for (const Relocation& r : pointer_relocations_)
    frame.pointers[r.index] = static_cast<std::byte*>(bases[r.slot]) + r.offset;
}

void Steps::run_steps(size_t first, size_t last, std::span<void* const> bases, RandomState random,
                      const OnDevice& on_device) const {
  std::unique_ptr<Frame> frame = take_frame();
  fill(*frame, bases);
  KernelContext context{device_, program_.training, {}, on_device.stream, on_device.random};
  const ProgramStep* step = steps_.data() + first;
  const ProgramStep* const end = steps_.data() + last;
  try {
    for (; step != end; ++step) {
      ProfileScope profile(step->profile_name);
      DeviceScope device_profile(on_device.stream, step->profile_name);
      if (on_device.stream) set_launching_operator(step->profile_name);
      context.random = {random.seed, random.offset + step->random_offset};
      if (step->kernel) {
        const TensorRef* refs = frame->refs.data() + step->first;
        step->kernel(context, step->params, {refs, step->num_inputs},
                     {refs + step->num_inputs, step->num_outputs});
      } else {
        void* const* pointers = frame->pointers.data() + step->first;
        if (step->plan)
          step->plan->run(context, {pointers, step->num_inputs},
                          {pointers + step->num_inputs, step->num_outputs}, bases[Slots::kScratch]);
        else if (context.stream)
          context.stream->copy(pointers[1], pointers[0], step->copy_bytes);
        else
          std::memcpy(pointers[1], pointers[0], step->copy_bytes);
      }
    }
  } catch (Error& error) {
    const auto i = static_cast<size_t>(step - steps_.data());
    error.add_context(str("while running node ", instructions_[i].name, " of ", program_.name));
    throw;
  } catch (const std::bad_alloc&) {
    const auto i = static_cast<size_t>(step - steps_.data());
    Error error(ErrorKind::kOutOfMemory, "out of memory");
    error.add_context(str("while running node ", instructions_[i].name, " of ", program_.name));
    throw error;
  }
  delete spare_.exchange(frame.release(), std::memory_order_release);
}

}  // namespace mxlite::graph
