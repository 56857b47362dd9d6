// CUDA graphs. Work is captured on a separate stream and launched on the device's compute stream.
#pragma once
#include "cpp/graph/run/device_graph.h"

namespace mxlite::cuda {

class CudaGraphRecorder final : public graph::GraphRecorder {
 public:
  std::unique_ptr<graph::DeviceGraph> record(Stream& stream, const FillFn& fill) override;
};

}  // namespace mxlite::cuda
