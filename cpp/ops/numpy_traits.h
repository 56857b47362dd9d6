// How numpy mode calls an operator. OpBuilder::numpy takes these traits.
#pragma once
#include <cstdint>

namespace mxlite {

// The common dtype to which the inputs are cast before the call.
enum class Promotion : uint8_t {
  kNone,        // inputs keep their dtypes
  kArithmetic,  // the dtype that holds the values of all inputs
  kFloat,       // the same; integers and bools become float32
};

struct NumpyTraits {
  Promotion promotion = Promotion::kNone;
};

}  // namespace mxlite
