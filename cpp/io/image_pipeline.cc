#include "cpp/io/image_pipeline.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpp/io/record_format.h"

namespace mxlite::io {
namespace {

constexpr int64_t kHeaderSize = 24;  // u32 number of labels, f32 label, u64 id, u64 id2

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0xD1B54A32D192ED03ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// std::shuffle may differ between standard libraries.
void shuffle_order(std::vector<int64_t>& order, Random random) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

std::vector<int64_t> scan(const RecordFile& file) {
  std::vector<int64_t> offsets;
  for (int64_t at = file.find_head(0); at < file.size(); at = file.find_head(at + 4)) {
    offsets.push_back(at);
    // Over the payload, unless the length cannot be right.
    const PartHead head = decode_part(load_word(file.bytes().data() + at + 4));
    const int64_t end = at + 8 + padded(head.length);
    if (end == file.size()) break;
    if (end + 8 <= file.size() && load_word(file.bytes().data() + end) == kRecordMagic)
      at = end - 4;
  }
  return offsets;
}

}  // namespace

struct ImagePipeline::Chunk {
  int64_t number = 0, rows = 0;
  NDArrayRef data, label;
  std::vector<int64_t> index;
  std::vector<std::exception_ptr> errors;  // by row; each written by the worker that has the row
  int64_t missing = 0;                     // rows not done; guarded by mutex_
};

ImagePipeline::ImagePipeline(PipelineOptions options)
    : options_(std::move(options)), file_(options_.path), owner_(::getpid()) {
  const std::string who = "ImageRecordIter: ";
  check_image_params(options_.image);
  MX_CHECK(options_.batch_size > 0, who, "batch_size ", options_.batch_size,
           " given, at least 1 expected");
  MX_CHECK(options_.label_width > 0, who, "label_width ", options_.label_width,
           " given, at least 1 expected");
  MX_CHECK(options_.threads > 0, who, "preprocess_threads ", options_.threads,
           " given, at least 1 expected");
  MX_CHECK(options_.prefetch > 0, who, "prefetch_buffer ", options_.prefetch,
           " given, at least 1 expected");
  MX_CHECK(options_.num_parts > 0 && options_.part_index >= 0 &&
               options_.part_index < options_.num_parts,
           who, "part_index ", options_.part_index, " of num_parts ", options_.num_parts,
           " given, 0 <= part_index < num_parts expected");
  choose_part();
  order_.resize(offsets_.size());
  start();
}

ImagePipeline::~ImagePipeline() {
  // A forked child has copies of the threads' objects, but not the threads.
  if (owner_ != ::getpid()) {
    for (std::jthread& worker : workers_) new std::jthread(std::move(worker));  // leaked
    workers_.clear();
    return;
  }
  stop();
}

void ImagePipeline::choose_part() {
  const int64_t parts = options_.num_parts, part = options_.part_index;
  if (options_.offsets.empty()) {
    offsets_ = scan(file_);
    const int64_t step = padded((file_.size() + parts - 1) / parts);
    std::erase_if(offsets_,
                  [&](int64_t offset) { return offset / std::max(step, int64_t{1}) != part; });
  } else {
    const auto n = static_cast<int64_t>(options_.offsets.size());
    std::sort(options_.offsets.begin(), options_.offsets.end());
    const int64_t step = (n + parts - 1) / parts;
    const int64_t begin = std::min(part * step, n), end = std::min(begin + step, n);
    offsets_.assign(options_.offsets.begin() + begin, options_.offsets.begin() + end);
  }
  MX_CHECK_KIND(!offsets_.empty(), ErrorKind::kRecord, "ImageRecordIter: record file '",
                file_.path(), "' of ", file_.size(), " bytes: part ", part, " of ", parts,
                " has no records");
}

int64_t ImagePipeline::num_chunks() const {
  return (num_records() + options_.batch_size - 1) / options_.batch_size;
}

void ImagePipeline::start() {
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.shuffle) shuffle_order(order_, Random(mix(options_.seed, epoch_)));
  next_sample_ = taken_ = delivered_ = left_row_ = 0;
  for (int i = 0; i < options_.threads; ++i)
    workers_.emplace_back([this](std::stop_token token) { work(std::move(token)); });
}

void ImagePipeline::stop() {
  for (std::jthread& worker : workers_) worker.request_stop();
  workers_.clear();  // joins
  chunks_.clear();
  left_.clear();
  first_.reset();
}

