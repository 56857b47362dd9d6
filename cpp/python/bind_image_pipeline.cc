// The image pipeline for mxlite.io.ImageRecordIter.
#include <pybind11/stl.h>

#include "cpp/io/image_pipeline.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/fields.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

// Sets an option that has no field, because Python computes it from others.
template <class T>
size_t read(const py::dict& given, const char* name, T& target) {
  if (!given.contains(name)) return 0;
  target = given[name].cast<T>();
  return 1;
}

io::PipelineOptions options_from(const py::dict& given, const std::string& owner) {
  io::PipelineOptions o;
  io::ImageParams& image = o.image;
  size_t used = read_fields(given, owner, o);
  used += read_fields<io::AugmentOptions>(given, owner, image);
  used += read(given, "batch_size", o.batch_size) + read(given, "skip_bad", o.skip_bad);
  used += read(given, "shuffle_bytes", o.shuffle_bytes) + read(given, "detection", o.detection);
  used += read(given, "augment_seed", o.augment_seed);
  used += read(given, "paths", o.paths) + read(given, "offsets", o.offsets);
  used += read(given, "labels", o.labels) + read(given, "channels", image.channels);
  used += read(given, "height", image.height) + read(given, "width", image.width);
  used += read(given, "mean", image.mean) + read(given, "std", image.std);
  used += read(given, "mean_image", image.mean_image);
  if (given.contains("dtype")) {
    image.dtype = require_dtype(given["dtype"], owner.c_str());
    ++used;
  }
  py::dict boxes;
  used += read(given, "boxes", boxes);
  std::vector<py::dict> samplers;
  const size_t known = read_fields(boxes, owner, o.boxes) + read(boxes, "samplers", samplers);
  for (const py::dict& limits : samplers)
    read_fields(limits, owner, o.boxes.samplers.emplace_back());
  MX_ASSERT(used == given.size() && known == boxes.size());
  return o;
}

}  // namespace

void bind_image_pipeline(py::module_& m) {
  py::class_<io::ImagePipeline>(m, "ImagePipeline", "Batches of images from a record file.")
      .def(py::init([](const py::dict& options, const std::string& owner) {
             io::PipelineOptions read = options_from(options, owner);
             const GilRelease released;
             return std::make_unique<io::ImagePipeline>(std::move(read));
           }),
           py::arg("options"), py::arg("owner"), "owner: whom errors name.")
      .def_static("reading_defaults", &default_fields<io::PipelineOptions>,
                  "Options of files, order and threads, and their defaults.")
      .def_static("augment_defaults", &default_fields<io::AugmentOptions>,
                  "Options of the augmentation and their defaults.")
      .def_static("box_defaults", &default_fields<io::DetectionParams>,
                  "Options of the augmentation with boxes and their defaults.")
      .def_static("sampler_defaults", &default_fields<io::CropSampler>,
                  "Limits of one crop sampler and their defaults.")
      .def(
          "next",
          [](io::ImagePipeline& self) -> py::object {
            io::ImageBatch batch;
            bool more = false;
            {
              const GilRelease released;
              more = self.next(batch);
            }
            if (!more) return py::none();
            return py::make_tuple(batch.data, batch.label, batch.index, batch.pad);
          },
          "(data, label, index, pad) of the next batch; None at the end.")
      .def("reset", &io::ImagePipeline::reset, py::call_guard<GilRelease>())
      .def("close", &io::ImagePipeline::close, py::call_guard<GilRelease>(),
           "End the threads for good, before the process ends.")
      .def(
          "position",
          [](const io::ImagePipeline& self) {
            const io::PipelinePosition p = self.position();
            return py::make_tuple(p.epoch, p.batches, p.samples, p.skipped_before, p.skipped.record,
                                  p.skipped.label, p.skipped.image);
          },
          "Where it is, for seek: epoch, its batches, samples and bad ones, all bad records by "
          "kind.")
      .def(
          "seek",
          [](io::ImagePipeline& self, uint64_t epoch, int64_t batches, int64_t samples,
             int64_t skipped_before, int64_t record, int64_t label, int64_t image) {
            const GilRelease released;
            self.seek({epoch, batches, samples, skipped_before, {record, label, image}});
          },
          py::arg("epoch"), py::arg("batches"), py::arg("samples"), py::arg("skipped_before"),
          py::arg("record"), py::arg("label"), py::arg("image"), "Continue from a position.")
      .def_property_readonly("num_records", &io::ImagePipeline::num_records)
      .def_property_readonly("label_width", &io::ImagePipeline::label_width)
      .def_property_readonly("skipped",
                             [](const io::ImagePipeline& self) {
                               const io::BadRecords& bad = self.skipped();
                               py::dict counts;
                               counts["record"] = bad.record;
                               counts["label"] = bad.label;
                               counts["image"] = bad.image;
                               return counts;
                             })
      .def_property_readonly("last_skipped", &io::ImagePipeline::last_skipped);
}

}  // namespace mxlite::python
