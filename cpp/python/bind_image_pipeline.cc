// The image pipeline for mxlite.io.ImageRecordIter.
#include <pybind11/stl.h>

#include "cpp/io/image_pipeline.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

io::PipelineOptions options_from(const py::dict& given) {
  io::PipelineOptions o;
  io::ImageParams& image = o.image;
  size_t used = 0;
  const auto read = [&](const char* name, auto& field) {
    if (!given.contains(name)) return;
    field = given[name].cast<std::remove_reference_t<decltype(field)>>();
    ++used;
  };
#define READ(target, name) read(#name, (target).name)
  READ(o, paths), READ(o, offsets), READ(o, labels), READ(o, batch_size), READ(o, label_width);
  READ(o, threads), READ(o, prefetch), READ(o, part_index), READ(o, num_parts), READ(o, shuffle);
  READ(o, round_batch), READ(o, skip_bad), READ(o, seed), READ(o, augment_seed);
  READ(o, bad_limit), READ(o, shuffle_bytes), READ(o, shuffle_bytes_seed);
  READ(image, channels), READ(image, height), READ(image, width), READ(image, resize);
  READ(image, rand_crop), READ(image, random_resized_crop), READ(image, max_rotate_angle);
  READ(image, rotate), READ(image, rotate_list), READ(image, max_aspect_ratio);
  READ(image, min_aspect_ratio), READ(image, max_shear_ratio), READ(image, max_crop_size);
  READ(image, min_crop_size), READ(image, max_random_scale), READ(image, min_random_scale);
  READ(image, max_random_area), READ(image, min_random_area), READ(image, max_img_size);
  READ(image, min_img_size), READ(image, brightness), READ(image, contrast);
  READ(image, saturation), READ(image, pca_noise), READ(image, random_h), READ(image, random_s);
  READ(image, random_l), READ(image, fill_value), READ(image, inter_method), READ(image, pad);
  READ(image, mirror), READ(image, rand_mirror), READ(image, mean), READ(image, std);
  READ(image, mean_image), READ(image, scale), READ(image, max_random_contrast);
  READ(image, max_random_illumination);
  READ(o, detection), READ(o, label_pad_width), READ(o, label_pad_value);
  io::DetectionParams& boxes = o.boxes;
  READ(boxes, rand_crop_prob), READ(boxes, emit_center), READ(boxes, emit_overlap_thresh);
  READ(boxes, rand_pad_prob), READ(boxes, max_pad_scale), READ(boxes, max_random_hue);
  READ(boxes, max_random_saturation), READ(boxes, random_hue_prob);
  READ(boxes, random_saturation_prob), READ(boxes, random_illumination_prob);
  READ(boxes, random_contrast_prob), READ(boxes, rand_mirror_prob);
  read("box_illumination", boxes.max_random_illumination);
  read("box_contrast", boxes.max_random_contrast);
#undef READ
  std::vector<std::vector<float>> samplers;
  read("samplers", samplers);
  for (const std::vector<float>& s : samplers)
    boxes.samplers.push_back({s.at(0), s.at(1), s.at(2), s.at(3), s.at(4), s.at(5), s.at(6),
                              s.at(7), s.at(8), s.at(9), static_cast<int>(s.at(10))});
  int mode = 0;
  read("resize_mode", mode);
  boxes.resize_mode = static_cast<io::ResizeMode>(mode);
  if (given.contains("dtype")) {
    image.dtype = require_dtype(given["dtype"], "ImageRecordIter");
    ++used;
  }
  MX_ASSERT(used == given.size());
  return o;
}

}  // namespace

void bind_image_pipeline(py::module_& m) {
  py::class_<io::ImagePipeline>(m, "ImagePipeline", "Batches of images from a record file.")
      .def(py::init([](const py::dict& options) {
             io::PipelineOptions read = options_from(options);
             const GilRelease released;
             return std::make_unique<io::ImagePipeline>(std::move(read));
           }),
           py::arg("options"))
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
