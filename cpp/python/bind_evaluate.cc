// Runs the nodes of a symbol on arrays, which may be traced. Operators on sparse arrays and
// operators written in Python run in Python.
#include <algorithm>
#include <map>
#include <span>

#include "cpp/graph/trace.h"
#include "cpp/ops/collective/run.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/trace_function.h"
#include "cpp/symbol/bound_graph.h"
#include "cpp/symbol/recorded_steps.h"
#include "cpp/symbol/run.h"

namespace mxlite::python {
namespace {

using graph::Call;
using graph::CallRef;
using symbol::Calls;
using symbol::Listing;
using symbol::NodeOutputs;
using symbol::NodeRef;
using symbol::UnknownExtent;
using Known = symbol::Inference::Known;
using Objects = std::vector<py::object>;

py::object& sparse_runner() {
  static auto* made = new py::object;
  return *made;
}

// During this object's lifetime, the current trace names the nodes that it records after `call`.
class NamedAfter {
 public:
  explicit NamedAfter(const Call& call) : trace_(graph::Trace::current()) {
    if (trace_) outer_ = trace_->set_scope({call.name, /*whole=*/true});
  }
  ~NamedAfter() {
    if (trace_) trace_->set_scope(std::move(outer_));
  }
  NamedAfter& operator=(NamedAfter&&) = delete;  // neither copied nor moved

