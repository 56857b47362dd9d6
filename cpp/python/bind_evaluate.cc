// Runs the nodes of a symbol on arrays, traced ones too. Operators on dense arrays run here; Python
// runs what has sparse arrays, loops, branches and operators that are written in Python.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "cpp/python/bind.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/trace_function.h"
#include "cpp/symbol/inference.h"
#include "cpp/symbol/steps.h"

namespace mxlite::python {
namespace {

using symbol::CallRef;
using symbol::Entries;
using symbol::Entry;
using symbol::Node;
using symbol::NodeRef;
using Objects = std::vector<py::object>;

py::object& sparse_runner() {
  static auto* made = new py::object;
  return *made;
}

// Runs fn; errors of mxlite name the node.
template <class F>
auto at_node(const Node& node, F&& fn) {
  const symbol::NamedAfter named(node);
  try {
    return fn();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupt) throw;
    throw Error(error.kind(), node.error_text(error.what()));
  } catch (py::error_already_set& raised) {  // stays the object that Python code may hold
    const py::object& error = raised.value();
    if (raised.matches(py::module_::import("mxlite.base").attr("MXNetError")))
      error.attr("args") = py::make_tuple(node.error_text(py::str(error).cast<std::string>()));
    throw;
  }
}

py::list to_list(const Objects& objects) {
  py::list list;
  for (const py::object& object : objects) list.append(object);
  return list;
}

Objects from_list(const py::object& sequence) {
  Objects objects;
  for (const py::handle item : sequence)
    objects.push_back(py::reinterpret_borrow<py::object>(item));
  return objects;
}

Objects run_node(const Node& node, const CallRef& call, const Objects& inputs) {
  const auto* op = dynamic_cast<const symbol::OpCall*>(call.get());
  bool dense = !op || !op->op().storage.chooses_storage;
  for (const py::object& input : inputs) dense &= is_array(input.ptr());
  if (!dense) return from_list(sparse_runner()(node.op, call_to_python(call), to_list(inputs)));
  if (op) {
    std::vector<NDArrayRef> arrays;
    for (const py::object& input : inputs) arrays.push_back(array_of(input.ptr()));
    return from_list(run_call(*op, arrays));
  }
  return from_list(call_to_python(call).attr("run")(to_list(inputs)));
}

// In the scope of a context, on copies of inputs that are elsewhere.
Objects run_at(const py::object& context, const Node& node, const CallRef& call, Objects inputs) {
  for (py::object& input : inputs) input = input.attr("as_in_context")(context);
  context.attr("__enter__")();
  const auto leave = [&] { context.attr("__exit__")(py::none(), py::none(), py::none()); };
  try {
    Objects outputs = run_node(node, call, inputs);
    leave();
    return outputs;
  } catch (...) {
    leave();
    throw;
  }
}

using Calls = std::unordered_map<const Node*, CallRef>;

const CallRef& call_of(const NodeRef& node, const Calls& replaced) {
  const auto found = replaced.find(node.get());
  return found == replaced.end() ? node->call : found->second;
}

void check_count(const Node& node, size_t made) {
  MX_CHECK(static_cast<int>(made) >= node.num_outputs(), node.op, " made ", made, " outputs, ",
           node.num_outputs(), " expected");
}

class SymbolRun final : public graph::Visitor<py::object> {
 public:
  SymbolRun(const Entries& heads, const py::dict& values, const Calls& calls,
            const std::optional<py::dict>& contexts, py::object prepare, py::object watch)
      : steps_(symbol::steps_of(heads)),
        values_(steps_.route.num_values()),
        calls_(calls),
        contexts_(contexts),
        prepare_(std::move(prepare)),
        watch_(std::move(watch)) {
    for (const auto& [slot, variable] : steps_.variables) {
      const py::str name(variable->name);
      MX_CHECK(values.contains(name), "the variable '", variable->name, "' has no value");
      values_[slot] = values[name];
      if (is_array(values_[slot].ptr()))
        symbol::check_traced_shape(*variable, array_of(values_[slot].ptr())->shape());
    }
  }

