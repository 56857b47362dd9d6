// The image pipeline for mxlite.io.ImageRecordIter.
#include <pybind11/stl.h>

#include <thread>

#include "cpp/io/image_pipeline.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/fields.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

// Reads options that are not fields of ImageParams. Python computes these from other
// options.
class OptionReader {
 public:
  OptionReader(const py::dict& given, const std::string& owner) : given_(given), owner_(owner) {}

  // Stores an option if it was given. Returns the number of options that were stored, 1 or 0.
  template <class T>
  size_t operator()(const char* name, T& target) const {
    if (!given_.contains(name)) return 0;
    const py::object value = given_[name];
    try {
      target = value.cast<T>();
    } catch (const py::cast_error&) {
      fail(ErrorKind::kValue, owner_, ": ", name, " must be a value that fits its type, got ",
           std::string(py::repr(value)));
    }
    return 1;
  }

 private:
  const py::dict& given_;
  const std::string& owner_;
};

io::PipelineOptions options_from(const py::dict& given, const std::string& owner) {
  io::PipelineOptions o;
  io::ImageParams& image = o.image;
  const OptionReader read(given, owner);
  size_t used = read_fields(given, owner, o);
  used += read_fields<io::AugmentOptions>(given, owner, image);
  used += read("batch_size", o.batch_size) + read("skip_bad", o.skip_bad);
  used += read("shuffle_bytes", o.shuffle_bytes) + read("detection", o.detection);
  used += read("augment_seed", o.augment_seed);
  used += read("paths", o.paths) + read("offsets", o.offsets);
  used += read("labels", o.labels) + read("channels", image.channels);
  used += read("height", image.height) + read("width", image.width);
  used += read("mean", image.mean) + read("std", image.std);
  used += read("mean_image", image.mean_image);
  if (given.contains("dtype")) {
    image.dtype = require_dtype(given["dtype"], owner.c_str());
    ++used;
  }
  py::dict boxes;
  used += read("boxes", boxes);
  std::vector<py::dict> samplers;
  const OptionReader read_box(boxes, owner);
  const size_t known = read_fields(boxes, owner, o.boxes) + read_box("samplers", samplers);
  for (const py::dict& limits : samplers)
    read_fields(limits, owner, o.boxes.samplers.emplace_back());
  MX_ASSERT(used == given.size() && known == boxes.size());
  return o;
}

// Python's garbage collector may run, and find the pipeline, on a thread that reads an address.
struct PipelineDelete {
  void operator()(io::ImagePipeline* pipeline) const {
    if (pipeline->is_worker())
      std::thread([pipeline] { delete pipeline; }).detach();
    else
      delete pipeline;
  }
};
using PipelineHolder = std::unique_ptr<io::ImagePipeline, PipelineDelete>;

}  // namespace

void bind_image_pipeline(py::module_& m) {
  py::class_<io::ImagePipeline, PipelineHolder>(m, "ImagePipeline",
                                                "Batches of images from a record file.")
      .def(py::init([](const py::dict& options, const std::string& owner) {
             io::PipelineOptions read = options_from(options, owner);
             const GilRelease released;
             return PipelineHolder(new io::ImagePipeline(std::move(read)));
           }),
           py::arg("options"), py::arg("owner"), "owner: whom errors name.")
      .def_static("reading_options", &describe_fields<io::PipelineOptions>,
                  "Options of files, order and threads: (default, documentation) by name.")
      .def_static("augment_options", &describe_fields<io::AugmentOptions>,
                  "Options of the augmentation: (default, documentation) by name.")
      .def_static("box_options", &describe_fields<io::DetectionParams>,
                  "Options of the augmentation with boxes: (default, documentation) by name.")
      .def_static("sampler_options", &describe_fields<io::CropSampler>,
                  "Limits of one crop sampler: (default, documentation) by name.")
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
                               const io::BadRecords bad = self.skipped();
                               py::dict counts;
                               counts["record"] = bad.record;
                               counts["label"] = bad.label;
                               counts["image"] = bad.image;
                               return counts;
                             })
      .def_property_readonly("last_skipped", &io::ImagePipeline::last_skipped);
}

}  // namespace mxlite::python
