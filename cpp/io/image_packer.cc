#include "cpp/io/image_packer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "cpp/engine/blocking.h"
#include "cpp/io/cv_image.h"
#include "cpp/io/file_bytes.h"

namespace mxlite::io {
namespace {

// Owns the descriptor of an input file.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path), number_(open_to_read(path)) {
    struct stat info {};
    const bool known = number_ >= 0 && ::fstat(number_, &info) == 0;
    if (!known) reason_ = std::strerror(errno);
    regular_ = known && S_ISREG(info.st_mode);
    size_ = known ? static_cast<size_t>(info.st_size) : 0;
  }
  ~InputFile() {
    if (number_ >= 0) ::close(number_);
  }
  InputFile& operator=(InputFile&&) = delete;  // neither copied nor moved

  // Asks the system to read the file into its cache.
  void prefetch() const {
    if (number_ >= 0) ::posix_fadvise(number_, 0, 0, POSIX_FADV_WILLNEED);
  }
  size_t checked_size() const {
    MX_CHECK_KIND(reason_.empty(), ErrorKind::kRecord, path_, ": cannot be read: ", reason_);
    MX_CHECK_KIND(regular_, ErrorKind::kRecord, path_, ": must be a regular file");
    MX_CHECK_KIND(size_ > 0, ErrorKind::kRecord, path_, ": must have at least 1 byte, got 0");
    return size_;
  }
  void read(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::read(number_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      MX_CHECK_KIND(count >= 0, ErrorKind::kRecord, path_,
                    ": cannot be read: ", std::strerror(errno));
      MX_CHECK_KIND(count > 0, ErrorKind::kRecord, path_, ": became shorter while it was read");
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }

 private:
  std::string path_, reason_;
  int number_;
  bool regular_ = false;
  size_t size_ = 0;
};

cv::Mat decode_upright(std::span<const std::byte> bytes, const PackItem& item, int color) {
  const ImageInfo info = read_image_header(bytes, item.path);
  const int channels = color == 1 ? 3 : color == 0 ? 1 : info.channels;
  DecodeOptions options;
  options.name = item.path;
  options.order = channels == 1   ? ColorOrder::kGray
                  : channels == 3 ? ColorOrder::kBGR
                                  : ColorOrder::kBGRA;
  cv::Mat image(info.height, info.width, CV_8UC(channels));
  decode_image_into(bytes, options, image.data);
  return upright(image, color == -1 ? 1 : exif_orientation(bytes));
}

cv::Mat shaped(cv::Mat image, const PackOptions& options) {
  if (options.center_crop) {
    const int side = std::min(image.rows, image.cols);
    image = image(cv::Rect((image.cols - side) / 2, (image.rows - side) / 2, side, side));
  }
  if (options.resize > 0) {
    const int64_t side = options.resize;
    const cv::Size size =
        image.rows > image.cols
            ? cv::Size(options.resize, static_cast<int>(side * image.rows / image.cols))
            : cv::Size(static_cast<int>(side * image.cols / image.rows), options.resize);
    cv::Mat resized;
    cv::resize(image, resized, size);
    return resized;
  }
  return image.isContinuous() ? image : image.clone();
}

// Returns the record's bytes. The pixels are the same as with OpenCV's imread, resize and imencode.
std::vector<std::byte> pack_image(const PackItem& item, const PackOptions& options) {
  const InputFile input(item.path);
  std::vector<std::byte> file(input.checked_size());
  input.read(file);
  try {
    const cv::Mat image = shaped(decode_upright(file, item, options.color), options);
    PixelBlock block;
    block.data = image.data;
    block.height = image.rows;
    block.width = image.cols;
    block.order = image.channels() == 1   ? ColorOrder::kGray
                  : image.channels() == 3 ? ColorOrder::kBGR
                                          : ColorOrder::kBGRA;
    const std::vector<std::byte> encoded = encode_image(block, options.format, options.quality);
    std::vector<std::byte> record;
    record.reserve(item.header.size() + encoded.size());
    record = item.header;
    record.insert(record.end(), encoded.begin(), encoded.end());
    return record;
  } catch (const cv::Exception& e) {
    fail(ErrorKind::kRecord, item.path, ": ", e.what());
  }
}

}  // namespace

