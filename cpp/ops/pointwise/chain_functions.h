// Maps operators to functions of chains: the functor and its operands.
#pragma once
#include <optional>

#include "cpp/ops/pointwise/chain_program.h"

namespace mxlite::pointwise {

// Functions that only generated kernels have, because they would increase the number of registers
// of the whole interpreter. The numbers of these functions follow the numbers of ChainUnary.
using GeneratedBinary = std::tuple<Hypot>;
using GeneratedUnary =
    std::tuple<Cbrt, Rcbrt, Log10, Log2, Sin, Cos, Tan, Arcsin, Arccos, Arctan, Sinh, Cosh, Arcsinh,
               Arccosh, Arctanh, Degrees, Radians, Erfinv, Gamma, GammaLn, Digamma, Trigamma>;

struct ChainFunction {
  static constexpr int kConstant = -1, kNone = -2;
  int number = 0;               // index in ChainBinary, ChainUnary, GeneratedBinary, GeneratedUnary
  int a = 0;                    // index of the step's input, or kConstant for p[0]
  int b = kNone;                // like `a`; kNone for a function of one value
  bool has_parameters = false;  // whether it reads p
  float p[2] = {0, 0};
};
// Returns the function of a step, or nullopt if there is none.
std::optional<ChainFunction> find_chain_function(const PointwiseChain::Operation& step,
                                                 DType dtype);
// Returns the name of the functor's class in this namespace, such as "Add".
std::string chain_functor(int number);

// Returns whether an operator only repeats its input along axes, which chains that are not flat
// support.
bool repeats_input(const OpSchema& op);

// Returns the row operation of an operator on its only input, or nullopt if it is not a row
// operation or the elements of its rows are not adjacent.
std::optional<PointwiseChain::RowEnd> find_row_end(const OpSchema& op, const void* params,
                                                   const TensorSpec& input,
                                                   const TensorSpec& output);

// Returns the index terms that locate elements of an array of shape `from` that is broadcast to
// `to`.
std::vector<PointwiseChain::IndexTerm> broadcast_terms(const Shape& from, const Shape& to);

}  // namespace mxlite::pointwise
