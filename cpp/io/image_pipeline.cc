#include "cpp/io/image_pipeline.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "cpp/base/file_error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/blocking.h"
#include "cpp/io/image_chunk.h"
#include "cpp/io/record_format.h"
#include "cpp/ndarray/transfer_memory.h"

namespace mxlite::io {
namespace {

// Returns the memory of row `row` of an array that has `rows` rows.
std::span<std::byte> row_of(const NDArray& array, int64_t row, int64_t rows) {
  const int64_t bytes = static_cast<int64_t>(dtype_size(array.dtype())) * array.size() / rows;
  return {static_cast<std::byte*>(array.data()) + row * bytes, static_cast<size_t>(bytes)};
}

}  // namespace

// A lock that admits one thread at a time. It is reentrant, because a signal handler may call the
// pipeline during a call of the same thread. It has no effect in a forked child, which has no other
// threads.
class ImagePipeline::Turn {
 public:
  explicit Turn(const ImagePipeline& pipeline) : pipeline_(pipeline) {
    if (!pipeline.workers_.is_owner()) return;
    std::unique_lock lock(pipeline.mutex_);
    if (pipeline.turn_ == std::this_thread::get_id()) return;
    const auto is_free = [&] { return pipeline.turn_ == std::thread::id(); };
    while (!is_free())  // the state may change between the end of the wait and this check
      engine::wait_interruptibly(lock, *pipeline.changed_, is_free);
    pipeline.turn_ = std::this_thread::get_id();
    taken_ = true;
  }
  ~Turn() {
    if (!taken_) return;
    const std::lock_guard lock(pipeline_.mutex_);
    pipeline_.turn_ = {};
    pipeline_.changed_->notify_all();
  }
  Turn& operator=(Turn&&) = delete;  // neither copied nor moved

