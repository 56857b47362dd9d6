// Cuts a program into segments, a task each, so that outputs are ready before all of it has run:
// while backward continues, other processes receive the gradients that it has computed.
#pragma once
#include <vector>

#include "cpp/graph/run/program.h"

namespace mxlite::graph {

// Moves instructions that only convert a value to an output's form from the end of the program to
// where the value is computed: outputs finish early, and the value's memory is free again. Runs
// before plan_memory.
void finish_outputs_early(Program& program, const PassContext& context);

struct ProgramSegment {
  size_t first = 0, last = 0;                   // range of instructions of the main part
  std::vector<int> overwrites, updates, reads;  // output slots
};

// Cuts after instructions that finish outputs, so that each segment finishes about as many bytes.
// Returns one segment if cutting is not worth it.
std::vector<ProgramSegment> cut_into_segments(const Program& program, size_t output_slots);

// Returns, by output of the program, the instruction that uses its memory last.
std::vector<size_t> finishing_instructions(const Program& program);

// Whether backward runs in segments: true while a job of several processes runs. Process-wide.
void set_segments(bool on);
bool segments_on();

}  // namespace mxlite::graph
