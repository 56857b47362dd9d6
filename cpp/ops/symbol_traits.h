// Holds what symbols know of an operator beyond its call: names of outputs, types that inputs and
// outputs share, and shapes that follow from other inputs or from outputs. OpBuilder sets them
// where the operator is declared; most operators have the defaults.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/core/shape.h"

namespace mxlite {

struct OpSchema;

// The shapes of one call as far as they are known: a rule adds what it can infer.
class PartialShapes {
 public:
  // `inputs` and `outputs` are changed in place. Messages write unknown extents as `unknown`.
  PartialShapes(std::span<Shape> inputs, std::span<Shape> outputs, int64_t unknown)
      : inputs_(inputs), outputs_(outputs), unknown_(unknown) {}

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Shape& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const Shape& output(int i) const { return outputs_[static_cast<size_t>(i)]; }
  // Fill unknown extents; a shape error if known ones differ. An unknown shape adds nothing.
  void refine_input(int i, const Shape& shape) { refine(inputs_[static_cast<size_t>(i)], shape); }
  void refine_output(int i, const Shape& shape) { refine(outputs_[static_cast<size_t>(i)], shape); }
  bool changed() const { return changed_; }

 private:
  void refine(Shape& known, const Shape& shape);

  std::span<Shape> inputs_, outputs_;
  int64_t unknown_;
  bool changed_ = false;
};

// Types of inputs and outputs as far as they are known.
using KnownType = std::optional<DType>;
using KnownTypes = std::span<KnownType>;

// Says which type outputs have where the types of a symbol are inferred.
enum class OutputType : uint8_t {
  kShared,         // one type for outputs and inputs: unknown inputs follow from an output
  kOfInputs,       // the inputs', which do not follow from an output
  kDtype,          // what the parameter dtype says, or float32
  kDtypeOrInputs,  // what the parameter dtype says, or the inputs'
};

struct SymbolTraits {
  // The operator's name in 1.x files; empty: its own.
  std::string file_name = {};
  // Names of the first outputs; others are "output", or "output<i>" of several.
  std::vector<std::string> output_names = {};
  // 1.x shows the only input under its own name, not as input0.
  bool names_single_input = false;
  // The attribute in which files write how many inputs a variadic operator has.
  std::string count_attribute = {};
  // Holds, by input, the __init__ of variables that are made for inputs.
  std::map<std::string, std::string> input_init = {};
  // Inputs that are auxiliary states although the operator only reads them.
  std::vector<int> read_states = {};
  // Backward ignores the shape of the output's gradient: the output does not depend on inputs.
  bool constant_output = false;
  // Makes an array; extents of `shape` that are unknown follow from its users.
  bool shape_from_users = false;
  // Shapes of weights can be inferred although nothing is known of the first input.
  bool completes_without_data = false;
  // Inputs whose types say nothing about the types of others.
  std::vector<int> untied_inputs = {};
  bool all_inputs_untied = false;
  OutputType output_type = OutputType::kShared;
};

// The traits of an operator and the functions that infer for symbols; null: see each.
struct SymbolRules : SymbolTraits {
  // Number of outputs in 1.9.1, hidden ones too, where this engine has another; null: the same.
  std::function<int(const void* params, int visible)> total_outputs;
  // A variadic operator's inputs where they have names; null or empty: arg0, arg1, ...
  std::function<std::vector<std::string>(const void* params)> named_inputs;
  // Fills unknown types before the rules of SymbolTraits; null: they suffice.
  std::function<void(const void* params, KnownTypes in, KnownTypes out)> types;
  // Adds to shapes that are known in part; null: nothing can be added.
  std::function<void(const void* params, PartialShapes& shapes)> refine;
};

// Fills unknown types of a call by its traits; `op` is null for calls that have no schema.
void fill_types(const OpSchema* op, const SymbolRules& rules, const void* params, KnownTypes in,
                KnownTypes out);

// Rules that many operators share.
using RefineFn = void (*)(const void* params, PartialShapes& shapes);
void refine_all_alike(const void* params, PartialShapes& shapes);   // one shape for everything
void refine_like_first(const void* params, PartialShapes& shapes);  // output 0 is like input 0
void refine_batch_size(const void* params,
                       PartialShapes& shapes);  // axis 0 of output 0 and input 0

}  // namespace mxlite
