#include "cpp/io/image_packer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "cpp/io/orientation.h"

namespace mxlite::io {
namespace {

// Appends the file's bytes.
void read_file(const std::string& path, std::vector<std::byte>& bytes) {
  struct Descriptor {
    int number;
    ~Descriptor() {
      if (number >= 0) ::close(number);
    }
  };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info {};
  MX_CHECK_KIND(file.number >= 0 && ::fstat(file.number, &info) == 0, ErrorKind::kRecord, path,
                ": cannot be read: ", std::strerror(errno));
  MX_CHECK_KIND(S_ISREG(info.st_mode), ErrorKind::kRecord, path, ": is not a file");
  MX_CHECK_KIND(info.st_size > 0, ErrorKind::kRecord, path, ": is empty");
  const size_t begin = bytes.size();
  bytes.resize(begin + static_cast<size_t>(info.st_size));
  for (size_t done = begin; done < bytes.size();) {
    const ssize_t count = ::read(file.number, &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    MX_CHECK_KIND(count >= 0, ErrorKind::kRecord, path, ": cannot be read: ", std::strerror(errno));
    MX_CHECK_KIND(count > 0, ErrorKind::kRecord, path, ": became shorter while it was read");
    done += static_cast<size_t>(count);
  }
}

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
  const int orientation = color == -1 ? 1 : exif_orientation(bytes);
  if (orientation == 1) return image;
  cv::Mat upright = orientation >= 5 ? cv::Mat(info.width, info.height, image.type())
                                     : cv::Mat(info.height, info.width, image.type());
  orient_pixels(image.data, info.height, info.width, channels, orientation, upright.data);
  return upright;
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

}  // namespace

std::vector<std::byte> pack_image(const PackItem& item, const PackOptions& options) {
  if (options.pass_through) {
    std::vector<std::byte> record = item.header;
    read_file(item.path, record);
    return record;
  }
  std::vector<std::byte> file;
  read_file(item.path, file);
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

struct ImagePacker::Job {
  PackItem item;
  std::vector<std::byte> record;
  std::string error;
  bool done = false;  // guarded by mutex_; the rest belongs to the worker before, to write() after
};

ImagePacker::ImagePacker(PackOptions options, int threads) : options_(options) {
  MX_CHECK(threads > 0, "im2rec: num-thread ", threads, " given, at least 1 expected");
  MX_CHECK(options.color >= -1 && options.color <= 1, "im2rec: color ", options.color,
           " given, -1, 0 or 1 expected");
  MX_CHECK(options.resize >= 0, "im2rec: resize ", options.resize, " given, at least 0 expected");
  cv::setNumThreads(1);
  for (int i = 0; i < threads; ++i)
    workers_.emplace_back([this](std::stop_token token) { work(std::move(token)); });
}

ImagePacker::~ImagePacker() {
  for (std::jthread& worker : workers_) worker.request_stop();
  workers_.clear();  // joins
}

void ImagePacker::add(std::vector<PackItem> items) {
  const std::lock_guard lock(mutex_);
  for (PackItem& item : items) {
    jobs_.push_back(std::make_unique<Job>());
    jobs_.back()->item = std::move(item);
  }
  changed_.notify_all();
}

int64_t ImagePacker::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(jobs_.size());
}

void ImagePacker::work(std::stop_token token) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, token, [&] { return next_ < jobs_.size(); })) {
    if (token.stop_requested()) return;
    Job& job = *jobs_[next_++];
    lock.unlock();
    try {
      job.record = pack_image(job.item, options_);
    } catch (const std::exception& e) {
      job.error = e.what();
    }
    lock.lock();
    job.done = true;
    changed_.notify_all();
  }
}

std::vector<PackedItem> ImagePacker::write(RecordWriter& writer, int64_t count) {
  std::vector<PackedItem> results;
  for (; count > 0; --count) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      if (jobs_.empty()) break;
      changed_.wait(lock, [&] { return jobs_.front()->done; });
      job = std::move(jobs_.front());
      jobs_.pop_front();
      --next_;
    }
    PackedItem result;
    result.error = std::move(job->error);
    if (result.error.empty()) {
      result.offset = writer.tell();
      writer.write(job->record);
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace mxlite::io