void ImagePipeline::reset() {
  MX_CHECK_KIND(owner_ == ::getpid(), ErrorKind::kError,
                "ImageRecordIter: was made before this process was forked");
  stop();
  ++epoch_;
  start();
}

std::unique_ptr<ImagePipeline::Chunk> ImagePipeline::new_chunk(int64_t number) const {
  auto chunk = std::make_unique<Chunk>();
  const ImageParams& image = options_.image;
  const int64_t batch = options_.batch_size, width = options_.label_width;
  chunk->number = number;
  chunk->rows = std::min(batch, num_records() - number * batch);
  chunk->data =
      NDArray::empty({{batch, image.channels, image.height, image.width}, image.dtype}, Device{});
  chunk->label =
      NDArray::empty({width == 1 ? Shape{batch} : Shape{batch, width}, DType::kFloat32}, Device{});
  chunk->index.resize(static_cast<size_t>(batch));
  chunk->errors.resize(static_cast<size_t>(batch));
  chunk->missing = chunk->rows;
  return chunk;
}

void ImagePipeline::work(std::stop_token token) {
  const int64_t batch = options_.batch_size;
  std::unique_lock lock(mutex_);
  while (true) {
    const bool more = changed_.wait(lock, token, [&] {
      return next_sample_ >= num_records() || next_sample_ / batch < taken_ + 1 + options_.prefetch;
    });
    if (!more || token.stop_requested() || next_sample_ >= num_records()) return;
    const int64_t position = next_sample_++;
    if (position % batch == 0) {
      try {
        chunks_.push_back(new_chunk(position / batch));
      } catch (...) {  // no memory: the consumer learns it from the first row
        auto failed = std::make_unique<Chunk>();
        failed->number = position / batch;
        failed->errors.push_back(std::current_exception());
        next_sample_ = num_records();
        chunks_.push_back(std::move(failed));
        changed_.notify_all();
        return;
      }
    }
    Chunk& chunk = *chunks_[static_cast<size_t>(position / batch - chunks_.front()->number)];
    lock.unlock();
    const int64_t row = position % batch;
    try {
      make_sample(chunk, row, position);
    } catch (...) {
      chunk.errors[static_cast<size_t>(row)] = std::current_exception();
    }
    lock.lock();
    if (--chunk.missing == 0) changed_.notify_all();
  }
}

void ImagePipeline::make_sample(Chunk& chunk, int64_t row, int64_t position) {
  const int64_t number = order_[static_cast<size_t>(position)];
  const int64_t offset = offsets_[static_cast<size_t>(number)];
  chunk.index[static_cast<size_t>(row)] = number;
  Record record;
  file_.read(offset, record, number);
  const std::string name =
      str("record file '", file_.path(), "': record ", number, " at offset ", offset);
  const auto size = static_cast<int64_t>(record.bytes.size());
  uint32_t count = 0;
  MX_CHECK_KIND(size >= kHeaderSize, ErrorKind::kRecord, name, ": ", size,
                " bytes, an image's header needs ", kHeaderSize);
  std::memcpy(&count, record.bytes.data(), sizeof(count));
  const int64_t begin = kHeaderSize + 4 * static_cast<int64_t>(count);
  MX_CHECK_KIND(begin <= size, ErrorKind::kRecord, name, ": its header promises ", count,
                " labels, the record has ", size, " bytes");
  const int64_t width = options_.label_width;
  auto* label = static_cast<float*>(chunk.label->data()) + row * width;
  const auto copy_labels = [&](const void* from, int64_t given, const char* where) {
    MX_CHECK_SHAPE(given == width, name, ": ", given, " labels in the ", where, ", label_width is ",
                   width);
    std::memcpy(label, from, static_cast<size_t>(4 * width));
  };
  if (!options_.labels.empty()) {
    uint64_t id = 0;
    std::memcpy(&id, record.bytes.data() + 8, sizeof(id));
    const auto found = options_.labels.find(id);
    MX_CHECK_KIND(found != options_.labels.end(), ErrorKind::kRecord, name, ": its id ", id,
                  " is not in path_imglist");
    copy_labels(found->second.data(), static_cast<int64_t>(found->second.size()), "list");
  } else if (count > 0) {
    copy_labels(record.bytes.data() + kHeaderSize, count, "record");
  } else {
    copy_labels(record.bytes.data() + 4, 1, "record");
  }
  const NDArray& data = *chunk.data;
  const int64_t sample =
      data.size() / options_.batch_size * static_cast<int64_t>(dtype_size(data.dtype()));
  // By record and epoch: neither the thread nor the order within the epoch matters.
  Random random(mix(mix(options_.augment_seed, epoch_), static_cast<uint64_t>(offset)));
  transform_image(record.bytes.subspan(static_cast<size_t>(begin)), options_.image, random, name,
                  static_cast<std::byte*>(data.data()) + row * sample);
}

