// Cuts a program into segments that run as separate tasks, so that early outputs are ready before
// the program has ended. Gradients are then sent to other processes while backward continues.
#pragma once
#include <vector>

#include "cpp/graph/run/program.h"

namespace mxlite::graph {

// Moves instructions that only convert a value to an output's layout from the end of the program to
// the position where the value is computed. Outputs are then ready early, and the value's memory is
// free early. Runs before plan_memory.
void finish_outputs_early(Program& program, const PassContext& context);

struct ProgramSegment {
  size_t first = 0, last = 0;                   // range of instructions of the main part
  std::vector<int> overwrites, updates, reads;  // output slots
};

// Cuts after instructions that finish outputs, so that segments finish similar numbers of bytes.
// Returns one segment if cutting is not worthwhile.
std::vector<ProgramSegment> cut_into_segments(const Program& program, size_t output_slots);

// Returns for each output of the program the last instruction that uses the output's memory.
std::vector<size_t> finishing_instructions(const Program& program);

// Sets for the whole process whether backward runs in segments. This is the case in jobs of several
// processes and in trainings on several GPUs of one process.
void set_segments(bool on);
bool segments_on();

}  // namespace mxlite::graph
