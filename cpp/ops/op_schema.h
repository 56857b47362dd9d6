// One operator: names, parameters, shape and type rule, gradient, traits, kernels. Python, graphs,
// stubs, documentation and tests get all information about operators from here.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/base/small_vector.h"
#include "cpp/core/device_map.h"
#include "cpp/ops/attr.h"
#include "cpp/ops/grad_builder.h"
#include "cpp/ops/kernel.h"
#include "cpp/ops/storage_traits.h"
#include "cpp/ops/symbol_traits.h"

namespace mxlite {

struct NumpyTraits;  // numpy_traits.h

using Specs = SmallVector<TensorSpec, 2>;

struct ParamInfo {
  std::string name, python_type, default_text, doc;
  bool required = false;
  std::string range;  // "at least 1"; empty if only the type limits the values
};

// The precision that mixed-precision training uses for an operator.
enum class AmpClass : uint8_t { kNeutral, kLowPrecision, kFloat32, kWidest };

// A parameter with values for which mixed-precision training runs an operator in float32.
struct AmpCondition {
  std::string param;  // empty if there is none
  std::vector<std::string> values;
};

struct AmpTraits {
  AmpClass kind = AmpClass::kNeutral;
  AmpCondition float32_if = {};  // takes precedence over `kind`
  // Inputs that are float32 if the data has a lower precision.
  std::vector<int> float32_inputs = {};
  bool casts = false;  // whether the operator is a cast of mixed precision: amp_cast, amp_multicast
};

// Relates the variants of one weight update formula: mixed precision, several weights per call.
struct UpdateFamily {
  std::string name;    // the operator on one weight; empty if this operator updates no weights
  bool mixed = false;  // each weight has a float32 copy
  // Parameter with the number of weights in one call; empty if the operator updates one weight.
  std::string count = {};
  // Parameters with one number per weight, keyed by their names in the operator on one weight.
  std::map<std::string, std::string> listed = {};
};

// Style of the operator in plots of networks (mx.viz.plot_network).
struct Drawing {
  std::string kind;   // group of operators with a common color: "layer", "pooling"; empty for none
  std::string label;  // text below the name, with parameters in braces: "{kernel}/{stride}"
};

struct InplacePair {
  int input = 0, output = 0;
};

struct OpSchema {
  std::string name, doc;
  std::string shapes;  // "inputs -> output" for the reference; empty if element-wise
  std::vector<std::string> aliases;
  std::vector<std::string> inputs;
  std::vector<std::string> input_docs;
  bool variadic = false;  // inputs[0] is the name of a list of any length
  std::vector<ParamInfo> params;

  // Returns the number of `inputs` that a call has (no_bias); if null, a call has all of them.
  std::function<int(const void* params)> input_count;
  int num_outputs = 1;
  std::function<int(const void* params, int num_inputs)> output_count;  // if null, num_outputs
  // Returns how many of the first outputs the user sees (BatchNorm: 1 of 3); if null, all.
  std::function<int(const void* params)> visible_outputs;

  // Shape and type rule. While a symbol's shapes are inferred, dimensions of inputs may be -1
  // (dimensions.h), unless the operator is internal.
  std::function<Specs(const void* params, std::span<const TensorSpec>)> infer;
  // Sets unknown dimensions of inputs that are parameters, as far as they follow from the other
  // inputs. If null, nothing can be inferred.
  std::function<void(const void* params, std::span<TensorSpec>)> complete;
  GradFn gradient = nullptr;  // null if not differentiable
  // Gradient made of differentiable operators, for use if the result will be differentiated
  // (autograd.grad(create_graph=True)) and `gradient` emits a fused kernel that has no gradient.
  // If this is null or returns an empty list, `gradient` is used.
  GradFn composite_gradient = nullptr;
  bool zero_gradient = false;  // differentiable with a zero gradient (sign, floor, comparisons)

