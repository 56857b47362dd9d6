// Samples of ImageRecordIter on the GPUs of the CUDA library.
#include "cpp/io/gpu/sample_device.h"

#include "cpp/core/cuda/accelerator.h"
#include "cpp/core/cuda/check.h"
#include "cpp/io/cuda/sample_kernel.h"

namespace mxlite::cuda {
namespace {

class CudaSampleDevice final : public io::SampleDevice {
 public:
  std::unique_ptr<Stream> make_stream(int device) override {
    auto& gpus = static_cast<CudaAccelerator&>(*accelerator());
    return std::make_unique<CudaStream>(device, gpus.pool(device).raw());
  }
  void* native(Stream& stream) override { return static_cast<CudaStream&>(stream).raw(); }
  void write_sample(Stream& stream, const io::SampleWork& work) override {
    const DeviceGuard guard(stream.device().index);
    launch_sample_kernel(static_cast<CudaStream&>(stream).raw(), work);
  }
};

// A static object instead of a call in the plug-in's entry: builds without OpenCV have no cpp/io.
struct Registered {
  Registered() { io::set_sample_device(new CudaSampleDevice); }
} const registered;

}  // namespace
}  // namespace mxlite::cuda
