// Embedding tables for mxlite.parallel.layers.sharded_embedding.
#include <cstring>

#include "cpp/ops/cpu/sparse/embedding_table.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

using sparse::EmbeddingPlan;
using sparse::EmbeddingTable;

constexpr const char* kWho = "ShardedEmbedding";

// Returns the memory of a host array after its value has been computed.
TensorRef tensor_of(const NDArrayRef& array) {
  MX_ASSERT(array->contiguous() && array->device().type == DeviceType::kCPU);
  array->wait_to_read();
  return {array->data(), array->shape(), array->strides(), array->dtype(), true};
}

// Gradients and offsets must be arrays of a known dtype.
template <class T>
T* values_of(const NDArrayRef& array) {
  MX_CHECK_DTYPE(array->dtype() == DTypeOf<T>::value, kWho, ": the array must be of dtype ",
                 DTypeOf<T>::value, ", got ", array->dtype());
  return tensor_of(array).as<T>();
}

template <class T>
NDArrayRef array_from(const std::vector<T>& values, const Shape& shape, DType dtype) {
  NDArrayRef array = NDArray::empty({shape, dtype}, Device{});
  if (!values.empty()) std::memcpy(array->data(), values.data(), values.size() * sizeof(T));
  return array;
}

sparse::IdPolicy policy_from(const std::string& name) {
  if (name == "clip") return sparse::IdPolicy::kClip;
  if (name == "hash") return sparse::IdPolicy::kHash;
  return sparse::IdPolicy::kError;
}

sparse::RowRule rule_from(const std::string& op, const py::dict& params) {
  std::vector<optimizer::NamedNumber> numbers;
  for (const auto& [name, value] : params)
    numbers.emplace_back(name.cast<std::string>(), value.cast<double>());
  return sparse::make_row_rule(op, numbers);
}

std::unique_ptr<EmbeddingPlan> make_plan(const std::string& table, int64_t rows,
                                         const std::string& policy, int ranks,
                                         const NDArrayRef& ids) {
  const GilRelease released;
  return std::make_unique<EmbeddingPlan>(sparse::IdRules{table, rows, policy_from(policy), ranks},
                                         tensor_of(ids));
}

void bind_plan(py::module_& m) {
  py::class_<EmbeddingPlan>(m, "EmbeddingPlan", "The distinct ids of a batch; see the C++ class.")
      .def(py::init(&make_plan), py::arg("table"), py::arg("rows"), py::arg("policy"),
           py::arg("ranks"), py::arg("ids"))
      .def(
          "make_bags",
          [](EmbeddingPlan& self, const std::string& table, const NDArrayRef& offsets, bool mean) {
            const auto* const begin = values_of<int64_t>(offsets);
            self.make_bags(table, {begin, static_cast<size_t>(offsets->size())}, mean);
          },
          py::arg("table"), py::arg("offsets"), py::arg("mean"))
      .def_property_readonly("count", &EmbeddingPlan::count)
      .def_property_readonly("outputs", &EmbeddingPlan::outputs)
      .def_property_readonly("counts",
                             [](const EmbeddingPlan& self) {
                               py::list counts;
                               for (const int64_t n : self.counts()) counts.append(n);
                               return counts;
                             })
      .def("ids",
           [](const EmbeddingPlan& self) {
             return array_from(self.ids(), {static_cast<int64_t>(self.ids().size())},
                               DType::kInt64);
           })
      .def(
          "expand",
          [](const EmbeddingPlan& self, const NDArrayRef& rows) {
            const GilRelease released;
            const TensorRef from = tensor_of(rows);
            NDArrayRef out =
                NDArray::empty({{self.outputs(), rows->shape()[1]}, DType::kFloat32}, Device{});
            self.expand(from, static_cast<float*>(out->data()));
            return out;
          },
          py::arg("rows"), "Rows of the distinct ids to the plan's float32 result.")
      .def(
          "reduce",
          [](const EmbeddingPlan& self, const NDArrayRef& grad, int64_t dim) {
            const GilRelease released;
            NDArrayRef sums = NDArray::empty(
                {{static_cast<int64_t>(self.ids().size()), dim}, DType::kFloat32}, Device{});
            MX_ASSERT(grad->size() == self.outputs() * dim);
            self.reduce(values_of<float>(grad), dim, static_cast<float*>(sums->data()));
            return sums;
          },
          py::arg("grad"), py::arg("dim"), "Gradients of the result, summed for each id.");
}

