// Tests the memory in which ranks show the inputs of small collectives. Ranks are threads with one
// segment of memory.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "cpp/kvstore/comm/shm/shm_communicator.h"
#include "cpp/kvstore/comm/shm/slot_ring.h"

namespace mxlite::shm {
namespace {

// A rank that cannot find the memory of rank 0, as if it had another /dev/shm.
class BlindGroup final : public Communicator {
 public:
  explicit BlindGroup(Communicator& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  const char* backend() const override { return group_.backend(); }
  void describe(std::string what) override { group_.describe(std::move(what)); }
  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    group_.all_reduce(input, output, count, dtype, op);
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    group_.reduce_scatter(input, output, counts, dtype, op);
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    group_.all_gather(input, output, bytes);
  }
  void broadcast(void* data, size_t bytes, int root) override {
    group_.broadcast(data, bytes, root);
    auto& name = *static_cast<SegmentName*>(data);
    ASSERT_EQ(bytes, sizeof name);
    if (rank() == 1) std::strncpy(name.name, "/mxlite-no-such-memory", sizeof name.name - 1);
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    group_.all_to_all(input, send, output, receive);
  }
  void barrier() override { group_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return group_.split(color, key);
  }
  void fail_all(const char* reason) noexcept override { group_.fail_all(reason); }

 private:
  Communicator& group_;
};

TEST(SlotRing, AllRanksGiveSlotsUpIfOneCannotMapThem) {
  constexpr int kRanks = 3;
  const auto segment = SharedSegment::create_unnamed(kRanks, size_t{64} << 10);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      const auto group = make_communicator(segment, r);
      BlindGroup blind(*group);
      EXPECT_EQ(SlotRing::make(blind), nullptr) << "rank " << r;
      EXPECT_NE(SlotRing::make(*group), nullptr) << "rank " << r;  // the group still works
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mxlite::shm
