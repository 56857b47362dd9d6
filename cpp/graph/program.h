// A lowered graph: what runs, in which order, on which piece of memory. `lower` makes it from a
// graph, Executable runs it.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/graph/passes/passes.h"

namespace mxlite::graph {

enum class Place : uint8_t {
  kArena,      // shared between buffers that do not live at the same time
  kPacked,     // computed from parameters, kept between runs
  kInput,      // memory of the caller's array
  kParameter,  // likewise
  kConstant,   // likewise
  kOutput,     // fresh array that the caller gets
  kDonated,    // the block in which donated inputs lie
};

struct Buffer {
  Place place = Place::kArena;
  int index = -1;  // of input, parameter, constant, output; of the packing, after split_prologue
  size_t bytes = 0;
  size_t offset = 0;         // in the arena, packed memory or the block; set by plan_memory
  int32_t merged_into = -1;  // shares the memory of that buffer (in-place); set by plan_memory
};

struct Operand {
  int32_t buffer = -1;
  TensorSpec spec;
  Layout layout;
};

struct Instruction {
  std::string name;              // of the node, for errors
  const OpSchema* op = nullptr;  // null: a reorder, or a copy when there is no plan either
  const char* label = nullptr;   // what it is when it is none of these
  ParamsRef params;
  const Kernel* kernel = nullptr;  // plain kernel, or
  std::shared_ptr<Plan> plan;      // planned one
  std::vector<Operand> inputs, outputs;
  std::vector<InplacePair> may_share;   // output may use the input's memory
  std::vector<InplacePair> must_share;  // output must
  uint64_t random_offset = 0;           // first of its own counters among those of a run

  const char* kind_name() const {
    return op ? op->name.c_str() : label ? label : plan ? "reorder" : "copy";
  }
};

// Place in a block that one executable fills and another uses: what forward keeps for backward lies
// in one piece, so that what backward has done with makes room for its larger values, too.
struct Saved {
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  size_t offset = kNowhere;
  explicit operator bool() const { return offset != kNowhere; }
};

struct Packing;  // packing.h

struct Program {
  struct Output {
    int32_t buffer = -1;
    TensorSpec spec;  // of the array: bytes where the layout is not plain
    Layout layout;
    Saved saved;  // set by plan_memory; not of plain outputs
  };
  std::string name;
  bool training = false;
  std::vector<Buffer> buffers;
  std::vector<Instruction> prologue;  // depends on parameters only; empty after split_prologue
  std::vector<std::shared_ptr<const Packing>> packings;  // run when a parameter has changed
  std::vector<Instruction> main;
  std::vector<Output> outputs;
  size_t num_plain_outputs = 0;  // those behind stay between executables
  std::vector<TensorSpec> input_specs, parameter_specs;
  std::vector<Saved> donated;  // by input: its memory may be used once nothing reads it any more
  size_t donated_bytes = 0;    // of the block in which these lie
  std::vector<NDArrayRef> constants;
  uint64_t random_count = 0;  // counters of one run
  // Set by plan_memory, or by plan_prologue.
  size_t arena_bytes = 0, scratch_bytes = 0;
  size_t packed_bytes = 0;  // of what the prologue leaves
  size_t saved_bytes = 0;   // of the block in which saved outputs lie

  const Buffer& root(int32_t buffer) const;  // follows merged_into
  int32_t root_id(int32_t buffer) const;
  std::string text() const;
  size_t memory_estimate() const;  // of the program and the library code behind its plans
};

// Chooses kernels and memory layouts: planned kernels say which layouts they want given what
// producers leave, reorders are inserted where two neighbours disagree, each at most once per value
// and layout. What depends only on parameters goes into the prologue.
// Note [Copied outputs] A value that lies in memory which is not the run's own (an input, a
// parameter, packed memory), or in that of another output, is copied when it is an output: the user
// may keep and write it.
// Note [Saved layouts] What a recorded forward keeps for backward never leaves executables, so it
// stays in the layout that its producer left, in an array of bytes; backward is told that layout.
struct Border {
  size_t num_plain_outputs = std::numeric_limits<size_t>::max();  // those behind keep their layout
  std::vector<Layout> input_layouts;  // of the first inputs; the others are plain
  std::vector<Saved> donated;         // as Program::donated; the others are not
  size_t donated_bytes = 0;
};
Program propagate_layout(const Graph& graph, const PassContext& context, const Border& border = {});

// Neighbouring pointwise instructions over the same memory layout become one that goes through
// memory once. Rounding stays that of the single operators.
void fuse_pointwise(Program& program, const PassContext& context);

// Cheaper to run in the caller's thread than to hand over: little data, and a kernel without
// parallel regions for every node.
bool is_small(const Graph& graph, DeviceType device);
const Kernel* find_inline_kernel(const Node& node, std::span<const TensorSpec> inputs,
                                 DeviceType device);  // null: none

// Lifetimes, sharing in place, offsets: small buffers fill the gaps between large ones.
void plan_memory(Program& program, const PassContext& context);
// The same for a program that has nothing but a prologue.
void plan_prologue(Program& program);

struct ProgramPass {
  const char* name;
  const char* purpose;
  void (*run)(Program& program, const PassContext& context);
};
std::span<const ProgramPass> program_passes();

// propagate_layout, then program_passes(), dumped and verified as run_passes does.
Program lower(const Graph& graph, const PassContext& context, const Border& border = {});

// Throws an internal error that says which rule `program` breaks and after which pass. Once memory
// is planned, no two buffers that are alive at the same time may overlap.
void verify(const Program& program, const char* after, bool memory_is_planned);

}  // namespace mxlite::graph
