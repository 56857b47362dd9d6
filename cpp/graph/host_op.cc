#include "cpp/graph/host_op.h"

#include <map>
#include <memory>
#include <mutex>

#include "cpp/graph/trace.h"

namespace mxlite::graph {
namespace {

struct Schemas {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const OpSchema>> all;  // guarded by mutex
};

// The object is leaked, because nodes point to schemas until the process ends.
Schemas& schemas() {
  static Schemas& instance = *new Schemas;
  return instance;
}

OpSchema make_schema(const std::string& name) {
  OpSchema schema =
      OpBuilder<HostOpParams>(name)
          .variadic("data")
          .internal()
          .doc("Carried out by the calling thread.")
          .infer([](const HostOpParams& p, std::span<const TensorSpec> in) -> Specs {
            return p.op->infer(in);
          })
          .complete([](const HostOpParams& p, std::span<TensorSpec> in) { p.op->complete(in); });
  return schema;
}

}  // namespace

const OpSchema& host_schema(const std::string& name) {
  Schemas& s = schemas();
  std::lock_guard lock(s.mutex);
  auto& schema = s.all[name];
  if (!schema) schema = std::make_unique<const OpSchema>(make_schema(name));
  return *schema;
}

std::vector<int> HostOp::written(int num_inputs) const {
  std::vector<int> result;
  for (int i = 0; i < num_inputs; ++i)
    if (writes(i)) result.push_back(i);
  return result;
}

ParamsRef host_params(HostOpRef op) {
  auto params = std::make_shared<HostOpParams>();
  params->op = std::move(op);
  return params;
}

const HostOp* host_op(const OpSchema& op, const ParamsRef& params) {
  if (!op.variadic || !op.internal) return nullptr;
  Schemas& s = schemas();
  std::lock_guard lock(s.mutex);
  const auto known = s.all.find(op.name);
  if (known == s.all.end() || known->second.get() != &op) return nullptr;
  return static_cast<const HostOpParams*>(params.get())->op.get();
}

NDArrays call_host_op(const std::string& name, HostOpRef op, std::span<const NDArrayRef> inputs) {
  Trace* trace = Trace::current();
  if (!trace) {
    const OpSchema& schema = host_schema(name);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i]->is_traced()) Trace::fail_outside(schema, static_cast<int>(i));
    return op->call(inputs);
  }
  return trace->record(host_schema(name), host_params(std::move(op)), inputs, {});
}

}  // namespace mxlite::graph
