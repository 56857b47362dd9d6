// Measures what the memory allows collectives between two processes of one machine: copies and sums
// of private arrays in huge pages on two threads at once, without any communication.
// memory_rates.py compiles and runs it.
//
// Each thread has a core and arrays of its own. A copy reads and writes an array, a sum reads two
// arrays and writes one, as reduce-scatter does. Both write past the caches and read several pages
// in turn, some bytes ahead; all combinations take turns. Rates count bytes that are read and
// written, on each core; medians of the slower thread. `of_copy` is the rate of a sum over that of
// the best copy: the largest share of the copy limit (collectives.py) that reduce-scatter can have.
// Prints a JSON object.
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kBytes = size_t{128} << 20, kPage = 4096, kLine = 64, kHugePage = size_t{2} << 20;
constexpr int kThreads = 2, kRounds = 31;

struct Arrays {
  char *output, *first, *second;
};

// Starts `offset` bytes after a huge page, so that arrays do not share sets of the caches.
char* make_array(size_t offset) {
  const size_t bytes = kBytes + kHugePage;
  char* const memory = static_cast<char*>(std::aligned_alloc(kHugePage, bytes));
  if (!memory) std::exit(1);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory + offset;
}

template <int inputs, size_t pages, size_t ahead_bytes>
void pass(const Arrays& a) {
  constexpr size_t kGroup = pages * kPage;
  for (size_t group = 0; group < kBytes; group += kGroup)
    for (size_t i = 0; i < kPage; i += kLine) {
      const size_t ahead = i + ahead_bytes < kPage ? ahead_bytes : ahead_bytes + kGroup - kPage;
      for (size_t page = 0; page < pages; ++page) {
        const size_t at = group + page * kPage + i;
        __m512 value = _mm512_loadu_ps(a.first + at);
        if (ahead_bytes > 0) _mm_prefetch(a.first + at + ahead, _MM_HINT_T0);
        if constexpr (inputs == 2) {
          value = _mm512_add_ps(value, _mm512_loadu_ps(a.second + at));
          if (ahead_bytes > 0) _mm_prefetch(a.second + at + ahead, _MM_HINT_T0);
        }
        _mm512_stream_ps(reinterpret_cast<float*>(a.output + at), value);
      }
    }
  _mm_sfence();
}

struct Case {
  int inputs;
  size_t pages, ahead;
  void (*run)(const Arrays&);
};
template <int inputs, size_t pages, size_t ahead>
constexpr Case make_case() {
  return {inputs, pages, ahead, pass<inputs, pages, ahead>};
}
constexpr std::array kCases = {
    make_case<1, 1, 0>(),    make_case<1, 4, 512>(),  make_case<1, 4, 1024>(),
    make_case<1, 8, 512>(),  make_case<2, 1, 0>(),    make_case<2, 1, 512>(),
    make_case<2, 1, 1024>(), make_case<2, 2, 512>(),  make_case<2, 2, 1024>(),
    make_case<2, 4, 512>(),  make_case<2, 4, 1024>(), make_case<2, 8, 512>(),
};

}  // namespace

int main() {
  using Clock = std::chrono::steady_clock;
  std::barrier meeting(kThreads);
  std::array<double, kThreads> seconds{};
  std::array<std::vector<double>, kCases.size()> slowest;
  const auto work = [&](int rank) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(rank, &core);
    sched_setaffinity(0, sizeof core, &core);
    const Arrays arrays{make_array(29 * kLine), make_array(0), make_array(7 * kLine)};
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < kCases.size(); ++i) {
        meeting.arrive_and_wait();
        const auto begin = Clock::now();
        kCases[i].run(arrays);
        seconds[static_cast<size_t>(rank)] =
            std::chrono::duration<double>(Clock::now() - begin).count();
        meeting.arrive_and_wait();
        if (rank == 0) slowest[i].push_back(*std::max_element(seconds.begin(), seconds.end()));
      }
  };
  std::thread other(work, 1);
  work(0);
  other.join();

  std::array<double, kCases.size()> rates{};
  double copy = 0;
  for (size_t i = 0; i < kCases.size(); ++i) {
    std::nth_element(slowest[i].begin(), slowest[i].begin() + kRounds / 2, slowest[i].end());
    rates[i] = (kCases[i].inputs + 1) * static_cast<double>(kBytes) / slowest[i][kRounds / 2];
    if (kCases[i].inputs == 1) copy = std::max(copy, rates[i]);
  }
  std::printf("{\"threads\": %d, \"bytes_of_an_array\": %zu, \"rounds\": %d, \"results\": [",
              kThreads, kBytes, kRounds);
  for (size_t i = 0; i < kCases.size(); ++i)
    std::printf(
        "%s\n  {\"kernel\": \"%s\", \"pages_in_turn\": %zu, \"bytes_ahead\": %zu, "
        "\"bytes_per_second\": %.4g, \"of_copy\": %.3f}",
        i ? "," : "", kCases[i].inputs == 1 ? "copy" : "sum", kCases[i].pages, kCases[i].ahead,
        rates[i], rates[i] / copy);
  std::printf("\n]}\n");
}
