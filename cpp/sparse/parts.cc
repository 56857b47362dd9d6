#include "cpp/sparse/parts.h"

#include <algorithm>

#include "cpp/autograd/sparse_grad.h"
#include "cpp/core/device_map.h"
#include "cpp/graph/trace.h"
#include "cpp/ndarray/copy.h"

namespace mxlite::sparse {

using autograd::call_op;

namespace {

bool is_host(Device device) { return computing_device(device.type) == DeviceType::kCPU; }

// Returns the list without its last element, and cut to the length that this element holds.
NDArrayRef without_count(const NDArrayRef& list) {
  const int64_t last = list->shape()[0] - 1;
  return first_axis_part(list, 0, read_integers(first_axis_part(list, last, last + 1))[0]);
}

Rows rows_of_dense(const NDArrayRef& dense) {
  const NDArrayRef indices = without_count(call_op("_nonzero_rows", {dense}));
  if (indices->shape()[0] == dense->shape()[0]) return {call_op("_copy", {dense}), indices};
  return {call_op("take", {dense, indices}, {{"axis", int64_t{0}}}), indices};
}

NDArrayRef csr_of_dense(const NDArrayRef& dense) {
  const NDArrayRef indptr = call_op("_csr_count", {dense});
  const int64_t rows = dense->shape()[0];
  const int64_t count = read_integers(first_axis_part(indptr, rows, rows + 1))[0];
  const OpSchema& collect = ops().get("_csr_collect");
  const std::pair<std::string_view, AttrValue> nnz{"nnz", count};
  const std::array inputs{dense, indptr};
  const NDArrays found = autograd::call(collect, collect.make_params_by_name({&nnz, 1}), inputs);
  return make_csr(dense->spec(), found[0], found[1], indptr);
}

}  // namespace

std::vector<int64_t> read_integers(const NDArrayRef& vector) {
  if (vector->is_traced()) graph::Trace::fail_read(*vector, "sparse array");
  const NDArrayRef host = is_host(vector->device()) ? vector : copy_to_device(vector, {});
  host->wait_to_read();
  std::vector<int64_t> values(static_cast<size_t>(host->size()));
  copy_strided(host->shape(), {host->data(), host->dtype(), host->strides()},
               {values.data(), DType::kInt64, contiguous_strides(host->shape())});
  return values;
}

NDArrayRef make_integers(std::span<const int64_t> values, Device device) {
  const auto count = static_cast<int64_t>(values.size());
  const bool on_host = is_host(device);
  const NDArrayRef host =
      NDArray::empty({Shape{count}, DType::kInt64}, on_host ? device : Device{});
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(host->data()));
  return on_host ? host : copy_to_device(host, device);
}

NDArrayRef first_axis_part(const NDArrayRef& array, int64_t begin, int64_t end) {
  // Refuses traced arrays, because the size of the parts depends on values.
  if (array->is_traced()) graph::Trace::fail_read(*array, "sparse array");
  Shape shape = array->shape();
  shape[0] = end - begin;
  return array->strided(shape, array->strides(), array->offset() + begin * array->strides()[0]);
}

NDArrayRef concat_rows(std::span<const NDArrayRef> arrays) {
  const OpSchema& concat = ops().get("Concat");
  const std::pair<std::string_view, AttrValue> dim{"dim", int64_t{0}};
  return autograd::call(concat, concat.make_params_by_name({&dim, 1}), arrays)[0];
}

NDArrayRef unique_rows(const NDArrayRef& indices) {
  return without_count(call_op("_unique_rows", {indices}));
}

Rows merged(const NDArrayRef& values, const NDArrayRef& indices) {
  const Unrecorded scope;
  const NDArrayRef unique = unique_rows(indices);
  return {call_op("_merge_rows", {values, indices, unique}), unique};
}

NDArrayRef row_sparse(const Rows& rows, const Shape& shape) {
  return make_row_sparse({shape, rows.values->dtype()}, rows.values, rows.indices);
}

