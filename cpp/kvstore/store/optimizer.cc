#include "cpp/kvstore/store/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpp/base/suggest.h"
#include "cpp/kvstore/comm/reduce.h"

namespace mxlite::store {
namespace {

UpdateOperators operators;  // set before the first server or store starts

struct Kind {
  const char* name;
  std::vector<std::string> fields;  // besides those of all
  bool lazy;                        // changes only the rows that it is given
  double rate = 0.01;               // Default learning rate.
};
const std::vector<Kind>& kinds() {
  static const auto& list = *new std::vector<Kind>{
      {"sgd", {"momentum"}, true},
      {"nag", {"momentum"}, false},
      {"adam", {"beta1", "beta2", "epsilon"}, true, 0.001},
      {"adamw", {"beta1", "beta2", "epsilon", "correct_bias"}, false, 0.001},
      {"adagrad", {"eps"}, true},
      {"rmsprop", {"gamma1", "gamma2", "epsilon", "centered", "clip_weights"}, false, 0.001},
      {"ftrl", {"lamda1", "beta"}, true, 0.1},
      {"signum", {"momentum", "wd_lh"}, false},
      {"test", {}, false},
  };
  return list;
}
const std::vector<std::string>& common_fields() {
  static const auto& list = *new std::vector<std::string>{
      "learning_rate", "wd",           "rescale_grad", "clip_gradient",    "lr_mult",
      "wd_mult",       "lr_scheduler", "lazy_update",  "begin_num_update", "multi_precision"};
  return list;
}

const Kind& kind_of(const std::string& name) {
  for (const Kind& kind : kinds())
    if (name == kind.name) return kind;
  std::vector<std::string> known;
  std::string text;
  for (const Kind& kind : kinds()) {
    known.emplace_back(kind.name);
    text += str(text.empty() ? "" : ", ", kind.name);
  }
  fail(ErrorKind::kNotSupported, "set_optimizer: servers do not know the optimizer '", name, "'",
       did_you_mean(name, known), " Known: ", text,
       "; with another one, update on the workers (update_on_kvstore=False)");
}

Json object_of(const std::string& json, const char* what) {
  Json parsed = parse_json(json, what);
  MX_CHECK(parsed.is_object(), what, ": an object of options expected");
  return parsed;
}

std::map<std::string, double> factors(const Json& fields, const char* name) {
  std::map<std::string, double> out;
  const auto found = fields.find(name);
  if (found == fields.end() || found->is_null()) return out;
  MX_CHECK(found->is_object(), "set_optimizer: ", name, ": factors by key expected");
  for (const auto& [key, factor] : found->items()) {
    MX_CHECK(factor.is_number(), "set_optimizer: ", name, ": a number expected for '", key, "'");
    out[key] = factor.get<double>();
  }
  return out;
}

OwnBuffer zeros(size_t bytes) {
  OwnBuffer buffer = OwnBuffer::allocate(bytes);
  if (bytes > 0) std::memset(buffer.data(), 0, bytes);
  return buffer;
}

void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t count) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(count) * dtype_size(to_type));
    return;
  }
  dispatch_dtype(from_type, [&](auto a) {
    dispatch_dtype(to_type, [&](auto b) {
      using A = decltype(a);
      using B = decltype(b);
      const A* source = reinterpret_cast<const A*>(from);
      B* target = reinterpret_cast<B*>(to);
      for (int64_t i = 0; i < count; ++i)
        target[i] =
            static_cast<B>(static_cast<ComputeType<B>>(static_cast<ComputeType<A>>(source[i])));
    });
  });
}

// Rows of `whole` to or from the rows that lie together in `some`.
void move_rows(std::byte* whole, std::byte* some, const std::vector<int64_t>& rows, size_t width,
               bool gather) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::byte* one = whole + static_cast<size_t>(rows[i]) * width;
    std::byte* other = some + i * width;
    std::memcpy(gather ? other : one, gather ? one : other, width);
  }
}

}  // namespace

void set_update_operators(const UpdateOperators& given) { operators = given; }

// One call of an operator: weight, gradient, and the states that its schema has.
struct Optimizer::Kernel {
  const char* op = nullptr;
  std::vector<UpdateParam> params;
  bool rescale_is_input = false;  // AdamW's operator takes it as an input
  double rescale = 1;
};