struct ImagePacker::Job {
  PackItem item;
  std::optional<InputFile> file;  // for pass_through: opened in advance
  std::vector<std::byte> record;
  std::exception_ptr failure;
  bool done = false;  // guarded by mutex_; until it is true, only the worker uses
                      // the other members, and afterwards only write()
};

ImagePacker::ImagePacker(PackOptions options, int threads) : options_(options) {
  MX_CHECK(threads > 0, "im2rec: num-thread must be at least 1, got ", threads);
  MX_CHECK(options.color >= -1 && options.color <= 1, "im2rec: color must be -1, 0 or 1, got ",
           options.color);
  MX_CHECK(options.resize >= 0, "im2rec: resize must be at least 0, got ", options.resize);
  if (options.pass_through) return;  // only copies bytes, which threads would not make faster
  cv::setNumThreads(1);
  for (int i = 0; i < threads; ++i)
    workers_->emplace_back([this](std::stop_token token) { work(std::move(token)); });
}

ImagePacker::~ImagePacker() {
  if (!workers_.is_owner()) return;
  for (std::jthread& worker : *workers_) worker.request_stop();
  workers_->clear();  // joins the threads
}

void ImagePacker::add(std::vector<PackItem> items) {
  const std::lock_guard lock(mutex_);
  for (PackItem& item : items) {
    jobs_.push_back(std::make_unique<Job>());
    jobs_.back()->item = std::move(item);
  }
  changed_->notify_all();
}

int64_t ImagePacker::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(jobs_.size());
}

void ImagePacker::work(std::stop_token token) {
  std::unique_lock lock(mutex_);
  while (changed_->wait(lock, token, [&] { return next_ < jobs_.size(); })) {
    if (token.stop_requested()) return;
    Job& job = *jobs_[next_++];
    lock.unlock();
    try {
      job.record = pack_image(job.item, options_);
    } catch (...) {  // write() reports it; formatting it here may run out of memory
      job.failure = std::current_exception();
    }
    lock.lock();
    job.done = true;
    changed_->notify_all();
  }
}

namespace {

// Returns the error text if the input file caused the error. Rethrows other errors.
std::string file_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kOutOfMemory) throw;
    return e.what();
  }
}

}  // namespace

// Stores the file unchanged in a record. Returns the error text if the input file caused an error.
std::string ImagePacker::write_through(const Job& job, RecordWriter& writer) {
  const std::vector<std::byte>& header = job.item.header;
  std::string error;
  try {
    const auto of_file = [&](const auto& action) {
      try {
        return action();
      } catch (const Error& e) {
        error = e.what();
        throw;
      }
    };
    const size_t size = of_file([&] { return job.file->checked_size(); });
    writer.write(header.size() + size, [&](std::span<std::byte> record) {
      std::copy(header.begin(), header.end(), record.begin());
      of_file([&] { job.file->read(record.subspan(header.size())); });
    });
  } catch (const Error&) {
    if (error.empty()) throw;
  }
  return error;
}

// Opens the next input files and starts to read them from the disk before write() needs them.
void ImagePacker::open_files() {
  constexpr size_t kAhead = 32;
  for (size_t i = 0; i < std::min(jobs_.size(), kAhead); ++i) {
    if (jobs_[i]->file) continue;
    jobs_[i]->file.emplace(jobs_[i]->item.path);
    jobs_[i]->file->prefetch();
  }
}

std::vector<PackedItem> ImagePacker::write(RecordWriter& writer, int64_t count) {
  MX_CHECK_KIND(
      workers_.is_owner(), ErrorKind::kError,
      "ImagePacker: the object must be used in the process that made it, got a call in a fork");
  std::vector<PackedItem> results;
  for (; count > 0; --count) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      if (jobs_.empty()) break;
      if (options_.pass_through)
        open_files();
      else
        engine::wait_interruptibly(lock, *changed_, [&] { return jobs_.front()->done; });
      job = std::move(jobs_.front());
      jobs_.pop_front();
      if (!options_.pass_through) --next_;
    }
    PackedItem result;
    if (job->failure) result.error = file_error(job->failure);
    const int64_t offset = writer.tell();
    if (options_.pass_through)
      result.error = write_through(*job, writer);
    else if (result.error.empty())
      writer.write(job->record);
    if (result.error.empty()) result.offset = offset;
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace mxlite::io
