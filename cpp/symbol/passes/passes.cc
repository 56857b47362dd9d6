#include "cpp/symbol/passes/passes.h"

#include <algorithm>
#include <array>

#include "cpp/graph/passes/passes.h"
#include "cpp/symbol/from_graph.h"
#include "cpp/symbol/listing.h"

namespace mxlite::symbol {
namespace {

constexpr std::array kPasses = {
    Pass{"mixed-precision", "casts the inputs of operators by their classes", mixed_precision},
    Pass{"lower-parameters", "gives parameters the type that all their users cast them to",
         lower_parameters},
    Pass{"remove-casts", "removes the casts of mixed precision, which files leave out",
         remove_casts},
    Pass{"quantize-layers",
         "replaces layers by operators on int8, between which floats are avoided", quantize_layers},
    Pass{"calibrate", "sets ranges, and lets layers store int8 where ranges are known", calibrate},
    Pass{"fold-parameters", "makes variables of quantized weights", fold_parameters},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

NodeOutputs run_pass(std::string_view name, const NodeOutputs& heads, const PassOptions& options) {
  const auto pass = std::ranges::find(kPasses, name, &Pass::name);
  MX_CHECK(pass != kPasses.end(), "run_symbol_pass: name must be the name of a pass, got '", name,
           "'");
  return from_graph(graph::run_pass(
      "symbol", pass->name, Listing(heads).graph,
      [&](const graph::Graph& graph) { return pass->run(graph, options); }, /*has_shapes=*/false));
}

}  // namespace mxlite::symbol
