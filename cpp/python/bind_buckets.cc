// Buckets of gradients for mxlite.comm.buckets.
#include <pybind11/stl.h>

#include "cpp/autograd/gradient_order.h"
#include "cpp/graph/run/program_segments.h"
#include "cpp/jobs/coded_bucket.h"
#include "cpp/jobs/gradient_bucket.h"
#include "cpp/python/bind.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"

namespace mxlite::python {

using jobs::CodedBucket;
using jobs::GradientBucket;

namespace {

// Converts a list of arrays. None becomes a null reference.
std::vector<NDArrayRef> arrays_of(const py::list& items, const char* who) {
  std::vector<NDArrayRef> arrays;
  for (const py::handle item : items)
    arrays.push_back(item.is_none() ? nullptr : any_array_of(item, who));
  return arrays;
}

void bind_gradient_bucket(py::module_& m) {
  const auto arrays = [](const py::list& items) { return arrays_of(items, "GradientBucket"); };
  py::class_<GradientBucket>(m, "GradientBucket", "Gradients that one collective sums.")
      .def(py::init([](const std::vector<NDArrayRef>& like, const NDArrayRef& memory,
                       const NDArrayRef& sums) { return GradientBucket(like, memory, sums); }),
           py::arg("arrays"), py::arg("memory"), py::arg("sums"))
      .def(
          "fits", [=](GradientBucket& b, const py::list& items) { return b.fits(arrays(items)); },
          py::arg("arrays"),
          "Whether the arrays, or None, have the shapes, dtypes and devices of the bucket.")
      .def(
          "take", [=](GradientBucket& b, const py::list& items) { b.take(arrays(items)); },
          py::arg("arrays"),
          "Move arrays into their parts, and copy those that cannot be moved; None: leave out.")
      .def(
          "reduce",
          [](const GradientBucket& b, size_t first, size_t last, const std::string& name,
             int32_t set,
             double prescale) { b.reduce(first, last, name, set, prescale, current_origin()); },
          py::arg("first"), py::arg("last"), py::arg("name"), py::arg("set"), py::arg("prescale"),
          "Sum the parts first to last - 1 over the ranks of a process set, in the background.")
      .def_static(
          "sum_on_devices",
          [](const std::vector<GradientBucket*>& buckets, size_t first, size_t last) {
            GradientBucket::sum_on_devices(buckets, first, last);
          },
          py::arg("buckets"), py::arg("first"), py::arg("last"),
          "Sum the parts first to last - 1 of buckets on different GPUs of this process, "
          "one of each, in one call of NCCL and in the background.")
      .def(
          "give", [=](GradientBucket& b, const py::list& items) { b.give(arrays(items)); },
          py::arg("arrays"), "Copy sums to those arrays that do not lie in the bucket.")
      .def_property_readonly("parts", &GradientBucket::parts)
      .def_property_readonly("sums", &GradientBucket::sums);
}

void bind_coded_bucket(py::module_& m) {
  const auto arrays = [](const py::list& items) { return arrays_of(items, "CodedBucket"); };
  py::class_<CodedBucket>(m, "CodedBucket", "Gradients that travel as few bits for each value.")
      .def(py::init([](const std::vector<NDArrayRef>& like, const std::string& type,
                       double threshold) { return CodedBucket(like, type, threshold); }),
           py::arg("arrays"), py::arg("type"), py::arg("threshold"))
      .def(
          "fits", [=](CodedBucket& b, const py::list& items) { return b.fits(arrays(items)); },
          py::arg("arrays"),
          "Whether the arrays, or None, have the shapes of the bucket, in float32 on the CPU.")
      .def(
          "take",
          [=](CodedBucket& b, const py::list& items, const py::list& residuals) {
            b.take(arrays(items), arrays(residuals));
          },
          py::arg("arrays"), py::arg("residuals"),
          "Round arrays to words; residuals keep what is rounded away. None: leave out.")
      .def(
          "reduce",
          [](CodedBucket& b, size_t first, size_t last, const std::string& name, int32_t set) {
            b.reduce(first, last, name, set, current_origin());
          },
          py::arg("first"), py::arg("last"), py::arg("name"), py::arg("set"),
          "Send the words of parts first to last - 1 to all ranks.")
      .def(
          "give", [=](CodedBucket& b, const py::list& items) { b.give(arrays(items)); },
          py::arg("arrays"), "Overwrite arrays by the sums over all ranks; None: leave out.");
}

}  // namespace

void bind_buckets(py::module_& m) {
  bind_gradient_bucket(m);
  bind_coded_bucket(m);
  m.def(
      "bucket_elements",
      [](const std::vector<NDArrayRef>& arrays, const NDArrayRef& like) {
        return Bucket::elements_for(like->dtype(), jobs::shapes_of(arrays));
      },
      py::arg("arrays"), py::arg("like"),
      "The number of elements of a bucket of these arrays in the dtype of `like`.");
  m.def("run_backward_in_segments", &graph::set_segments, py::arg("on"),
        "Whether gradients of compiled graphs are ready while backward continues.");
  m.def("note_gradient_order", &autograd::set_notes_order, py::arg("on"),
        "Whether backward notes the order in which it makes gradients.");
  m.def(
      "gradient_positions",
      [](const std::vector<NDArrayRef>& gradients) {
        std::vector<uint64_t> found;
        for (const NDArrayRef& g : gradients) found.push_back(autograd::gradient_position(*g));
        return found;
      },
      py::arg("gradients"),
      "A number for each gradient: higher ones were made later, 0 is not known.");
}

}  // namespace mxlite::python
