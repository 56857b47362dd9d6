// Calls compiled graphs. Each call is one node on the tape.
#pragma once
#include "cpp/autograd/tape.h"
#include "cpp/graph/cached_graph.h"

namespace mxlite::autograd {

// Calls a hybridized block. If a trace is running, adds the block's operators to the trace.
NDArrays call(graph::CachedGraph& graph, std::span<const NDArrayRef> inputs,
              engine::Origin origin = {});

// Returns whether any node of the graph changes this input or parameter in place.
bool is_written(const graph::Graph& g, int32_t node);

// Backward runs a separate executable. With create_graph, backward instead runs the traced
// operators again one by one with the same inputs and random numbers. It records these calls on the
// tape and differentiates them.
class GraphNode final : public TapeNode {
 public:
  GraphNode(const std::string& name, graph::CachedGraph::Ready ready,
            std::span<const NDArrayRef> inputs, std::span<const NDArrayRef> outputs,
            RandomState random);

  const char* name() const override { return name_.c_str(); }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                   std::span<const uint8_t> needs) override;
  std::vector<NDArrayRef> last_backward(std::span<const NDArrayRef> output_grads,
                                        std::span<const uint8_t> needs,
                                        std::span<const NDArrayRef> into) override;
  std::vector<size_t> gradient_order() const override { return gradient_order_; }
  void release_saved() override;

  // Returns the operators of this call, or null after release_saved.
  const graph::Graph* traced() const {
    return ready_.entry ? &ready_.entry->recorded->traced() : nullptr;
  }

 private:
  std::vector<NDArrayRef> run_backward(std::span<const NDArrayRef> output_grads,
                                       std::span<const uint8_t> needs,
                                       std::span<const NDArrayRef> into, bool last);
  // `read_values` are positions in saved_. See Note [Overwritten values].
  void check_versions(std::span<const int> read_values) const;
  std::vector<NDArrayRef> replay(std::span<const NDArrayRef> output_grads,
                                 std::span<const uint8_t> needs);

  std::string name_;
  graph::CachedGraph::Ready ready_;
  std::vector<NDArrayRef> inputs_;
  std::vector<NDArrayRef> saved_;             // same order as RecordedGraph::saved()
  std::vector<uint64_t> saved_versions_;      // versions of their storages at the time of recording
  std::vector<uint64_t> parameter_versions_;  // versions of RecordedGraph::read_parameters()
  RandomState random_;
  std::vector<size_t> gradient_order_;  // empty unless notes_order()
};

}  // namespace mxlite::autograd
