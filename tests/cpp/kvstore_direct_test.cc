// Tests collectives on arrays that all ranks have mapped: results are the same as through buffers,
// and memory stays unchanged for forks and for its next users.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/core/allocator.h"
#include "cpp/core/cpu/shared_memory.h"
#include "cpp/core/half.h"
#include "cpp/kvstore/comm/shm/direct.h"
#include "cpp/kvstore/comm/shm/peer_memory.h"
#include "tests/cpp/shm_ranks.h"

namespace mxlite {
namespace {

constexpr int64_t kCount = 700001;  // 2.8 MB, no multiple of anything

template <class T>
class Array {
 public:
  explicit Array(int64_t count)
      : block_(cpu_allocator().allocate(static_cast<size_t>(count) * sizeof(T))), count_(count) {}
  ~Array() { cpu_allocator().free(block_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() const { return static_cast<T*>(block_.data); }
  T& operator[](int64_t i) const { return data()[i]; }
  bool shared() const { return SharedMemory::get().place_of(block_.data, block_.bytes).file >= 0; }
  int64_t size() const { return count_; }

 private:
  Block block_;
  int64_t count_;
};

float value(int rank, int64_t i) {
  return 1.0f / static_cast<float>(i % 1013 + 3 + int64_t{rank} * 7);
}
float sum(int ranks, int64_t i) {
  float total = value(0, i);
  for (int r = 1; r < ranks; ++r) total += value(r, i);
  return total;
}

class DirectRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, DirectRanks, testing::Values(2, 3, 4));

TEST_P(DirectRanks, AllReduceOfArraysThatComeAgainIsThatOfBuffers) {
  const int ranks = GetParam();
  on_shared_memory(ranks, [&](Communicator& group) {
    Array<float> in(kCount), out(kCount);
    for (int round = 0; round < 4; ++round) {
      for (int64_t i = 0; i < kCount; ++i) in[i] = value(group.rank(), i), out[i] = -1;
      group.all_reduce(in.data(), out.data(), kCount, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(out[i], sum(ranks, i)) << "element " << i << " in round " << round;
        ASSERT_EQ(in[i], value(group.rank(), i));
      }
    }
    EXPECT_TRUE(in.shared());
    EXPECT_TRUE(out.shared());
  });
}

TEST_P(DirectRanks, InPlaceOnOneRankAndWithinABlock) {
  const int ranks = GetParam();
  on_shared_memory(ranks, [&](Communicator& group) {
    Array<float> all(2 * kCount), other(kCount);
    float* mine = all.data() + 13 * group.rank();  // lines that differ by rank
    float* result = group.rank() == 1 ? other.data() : mine;
    for (int round = 0; round < 3; ++round) {
      std::fill_n(all.data(), 2 * kCount, 77.0f);
      for (int64_t i = 0; i < kCount; ++i) mine[i] = value(group.rank(), i);
      group.all_reduce(mine, result, kCount, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], sum(ranks, i)) << "element " << i;
      if (group.rank() > 0) {
        ASSERT_EQ(mine[-1], 77.0f);
      }
      ASSERT_EQ(mine[kCount], 77.0f);
    }
  });
}

TEST_P(DirectRanks, OtherTypesAndReductions) {
  const int ranks = GetParam();
  on_shared_memory(ranks, [&](Communicator& group) {
    Array<float16> half(kCount);
    Array<int32_t> whole(kCount);
    for (int round = 0; round < 3; ++round) {
      for (int64_t i = 0; i < kCount; ++i) {
        half[i] = float16(group.rank() == 0 ? 2048.0f : 1.0f);
        whole[i] = static_cast<int32_t>(i) * (group.rank() == 1 ? -1 : 1);
      }
      group.all_reduce(half.data(), half.data(), kCount, DType::kFloat16, ReduceOp::kSum);
      group.all_reduce(whole.data(), whole.data(), kCount, DType::kInt32, ReduceOp::kMin);
      const float16 expected(2048.0f + static_cast<float>(ranks - 1));
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(static_cast<float>(half[i]), static_cast<float>(expected));
        ASSERT_EQ(whole[i], -static_cast<int32_t>(i));
      }
    }
  });
}

TEST_P(DirectRanks, GatherAndBroadcast) {
  const int ranks = GetParam();
  on_shared_memory(ranks, [&](Communicator& group) {
    const int me = group.rank();
    Array<float> mine(kCount), all(kCount * ranks), weights(kCount);
    const std::vector<size_t> bytes(static_cast<size_t>(ranks), kCount * sizeof(float));
    for (int round = 0; round < 3; ++round) {
      for (int64_t i = 0; i < kCount; ++i) {
        mine[i] = value(me, i + round);
        weights[i] = me == 1 ? value(9, i + round) : 0;
      }
      group.all_gather(mine.data(), all.data(), bytes);
      group.broadcast(weights.data(), kCount * sizeof(float), 1);
      for (int r = 0; r < ranks; ++r)
        for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(all[r * kCount + i], value(r, i + round));
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(weights[i], value(9, i + round));
    }
  });
}

TEST_P(DirectRanks, ReduceScatterOfUnevenParts) {
  const int ranks = GetParam();
  on_shared_memory(ranks, [&](Communicator& group) {
    const int me = group.rank();
    std::vector<int64_t> counts(static_cast<size_t>(ranks), 300001);
    counts[0] = 400003;
    counts.back() = 7;
    int64_t total = 0, first = 0;
    for (int r = 0; r < ranks; ++r) {
      if (r < me) first += counts[static_cast<size_t>(r)];
      total += counts[static_cast<size_t>(r)];
    }
    const int64_t mine = counts[static_cast<size_t>(me)];
    Array<float> in(total), out(mine + 1), whole(total);
    for (int round = 0; round < 4; ++round) {
      for (int64_t i = 0; i < total; ++i) in[i] = value(me, i + round);
      std::fill_n(out.data(), mine + 1, -1.0f);
      group.reduce_scatter(in.data(), out.data(), counts, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < mine; ++i)
        ASSERT_EQ(out[i], sum(ranks, first + i + round))
            << "element " << i << " in round " << round;
      ASSERT_EQ(out[mine], -1.0f);
      for (int64_t i = 0; i < total; ++i) ASSERT_EQ(in[i], value(me, i + round));
      // Only the last rank reduces in place. So all ranks use buffers, and results stay the same.
      for (int64_t i = 0; i < total; ++i) whole[i] = value(me, i + round);
      float* result = me == ranks - 1 ? whole.data() : out.data();
      group.reduce_scatter(whole.data(), result, counts, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < mine; ++i) ASSERT_EQ(result[i], sum(ranks, first + i + round));
    }
    EXPECT_TRUE(in.shared());
  });
}

TEST(Direct, OneRankWithoutSharedMemoryMakesAllUseBuffers) {
  on_shared_memory(2, [&](Communicator& group) {
    Array<float> block(kCount);
    std::vector<float> heap(kCount);
    float* data = group.rank() == 0 ? block.data() : heap.data();
    for (int round = 0; round < 4; ++round) {
      for (int64_t i = 0; i < kCount; ++i) data[i] = value(group.rank(), i);
      group.all_reduce(data, data, kCount, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], sum(2, i));
    }
  });
}

