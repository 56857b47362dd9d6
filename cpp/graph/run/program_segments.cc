#include "cpp/graph/run/program_segments.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace mxlite::graph {
namespace {

constexpr size_t kLeastBytes = size_t{512} << 10;  // minimum of output bytes per segment
constexpr size_t kMostSegments = 12;

std::atomic<bool> on{false};

// The instructions that use the memory of one output.
struct Use {
  size_t first = 0, last = 0;  // instruction indices
  bool any = false;
  size_t bytes = 0;
};

struct Touch {
  size_t instruction;
  int slot;
  bool writes;
};

std::vector<Touch> touches_of(const Program& program) {
  std::vector<Touch> touches;
  for (size_t i = 0; i < program.main.size(); ++i) {
    const Instruction& step = program.main[i];
    const auto touch = [&](const Operand& operand, bool writes) {
      const Buffer& b = program.root(operand.buffer);
      if (b.place == Place::kOutput) touches.push_back({i, b.index, writes});
    };
    for (size_t k = 0; k < step.inputs.size(); ++k)
      touch(step.inputs[k], step.op && step.op->mutates(static_cast<int>(k), program.training));
    for (const Operand& operand : step.outputs) touch(operand, true);
  }
  return touches;
}

void add_once(std::vector<int>& list, int slot) {
  if (std::find(list.begin(), list.end(), slot) == list.end()) list.push_back(slot);
}

}  // namespace

void set_segments(bool value) { on.store(value, std::memory_order_relaxed); }
bool segments_on() { return on.load(std::memory_order_relaxed); }

void finish_outputs_early(Program& program, const PassContext&) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<Instruction>& main = program.main;
  std::vector<size_t> written(program.buffers.size(), kNever);  // last writer of each buffer so far
  std::vector<uint32_t> users(program.buffers.size());
  for (const Instruction& step : main)
    for (const auto* operands : {&step.inputs, &step.outputs})
      for (const Operand& o : *operands) ++users[static_cast<size_t>(program.root_id(o.buffer))];

  std::vector<std::vector<size_t>> behind(main.size());  // for each instruction: instructions to
                                                         // insert after it
  std::vector<uint8_t> moves(main.size());
  for (size_t i = 0; i < main.size(); ++i) {
    const Instruction& step = main[i];
    if (!step.op && !step.kernel && step.inputs.size() == 1 && step.outputs.size() == 1) {
      const auto from = static_cast<size_t>(program.root_id(step.inputs[0].buffer));
      const auto to = static_cast<size_t>(program.root_id(step.outputs[0].buffer));
      const bool own = program.buffers[from].place == Place::kArena && written[from] != kNever;
      if (own && program.buffers[to].place == Place::kOutput && users[to] == 1 &&
          !moves[written[from]]) {
        behind[written[from]].push_back(i);
        moves[i] = 1;
      }
    }
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (step.op && step.op->mutates(static_cast<int>(k), program.training))
        written[static_cast<size_t>(program.root_id(step.inputs[k].buffer))] = i;
    for (const Operand& o : step.outputs)
      written[static_cast<size_t>(program.root_id(o.buffer))] = i;
  }
  std::vector<Instruction> ordered;
  ordered.reserve(main.size());
  for (size_t i = 0; i < main.size(); ++i) {
    if (moves[i]) continue;
    ordered.push_back(std::move(main[i]));
    for (const size_t moved : behind[i]) ordered.push_back(std::move(main[moved]));
  }
  main = std::move(ordered);
}

std::vector<ProgramSegment> cut_into_segments(const Program& program, size_t output_slots) {
  std::vector<Use> uses(output_slots);
  for (const Program::Output& o : program.outputs)
    uses[static_cast<size_t>(program.root(o.buffer).index)].bytes = o.spec.bytes();
  const std::vector<Touch> touches = touches_of(program);
  size_t total = 0;
  for (const Touch& t : touches) {
    Use& use = uses[static_cast<size_t>(t.slot)];
    if (!use.any) use.first = t.instruction, total += use.bytes;
    use.any = true;
    use.last = t.instruction;
  }
  std::vector<size_t> finished(program.main.size());  // for each instruction: bytes of outputs that
                                                      // it finishes
  for (const Use& use : uses)
    if (use.any) finished[use.last] += use.bytes;

  const size_t wanted = std::max(kLeastBytes, total / kMostSegments);
  std::vector<ProgramSegment> segments;
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; i < finished.size(); ++i) {
    bytes += finished[i];
    if (bytes < wanted) continue;
    segments.push_back({begin, i + 1, {}, {}, {}});
    begin = i + 1;
    bytes = 0;
  }
  if (segments.empty() || bytes > 0) segments.push_back({begin, finished.size(), {}, {}, {}});
  segments.back().last = finished.size();

  size_t p = 0;
  for (const Touch& t : touches) {
    while (t.instruction >= segments[p].last) ++p;
    const Use& use = uses[static_cast<size_t>(t.slot)];
    const bool begins = use.first >= segments[p].first;
    if (begins)
      add_once(segments[p].overwrites, t.slot);
    else
      add_once(t.writes ? segments[p].updates : segments[p].reads, t.slot);
  }
  for (size_t slot = 0; slot < uses.size(); ++slot)
    if (!uses[slot].any) segments.back().overwrites.push_back(static_cast<int>(slot));
  return segments;
}

std::vector<size_t> finishing_instructions(const Program& program) {
  std::vector<size_t> last;  // for each output slot: last instruction that uses the slot
  for (const Touch& t : touches_of(program)) {
    const auto slot = static_cast<size_t>(t.slot);
    if (last.size() <= slot) last.resize(slot + 1);
    last[slot] = t.instruction;
  }
  std::vector<size_t> found;
  for (const Program::Output& o : program.outputs) {
    const auto slot = static_cast<size_t>(program.root(o.buffer).index);
    found.push_back(slot < last.size() ? last[slot] : 0);
  }
  return found;
}

}  // namespace mxlite::graph