Optimizer::Optimizer(std::string name, Json fields)
    : name_(std::move(name)), fields_(std::move(fields)) {
  check_fields();
  if (const auto found = fields_.find("lr_scheduler"); found != fields_.end() && !found->is_null())
    schedule_ = make_schedule(*found);
  rate_factors_ = factors(fields_, "lr_mult");
  decay_factors_ = factors(fields_, "wd_mult");
}

void Optimizer::check_fields() const {
  const Kind& kind = kind_of(name_);
  std::vector<std::string> known = common_fields();
  known.insert(known.end(), kind.fields.begin(), kind.fields.end());
  for (const auto& [field, value] : fields_.items()) {
    MX_CHECK(std::find(known.begin(), known.end(), field) != known.end(), "set_optimizer: ", name_,
             " has no option '", field, "'", did_you_mean(field, known));
    const bool structured = field == "lr_mult" || field == "wd_mult" || field == "lr_scheduler";
    MX_CHECK(structured || value.is_number() || value.is_boolean() || value.is_null(),
             "set_optimizer: ", name_, ": ", field, ": a number expected");
  }
}

std::shared_ptr<const Optimizer> Optimizer::make(const std::string& name, const std::string& json) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  kind_of(lower);
  return std::shared_ptr<const Optimizer>(new Optimizer(lower, object_of(json, "set_optimizer")));
}

std::shared_ptr<const Optimizer> Optimizer::changed(const std::string& json) const {
  Json fields = fields_;
  fields.update(object_of(json, "update_optimizer"));
  return std::shared_ptr<const Optimizer>(new Optimizer(name_, std::move(fields)));
}

double Optimizer::number(const char* field, double fallback) const {
  const auto found = fields_.find(field);
  return found == fields_.end() || !found->is_number() ? fallback : found->get<double>();
}

bool Optimizer::flag(const char* field, bool fallback) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return fallback;
  if (found->is_number()) return found->get<double>() != 0;
  return found->is_boolean() ? found->get<bool>() : fallback;
}

double Optimizer::learning_rate(const std::string& key, int64_t update) const {
  const double rate =
      schedule_ ? schedule_->rate(update) : number("learning_rate", kind_of(name_).rate);
  const auto factor = rate_factors_.find(key);
  return factor == rate_factors_.end() ? rate : rate * factor->second;
}

Optimizer::Kernel Optimizer::kernel(const std::string& key, int64_t update) const {
  const auto count = static_cast<double>(update);
  double rate = learning_rate(key, update);
  const auto factor = decay_factors_.find(key);
  double decay = number("wd", 0) * (factor == decay_factors_.end() ? 1 : factor->second);
  Kernel k;
  k.rescale = number("rescale_grad", 1);
  const double momentum = number("momentum", name_ == "signum" ? 0.9 : 0);
  const double beta1 = number("beta1", 0.9), beta2 = number("beta2", 0.999);
  if (name_ == "sgd" || name_ == "nag") {
    k.op = momentum == 0 ? "sgd_update" : name_ == "sgd" ? "sgd_mom_update" : "nag_mom_update";
    if (momentum != 0) k.params = {{"momentum", momentum}};
  } else if (name_ == "adam") {
    k.op = "adam_update";
    rate *= std::sqrt(1 - std::pow(beta2, count)) / (1 - std::pow(beta1, count));
    k.params = {{"beta1", beta1}, {"beta2", beta2}, {"epsilon", number("epsilon", 1e-8)}};
  } else if (name_ == "adamw") {
    k.op = "_adamw_update";
    k.rescale_is_input = true;
    decay *= rate;  // the operator has lr inside and wd beside it
    if (flag("correct_bias", true))
      rate *= std::sqrt(1 - std::pow(beta2, count)) / (1 - std::pow(beta1, count));
    k.params = {
        {"beta1", beta1}, {"beta2", beta2}, {"epsilon", number("epsilon", 1e-6)}, {"eta", 1}};
  } else if (name_ == "adagrad") {
    k.op = "_sparse_adagrad_update";
    k.params = {{"epsilon", number("eps", 1e-7)}};
  } else if (name_ == "rmsprop") {
    const bool centered = flag("centered", false);
    k.op = centered ? "rmspropalex_update" : "rmsprop_update";
    k.params = {{"gamma1", number("gamma1", 0.9)}, {"epsilon", number("epsilon", 1e-8)}};
    if (centered) k.params.emplace_back("gamma2", number("gamma2", 0.9));
    if (number("clip_weights", 0) != 0)
      k.params.emplace_back("clip_weights", number("clip_weights", 0));
  } else if (name_ == "ftrl") {
    k.op = "ftrl_update";
    k.params = {{"lamda1", number("lamda1", 0.01)}, {"beta", number("beta", 1)}};
  } else if (name_ == "signum") {
    k.op = momentum == 0 ? "signsgd_update" : "signum_update";
    if (momentum != 0) k.params = {{"momentum", momentum}, {"wd_lh", number("wd_lh", 0)}};
  } else {  // "test" adds the gradient
    k.op = "sgd_update";
    rate = -1;
    decay = 0;
  }
  k.params.emplace_back("lr", rate);
  k.params.emplace_back("wd", decay);
  if (number("clip_gradient", 0) != 0)
    k.params.emplace_back("clip_gradient", number("clip_gradient", 0));
  if (!k.rescale_is_input) k.params.emplace_back("rescale_grad", k.rescale);
  return k;
}

