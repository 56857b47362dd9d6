// A traced graph that is compiled for a recorded call. It has a forward executable that also
// returns the values that backward needs. It has one backward executable for each set of outputs to
// which gradients arrive.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/graph/gradient.h"
#include "cpp/graph/run/executable.h"

namespace mxlite::graph {

class RecordedGraph {
 public:
  // `needs` has an entry for each input, followed by an entry for each parameter.
  RecordedGraph(Graph traced, std::vector<uint8_t> needs, Device device);

  // Returns the forward executable. Its outputs are those of the block, followed by other saved
  // values.
  Executable& forward() const { return *forward_; }
  // Source of saved value i: an input of the graph, or an output of `forward`.
  struct Source {
    bool is_input = false;
    int index = 0;
  };
  const std::vector<Source>& saved() const { return saved_; }
  // Returns the parameters whose values any backward graph reads, except parameters that the graph
  // writes.
  const std::vector<int>& read_parameters() const { return read_parameters_; }

  struct Backward {
    ExecutableRef executable;
    std::vector<int> saved;  // positions in saved(), the executable's first inputs
    std::vector<int> heads;  // outputs to which gradients arrive
    std::vector<int> grads;  // like BackwardGraph::grads, but with outputs of the executable
  };
  // `heads` says for each output of the block whether a gradient arrives. If `last` is true, the
  // saved values are not needed again, so their memory is reused unless other objects refer to it.
  // Compiles on first use. Throws if a gradient would flow through an operator without a gradient
  // rule. Thread-safe.
  std::shared_ptr<const Backward> backward(std::span<const uint8_t> heads, bool last);

  // Like Executable::add_to, but counts forward and backward.
  void add_to(size_t& own, std::vector<std::pair<const void*, size_t>>& shared);
  void forget_packed();

  // Returns the graph as it was traced, with the operators that symbols may contain.
  const Graph& traced() const { return traced_; }
  // Returns the traced graph after Pipeline::kRecorded. Forward can be run again from this graph
  // node by node.
  const Graph& recorded() const { return recorded_; }
  size_t num_outputs() const { return recorded_.outputs.size(); }

 private:
  BackwardGraph backward_graph(std::span<const uint8_t> heads) const;
  std::shared_ptr<const Backward> compile(BackwardGraph graph, bool last) const;

  Graph traced_;
  Graph recorded_;
  Graph fused_;  // the compiled graph: recorded_ after Pipeline::kDifferentiated
  std::vector<uint8_t> needs_;
  Device device_;
  ExecutableRef forward_;
  std::vector<ValueId> saved_values_;
  std::vector<Source> saved_;
  std::vector<int> read_parameters_;
  BackwardGraph full_;  // the backward graph with gradients of all outputs

  std::mutex mutex_;
  std::vector<std::pair<std::vector<uint8_t>, std::shared_ptr<const Backward>>>
      backwards_;  // guarded by mutex_; the key consists of heads and last
};

}  // namespace mxlite::graph
