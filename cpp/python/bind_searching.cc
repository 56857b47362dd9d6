// Searches in values, for whose results Python waits. Arrays of a GPU are copied to the host and
// the results back.
#include <pybind11/stl.h>

#include "cpp/graph/trace.h"
#include "cpp/ndarray/copy.h"
#include "cpp/ops/cpu/searching.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

// Returns the array with its values in adjacent host memory.
NDArrayRef on_host(NDArrayRef a, const char* who) {
  if (a->is_traced()) graph::Trace::fail_read(*a, who);
  if (a->device().type == DeviceType::kCUDA) a = copy_to_device(a, {DeviceType::kCPU, 0});
  if (!a->contiguous()) a = contiguous(a);
  a->wait_to_read();
  return a;
}

TensorRef values_of(const NDArrayRef& a) {
  return {a->data(), a->shape(), a->strides(), a->dtype(), true};
}

NDArrayRef new_vector(int64_t size) {
  return NDArray::empty({Shape{size}, DType::kInt64}, {DeviceType::kCPU, 0});
}

// Returns the result on the device and in the class of an array.
NDArrayRef placed_as(const NDArrayRef& result, const NDArrayRef& like) {
  return (like->device().type == DeviceType::kCUDA ? copy_to_device(result, like->device())
                                                   : result)
      ->with_numpy(like->is_numpy());
}

std::vector<NDArrayRef> nonzero(const NDArrayRef& array, bool flat) {
  const NDArrayRef a = on_host(array, "nonzero");
  std::vector<NDArrayRef> axes;
  {
    const GilRelease released;
    const TensorRef values = values_of(a);
    const std::vector<int64_t> counts = cpu::count_nonzero(values);
    int64_t total = 0;
    for (const int64_t count : counts) total += count;
    std::vector<int64_t*> places;
    for (int i = 0; i < (flat ? 1 : a->shape().ndim()); ++i) {
      axes.push_back(new_vector(total));
      places.push_back(static_cast<int64_t*>(axes.back()->data()));
    }
    if (total) cpu::write_nonzero(values, counts, places);
  }
  for (NDArrayRef& axis : axes) axis = placed_as(axis, array);
  return axes;
}

std::pair<int64_t, int64_t> extremes(const NDArrayRef& array) {
  const NDArrayRef a = on_host(array, "extremes");
  const GilRelease released;
  const cpu::Extremes found = cpu::integer_extremes(values_of(a));
  return {found.low, found.high};
}

NDArrayRef bincount(const NDArrayRef& array, int64_t bins) {
  const NDArrayRef a = on_host(array, "bincount"), counts = new_vector(bins);
  {
    const GilRelease released;
    cpu::count_integers(values_of(a), bins, static_cast<int64_t*>(counts->data()));
  }
  return placed_as(counts, array);
}

NDArrayRef searchsorted(const NDArrayRef& sorted, const NDArrayRef& values, bool right) {
  MX_CHECK_DTYPE(sorted->dtype() == values->dtype(), "searchsorted: values must have dtype ",
                 dtype_name(sorted->dtype()), ", got ", dtype_name(values->dtype()));
  const NDArrayRef a = on_host(sorted, "searchsorted"), v = on_host(values, "searchsorted");
  const NDArrayRef places = NDArray::empty({values->shape(), DType::kInt64}, {DeviceType::kCPU, 0});
  {
    const GilRelease released;
    cpu::search_sorted(values_of(a), values_of(v), right, static_cast<int64_t*>(places->data()));
  }
  return placed_as(places, sorted);
}

}  // namespace

void bind_searching(py::module_& m) {
  m.def("nonzero", &nonzero, py::arg("array"), py::arg("flat") = false,
        "Coordinates of elements that are not 0, an int64 vector for each axis; one vector of\n"
        "positions in the flattened array if `flat`.");
  m.def("extremes", &extremes, py::arg("array"),
        "(smallest, largest) element of integers or bools, of which there is at least one.");
  m.def("bincount", &bincount, py::arg("array"), py::arg("bins"),
        "How often each integer below `bins` occurs; there must be no others.");
  m.def(
      "searchsorted", &searchsorted, py::arg("sorted"), py::arg("values"), py::arg("right"),
      "Number of elements of an ascending vector that are smaller than each value, or not larger\n"
      "if `right`.");
}

}  // namespace mxlite::python