  std::vector<int> mutated_inputs;  // state that the kernel writes: running statistics, momentum
  // Says whether inputs are written only when training (BatchNorm); otherwise mutated_inputs are
  // always written.
  bool mutates_only_in_training = false;
  int mutates_every = 0;  // for variadic operators: mutated_inputs repeats after this many inputs
  std::vector<InplacePair> inplace;  // pairs in which the output may use the input's memory
  bool alias = false;                // whether output 0 is input 0 with another shape (reshape)
  bool pointwise = false;
  // Says whether an element of the output depends only on input elements at its position, and on
  // inputs of other shapes (prelu's gamma).
  bool elementwise = false;
  // Returns whether output 0 is a copy of input 0 if both have one shape and dtype; if null, false.
  std::function<bool(const void* params, bool training)> is_identity;
  // Says whether only gradient rules and graph passes may call the operator, because its kernels do
  // not check their inputs.
  bool internal = false;
  AmpTraits amp;
  // Says whether the operator has a gradient even if the gradient of its output is zero: losses,
  // and operators that add a penalty to the output's gradient.
  bool starts_gradient = false;
  // Says whether the operator starts gradients and mixed precision multiplies its grad_scale by the
  // loss scale.
  bool loss_output = false;
  bool training_dependent = false;  // whether it behaves differently in training (Dropout,
                                    // BatchNorm)
  // Returns the number of random counters that a call uses; null if the operator is deterministic.
  std::function<uint64_t(const void* params, std::span<const TensorSpec> outputs)> random_count;

  // For operators of one array: returns whether f(0) = 0 for a dtype; if null, false. If true, the
  // result of a sparse array stores values at the same positions.
  std::function<bool(const void* params, DType dtype)> keeps_zeros;

  StorageTraits storage;
  std::shared_ptr<const NumpyTraits> numpy;  // null if numpy mode has no rule for the operator
  UpdateFamily update_family;
  Drawing drawing;
  SymbolRules symbol;
  // Aliases that are separate operators in 1.x; files keep these names.
  std::map<std::string, SymbolRules, std::less<>> kept_aliases;

  std::function<ParamsRef(std::span<const AttrValue> values, uint64_t given)> make_params;
  // Returns the values in the order of `params`.
  std::function<std::vector<AttrValue>(const void* params)> params_values;
  ParamsRef default_params;  // null if a parameter is required

  DeviceMap<std::vector<Kernel>> kernels;  // candidates by device, in the order in which they are
                                           // tried

  std::string input_name(int i) const;
  int count_inputs(const void* p) const;  // number of inputs; not for variadic operators
  int count_outputs(const void* p, int num_inputs) const;
  int count_visible_outputs(const void* p, int num_inputs) const;
  int param_index(std::string_view name) const;  // returns -1 if there is no such parameter
  // Returns the traits of this operator or of a kept alias, whichever has the name `file_name` in
  // files.
  const SymbolRules& symbol_traits(std::string_view file_name) const;
  // Makes parameters from attributes by name, for graphs and gradients. Throws a type error for
  // unknown names.
  ParamsRef make_params_by_name(
      std::span<const std::pair<std::string_view, AttrValue>> attrs) const;
  bool mutates(int input, bool training) const;
  // Returns the gradients of the inputs; only for operators with a rule. `differentiable` means
  // that the result will be differentiated.
  std::vector<ValueRef> emit_gradient(GradBuilder& g, bool differentiable) const;
  // Returns the first kernel that supports the call. Throws a device or not-supported error if
  // there is none.
  const Kernel& select_kernel(DeviceType device, const void* params, std::span<const TensorSpec> in,
                              std::span<const TensorSpec> out) const;
  std::string signature() const;  // returns "(data, *, axis: int = -1) -> NDArray"
};

// Throws "<op>: parameter <name> must be <expected>, got <text>": a type error, or a value error if
// the type is right and the value is out of range.
[[noreturn]] void throw_attr_mismatch(const std::string& op, const std::string& param,
                                      const AttrValue& given, const AttrMismatch& mismatch);
[[noreturn]] void throw_missing_param(const std::string& op, const std::string& param);

// Sets all members of the schema that concern parameters. `make` returns a struct with the fields
// and their defaults.
void set_params(OpSchema& schema, std::vector<ParamField> fields, std::shared_ptr<void> (*make)());

// Builds an operator with parameters P. The operator has one input, `data`, unless inputs() or
// variadic() is called.
template <class P>
class OpBuilder {
 public:
  explicit OpBuilder(std::string name) {
    schema_.name = std::move(name);
    schema_.inputs = {"data"};
    set_params(schema_, param_fields<P>(),
               []() -> std::shared_ptr<void> { return std::make_shared<P>(); });
  }

