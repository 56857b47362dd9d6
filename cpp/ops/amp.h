// Automatic mixed precision: which casts the inputs of an operator get while it is on. The classes
// are traits of the schemas (AmpClass); a user's lists replace them for the process.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// Returns the type for float32 and target-type inputs of a call; none: they stay unchanged.
std::optional<DType> wanted_type(const Rules& rules, const OpSchema& op, const void* params,
                                 std::span<const TensorSpec> inputs);
// Whether AMP casts this input to `wanted`. States that the operator writes are never cast.
bool needs_cast(const Rules& rules, const OpSchema& op, int input, DType have, DType wanted);
// The parameters with grad_scale multiplied by the loss scale where `op` is a loss output.
ParamsRef scaled_params(const OpSchema& op, const ParamsRef& params);

const char* class_name(AmpClass c);
std::optional<AmpClass> class_from_name(std::string_view name);

}  // namespace mxlite::amp
