// Samples of ImageRecordIter on the simulated GPU: the kernel of the CUDA backend on the emulator.
#include "cpp/io/gpu/sample_device.h"

#include "cpp/io/cuda/sample_kernel.h"
#include "tests/cpp/fake_gpu/kernels.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite {
namespace {

class FakeSampleDevice final : public io::SampleDevice {
 public:
  std::unique_ptr<Stream> make_stream(int device) override {
    return std::make_unique<FakeStream>(device, /*seed=*/91);
  }
  void* native(Stream& stream) override { return static_cast<FakeStream*>(&stream); }
  void write_sample(Stream& stream, const io::SampleWork& work) override {
    static_cast<FakeStream&>(stream).give(
        [work] { run_own("write_sample", [&] { cuda::launch_sample_kernel(nullptr, work); }); });
  }
};

struct Registered {
  Registered() { io::set_sample_device(new FakeSampleDevice); }
} const registered;

}  // namespace
}  // namespace mxlite