void write_rows(EmbeddingTable& self, const NDArrayRef& ids, const NDArrayRef& weights,
                const NDArrayRef& states, const NDArrayRef& uses) {
  EmbeddingTable::Rows rows;
  const auto* const id = values_of<int64_t>(ids);
  rows.ids.assign(id, id + ids->size());
  const auto* const use = values_of<int64_t>(uses);
  rows.uses.assign(use, use + uses->size());
  const auto* const state = values_of<float>(states);
  rows.states.assign(state, state + states->size());
  const TensorRef from = tensor_of(weights);
  rows.weights.assign(from.as<std::byte>(), from.as<std::byte>() + from.bytes());
  const auto& options = self.options();
  MX_CHECK_SHAPE(weights->size() == ids->size() * options.dim &&
                     states->size() == weights->size() * options.states &&
                     from.dtype == options.dtype,
                 kWho, " ", options.ids.table, ": saved weights must be ", options.dtype, " with ",
                 options.dim, " values per id, and saved states must have ", options.states,
                 " values per weight, got ", from.dtype, " weights of shape ", weights->shape(),
                 " and states of shape ", states->shape(), " for ", ids->size(), " ids");
  const GilRelease released;
  self.write(rows);
}

}  // namespace

void bind_embedding(py::module_& m) {
  bind_plan(m);
  m.def("states_of_row_rule", &sparse::states_of_row_rule, py::arg("op"));
  py::class_<EmbeddingTable>(m, "EmbeddingTable", "One rank's rows; see the C++ class.")
      .def(py::init([](const std::string& table, int64_t rows, int ranks, int rank, int64_t dim,
                       const py::object& dtype, int states, int64_t capacity, bool evicts,
                       double scale, uint64_t seed) {
             const DType type = require_dtype(dtype, kWho);
             const sparse::TableOptions options{{table, rows, sparse::IdPolicy::kError, ranks},
                                                rank,
                                                dim,
                                                type,
                                                states,
                                                capacity,
                                                evicts,
                                                scale,
                                                seed};
             const GilRelease released;
             return std::make_unique<EmbeddingTable>(options);
           }),
           py::arg("table"), py::arg("rows"), py::arg("ranks"), py::arg("rank"), py::arg("dim"),
           py::arg("dtype"), py::arg("states"), py::arg("capacity"), py::arg("evicts"),
           py::arg("scale"), py::arg("seed"))
      .def(
          "gather",
          [](EmbeddingTable& self, const EmbeddingPlan& plan, bool inserts, bool in_float32) {
            const GilRelease released;
            const DType dtype = in_float32 ? DType::kFloat32 : self.options().dtype;
            NDArrayRef out = NDArray::empty({{plan.count(), self.options().dim}, dtype}, Device{});
            self.gather(plan, {out->data(), out->shape(), out->strides(), dtype, true}, inserts);
            return out;
          },
          py::arg("plan"), py::arg("inserts"), py::arg("in_float32"))
      .def(
          "update",
          [](EmbeddingTable& self, const EmbeddingPlan& plan, const NDArrayRef& grad,
             const std::string& op, const py::dict& params) {
            const sparse::RowRule rule = rule_from(op, params);
            const GilRelease released;
            MX_ASSERT(grad->size() == plan.outputs() * self.options().dim);
            self.update(plan, values_of<float>(grad), rule);
          },
          py::arg("plan"), py::arg("grad"), py::arg("op"), py::arg("params"))
      .def(
          "read",
          [](const EmbeddingTable& self, int64_t slot, int64_t count) {
            EmbeddingTable::Rows rows;
            {
              const GilRelease released;
              rows = self.read(slot, count);
            }
            const auto& options = self.options();
            const auto n = static_cast<int64_t>(rows.ids.size());
            return py::make_tuple(
                array_from(rows.ids, {n}, DType::kInt64),
                array_from(rows.weights, {n, options.dim}, options.dtype),
                array_from(rows.states, {n, options.states, options.dim}, DType::kFloat32),
                array_from(rows.uses, {static_cast<int64_t>(rows.uses.size())}, DType::kInt64));
          },
          py::arg("slot"), py::arg("count"), "(ids, weights, states, uses)")
      .def("write", &write_rows, py::arg("ids"), py::arg("weights"), py::arg("states"),
           py::arg("uses"))
      .def_property_readonly("slots", &EmbeddingTable::slots)
      .def_property_readonly("size", &EmbeddingTable::size)
      .def_property_readonly("row_bytes", &EmbeddingTable::row_bytes);
}

}  // namespace mxlite::python
