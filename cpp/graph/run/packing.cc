#include "cpp/graph/run/packing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "cpp/ops/tensor/transpose.h"

namespace mxlite::graph {
namespace {

void mix(size_t& hash, size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15 + (hash >> 31); }

size_t hash_of(const Program& program) {
  size_t hash = program.prologue.size();
  for (const Instruction& step : program.prologue) {
    mix(hash, std::hash<const void*>()(step.op));
    for (const auto* operands : {&step.inputs, &step.outputs})
      for (const Operand& o : *operands) {
        mix(hash, static_cast<size_t>(o.buffer));
        mix(hash, o.layout.bytes);
        for (const int64_t d : o.spec.shape) mix(hash, static_cast<size_t>(d));
      }
  }
  return hash;
}

bool same_operands(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::ranges::equal(a, b, [](const Operand& x, const Operand& y) {
    return x.buffer == y.buffer && x.spec == y.spec && same_layout(x.layout, y.layout);
  });
}

bool same_step(const Instruction& a, const Instruction& b) {
  if (a.op != b.op || a.kernel != b.kernel || !a.plan != !b.plan) return false;
  if (!same_operands(a.inputs, b.inputs) || !same_operands(a.outputs, b.outputs)) return false;
  return !a.op || a.params == b.params ||
         a.op->params_values(a.params.get()) == b.op->params_values(b.params.get());
}

// Groups instructions into packings. Instructions that exchange values are in the same group.
class Groups {
 public:
  explicit Groups(const Program& program)
      : parent_(program.prologue.size()), maker_(program.buffers.size(), -1) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t i = 0; i < program.prologue.size(); ++i) {
      for (const auto* operands : {&program.prologue[i].inputs, &program.prologue[i].outputs})
        for (const Operand& o : *operands) {
          int& maker = maker_[static_cast<size_t>(o.buffer)];
          if (maker >= 0) parent_[root(i)] = root(static_cast<size_t>(maker));
        }
      for (const Operand& o : program.prologue[i].outputs)
        maker_[static_cast<size_t>(o.buffer)] = static_cast<int>(i);
    }
  }
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }

 private:
  std::vector<size_t> parent_;
  std::vector<int> maker_;
};

// Copies one packing to a separate program. Numbers its buffers, parameters and constants in the
// order of their first use.
class Extract {
 public:
  Extract(Program& whole, Device device) : whole_(whole), device_(device) {
    part_.name = whole.name;
    part_.training = whole.training;
  }

  void add(Instruction step) {
    for (auto* operands : {&step.inputs, &step.outputs})
      for (Operand& o : *operands) o.buffer = here(o.buffer);
    part_.prologue.push_back(std::move(step));
  }

  void finish() {
    plan_prologue(part_);
    for (const auto& [outer, own] : buffers_) {
      Buffer& b = whole_.buffers[static_cast<size_t>(outer)];
      if (b.place != Place::kPacked) continue;
      b.index = static_cast<int>(whole_.packings.size());
      b.offset = part_.root(own).offset;
    }
    whole_.packings.push_back(
        std::make_shared<const Packing>(std::move(part_), std::move(parameters_), device_));
  }

 private:
  int32_t here(int32_t outer) {
    const auto [at, is_new] = buffers_.try_emplace(outer, part_.buffers.size());
    if (!is_new) return at->second;
    Buffer b = whole_.buffers[static_cast<size_t>(outer)];
    if (b.place == Place::kParameter) {
      part_.parameter_specs.push_back(whole_.parameter_specs[static_cast<size_t>(b.index)]);
      parameters_.push_back(std::exchange(b.index, static_cast<int>(parameters_.size())));
    } else if (b.place == Place::kConstant) {
      part_.constants.push_back(whole_.constants[static_cast<size_t>(b.index)]);
      b.index = static_cast<int>(part_.constants.size() - 1);
    }
    part_.buffers.push_back(b);
    return at->second;
  }

  Program& whole_;
  const Device device_;
  Program part_;
  std::vector<int> parameters_;
  std::map<int32_t, int32_t> buffers_;  // maps an index in the whole program to the new index
};

// Returns nothing unless all steps are casts and transposes of parameters.
std::vector<Conversion> conversions_of(const Program& program) {
  std::vector<Conversion> known(program.buffers.size()), result;
  for (size_t i = 0; i < known.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.place != Place::kParameter) continue;
    const TensorSpec& spec = program.parameter_specs[static_cast<size_t>(b.index)];
    known[i] = {b.index, spec.dtype, spec.dtype, spec.shape, contiguous_strides(spec.shape)};
  }
  for (const Instruction& step : program.prologue) {
    if (!step.kernel || step.inputs.size() != 1) return {};
    const Operand &from = step.inputs[0], &to = step.outputs[0];
    Conversion c = known[static_cast<size_t>(from.buffer)];
    if (c.parameter < 0) return {};
    if (c.shape != from.spec.shape) {  // a reshape has no step
      if (c.strides != contiguous_strides(c.shape)) return {};
      c.shape = from.spec.shape;
      c.strides = contiguous_strides(c.shape);
    }
    if (step.op->name == "transpose") {
      const Strides before = c.strides;
      const Shape axes =
          resolve_axes(*static_cast<const TransposeParams*>(step.params.get()), c.shape.ndim());
      for (int i = 0; i < axes.ndim(); ++i) c.strides[i] = before[static_cast<int>(axes[i])];
    } else if ((step.op->name != "Cast" && step.op->name != "amp_cast") || c.to != c.from) {
      return {};  // another operator, or a second cast, which may round once more
    }
    c.shape = to.spec.shape;
    c.to = to.spec.dtype;
    known[static_cast<size_t>(to.buffer)] = c;
    const Buffer& memory = program.root(to.buffer);
    if (memory.place != Place::kPacked) continue;
    c.offset = memory.offset;
    result.push_back(c);
  }
  return result;
}

}  // namespace

Packing::Packing(Program part, std::vector<int> used, Device device)
    : program(std::move(part)),
      parameters(std::move(used)),
      slots(program),
      steps(program, program.prologue, device),
      hash(hash_of(program)),
      conversions(device.type == DeviceType::kCUDA ? conversions_of(program)
                                                   : std::vector<Conversion>()) {}

bool same_packing(const Packing& a, const Packing& b) {
  return a.hash == b.hash && a.program.packed_bytes == b.program.packed_bytes &&
         a.program.training == b.program.training && a.parameters == b.parameters &&
         a.program.parameter_specs == b.program.parameter_specs &&
         a.program.constants == b.program.constants &&
         std::ranges::equal(a.program.prologue, b.program.prologue, same_step) &&
         std::ranges::equal(a.program.buffers, b.program.buffers,
                            [](const Buffer& x, const Buffer& y) {
                              return x.place == y.place && x.index == y.index &&
                                     x.bytes == y.bytes && x.offset == y.offset;
                            });
}

void split_prologue(Program& program, const PassContext& context) {
  const Groups groups(program);
  std::map<size_t, size_t> numbers;  // number of each packing, by the root of its group
  std::vector<Extract> extracts;
  for (size_t i = 0; i < program.prologue.size(); ++i) {
    const auto [at, is_new] = numbers.try_emplace(groups.root(i), extracts.size());
    if (is_new) extracts.emplace_back(program, context.device);
    extracts[at->second].add(std::move(program.prologue[i]));
  }
  for (Extract& extract : extracts) extract.finish();
  program.prologue.clear();
}

}  // namespace mxlite::graph