void Optimizer::update(const std::string& key, Weight& w, const Gradient& gradient) const {
  MX_ASSERT(operators.run && operators.states);
  MX_CHECK_DTYPE(is_floating(w.dtype), "'", key, "': the optimizer ", name_, " on a value of ",
                 w.dtype, ", a floating type expected");
  const auto begun = static_cast<int64_t>(number("begin_num_update", 0));
  const Kernel k = kernel(key, begun + static_cast<int64_t>(w.updates) + 1);
  if (w.states.empty() && is_half(w.dtype) && !w.master.memory && flag("multi_precision", false)) {
    w.master = OwnBuffer::allocate(static_cast<size_t>(w.count) * sizeof(float));
    convert(w.value.data(), w.dtype, w.master.data(), DType::kFloat32, w.count);
  }
  const DType exact = w.exact();
  const size_t element = dtype_size(exact);
  const auto states = static_cast<size_t>(operators.states(k.op));
  while (w.states.size() < states)
    w.states.push_back(zeros(static_cast<size_t>(w.count) * element));

  const bool lazy = gradient.by_rows && kind_of(name_).lazy && flag("lazy_update", true);
  const size_t width = static_cast<size_t>(w.row_size) * element;
  const int64_t given =
      gradient.by_rows ? static_cast<int64_t>(gradient.rows.size()) * w.row_size : w.count;
  OwnBuffer grad_memory;
  auto* grad = const_cast<std::byte*>(gradient.data);
  if (gradient.dtype != exact) {
    grad_memory = OwnBuffer::allocate(static_cast<size_t>(given) * element);
    convert(gradient.data, gradient.dtype, grad_memory.data(), exact, given);
    grad = grad_memory.data();
  }
  if (gradient.by_rows && !lazy) {
    OwnBuffer whole = zeros(static_cast<size_t>(w.count) * element);
    move_rows(whole.data(), grad, gradient.rows, width, false);
    grad_memory = whole;
    grad = grad_memory.data();
  }
  // Another thread may be sending the old value.
  if (!w.master.memory && w.value.memory.use_count() > 1) {
    OwnBuffer fresh = OwnBuffer::allocate(w.bytes());
    std::memcpy(fresh.data(), w.value.data(), w.bytes());
    w.value = fresh;
  }
  OwnBuffer& weight = w.master.memory ? w.master : w.value;
  const int64_t count = lazy ? given : w.count;
  std::vector<OwnBuffer*> arrays = {&weight};
  for (size_t i = 0; i < states; ++i) arrays.push_back(&w.states[i]);
  std::vector<OwnBuffer> some;
  std::vector<UpdateArray> inputs;
  for (OwnBuffer* array : arrays) {
    std::byte* data = array->data();
    if (lazy) {
      some.push_back(OwnBuffer::allocate(static_cast<size_t>(count) * element));
      move_rows(data, some.back().data(), gradient.rows, width, true);
      data = some.back().data();
    }
    inputs.push_back({data, count, exact});
  }
  inputs.insert(inputs.begin() + 1, {grad, count, exact});
  double rescale = k.rescale;
  if (k.rescale_is_input) inputs.push_back({&rescale, 1, DType::kFloat64});
  if (count > 0) operators.run(k.op, k.params, inputs, inputs[0]);
  if (lazy)
    for (size_t i = 0; i < arrays.size(); ++i)
      move_rows(arrays[i]->data(), some[i].data(), gradient.rows, width, false);
  if (w.master.memory) {
    if (w.value.memory.use_count() > 1) w.value = OwnBuffer::allocate(w.bytes());
    convert(w.master.data(), DType::kFloat32, w.value.data(), w.dtype, w.count);
  }
  ++w.updates;
}

}  // namespace mxlite::store
