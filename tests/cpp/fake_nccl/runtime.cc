// The CUDA library as the NCCL communicator uses it, on fake streams and host memory.
#include "tests/cpp/fake_nccl/runtime.h"

#include <cstring>

#include "cpp/kvstore/comm/nccl/nccl_communicator.h"
#include "cpp/kvstore/comm/reduce.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite::nccl {
namespace {

class FakeRuntime final : public Runtime {
 public:
  std::string physical_id(int device) override { return str("fake:", device); }
  std::unique_ptr<Stream> make_stream(int device) override {
    return std::make_unique<FakeStream>(device, /*seed=*/77);
  }
  cudaStream_t raw(Stream& stream) override { return reinterpret_cast<cudaStream_t>(&stream); }
  void use(int) override {}
  void scale(Stream& stream, void* data, int64_t count, DType dtype, double factor) override {
    static_cast<FakeStream&>(stream).give([=] { scale_buffer(data, count, dtype, factor); });
  }
  void combine(Stream& stream, void* data, const void* other, int64_t count, DType dtype,
               ReduceOp op) override {
    static_cast<FakeStream&>(stream).give([=] {
      const void* const inputs[] = {data, other};
      reduce_buffers(inputs, data, count, dtype, op);
    });
  }
  void clear(Stream& stream, void* data, size_t bytes) override {
    static_cast<FakeStream&>(stream).give([=] { std::memset(data, 0, bytes); });
  }
};

}  // namespace

DeviceBackend& fake_backend() {
  static FakeRuntime& runtime = *new FakeRuntime;
  static DeviceBackend& backend = *make_nccl_backend(runtime).release();
  return backend;
}

}  // namespace mxlite::nccl
