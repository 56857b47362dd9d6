// Assigns memory to every buffer. A buffer is alive from the instruction that writes it to the last
// instruction that reads it. The two parts of a program have separate arenas, because they are two
// tasks. The block of donated inputs is also reused, except for inputs that are still read.
#include <algorithm>
#include <limits>

#include "cpp/graph/run/program.h"

namespace mxlite::graph {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kForever = std::numeric_limits<int>::max();

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Lifetime {
  int first = kForever, last = -1;
  bool overlaps(const Lifetime& o) const { return first <= o.last && o.first <= last; }
};

// One part (prologue or main) of the program.
class Planner {
 public:
  Planner(Program& program, std::vector<Instruction>& part) : program_(program), part_(part) {}

  void share() {
    find_lifetimes();
    for (size_t i = 0; i < part_.size(); ++i) {
      const std::vector<InplacePair> must = part_[i].must_share, may = part_[i].may_share;
      for (const InplacePair p : must)
        if (!try_share(i, p, /*required=*/true)) i += copy_before(i, p);
      for (const InplacePair p : may) try_share(i, p, /*required=*/false);
    }
  }

  // Places large buffers first. Each buffer gets the smallest gap that is free during its lifetime.
  size_t place_arena(bool use_donated) {
    find_lifetimes();
    std::vector<int32_t> ids;
    for (size_t b = 0; b < lifetimes_.size(); ++b)
      if (lifetimes_[b].last >= 0 && program_.buffers[b].merged_into < 0 &&
          program_.buffers[b].place == Place::kArena)
        ids.push_back(static_cast<int32_t>(b));
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int32_t a, int32_t b) { return buffer(a).bytes > buffer(b).bytes; });
    std::vector<Occupied> arena, donated;
    if (use_donated) donated = donated_inputs();
    use_donated &= !donated.empty();
    size_t total = 0;
    for (int32_t id : ids) {
      Buffer& b = buffer(id);
      b.offset = find_gap(id, donated);
      if (use_donated && b.offset + b.bytes <= program_.donated_bytes) {
        b.place = Place::kDonated;
        donated.push_back(occupied(id));
        continue;
      }
      b.offset = find_gap(id, arena);
      total = std::max(total, b.offset + aligned(b.bytes));
      arena.push_back(occupied(id));
    }
    return total;
  }

  size_t scratch_bytes() const {
    size_t bytes = 0;
    for (const Instruction& i : part_)
      if (i.plan) bytes = std::max(bytes, i.plan->scratch_bytes);
    return aligned(bytes);
  }

 private:
  Buffer& buffer(int32_t id) { return program_.buffers[static_cast<size_t>(id)]; }
  Lifetime& lifetime(int32_t id) { return lifetimes_[static_cast<size_t>(program_.root_id(id))]; }

  void find_lifetimes() {
    lifetimes_.assign(program_.buffers.size(), {});
    for (size_t i = 0; i < part_.size(); ++i) {
      const int at = static_cast<int>(i);
      auto touch = [&](const Operand& o) {
        Lifetime& l = lifetime(o.buffer);
        l.first = std::min(l.first, at);
        l.last = std::max(l.last, at);
      };
      for (const Operand& o : part_[i].inputs) touch(o);
      for (const Operand& o : part_[i].outputs) touch(o);
    }
    last_use_.assign(lifetimes_.size(), -1);
    for (size_t b = 0; b < lifetimes_.size(); ++b) last_use_[b] = lifetimes_[b].last;
    // Values that the caller or the main part reads stay alive until the end.
    for (size_t b = 0; b < lifetimes_.size(); ++b) {
      const Place place = program_.buffers[b].place;
      if (lifetimes_[b].last >= 0 && place != Place::kArena) lifetimes_[b].last = kForever;
    }
  }

  // Stores the output in the input's memory if the input is not read afterwards.
  bool try_share(size_t at, InplacePair p, bool required) {
    const Instruction& step = part_[at];
    const Operand& in = step.inputs[static_cast<size_t>(p.input)];
    const Operand& out = step.outputs[static_cast<size_t>(p.output)];
    const int32_t from = program_.root_id(in.buffer), to = program_.root_id(out.buffer);
    if (from == to) return true;
    const Buffer& source = buffer(from);
    if (source.place != Place::kArena || lifetime(from).last != static_cast<int>(at)) return false;
    // Refuses if another output of the step already shares the output's memory.
    if (lifetime(to).first != static_cast<int>(at)) return false;
    if (source.bytes != buffer(to).bytes) return false;
    if (!required && (!same_layout(in.layout, out.layout) ||
                      dtype_size(in.spec.dtype) != dtype_size(out.spec.dtype)))
      return false;
    // Refuses if another operand uses the same memory, because the step might read that operand
    // after overwriting it.
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (static_cast<int>(k) != p.input && program_.root_id(step.inputs[k].buffer) == from &&
          (required || !(step.inputs[k].spec == in.spec)))
        return false;
    for (size_t k = 0; k < step.outputs.size(); ++k)
      if (static_cast<int>(k) != p.output && program_.root_id(step.outputs[k].buffer) == from)
        return false;
    // Both values use the buffer of the later value, so that results are written directly to
    // outputs.
    buffer(from).merged_into = to;
    Lifetime& joined = lifetimes_[static_cast<size_t>(to)];
    joined.first = lifetimes_[static_cast<size_t>(from)].first;
    return true;
  }

  // Copies the input to the output's memory, where the kernel expects it. Returns the number of
  // instructions inserted before the step.
  size_t copy_before(size_t at, InplacePair p) {
    Instruction& step = part_[at];
    Operand& in = step.inputs[static_cast<size_t>(p.input)];
    const Operand out = step.outputs[static_cast<size_t>(p.output)];
    Instruction copy;
    copy.name = step.name + "_copy";
    copy.inputs = {in};
    copy.outputs = {{out.buffer, in.spec, in.layout}};
    in.buffer = out.buffer;
    part_.insert(part_.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
    find_lifetimes();
    return 1;
  }

  // A range of an arena and its lifetime.
  struct Occupied {
    Lifetime lifetime;
    size_t begin, end;
  };

  Occupied occupied(int32_t id) {
    const Buffer& b = buffer(id);
    return {lifetime(id), b.offset, b.offset + aligned(b.bytes)};
  }

  // Returns the ranges of the block of donated inputs that are in use. The rest of the block is
  // free.
  std::vector<Occupied> donated_inputs() const {
    std::vector<Occupied> result;
    for (size_t b = 0; b < lifetimes_.size(); ++b) {
      const Buffer& input = program_.buffers[b];
      if (input.place != Place::kInput || input.merged_into >= 0) continue;
      const Saved at = program_.donated[static_cast<size_t>(input.index)];
      if (at) result.push_back({{0, last_use_[b]}, at.offset, at.offset + aligned(input.bytes)});
    }
    return result;
  }

  // Returns the offset of the smallest gap that is large enough, or the end of the used range.
  size_t find_gap(int32_t id, const std::vector<Occupied>& occupied) {
    const size_t wanted = aligned(buffer(id).bytes);
    std::vector<std::pair<size_t, size_t>> taken;  // [begin, end) of buffers alive at the same time
    for (const Occupied& other : occupied)
      if (other.lifetime.overlaps(lifetime(id))) taken.emplace_back(other.begin, other.end);
    std::sort(taken.begin(), taken.end());
    size_t best = 0, best_size = std::numeric_limits<size_t>::max(), end = 0;
    bool found = false;
    for (const auto& [begin, stop] : taken) {
      if (begin > end && begin - end >= wanted && begin - end < best_size) {
        best = end;
        best_size = begin - end;
        found = true;
      }
      end = std::max(end, stop);
    }
    return found ? best : end;
  }

  Program& program_;
  std::vector<Instruction>& part_;
  std::vector<Lifetime> lifetimes_;  // indexed by root buffer
  std::vector<int> last_use_;        // indexed by root buffer; set even for values kept to the end
};

}  // namespace

