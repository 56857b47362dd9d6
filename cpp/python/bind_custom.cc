// Operators written in Python (mx.operator.CustomOp). Their forward and backward are tasks of the
// engine's callback worker, which may take the GIL and wait. See Note [Custom operators].
#include <pybind11/stl.h>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/overwritten.h"
#include "cpp/autograd/tape.h"
#include "cpp/graph/cached_graph.h"
#include "cpp/graph/host_op.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/amp.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

// Note [Custom operators]
// A task that calls Python is pushed like any other task, so the caller continues immediately. When
// the task runs, Python gets new handles to the operands' memory. These handles have their own
// engine variables. Otherwise tasks pushed by the callback would wait for the task that waits for
// them, which is a deadlock. The task ends when all tasks that use these handles have ended. A
// custom operator called inside a callback runs immediately on the same thread, because the worker
// is busy until the callback returns.
namespace mxlite::python {
namespace {

using autograd::mode;

thread_local bool in_callback = false;

// A reference to a Python object. The last owner may release it on any thread.
class PyRef final : public RefCounted {
 public:
  explicit PyRef(py::object o) : object(std::move(o)) {}
  ~PyRef() override {
    if (!may_take_gil()) {
      object.release();
      return;
    }
    const GilAcquire gil;
    object = py::object();
  }
  py::object object;
};
using PyRefPtr = IntrusivePtr<PyRef>;

// The operator object of one call. The variable orders its forward and backward.
struct State final : RefCounted {
  State(PyRefPtr d, py::object o) : definition(std::move(d)), op(make_ref<PyRef>(std::move(o))) {}
  PyRefPtr definition, op;
  engine::Var order;
};
using StateRef = IntrusivePtr<State>;

// Outputs that the user's code does not assign are 0.
NDArrayRef zeros(const TensorSpec& spec, const Device& device, bool numpy) {
  const NDArrayRef array =
      autograd::call_op("_zeros", {}, {{"shape", spec.shape}, {"dtype", spec.dtype}}, device);
  array->set_numpy(numpy);
  return array;
}

using Group = std::vector<NDArrayRef>;  // null becomes None in Python
py::list to_python(const Group& group) {
  py::list list;
  for (const NDArrayRef& a : group) list.append(py::cast(a));
  return list;
}

// One call of the user's forward or backward method, and the arrays that it uses.
struct Callback {
  const char* method = "";
  StateRef state;
  bool training = false;
  std::vector<Group> reads, writes, updates;
  std::vector<uint8_t> needs;  // whether each input needs a gradient; only for backward

  std::vector<Group> groups() const {
    std::vector<Group> all;
    for (const auto* part : {&reads, &writes, &updates})
      all.insert(all.end(), part->begin(), part->end());
    return all;
  }
  void invoke(const std::vector<Group>& operands) const {
    const GilAcquire gil;
    const autograd::ModeScope quiet({false, training});
    try {
      py::list arguments;
      arguments.append(state->op->object);
      arguments.append(training);
      if (!needs.empty()) {
        py::list requests;
        for (const uint8_t need : needs) requests.append(need ? "write" : "null");
        arguments.append(requests);
      }
      for (const Group& group : operands) arguments.append(to_python(group));
      state->definition->object.attr(method)(*arguments);
    } catch (py::error_already_set& e) {
      if (e.matches(PyExc_KeyboardInterrupt))
        throw Error(ErrorKind::kInterrupt, str("Ctrl-C ended CustomOp.", method));
      throw Error(e.matches(PyExc_MemoryError) ? ErrorKind::kOutOfMemory : ErrorKind::kError,
                  py::str(e.value()).cast<std::string>());
    }
  }
};

void for_each_array(const std::vector<Group>& groups, auto&& fn) {
  for (const Group& group : groups)
    for (const NDArrayRef& a : group)
      if (a) fn(a);
}

class CallbackTask final : public engine::Task {
 public:
  CallbackTask(Callback callback, engine::Origin task_origin)
      : Task("Custom", task_origin), callback_(std::move(callback)) {}