  OpBuilder& doc(std::string text) { return set(schema_.doc, std::move(text)); }
  OpBuilder& shapes(std::string text) { return set(schema_.shapes, std::move(text)); }
  OpBuilder& alias(std::vector<std::string> names) {
    return set(schema_.aliases, std::move(names));
  }
  OpBuilder& inputs(std::vector<std::string> names) {
    return set(schema_.inputs, std::move(names));
  }
  OpBuilder& variadic(std::string name) {
    schema_.variadic = true;
    return set(schema_.inputs, {std::move(name)});
  }
  // The functions that describe a call take (const P&, ...). The members of OpSchema and
  // SymbolRules document their other arguments and their results.
  OpBuilder& input_count(auto fn) { return rule(schema_.input_count, fn); }
  OpBuilder& outputs(int n) { return set(schema_.num_outputs, n); }
  OpBuilder& output_count(auto fn) { return rule(schema_.output_count, fn); }
  OpBuilder& visible_outputs(int n) {
    return visible_outputs([n](const P&) { return n; });
  }
  OpBuilder& visible_outputs(auto fn) { return rule(schema_.visible_outputs, fn); }
  OpBuilder& infer(auto fn) { return rule(schema_.infer, fn); }
  OpBuilder& complete(auto fn) { return rule(schema_.complete, fn); }
  OpBuilder& gradient(GradFn fn) { return set(schema_.gradient, fn); }
  OpBuilder& composite_gradient(GradFn fn) { return set(schema_.composite_gradient, fn); }
  OpBuilder& zero_gradient() { return set(schema_.zero_gradient, true); }
  OpBuilder& starts_gradient() { return set(schema_.starts_gradient, true); }
  OpBuilder& loss_output() {
    schema_.loss_output = true;
    return starts_gradient();
  }
  OpBuilder& mutates(std::vector<int> inputs, bool only_in_training = false) {
    schema_.mutates_only_in_training = only_in_training;
    return set(schema_.mutated_inputs, std::move(inputs));
  }
  OpBuilder& mutates_every(int count, std::vector<int> inputs) {
    schema_.mutates_every = count;
    return mutates(std::move(inputs));
  }
  OpBuilder& inplace(int input, int output) {
    schema_.inplace.push_back({input, output});
    return *this;
  }
  OpBuilder& aliases_input() { return set(schema_.alias, true); }
  OpBuilder& pointwise() {
    schema_.pointwise = true;
    return elementwise();
  }
  OpBuilder& elementwise() { return set(schema_.elementwise, true); }
  OpBuilder& identity() {
    return identity([](const P&, bool) { return true; });
  }
  OpBuilder& identity(auto fn) { return rule(schema_.is_identity, fn); }
  OpBuilder& keeps_zeros() {
    return keeps_zeros([](const P&, DType) { return true; });
  }
  OpBuilder& keeps_zeros(auto fn) { return rule(schema_.keeps_zeros, fn); }
  OpBuilder& internal() { return set(schema_.internal, true); }
  OpBuilder& training_dependent() { return set(schema_.training_dependent, true); }
  OpBuilder& random(auto fn) { return rule(schema_.random_count, fn); }
  OpBuilder& drawn(std::string kind, std::string label = "") {
    return set(schema_.drawing, Drawing{std::move(kind), std::move(label)});
  }

