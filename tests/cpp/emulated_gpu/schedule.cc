#include "tests/cpp/emulated_gpu/schedule.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "cpp/base/env.h"
#include "cpp/base/error.h"

namespace emulation {
namespace {

enum class Order : uint8_t { kNumbered, kReversed, kRandom };

// Written before kernels run, by a test that waits for them.
struct Choice {
  Order order = Order::kNumbered;
  uint64_t seed = 0;
  uint64_t version = 1;  // so that generators notice another seed
};

Choice parse(const std::string& text) {
  if (text.empty()) return {};
  if (text == "reversed") return {Order::kReversed};
  MX_CHECK(text.find_first_not_of("0123456789") == std::string::npos && text.size() < 19,
           "MXLITE_EMULATED_ORDER: '", text, "' given, 'reversed' or a seed expected");
  return {Order::kRandom, std::stoull(text)};
}

Choice& chosen() {
  static Choice choice = parse(mxlite::env_string("MXLITE_EMULATED_ORDER", ""));
  return choice;
}

// SplitMix64.
uint64_t next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void set_order(const std::string& order) {
  const uint64_t version = chosen().version;
  chosen() = parse(order);
  chosen().version = version + 1;
}

std::span<const uint32_t> Schedule::draw(size_t count) {
  const Choice& choice = chosen();
  if (version_ != choice.version) {
    version_ = choice.version;
    state_ = choice.seed;
    order_.clear();
  }
  if (choice.order != Order::kNumbered || order_.size() < count) {
    order_.resize(std::max(count, order_.size()));
    std::iota(order_.begin(), order_.end(), 0u);
  }
  const std::span<uint32_t> order(order_.data(), count);
  if (choice.order == Order::kReversed) std::reverse(order.begin(), order.end());
  if (choice.order == Order::kRandom)
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(next(state_) % i)]);
  return order;
}

}  // namespace emulation
