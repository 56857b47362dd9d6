// An operator with its parameters as a node of a symbol has it. Operators of the registry are
// OpCall; loops, branches and operators written in Python have classes of their own.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite::symbol {

class Call {
 public:
  virtual ~Call() = default;

  virtual int num_inputs() const = 0;                 // -1: any number
  virtual int num_outputs(int num_inputs) const = 0;  // hidden ones too
  virtual int num_visible(int num_inputs) const = 0;
  virtual std::string input_name(int index) const = 0;
  virtual std::vector<std::string> output_names() const { return {}; }  // names of the first ones
  virtual std::vector<int> written(int num_inputs) const = 0;  // inputs that the call writes
  virtual bool is_variadic() const { return false; }
  virtual bool is_pointwise() const { return false; }
  virtual bool casts_precision() const { return false; }
  // The schema of a registered operator; null for calls that Python runs.
  virtual const OpSchema* schema() const { return nullptr; }

  // Returns whether there are weights whose shapes follow from data.
  virtual bool completes() const = 0;
  // Fills unknown extents of the inputs.
  virtual void complete(std::span<TensorSpec> inputs) const = 0;
  virtual Specs infer(std::span<const TensorSpec> inputs) const = 0;
  virtual void fill_types(const SymbolTraits& traits, KnownTypes in, KnownTypes out) const = 0;
  virtual const SymbolTraits& traits(const std::string& file_name) const;
  virtual const void* params() const { return nullptr; }
};
using CallRef = std::shared_ptr<const Call>;

// A call of a registered operator.
class OpCall : public Call {
 public:
  using Texts = std::vector<std::pair<std::string, std::string>>;
  OpCall(const std::string& name, const Texts& params);
  OpCall(const OpSchema& op, ParamsRef params);

  const OpSchema& op() const { return op_; }
  const ParamsRef& params_ref() const { return params_; }
  const void* params() const override { return params_.get(); }

  int num_inputs() const override;
  int num_outputs(int num_inputs) const override;
  int num_visible(int num_inputs) const override;
  std::string input_name(int index) const override { return op_.input_name(index); }
  std::vector<int> written(int num_inputs) const override;
  bool is_variadic() const override { return op_.variadic; }
  bool is_pointwise() const override { return op_.pointwise; }
  bool casts_precision() const override { return op_.casts_precision; }
  const OpSchema* schema() const override { return &op_; }
  bool completes() const override { return op_.complete != nullptr; }
  void complete(std::span<TensorSpec> inputs) const override;
  Specs infer(std::span<const TensorSpec> inputs) const override;
  void fill_types(const SymbolTraits& traits, KnownTypes in, KnownTypes out) const override;
  const SymbolTraits& traits(const std::string& file_name) const override;
  // The same call with the parameter `shape`.
  std::shared_ptr<const OpCall> with_shape(const Shape& shape) const;
  Shape shape_param() const;

 private:
  const OpSchema& op_;
  ParamsRef params_;
};

}  // namespace mxlite::symbol