TEST(SharedMemoryTest, BlocksKeepTheirValuesAndAreGivenBack) {
  SharedMemory& memory = SharedMemory::get();
  cpu_allocator().release_cached();
  const size_t before = memory.shared_bytes(), bytes = size_t{3} << 20;
  const Block block = cpu_allocator().allocate(bytes);
  auto* data = static_cast<unsigned char*>(block.data);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(i * 31);
  EXPECT_LT(memory.place_of(data, bytes).file, 0);  // arrays are mapped when they are seen again
  EXPECT_GE(memory.place_of(data, bytes).file, 0);
  EXPECT_EQ(memory.place_of(data + 5, 10).offset, memory.place_of(data, bytes).offset + 5);
  EXPECT_LT(memory.place_of(data, size_t{5} << 20).file, 0);  // the range ends after the block
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], static_cast<unsigned char>(i * 31));
  EXPECT_GE(memory.shared_bytes(), before + bytes);
  memory.make_private(data);
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], static_cast<unsigned char>(i * 31));
  EXPECT_EQ(memory.shared_bytes(), before);
  memory.place_of(data, bytes);
  EXPECT_GE(memory.place_of(data, bytes).file, 0);
  cpu_allocator().free(block);
  cpu_allocator().release_cached();
  EXPECT_EQ(memory.shared_bytes(), before);
}

// Returns the kilobytes of huge pages in a mapping of shared memory around `data`.
int64_t huge_kilobytes(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(data);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    long long huge = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
      inside = begin <= address && address < end;
    else if (inside && std::sscanf(line.c_str(), "ShmemPmdMapped: %lld kB", &huge) == 1)
      return huge;
  }
  return 0;
}

// Returns why the kernel gives no huge pages to shared memory, or "" if it must.
std::string reason_for_small_pages() {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string choices;
  if (!std::getline(setting, choices)) return "the kernel has no huge pages of shared memory";
  if (choices.find("[deny]") != std::string::npos) return "shmem_enabled is deny";
  const int file = memfd_create("probe", MFD_CLOEXEC);
  std::byte* const data =
      ftruncate(file, kHugePage) == 0 ? map_aligned(kHugePage, MAP_SHARED, file, 0) : nullptr;
  if (!data) {
    ADD_FAILURE() << "a probe of " << kHugePage << " bytes: " << std::strerror(errno);
    if (file >= 0) close(file);
    return "";
  }
  *data = std::byte{1};
  const int error = madvise(data, kHugePage, kCollapse) == 0 ? 0 : errno;
  munmap(data, kHugePage);
  close(file);
  if (error == 0) return "";
  utsname kernel{};
  int major = 0, minor = 0;
  if (uname(&kernel) == 0 && std::sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
      std::pair(major, minor) < std::pair(6, 1))
    return std::string("Linux ") + kernel.release + " has no MADV_COLLAPSE";
  // The kernel has no free huge page now, or is busy with the pages.
  if (error == ENOMEM || error == EAGAIN || error == EBUSY)
    return std::string("no huge page is free: ") + std::strerror(error);
  ADD_FAILURE() << "MADV_COLLAPSE on Linux " << kernel.release << ": " << std::strerror(error);
  return "";
}

