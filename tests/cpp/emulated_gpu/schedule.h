// The order in which blocks and threads of a launch run.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace emulation {

// "": as they are numbered; "reversed"; or the seed of random orders, a number, from which every
// thread of the host draws its own. The environment's MXLITE_EMULATED_ORDER until it is called.
void set_order(const std::string& order);

class Schedule {
 public:
  // Returns an order of 0 .. count - 1, valid until the next call.
  std::span<const uint32_t> draw(size_t count);

 private:
  std::vector<uint32_t> order_;
  uint64_t state_ = 0, version_ = 0;
};

}  // namespace emulation
