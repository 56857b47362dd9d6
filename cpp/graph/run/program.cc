#include "cpp/graph/run/program.h"

#include <sstream>

#include "cpp/graph/run/packing.h"

namespace mxlite::graph {
namespace {

const char* place_name(Place place) {
  static const char* const names[] = {"arena",    "packed", "input",  "parameter",
                                      "constant", "output", "donated"};
  return names[static_cast<int>(place)];
}

void write_operand(std::ostream& out, const Program& program, const Operand& o) {
  const Buffer& b = program.root(o.buffer);
  out << place_name(b.place) << '[';
  if (b.index >= 0)
    out << b.index;
  else
    out << b.offset << ".." << b.offset + b.bytes;
  out << ']';
  if (!o.layout.is_plain()) out << " packed";
}

void write_part(std::ostream& out, const Program& program, const std::vector<Instruction>& part) {
  for (const Instruction& i : part) {
    out << "  ";
    for (size_t k = 0; k < i.outputs.size(); ++k) {
      if (k) out << ", ";
      write_operand(out, program, i.outputs[k]);
    }
    out << " = " << i.kind_name();
    if (i.kernel) out << " (" << i.kernel->name << ')';
    if (i.op && i.plan) out << " (planned)";
    for (const Operand& o : i.inputs) {
      out << ' ';
      write_operand(out, program, o);
    }
    out << "  # " << i.name << '\n';
  }
}

}  // namespace

size_t Program::memory_estimate() const {
  // Estimates based on measurements with oneDNN. kPerPlan is the size of a descriptor and of a
  // primitive's code.
  constexpr size_t kPerProgram = 16 << 10, kPerBuffer = sizeof(Buffer), kPerOperand = 1024;
  constexpr size_t kPerInstruction = 512, kPerPlan = 32 << 10;
  size_t bytes = kPerProgram + buffers.size() * kPerBuffer;
  for (const Instruction& step : main)
    bytes += kPerInstruction + (step.plan ? kPerPlan : 0) +
             kPerOperand * (step.inputs.size() + step.outputs.size());
  return bytes;
}

std::string Program::text() const {
  std::ostringstream out;
  out << "arena " << arena_bytes << " bytes, scratch " << scratch_bytes << '\n';
  for (const auto& packing : packings) {
    const Program& part = packing->program;
    out << "when a parameter changes: (arena " << part.arena_bytes << " bytes, scratch "
        << part.scratch_bytes << ", packed " << part.packed_bytes << ")\n";
    write_part(out, part, part.prologue);
  }
  out << "at each run:\n";
  write_part(out, *this, main);
  return out.str();
}

}  // namespace mxlite::graph
