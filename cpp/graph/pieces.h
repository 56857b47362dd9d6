// A program cut into tasks of its own, so that outputs are there before the whole has run: while
// backward goes on, other processes get the gradients that it has computed.
#pragma once
#include <vector>

#include "cpp/graph/program.h"

namespace mxlite::graph {

// Moves what only brings a value into an output's form from the end of the program to where the
// value is there: outputs are finished early, and the value's memory is free again. Before
// plan_memory.
void finish_outputs_early(Program& program, const PassContext& context);

struct Piece {
  size_t first = 0, last = 0;                   // instructions of the main part: [first, last)
  std::vector<int> overwrites, updates, reads;  // slots of outputs
};

// Cuts behind instructions that finish outputs, so that each piece finishes about as many bytes.
// One piece: not worth it.
std::vector<Piece> cut_into_pieces(const Program& program, size_t output_slots);

// Whether backward runs in pieces: while a job of several processes runs. Process-wide.
void set_pieces(bool on);
bool pieces_on();

}  // namespace mxlite::graph
