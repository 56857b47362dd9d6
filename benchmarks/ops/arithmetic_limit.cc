// Measures how many float32 multiply-adds the cores can do: independent sums in registers, without
// any memory. arithmetic_limit.py compiles and runs it.
//   arithmetic_limit <threads>
// Prints {"flop": F, "seconds": S, "lanes": L}: what all threads did together, and the time of the
// slowest.
#include <immintrin.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
using Vec = __m512;
Vec fill(float v) { return _mm512_set1_ps(v); }
Vec madd(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#else
constexpr int kLanes = 8;
using Vec = __m256;
Vec fill(float v) { return _mm256_set1_ps(v); }
Vec madd(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#endif

constexpr int kSums = 12;  // more than the latency of an addition times the units
constexpr int64_t kSteps = int64_t{1} << 26;

double seconds_of_loop() {
  Vec sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = fill(0.001f * static_cast<float>(i));
  const Vec factor = fill(0.999f), added = fill(1.0001f);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = madd(sums[i], factor, added);
    asm volatile("" : : "x"(sums[0]));  // the loop may not be left out
  }
  const auto end = std::chrono::steady_clock::now();
  Vec total = sums[0];
  for (int i = 1; i < kSums; ++i) total += sums[i];
  asm volatile("" : : "x"(total));
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  if (threads < 1) {
    std::fprintf(stderr, "usage: arithmetic_limit <threads>\n");
    return 2;
  }
  std::vector<double> seconds(static_cast<size_t>(threads));
  std::barrier start(threads);
  std::vector<std::jthread> running;
  for (double& result : seconds)
    running.emplace_back([&] {
      start.arrive_and_wait();
      result = seconds_of_loop();
    });
  running.clear();
  const double flop = 2.0 * kLanes * kSums * static_cast<double>(kSteps) * threads;
  std::printf("{\"flop\": %.0f, \"seconds\": %.6f, \"lanes\": %d}\n", flop,
              *std::max_element(seconds.begin(), seconds.end()), kLanes);
}
