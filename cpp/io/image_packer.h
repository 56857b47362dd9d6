// Packs image files into records with several threads and keeps their order. Used by im2rec.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/kept_in_fork.h"
#include "cpp/io/encode.h"
#include "cpp/io/record_writer.h"

namespace mxlite::io {

struct PackOptions {
  bool pass_through = false;  // whether files are stored unchanged, without the options below
  int color = 1;              // 1 means three channels, 0 means gray, -1 keeps those of the file
  bool center_crop = false;   // whether images are cropped to a square
  int resize = 0;             // new length of the short side; 0 keeps the size
  ImageFormat format = ImageFormat::kJpeg;
  int quality = 95;
};

struct PackItem {
  std::string path;
  std::vector<std::byte> header;  // precedes the image in the record
};

struct PackedItem {
  int64_t offset = -1;  // offset of the record, or -1 if it is not written
  std::string error;    // reason if the record is not written
};

// Call add() and write() from one thread.
class ImagePacker {
 public:
  ImagePacker(PackOptions options, int threads);
  ~ImagePacker();
  ImagePacker& operator=(ImagePacker&&) = delete;  // neither copied nor moved

  // Queues items. Worker threads then start to pack them.
  void add(std::vector<PackItem> items);
  // Returns the number of items that were added and are not written yet.
  int64_t waiting() const;
  // Writes the next `count` items, or all waiting items if fewer items are waiting. Returns the
  // results.
  std::vector<PackedItem> write(RecordWriter& writer, int64_t count);

 private:
  struct Job;
  void work(std::stop_token token);
  void open_files();
  static std::string write_through(const Job& job, RecordWriter& writer);

  PackOptions options_;
  mutable std::mutex mutex_;
  KeptInFork<std::condition_variable_any> changed_;
  std::deque<std::unique_ptr<Job>> jobs_;  // guarded by mutex_; in order
  size_t next_ = 0;                        // guarded by mutex_; index of the next job to start
  KeptInFork<std::vector<std::jthread>> workers_;  // last member: threads end before other members
};

}  // namespace mxlite::io
