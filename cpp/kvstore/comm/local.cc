// The communicator of a single process.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "cpp/kvstore/comm/communicator.h"
#include "cpp/kvstore/comm/failure_text.h"

namespace mxlite {
namespace {

void move_bytes(const void* input, void* output, size_t bytes) {
  if (input != output && bytes > 0) std::memcpy(output, input, bytes);
}

class LocalCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* backend() const override { return "local"; }
  void describe(std::string) override {}
  void all_reduce(const void* input, void* output, int64_t count, DType dtype, ReduceOp) override {
    check();
    move_bytes(input, output, static_cast<size_t>(count) * dtype_size(dtype));
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp) override {
    check();
    move_bytes(input, output, static_cast<size_t>(counts[0]) * dtype_size(dtype));
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    check();
    move_bytes(input, output, bytes[0]);
  }
  void broadcast(void*, size_t, int root) override {
    check();
    MX_CHECK(root == 0, "broadcast: root must be a rank below 1, got ", root);
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t>) override {
    check();
    move_bytes(input, output, send[0]);
  }
  void barrier() override { check(); }
  std::unique_ptr<Communicator> split(int color, int) override {
    check();
    return color < 0 ? nullptr : make_local_communicator();
  }
  void fail_all(const char* reason) noexcept override {
    std::lock_guard lock(mutex_);
    reason_.set(reason);
  }

 private:
  void check() {
    std::lock_guard lock(mutex_);
    if (reason_.is_set()) fail(ErrorKind::kCommunicator, reason_.get());
  }
  std::mutex mutex_;
  FailureText reason_;  // guarded by mutex_
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace mxlite
