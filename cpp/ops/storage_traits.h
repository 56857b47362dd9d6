// Traits of operators for sparse storage. Other operators have rules in cpp/sparse.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace mxlite {

// Storage of the results of an operator that is separate in MXNet 1.x but an alias here.
enum class AliasStorage : uint8_t {
  kUnion,        // f(0, 0) = 0: stores the elements of two inputs of one sparse type
  kStored,       // stores the elements of the first input; others stay 0 (_scatter_*)
  kRowGradient,  // the gradient of the looked-up table stores the rows that were looked up
};

// An update of only those rows that a row-sparse gradient stores (MXNet 1.x: lazy_update).
struct RowUpdate {
  std::string op;              // name of the operator; empty: there is none
  bool any_states = false;     // storage types of states may differ from the weight's
  bool sparse_weight = false;  // supports only a row-sparse weight
};

struct StorageTraits {
  // Says whether the result of a sparse array has the array's storage type even if f(0) is not 0,
  // as in MXNet 1.x (data / 0).
  bool keeps_storage = false;
  // Says whether results are also dense in MXNet 1.x. If so, no warning reports dense copies of
  // sparse inputs.
  bool dense_result = false;
  // Says whether a rule of cpp/sparse runs the operator even on dense arrays, because the result
  // may be sparse. The operator needs no kernels and is never part of a compiled graph.
  bool chooses_storage = false;
  RowUpdate row_update = {};
  // Index of the input that is the table of a look-up operator; -1 for other operators.
  int looked_up = -1;
  // Returns whether the table's gradient has only the rows that were looked up.
  bool (*row_gradient)(const void* params) = nullptr;
  std::map<std::string, AliasStorage, std::less<>> aliases = {};
};

}  // namespace mxlite
