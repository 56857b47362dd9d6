// A lowered graph: instructions, their order, and the memory that they use. `lower` creates a
// program from a graph, and Executable runs the program.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/graph/passes/passes.h"

namespace mxlite::graph {

enum class Place : uint8_t {
  kArena,      // shared by buffers that are not alive at the same time
  kPacked,     // computed from parameters and kept between runs
  kInput,      // memory of the caller's array
  kParameter,  // memory of the caller's array
  kConstant,   // memory of the caller's array
  kOutput,     // new array that is returned to the caller
  kDonated,    // block that holds donated inputs
};

struct Buffer {
  Place place = Place::kArena;
  int index = -1;  // index of input, parameter, constant, output or (after split_prologue) packing
  size_t bytes = 0;
  size_t offset = 0;  // in the arena, packed memory or block of donated inputs; set by plan_memory
  int32_t merged_into = -1;  // buffer that provides the memory (in-place); set by plan_memory
};

struct Operand {
  int32_t buffer = -1;
  TensorSpec spec;
  Layout layout;
};

struct Instruction {
  std::string name;              // name of the node, for errors
  const OpSchema* op = nullptr;  // null for a reorder, or for a copy if `plan` is null as well
  const char* label = nullptr;   // description if the instruction has none of the members below
  ParamsRef params;
  const Kernel* kernel = nullptr;  // plain kernel, or null
  std::shared_ptr<Plan> plan;      // planned kernel, or null
  std::vector<Operand> inputs, outputs;
  std::vector<InplacePair> may_share;   // the output may use the input's memory
  std::vector<InplacePair> must_share;  // the output must use the input's memory
  uint64_t random_offset = 0;           // offset of the first random counter within a run

  const char* kind_name() const {
    return op ? op->name.c_str() : label ? label : plan ? "reorder" : "copy";
  }
};

// Position in the block of saved values, which forward fills and backward reads. All saved values
// lie in one block, so that backward can reuse the adjacent memory of several values for a larger
// value.
struct Saved {
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  size_t offset = kNowhere;
  explicit operator bool() const { return offset != kNowhere; }
};

struct Packing;  // see packing.h

struct Program {
  struct Output {
    int32_t buffer = -1;
    TensorSpec spec;  // spec of the array; an array of bytes unless the layout is plain
    Layout layout;
    Saved saved;  // position of a saved output, set by plan_memory
  };
  std::string name;
  bool training = false;
  std::vector<Buffer> buffers;
  std::vector<Instruction> prologue;  // instructions that depend on parameters only; empty after
                                      // split_prologue
  std::vector<std::shared_ptr<const Packing>> packings;  // packings to run when a parameter has
                                                         // changed
  std::vector<Instruction> main;
  std::vector<Output> outputs;
  size_t num_plain_outputs = 0;  // outputs after these are passed only to other executables
  std::vector<TensorSpec> input_specs, parameter_specs;
  std::vector<Saved> donated;  // for each input: memory that may be reused after its last read
  size_t donated_bytes = 0;    // size of the block of donated inputs
  std::vector<uint8_t> saved_inputs;  // for each input: whether it lies in the block that forward
                                      // has filled
  std::vector<NDArrayRef> constants;
  uint64_t random_count = 0;  // number of random counters that one run uses
  // Set by plan_memory, or by plan_prologue.
  size_t arena_bytes = 0, scratch_bytes = 0;
  size_t packed_bytes = 0;  // size of the prologue's results
  size_t saved_bytes = 0;   // size of the block of saved outputs

  const Buffer& root(int32_t buffer) const;  // follows the links merged_into
  int32_t root_id(int32_t buffer) const;
  std::string text() const;
  size_t memory_estimate() const;  // bytes of the program and of library code for its plans
};

// Chooses kernels and memory layouts. Each planned kernel chooses its layouts depending on the
// layouts of its inputs. Inserts reorders between kernels with different layouts, at most one for
// each value and layout. Instructions that depend only on parameters go into the prologue.
// Note [Copied outputs]
// An output is copied if its value lies in an input, a parameter or packed memory. It is also
// copied if the value is another output as well. The reason is that the user may keep and write the
// array.
// Note [Saved layouts]
// Only executables see the values that a recorded forward saves for backward. These values
// therefore keep the producer's layout, in an array of bytes, and backward is compiled for this
// layout.
struct Border {
  size_t num_plain_outputs = std::numeric_limits<size_t>::max();  // later outputs are not converted
                                                                  // to the plain layout
  std::vector<Layout> input_layouts;  // layouts of the first inputs; all other layouts are plain
  std::vector<Saved> donated;         // like Program::donated; missing entries mean that the input
                                      // is not donated
  size_t donated_bytes = 0;
  std::vector<uint8_t> saved_inputs;  // like Program::saved_inputs; missing entries mean false
};
Program propagate_layout(const Graph& graph, const PassContext& context, const Border& border = {});

// Joins consecutive pointwise instructions over the same memory layout into one instruction, which
// passes over memory once. Rounds like the separate operators.
void fuse_pointwise(Program& program, const PassContext& context);

// Returns whether the graph runs faster in the caller's thread than as a task. This holds for
// graphs with little data whose kernels have no parallel regions.
bool is_small(const Graph& graph, DeviceType device);
const Kernel* find_inline_kernel(const Node& node, std::span<const TensorSpec> inputs,
                                 DeviceType device);  // returns null if no such kernel exists

// Plans lifetimes, in-place sharing and offsets. Places large buffers first. Small buffers fill the
// gaps.
void plan_memory(Program& program, const PassContext& context);
// Plans the memory of a program that has only a prologue.
void plan_prologue(Program& program);

struct ProgramPass {
  const char* name;
  const char* purpose;
  void (*run)(Program& program, const PassContext& context);
};
std::span<const ProgramPass> program_passes();

// Runs propagate_layout and then program_passes(), with dumps and checks as in run_passes.
Program lower(const Graph& graph, const PassContext& context, const Border& border = {});

// Throws an internal error that names the rule that `program` violates and the preceding pass. If
// memory is planned, also checks that buffers that are alive at the same time do not overlap.
void verify(const Program& program, const char* after, bool memory_is_planned);

}  // namespace mxlite::graph
