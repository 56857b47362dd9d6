// Dtypes of numpy mode's results.
#pragma once
#include <optional>
#include <span>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// The kind of a Python scalar.
enum class NumberKind : uint8_t { kInteger, kReal };

bool is_unsigned(DType d);  // whether the dtype is an unsigned integer, which bool is not
// Returns the dtype of arithmetic on arrays of two dtypes. A float with an integer gives the
// float's dtype. Two floats or two integers give a dtype that holds the values of both; uint64 with
// a signed integer gives float64.
DType promoted(DType a, DType b);
// Returns the dtype of arithmetic on an array and a Python scalar.
DType promoted(DType array, NumberKind scalar);
// Returns the dtype to which numpy mode casts the inputs of a call; nullopt if no input is cast.
// Throws if the operator does not support the dtypes.
std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const NDArrayRef> inputs);
std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const TensorSpec> inputs);
// Returns whether an array of dtype `to` may store results of dtype `from` in place: the kind of
// `from` must not be later in the order bool, unsigned integers, integers, floats.
bool is_same_kind(DType from, DType to);

}  // namespace mxlite
