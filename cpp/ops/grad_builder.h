// Interface for gradient rules. A rule emits operators and never reads data, so the same rule
// serves the eager tape (operators run immediately) and graphs (operators become nodes).
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/ops/attr.h"

namespace mxlite {

struct OpSchema;
using ParamsRef = std::shared_ptr<const void>;

// A value of one GradBuilder. An undefined value is a zero gradient (of an integer input or unused
// output).
struct ValueRef {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
};
using Attrs = std::initializer_list<std::pair<std::string_view, AttrValue>>;

class GradBuilder {
 public:
  virtual ~GradBuilder() = default;

  // The forward call whose gradient is computed.
  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  virtual bool needs_grad(int input) const = 0;
  virtual ValueRef input(int i) = 0;   // if called, the tape saves the value
  virtual ValueRef output(int i) = 0;  // if called, the tape saves the value
  virtual const TensorSpec& input_spec(int i) const = 0;
  virtual const TensorSpec& output_spec(int i) const = 0;
  // Returns the gradient of output i, or zeros if !has_output_grad(i).
  virtual ValueRef output_grad(int i) = 0;
  virtual bool has_output_grad(int i) const = 0;
  virtual const ParamsRef& params_ref() const = 0;
  virtual bool training() const = 0;

  virtual const TensorSpec& spec(ValueRef v) const = 0;
  virtual std::vector<ValueRef> emit_all(const OpSchema& op, std::span<const ValueRef> inputs,
                                         ParamsRef params) = 0;

  // Convenience functions.
  template <class P>
  const P& params() const {
    return *static_cast<const P*>(params_ref().get());
  }
  // Emits op(inputs, attrs...) and returns its first output. `attrs` are the op's parameters.
  ValueRef emit(std::string_view op, std::initializer_list<ValueRef> inputs, Attrs attrs = {});
  ValueRef emit(std::string_view op, std::initializer_list<ValueRef> inputs, ParamsRef params);
  std::vector<ValueRef> emit_all(std::string_view op, std::span<const ValueRef> inputs,
                                 ParamsRef params);
  std::vector<ValueRef> emit_all(std::string_view op, std::initializer_list<ValueRef> inputs,
                                 Attrs attrs = {});

  ValueRef add(ValueRef a, ValueRef b);  // broadcasts; if one value is undefined, returns the other
  ValueRef sub(ValueRef a, ValueRef b);
  ValueRef mul(ValueRef a, ValueRef b);
  ValueRef div(ValueRef a, ValueRef b);
  ValueRef neg(ValueRef a);
  ValueRef add_scalar(ValueRef a, double s);
  ValueRef mul_scalar(ValueRef a, double s);
  ValueRef reshape(ValueRef a, const Shape& shape);
  ValueRef cast(ValueRef a, DType dtype);  // returns `a` itself if it has this dtype
  // Sums a over the axes along which `target` was broadcast.
  ValueRef sum_to(ValueRef a, const Shape& target);
  ValueRef zeros(const TensorSpec& spec);
};

using GradFn = std::vector<ValueRef> (*)(GradBuilder&);  // returns one entry per input, which may
                                                         // be undefined

}  // namespace mxlite
