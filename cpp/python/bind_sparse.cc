// Sparse arrays for mxlite/ndarray/sparse. Creates arrays from parts, and returns and replaces
// parts.
#include "cpp/autograd/tape.h"
#include "cpp/ndarray/sparse.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"
#include "cpp/sparse/tape.h"

namespace mxlite::python {
namespace {

PyTypeObject* subclass(const py::handle& cls) {
  MX_ASSERT(PyType_Check(cls.ptr()));
  cls.inc_ref();  // exists as long as the module
  return reinterpret_cast<PyTypeObject*>(cls.ptr());
}

SparseParts& parts_of(const py::handle& array) {
  const NDArrayRef a = any_array_of(array, "sparse");
  MX_ASSERT(a->is_sparse());
  return sparse_parts(*a);
}

py::tuple take_apart(const py::handle& array) {
  const SparseParts& p = parts_of(array);
  return py::make_tuple(static_cast<int>(p.form), p.values, p.indices, p.indptr);
}

NDArrays arrays_from(const py::list& list) {
  NDArrays arrays;
  for (const py::handle item : list) arrays.push_back(any_array_of(item, "sparse"));
  return arrays;
}

// Converts the parameters that bind_arguments has returned. None keeps a default that is not None.
ParamsRef params_from(const OpSchema& op, const py::dict& params) {
  std::vector<std::string> names;
  std::vector<AttrValue> values;
  for (const auto& [key, value] : params) {
    const auto name = key.cast<std::string>();
    const int at = op.param_index(name);
    const bool may_be_none =
        at >= 0 && op.params[static_cast<size_t>(at)].python_type.find("None") != std::string::npos;
    if (value.is_none() && !may_be_none) continue;
    names.push_back(name);
    values.push_back(attr_from_python(value.ptr(), op.name, name));
  }
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
  for (size_t i = 0; i < names.size(); ++i) attrs.emplace_back(names[i], values[i]);
  return op.make_params_by_name(attrs);
}

void bind_rules(py::module_& m) {
  m.def(
      "run_sparse_rule",
      [](const py::handle& op, const py::list& arrays, const py::dict& params,
         bool records) -> py::object {
        const auto alias = op.attr("__name__").cast<std::string>();
        const OpSchema& schema = ops().get(alias);
        const NDArrays inputs = arrays_from(arrays);
        const ParamsRef values = params_from(schema, params);
        const sparse::SparseCall call{schema, alias, values, inputs};
        const NDArrayRef result =
            records ? sparse::run_recording_rule(call) : sparse::run_rule(call);
        return result ? py::cast(result) : py::reinterpret_borrow<py::object>(Py_NotImplemented);
      },
      py::arg("op"), py::arg("arrays"), py::arg("params"), py::arg("records"),
      "The result of a call on sparse arrays by the operator's rule: by one that records itself,\n"
      "or by one that runs unrecorded. NotImplemented if there is none for these storage types.\n"
      "The arguments are those of bind_arguments.");
  m.def(
      "sparse_rule_checks_shapes",
      [](const py::handle& op) {
        const auto alias = op.attr("__name__").cast<std::string>();
        return sparse::rule_checks_shapes(ops().get(alias), alias);
      },
      py::arg("op"), "Whether the shapes of a call are checked by the rule instead of the schema.");
  m.def(
      "normal_parts",
      [](const py::handle& array) {
        const SparseParts& parts = sparse::normal_parts(any_array_of(array, "sparse"));
        return py::make_tuple(parts.values, parts.indices, parts.indptr);
      },
      py::arg("array"), "(values, indices, indptr or None) of a sparse array in the normal form.");
  m.def(
      "dense_of",
      [](const py::handle& array) { return sparse::dense(any_array_of(array, "sparse")); },
      py::arg("array"), "The array in default storage, unrecorded.");
  m.def(
      "cast_storage",
      [](const py::handle& array, int stype) {
        return sparse::cast_storage(any_array_of(array, "cast_storage"),
                                    static_cast<StorageType>(stype));
      },
      py::arg("array"), py::arg("stype"),
      "The array in storage type 0 (default), 1 (row_sparse) or 2 (csr), recorded; itself if it\n"
      "has the type.");
  m.def(
      "merged_rows",
      [](const NDArrayRef& values, const NDArrayRef& indices) {
        const sparse::Rows rows = sparse::merged(values, indices);
        return py::make_tuple(rows.values, rows.indices);
      },
      py::arg("values"), py::arg("indices"),
      "Rows in ascending order, those of one index added up: (values, indices).");
  m.def(
      "csr_keys",
      [](const py::handle& array) { return sparse::csr_keys(any_array_of(array, "csr")); },
      py::arg("array"), "Position of every stored value in the flattened matrix.");
}

}  // namespace

void bind_sparse(py::module_& m) {
  bind_rules(m);
  m.def(
      "set_sparse_types",
      [](const py::handle& row_sparse, const py::handle& csr, const py::handle& dispatch) {
        sparse_hooks = {subclass(row_sparse), subclass(csr), dispatch.inc_ref().ptr()};
      },
      py::arg("row_sparse"), py::arg("csr"), py::arg("dispatch"),
      "The classes of sparse arrays and dispatch(op, args, kwargs) for operators called on them.");
  m.def(
      "make_row_sparse",
      [](const NDArrayRef& values, const NDArrayRef& indices, const py::object& shape, int form) {
        return make_row_sparse({shape_from_python(shape, "row_sparse_array"), values->dtype()},
                               values, indices, static_cast<SparseForm>(form));
      },
      py::arg("values"), py::arg("indices"), py::arg("shape"), py::arg("form") = 0,
      "Row-sparse array of its parts.");
  m.def(
      "make_csr",
      [](const NDArrayRef& values, const NDArrayRef& indices, const NDArrayRef& indptr,
         const py::object& shape) {
        return make_csr({shape_from_python(shape, "csr_matrix"), values->dtype()}, values, indices,
                        indptr);
      },
      py::arg("values"), py::arg("indices"), py::arg("indptr"), py::arg("shape"),
      "CSR array of its parts.");
  m.def("sparse_parts", &take_apart, py::arg("array"),
        "(form, values, indices, indptr); form 0: normal, 1: rows in any order, 2: all dense.");
  m.def(
      "set_sparse_parts",
      [](const py::handle& array, const NDArrayRef& values, const NDArrayRef& indices,
         const py::object& indptr) {
        SparseParts& p = parts_of(array);
        p.form = SparseForm::kNormal;
        p.values = values;
        p.indices = indices;
        p.indptr = indptr.is_none() ? nullptr : py::cast<NDArrayRef>(indptr);
      },
      py::arg("array"), py::arg("values"), py::arg("indices"), py::arg("indptr"),
      "Replace the parts, which are in the normal form.");
  m.def(
      "assign_sparse_handle",
      [](const py::handle& array, const py::handle& other) {
        any_array_of(array, "sparse")->assign_handle(*any_array_of(other, "sparse"));
        SparseParts& to = parts_of(array);
        const SparseParts& from = parts_of(other);
        to.form = from.form;
        to.values = from.values;
        to.indices = from.indices;
        to.indptr = from.indptr;
      },
      py::arg("array"), py::arg("other"), "Make a sparse array refer to the other's parts.");
  m.def(
      "array_shape",
      [](const py::handle& a) { return shape_to_python(any_array_of(a, "shape")->shape()); },
      py::arg("array"), "Shape of an array of any storage.");
  m.def(
      "detach_sparse", [](const py::handle& a) { return any_array_of(a, "detach")->detached(); },
      py::arg("array"), "The same parts without history.");
  m.def(
      "grad_of",
      [](const py::handle& a) { return autograd::gradient_of(*any_array_of(a, "grad")); },
      py::arg("array"), "Gradient array of a variable of any storage, or None.");
  m.def(
      "grad_stype",
      [](const py::handle& a) {
        const autograd::ArrayInfo* info = autograd::info_of(*any_array_of(a, "grad_stype"));
        const bool leaf = info && !info->node && info->req != autograd::GradReq::kNull;
        return static_cast<int>(leaf ? info->stype : StorageType::kDefault);
      },
      py::arg("array"), "Storage type of a variable's gradient: 0 default, 1 row_sparse, 2 csr.");
  m.def(
      "is_recorded",
      [](const py::handle& a) {
        const NDArrayRef array = any_array_of(a, "is_recorded");
        return autograd::needs_record({&array, 1});
      },
      py::arg("array"), "Whether a call on this array would be recorded.");
  m.def(
      "exchange_fresh_grad",
      [](const py::handle& a, bool fresh) {
        autograd::ArrayInfo* info = autograd::info_of(*any_array_of(a, "grad"));
        return info ? std::exchange(info->fresh, fresh) : false;
      },
      py::arg("array"), py::arg("fresh"), "Set _fresh_grad of any array; returns the old value.");
  m.def(
      "grad_request",
      [](const py::handle& a) {
        const autograd::ArrayInfo* info = autograd::info_of(*any_array_of(a, "grad"));
        return static_cast<int>(info ? info->req : autograd::GradReq::kNull);
      },
      py::arg("array"), "0 null, 1 write, 2 add.");
}

}  // namespace mxlite::python
