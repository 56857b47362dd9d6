// Tests the NCCL communicator with the fake NCCL, between threads. tests/python/dist/test_nccl.py
// runs it between processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/device_hierarchy.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"
#include "tests/cpp/errors.h"
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

TEST(NcclCommunicator, CollectivesAreSubmittedWithoutPolling) {
  std::barrier both(2);
  run_ranks(2, [&](DeviceCommunicator& group) {
    group.barrier();  // Connecting and barriers poll.
    both.arrive_and_wait();
    const int64_t before = fake_nccl::polls;
    std::vector<float> values(4, 1.0f);
    std::vector<float> all(8);
    for (int i = 0; i < 10; ++i) {
      group.all_reduce(values.data(), values.data(), 4, DType::kFloat32, ReduceOp::kSum);
      group.all_gather(values.data(), all.data(), std::vector<size_t>{16, 16});
      group.broadcast(all.data(), 8 * sizeof(float), 1);
    }
    group.stream().synchronize();
    EXPECT_EQ(fake_nccl::polls, before);
    EXPECT_EQ(all[0], 1024);
    both.arrive_and_wait();
  });
}

TEST(NcclCommunicator, FailsWorkInFlightWithTheReason) {
  run_ranks(2, [](DeviceCommunicator& group) {
    if (group.rank() == 1) return;  // never makes the call that rank 0 waits for
    float value = 1;
    std::string text;
    std::thread::id thread;
    group.all_reduce(&value, &value, 1, DType::kFloat32, ReduceOp::kSum);
    group.when_done([&](std::exception_ptr error) {
      text = error_of([&] {
        if (error) std::rethrow_exception(error);
      });
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

// -- several hosts ------------------------------------------------------------------------------

// Passes calls to shared memory, as if it were the network between hosts.
class Network final : public Communicator {
 public:
  explicit Network(std::unique_ptr<Communicator> group, bool takes)
      : group_(std::move(group)), takes_(takes) {}
  bool takes_gpu_memory() const override { return takes_; }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const char* backend() const override { return "network"; }
  void describe(std::string what) override { group_->describe(std::move(what)); }
  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    outputs.push_back(output);
    group_->all_reduce(input, output, count, dtype, op);
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    group_->reduce_scatter(input, output, counts, dtype, op);
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    group_->all_gather(input, output, bytes);
  }
  void broadcast(void* data, size_t bytes, int root) override {
    group_->broadcast(data, bytes, root);
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    if (takes_) inputs.push_back(input);
    group_->all_to_all(input, send, output, receive);
  }
  void barrier() override { group_->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return group_->split(color, key);
  }
  void fail_all(const char* reason) noexcept override { group_->fail_all(reason); }

  std::vector<void*> outputs;       // Outputs of all-reduces
  std::vector<const void*> inputs;  // Inputs of all_to_all

 private:
  std::unique_ptr<Communicator> group_;
  const bool takes_;
};

// Runs the ranks of hosts with these numbers of ranks. `network` connects the hosts, or is null.
std::atomic<bool> is_lost{false};  // a rank was lost, which every rank learns

using HierarchyBody = std::function<void(DeviceCommunicator&, Network* network)>;
void run_hosts(const std::vector<int>& hosts, bool takes_gpu_memory, const HierarchyBody& body) {
  is_lost = false;
  int size = 0;
  for (const int n : hosts) size += n;
  const bool even = std::all_of(hosts.begin(), hosts.end(), [&](int n) { return n == hosts[0]; });
  const auto segment = shm::SharedSegment::create_unnamed(size, size_t{64} << 10);
  std::vector<DeviceBackend::UniqueId> ids;
  for (size_t h = 0; h < hosts.size(); ++h) ids.push_back(nccl::fake_backend().make_id());
  std::vector<std::thread> threads;
  for (int h = 0, rank = 0; h < static_cast<int>(hosts.size()); ++h)
    for (int local = 0; local < hosts[static_cast<size_t>(h)]; ++local, ++rank)
      threads.emplace_back([&, h, local, rank] {
        DeviceHierarchy hierarchy;
        hierarchy.all = shm::make_communicator(segment, rank);
        hierarchy.even = even;
        if (takes_gpu_memory) hierarchy.direct = Device{};
        hierarchy.check_others = [] {
          if (is_lost) fail(ErrorKind::kCommunicator, "rank 3 is lost");
        };
        Network* network = nullptr;
        const bool crosses = even || local == 0;
        auto cross = hierarchy.all->split(crosses ? local : -1, rank);
        if (cross) {
          auto made = std::make_unique<Network>(std::move(cross), takes_gpu_memory);
          network = made.get();
          hierarchy.cross = std::move(made);
        }
        DeviceRank me;
        me.check_others = hierarchy.check_others;
        me.rank = local;
        me.size = hosts[static_cast<size_t>(h)];
        hierarchy.gpus = nccl::fake_backend().join(ids[static_cast<size_t>(h)], me);
        const auto group = make_device_hierarchy(std::move(hierarchy));
        body(*group, network);
      });
  for (std::thread& thread : threads) thread.join();
}

class Hosts : public testing::TestWithParam<std::tuple<std::vector<int>, bool>> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Hosts,
                         testing::Combine(testing::Values(std::vector{1, 1}, std::vector{2, 2},
                                                          std::vector{2, 1}, std::vector{1, 3},
                                                          std::vector{1, 1, 1}),
                                          testing::Bool()));

TEST_P(Hosts, AllCollectivesGiveWhatOneHostGives) {
  const auto& [hosts, takes_gpu_memory] = GetParam();
  run_hosts(hosts, takes_gpu_memory, [](DeviceCommunicator& group, Network*) {
    const int n = group.size(), rank = group.rank();
    const auto ranks = static_cast<size_t>(n);
    for (const int64_t count : {0, 1, 5, 70001}) {
      std::vector<float> in(static_cast<size_t>(count)), out(in.size());
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 13 + 100 * rank);
      group.all_reduce(in.data(), out.data(), count, DType::kFloat32, ReduceOp::kSum);
      group.all_reduce(in.data(), in.data(), count, DType::kFloat32, ReduceOp::kMax);
      group.barrier();
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(out[i], static_cast<float>(i % 13) * n + 50 * n * (n - 1));
        ASSERT_EQ(in[i], static_cast<float>(i % 13) + 100 * (n - 1));
      }
    }
    std::vector<float16> halves(1000, float16(static_cast<float>(rank + 1)));
    group.all_reduce(halves.data(), halves.data(), 1000, DType::kFloat16, ReduceOp::kSum);
    group.barrier();
    for (const float16 h : halves) ASSERT_EQ(static_cast<int>(h), n * (n + 1) / 2);
    std::vector<int32_t> product(11, rank + 1), least(11, rank + 1);
    group.all_reduce(product.data(), product.data(), 11, DType::kInt32, ReduceOp::kProduct);
    group.all_reduce(least.data(), least.data(), 11, DType::kInt32, ReduceOp::kMin);
    bool flags[] = {rank == n - 1, true, false};
    group.all_reduce(flags, flags, 3, DType::kBool, ReduceOp::kSum);
    group.barrier();
    int factorial = 1;
    for (int r = 1; r <= n; ++r) factorial *= r;
    for (const int32_t p : product) ASSERT_EQ(p, factorial);
    for (const int32_t l : least) ASSERT_EQ(l, 1);
    ASSERT_TRUE(flags[0] && flags[1] && !flags[2]);

    const int32_t mine = 10 + rank;
    std::vector<int32_t> all(ranks);
    group.all_gather(&mine, all.data(), std::vector<size_t>(ranks, sizeof mine));
    group.barrier();
    for (int r = 0; r < n; ++r) ASSERT_EQ(all[static_cast<size_t>(r)], 10 + r);
    int32_t part = 0;
    group.reduce_scatter(all.data(), &part, std::vector<int64_t>(ranks, 1), DType::kInt32,
                         ReduceOp::kSum);
    group.barrier();
    ASSERT_EQ(part, n * (10 + rank));
    for (int root = 0; root < n; ++root) {
      std::vector<double> values(3000, rank == root ? root + 0.5 : -1);
      group.broadcast(values.data(), values.size() * sizeof(double), root);
      group.barrier();
      for (const double v : values) ASSERT_EQ(v, root + 0.5);
    }
    std::vector<int32_t> sent(ranks), received(ranks);
    for (int r = 0; r < n; ++r) sent[static_cast<size_t>(r)] = 100 * rank + r;
    const std::vector<size_t> bytes(ranks, sizeof(int32_t));
    group.all_to_all(sent.data(), bytes, received.data(), bytes);
    group.barrier();
    for (int r = 0; r < n; ++r) ASSERT_EQ(received[static_cast<size_t>(r)], 100 * r + rank);
  });
}

TEST(DeviceHierarchy, TheNetworkGetsHostMemory) {
  run_hosts({2, 2}, false, [&](DeviceCommunicator& group, Network* network) {
    std::vector<float> values(1000, 1.0f);
    std::vector<float16> halves(1000, float16(1.0f));
    group.all_reduce(values.data(), values.data(), 1000, DType::kFloat32, ReduceOp::kSum);
    group.all_reduce(halves.data(), halves.data(), 1000, DType::kFloat16, ReduceOp::kSum);
    group.barrier();
    ASSERT_EQ(network->outputs.size(), 2u);
    const auto* const part = reinterpret_cast<float*>(network->outputs[0]);
    EXPECT_TRUE(part < values.data() || part >= values.data() + values.size());
    const auto* const half = reinterpret_cast<float16*>(network->outputs[1]);
    EXPECT_TRUE(half < halves.data() || half >= halves.data() + halves.size());
  });
}

TEST(DeviceHierarchy, ANetworkThatTakesThemGetsTheArraysOfGpus) {
  run_hosts({2, 2}, true, [&](DeviceCommunicator& group, Network* network) {
    std::vector<float> values(1000, 1.0f);
    group.all_reduce(values.data(), values.data(), 1000, DType::kFloat32, ReduceOp::kSum);
    group.barrier();
    for (const float v : values) ASSERT_EQ(v, 4);
    EXPECT_TRUE(network->outputs.empty());
    ASSERT_EQ(network->inputs.size(), 2u);  // to reduce, and to give the result to all
    const auto* const part = static_cast<const float*>(network->inputs[0]);
    EXPECT_EQ(part, values.data() + (group.rank() % 2) * 500);
  });
}

// Small arrays are reduced together in memory that the stream allocates for the call.
TEST_P(Hosts, ReducesScratchMemoryOfTheStream) {
  const auto& [hosts, takes_gpu_memory] = GetParam();
  run_hosts(hosts, takes_gpu_memory, [](DeviceCommunicator& group, Network*) {
    constexpr size_t kCount = 1000;
    const std::vector<float> ones(kCount, 1.0f);
    std::vector<float> sums(kCount);
    auto* const joined = static_cast<float*>(group.stream().scratch(kCount * sizeof(float)));
    group.stream().copy(joined, ones.data(), kCount * sizeof(float));
    group.all_reduce(joined, joined, kCount, DType::kFloat32, ReduceOp::kSum);
    group.stream().copy(sums.data(), joined, kCount * sizeof(float));
    group.barrier();
    for (const float sum : sums) ASSERT_EQ(sum, group.size());
  });
}

class LostNetwork : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(TakesGpuMemory, LostNetwork, testing::Bool());

TEST_P(LostNetwork, AFailureOfTheNetworkEndsAllRanks) {
  run_hosts({2, 2}, GetParam(), [](DeviceCommunicator& group, Network* network) {
    group.barrier();  // Every rank has joined before one is lost.
    if (group.rank() == 3) network->fail_all("rank 3 is lost");
    std::vector<float> values(10, 1.0f);
    const std::string text = error_of([&] {
      for (int i = 0; i < 100; ++i) {
        group.all_reduce(values.data(), values.data(), 10, DType::kFloat32, ReduceOp::kSum);
        group.barrier();
      }
    });
    is_lost = true;
    EXPECT_HAS(text, "rank 3 is lost");
    group.fail_all(text.c_str());
  });
}

}  // namespace
}  // namespace mxlite
