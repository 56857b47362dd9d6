// Turns one record into one row of a batch of ImagePipeline.
#include <algorithm>
#include <cstring>

#include "cpp/base/file_error.h"
#include "cpp/io/image_chunk.h"

namespace mxlite::io {
namespace {

constexpr int64_t kHeaderSize = 24;  // u32 number of labels, f32 label, u64 id, u64 id2
constexpr int64_t kShapeLabels = 4;  // channels, height, width, label length; boxes follow

// Returns the number of labels that the record's header states.
int64_t count_labels(const Record& record, const std::string& name) {
  const auto size = static_cast<int64_t>(record.bytes.size());
  uint32_t count = 0;
  MX_CHECK_KIND(size >= kHeaderSize, ErrorKind::kRecord, name,
                ": the record must have at least the ", kHeaderSize, " bytes of its header, got ",
                size);
  std::memcpy(&count, record.bytes.data(), sizeof(count));
  MX_CHECK_KIND(kHeaderSize + 4 * static_cast<int64_t>(count) <= size, ErrorKind::kRecord, name,
                ": the record must contain the ", count, " labels that its header announces, got ",
                size, " bytes in all");
  return count;
}

std::string name_of(const RecordFile& file, int64_t number, int64_t offset) {
  return str("record file '", file.path(), "': record ", number, " at offset ", offset);
}

void write_box_label(const DetectionSample& sample, const ImageParams& image, float padding,
                     std::span<float> output) {
  const float shape[] = {static_cast<float>(image.channels), static_cast<float>(sample.height),
                         static_cast<float>(sample.width), static_cast<float>(sample.label.size())};
  auto at = std::copy(std::begin(shape), std::end(shape), output.begin());
  at = std::copy(sample.label.header.begin(), sample.label.header.end(), at);
  at = std::copy(sample.label.objects.begin(), sample.label.objects.end(), at);
  std::fill(at, output.end(), padding);
}

}  // namespace

// Returns the record's labels. They come from options_.labels if it is given, otherwise from the
// record.
std::span<const float> ImagePipeline::labels_of(const Record& record,
                                                const std::string& name) const {
  const int64_t count = count_labels(record, name);
  if (!options_.labels.empty()) {
    uint64_t id = 0;
    std::memcpy(&id, record.bytes.data() + 8, sizeof(id));
    const auto found = options_.labels.find(id);
    MX_CHECK_KIND(found != options_.labels.end(), ErrorKind::kRecord, name,
                  ": the record's id must be an id in path_imglist, got ", id);
    return found->second;
  }
  // The labels are aligned for float, because records and payloads begin at multiples of 4 bytes.
  const std::byte* labels = record.bytes.data() + (count > 0 ? kHeaderSize : 4);
  return {reinterpret_cast<const float*>(labels), static_cast<size_t>(std::max(count, int64_t{1}))};
}

// Uses label_pad_width or the widest label of all parts, because the shape must be equal in all
// processes.
void ImagePipeline::choose_label_width() {
  label_width_ = options_.label_width;
  if (!options_.detection) return;
  int64_t widest = 0;
  Record record;
  const int64_t given = options_.boxes.label_pad_width;
  for (const int64_t global : given > 0 ? offsets_ : scan(0, begins_.back())) {
    const Place place = place_of_offset(global);
    record.buffer.forget();
    try {
      place.file.read(place.offset, record);
      const std::span<const float> labels =
          labels_of(record, name_of(place.file, -1, place.offset));
      widest = std::max(widest, static_cast<int64_t>(labels.size()));
    } catch (const FileReadError&) {
      throw;
    } catch (const Error&) {  // next() reports it when it reads this record
    }
  }
  MX_CHECK_SHAPE(given <= 0 || given >= widest,
                 "ImageDetRecordIter: label_pad_width must be at least ", widest,
                 ", the length of the longest label, got ", given);
  label_width_ = kShapeLabels + std::max(given, widest);
}

void ImagePipeline::make_sample(Chunk& chunk, int64_t row, int64_t position, Record& record,
                                TransformScratch& scratch) {
  const int64_t number = order_[static_cast<size_t>(position)];
  const int64_t global = offsets_[static_cast<size_t>(number)];
  const auto [file, offset] = place_of_offset(global);
  chunk.batch.index[static_cast<size_t>(row)] = number;
  SampleStage& stage = chunk.failures[static_cast<size_t>(row)].stage;
  record.buffer.forget();  // it may hold bytes of another file
  file.read(offset, record, number);
  const std::string name = name_of(file, number, offset);
  stage = SampleStage::kLabel;
  const std::span<const float> labels = labels_of(record, name);
  const int64_t expected = options_.label_width;
  MX_CHECK_SHAPE((options_.detection && expected <= 0) || std::ssize(labels) == expected, name,
                 ": the number of labels in the ", options_.labels.empty() ? "record" : "list",
                 " must be label_width ", expected, ", got ", labels.size());
  const auto skipped = static_cast<size_t>(kHeaderSize + 4 * count_labels(record, name));
  const std::span<const std::byte> bytes = record.bytes.subspan(skipped);
  const std::span<float> label(static_cast<float*>(chunk.batch.label->data()) + row * label_width_,
                               static_cast<size_t>(label_width_));
  const NDArray& data = *chunk.batch.data;
  void* output =
      static_cast<std::byte*>(data.data()) +
      row * (data.size() / options_.batch_size) * static_cast<int64_t>(dtype_size(data.dtype()));
  // The seed depends only on record and epoch and not on threads or order.
  Random random(mix(mix(options_.augment_seed, epoch_), static_cast<uint64_t>(global)));
  if (!options_.detection) {
    std::copy(labels.begin(), labels.end(), label.begin());
    stage = SampleStage::kImage;
    transform_image(bytes, options_.image, random, name, scratch, output);
    return;
  }
  DetectionSample boxes;
  boxes.label = parse_box_label(labels, name);
  stage = SampleStage::kImage;
  transform_detection(bytes, options_.image, options_.boxes, random, name, boxes, output);
  stage = SampleStage::kLabel;
  MX_CHECK_SHAPE(boxes.label.size() + kShapeLabels <= label_width_, name,
                 ": the number of labels must be at most ", label_width_ - kShapeLabels, ", got ",
                 boxes.label.size());
  write_box_label(boxes, options_.image, options_.boxes.label_pad_value, label);
}

}  // namespace mxlite::io
