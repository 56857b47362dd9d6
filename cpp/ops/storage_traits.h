// Traits of operators for sparse storage. Operators whose results need more than these have rules
// in cpp/sparse.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace mxlite {

// The storage in which 1.x puts results of an operator that is an alias of another one here.
enum class AliasStorage : uint8_t {
  kUnion,        // f(0, 0) = 0: where one of two sparse inputs of one storage type stores a value
  kStored,       // where the first input stores a value; what is not stored stays 0 (_scatter_*)
  kRowGradient,  // the gradient of the table that is looked up has the rows that were looked up
};

// An update of the rows that a row-sparse gradient has (1.x: lazy_update).
struct RowUpdate {
  std::string op;              // its name; empty: there is none
  bool any_states = false;     // states may be stored in another way than the weight
  bool sparse_weight = false;  // only for a row-sparse weight
};

struct StorageTraits {
  // The result of a sparse array is stored where the array is although f(0) may not be 0, as in
  // 1.x (data / 0).
  bool keeps_storage = false;
  // Results are dense in 1.x, too, so that dense copies of sparse inputs are no surprise.
  bool dense_result = false;
  // A rule of cpp/sparse runs the operator on dense arrays, too, as the storage type of its result
  // is not theirs. It needs no kernels and is never part of a compiled graph.
  bool chooses_storage = false;
  RowUpdate row_update = {};
  // The table of a look-up operator, an input; -1: it looks nothing up.
  int looked_up = -1;
  // Returns whether the table's gradient has only the rows that were looked up.
  bool (*row_gradient)(const void* params) = nullptr;
  std::map<std::string, AliasStorage, std::less<>> aliases = {};
};

}  // namespace mxlite