TEST(SharedMemoryTest, BlocksAndTheMemoryOfPeersLieInHugePages) {
  const std::string reason = reason_for_small_pages();
  if (!reason.empty()) GTEST_SKIP() << reason;
  constexpr int64_t kHugePages = 3, kFloats = kHugePages * int64_t{kHugePage} / 4;
  Array<float> array(kFloats);
  for (int64_t i = 0; i < kFloats; ++i) array[i] = value(0, i);
  SharedPlace place;
  for (int i = 0; i < 2; ++i)
    place = SharedMemory::get().place_of(array.data(), static_cast<size_t>(kFloats) * 4);
  ASSERT_GE(place.file, 0);
  // The system may have no more than one free huge page.
  EXPECT_GE(huge_kilobytes(array.data()), int64_t{kHugePage} / 1024);
  shm::PeerMemory peers(1);
  ASSERT_TRUE(peers.reach(0, place));
  const auto* const seen = reinterpret_cast<const float*>(peers.at(0, place));
  for (int64_t i = 0; i < kFloats; ++i) ASSERT_EQ(seen[i], value(0, i)) << "element " << i;
  EXPECT_GE(huge_kilobytes(seen), int64_t{kHugePage} / 1024);
}

TEST(SharedMemoryTest, WhatAForkWritesStaysInTheFork) {
  SharedMemory& memory = SharedMemory::get();
  Array<int32_t> array(kCount);
  for (int64_t i = 0; i < kCount; ++i) array[i] = static_cast<int32_t>(i);
  memory.place_of(array.data(), sizeof(int32_t));
  ASSERT_GE(memory.place_of(array.data(), sizeof(int32_t)).file, 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int64_t i = 0; i < kCount; ++i)
      if (array[i] != static_cast<int32_t>(i)) _exit(1);
    std::memset(array.data(), 0xff, kCount * sizeof(int32_t));
    _exit(memory.shared_bytes() == 0 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(array[i], static_cast<int32_t>(i));
}

// The late rank has begun the operation before the job fails, and all others wait for it.
TEST(Direct, ARankThatFailsWhileItWaitsForALateOneKeepsItsMemory) {
  const auto segment = shm::SharedSegment::create_unnamed(2, kSharedBuffer);
  constexpr size_t kBytes = kCount * sizeof(float);
  std::promise<void> has_failed, is_done;
  const auto body = [&](int rank) {
    shm::Channel channel(segment, rank);
    channel.wait_arrival();
    shm::DirectCollectives direct(channel);
    Array<float> array(kCount);
    const auto begin = [&] {
      std::fill_n(array.data(), kCount, 7.0f);
      channel.begin({shm::Call::kAllReduce, DType::kFloat32, 0, kBytes});
    };
    const auto reduce = [&] {
      return direct.all_reduce(array.data(), array.data(), kCount, DType::kFloat32, ReduceOp::kSum);
    };
    for (int round = 0; round < 3; ++round) {
      begin();
      if (!reduce())
        shm::all_reduce(channel, array.data(), array.data(), kCount, DType::kFloat32,
                        ReduceOp::kSum);
      ASSERT_EQ(array[kCount - 1], 14.0f);
    }
    ASSERT_TRUE(array.shared());
    begin();
    if (rank == 0) {
      EXPECT_THROW(reduce(), Error);
      has_failed.set_value();
      is_done.get_future().wait();
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(array[i], 7.0f) << "element " << i;
      return;
    }
    while (!channel.come(0, channel.step() + 1)) std::this_thread::yield();
    segment->fail_all("another rank is lost");
    has_failed.get_future().wait();
    EXPECT_THROW(reduce(), Error);
    is_done.set_value();
  };
  std::thread late(body, 1);
  body(0);
  late.join();
}

TEST(Direct, SurvivorsOfAKilledRankRaiseAndKeepTheirMemory) {
  const auto segment = shm::SharedSegment::create_unnamed(2, kSharedBuffer);
  const pid_t child = fork();
  const auto body = [&](int rank) {
    const auto group = shm::make_communicator(segment, rank);
    Array<float> array(kCount);
    for (int round = 0;; ++round) {
      for (int64_t i = 0; i < kCount; ++i) array[i] = value(rank, i);
      if (round == 3 && rank == 1) kill(getpid(), SIGKILL);
      if (round == 3) {
        EXPECT_THROW(
            group->all_reduce(array.data(), array.data(), kCount, DType::kFloat32, ReduceOp::kSum),
            Error);
        for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(array[i], value(rank, i));
        return;
      }
      group->all_reduce(array.data(), array.data(), kCount, DType::kFloat32, ReduceOp::kSum);
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(array[i], sum(2, i));
    }
  };
  body(child == 0 ? 1 : 0);
  if (child == 0) _exit(1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace mxlite
