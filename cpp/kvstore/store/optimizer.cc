#include "cpp/kvstore/store/optimizer.h"

#include <algorithm>
#include <cstring>

#include "cpp/base/suggest.h"
#include "cpp/kvstore/comm/reduce.h"

namespace mxlite::store {
namespace {

UpdateOperators operators;  // set before the first server or store is created

const std::vector<std::string>& known_fields() {
  static const auto& list = *new std::vector<std::string>{
      "operator", "params",  "learning_rate",    "lr_scheduler",    "wd",        "rescale_grad",
      "lr_mult",  "wd_mult", "begin_num_update", "multi_precision", "decoupled", "rows"};
  return list;
}

Json object_of(const std::string& json, const char* what) {
  Json parsed = parse_json(json, what);
  MX_CHECK(parsed.is_object(), what, ": options must be a JSON object, got ", parsed.type_name());
  return parsed;
}

std::map<std::string, double> factors(const Json& fields, const char* name) {
  std::map<std::string, double> out;
  const auto found = fields.find(name);
  if (found == fields.end() || found->is_null()) return out;
  MX_CHECK(found->is_object(), "set_optimizer: ", name,
           " must be a JSON object that maps keys to factors, got ", found->type_name());
  for (const auto& [key, factor] : found->items()) {
    MX_CHECK(factor.is_number(), "set_optimizer: ", name, " of '", key, "' must be a number, got ",
             factor.type_name());
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

// Copies rows of `whole` to `some`, in which they are adjacent. If `gather` is false, copies the
// rows back.
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

bool UpdateOperator::takes(std::string_view param) const {
  return std::find(params.begin(), params.end(), param) != params.end();
}

Optimizer::Optimizer(std::string name, Json fields)
    : name_(std::move(name)), fields_(std::move(fields)) {
  MX_ASSERT(operators.run && operators.find);
  check_fields();
  form_ = operators.find(op_ = fields_["operator"].get<std::string>());
  read_params();
  if (const auto found = fields_.find("lr_scheduler"); found != fields_.end() && !found->is_null())
    schedule_ = make_schedule(*found);
  rate_factors_ = factors(fields_, "lr_mult");
  decay_factors_ = factors(fields_, "wd_mult");
}

void Optimizer::check_fields() const {
  const std::vector<std::string>& known = known_fields();
  for (const auto& [field, value] : fields_.items()) {
    MX_CHECK(std::find(known.begin(), known.end(), field) != known.end(), "set_optimizer: ", name_,
             " has no option '", field, "'", did_you_mean(field, known));
    const bool structured = field == "lr_mult" || field == "wd_mult" || field == "lr_scheduler" ||
                            field == "operator" || field == "params";
    MX_CHECK(structured || value.is_number() || value.is_boolean() || value.is_null(),
             "set_optimizer: ", name_, ": ", field, " must be a number");
  }
  const auto op = fields_.find("operator");
  MX_CHECK(op != fields_.end() && op->is_string(), "set_optimizer: ", name_,
           ": operator must be the name of an update operator");
}

void Optimizer::read_params() {
  const auto given = fields_.find("params");
  if (given == fields_.end() || given->is_null()) return;
  MX_CHECK(given->is_object(), "set_optimizer: ", name_,
           ": params must be a JSON object that maps names to numbers, got ", given->type_name());
  for (const auto& [param, value] : given->items()) {
    MX_CHECK(form_.takes(param), "set_optimizer: ", name_, ": ", op_, " has no parameter '", param,
             "'", did_you_mean(param, form_.params));
    MX_CHECK(value.is_number() || value.is_boolean(), "set_optimizer: ", name_, ": ", param,
             " must be a number");
    params_.emplace_back(
        param, value.is_number() ? value.get<double>() : static_cast<double>(value.get<bool>()));
  }
}

std::shared_ptr<const Optimizer> Optimizer::make(const std::string& name, const std::string& json) {
  return std::shared_ptr<const Optimizer>(new Optimizer(name, object_of(json, "set_optimizer")));
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

bool Optimizer::flag(const char* field) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return false;
  if (found->is_number()) return found->get<double>() != 0;
  return found->is_boolean() && found->get<bool>();
}

double Optimizer::learning_rate(const std::string& key, int64_t update) const {
  const double rate = schedule_ ? schedule_->rate(update) : number("learning_rate", 0.01);
  const auto factor = rate_factors_.find(key);
  return factor == rate_factors_.end() ? rate : rate * factor->second;
}

std::vector<UpdateParam> Optimizer::params(const std::string& key, int64_t update) const {
  const double rate = learning_rate(key, update);
  const auto factor = decay_factors_.find(key);
  double decay = number("wd", 0) * (factor == decay_factors_.end() ? 1 : factor->second);
  if (flag("decoupled")) decay *= rate;
  std::vector<UpdateParam> params = params_;
  const auto add = [&](const char* name, double value) {
    const bool given = std::any_of(params_.begin(), params_.end(),
                                   [&](const UpdateParam& p) { return p.first == name; });
    if (!given && form_.takes(name)) params.emplace_back(name, value);
  };
  add("lr", rate);
  add("wd", decay);
  add("rescale_grad", number("rescale_grad", 1));
  add("t", static_cast<double>(update));
  return params;
}

void Optimizer::update(const std::string& key, Weight& w, const Gradient& gradient) const {
  MX_CHECK_DTYPE(is_floating(w.dtype), "'", key, "': values that the optimizer ", name_,
                 " updates must be of a floating type, got ", w.dtype);
  const auto begun = static_cast<int64_t>(number("begin_num_update", 0));
  const std::vector<UpdateParam> given_params =
      params(key, begun + static_cast<int64_t>(w.updates) + 1);
  if (w.states.empty() && is_half(w.dtype) && !w.master.memory && flag("multi_precision")) {
    w.master = OwnBuffer::allocate(static_cast<size_t>(w.count) * sizeof(float));
    convert(w.value.data(), w.dtype, w.master.data(), DType::kFloat32, w.count);
  }
  const DType exact = w.exact();
  const size_t element = dtype_size(exact);
  const auto states = static_cast<size_t>(form_.states);
  while (w.states.size() < states)
    w.states.push_back(zeros(static_cast<size_t>(w.count) * element));

  const bool lazy = gradient.by_rows && flag("rows");
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
  // Copies the value first if another thread may still be sending its memory.
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
  double rescale = number("rescale_grad", 1);
  if (form_.scale_is_input) inputs.push_back({&rescale, 1, DType::kFloat64});
  if (count > 0) operators.run(op_, given_params, inputs, inputs[0]);
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
