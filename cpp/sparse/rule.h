// Rules of operators that have sparse results on sparse arrays in 1.x. Operators without a rule,
// and calls that a rule refuses, run on dense copies (mxlite/ndarray/sparse/dispatch.py).
#pragma once
#include <initializer_list>
#include <string_view>

#include "cpp/autograd/call.h"

namespace mxlite::sparse {

// A call whose counts, parameters and shapes the operator's schema has checked.
struct SparseCall {
  const OpSchema& op;
  std::string_view alias;  // the name that was called
  const ParamsRef& params;
  std::span<const NDArrayRef> inputs;  // at least one is sparse

  template <class P>
  const P& get() const {
    return *static_cast<const P*>(params.get());
  }
};

// Computes the result from the parts of the inputs. Returns null if the rule does not support these
// storage types, dtypes or parameters.
using Rule = NDArrayRef (*)(const SparseCall&);

struct RuleEntry {
  const char* op;  // the schema's name
  Rule rule = nullptr;
  bool records = false;  // runs in the caller's mode and records itself; others run unrecorded
  bool checks_shapes = false;  // accepts shapes that the dense call refuses
};

// Each file registers its rules by one static object of this class; there is no other list.
class RuleRegistration {
 public:
  RuleRegistration(std::initializer_list<RuleEntry> rules);
};

// Returns whether the rule checks the shapes of a call instead of the schema. alias: the name that
// was called.
bool rule_checks_shapes(const OpSchema& op, std::string_view alias);

// Returns whether the result stores values at the same positions as the only input.
bool keeps_storage(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs);

// Runs the rule of the operator if it records itself; returns null if there is none.
NDArrayRef run_recording_rule(const SparseCall& call);

// Runs the rule of the alias or of the operator, unrecorded, or applies the operator to the stored
// values if its schema says that this is enough. Returns null if none of them fits.
NDArrayRef run_rule(const SparseCall& call);

}  // namespace mxlite::sparse
