// Joins runs of pointwise instructions: values that only they exchange stay in the cache, a block
// at a time. Works on the lowered program, where memory layouts are known.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cpp/graph/program.h"

namespace mxlite::graph {
namespace {

constexpr int64_t kLeastElements = 1024;  // below, the cost is that of the call alone
constexpr size_t kMostSteps = 32;

// Operands of a group have the same memory order: the same elements at the same offsets.
struct Order {
  int64_t count = 0;
  Layout layout;
  DType dtype = DType::kFloat32;  // a packed layout belongs to one dtype

  bool holds(const Operand& o) const {
    if (o.spec.shape.size() != count) return false;
    if (o.layout.is_plain()) return layout.is_plain();
    return same_layout(o.layout, layout) && o.spec.dtype == dtype;
  }
};

class Fuser {
 public:
  Fuser(Program& program, PlanChainFn planner) : program_(program), planner_(planner) {}

  void run() {
    find_last_reads();
    std::vector<Instruction> fused;
    auto& steps = program_.main;
    for (size_t begin = 0; begin < steps.size();) {
      size_t end = group_end(begin);
      std::optional<Instruction> merged;
      // Returns the longest run that the device's functions support.
      while (end - begin > 1 && !(merged = merge(begin, end))) --end;
      fused.push_back(merged ? std::move(*merged) : std::move(steps[begin]));
      begin = end;
    }
    steps = std::move(fused);
  }

 private:
  void find_last_reads() {
    last_read_.assign(program_.buffers.size(), -1);
    for (size_t i = 0; i < program_.main.size(); ++i)
      for (const Operand& o : program_.main[i].inputs)
        last_read_[static_cast<size_t>(o.buffer)] = static_cast<int>(i);
  }

  static bool is_candidate(const Instruction& i) {
    return i.op && i.op->pointwise && !i.op->random_count && i.must_share.empty() &&
           !i.inputs.empty() && !i.outputs.empty() &&
           i.outputs[0].spec.shape.size() >= kLeastElements;
  }

  static Order order_of(const Instruction& i) {
    const Operand& o = i.outputs[0];
    return {o.spec.shape.size(), o.layout, o.spec.dtype};
  }

  // Returns whether every operand has that order or is a single value. Padding must not be computed
  // with.
  static bool fits(const Instruction& i, const Order& order) {
    const auto dense = [](const Operand& o) {
      return o.layout.is_plain() || o.layout.bytes == o.spec.bytes();
    };
    for (const Operand& o : i.outputs)
      if (!order.holds(o) || !dense(o)) return false;
    return std::all_of(i.inputs.begin(), i.inputs.end(), [&](const Operand& o) {
      return (order.holds(o) && dense(o)) || o.spec.shape.size() == 1;
    });
  }

  size_t group_end(size_t begin) const {
    const auto& steps = program_.main;
    if (!is_candidate(steps[begin])) return begin + 1;
    const Order order = order_of(steps[begin]);
    if (!fits(steps[begin], order)) return begin + 1;
    std::vector<int32_t> known;  // buffers that the group has
    const auto remember = [&](const Instruction& i) {
      for (const auto* operands : {&i.inputs, &i.outputs})
        for (const Operand& o : *operands)
          if (o.spec.shape.size() > 1) known.push_back(o.buffer);
    };
    remember(steps[begin]);
    size_t end = begin + 1;
    for (; end < steps.size() && end - begin < kMostSteps; ++end) {
      const Instruction& next = steps[end];
      if (!is_candidate(next) || !fits(next, order)) break;
      // Unrelated instructions are not joined: that would need more memory at the same time.
      const bool related = std::any_of(next.inputs.begin(), next.inputs.end(), [&](const auto& o) {
        return std::find(known.begin(), known.end(), o.buffer) != known.end();
      });
      if (!related) break;
      remember(next);
    }
    return end;
  }

