// Traits by which numpy mode calls an operator. OpBuilder::numpy takes them.
#pragma once
#include <cstdint>

namespace mxlite {

// The common dtype to which the inputs are cast before the call.
enum class Promotion : uint8_t {
  kNone,        // inputs keep their dtypes
  kArithmetic,  // the dtype that holds the values of all inputs
  kNumber,      // like kArithmetic, but throws if all operands are bools (subtract)
  kFloat,       // like kArithmetic, but integers and bools become float32
};

struct NumpyTraits {
  Promotion promotion = Promotion::kNone;
  // If true, the parameters are ScalarParams, whose number is an operand. Its dtype follows that of
  // the array, but a fraction makes integers float32, and an integer makes bools int64.
  bool scalar = false;
};

}  // namespace mxlite
