// Work of a stream that is recorded once and then submitted repeatedly with one call (a CUDA
// graph). The recorded work contains addresses. The plug-in implements the recorder.
#pragma once
#include <functional>
#include <memory>

#include "cpp/core/random.h"
#include "cpp/core/stream.h"

namespace mxlite::graph {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Submits the recorded work to the stream. Its kernels read `random` from device memory.
  virtual void launch(Stream& stream, RandomState random) = 0;
};

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Called with a stream that records work instead of running it, and with the address of the
  // random state.
  using FillFn = std::function<void(Stream& stream, const RandomState* random)>;
  // `stream` provides handles and scratch memory for the work. Rethrows exceptions of `fill`.
  // Throws a device error if some work cannot be recorded; then no work has been submitted.
  virtual std::unique_ptr<DeviceGraph> record(Stream& stream, const FillFn& fill) = 0;
};

void set_graph_recorder(GraphRecorder* recorder);
GraphRecorder* graph_recorder();  // returns null if work is submitted step by step

}  // namespace mxlite::graph
