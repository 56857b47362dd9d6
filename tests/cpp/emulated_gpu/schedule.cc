#include "tests/cpp/emulated_gpu/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "cpp/base/env.h"
#include "cpp/base/error.h"

namespace emulation {
namespace {

enum class Order : uint8_t { kNumbered, kReversed, kRandom };

// A test writes this before kernels run, and waits for them before it writes again.
struct Choice {
  Order order = Order::kNumbered;
  uint64_t seed = 0;
  int resident_blocks = kResidentBlocks;
};

int64_t parse_number(const char* name, const std::string& text, const char* expected) {
  MX_CHECK(!text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
               text.size() < 19,
           name, ": '", text, "' given, ", expected, " expected");
  return std::stoll(text);
}

Choice parse(const std::string& order, int64_t resident_blocks) {
  MX_CHECK(resident_blocks >= 1 && resident_blocks <= 64,
           "MXLITE_EMULATED_BLOCKS: ", resident_blocks, " given, 1 to 64 resident blocks expected");
  if (order.empty()) return {};
  if (order == "reversed") return {Order::kReversed};
  const int64_t seed = parse_number("MXLITE_EMULATED_ORDER", order, "'reversed' or a seed");
  return {Order::kRandom, static_cast<uint64_t>(seed), static_cast<int>(resident_blocks)};
}

Choice& chosen() {
  static Choice choice = parse(
      mxlite::env_string("MXLITE_EMULATED_ORDER", ""),
      parse_number("MXLITE_EMULATED_BLOCKS",
                   mxlite::env_string("MXLITE_EMULATED_BLOCKS", std::to_string(kResidentBlocks)),
                   "1 to 64 resident blocks"));
  return choice;
}

uint64_t hash(std::string_view text) {  // FNV-1a
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

}  // namespace

void set_order(const std::string& order, int resident_blocks) {
  chosen() = parse(order, resident_blocks);
}

std::string describe_order() {
  const Choice& choice = chosen();
  if (choice.order != Order::kRandom) return {};
  return mxlite::str(" with MXLITE_EMULATED_ORDER=", choice.seed,
                     " MXLITE_EMULATED_BLOCKS=", choice.resident_blocks);
}

void Schedule::begin(const char* kernel, uint64_t blocks, uint64_t threads) {
  const Choice& choice = chosen();
  random_ = choice.order == Order::kRandom;
  reversed_ = choice.order == Order::kReversed;
  resident_blocks_ = random_ ? static_cast<size_t>(choice.resident_blocks) : 1;
  if (!random_) return;
  state_ = choice.seed;
  for (const uint64_t part : {hash(kernel), blocks, threads}) state_ = draw() ^ part;
  // Short gaps switch threads between neighbouring lines of code, long gaps let one thread run far
  // ahead.
  constexpr uint64_t kMeanAccesses[] = {6, 30, 150};
  mean_accesses_ = kMeanAccesses[draw() % std::size(kMeanAccesses)];
  gaps_ = 0;
}

uint64_t Schedule::draw() {  // SplitMix64
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void Schedule::order(std::vector<uint32_t>& order, size_t count) {
  order.resize(count);
  std::iota(order.begin(), order.end(), 0u);
  if (reversed_) std::reverse(order.begin(), order.end());
  if (random_)
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(draw() % i)]);
}

size_t Schedule::pick(size_t count) {
  if (random_) return static_cast<size_t>(draw() % count);
  return reversed_ ? count - 1 : 0;
}

bool Schedule::happens(uint64_t one_in) { return random_ && draw() % one_in == 0; }

uint64_t Schedule::sleep() {
  constexpr uint64_t kLongest[] = {30, 300, 3000};
  return happens(2) ? draw() % kLongest[draw() % std::size(kLongest)] : 0;
}

int Schedule::accesses() {
  if (!random_) return std::numeric_limits<int>::max();
  constexpr uint64_t kDense = 1000;  // gaps of a launch before they grow
  const uint64_t mean = mean_accesses_ * (1 + gaps_++ / kDense);
  return static_cast<int>(1 + draw() % (2 * mean));
}

}  // namespace emulation
