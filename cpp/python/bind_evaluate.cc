// Runs the nodes of a symbol on arrays, traced ones too. Operators on dense arrays run here; Python
// runs what has sparse arrays, loops, branches and operators that are written in Python.
#include <algorithm>
#include <unordered_map>

#include "cpp/graph/trace.h"
#include "cpp/graph/walk.h"
#include "cpp/python/bind.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/symbol/inference.h"
#include "cpp/symbol/names.h"

namespace mxlite::python {
namespace {

using graph::Route;
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

// Names nodes of the running trace after the symbol's node.
class NamedAfter {
 public:
  explicit NamedAfter(const Node& node) : trace_(graph::Trace::current()) {
    if (trace_) outer_ = trace_->set_scope({node.label(), /*whole=*/true});
  }
  ~NamedAfter() {
    if (trace_) trace_->set_scope(std::move(outer_));
  }
  NamedAfter(const NamedAfter&) = delete;
  NamedAfter& operator=(const NamedAfter&) = delete;

 private:
  graph::Trace* trace_;
  graph::Trace::Scope outer_;
};

// Runs fn; errors of mxlite name the node.
template <class F>
Objects at_node(const Node& node, F&& fn) {
  const NamedAfter named(node);
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

// A graph that was traced with fixed shapes is wrong for others.
void check_traced_shape(const Node& variable, const py::object& value) {
  const auto found = variable.attrs.find(symbol::kTracedShape);
  if (found == variable.attrs.end() || !is_array(value.ptr())) return;
  const Shape expected =
      symbol::parse_shape(found->second, symbol::UnknownExtent::kZero, variable.name);
  const Shape& given = array_of(value.ptr())->shape();
  bool fits = expected.ndim() < 0 || given.ndim() == expected.ndim();
  for (int i = 0; fits && i < expected.ndim(); ++i)
    fits = expected[i] == -1 || expected[i] == given[i];
  MX_CHECK_SHAPE(
      fits, "input ", variable.name, " has shape ", given, ", the network was traced for ",
      found->second,
      " because its forward looks at shapes; run it with inputs of that shape and export "
      "it again");
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
  bool dense = true;
  for (const py::object& input : inputs) dense &= is_array(input.ptr());
  if (!dense) return from_list(sparse_runner()(node.op, call_to_python(call), to_list(inputs)));
  if (const auto* op = dynamic_cast<const symbol::OpCall*>(call.get())) {
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

using Calls = std::optional<py::dict>;

class SymbolRun final : public graph::Visitor<py::object> {
 public:
  SymbolRun(const Entries& heads, const py::dict& values, const Calls& calls,
            const std::optional<py::dict>& contexts, py::object prepare, py::object watch)
      : calls_(calls), contexts_(contexts), prepare_(std::move(prepare)), watch_(std::move(watch)) {
    const std::vector<NodeRef> order = symbol::topological_order(heads);
    std::unordered_map<const Node*, size_t> counts;  // numbers of outputs that are used
    const auto use = [&](const Entry& entry) {
      size_t& count = counts[entry.node.get()];
      count = std::max(count, static_cast<size_t>(entry.output) + 1);
    };
    for (const Entry& head : heads) use(head);
    for (const NodeRef& node : order)
      for (const Entry& entry : node->inputs) use(entry);
    std::unordered_map<const Node*, Route::Slot> first;
    const auto slot = [&](const Entry& entry) {
      return first.at(entry.node.get()) + static_cast<Route::Slot>(entry.output);
    };
    for (const NodeRef& node : order) {
      const size_t count = counts.at(node.get());
      const Route::Slot at = first[node.get()] = route_.add_values(count);
      values_.resize(route_.num_values());
      if (node->is_variable()) {
        const py::str name(node->name);
        MX_CHECK(values.contains(name), "the variable '", node->name, "' has no value");
        values_[at] = values[name];
        check_traced_shape(*node, values_[at]);
        continue;
      }
      std::vector<Route::Slot> inputs, outputs;
      for (const Entry& entry : node->inputs) inputs.push_back(slot(entry));
      for (size_t k = 0; k < count; ++k) outputs.push_back(at + static_cast<Route::Slot>(k));
      route_.add_step(std::move(inputs), std::move(outputs));
      nodes_.push_back(node);
    }
    std::vector<Route::Slot> results;
    for (const Entry& head : heads) results.push_back(slot(head));
    route_.finish(std::move(results));
  }

  Objects walk() { return graph::walk(route_, std::move(values_), *this); }

  void before(size_t step, Objects& inputs) override {
    if (!prepare_.is_none()) inputs = from_list(prepare_(nodes_[step], to_list(inputs)));
  }
  Objects run(size_t step, const Objects& inputs) override {
    const NodeRef& node = nodes_[step];
    CallRef call = node->call;
    const py::object key = calls_ || contexts_ ? py::cast(node) : py::none();
    if (calls_ && calls_->contains(key)) call = call_from_python((*calls_)[key]);
    return at_node(*node, [&] {
      Objects made = contexts_ ? run_at((*contexts_)[key], *node, call, inputs)
                               : run_node(*node, call, inputs);
      MX_CHECK(static_cast<int>(made.size()) >= node->num_outputs(), node->op, " made ",
               made.size(), " outputs, ", node->num_outputs(), " expected");
      return made;
    });
  }
  void after(size_t step, const Objects& inputs, const Objects& outputs) override {
    if (!watch_.is_none()) watch_(nodes_[step], to_list(inputs), to_list(outputs));
  }

 private:
  Route route_;
  Objects values_;
  std::vector<NodeRef> nodes_;  // by step
  const Calls& calls_;
  const std::optional<py::dict>& contexts_;
  const py::object prepare_, watch_;
};

py::list evaluate(const Entries& heads, const py::dict& values, const Calls& calls,
                  const py::object& watch, const std::optional<py::dict>& contexts,
                  const py::object& prepare) {
  return to_list(SymbolRun(heads, values, calls, contexts, prepare, watch).walk());
}

}  // namespace

void bind_evaluate(py::module_& m) {
  m.def("evaluate", &evaluate, py::arg("heads"), py::arg("values"), py::arg("calls") = py::none(),
        py::arg("watch") = py::none(), py::arg("contexts") = py::none(),
        py::arg("prepare") = py::none(),
        "The values of outputs, given those of the variables by name. calls replaces those of "
        "nodes, contexts say where nodes run. prepare(node, inputs) gives the inputs with which a "
        "node runs, watch(node, inputs, outputs) is told of each call.");
  m.def(
      "set_sparse_runner", [](py::object runner) { sparse_runner() = std::move(runner); },
      py::arg("runner"), "runner(op, call, inputs) runs a call with sparse inputs.");
}

}  // namespace mxlite::python
