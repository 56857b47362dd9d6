// Operators as functions of chains: which functor each is, and with which operands.
#pragma once
#include <optional>

#include "cpp/ops/pointwise/chain_program.h"

namespace mxlite::pointwise {

// Functions that only generated kernels have; in the interpreter they would take registers from all
// others. Numbers continue those of ChainUnary.
using GeneratedBinary = std::tuple<Hypot>;
using GeneratedUnary =
    std::tuple<Cbrt, Rcbrt, Log10, Log2, Sin, Cos, Tan, Arcsin, Arccos, Arctan, Sinh, Cosh, Arcsinh,
               Arccosh, Arctanh, Degrees, Radians, Erfinv, Gamma, GammaLn, Digamma, Trigamma>;

struct ChainFunction {
  static constexpr int kConstant = -1, kNone = -2;
  int number = 0;  // number in ChainBinary, ChainUnary, GeneratedBinary, GeneratedUnary
  int a = 0;       // input of the step, or kConstant: p[0]
  int b = kNone;   // likewise; kNone: a function of one value
  bool has_parameters = false;  // reads p
  float p[2] = {0, 0};
};
// Returns what a step computes; nullopt if no function does.
std::optional<ChainFunction> find_chain_function(const PointwiseChain::Operation& step,
                                                 DType dtype);
// Returns the name of the functor's class in this namespace, "Add".
std::string chain_functor(int number);

// Returns whether an operator only repeats its input along axes, as chains that are not flat can.
bool repeats_input(const OpSchema& op);

// Returns what an operator computes of rows of its only input; nullopt: it is no such operator, or
// its rows are not neighboring elements.
std::optional<PointwiseChain::RowEnd> find_row_end(const OpSchema& op, const void* params,
                                                   const TensorSpec& input,
                                                   const TensorSpec& output);

// Returns where elements of an array of shape `from` are that is broadcast to `to`.
std::vector<PointwiseChain::IndexTerm> broadcast_terms(const Shape& from, const Shape& to);

}  // namespace mxlite::pointwise
