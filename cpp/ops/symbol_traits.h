// Traits of an operator that only symbols use: names of outputs, types that inputs and outputs
// share, and shapes that follow from other inputs or from outputs. OpBuilder sets them where the
// operator is declared; most operators have the defaults.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/core/shape.h"

namespace mxlite {

struct OpSchema;

// The shapes of one call, which may be partly unknown; a rule fills in what it can infer.
class PartialShapes {
 public:
  // Changes `inputs` and `outputs` in place. Error messages print unknown extents as `unknown`.
  PartialShapes(std::span<Shape> inputs, std::span<Shape> outputs, int64_t unknown)
      : inputs_(inputs), outputs_(outputs), unknown_(unknown) {}

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const Shape& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const Shape& output(int i) const { return outputs_[static_cast<size_t>(i)]; }
  // Fill unknown extents from `shape`, which may be unknown. Throw a shape error if extents differ.
  void refine_input(int i, const Shape& shape) { refine(inputs_[static_cast<size_t>(i)], shape); }
  void refine_output(int i, const Shape& shape) { refine(outputs_[static_cast<size_t>(i)], shape); }
  bool changed() const { return changed_; }

 private:
  void refine(Shape& known, const Shape& shape);

  std::span<Shape> inputs_, outputs_;
  int64_t unknown_;
  bool changed_ = false;
};

// Type of an input or output; nullopt if unknown.
using KnownType = std::optional<DType>;
using KnownTypes = std::span<KnownType>;

// Rules for the type of outputs in a symbol.
enum class OutputType : uint8_t {
  kShared,         // the inputs' type; unknown inputs get an output's type
  kOfInputs,       // the inputs' type; unknown inputs do not get an output's type
  kDtype,          // the parameter dtype, or float32
  kDtypeOrInputs,  // the parameter dtype, or the inputs' type
};

struct SymbolTraits {
  // The operator's name in MXNet 1.x's files; empty: the same name.
  std::string file_name = {};
  // Names of the first outputs. The other names are "output", or "output<i>" if there are several.
  std::vector<std::string> output_names = {};
  // Says whether a single input is shown under its own name, not as input0, as in MXNet 1.x.
  bool names_single_input = false;
  // The attribute that holds the number of a variadic operator's inputs in symbol files.
  std::string count_attribute = {};
  // For each input name: the __init__ attribute of the implicit variable for that input.
  std::map<std::string, std::string> input_init = {};
  // Inputs that are auxiliary states although the operator only reads them.
  std::vector<int> read_states = {};
  // Says whether backward ignores the shape of the output's gradient, because the output does not
  // depend on inputs.
  bool constant_output = false;
  // Says whether the operator makes an array and unknown extents of its `shape` are inferred from
  // the array's consumers.
  bool shape_from_users = false;
  // Says whether shapes of weights can be inferred even if the first input's shape is unknown.
  bool completes_without_data = false;
  // Inputs whose types are independent of the other inputs' types.
  std::vector<int> untied_inputs = {};
  bool all_inputs_untied = false;
  OutputType output_type = OutputType::kShared;
};

// The traits of an operator and its inference functions for symbols, each of which may be null.
struct SymbolRules : SymbolTraits {
  // Number of outputs in MXNet 1.9.1, including hidden ones, if it differs; null: the same.
  std::function<int(const void* params, int visible)> total_outputs;
  // Names of a variadic operator's inputs; null or empty: arg0, arg1, ...
  std::function<std::vector<std::string>(const void* params)> named_inputs;
  // Fills unknown types before the rules of SymbolTraits; null: these rules suffice.
  std::function<void(const void* params, KnownTypes in, KnownTypes out)> types;
  // Infers more of partly known shapes; null: nothing can be inferred.
  std::function<void(const void* params, PartialShapes& shapes)> refine;
};

// Fills unknown types of a call according to `rules`; `op` is null for calls without a schema.
void fill_types(const OpSchema* op, const SymbolRules& rules, const void* params, KnownTypes in,
                KnownTypes out);

// Rules that many operators share.
using RefineFn = void (*)(const void* params, PartialShapes& shapes);
// All inputs and outputs have one shape.
void refine_all_alike(const void* params, PartialShapes& shapes);
void refine_like_first(const void* params, PartialShapes& shapes);  // output 0 is like input 0
// Axis 0 of output 0 has the length of axis 0 of input 0.
void refine_batch_size(const void* params, PartialShapes& shapes);

}  // namespace mxlite
