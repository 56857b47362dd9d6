// Hybridized blocks. CachedGraph is a hand-written vectorcall type, because a call must cost about
// a microsecond. The file also has the inference of parameter shapes.
#include <pybind11/stl.h>

#include "cpp/autograd/graph_node.h"
#include "cpp/autograd/mode.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/graph/cached_graph.h"
#include "cpp/graph/graph_cache.h"
#include "cpp/graph/run/replay.h"
#include "cpp/ops/collective/run.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/trace_function.h"

namespace mxlite::python {
namespace {

using graph::ArrayList;
using graph::CachedGraph;

struct GraphObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  IntrusivePtr<CachedGraph> graph;
  PyObject* trace;  // the Python function, visible to the garbage collector; `graph` also refers to
                    // it
  PyObject* weak_references;
};

py::list to_list(const ArrayList& arrays) {
  py::list list(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap_array(arrays[i]));
  return list;
}

}  // namespace

ArrayList arrays_from(py::handle o, const char* who) {
  ArrayList list;
  if (is_array(o.ptr())) return {array_of(o.ptr())};
  py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(o.ptr(), who));
  if (!fast) throw py::error_already_set();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
    MX_CHECK_KIND(is_array(item), ErrorKind::kType, who, ": entry ", i, " must be an NDArray, got ",
                  Py_TYPE(item)->tp_name);
    list.push_back(array_of(item));
  }
  return list;
}

graph::TraceFn trace_function(PyObject* callable) {
  return [callable](const ArrayList& inputs, const ArrayList& params) {
    const py::object result =
        py::reinterpret_borrow<py::object>(callable)(to_list(inputs), to_list(params));
    return arrays_from(result, "trace: the result");
  };
}

namespace {

// Returns whether tracing reached an operator with a dynamic shape. In this case, the block runs
// eagerly.
bool is_dynamic_shape(const std::exception& error) {
  const auto* raised = dynamic_cast<const py::error_already_set*>(&error);
  return raised && raised->matches(py::module_::import("mxlite.base").attr("DynamicShapeError"));
}

// Calls the graph. If tracing fails, reports the error to the ranks that wait in collectives that
// forward has already reached.
NDArrays call_or_give_up(CachedGraph& graph, std::span<const NDArrayRef> inputs) {
  collective::forget_failed_trace();
  try {
    return autograd::call(graph, inputs, current_origin());
  } catch (const std::exception& error) {
    if (!is_dynamic_shape(error)) collective::give_up_failed_trace(error.what());
    throw;
  }
}

PyObject* call_graph(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const ProfileScope profile("MXInvokeCachedOpEx", ProfileKind::kApi);
    auto& object = *reinterpret_cast<GraphObject*>(self);
    const auto n = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    MX_CHECK_KIND(!keywords || PyTuple_GET_SIZE(keywords) == 0, ErrorKind::kType,
                  object.graph->name(), ": arguments must be arrays, got keyword arguments");
    MX_CHECK_KIND(object.trace, ErrorKind::kError, object.graph->name(),
                  ": the block of this graph must still exist, got a call after its deletion");
    SmallVector<NDArrayRef, 4> inputs;
    for (size_t i = 0; i < n; ++i) {
      MX_CHECK_KIND(is_array(args[i]), ErrorKind::kType, object.graph->name(), ": input ", i,
                    " must be an NDArray, got ", Py_TYPE(args[i])->tp_name);
      inputs.push_back(array_of(args[i]));
    }
    // Keeps a reference, because tracing may replace the block's graph.
    const IntrusivePtr<CachedGraph> graph = object.graph;
    NDArrays outputs = call_or_give_up(*graph, inputs);
    if (outputs.size() == 1) return wrap_array(std::move(outputs[0]));
    py::list list(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap_array(std::move(outputs[i])));
    return list.release().ptr();
  });
}

PyTypeObject* graph_type = nullptr;

// Returns a new CachedGraph object. `trace` borrows Python objects, which `owner` keeps alive.
PyObject* new_graph(PyTypeObject* type, graph::TraceFn trace, PyObject* owner, std::string name) {
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) throw py::error_already_set();
  auto* object = reinterpret_cast<GraphObject*>(self);
  object->vectorcall = call_graph;
  Py_INCREF(owner);
  object->trace = owner;
  new (&object->graph)
      IntrusivePtr<CachedGraph>(make_ref<CachedGraph>(std::move(trace), std::move(name)));
  return self;
}