  void run() override {
    std::vector<Group> handles = callback_.groups();
    for (Group& group : handles)
      for (NDArrayRef& a : group)
        if (a) a = other_handle(*a);
    std::exception_ptr failure;
    in_callback = true;
    try {
      callback_.invoke(handles);
    } catch (...) {
      failure = std::current_exception();
    }
    in_callback = false;
    // Waits even after a failure, because no task may use the memory after this task has ended.
    for_each_array(handles, [](const NDArrayRef& a) { a->wait_to_write(); });
    if (failure) std::rethrow_exception(failure);
    for_each_array(handles, [](const NDArrayRef& a) { a->wait_to_read(); });
  }
  void release_operands() noexcept override { callback_ = {}; }

 private:
  static NDArrayRef other_handle(const NDArray& a) {
    NDArrayRef handle =
        NDArray::from_storage(Storage::wrap(a.device(), a.data(), a.spec().bytes(),
                                            [storage = a.storage()]() mutable { storage.reset(); }),
                              a.spec());
    handle->set_numpy(a.is_numpy());
    return handle;
  }

  Callback callback_;
};

// Pushes the callback as a task, or calls it directly if this thread runs another callback.
void launch(Callback callback) {
  if (in_callback) {
    for_each_array(callback.reads, [](const NDArrayRef& a) { a->wait_to_read(); });
    for_each_array(callback.updates, [](const NDArrayRef& a) { a->wait_to_read(); });
    callback.invoke(callback.groups());
    return;
  }
  SmallVector<engine::Var*, 8> reads, overwrites, updates{&callback.state->order};
  size_t bytes = 0;
  for_each_array(callback.reads,
                 [&](const NDArrayRef& a) { reads.push_back(&a->storage()->var()); });
  for_each_array(callback.updates,
                 [&](const NDArrayRef& a) { updates.push_back(&a->storage()->var()); });
  for_each_array(callback.writes, [&](const NDArrayRef& a) {
    overwrites.push_back(&a->storage()->var());
    bytes += a->storage()->take_new_bytes();
  });
  const engine::TaskRef task(new CallbackTask(std::move(callback), {}));
  engine::Engine::get().push(task, {reads, overwrites, updates},
                             {.worker = engine::WorkerKind::kCallback, .bytes = bytes});
}

// Returns arrays without history, so that a task does not keep the tape alive.
Group detached(std::span<const NDArrayRef> arrays) {
  Group group;
  for (const NDArrayRef& a : arrays) group.push_back(contiguous(a)->detached());
  return group;
}

struct Signature {
  size_t num_inputs = 0;
  std::vector<uint8_t> needs_grad, needs_input, needs_output;  // for backward
};

class NoGradient final : public autograd::TapeNode {
 public:
  const char* name() const override { return "the backward of Custom"; }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef>, std::span<const uint8_t>) override {
    fail(ErrorKind::kNotSupported,
         "Custom: the gradient of the backward of a CustomOp is not supported");
  }
  void release_saved() override {}
};

class CustomNode final : public autograd::TapeNode {
 public:
  CustomNode(const Signature& signature, StateRef state, Callback forward)
      : signature_(signature),
        state_(std::move(state)),
        inputs_(std::move(forward.reads[0])),
        outputs_(std::move(forward.writes[0])),
        states_(std::move(forward.updates[0])),
        training_(forward.training) {
    for (const Group* group : {&inputs_, &outputs_})
      for (const NDArrayRef& a : *group) versions_.push_back(autograd::version_of(*a));
  }