const SparseParts& normal_parts(const NDArrayRef& array) {
  SparseParts& parts = sparse_parts(*array);
  if (parts.form == SparseForm::kNormal) return parts;
  const Unrecorded scope;
  if (parts.stype == StorageType::kCSR) {
    const NDArrayRef csr = csr_of_dense(parts.values);
    parts.values = sparse_parts(*csr).values;
    parts.indices = sparse_parts(*csr).indices;
    parts.indptr = sparse_parts(*csr).indptr;
  } else {
    const Rows rows = parts.form == SparseForm::kRows ? merged(parts.values, parts.indices)
                                                      : rows_of_dense(parts.values);
    parts.values = rows.values;
    parts.indices = rows.indices;
  }
  parts.form = SparseForm::kNormal;
  return parts;
}

NDArrayRef dense(const NDArrayRef& array) {
  const Unrecorded scope;
  return autograd::densified(array);
}

NDArrayRef sparse_of_dense(const NDArrayRef& dense, StorageType stype) {
  const Unrecorded scope;
  if (dense->is_traced()) graph::Trace::fail_read(*dense, "cast_storage");
  const Shape& shape = dense->shape();
  if (stype == StorageType::kCSR) {
    MX_CHECK_SHAPE(shape.ndim() == 2,
                   "cast_storage: To convert to a CSR, the NDArray should be 2 Dimensional. "
                   "Current shape is ",
                   shape);
    return csr_of_dense(dense);
  }
  MX_CHECK_SHAPE(shape.ndim() >= 1, "cast_storage: data must have 1 or more dimensions, got 0");
  return row_sparse(rows_of_dense(dense), shape);
}

NDArrayRef with_values(const NDArrayRef& like, NDArrayRef values) {
  const SparseParts& parts = normal_parts(like);
  const TensorSpec spec{like->shape(), values->dtype()};
  if (!parts.indptr) return make_row_sparse(spec, std::move(values), parts.indices);
  return make_csr(spec, std::move(values), parts.indices, parts.indptr);
}

NDArrayRef csr_keys(const NDArrayRef& csr) {
  const SparseParts& parts = normal_parts(csr);
  const NDArrayRef rows = call_op("_csr_rows", {parts.indptr}, {{"nnz", parts.indices->size()}});
  const NDArrayRef starts = call_op("_mul_scalar", {rows}, {{"scalar", csr->shape()[1]}});
  return call_op("elemwise_add", {starts, parts.indices});
}

NDArrayRef csr_of_keys(const NDArrayRef& values, const NDArrayRef& keys, const Shape& shape) {
  const int64_t columns = std::max<int64_t>(shape[1], 1);
  std::vector<int64_t> places = read_integers(keys), starts;
  for (int64_t row = 0; row <= shape[0]; ++row) {
    const auto at = std::lower_bound(places.begin(), places.end(), row * columns);
    starts.push_back(at - places.begin());
  }
  for (int64_t& place : places) place = ((place % columns) + columns) % columns;
  const Device device = values->device();
  return make_csr({shape, values->dtype()}, values, make_integers(places, device),
                  make_integers(starts, device));
}

NDArrayRef looked_up(const NDArrayRef& array, const NDArrayRef& pattern) {
  const SparseParts& places = normal_parts(pattern);
  if (places.indptr) {
    if (!array->is_sparse()) return call_op("_csr_gather", {array, places.indices, places.indptr});
    const Rows stored = merged(normal_parts(array).values, csr_keys(array));
    return call_op("_row_sparse_take", {stored.values, stored.indices, csr_keys(pattern)});
  }
  if (!array->is_sparse()) return call_op("take", {array, places.indices}, {{"axis", int64_t{0}}});
  const SparseParts& stored = normal_parts(array);
  return call_op("_row_sparse_take", {stored.values, stored.indices, places.indices});
}

}  // namespace mxlite::sparse
