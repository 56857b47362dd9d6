// Rules that slice, take and concatenate rows of csr arrays.
#include <algorithm>

#include "cpp/ops/tensor/concat.h"
#include "cpp/ops/tensor/slice.h"
#include "cpp/ops/tensor/take.h"
#include "cpp/sparse/parts.h"
#include "cpp/sparse/rule.h"

namespace mxlite::sparse {
namespace {

using autograd::call_op;

bool is_csr(const NDArrayRef& array) { return storage_type(*array) == StorageType::kCSR; }

// Returns indptr[first] to indptr[first + rows], which are the bounds of the rows' stored values.
// Throws if the parts, which may come from the user, are not a valid csr array.
std::vector<int64_t> row_starts(const SparseCall& call, const SparseParts& parts, int64_t first,
                                int64_t rows) {
  const int64_t stored = parts.indices->size();
  const auto check = [&](bool fits) {
    MX_CHECK_KIND(fits, ErrorKind::kError, call.op.name,
                  ": indptr of a csr array must ascend from 0 to its ", stored,
                  " stored values, got other values; call check_format() for details");
  };
  check(parts.indptr->size() > first + rows && parts.values->size() == stored);
  std::vector<int64_t> starts =
      read_integers(first_axis_part(parts.indptr, first, first + rows + 1));
  check(std::is_sorted(starts.begin(), starts.end()) && starts.front() >= 0 &&
        starts.back() <= stored);
  return starts;
}

// Returns a csr array that contains the stored values at `places` in `parts`.
NDArrayRef chosen(const SparseParts& parts, std::span<const int64_t> places,
                  std::span<const int64_t> starts, int64_t first_column, const Shape& shape) {
  const Device device = parts.values->device();
  const NDArrayRef kept = make_integers(places, device);
  NDArrayRef columns = call_op("take", {parts.indices, kept}, {{"axis", int64_t{0}}});
  if (first_column != 0) columns = call_op("_minus_scalar", {columns}, {{"scalar", first_column}});
  return make_csr({shape, parts.values->dtype()},
                  call_op("take", {parts.values, kept}, {{"axis", int64_t{0}}}), columns,
                  make_integers(starts, device));
}

NDArrayRef slice(const SparseCall& call) {
  const NDArrayRef& data = call.inputs[0];
  const auto& p = call.get<SliceParams>();
  if (!is_csr(data)) return nullptr;
  for (const std::optional<int64_t>& step : p.step)
    if (step.value_or(1) != 1) return nullptr;
  const SliceRegion region = resolve_slice("slice", p.begin, p.end, p.step, data->shape());
  const SparseParts& parts = normal_parts(data);
  const int64_t first = region.begin[0], rows = region.shape[0];
  std::vector<int64_t> starts = row_starts(call, parts, first, rows);
  const int64_t low = starts.front(), high = starts.back();
  const int64_t left = region.begin[1], right = left + region.shape[1];
  if (region.shape[1] == data->shape()[1]) {
    for (int64_t& start : starts) start -= low;
    return make_csr({region.shape, data->dtype()},
                    call_op("_copy", {first_axis_part(parts.values, low, high)}),
                    call_op("_copy", {first_axis_part(parts.indices, low, high)}),
                    make_integers(starts, data->device()));
  }
  const std::vector<int64_t> columns = read_integers(first_axis_part(parts.indices, low, high));
  std::vector<int64_t> places, kept_before{0};  // positions of stored values in the column range
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] >= left && columns[i] < right) places.push_back(low + static_cast<int64_t>(i));
    kept_before.push_back(static_cast<int64_t>(places.size()));
  }
  for (int64_t& start : starts) start = kept_before[static_cast<size_t>(start - low)];
  return chosen(parts, places, starts, left, region.shape);
}

NDArrayRef take(const SparseCall& call) {
  const NDArrayRef &data = call.inputs[0], &indices = call.inputs[1];
  const auto& p = call.get<TakeParams>();
  const int64_t rows = data->shape()[0];
  if (!is_csr(data) || indices->is_sparse() || (p.axis != 0 && p.axis != -2) || rows == 0 ||
      p.mode == IndexMode::kRaise || indices->shape().ndim() != 1)
    return nullptr;
  const SparseParts& parts = normal_parts(data);
  const std::vector<int64_t> from = row_starts(call, parts, 0, rows);
  std::vector<int64_t> places, starts{0};
  for (int64_t row : read_integers(indices)) {
    row = p.mode == IndexMode::kWrap ? ((row % rows) + rows) % rows
                                     : std::clamp<int64_t>(row, 0, rows - 1);
    for (int64_t at = from[static_cast<size_t>(row)]; at < from[static_cast<size_t>(row) + 1]; ++at)
      places.push_back(at);
    starts.push_back(static_cast<int64_t>(places.size()));
  }
  return chosen(parts, places, starts, 0, Shape{indices->shape()[0], data->shape()[1]});
}

NDArrayRef concat(const SparseCall& call) {
  const int dim = call.get<ConcatParams>().dim;
  if (dim != 0 && dim != -2) return nullptr;
  NDArrays values, indices;
  std::vector<int64_t> starts{0};
  int64_t rows = 0;
  for (const NDArrayRef& array : call.inputs) {
    if (!is_csr(array)) return nullptr;
    const SparseParts& parts = normal_parts(array);
    values.push_back(parts.values);
    indices.push_back(parts.indices);
    const int64_t before = starts.back();
    const std::vector<int64_t> own = row_starts(call, parts, 0, array->shape()[0]);
    for (size_t i = 1; i < own.size(); ++i) starts.push_back(before + own[i]);
    rows += array->shape()[0];
  }
  const Device device = call.inputs[0]->device();
  const NDArrayRef joined = concat_rows(values);
  return make_csr({Shape{rows, call.inputs[0]->shape()[1]}, joined->dtype()}, joined,
                  concat_rows(indices), make_integers(starts, device));
}

const RuleRegistration rows_registration{{.op = "slice", .rule = &slice},
                                         {.op = "take", .rule = &take},
                                         {.op = "Concat", .rule = &concat}};

}  // namespace
}  // namespace mxlite::sparse
