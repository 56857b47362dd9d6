// Joins consecutive pointwise instructions into chains that run block by block, so that
// intermediate values stay in the cache. Works on the lowered program, in which memory layouts are
// known. If the device's planner generates kernels, inputs of a chain may be broadcast, and the
// chain may end with a sum, mean or softmax of rows.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cpp/graph/run/program.h"
#include "cpp/ops/pointwise/chain_functions.h"

namespace mxlite::graph {
namespace {

constexpr int64_t kLeastElements = 1024;  // for fewer elements, a chain saves only the cost of
                                          // calls
constexpr size_t kMostSteps = 32;
// One thread block computes each row, so few rows leave a device idle unless the rows are short.
constexpr int64_t kLeastRows = 128, kShortRow = 4096;

// Memory order of a group: all operands have the same elements at the same offsets.
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

class PointwiseFuser {
 public:
  PointwiseFuser(Program& program, ChainPlanner planner, const PassContext& context)
      : program_(program),
        planner_(planner.plan),
        device_(context.device),
        takes_rows_(planner.takes_rows && planner.takes_rows(context.device)),
        exact_(context.exact) {}

  void run() {
    find_last_reads();
    std::vector<Instruction> fused;
    auto& steps = program_.main;
    for (size_t begin = 0; begin < steps.size();) {
      size_t end = group_end(begin);
      std::optional<Instruction> merged;
      if (ends_with_rows(begin, end)) {
        merged = merge(begin, end + 1);
        if (merged) ++end;
      }
      // Shortens the range of instructions until the device supports it.
      if (!merged)
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

  bool is_candidate(const Instruction& i) const {
    if (!i.op || !(i.op->pointwise || (takes_rows_ && pointwise::repeats_input(*i.op))))
      return false;
    return !i.op->random_count && i.must_share.empty() && !i.inputs.empty() && !i.outputs.empty() &&
           i.outputs[0].spec.shape.size() >= kLeastElements;
  }

  static Order order_of(const Instruction& i) {
    const Operand& o = i.outputs[0];
    return {o.spec.shape.size(), o.layout, o.spec.dtype};
  }

  // Returns whether an input has fewer elements than the output and is broadcast along axes.
  bool is_broadcast(const Instruction& i, const Operand& input) const {
    const Shape &from = input.spec.shape, &to = i.outputs[0].spec.shape;
    if (!takes_rows_ || !input.layout.is_plain() || !i.outputs[0].layout.is_plain()) return false;
    if (from.size() >= to.size() || from.size() <= 1 || from.ndim() > to.ndim()) return false;
    for (int k = from.ndim() - 1, axis = to.ndim() - 1; k >= 0; --k, --axis)
      if (from[k] != 1 && from[k] != to[axis]) return false;
    return true;
  }

  // Returns whether every operand has this memory order, is a single value, or is broadcast. Padded
  // layouts do not fit, because the padding must not be computed.
  bool fits(const Instruction& i, const Order& order) const {
    const auto dense = [](const Operand& o) {
      return o.layout.is_plain() || o.layout.bytes == o.spec.bytes();
    };
    for (const Operand& o : i.outputs)
      if (!order.holds(o) || !dense(o)) return false;
    return std::all_of(i.inputs.begin(), i.inputs.end(), [&](const Operand& o) {
      return (order.holds(o) && dense(o)) || o.spec.shape.size() == 1 || is_broadcast(i, o);
    });
  }

  // Returns the row operation of instruction `end` on the result of the group [begin, end).
  std::optional<PointwiseChain::RowEnd> row_end_of(size_t begin, size_t end) const {
    const auto& steps = program_.main;
    if (!takes_rows_ || exact_ || end >= steps.size() || end - begin >= kMostSteps) return {};
    const Instruction& last = steps[end];
    if (!last.op || last.inputs.size() != 1 || last.outputs.size() != 1 || last.op->random_count ||
        !last.must_share.empty())
      return {};
    const Operand &in = last.inputs[0], &out = last.outputs[0];
    if (!in.layout.is_plain() || !out.layout.is_plain() || !is_made(in.buffer, begin, end))
      return {};
    const auto row = pointwise::find_row_end(*last.op, last.params.get(), in.spec, out.spec);
    if (!row || row->length <= 1) return {};
    const int64_t rows = in.spec.shape.size() / row->length;
    if (rows < kLeastRows && row->length > kShortRow) return {};
    return row;
  }
  bool ends_with_rows(size_t begin, size_t end) const {
    const Instruction& first = program_.main[begin];
    return is_candidate(first) && fits(first, order_of(first)) &&
           row_end_of(begin, end).has_value();
  }

  size_t group_end(size_t begin) const {
    const auto& steps = program_.main;
    if (!is_candidate(steps[begin])) return begin + 1;
    const Order order = order_of(steps[begin]);
    if (!fits(steps[begin], order)) return begin + 1;
    std::vector<int32_t> known;  // buffers that the group uses
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
      // Does not join unrelated instructions, because then all of their buffers would be alive at
      // the same time.
      const bool related = std::any_of(next.inputs.begin(), next.inputs.end(), [&](const auto& o) {
        return std::find(known.begin(), known.end(), o.buffer) != known.end();
      });
      if (!related) break;
      remember(next);
    }
    return end;
  }

  // An input that the chain does not compute. If the input is broadcast, the index terms give the
  // positions of its elements.
  struct Outside {
    int32_t buffer;
    std::vector<PointwiseChain::IndexTerm> terms;
    bool is(int32_t b, const std::vector<PointwiseChain::IndexTerm>& t) const {
      return b == buffer && std::equal(t.begin(), t.end(), terms.begin(), terms.end(),
                                       [](const auto& x, const auto& y) {
                                         return x.divisor == y.divisor && x.extent == y.extent &&
                                                x.stride == y.stride;
                                       });
    }
  };

  // Joins [begin, end). The last instruction may be a row operation.
  std::optional<Instruction> merge(size_t begin, size_t end) const {
    const auto& steps = program_.main;
    Instruction merged;
    PointwiseChain chain;
    chain.device = device_;
    if (end - begin > 1) chain.row_end = row_end_of(begin, end - 1);
    std::vector<Outside> outside;
    std::unordered_map<int32_t, int> made;  // values by buffer
    const auto flat = [](const Operand& o) {
      return TensorSpec{Shape{o.spec.shape.size()}, o.spec.dtype};
    };
    const auto terms_of = [&](const Instruction& i, const Operand& o) {
      return is_broadcast(i, o) && !(chain.row_end && &i == &steps[end - 1])
                 ? pointwise::broadcast_terms(o.spec.shape, i.outputs[0].spec.shape)
                 : std::vector<PointwiseChain::IndexTerm>();
    };
    const auto find_outside = [&](const Instruction& i, const Operand& o) {
      const auto terms = terms_of(i, o);
      return std::find_if(outside.begin(), outside.end(),
                          [&](const Outside& x) { return x.is(o.buffer, terms); }) -
             outside.begin();
    };
    // First numbers the inputs that the chain does not compute.
    for (size_t i = begin; i < end; ++i) {
      for (const Operand& o : steps[i].inputs) {
        if (is_made(o.buffer, begin, i)) continue;
        if (find_outside(steps[i], o) < static_cast<std::ptrdiff_t>(outside.size())) continue;
        outside.push_back({o.buffer, terms_of(steps[i], o)});
        chain.broadcast.push_back(outside.back().terms);
        chain.values.push_back(flat(o));
        merged.inputs.push_back(o);
      }
    }
    chain.num_inputs = chain.values.size();
    for (size_t i = begin; i < end; ++i) {
      PointwiseChain::Operation step{steps[i].op, steps[i].params, {}, {}};
      for (const Operand& o : steps[i].inputs)
        step.inputs.push_back(is_made(o.buffer, begin, i)
                                  ? made.at(o.buffer)
                                  : static_cast<int>(find_outside(steps[i], o)));
      for (const Operand& o : steps[i].outputs) {
        const int value = static_cast<int>(chain.values.size());
        made[o.buffer] = value;
        chain.values.push_back(flat(o));
        step.outputs.push_back(value);
        if (!leaves(o.buffer, end)) continue;
        chain.outputs.push_back(value);
        share_with_inputs(merged, chain, o, begin, i);
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

  // Lets `output`, which instruction `at` writes, share the memory of an input that no later
  // instruction reads. The input must not be broadcast.
  void share_with_inputs(Instruction& merged, const PointwiseChain& chain, const Operand& output,
                         size_t begin, size_t at) const {
    for (size_t k = 0; k < merged.inputs.size(); ++k) {
      const Operand& input = merged.inputs[k];
      const int last = last_read_[static_cast<size_t>(input.buffer)];
      if (input.spec.dtype != output.spec.dtype || !chain.broadcast[k].empty() ||
          input.spec.shape.size() != output.spec.shape.size() || input.spec.shape.size() == 1 ||
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
  const Device device_;
  const bool takes_rows_, exact_;
  std::vector<int> last_read_;  // for each buffer: last instruction of main that reads it
};

}  // namespace

void fuse_pointwise(Program& program, const PassContext& context) {
  if (context.small) return;
  const ChainPlanner planner = find_chain_planner(context.device.type);
  if (planner.plan) PointwiseFuser(program, planner, context).run();
}

}  // namespace mxlite::graph
