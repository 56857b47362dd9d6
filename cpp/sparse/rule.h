// Rules of operators whose results on sparse arrays are sparse in 1.x. Operators without a rule,
// and calls that a rule refuses, run on dense copies (mxlite/ndarray/sparse/dispatch.py).
#pragma once
#include <initializer_list>
#include <string_view>

#include "cpp/autograd/call.h"

namespace mxlite::sparse {

// A call. The operator's schema has checked its number of inputs, parameters and shapes.
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

// Returns whether the rule checks the shapes of a call instead of the schema. `alias` is the name
// that the caller used.
bool rule_checks_shapes(const OpSchema& op, std::string_view alias);

// Returns whether the result stores values at the same positions as the only input.
bool keeps_storage(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs);

// Runs the rule of the operator if the rule records itself. Returns null if no such rule exists.
NDArrayRef run_recording_rule(const SparseCall& call);

// Runs the rule of the alias or of the operator without recording. If no rule exists and the schema
// allows it, applies the operator to the stored values. Otherwise returns null.
NDArrayRef run_rule(const SparseCall& call);

}  // namespace mxlite::sparse
