// The optimizers of servers: made from a name and JSON, computed by the kernels of the operators
// (sgd_update and so on), so that a server and a worker get the same numbers.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/kvstore/store/buffer.h"
#include "cpp/kvstore/store/schedule.h"

namespace mxlite::store {

struct UpdateArray {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
};
using UpdateParam = std::pair<const char*, double>;
// The update operators. This library lies below them, so whoever links both sets the functions
// (the bindings, the tests).
struct UpdateOperators {
  // Runs the operator's CPU kernel in this thread; the output may be the first input.
  void (*run)(const char* op, std::span<const UpdateParam> params,
              std::span<const UpdateArray> inputs, const UpdateArray& output) = nullptr;
  // Returns how many states the operator keeps for a weight.
  int (*states)(const char* op) = nullptr;
};
void set_update_operators(const UpdateOperators& operators);

// A value with what its optimizer remembers.
struct Weight {
  DType dtype = DType::kFloat32;
  int64_t count = 0, row_size = 1;
  OwnBuffer value;
  OwnBuffer master;               // float32, of a half-precision value; empty: none
  std::vector<OwnBuffer> states;  // momentum and so on, in `exact`; empty before the first update
  uint64_t updates = 0;           // that the optimizer has done
  DType exact() const { return master.memory ? DType::kFloat32 : dtype; }
  size_t bytes() const { return static_cast<size_t>(count) * dtype_size(dtype); }
};

struct Gradient {
  const std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  bool by_rows = false;
  std::vector<int64_t> rows;  // ascending, each once; data has these rows only
};

class Optimizer {
 public:
  // Not-supported and value errors say what is wrong, with a suggestion.
  static std::shared_ptr<const Optimizer> make(const std::string& name, const std::string& json);
  // Another one with some fields changed (learning_rate, rescale_grad, wd, ...).
  std::shared_ptr<const Optimizer> changed(const std::string& json) const;

  // Replaces the value's memory if another thread still reads it.
  void update(const std::string& key, Weight& weight, const Gradient& gradient) const;
  double learning_rate(const std::string& key, int64_t update) const;

  const std::string& name() const { return name_; }
  std::string json() const { return fields_.dump(); }  // fields that were given

 private:
  struct Kernel;
  Optimizer(std::string name, Json fields);
  double number(const char* field, double fallback) const;
  bool flag(const char* field, bool fallback) const;
  Kernel kernel(const std::string& key, int64_t update) const;
  void check_fields() const;

  std::string name_;
  Json fields_;  // an object
  std::shared_ptr<const Schedule> schedule_;
  std::map<std::string, double> rate_factors_, decay_factors_;
};

}  // namespace mxlite::store