  std::optional<Instruction> merge(size_t begin, size_t end) const {
    const auto& steps = program_.main;
    Instruction merged;
    PointwiseChain chain;
    std::unordered_map<int32_t, int> value_of;  // by buffer
    const auto flat = [](const Operand& o) {
      return TensorSpec{Shape{o.spec.shape.size()}, o.spec.dtype};
    };
    // Inputs from outside come first.
    for (size_t i = begin; i < end; ++i) {
      for (const Operand& o : steps[i].inputs)
        if (!is_made(o.buffer, begin, i) && !value_of.count(o.buffer)) {
          value_of[o.buffer] = static_cast<int>(chain.values.size());
          chain.values.push_back(flat(o));
          merged.inputs.push_back(o);
        }
    }
    chain.num_inputs = chain.values.size();
    for (size_t i = begin; i < end; ++i) {
      PointwiseChain::Step step{steps[i].op, steps[i].params, {}, {}};
      for (const Operand& o : steps[i].inputs) step.inputs.push_back(value_of.at(o.buffer));
      for (const Operand& o : steps[i].outputs) {
        const int value = static_cast<int>(chain.values.size());
        value_of[o.buffer] = value;
        chain.values.push_back(flat(o));
        step.outputs.push_back(value);
        if (!leaves(o.buffer, end)) continue;
        chain.outputs.push_back(value);
        share_with_inputs(merged, o, begin, i);
        merged.outputs.push_back(o);
      }
      chain.steps.push_back(std::move(step));
    }
    merged.name = str(steps[begin].name, "..", steps[end - 1].name);
    merged.label = "fused_pointwise";
    Plan plan = planner_(std::move(chain));
    if (!plan.run) return std::nullopt;
    for (size_t k = 0; k < merged.inputs.size(); ++k) plan.inputs[k] = merged.inputs[k].layout;
    for (size_t k = 0; k < merged.outputs.size(); ++k) plan.outputs[k] = merged.outputs[k].layout;
    merged.plan = std::make_shared<Plan>(std::move(plan));
    return merged;
  }

  bool is_made(int32_t buffer, size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i)
      for (const Operand& o : program_.main[i].outputs)
        if (o.buffer == buffer) return true;
    return false;
  }

  bool leaves(int32_t buffer, size_t end) const {
    return program_.buffers[static_cast<size_t>(buffer)].place != Place::kArena ||
           last_read_[static_cast<size_t>(buffer)] >= static_cast<int>(end);
  }

  // `output`, written by instruction `at`, may take the memory of an input that no later
  // instruction of the group reads.
  void share_with_inputs(Instruction& merged, const Operand& output, size_t begin,
                         size_t at) const {
    for (size_t k = 0; k < merged.inputs.size(); ++k) {
      const Operand& input = merged.inputs[k];
      const int last = last_read_[static_cast<size_t>(input.buffer)];
      if (input.spec.dtype != output.spec.dtype || input.spec.shape.size() == 1 ||
          last > static_cast<int>(at) || last < static_cast<int>(begin))
        continue;
      if (last < static_cast<int>(at) || may_share(program_.main[at], input, output))
        merged.may_share.push_back({static_cast<int>(k), static_cast<int>(merged.outputs.size())});
    }
  }

  static bool may_share(const Instruction& i, const Operand& input, const Operand& output) {
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      if (i.inputs[k].buffer != input.buffer) continue;
      const bool allowed =
          std::any_of(i.may_share.begin(), i.may_share.end(), [&](const InplacePair& p) {
            return p.input == static_cast<int>(k) &&
                   i.outputs[static_cast<size_t>(p.output)].buffer == output.buffer;
          });
      if (!allowed) return false;
    }
    return true;
  }

  Program& program_;
  PlanChainFn planner_;
  std::vector<int> last_read_;  // by buffer: last instruction of main that reads it
};

}  // namespace

void fuse_pointwise(Program& program, const PassContext& context) {
  if (context.small) return;
  if (const PlanChainFn planner = find_chain_planner(context.device.type))
    Fuser(program, planner).run();
}

}  // namespace mxlite::graph
