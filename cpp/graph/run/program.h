// A lowered graph: instructions, their order, and the memory that they use. `lower` makes it from a
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
  kOutput,     // fresh array that is returned to the caller
  kDonated,    // block that holds donated inputs
};

struct Buffer {
  Place place = Place::kArena;
  int index = -1;  // index of input, parameter, constant, output or (after split_prologue) packing
  size_t bytes = 0;
  size_t offset = 0;         // in the arena, packed memory or the block; set by plan_memory
  int32_t merged_into = -1;  // shares memory with that buffer (in-place); set by plan_memory
};

struct Operand {
  int32_t buffer = -1;
  TensorSpec spec;
  Layout layout;
};

struct Instruction {
  std::string name;              // name of the node, for errors
  const OpSchema* op = nullptr;  // null: a reorder, or a copy if there is no plan either
  const char* label = nullptr;   // description if it is none of these
  ParamsRef params;
  const Kernel* kernel = nullptr;  // plain kernel, or null
  std::shared_ptr<Plan> plan;      // planned kernel, or null
  std::vector<Operand> inputs, outputs;
  std::vector<InplacePair> may_share;   // the output may use the input's memory
  std::vector<InplacePair> must_share;  // the output must use it
  uint64_t random_offset = 0;           // offset of its first counter within a run

  const char* kind_name() const {
    return op ? op->name.c_str() : label ? label : plan ? "reorder" : "copy";
  }
};

// Position in the block of saved values, which forward fills and backward reads. They lie in one
// block, so that backward can reuse the adjacent memory of several for a larger value.
struct Saved {
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  size_t offset = kNowhere;
  explicit operator bool() const { return offset != kNowhere; }
};

struct Packing;  // packing.h

struct Program {
  struct Output {
    int32_t buffer = -1;
    TensorSpec spec;  // spec of the array; an array of bytes unless the layout is plain
    Layout layout;
    Saved saved;  // set by plan_memory; not for plain outputs
  };
  std::string name;
  bool training = false;
  std::vector<Buffer> buffers;
  std::vector<Instruction> prologue;  // depends on parameters only; empty after split_prologue
  std::vector<std::shared_ptr<const Packing>> packings;  // run when a parameter has changed
  std::vector<Instruction> main;
  std::vector<Output> outputs;
  size_t num_plain_outputs = 0;  // later outputs are passed only to other executables
  std::vector<TensorSpec> input_specs, parameter_specs;
  std::vector<Saved> donated;         // by input: memory that may be reused after its last read
  size_t donated_bytes = 0;           // size of the block of donated inputs
  std::vector<uint8_t> saved_inputs;  // by input: whether it lies in forward's block
  std::vector<NDArrayRef> constants;
  uint64_t random_count = 0;  // counters used by one run
  // Set by plan_memory, or by plan_prologue.
  size_t arena_bytes = 0, scratch_bytes = 0;
  size_t packed_bytes = 0;  // size of the prologue's results
  size_t saved_bytes = 0;   // size of the block of saved outputs

  const Buffer& root(int32_t buffer) const;  // follows merged_into
  int32_t root_id(int32_t buffer) const;
  std::string text() const;
  size_t memory_estimate() const;  // bytes of the program and of library code for its plans
};

// Chooses kernels and memory layouts: each planned kernel chooses its layouts, given the layouts of
// its inputs. Inserts reorders between kernels with different layouts, at most one per value and
// layout. Instructions that depend only on parameters go into the prologue.
// Note [Copied outputs] An output is copied if its value lies in an input, a parameter or packed
// memory, or is another output as well, because the user may keep and write the array.
// Note [Saved layouts] Values that a recorded forward saves for backward are seen by executables
// only. So they keep the producer's layout, in an array of bytes, for which backward is compiled.
struct Border {
  size_t num_plain_outputs = std::numeric_limits<size_t>::max();  // later outputs keep their layout
  std::vector<Layout> input_layouts;  // layouts of the first inputs; the others are plain
  std::vector<Saved> donated;         // as Program::donated; other inputs are not donated
  size_t donated_bytes = 0;
  std::vector<uint8_t> saved_inputs;  // as Program::saved_inputs; other inputs are not
};
Program propagate_layout(const Graph& graph, const PassContext& context, const Border& border = {});

// Joins consecutive pointwise instructions over the same memory layout into one, which passes over
// memory once. Rounds like the separate operators.
void fuse_pointwise(Program& program, const PassContext& context);

// Returns whether running in the caller's thread costs less than a task: there is little data, and
// every node has a kernel without parallel regions.
bool is_small(const Graph& graph, DeviceType device);
const Kernel* find_inline_kernel(const Node& node, std::span<const TensorSpec> inputs,
                                 DeviceType device);  // null: none

// Plans lifetimes, in-place sharing and offsets: small buffers fill the gaps between large ones.
void plan_memory(Program& program, const PassContext& context);
// Plans the memory of a program that has only a prologue.
void plan_prologue(Program& program);

struct ProgramPass {
  const char* name;
  const char* purpose;
  void (*run)(Program& program, const PassContext& context);
};
std::span<const ProgramPass> program_passes();

// propagate_layout, then program_passes(), dumped and verified as run_passes does.
Program lower(const Graph& graph, const PassContext& context, const Border& border = {});

// Throws an internal error with the rule that `program` breaks, and the pass before. If memory is
// planned, also checks that buffers which are alive at the same time do not overlap.
void verify(const Program& program, const char* after, bool memory_is_planned);

}  // namespace mxlite::graph