  // Setters of groups of traits, each in one call: .symbol({.output_names = {"output", "mean"}}).
  OpBuilder& amp(AmpClass kind) { return amp(AmpTraits{kind}); }
  OpBuilder& amp(AmpTraits traits) { return set(schema_.amp, std::move(traits)); }
  OpBuilder& storage(StorageTraits traits) { return set(schema_.storage, std::move(traits)); }
  // The traits have the type NumpyTraits, which only files that use it have to include.
  OpBuilder& numpy(auto traits) {
    schema_.numpy = std::make_shared<const NumpyTraits>(std::move(traits));
    return *this;
  }
  OpBuilder& update_family(UpdateFamily family) {
    return set(schema_.update_family, std::move(family));
  }
  OpBuilder& symbol(SymbolTraits traits) {
    return set<SymbolTraits>(schema_.symbol, std::move(traits));
  }
  OpBuilder& types(auto fn) { return rule(schema_.symbol.types, fn); }
  OpBuilder& refine(auto fn) { return rule(schema_.symbol.refine, fn); }
  OpBuilder& total_outputs(int n) {
    return total_outputs([n](const P&, int) { return n; });
  }
  OpBuilder& total_outputs(auto fn) { return rule(schema_.symbol.total_outputs, fn); }
  OpBuilder& named_inputs(auto fn) { return rule(schema_.symbol.named_inputs, fn); }
  // The alias keeps its name in files, and has the operator's traits except for `refine` if given.
  OpBuilder& keeps_alias(std::string name, RefineFn refine = nullptr) {
    kept_aliases_.emplace_back(std::move(name), refine);
    return *this;
  }

  // Moves the finished schema out of the builder.
  operator OpSchema() {
    for (auto& [name, refine] : kept_aliases_) {
      SymbolRules& rules = schema_.kept_aliases[name] = schema_.symbol;
      if (refine) rules.refine = refine;
    }
    return std::move(schema_);
  }

 private:
  template <class T>
  OpBuilder& set(T& slot, std::type_identity_t<T> value) {
    slot = std::move(value);
    return *this;
  }
  // Stores a function of (const P&, ...), or of (const void*, ...) if it does not read parameters.
  template <class R, class... Args, class F>
  OpBuilder& rule(std::function<R(const void*, Args...)>& slot, F fn) {
    if constexpr (std::is_invocable_v<const F&, const P&, Args...>)
      slot = [fn](const void* p, Args... args) -> R {
        return fn(*static_cast<const P*>(p), args...);
      };
    else
      slot = fn;
    return *this;
  }
  OpSchema schema_;
  std::vector<std::pair<std::string, RefineFn>> kept_aliases_;
};

class OpRegistry {
 public:
  OpSchema& add(OpSchema schema);  // throws if a name or alias is taken
  // Fn has the type void(KernelContext&, const P&, Inputs, Outputs).
  template <auto Fn>
  void kernel(std::string_view op, DeviceType device, Kernel k = {}) {
    k.run = &Erase<Fn>::call;
    add_kernel(op, device, k);
  }
  template <auto Fn>
  void cpu_kernel(std::string_view op, const Kernel& k = {}) {
    kernel<Fn>(op, DeviceType::kCPU, k);
  }
  template <auto Fn>
  void cuda_kernel(std::string_view op, const Kernel& k = {}) {
    kernel<Fn>(op, DeviceType::kCUDA, k);
  }
  // Throws if the operator does not exist or already has a candidate of this name on the device.
  void add_kernel(std::string_view op, DeviceType device, const Kernel& kernel);
  const OpSchema* find(std::string_view name_or_alias) const;
  const OpSchema& get(std::string_view name_or_alias) const;  // throws an error with a suggestion
  // Like get, for names from programs and files. Throws a value error for internal operators.
  const OpSchema& get_public(std::string_view name_or_alias) const;
  // Throws if an operator has no CPU kernel.
  void check_complete() const;
  // Returns every operator once, in order of registration.
  const std::vector<OpSchema*>& all() const { return order_; }

 private:
  std::vector<OpSchema*> order_;  // leaked with the registry, because graphs and tasks refer to
                                  // schemas
  std::unordered_map<std::string, OpSchema*> by_name_;
};

// Returns the registry, which all registrations (registration.h) fill on first use.
OpRegistry& ops();

}  // namespace mxlite
