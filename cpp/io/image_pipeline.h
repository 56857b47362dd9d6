// Batches of images from record files. Worker threads decode and augment the images in advance.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/kept_in_fork.h"
#include "cpp/io/detection_transform.h"
#include "cpp/io/image_transform.h"
#include "cpp/io/record_file.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

struct PipelineOptions {
  std::vector<std::string> paths;                 // record files, in order
  std::vector<int64_t> offsets;                   // offsets of records; if empty, files are scanned
  std::map<uint64_t, std::vector<float>> labels;  // keys: record ids; if empty, records have labels
  int64_t batch_size = 0, label_width = 1;
  int threads = 4, prefetch = 4;
  int64_t part_index = 0, num_parts = 1;
  bool shuffle = false, round_batch = true, skip_bad = false;
  double bad_limit = 0.5;     // share of an epoch's records that may be skipped
  int64_t shuffle_bytes = 0;  // if above 0, size of the shuffled blocks of file bytes
  uint64_t seed = 0, augment_seed = 0, shuffle_bytes_seed = 0;
  ImageParams image;

  bool detection = false;  // whether labels have boxes; label_width is then -1 or exact
  DetectionParams boxes;

  // Options with the same names and meanings as in MXNet 1.x's iterators. Python passes them
  // unchanged.
  MX_FIELDS(PipelineOptions,
            MX_FIELD(label_width,
                     "Numbers in the label of each record; -1 (ImageDetRecordIter only): any."),
            field("preprocess_threads", &P::threads, "Number of threads that decode."),
            field("prefetch_buffer", &P::prefetch, "Number of batches that are made ahead."),
            MX_FIELD(part_index, "Number of the part of the records that is read, from 0."),
            MX_FIELD(num_parts, "Number of parts that the records are divided into."),
            MX_FIELD(shuffle, "Read the records in random order."),
            field("shuffle_chunk_seed", &P::shuffle_bytes_seed,
                  "Seed of the order of chunks; see shuffle_chunk_size."),
            MX_FIELD(round_batch,
                     "Fill the last batch with the epoch's first samples; False: with zeros."),
            field("on_error_limit", &P::bad_limit,
                  "Share of an epoch's records that on_error='skip' may skip."),
            MX_FIELD(seed,
                     "Seed of the random order, and of the augmentation unless seed_aug is given."))
};

struct ImageBatch {
  NDArrayRef data, label;
  std::vector<int64_t> index;  // each record's index in this part's file order
  int64_t pad = 0;
};

struct BadRecords {
  int64_t record = 0, label = 0, image = 0;
  int64_t total() const { return record + label + image; }
};

// Position of a pipeline in the data set. seek() continues from such a position.
struct PipelinePosition {
  uint64_t epoch = 0;
  int64_t batches = 0;         // batches delivered in this epoch
  int64_t samples = 0;         // samples consumed in this epoch, including bad ones
  int64_t skipped_before = 0;  // bad records skipped before this position
  BadRecords skipped;
};

// Thread-safe: calls of several threads run one after the other. The values of a sample depend on
// the seeds, the epoch and the record. They do not depend on the number or timing of threads.
class ImagePipeline {
 public:
  explicit ImagePipeline(PipelineOptions options);
  ~ImagePipeline();
  ImagePipeline& operator=(ImagePipeline&&) = delete;  // neither copied nor moved

  // Returns whether this thread is a worker of the pipeline. Workers must not destroy the pipeline.
  bool is_worker() const;
  // Returns false at the end of the epoch. Unless skip_bad is set, throws the error of a bad record
  // instead of returning the record's batch.
  bool next(ImageBatch& batch);
  void reset();
  // Stops the threads permanently when the process exits. Does not wait for calls in progress.
  void close();
  PipelinePosition position() const;
  // Continues as if the batches before `position` had been delivered.
  void seek(const PipelinePosition& position);
  int64_t num_records() const { return static_cast<int64_t>(offsets_.size()); }
  // Returns the number of values per label. Labels with boxes begin with channels, height, width
  // and label length.
  int64_t label_width() const { return label_width_; }
  // Returns the numbers of bad records that were skipped so far, for each stage that can fail.
  BadRecords skipped() const;
  std::string last_skipped() const;

 private:
  class Turn;
  struct Chunk;   // batch_size consecutive samples of the epoch's order
  struct Place {  // location of a record
    const RecordFile& file;
    int64_t offset;
  };
  // Converts an offset in the concatenation of all files to a file and an offset in this file.
  Place place_of_offset(int64_t offset) const;
  // Returns the offsets of the records that begin in [begin, end) of the concatenated files. Reads
  // only this range.
  std::vector<int64_t> scan(int64_t begin, int64_t end) const;
  void choose_part();
  void choose_label_width();
  void choose_order();
  void start(int64_t chunk = 0);
  void stop();
  void work(std::stop_token token, std::unique_lock<std::mutex>& lock);
  std::span<const float> labels_of(const Record& record, const std::string& name) const;
  void make_sample(Chunk& chunk, int64_t row, int64_t position, Record& record,
                   TransformScratch& scratch);
  void check_owner() const;  // throws in a forked child
  ImageBatch new_batch() const;
  std::unique_ptr<Chunk> new_chunk(int64_t number) const;
  std::unique_ptr<Chunk> take_chunk();
  int64_t count_bad(const Chunk& chunk);
  // Returns whether rows of the first batch fill up a short last batch.
  bool fills_last() const;
  void copy_row(const ImageBatch& from, int64_t row, ImageBatch& to, int64_t target) const;
  void clear_row(ImageBatch& batch, int64_t row) const;
  void keep_first(const ImageBatch& batch);
  int64_t num_chunks() const;

  PipelineOptions options_;
  std::vector<std::unique_ptr<RecordFile>> files_;
  // Byte offset of each file in the concatenated files, followed by the total size.
  std::vector<int64_t> begins_;
  std::vector<int64_t> offsets_;  // byte offsets of this part's records in the concatenated files
  int64_t label_width_ = 1;
  std::vector<int64_t> order_;  // constant while workers run
  uint64_t epoch_ = 0;

  // The functions above and the members below require that the caller holds a Turn.
  int64_t delivered_ = 0;
  BadRecords skipped_;
  int64_t skipped_before_ = 0;  // number of bad records skipped earlier in this epoch
  std::string last_skipped_;
  std::deque<std::shared_ptr<Chunk>> left_;  // chunks with samples to deliver
  int64_t left_row_ = 0;                     // row of the first such sample in left_.front()
  std::optional<ImageBatch> first_;          // copy of the epoch's first batch if fills_last()

  mutable std::mutex mutex_;
  mutable std::thread::id turn_;  // thread that is in a call, or the empty id; guarded by mutex_
  KeptInFork<std::condition_variable_any> changed_;
  std::deque<std::unique_ptr<Chunk>> chunks_;  // guarded by mutex_; in the epoch's order
  // The error that prevents further chunks after those in chunks_, or null. Guarded by mutex_.
  std::exception_ptr failure_;
  int64_t next_sample_ = 0;                        // guarded by mutex_
  int64_t taken_ = 0;                              // guarded by mutex_; number of chunks taken
  bool closed_ = false;                            // guarded by mutex_
  int running_ = 0;                                // guarded by mutex_; number of started threads
  KeptInFork<std::vector<std::jthread>> workers_;  // last member: joined before others end
};

}  // namespace mxlite::io