  Objects walk() { return graph::walk(steps_.route, std::move(values_), *this); }

  void before(size_t step, Objects& inputs) override {
    if (!prepare_.is_none()) inputs = from_list(prepare_(steps_.nodes[step], to_list(inputs)));
  }
  Objects run(size_t step, const Objects& inputs) override {
    const NodeRef& node = steps_.nodes[step];
    const CallRef& call = call_of(node, calls_);
    return at_node(*node, [&] {
      Objects made = contexts_ ? run_at((*contexts_)[py::cast(node)], *node, call, inputs)
                               : run_node(*node, call, inputs);
      check_count(*node, made.size());
      return made;
    });
  }
  void after(size_t step, const Objects& inputs, const Objects& outputs) override {
    if (!watch_.is_none()) watch_(steps_.nodes[step], to_list(inputs), to_list(outputs));
  }

 private:
  const symbol::Steps steps_;
  Objects values_;
  const Calls& calls_;
  const std::optional<py::dict>& contexts_;
  const py::object prepare_, watch_;
};

// Runs the nodes on arrays that a trace handed out. Python runs only operators written in Python,
// loops and branches.
class TracedRun final : public graph::Visitor<NDArrayRef> {
 public:
  TracedRun(const symbol::Steps& steps, const Calls& calls) : steps_(steps), calls_(calls) {}
  std::vector<NDArrayRef> run(size_t step, const std::vector<NDArrayRef>& inputs) override {
    const NodeRef& node = steps_.nodes[step];
    const CallRef& call = call_of(node, calls_);
    return at_node(*node, [&] {
      std::vector<NDArrayRef> made;
      const auto* op = dynamic_cast<const symbol::OpCall*>(call.get());
      if (op && !op->op().storage.chooses_storage) {
        for (NDArrayRef& output : visible_outputs(*op, inputs)) made.push_back(std::move(output));
      } else {
        Objects objects;
        for (const NDArrayRef& input : inputs)
          objects.push_back(py::reinterpret_steal<py::object>(wrap_array(input)));
        made = arrays_from(to_list(run_node(*node, call, objects)), node->op.c_str());
      }
      check_count(*node, made.size());
      return made;
    });
  }

 private:
  const symbol::Steps& steps_;
  const Calls& calls_;
};

// The calls of nodes that leave their shapes to their users (begin_state), with the shapes that
// follow from the arrays. `for_each_spec(fn)` calls fn(name, spec) for each variable.
template <class F>
Calls calls_with_shapes(const Entries& heads, F&& for_each_spec) {
  using symbol::UnknownExtent;
  const auto is_open = [](const NodeRef& node) {
    return symbol::shape_from_users(*node, UnknownExtent::kZero);
  };
  if (std::ranges::none_of(symbol::topological_order(heads), is_open)) return {};
  const bool np_shape = py::module_::import("mxlite.numpy_mode").attr("is_np_shape")().cast<bool>();
  const UnknownExtent unknown = np_shape ? UnknownExtent::kNegative : UnknownExtent::kZero;
  symbol::Inference::Shapes shapes;
  symbol::Inference::Types types;
  for_each_spec([&](const std::string& name, const TensorSpec& spec) {
    shapes[name] = symbol::known_shape(spec.shape, unknown);
    types[name] = spec.dtype;
  });
  symbol::Inference inference(heads, shapes, types, unknown);
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  return inference.completed_calls();
}

using GivenCalls = std::optional<std::map<NodeRef, py::object>>;

Calls calls_from_python(const std::map<NodeRef, py::object>& given) {
  Calls calls;
  for (const auto& [node, call] : given) calls[node.get()] = call_from_python(call);
  return calls;
}

py::list evaluate(const Entries& heads, const py::dict& values, const GivenCalls& calls,
                  const py::object& watch, const std::optional<py::dict>& contexts,
                  const py::object& prepare) {
  const auto for_each_spec = [&](const auto& fn) {
    for (const auto& [name, value] : values)
      fn(name.template cast<std::string>(), any_array_of(value, "evaluate")->spec());
  };
  const Calls replaced =
      calls ? calls_from_python(*calls) : calls_with_shapes(heads, for_each_spec);
  return to_list(SymbolRun(heads, values, replaced, contexts, prepare, watch).walk());
}

// A function for traces that runs a symbol; `names` are its variables in the order of the arrays.
class SymbolFunction {
 public:
  SymbolFunction(Entries heads, std::vector<std::string> names, const GivenCalls& calls)
      : heads_(std::move(heads)), names_(std::move(names)), steps_(symbol::steps_of(heads_)) {
    if (calls) calls_ = calls_from_python(*calls);
  }