int32_t Program::root_id(int32_t id) const {
  while (buffers[static_cast<size_t>(id)].merged_into >= 0)
    id = buffers[static_cast<size_t>(id)].merged_into;
  return id;
}

const Buffer& Program::root(int32_t id) const { return buffers[static_cast<size_t>(root_id(id))]; }

namespace {

// Places values that only the backward executable reads into one block of memory.
void place_saved_outputs(Program& program) {
  std::vector<int32_t> seen;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    Program::Output& output = program.outputs[i];
    const int32_t id = program.root_id(output.buffer);
    const auto same = std::find(seen.begin(), seen.end(), id) - seen.begin();
    seen.push_back(id);
    if (static_cast<size_t>(same) < i) {
      output.saved = program.outputs[static_cast<size_t>(same)].saved;
    } else if (i >= program.num_plain_outputs) {
      output.saved.offset = program.saved_bytes;
      program.saved_bytes += aligned(program.root(id).bytes);
    }
  }
}

}  // namespace

void plan_memory(Program& program, const PassContext&) {
  Planner main(program, program.main);
  main.share();
  program.arena_bytes = main.place_arena(/*use_donated=*/true);
  program.scratch_bytes = main.scratch_bytes();
  place_saved_outputs(program);
}

void plan_prologue(Program& program) {
  Planner prologue(program, program.prologue);
  prologue.share();
  for (Buffer& b : program.buffers) {
    if (b.place != Place::kPacked || b.merged_into >= 0) continue;
    b.offset = program.packed_bytes;
    program.packed_bytes += aligned(b.bytes);
  }
  program.arena_bytes = prologue.place_arena(/*use_donated=*/false);
  program.scratch_bytes = prologue.scratch_bytes();
}

}  // namespace mxlite::graph
