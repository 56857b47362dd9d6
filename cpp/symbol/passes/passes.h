// The passes over symbols. Each pass is a free function in a file of its own, and rewrites a graph
// whose shapes may be unknown, with graph::Rewrite. The table in passes.cc lists all passes. Unlike
// passes of compiled graphs, these passes change the meaning of a symbol, so each pass runs only on
// request.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cpp/graph/graph.h"
#include "cpp/ops/amp.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

// Options of the passes that quantize a network.
struct Quantization {
  std::string dtype = "int8";  // out_type of the nodes that quantize: int8, uint8 or auto
  // Whether layers other than products are quantized only between quantized layers.
  bool smart = false;
  bool channel_wise = false;      // whether a linear layer has a separate scale for each output
  bool calibrated = false;        // whether the pass calibrate will set the ranges
  std::set<std::string> without;  // operators that stay in float32
  std::set<std::string> parameters;
  std::map<std::string, std::pair<float, float>> ranges;  // keys: output or variable names
};

struct PassOptions {
  std::shared_ptr<const amp::Rules> precision;  // required by mixed-precision passes
  std::set<std::string> kept;                   // names of nodes that the pass must not change
  std::shared_ptr<const Quantization> quantization = nullptr;  // required by passes of quantization
};

// Operators in `kept` run in float32.
graph::Graph mixed_precision(const graph::Graph& graph, const PassOptions& options);
// Variables in `kept` are data, and their types do not change.
graph::Graph lower_parameters(const graph::Graph& graph, const PassOptions& options);
graph::Graph remove_casts(const graph::Graph& graph, const PassOptions& options);
// Layers in `kept` stay in float32. Results with kCalibrationName need ranges, and results with
// kOffline depend only on parameters.
graph::Graph quantize_layers(const graph::Graph& graph, const PassOptions& options);
graph::Graph calibrate(const graph::Graph& graph, const PassOptions& options);
graph::Graph fold_parameters(const graph::Graph& graph, const PassOptions& options);
// Name of an attribute. Its value is the name of the float output whose range the node needs.
inline constexpr const char* kCalibrationName = "__calibration_name__";
// Name of an attribute of nodes that become parameters.
inline constexpr const char* kOffline = "__offline__";

struct Pass {
  const char* name;
  const char* purpose;
  graph::Graph (*run)(const graph::Graph& graph, const PassOptions& options);
};
std::span<const Pass> passes();

// Returns a new symbol whose nodes keep their names, lines and attributes. MXLITE_VERBOSE,
// MXLITE_DUMP_GRAPH and MXLITE_VERIFY_GRAPH have the same effect as in graph::run_passes. Throws a
// value error if no pass has this name.
NodeOutputs run_pass(std::string_view name, const NodeOutputs& heads,
                     const PassOptions& options = {});

// If mixed precision is on, adds the casts of the pass mixed-precision to a new node. `name`
// returns the name of a cast for its operator.
void cast_inputs(Node& node, const std::function<std::string(const std::string& op)>& name);

}  // namespace mxlite::symbol