 private:
  graph::Trace* trace_;
  graph::Trace::Scope outer_;
};

// Runs fn and adds the call's name to errors of mxlite.
auto at_call(const Call& call, auto&& fn) {
  const NamedAfter named(call);
  try {
    return fn();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupt) throw;
    throw Error(error.kind(), call.error_text(error.what()));
  } catch (py::error_already_set& raised) {  // changes the text of the exception in place
    const py::object& error = raised.value();
    if (raised.matches(py::module_::import("mxlite.base").attr("MXNetError")))
      error.attr("args") = py::make_tuple(call.error_text(py::str(error).cast<std::string>()));
    throw;
  }
}

py::list to_list(std::span<const py::object> objects) {
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

py::object array_or_none(const NDArrayRef& array) {
  if (!array) return py::none();
  return py::reinterpret_steal<py::object>(wrap_array(array));
}

Objects to_objects(std::span<const NDArrayRef> arrays) {
  Objects objects;
  for (const NDArrayRef& array : arrays) objects.push_back(array_or_none(array));
  return objects;
}

symbol::Arrays to_arrays(const Objects& objects, const std::string& who) {
  symbol::Arrays arrays;
  for (const py::object& object : objects) arrays.push_back(any_array_of(object, who.c_str()));
  return arrays;
}

// Converts a list of arrays. None becomes a null reference.
symbol::Arrays optional_arrays(const py::list& objects, const char* who) {
  symbol::Arrays arrays;
  for (const py::handle object : objects)
    arrays.push_back(object.is_none() ? nullptr : any_array_of(object, who));
  return arrays;
}

Objects run_dense(const CallRef& call, const Objects& inputs) {
  const graph::HostOp* host = call->host();
  if (dynamic_cast<const PythonCall*>(host))
    return from_list(call_to_python(call).attr("run")(to_list(inputs)));
  const symbol::Arrays arrays = to_arrays(inputs, call->file_op);
  const NDArrays outputs = host ? host->call(arrays) : run_with_hidden_outputs(call, arrays);
  return to_objects({outputs.data(), outputs.size()});
}

void check_count(const Call& call, size_t inputs, size_t outputs) {
  const int expected = call.num_outputs(static_cast<int>(inputs));
  MX_CHECK(static_cast<int>(outputs) >= expected, call.file_op, " must return at least ", expected,
           " outputs, got ", outputs);
}

// Returns all outputs, including hidden outputs.
Objects run(const CallRef& call, const Objects& inputs) {
  bool dense = !call->op->storage.chooses_storage;
  for (const py::object& input : inputs) dense &= is_array(input.ptr());
  Objects made =
      dense ? run_dense(call, inputs)
            : from_list(sparse_runner()(call->file_op, call_to_python(call), to_list(inputs)));
  check_count(*call, inputs.size(), made.size());
  return made;
}

// Runs a call inside a subgraph.
symbol::Arrays run_in_subgraph(const CallRef& call, const symbol::Arrays& inputs) {
  return at_call(*call, [&] {
    symbol::Arrays outputs = to_arrays(run(call, to_objects(inputs)), call->file_op);
    outputs.resize(static_cast<size_t>(call->num_outputs(static_cast<int>(inputs.size()))));
    return outputs;
  });
}

// Runs the call in the scope of `context`. Copies inputs from other devices to the device of
// `context`.
Objects run_at(const py::object& context, const CallRef& call, Objects inputs) {
  for (py::object& input : inputs) input = input.attr("as_in_context")(context);
  context.attr("__enter__")();
  const auto leave = [&] { context.attr("__exit__")(py::none(), py::none(), py::none()); };
  try {
    Objects outputs = run(call, inputs);
    leave();
    return outputs;
  } catch (...) {
    leave();
    throw;
  }
}

// Returns the values of a symbol's variables in the order of its inputs.
Objects values_of_variables(const Listing& listing, const py::dict& values) {
  Objects found;
  for (const int32_t id : listing.graph.inputs) {
    const Call& variable = *listing.graph.node(id).call;
    const py::str name(variable.name.text);
    MX_CHECK(values.contains(name), "the variable '", variable.name.text, "' has no value");
    found.push_back(values[name]);
    if (is_array(found.back().ptr()))
      symbol::check_traced_shape(variable, array_of(found.back().ptr())->shape());
  }
  return found;
}

using Contexts = std::optional<py::dict>;

// Runs the call of a node. If `contexts` has a value for the node, runs the call in that context.
Objects run_node(const Listing& listing, int32_t id, const Contexts& contexts,
                 const Objects& inputs) {
  const CallRef& call = listing.graph.node(id).call;
  return at_call(*call, [&] {
    if (!contexts) return run(call, inputs);
    return run_at((*contexts)[py::cast(listing.nodes[static_cast<size_t>(id)])], call, inputs);
  });
}

// Calls watch(node, inputs, outputs) of a monitor. `outputs` does not contain hidden outputs.
void call_watch(const py::object& watch, const NodeRef& node, const Objects& inputs,
                const Objects& outputs) {
  if (watch.is_none()) return;
  const size_t count = symbol::num_shown_outputs(*node->call, node->num_inputs());
  const std::span shown(outputs.data(), std::min(count, outputs.size()));
  watch(node, to_list(inputs), to_list(shown));
}

class SymbolRun final : public graph::Visitor<py::object> {
 public:
  SymbolRun(const Listing& listing, Objects leaves, const Contexts& contexts, py::object watch)
      : listing_(listing),
        steps_(listing_.graph),
        values_(steps_.slots.size()),
        contexts_(contexts),
        watch_(std::move(watch)) {
    for (size_t i = 0; i < leaves.size(); ++i)
      values_[steps_.slots.of({listing_.graph.inputs[i], 0})] = std::move(leaves[i]);
  }

  Objects walk() { return graph::walk(steps_.route, std::move(values_), *this); }

  Objects run(size_t step, const Objects& inputs) override {
    return run_node(listing_, steps_.nodes[step], contexts_, inputs);
  }
  void after(size_t step, const Objects& inputs, const Objects& outputs) override {
    call_watch(watch_, listing_.nodes[static_cast<size_t>(steps_.nodes[step])], inputs, outputs);
  }

 private:
  const Listing& listing_;
  const graph::GraphRoute steps_;
  Objects values_;
  const Contexts& contexts_;
  const py::object watch_;
};

UnknownExtent extent_of_thread() {
  const GilAcquire held;  // C programs inside Python call without the GIL
  const bool np_shape = py::module_::import("mxlite.numpy_mode").attr("is_np_shape")().cast<bool>();
  return np_shape ? UnknownExtent::kNegative : UnknownExtent::kZero;
}

using GivenCalls = std::optional<std::map<NodeRef, py::object>>;

Calls calls_from_python(const std::map<NodeRef, py::object>& given) {
  Calls calls;
  for (const auto& [node, call] : given) {
    auto made = std::make_shared<Call>(call_from_python(node->op(), call));
    made->name = node->call->name;
    if (made->attrs.empty()) made->attrs = node->call->attrs;
    calls[node.get()] = std::move(made);
  }
  return calls;
}

py::list evaluate(const NodeOutputs& heads, const py::dict& values, const GivenCalls& calls,
                  const py::object& watch, const Contexts& contexts) {
  const auto known = [&](const symbol::Node& variable) {
    const py::str name(variable.name());
    if (!values.contains(name)) return Known();
    const NDArrayRef array = any_array_of(values[name], "evaluate");
    return Known{array->shape(), array->dtype()};
  };
  const Calls replaced =
      calls ? calls_from_python(*calls) : symbol::calls_with_shapes(heads, known);
  const Listing listing(heads, replaced);
  Objects leaves = values_of_variables(listing, values);
  const auto is_dense = [](const py::object& value) { return is_array(value.ptr()); };
  if (graph::Trace::current() && watch.is_none() && !contexts &&
      std::ranges::all_of(leaves, is_dense)) {
    graph::ArrayList arrays;
    for (const py::object& leaf : leaves) arrays.push_back(array_of(leaf.ptr()));
    py::list outputs;
    for (NDArrayRef& output : symbol::trace_calls(listing.graph, arrays))
      outputs.append(py::reinterpret_steal<py::object>(wrap_array(std::move(output))));
    return outputs;
  }
  return to_list(SymbolRun(listing, std::move(leaves), contexts, watch).walk());
}

std::unique_ptr<symbol::RecordedSteps> recorded_steps(const NodeOutputs& heads,
                                                      const py::dict& values,
                                                      const GivenCalls& calls,
                                                      const py::function& watch,
                                                      const Contexts& contexts) {
  Listing listing(heads, calls ? calls_from_python(*calls) : Calls());
  symbol::Arrays leaves = to_arrays(values_of_variables(listing, values), "RecordedSteps");
  const Listing nodes = listing;
  return std::make_unique<symbol::RecordedSteps>(
      std::move(listing), std::move(leaves),
      [&](int32_t id, const symbol::Arrays& inputs) {
        const Objects outputs = run_node(nodes, id, contexts, to_objects(inputs));
        return to_arrays(outputs, nodes.graph.node(id).call->file_op);
      },
      [&](int32_t id, const symbol::Arrays& inputs, const symbol::Arrays& outputs) {
        call_watch(watch, nodes.nodes[static_cast<size_t>(id)], to_objects(inputs),
                   to_objects(outputs));
      });
}

void bind_recorded_steps(py::module_& m) {
  using symbol::RecordedSteps;
  py::class_<RecordedSteps>(
      m, "RecordedSteps",
      "A forward pass of a symbol in training mode whose backward pass stops at each node.")
      .def(py::init(&recorded_steps), py::arg("heads"), py::arg("values"), py::arg("calls"),
           py::arg("watch"), py::arg("contexts") = py::none(), "Arguments are those of evaluate.")
      .def_property_readonly(
          "outputs", [](const RecordedSteps& self) { return to_list(to_objects(self.outputs())); })
      .def(
          "backward",
          [](const RecordedSteps& self, const py::list& head_grads, const py::function& report) {
            const symbol::Arrays grads = optional_arrays(head_grads, "backward");
            self.backward(grads, [&](const symbol::Node& node, int input, const NDArrayRef& array) {
              report(symbol::gradient_name(node, input), to_objects({&array, 1})[0]);
            });
          },
          py::arg("head_grads"), py::arg("report"),
          "Store gradients into the variables' grad arrays. report(name, gradient) is called for "
          "each input of each node: fc1_backward_output0. None among head_grads means ones.");
}

py::object symbol_graph(const NodeOutputs& heads, std::vector<std::string> names,
                        const std::string& name) {
  const auto* function = new symbol::SymbolFunction(heads, std::move(names), {});
  const py::capsule owner(
      function, [](void* held) { delete static_cast<const symbol::SymbolFunction*>(held); });
  const auto trace = [function](const graph::ArrayList& arrays, const graph::ArrayList&) {
    return function->trace(arrays);
  };
  return make_cached_graph(trace, owner, name);
}

std::unique_ptr<symbol::BoundGraph> bind(const NodeOutputs& heads, const py::list& arguments,
                                         const py::list& gradients,
                                         const std::vector<int>& requests, const py::list& states,
                                         const std::map<NodeRef, py::object>& calls,
                                         const std::string& name, const Contexts& contexts) {
  const Calls replaced = calls_from_python(calls);
  symbol::BoundArrays arrays{.arguments = optional_arrays(arguments, "bind"),
                             .gradients = optional_arrays(gradients, "bind"),
                             .requests = {},
                             .states = optional_arrays(states, "bind")};
  for (const int request : requests)
    arrays.requests.push_back(static_cast<autograd::GradReq>(request));
  symbol::NodeRun run_here;
  if (contexts) {
    run_here = [contexts, listing = Listing(heads, replaced)](int32_t id,
                                                              const symbol::Arrays& inputs) {
      const Objects outputs = run_node(listing, id, contexts, to_objects(inputs));
      return to_arrays(outputs, listing.graph.node(id).call->file_op);
    };
  }
  return std::make_unique<symbol::BoundGraph>(heads, arrays, replaced, name, std::move(run_here));
}

void bind_bound_graph(py::module_& m) {
  using symbol::BoundGraph;
  py::class_<BoundGraph>(m, "BoundGraph", "A symbol with arrays for its variables.")
      .def(py::init(&bind), py::arg("heads"), py::arg("arguments"), py::arg("gradients"),
           py::arg("requests"), py::arg("states"), py::arg("calls"), py::arg("name"),
           py::arg("contexts") = py::none(),
           "Arrays are in the order of the symbol's variables, gradients and requests (0 null, 1 "
           "write, 2 add) in that of arguments. calls and contexts are those of evaluate.")
      .def(
          "forward",
          [](BoundGraph& self, bool training, bool record) {
            return to_list(to_objects(self.forward(training, record, current_origin())));
          },
          py::arg("training"), py::arg("record"), "The outputs.")
      .def(
          "prepare_backward",
          [](BoundGraph& self, bool training) {
            return self.prepare_backward(training, current_origin());
          },
          py::arg("training"),
          "Run forward if the last one was not recorded, or again if backward has used up what it "
          "kept; whether it ran.")
      .def(
          "backward",
          [](BoundGraph& self, const py::list& head_grads, bool training) {
            self.backward(optional_arrays(head_grads, "backward"), training);
          },
          py::arg("head_grads"), py::arg("training"),
          "Compute gradients into the arrays for them; head_grads as in head_gradients.")
      .def("forget_forward", &BoundGraph::forget_forward,
           "The next backward runs forward: outputs were computed in another way.")
      .def("count_with", &BoundGraph::count_with, py::arg("other"),
           "Count compilations together with those of the same network for other shapes.")
      .def_property_readonly(
          "outputs", [](const BoundGraph& self) { return to_list(to_objects(self.outputs())); })
      .def_property_readonly(
          "values",
          [](const BoundGraph& self) {
            py::dict values;
            for (const auto& [name, array] : self.values())
              values[py::str(name)] = to_objects({&array, 1})[0];
            return values;
          },
          "Arrays by the variables' names, on the memory of the given ones; gradients belong to "
          "them.")
      .def_property_readonly("num_signatures", &BoundGraph::num_signatures,
                             "How many signatures are compiled.");
  m.def(
      "head_gradients",
      [](const NodeOutputs& heads, const py::list& outputs, const py::list& given) {
        return to_list(to_objects(symbol::head_gradients(
            heads, optional_arrays(outputs, "backward"), optional_arrays(given, "backward"))));
      },
      py::arg("heads"), py::arg("outputs"), py::arg("given"),
      "Gradients with which a backward pass begins, as the outputs are; None means ones, and zeros "
      "are for outputs that are left out.");
}

}  // namespace

void bind_evaluate(py::module_& m) {
  symbol::set_call_runner(run_in_subgraph);
  symbol::set_unknown_extent(extent_of_thread);
  bind_recorded_steps(m);
  bind_bound_graph(m);
  m.def(
      "evaluate", &evaluate, py::arg("heads"), py::arg("values"), py::arg("calls") = py::none(),
      py::arg("watch") = py::none(), py::arg("contexts") = py::none(),
      "The values of outputs, given those of the variables by name. calls replaces those of "
      "nodes; None: nodes such as begin_state take the arrays' shapes. contexts say where nodes "
      "run. watch(node, inputs, outputs) is called after each node, with the outputs that monitors "
      "show.");
  m.def("symbol_graph", &symbol_graph, py::arg("heads"), py::arg("names"), py::arg("name"),
        "The CachedGraph of a symbol, whose variables are its inputs in the order of names.");
  m.def(
      "refuse_calls_of_symbol",
      [](const NodeOutputs& heads, const std::string& reason) {
        collective::PlannedCalls calls;
        for (const NodeRef& node : symbol::topological_order(heads))
          if (!node->is_variable()) calls.add(*node->call->op, node->call->params, {});
        calls.give_up(reason);
      },
      py::arg("heads"), py::arg("reason"),
      "This rank could not bind the symbol: other ranks get the reason as an error of its "
      "collectives.");
  m.def(
      "set_sparse_runner", [](py::object runner) { sparse_runner() = std::move(runner); },
      py::arg("runner"), "runner(op, call, inputs) runs a call with sparse inputs.");
}

}  // namespace mxlite::python
