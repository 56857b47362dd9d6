// Automatic mixed precision: which casts the inputs of an operator get, in calls while it is on and
// in symbols. The classes are traits of the schemas (AmpClass); a user's lists replace them.
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
  std::unordered_map<const OpSchema*, AmpClass> classes;  // absent: the schema's
  std::unordered_map<const OpSchema*, std::vector<AmpCondition>> conditions;
};

// Applies to all threads from now on; null switches mixed precision off.
void set_rules(std::shared_ptr<const Rules> rules);
// The rules that this thread's calls follow now; null: none. They are never freed.
const Rules* current_rules();
// Sets the loss scale of all threads, which is 1 unless a trainer scales its loss.
void set_loss_scale(double scale);

// Suppresses casts in this thread while it lives: gradient rules, symbols, shape inference.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

// Lifts all pauses of this thread while it lives: a forward that is run again inside backward.
class Resume {
 public:
  Resume();
  ~Resume();
  Resume(const Resume&) = delete;
  Resume& operator=(const Resume&) = delete;

 private:
  int lifted_;
};

// Returns the text of a call's parameter; nothing: there is no such parameter.
using ParamText = std::function<std::optional<std::string>(const std::string& param)>;
ParamText text_of(const OpSchema& op, const void* params);
ParamText text_of(const std::map<std::string, std::string>& attrs);

// The casts that one call needs.
struct Casts {
  SmallVector<int, 4> inputs;  // their positions
  std::optional<DType> type;   // none: the widest of these inputs, which have unknown types
};
// `types`: those of the inputs; none: unknown. Inputs that the call writes are never cast, and no
// input of a call that has one of another floating type, such as float64.
Casts find_casts(const Rules& rules, const OpSchema& op, const ParamText& text,
                 std::span<const KnownType> types, const std::function<bool(int)>& writes);
// The parameters with grad_scale multiplied by the loss scale where `op` is a loss output.
ParamsRef scaled_params(const OpSchema& op, const ParamsRef& params);

const char* class_name(AmpClass c);

}  // namespace mxlite::amp
