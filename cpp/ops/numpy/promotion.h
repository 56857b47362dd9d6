// Dtypes of numpy mode's results.
#pragma once
#include <optional>
#include <span>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// The kind of a Python scalar.
enum class NumberKind : uint8_t { kInteger, kReal };

bool is_unsigned(DType d);  // whether its numbers are integers without a sign; not for bools
// Returns the dtype of arithmetic on arrays of two dtypes. Floats win over integers and keep their
// width; of two floats or two integers, the result holds the values of both (uint64 with a signed
// integer: float64).
DType promoted(DType a, DType b);
// Returns the dtype of arithmetic on an array and a Python scalar.
DType promoted(DType array, NumberKind scalar);
// Returns the dtype to which numpy mode casts the inputs of a call; nullopt if they keep theirs.
// Throws if the operator does not support the dtypes.
std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const NDArrayRef> inputs);
std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const TensorSpec> inputs);
// Returns whether an array of dtype `to` may store results of dtype `from` in place: the order of
// kinds is bool, unsigned integers, integers, floats.
bool is_same_kind(DType from, DType to);

}  // namespace mxlite