std::unique_ptr<ImagePipeline::Chunk> ImagePipeline::take_chunk() {
  MX_CHECK_KIND(owner_ == ::getpid(), ErrorKind::kError,
                "ImageRecordIter: was made before this process was forked");
  if (taken_ >= num_chunks()) return nullptr;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !chunks_.empty() && chunks_.front()->missing == 0; });
  auto chunk = std::move(chunks_.front());
  chunks_.pop_front();
  ++taken_;
  changed_.notify_all();
  return chunk;
}

void ImagePipeline::copy_row(const Chunk& from, int64_t row, ImageBatch& to, int64_t target) const {
  for (const auto& [source, result] :
       {std::pair(from.data, to.data), std::pair(from.label, to.label)}) {
    const auto bytes =
        static_cast<int64_t>(dtype_size(source->dtype())) * source->size() / options_.batch_size;
    std::memcpy(static_cast<std::byte*>(result->data()) + target * bytes,
                static_cast<const std::byte*>(source->data()) + row * bytes,
                static_cast<size_t>(bytes));
  }
  to.index[static_cast<size_t>(target)] = from.index[static_cast<size_t>(row)];
}

bool ImagePipeline::next(ImageBatch& batch) {
  const int64_t size = options_.batch_size;
  int64_t filled = 0;
  std::unique_ptr<Chunk> result;
  while (filled < size) {
    if (left_.empty()) {
      std::shared_ptr<Chunk> chunk = take_chunk();
      if (!chunk) break;
      if (!chunk->data) {  // its memory was refused: no chunk follows
        const std::lock_guard lock(mutex_);
        taken_ = num_chunks();
      }
      int64_t bad = 0;
      for (const std::exception_ptr& error : chunk->errors) {
        if (!error) continue;
        if (!options_.skip_bad || !chunk->data) std::rethrow_exception(error);
        try {
          std::rethrow_exception(error);
        } catch (const Error& e) {
          last_skipped_ = e.what();
        }
        ++skipped_;
        ++bad;
      }
      if (bad == 0 && filled == 0 && chunk->rows == size && delivered_ > 0) {
        batch = {chunk->data, chunk->label, chunk->index, 0};  // the usual case: nothing is copied
        ++delivered_;
        return true;
      }
      left_.push_back(std::move(chunk));
      left_row_ = 0;
    }
    if (!result) {
      result = new_chunk(0);
      batch = {result->data, result->label, result->index, 0};
    }
    const Chunk& chunk = *left_.front();
    for (; filled < size && left_row_ < chunk.rows; ++left_row_)
      if (!chunk.errors[static_cast<size_t>(left_row_)])
        copy_row(chunk, left_row_, batch, filled++);
    if (left_row_ == chunk.rows) left_.pop_front();
  }
  if (filled == 0) return false;
  batch.pad = size - filled;
  if (delivered_ == 0) {  // a copy that the caller cannot change, for the last batch
    first_ = new_chunk(0);
    ImageBatch copy{first_->data, first_->label, first_->index, 0};
    const Chunk view{0, filled, batch.data, batch.label, batch.index, {}, 0};
    for (int64_t row = 0; row < filled; ++row) copy_row(view, row, copy, row);
    first_->index = copy.index;
    first_->rows = filled;
  }
  for (int64_t row = filled; row < size; ++row) {
    if (options_.round_batch) {
      copy_row(*first_, (row - filled) % first_->rows, batch, row);
      continue;
    }
    for (const NDArrayRef& array : {batch.data, batch.label}) {
      const auto bytes = static_cast<int64_t>(dtype_size(array->dtype())) * array->size() / size;
      std::memset(static_cast<std::byte*>(array->data()) + row * bytes, 0,
                  static_cast<size_t>(bytes));
    }
    batch.index[static_cast<size_t>(row)] = -1;
  }
  ++delivered_;
  return true;
}

}  // namespace mxlite::io