  const char* name() const override { return "Custom"; }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                   std::span<const uint8_t> needs) override {
    Group grads, arrived;
    for (const NDArrayRef& a : inputs_)
      grads.push_back(zeros(a->spec(), a->device(), a->is_numpy()));
    for (size_t i = 0; i < output_grads.size(); ++i)
      arrived.push_back(signature_.needs_grad[i] ? gradient(output_grads[i], i) : nullptr);
    Callback callback;
    callback.method = "backward";
    callback.state = state_;
    callback.training = training_;
    callback.needs.assign(needs.begin(), needs.begin() + static_cast<ptrdiff_t>(grads.size()));
    callback.reads = {detached_or_null(arrived), used(inputs_, signature_.needs_input, 0, "input"),
                      used(outputs_, signature_.needs_output, inputs_.size(), "output")};
    callback.writes = {grads};
    callback.updates = {states_};
    launch(std::move(callback));
    std::vector<NDArrayRef> result(needs.size());  // auxiliary states get no gradient
    for (size_t i = 0; i < grads.size(); ++i)
      if (needs[i]) result[i] = grads[i]->detached();
    if (mode.recording) {
      Group made;
      for (const NDArrayRef& g : result)
        if (g) made.push_back(g);
      auto node = make_ref<NoGradient>();
      node->connect(output_grads, made);
    }
    return result;
  }
  void release_saved() override {
    inputs_.clear();
    outputs_.clear();
    states_.clear();
    state_.reset();
  }

 private:
  NDArrayRef gradient(const NDArrayRef& given, size_t i) const {
    const bool numpy = graph::any_numpy(inputs_);
    return given ? given->with_numpy(numpy) : zeros(output_specs()[i], device(), numpy);
  }
  static Group detached_or_null(const Group& arrays) {
    Group group;
    for (const NDArrayRef& a : arrays) group.push_back(a ? contiguous(a)->detached() : nullptr);
    return group;
  }
  // Returns the saved arrays that backward has declared as needed. All other entries are null.
  Group used(const Group& saved, const std::vector<uint8_t>& wanted, size_t first,
             const char* what) const {
    Group group(saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      if (!wanted[i]) continue;
      autograd::check_version(*saved[i], versions_[first + i],
                              [&] { return str(what, " ", i, " of Custom"); });
      group[i] = saved[i];
    }
    return group;
  }

  Signature signature_;
  StateRef state_;
  Group inputs_, outputs_, states_;
  std::vector<uint64_t> versions_;  // versions of the inputs, then of the outputs
  bool training_;
};

class CustomOp final : public graph::HostOp {
 public:
  CustomOp(py::object definition, Signature signature)
      : definition_(make_ref<PyRef>(std::move(definition))), signature_(std::move(signature)) {}

  Specs infer(std::span<const TensorSpec> inputs) const override {
    const GilAcquire gil;
    const py::tuple found = ask(inputs);
    const std::vector<TensorSpec> wanted = specs_of(found[0]);
    for (size_t i = 0; i < inputs.size(); ++i) {
      MX_CHECK_SHAPE(inputs[i].shape == wanted[i].shape, "Custom: input ", i,
                     " must have the shape from infer_shape, ", wanted[i].shape, ", got ",
                     inputs[i].shape);
      MX_CHECK_DTYPE(inputs[i].dtype == wanted[i].dtype, "Custom: input ", i,
                     " must have the dtype from infer_type, ", wanted[i].dtype, ", got ",
                     inputs[i].dtype);
    }
    const std::vector<TensorSpec> outputs = specs_of(found[1]);
    return Specs(outputs.begin(), outputs.end());
  }

