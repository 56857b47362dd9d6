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
  std::string_view alias;  // the operator name that the caller used
  const ParamsRef& params;
  std::span<const NDArrayRef> inputs;  // at least one input is sparse

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
  bool records = false;        // true for rules that run in the caller's mode and record themselves
  bool checks_shapes = false;  // whether the rule accepts shapes that the dense call refuses
};

// Each file registers its rules with one static object of this class.
class RuleRegistration {
 public:
  RuleRegistration(std::initializer_list<RuleEntry> rules);
};

// Returns whether the rule, instead of the schema, checks the shapes of a call. `alias` is the name
// that the caller used.
bool rule_checks_shapes(const OpSchema& op, std::string_view alias);

// Returns whether the result stores values at the same positions as the only input.
bool keeps_storage(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs);

// Runs the rule of the operator if it records itself; returns null if there is none.
NDArrayRef run_recording_rule(const SparseCall& call);

// Runs the rule of the alias or of the operator without recording. If there is none and the schema
// allows it, applies the operator to the stored values. Otherwise returns null.
NDArrayRef run_rule(const SparseCall& call);

}  // namespace mxlite::sparse