 private:
  const ImagePipeline& pipeline_;
  bool taken_ = false;
};

ImagePipeline::ImagePipeline(PipelineOptions options) : options_(std::move(options)) {
  const std::string who = "ImageRecordIter: ";
  check_image_params(options_.image);
  check_samplers(options_.boxes.samplers);
  MX_CHECK(options_.batch_size > 0, who, "batch_size must be at least 1, got ",
           options_.batch_size);
  MX_CHECK(options_.detection || options_.label_width > 0, who,
           "label_width must be at least 1, got ", options_.label_width);
  constexpr int kMostThreads = 1024;
  MX_CHECK(options_.threads > 0 && options_.threads <= kMostThreads, who,
           "preprocess_threads must be from 1 to ", kMostThreads, ", got ", options_.threads);
  MX_CHECK(options_.prefetch > 0, who, "prefetch_buffer must be at least 1, got ",
           options_.prefetch);
  MX_CHECK(options_.num_parts > 0 && options_.part_index >= 0 &&
               options_.part_index < options_.num_parts,
           who, "part_index must be from 0 to num_parts - 1, got part_index ", options_.part_index,
           " of num_parts ", options_.num_parts);
  MX_CHECK(options_.bad_limit >= 0 && options_.bad_limit <= 1, who,
           "on_error_limit must be from 0 to 1, got ", options_.bad_limit);
  MX_CHECK(options_.shuffle_bytes >= 0, who, "shuffle_chunk_size must be at least 0, got ",
           options_.shuffle_bytes >> 20);
  MX_CHECK(!options_.paths.empty(), who, "path_imgrec must be given, got no path");
  MX_CHECK(options_.offsets.empty() || options_.paths.size() == 1, who,
           "the number of record files must be 1 with path_imgidx, got ", options_.paths.size());
  begins_.push_back(0);
  for (const std::string& path : options_.paths) {
    files_.push_back(std::make_unique<RecordFile>(path));
    begins_.push_back(begins_.back() + padded(files_.back()->size()));
  }
  choose_part();
  choose_label_width();
  order_.resize(offsets_.size());
  start();
}

ImagePipeline::~ImagePipeline() {
  const engine::BlockingScope blocking;  // threads that read an address wait for the GIL
  if (workers_.is_owner()) stop();
}

bool ImagePipeline::is_worker() const {
  return std::ranges::any_of(*workers_, [](const std::jthread& worker) {
    return worker.get_id() == std::this_thread::get_id();
  });
}

int64_t ImagePipeline::num_chunks() const {
  return (num_records() + options_.batch_size - 1) / options_.batch_size;
}

void ImagePipeline::start(int64_t chunk) {
  choose_order();
  delivered_ = left_row_ = skipped_before_ = 0;
  taken_ = chunk;
  next_sample_ = chunk * options_.batch_size;
  for (int i = 0; i < options_.threads; ++i)
    workers_->emplace_back([this](std::stop_token token) {
      std::unique_lock lock(mutex_);
      ++running_;
      work(std::move(token), lock);
      --running_;
      changed_->notify_all();
    });
}

void ImagePipeline::stop() {
  for (std::jthread& worker : *workers_) worker.request_stop();
  workers_->clear();  // joins the threads
  chunks_.clear();
  failure_ = nullptr;
  left_.clear();
  first_.reset();
}

void ImagePipeline::close() {
  if (!workers_.is_owner()) return;
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_->notify_all();
  changed_->wait(lock, [this] { return running_ == 0; });
}

void ImagePipeline::check_owner() const {
  MX_CHECK_KIND(workers_.is_owner(), ErrorKind::kError,
                "ImageRecordIter: the iterator must be used in the process that made it, got a "
                "call in a fork");
}

void ImagePipeline::reset() {
  check_owner();
  const Turn turn(*this);
  stop();
  ++epoch_;
  start();
}

PipelinePosition ImagePipeline::position() const {
  const Turn turn(*this);
  const int64_t samples = left_.empty() ? std::min(taken_ * options_.batch_size, num_records())
                                        : left_.front()->number * options_.batch_size + left_row_;
  return {epoch_, delivered_, samples, skipped_before_, skipped_};
}

BadRecords ImagePipeline::skipped() const {
  const Turn turn(*this);
  return skipped_;
}

std::string ImagePipeline::last_skipped() const {
  const Turn turn(*this);
  return last_skipped_;
}

void ImagePipeline::seek(const PipelinePosition& position) {
  check_owner();
  const Turn turn(*this);
  MX_CHECK(position.batches >= 0 && position.samples >= 0 && position.samples <= num_records(),
           "ImageRecordIter: position must be from 0 to ", num_records(), " samples, got ",
           position.samples);
  const int64_t size = options_.batch_size;
  stop();
  epoch_ = position.epoch;
  std::optional<ImageBatch> first;
  if (position.batches > 0 && fills_last()) {
    ImageBatch batch;
    start();
    next(batch);
    first = std::move(first_);
    stop();
  }
  start(position.samples / size);
  first_ = std::move(first);
  if (position.samples % size != 0 && taken_ < num_chunks()) {
    left_.push_back(take_chunk());
    left_row_ = position.samples % size;
  }
  delivered_ = position.batches;
  skipped_before_ = position.skipped_before;
  skipped_ = position.skipped;
}

ImageBatch ImagePipeline::new_batch() const {
  const ImageParams& image = options_.image;
  const int64_t size = options_.batch_size, width = label_width_;
  ImageBatch batch;
  const TensorSpec data{{size, image.channels, image.height, image.width}, image.dtype};
  batch.data = empty_for_transfer(data);
  batch.label =
      empty_for_transfer({width == 1 ? Shape{size} : Shape{size, width}, DType::kFloat32});
  batch.index.resize(static_cast<size_t>(size));
  return batch;
}

std::unique_ptr<ImagePipeline::Chunk> ImagePipeline::new_chunk(int64_t number) const {
  auto chunk = std::make_unique<Chunk>();
  chunk->number = number;
  chunk->rows = std::min(options_.batch_size, num_records() - number * options_.batch_size);
  chunk->batch = new_batch();
  chunk->failures.resize(static_cast<size_t>(options_.batch_size));
  chunk->missing = chunk->rows;
  return chunk;
}

void ImagePipeline::work(std::stop_token token, std::unique_lock<std::mutex>& lock) {
  const int64_t batch = options_.batch_size;
  TransformScratch scratch;
  Record record;
  const auto ends = [&] {
    return token.stop_requested() || closed_ || next_sample_ >= num_records();
  };
  const auto has_room = [&] { return next_sample_ / batch < taken_ + 1 + options_.prefetch; };
  while (true) {
    const bool more = changed_->wait(lock, token, [&] { return ends() || has_room(); });
    if (!more || ends()) return;
    const int64_t position = next_sample_++;
    if (position % batch == 0) {
      try {
        chunks_.push_back(new_chunk(position / batch));
      } catch (...) {  // memory ran out; next() throws this after the earlier chunks
        failure_ = std::current_exception();
        next_sample_ = num_records();
        changed_->notify_all();
        continue;
      }
    }
    Chunk& chunk = *chunks_[static_cast<size_t>(position / batch - chunks_.front()->number)];
    const int64_t row = position % batch;
    lock.unlock();
    try {
      const ProfileScope profile("ImageRecordIter: sample", ProfileKind::kIo);
      make_sample(chunk, row, position, record, scratch);
    } catch (...) {
      chunk.failures[static_cast<size_t>(row)].error = std::current_exception();
    }
    lock.lock();
    if (--chunk.missing == 0) changed_->notify_all();
  }
}

std::unique_ptr<ImagePipeline::Chunk> ImagePipeline::take_chunk() {
  check_owner();
  if (taken_ >= num_chunks()) return nullptr;
  std::unique_lock lock(mutex_);
  profile_count("ImageRecordIter: batches ahead", static_cast<int64_t>(chunks_.size()));
  const auto ready = [&] {
    return closed_ || (chunks_.empty() ? failure_ != nullptr : chunks_.front()->missing == 0);
  };
  if (!ready()) {
    const ProfileScope profile("ImageRecordIter: wait", ProfileKind::kIo);
    engine::wait_interruptibly(lock, *changed_, ready);
  }
  MX_CHECK_KIND(!closed_, ErrorKind::kError,
                "ImageRecordIter: no batch can be read while the program exits");
  if (chunks_.empty()) {
    taken_ = num_chunks();
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  auto chunk = std::move(chunks_.front());
  chunks_.pop_front();
  ++taken_;
  changed_->notify_all();
  return chunk;
}

void ImagePipeline::copy_row(const ImageBatch& from, int64_t row, ImageBatch& to,
                             int64_t target) const {
  const int64_t rows = options_.batch_size;
  const std::span<std::byte> data = row_of(*to.data, target, rows);
  const std::span<std::byte> label = row_of(*to.label, target, rows);
  std::memcpy(data.data(), row_of(*from.data, row, rows).data(), data.size());
  std::memcpy(label.data(), row_of(*from.label, row, rows).data(), label.size());
  to.index[static_cast<size_t>(target)] = from.index[static_cast<size_t>(row)];
}

void ImagePipeline::clear_row(ImageBatch& batch, int64_t row) const {
  const std::span<std::byte> data = row_of(*batch.data, row, options_.batch_size);
  const std::span<std::byte> label = row_of(*batch.label, row, options_.batch_size);
  std::memset(data.data(), 0, data.size());
  std::memset(label.data(), 0, label.size());
  batch.index[static_cast<size_t>(row)] = -1;
}

// Counts the chunk's bad records. Throws if a bad record must not be skipped or if there are too
// many bad records.
int64_t ImagePipeline::count_bad(const Chunk& chunk) {
  int64_t bad = 0;
  for (const Chunk::Failure& failure : chunk.failures) {
    if (!failure.error) continue;
    if (!options_.skip_bad) std::rethrow_exception(failure.error);
    try {
      std::rethrow_exception(failure.error);
    } catch (const Error& e) {
      const bool is_of_record = e.kind() != ErrorKind::kDevice &&
                                e.kind() != ErrorKind::kOutOfMemory &&
                                !dynamic_cast<const FileReadError*>(&e);
      if (!is_of_record) throw;
      last_skipped_ = e.what();
    }
    ++(failure.stage == SampleStage::kRecord  ? skipped_.record
       : failure.stage == SampleStage::kLabel ? skipped_.label
                                              : skipped_.image);
    ++bad;
  }
  skipped_before_ += bad;
  MX_CHECK_KIND(bad == 0 || static_cast<double>(skipped_before_) <=
                                options_.bad_limit * static_cast<double>(num_records()),
                ErrorKind::kRecord, "ImageRecordIter: ", skipped_before_, " of ", num_records(),
                " records are bad, more than on_error_limit=", options_.bad_limit,
                " allows; the last: ", last_skipped_);
  return bad;
}

bool ImagePipeline::fills_last() const {
  return options_.round_batch && (options_.skip_bad || num_records() % options_.batch_size != 0);
}

// Keeps a copy of the first batch, because the caller may overwrite the batch's arrays.
void ImagePipeline::keep_first(const ImageBatch& batch) {
  if (!fills_last()) return;
  ImageBatch& first = first_.emplace(new_batch());
  first.pad = batch.pad;
  for (int64_t row = 0; row < options_.batch_size - batch.pad; ++row)
    copy_row(batch, row, first, row);
}

bool ImagePipeline::next(ImageBatch& batch) {
  const Turn turn(*this);
  const int64_t size = options_.batch_size;
  int64_t filled = 0;
  bool made = false;
  while (filled < size) {
    if (left_.empty()) {
      std::shared_ptr<Chunk> chunk = take_chunk();
      if (!chunk) break;
      const int64_t bad = count_bad(*chunk);
      if (bad == 0 && filled == 0 && chunk->rows == size) {
        batch = std::move(chunk->batch);  // the usual case, in which nothing is copied
        if (delivered_ == 0) keep_first(batch);
        ++delivered_;
        return true;
      }
      left_.push_back(std::move(chunk));
      left_row_ = 0;
    }
    if (!std::exchange(made, true)) batch = new_batch();
    const Chunk& chunk = *left_.front();
    for (; filled < size && left_row_ < chunk.rows; ++left_row_)
      if (!chunk.failures[static_cast<size_t>(left_row_)].error)
        copy_row(chunk.batch, left_row_, batch, filled++);
    if (left_row_ == chunk.rows) left_.pop_front();
  }
  if (filled == 0) return false;
  batch.pad = size - filled;
  if (delivered_ == 0) keep_first(batch);
  for (int64_t row = filled; row < size; ++row) {
    if (options_.round_batch)
      copy_row(*first_, (row - filled) % (size - first_->pad), batch, row);
    else
      clear_row(batch, row);
  }
  ++delivered_;
  return true;
}

}  // namespace mxlite::io