  graph::ArrayList operator()(const graph::ArrayList& inputs,
                              const graph::ArrayList& params) const {
    std::map<std::string, NDArrayRef> arrays;
    for (size_t i = 0; i < names_.size(); ++i)
      arrays[names_[i]] = i < inputs.size() ? inputs[i] : params.at(i - inputs.size());
    std::vector<NDArrayRef> values(steps_.route.num_values());
    for (const auto& [slot, variable] : steps_.variables) {
      const auto found = arrays.find(variable->name);
      MX_CHECK(found != arrays.end(), "the variable '", variable->name, "' has no value");
      values[slot] = found->second;
      symbol::check_traced_shape(*variable, values[slot]->shape());
    }
    const auto for_each_spec = [&](const auto& fn) {
      for (const auto& [name, array] : arrays) fn(name, array->spec());
    };
    const Calls calls = calls_ ? *calls_ : calls_with_shapes(heads_, for_each_spec);
    TracedRun run(steps_, calls);
    return graph::walk(steps_.route, std::move(values), run);
  }

 private:
  Entries heads_;
  std::vector<std::string> names_;
  symbol::Steps steps_;
  std::optional<Calls> calls_;
};

py::object symbol_graph(const Entries& heads, std::vector<std::string> inputs,
                        const std::vector<std::string>& params, const GivenCalls& calls,
                        const std::string& name) {
  inputs.insert(inputs.end(), params.begin(), params.end());
  const auto* function = new SymbolFunction(heads, std::move(inputs), calls);
  const py::capsule owner(function,
                          [](void* held) { delete static_cast<const SymbolFunction*>(held); });
  const auto trace = [function](const graph::ArrayList& arrays, const graph::ArrayList& params) {
    return (*function)(arrays, params);
  };
  return make_cached_graph(trace, owner, name);
}

}  // namespace

void bind_evaluate(py::module_& m) {
  m.def("evaluate", &evaluate, py::arg("heads"), py::arg("values"), py::arg("calls") = py::none(),
        py::arg("watch") = py::none(), py::arg("contexts") = py::none(),
        py::arg("prepare") = py::none(),
        "The values of outputs, given those of the variables by name. calls replaces those of "
        "nodes; None: nodes such as begin_state take the arrays' shapes. contexts say where nodes "
        "run. prepare(node, inputs) gives the inputs with which a node runs, watch(node, inputs, "
        "outputs) is called after each node.");
  m.def("symbol_graph", &symbol_graph, py::arg("heads"), py::arg("inputs"), py::arg("params"),
        py::arg("calls"), py::arg("name"),
        "The CachedGraph of a symbol whose variables are inputs and parameters in the order of "
        "their names; calls as in evaluate.");
  m.def(
      "set_sparse_runner", [](py::object runner) { sparse_runner() = std::move(runner); },
      py::arg("runner"), "runner(op, call, inputs) runs a call with sparse inputs.");
}

}  // namespace mxlite::python
