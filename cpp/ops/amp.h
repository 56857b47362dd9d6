// Automatic mixed precision (AMP): decides which inputs of an operator are cast, in eager calls and
// in symbols. Each schema has a default class (AmpClass), which the user's lists override.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite::amp {

struct Rules {
  DType target = DType::kBFloat16;
  std::unordered_map<const OpSchema*, AmpClass> classes;  // operators without an entry have the
                                                          // class of their schema
  std::unordered_map<const OpSchema*, std::vector<AmpCondition>> conditions;
};

// Sets the rules of all threads; null turns mixed precision off.
void set_rules(std::shared_ptr<const Rules> rules);
// Returns the rules, which are never freed, for calls of this thread; null if AMP is off or paused.
const Rules* current_rules();
// Sets the loss scale of all threads. The default is 1; a trainer with dynamic scaling changes it.
void set_loss_scale(double scale);

// While a Pause exists, calls of its thread get no casts. Gradient rules, symbols and shape
// inference need this.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause& operator=(Pause&&) = delete;  // neither copied nor moved
};

// While a Resume exists, the pauses of its thread have no effect. Backward uses this class when it
// runs a forward pass again.
class Resume {
 public:
  Resume();
  ~Resume();
  Resume& operator=(Resume&&) = delete;  // neither copied nor moved

 private:
  int lifted_;
};

// Returns the text of a call's parameter, or nullopt if the call has no such parameter.
using ParamText = std::function<std::optional<std::string>(const std::string& param)>;
ParamText text_of(const OpSchema& op, const void* params);
ParamText text_of(const std::map<std::string, std::string>& attrs);

// The casts that one call needs.
struct Casts {
  SmallVector<int, 4> inputs;  // indices of the inputs to cast
  std::optional<DType> type;   // type to cast to; nullopt means the widest type of these inputs,
                               // determined at run time
};
// Finds the casts of a call from its inputs' types (nullopt if unknown). Never casts inputs that
// the call writes. Casts nothing if an input has another floating type, such as float64.
Casts find_casts(const Rules& rules, const OpSchema& op, const ParamText& text,
                 std::span<const KnownType> types, const std::function<bool(int)>& writes);
// Returns the parameters, with grad_scale of a loss output multiplied by the loss scale.
ParamsRef scaled_params(const OpSchema& op, const ParamsRef& params);

const char* class_name(AmpClass c);

}  // namespace mxlite::amp
