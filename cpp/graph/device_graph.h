// Work of a stream that is recorded once and then given again in one call (a CUDA graph). Addresses
// are part of the record. The plug-in brings the recorder.
#pragma once
#include <functional>
#include <memory>

#include "cpp/core/random.h"
#include "cpp/core/stream.h"

namespace mxlite::graph {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Gives the recorded work to the stream; `random` is what its kernels find in device memory.
  virtual void launch(Stream& stream, RandomState random) = 0;
};

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Gets a stream whose work is recorded instead of run, and where the random state will be.
  using FillFn = std::function<void(Stream& stream, const RandomState* random)>;
  // `stream`: whose handles and scratch memory the work uses. Throws what `fill` throws, and a
  // device error when some work cannot be recorded; then nothing has been given to any stream.
  virtual std::unique_ptr<DeviceGraph> record(Stream& stream, const FillFn& fill) = 0;
};

void set_graph_recorder(GraphRecorder* recorder);
GraphRecorder* graph_recorder();  // null: work is given step by step

}  // namespace mxlite::graph
