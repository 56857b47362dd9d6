// Optimizers of servers. JSON names the update operator (sgd_update and so on) and its parameters.
// Therefore servers need no special code for each optimizer, and they compute the same bits as
// workers.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/kvstore/comm/link/buffer.h"
#include "cpp/kvstore/store/schedule.h"

namespace mxlite::store {

struct UpdateArray {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};
using UpdateParam = std::pair<std::string, double>;
// Properties of an update operator that a store needs from its schema.
struct UpdateOperator {
  int states = 0;               // number of state arrays per weight; they start as zeros
  bool scale_is_input = false;  // whether the factor of the gradient is the operator's last input
                                // (AdamW)
  std::vector<std::string> params;
  bool takes(std::string_view param) const;
};
// Functions that call update operators. This library must not depend on the operators. Therefore
// the bindings and the tests, which link both, set the functions.
struct UpdateOperators {
  // Runs the operator's CPU kernel on the calling thread. The output may be the first input.
  void (*run)(const std::string& op, std::span<const UpdateParam> params,
              std::span<const UpdateArray> inputs, const UpdateArray& output) = nullptr;
  // Throws a not-supported error unless `op` can update weights on servers.
  UpdateOperator (*find)(const std::string& op) = nullptr;
};
void set_update_operators(const UpdateOperators& operators);

// A value and the states of its optimizer.
struct Weight {
  DType dtype = DType::kFloat32;
  int64_t count = 0, row_size = 1;
  OwnBuffer value;
  OwnBuffer master;               // float32 copy of a half-precision value; empty if not needed
  std::vector<OwnBuffer> states;  // states such as momentum; empty before the first update
  uint64_t updates = 0;           // number of updates so far
  DType exact() const { return master.memory ? DType::kFloat32 : dtype; }
  size_t bytes() const { return static_cast<size_t>(count) * dtype_size(dtype); }
};

struct Gradient {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  bool by_rows = false;
  std::vector<int64_t> rows;  // ascending and unique; data has only these rows
};

// Fields of the JSON:
//   operator                      the update operator
//   params                        its parameters, numbers by name
//   learning_rate, lr_scheduler   the current rate, or a schedule by number of updates
//   wd, rescale_grad, lr_mult, wd_mult, begin_num_update, multi_precision   as in Python
//   decoupled                     the learning rate multiplies wd
//   rows                          whether a gradient of some rows updates only these rows
// The server adds lr, wd, rescale_grad and t (number of the update) if the operator takes them and
// params does not set them.
class Optimizer {
 public:
  // `name` is used in error texts. Throws not-supported and value errors that suggest a remedy.
  static std::shared_ptr<const Optimizer> make(const std::string& name, const std::string& json);
  // Returns a copy with some fields changed (learning_rate, rescale_grad, wd, ...).
  std::shared_ptr<const Optimizer> changed(const std::string& json) const;

  // Replaces the value's memory if another thread still reads the old memory.
  void update(const std::string& key, Weight& weight, const Gradient& gradient) const;
  double learning_rate(const std::string& key, int64_t update) const;

  const std::string& name() const { return name_; }
  std::string json() const { return fields_.dump(); }  // returns the fields that were given

 private:
  Optimizer(std::string name, Json fields);
  double number(const char* field, double fallback) const;
  bool flag(const char* field) const;
  std::vector<UpdateParam> params(const std::string& key, int64_t update) const;
  void check_fields() const;
  void read_params();

  std::string name_;
  Json fields_;  // a JSON object
  std::string op_;
  UpdateOperator form_;
  std::vector<UpdateParam> params_;  // only parameters that were given
  std::shared_ptr<const Schedule> schedule_;
  std::map<std::string, double> rate_factors_, decay_factors_;
};

}  // namespace mxlite::store