  void complete(std::span<TensorSpec> inputs) const override {
    const GilAcquire gil;
    const std::vector<TensorSpec> wanted = specs_of(ask(inputs)[0]);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].shape.is_known()) inputs[i].shape = wanted[i].shape;
  }

  NDArrays call(std::span<const NDArrayRef> inputs) const override {
    const GilAcquire gil;
    std::vector<TensorSpec> specs;
    for (const NDArrayRef& a : inputs) specs.push_back(a->spec());
    const Specs output_specs = infer(specs);
    const size_t count = signature_.num_inputs;
    const Device device = inputs.empty() ? current_device() : inputs[0]->device();
    py::list shapes, dtypes;
    for (size_t i = 0; i < count; ++i) {
      shapes.append(py::list(shape_to_python(specs[i].shape)));
      dtypes.append(dtype_to_python(specs[i].dtype));
    }
    const py::object context = device_to_python(device);
    const auto state =
        make_ref<State>(definition_, definition_->object.attr("create")(context, shapes, dtypes));

    NDArrays outputs;
    for (const TensorSpec& s : output_specs)
      outputs.push_back(zeros(s, device, graph::any_numpy(inputs)));
    Callback callback;
    callback.method = "forward";
    callback.state = state;
    callback.training = mode.training;
    callback.reads = {detached(inputs.first(count))};
    callback.writes = {detached(outputs)};
    for (const NDArrayRef& a : inputs.subspan(count)) {
      MX_CHECK(a->contiguous(), "Custom: an auxiliary state of shape ", a->shape(),
               " must be contiguous, because it is changed in place");
      // As in MXNet 1.x, a parameter may be an auxiliary state, but an operator's output may not.
      const autograd::ArrayInfo* const info = autograd::info_of(*a);
      if (info && info->node) autograd::check_writable("Custom: auxiliary state", a);
    }
    callback.updates = {detached(inputs.subspan(count))};
    const bool record = mode.recording && autograd::needs_record(inputs.first(count));
    const Callback saved = record ? callback : Callback{};
    launch(std::move(callback));
    if (record) make_ref<CustomNode>(signature_, state, saved)->connect(inputs, outputs);
    return outputs;
  }

  std::optional<graph::HostOpForm> form() const override {
    const GilAcquire gil;
    graph::HostOpForm form;
    form.attrs = definition_->object.attr("attrs").cast<graph::Attributes>();
    return form;
  }

 private:
  // Returns the specs of inputs, states and outputs, in this order, as the user's infer methods
  // return them.
  py::tuple ask(std::span<const TensorSpec> inputs) const {
    py::list shapes, dtypes;
    for (const TensorSpec& s : inputs) {
      py::list dims;
      for (const int64_t d : s.shape) dims.append(std::max<int64_t>(d, 0));
      shapes.append(dims);
      dtypes.append(dtype_to_python(s.dtype));
    }
    return definition_->object.attr("infer")(shapes, dtypes);
  }
  static std::vector<TensorSpec> specs_of(const py::handle list) {
    std::vector<TensorSpec> specs;
    for (const py::handle pair : list) {
      const auto entry = py::reinterpret_borrow<py::tuple>(pair);
      specs.push_back({shape_from_python(entry[0], "Custom"), require_dtype(entry[1], "Custom")});
    }
    return specs;
  }

  PyRefPtr definition_;
  Signature signature_;
};

}  // namespace

void bind_custom(py::module_& m) {
  m.def(
      "custom_casts",
      [](const graph::Attributes& attrs, const py::list& dtypes) {
        std::vector<std::pair<int, const char*>> casts;
        const amp::Rules* rules = amp::current_rules();
        if (!rules) return casts;
        std::vector<KnownType> types;
        for (const py::handle dtype : dtypes) types.push_back(require_dtype(dtype, "Custom"));
        const amp::Casts found =
            amp::find_casts(*rules, graph::host_schema("Custom"), amp::text_of(attrs), types,
                            [](int) { return false; });
        for (const int i : found.inputs) casts.emplace_back(i, dtype_name(*found.type));
        return casts;
      },
      py::arg("attrs"), py::arg("dtypes"),
      "The casts that mixed precision asks for, if it is on: (position of an input, dtype).");
  m.def(
      "call_custom",
      [](py::object definition, const std::vector<NDArrayRef>& inputs) {
        Signature s;
        s.num_inputs = definition.attr("num_inputs").cast<size_t>();
        s.needs_grad = definition.attr("needs_grad").cast<std::vector<uint8_t>>();
        s.needs_input = definition.attr("needs_input").cast<std::vector<uint8_t>>();
        s.needs_output = definition.attr("needs_output").cast<std::vector<uint8_t>>();
        const bool is_traced = graph::Trace::current();
        if (is_traced) autograd::check_traced_training("Custom");
        NDArrays outputs = graph::call_host_op(
            "Custom", make_ref<const CustomOp>(std::move(definition), std::move(s)), inputs);
        if (is_traced) outputs = autograd::without_gradient_if_paused(std::move(outputs));
        return std::vector<NDArrayRef>(outputs.begin(), outputs.end());
      },
      py::arg("definition"), py::arg("inputs"),
      "Run (or trace) an operator written in Python; inputs, then auxiliary states.");
}

}  // namespace mxlite::python