PyObject* make_graph(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"trace", "name", "static_alloc", "static_shape", nullptr};
  PyObject* trace = nullptr;
  const char* name = "";
  int static_alloc = 0, static_shape = 0;  // accepted for compatibility but ignored, because memory
                                           // is always planned statically
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|spp", const_cast<char**>(names), &trace,
                                   &name, &static_alloc, &static_shape))
    return nullptr;
  if (!PyCallable_Check(trace)) {
    PyErr_Format(PyExc_TypeError, "CachedGraph: trace must be a callable, got %s",
                 Py_TYPE(trace)->tp_name);
    return nullptr;
  }
  return guarded([&] { return new_graph(type, trace_function(trace), trace, name); });
}

void dealloc_graph(PyObject* self) {
  auto* object = reinterpret_cast<GraphObject*>(self);
  PyObject_GC_UnTrack(self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->trace);
  object->graph.~IntrusivePtr();
  Py_TYPE(self)->tp_free(self);
}

int clear_graph(PyObject* self) {
  Py_CLEAR(reinterpret_cast<GraphObject*>(self)->trace);
  return 0;
}

int traverse_graph(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<GraphObject*>(self)->trace);
  return 0;
}

PyObject* set_params(PyObject* self, PyObject* params) {
  return guarded([&]() -> PyObject* {
    reinterpret_cast<GraphObject*>(self)->graph->set_params(arrays_from(params, "set_params"));
    Py_RETURN_NONE;
  });
}

PyObject* count_with(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    MX_CHECK_KIND(Py_TYPE(other) == Py_TYPE(self), ErrorKind::kType,
                  "count_with: other must be a CachedGraph, got ", Py_TYPE(other)->tp_name);
    if (self == other) Py_RETURN_NONE;
    reinterpret_cast<GraphObject*>(self)->graph->count_with(
        *reinterpret_cast<GraphObject*>(other)->graph);
    Py_RETURN_NONE;
  });
}

PyObject* get_name(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<GraphObject*>(self)->graph->name().c_str());
}
PyObject* get_num_entries(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<GraphObject*>(self)->graph->num_entries());
}

// Returns the input specs of the last run, or None before the first run.
PyObject* get_signature(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const auto specs = reinterpret_cast<GraphObject*>(self)->graph->last_signature();
    if (!specs) Py_RETURN_NONE;
    return specs_to_python(*specs).release().ptr();
  });
}

PyObject* adopt(PyObject* self, PyObject* traced) {
  return guarded([&]() -> PyObject* {
    reinterpret_cast<GraphObject*>(self)->graph->adopt(
        py::handle(traced).cast<std::shared_ptr<graph::Traced>>());
    Py_RETURN_NONE;
  });
}

