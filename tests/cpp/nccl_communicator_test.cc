// The NCCL communicator on the fake NCCL; the ranks are threads. tests/python/dist/test_nccl.py
// runs it between processes.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/fake_nccl/runtime.h"

namespace mxlite {
namespace {

template <class Fn>
void run_ranks(int ranks, Fn&& fn) {
  const DeviceBackend::UniqueId id = nccl::fake_backend().make_id();
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      DeviceRank me;
      me.rank = r;
      me.size = ranks;
      const auto group = nccl::fake_backend().join(id, me);
      fn(*group);
    });
  for (std::thread& thread : threads) thread.join();
}

float sum_of(Communicator& group, float value) {
  float total = 0;
  group.all_reduce(&value, &total, 1, DType::kFloat32, ReduceOp::kSum);
  group.barrier();
  return total;
}

TEST(NcclCommunicator, SplitsByColorAndOrdersByKey) {
  run_ranks(4, [](DeviceCommunicator& all) {
    const int rank = all.rank();
    const auto part = all.split(rank == 3 ? -1 : rank % 2, -rank);
    if (rank == 3) {
      EXPECT_EQ(part, nullptr);
    } else {
      EXPECT_EQ(part->size(), rank == 1 ? 1 : 2);
      EXPECT_EQ(part->rank(), rank == 0 ? 1 : 0);
      EXPECT_EQ(sum_of(*part, static_cast<float>(rank)), rank == 1 ? 1 : 2);
    }
    EXPECT_EQ(sum_of(all, 1), 4);
  });
}

TEST(NcclCommunicator, FailsWorkInFlightWithTheReason) {
  run_ranks(2, [](DeviceCommunicator& group) {
    if (group.rank() == 1) return;  // never calls what rank 0 waits for
    float value = 1;
    std::string text;
    std::thread::id thread;
    group.all_reduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum);
    group.when_done([&](std::exception_ptr error) {
      try {
        if (error) std::rethrow_exception(error);
      } catch (const Error& e) {
        text = e.what();
      }
      thread = std::this_thread::get_id();
    });
    EXPECT_TRUE(group.busy());
    group.fail_all("rank 1 is lost");
    while (group.busy()) std::this_thread::yield();
    EXPECT_EQ(text, "rank 1 is lost");
    EXPECT_NE(thread, std::this_thread::get_id());
    EXPECT_THROW(group.look(), Error);
    EXPECT_THROW(group.barrier(), Error);
  });
}

}  // namespace
}  // namespace mxlite
