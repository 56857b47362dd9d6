// Checks the invariants of a lowered program after each pass, if requested.
#include <algorithm>

#include "cpp/graph/run/program.h"

namespace mxlite::graph {
namespace {

// Range of a buffer within its block of memory, and the first and last instruction of the main part
// that use the buffer.
struct Interval {
  int32_t buffer;
  size_t begin, end;  // in bytes
  size_t first, last;
  bool is_input = false;  // two inputs may share memory, because they may be the same saved value

  bool overlaps(const Interval& o) const {
    return !(is_input && o.is_input) && begin < o.end && o.begin < end && first <= o.last &&
           o.first <= last;
  }
};

class ProgramVerifier {
 public:
  ProgramVerifier(const Program& program, const char* after) : program_(program), after_(after) {}

  void check_buffers() const {
    const auto count = static_cast<int32_t>(program_.buffers.size());
    for (int32_t id = 0; id < count; ++id) {
      int32_t at = id;
      for (int32_t steps = 0; at >= 0; ++steps) {
        require(at < count, "buffer ", id, " is merged into buffer ", at, ", which does not exist");
        if (steps == count)  // a cycle; `require` is not used, because it prints the program, which
                             // would not end
          fail(ErrorKind::kError, "internal error, please report: program ", program_.name,
               " after ", after_, ": buffer ", id, " is merged into itself");
        at = program_.buffers[static_cast<size_t>(at)].merged_into;
      }
    }
  }

  // Requires that every value is written before it is read.
  void check_order() const {
    std::vector<uint8_t> written(program_.buffers.size());
    for (size_t b = 0; b < written.size(); ++b) {
      const Place place = program_.buffers[b].place;
      written[b] = place == Place::kInput || place == Place::kParameter ||
                   place == Place::kConstant ||
                   (place == Place::kPacked && program_.prologue.empty());
    }
    for (const auto* part : {&program_.prologue, &program_.main})
      for (const Instruction& step : *part) {
        for (const Operand& o : step.inputs) {
          check_operand(o, step);
          require(written[root(o)], step.name, " (", step.kind_name(), ") reads buffer ", o.buffer,
                  ", which no earlier step has written");
        }
        for (const Operand& o : step.outputs) {
          check_operand(o, step);
          written[root(o)] = 1;
        }
      }
    for (const Program::Output& o : program_.outputs) {
      require(is_buffer(o.buffer), "an output is buffer ", o.buffer, ", which does not exist");
      require(written[static_cast<size_t>(program_.root_id(o.buffer))], "output buffer ", o.buffer,
              " is never written");
    }
  }

  void check_memory() const {
    std::vector<Interval> arena, donated;
    for (const Interval& lifetime : lifetimes()) {
      const Buffer& b = program_.buffers[static_cast<size_t>(lifetime.buffer)];
      Interval memory = lifetime;
      memory.begin = b.offset;
      if (b.place == Place::kInput) {
        const Saved at = program_.donated[static_cast<size_t>(b.index)];
        if (!at) continue;
        memory.begin = at.offset;
        memory.first = 0;  // the value exists before the first instruction
        memory.is_input = true;
      }
      memory.end = memory.begin + b.bytes;
      if (b.place == Place::kArena) {
        require(memory.end <= program_.arena_bytes, "buffer ", lifetime.buffer, " ends at byte ",
                memory.end, ", the arena has ", program_.arena_bytes);
        arena.push_back(memory);
      } else if (b.place == Place::kDonated || b.place == Place::kInput) {
        require(memory.end <= program_.donated_bytes, "buffer ", lifetime.buffer, " ends at byte ",
                memory.end, ", the donated block has ", program_.donated_bytes);
        donated.push_back(memory);
      }
    }
    for (auto* block : {&arena, &donated}) check_overlaps(*block);
  }

 private:
  template <class... Args>
  void require(bool condition, const Args&... args) const {
    if (condition) [[likely]]
      return;
    fail(ErrorKind::kError, "internal error, please report: program ", program_.name, " after ",
         after_, ": ", args..., '\n', program_.text());
  }

  bool is_buffer(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < program_.buffers.size();
  }
  size_t root(const Operand& o) const { return static_cast<size_t>(program_.root_id(o.buffer)); }

  void check_operand(const Operand& o, const Instruction& step) const {
    require(is_buffer(o.buffer), step.name, " uses buffer ", o.buffer, ", which does not exist");
    const size_t bytes = o.layout.is_plain() ? o.spec.bytes() : o.layout.bytes;
    const size_t has = program_.root(o.buffer).bytes;
    require(bytes <= has, step.name, " (", step.kind_name(), ") uses ", bytes, " bytes of buffer ",
            o.buffer, ", which has ", has);
  }

  // Returns an interval for each root buffer of the main part. Does not set begin and end.
  std::vector<Interval> lifetimes() const {
    std::vector<Interval> result;
    std::vector<int32_t> place_of(program_.buffers.size(), -1);
    for (size_t i = 0; i < program_.main.size(); ++i)
      for (const auto* operands : {&program_.main[i].inputs, &program_.main[i].outputs})
        for (const Operand& o : *operands) {
          int32_t& place = place_of[root(o)];
          if (place < 0) {
            place = static_cast<int32_t>(result.size());
            result.push_back({static_cast<int32_t>(root(o)), 0, 0, i, i});
          }
          result[static_cast<size_t>(place)].last = i;
        }
    for (const Program::Output& o : program_.outputs)
      if (const int32_t place = place_of[static_cast<size_t>(program_.root_id(o.buffer))];
          place >= 0)
        result[static_cast<size_t>(place)].last = program_.main.size();
    return result;
  }

  void check_overlaps(std::vector<Interval>& block) const {
    std::ranges::sort(block, {}, &Interval::begin);
    for (size_t i = 0; i < block.size(); ++i)
      for (size_t k = i + 1; k < block.size() && block[k].begin < block[i].end; ++k)
        require(!block[i].overlaps(block[k]), "buffers ", block[i].buffer, " and ", block[k].buffer,
                " are alive at the same time in the same memory");
  }

  const Program& program_;
  const char* after_;
};

}  // namespace

void verify(const Program& program, const char* after, bool memory_is_planned) {
  const ProgramVerifier verifier(program, after);
  verifier.check_buffers();
  verifier.check_order();
  if (memory_is_planned) verifier.check_memory();
}

}  // namespace mxlite::graph