PyTypeObject* init_graph_type() {
  static PyGetSetDef getset[] = {
      {"name", get_name, nullptr, "Name of the block.", nullptr},
      {"num_signatures", get_num_entries, nullptr, "How many signatures are compiled.", nullptr},
      {"signature", get_signature, nullptr,
       "Specs (shape, dtype) of the inputs of the last call; None before the first.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMethodDef methods[] = {
      {"set_params", set_params, METH_O, "Bind the parameters' arrays, in the order of trace."},
      {"count_with", count_with, METH_O,
       "Count compilations together with those of another graph of the same network."},
      {"adopt", adopt, METH_O,
       "Take what infer_params traced for the first call of its signature, instead of tracing."},
      {nullptr, nullptr, 0, nullptr}};
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "mxlite._core.CachedGraph";
  type.tp_doc =
      "CachedGraph(trace, name='', static_alloc=False, static_shape=False)\n\n"
      "Compiles trace(inputs, params) once per signature and runs it on arrays.";
  type.tp_basicsize = sizeof(GraphObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  type.tp_vectorcall_offset = offsetof(GraphObject, vectorcall);
  type.tp_weaklistoffset = offsetof(GraphObject, weak_references);
  type.tp_call = PyVectorcall_Call;
  type.tp_new = make_graph;
  type.tp_dealloc = dealloc_graph;
  type.tp_traverse = traverse_graph;
  type.tp_clear = clear_graph;
  type.tp_getset = getset;
  type.tp_methods = methods;
  if (PyType_Ready(&type) < 0) throw py::error_already_set();
  return graph_type = &type;
}

// Dimensions of -1 or 0 count as unknown. An empty shape counts as an unknown shape.
TensorSpec param_spec(py::handle spec) {
  const py::tuple pair = py::reinterpret_borrow<py::tuple>(spec);
  MX_CHECK_KIND(py::isinstance<py::tuple>(spec) && pair.size() == 2, ErrorKind::kType,
                "infer_params: specs must be pairs of shape and dtype");
  Shape shape = shape_from_python(pair[0], "infer_params");
  for (int64_t& d : shape)
    if (d == 0) d = -1;
  if (shape.ndim() == 0) shape = Shape::unknown();
  return {shape, require_dtype(pair[1], "infer_params")};
}

// The caller holds the GIL, because tracing runs Python.
void warn_in_python(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw py::error_already_set();
}

}  // namespace

py::object make_cached_graph(graph::TraceFn trace, const py::object& owner,
                             const std::string& name) {
  return py::reinterpret_steal<py::object>(
      new_graph(graph_type, std::move(trace), owner.ptr(), name));
}

void bind_graph(py::module_& m) {
  graph::set_warning_function(warn_in_python);
  m.add_object("CachedGraph",
               py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(init_graph_type())));
  m.def(
      "device_graph_stats",
      [] {
        const graph::Replay::Stats s = graph::Replay::totals();
        return py::dict(py::arg("step_by_step") = s.step_by_step, py::arg("recorded") = s.recorded,
                        py::arg("replayed") = s.replayed,
                        py::arg("copied_arrays") = s.copied_arrays);
      },
      "How often executables ran on GPUs: step by step or as recorded (CUDA) graphs.");
  m.def(
      "graph_memory",
      [] {
        return py::dict(py::arg("programs") = graph::Executable::total_bytes(),
                        py::arg("packed_weights") = graph::PackedWeights::total_bytes(),
                        py::arg("limit") = graph::GraphCache::get().limit());
      },
      "Bytes of everything that was compiled in this process (an estimate), of weights packed for "
      "it, and the limit for signatures that were not used lately.");
  py::class_<graph::Traced, std::shared_ptr<graph::Traced>>(m, "Traced",
                                                            "What one run of forward gave.");
  m.def(
      "infer_params",
      [](const py::function& trace, const std::string& name, const py::object& inputs,
         const py::list& specs) {
        std::vector<TensorSpec> wanted;
        for (const py::handle s : specs) wanted.push_back(param_spec(s));
        auto traced = std::make_shared<graph::Traced>(graph::infer_params(
            trace_function(trace.ptr()), name, arrays_from(inputs, "infer_params"), wanted,
            autograd::mode.training, autograd::mode.recording));
        py::list shapes;
        for (const TensorSpec& s : traced->parameter_specs) shapes.append(shape_to_python(s.shape));
        return py::make_tuple(shapes, std::move(traced));
      },
      py::arg("trace"), py::arg("name"), py::arg("inputs"), py::arg("specs"),
      "Shapes of parameters, found by tracing; specs are (shape with -1 or 0 for unknown, dtype). "
      "The trace itself follows, for CachedGraph.adopt.");
  m.def(
      "refuse_traced_calls",
      [](const std::string& reason) { collective::give_up_failed_trace(reason); },
      py::arg("reason"),
      "The call whose parameters this thread's last infer_params should find has failed: other "
      "ranks "
      "get the reason as an error of the collectives that it had reached.");
  m.def(
      "set_trace_owner",
      [](int64_t owner) {
        if (graph::Trace* trace = graph::Trace::current()) trace->set_owner(owner);
      },
      py::arg("owner"),
      "Say which block the current trace is of; arrays it keeps can be used in its next traces.");
  m.def(
      "set_trace_scope",
      [](std::string scope, std::string origin, bool whole) {
        graph::Trace* trace = graph::Trace::current();
        graph::Trace::Scope old;
        if (trace) old = trace->set_scope({{std::move(scope), std::move(origin)}, whole});
        return py::make_tuple(old.name.text, old.name.origin, old.whole);
      },
      py::arg("scope"), py::arg("origin") = "", py::arg("whole") = false,
      "Name nodes of the running trace after this scope, or exactly so; returns the old "
      "arguments.");
}

}  // namespace mxlite::python
