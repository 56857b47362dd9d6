// Infers types and shapes of all values of a symbol, from inputs to outputs and from outputs to
// inputs. First infers types by the operators' traits, then infers shapes until nothing changes.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cpp/graph/walk.h"
#include "cpp/symbol/listing.h"

namespace mxlite::symbol {

// Notation of unknown dimensions. kZero uses 0, and () for an unknown number of axes. kNegative
// uses -1, and None for an unknown number of axes, as NumPy shapes do.
enum class UnknownExtent : int8_t { kZero = 0, kNegative = -1 };

// Parses a text such as "(2, 0)" or "None". Unknown dimensions become -1. Throws a value error that
// begins with `who`.
Shape parse_shape(const std::string& text, UnknownExtent unknown, const std::string& who);
// Returns the shape with -1 for unknown extents.
Shape known_shape(const Shape& given, UnknownExtent unknown);

// Returns the notation of unknown dimensions in the calling thread. The default is kZero; a higher
// layer may set a function.
UnknownExtent unknown_extent();
void set_unknown_extent(UnknownExtent (*of_thread)());

class Inference {
 public:
  // Known properties of a variable. They take precedence over the variable's attributes.
  struct Known {
    std::optional<Shape> shape;
    KnownType type;
  };
  Inference(const NodeOutputs& heads, const std::function<Known(const Node&)>& known,
            UnknownExtent unknown);
  // Known properties; the keys are the variables' names.
  using Shapes = std::map<std::string, Shape>;
  using Types = std::map<std::string, DType>;
  Inference(const NodeOutputs& heads, const Shapes& shapes, const Types& types,
            UnknownExtent unknown);

  // Infers types. Variables whose types stay unknown get `fallback`.
  void run_types(KnownType fallback);
  // Infers shapes. Throws a shape error that names the node if the shapes do not match.
  void run_shapes();

  const Listing& listing() const { return listing_; }
  const std::vector<NodeRef>& nodes() const { return listing_.nodes; }
  bool casts_precision() const;
  const Shape& shape(const Node& node, int output) const { return shapes_[slot(node, output)]; }
  KnownType type(const Node& node, int output) const { return types_[slot(node, output)]; }
  // Returns for each node whose shape its users determine a call with the inferred shape. Throws a
  // shape error if a shape is unknown.
  Calls completed_calls() const;

 private:
  struct InferredCall {
    const Call* call;
    const SymbolRules* traits;
    int32_t node;
    std::vector<graph::Route::Slot> in;
    size_t out;  // slot of the first output
    size_t outputs;
    bool done = false;
  };
  size_t slot(const Node& node, int output) const;
  bool spread_types();
  bool fill_types(const InferredCall& step);
  bool spread_shapes(InferredCall& step);
  bool complete_weights(const InferredCall& step);
  bool refine(const InferredCall& step);
  bool infer_known(const InferredCall& step);
  bool infer_partly(const InferredCall& step);
  // Sets the operators' default shapes for arrays whose shape is not determined otherwise.
  bool take_default_shapes();
  bool merge(size_t slot, const Shape& shape);
  bool is_known(const std::vector<graph::Route::Slot>& slots) const;
  bool is_complete(const InferredCall& step) const;
  Specs specs_of(const InferredCall& step) const;
  void at_node(const InferredCall& step, auto&& fn);

  Listing listing_;
  graph::ValueSlots slots_;
  UnknownExtent unknown_;
  std::vector<InferredCall> steps_;  // calls, in topological order
  std::vector<size_t> variables_;    // slots of the variables
  std::vector<Shape> shapes_;        // indexed by slot
  std::vector<KnownType> types_;
};

// Returns whether the call creates an array whose shape the users of the array determine.
bool shape_from_users(const Call& call, UnknownExtent unknown);

// Throws a shape error if the variable is an input of a graph that was traced with fixed shapes and
// if its shape has changed. Such a graph would compute wrong results.
void check_traced_shape(const Call& variable, const Shape& given);

}  // namespace mxlite::symbol
