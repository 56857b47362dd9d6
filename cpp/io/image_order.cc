// Decides which records an ImagePipeline reads, and in which order.
#include <algorithm>
#include <numeric>

#include "cpp/io/image_chunk.h"
#include "cpp/io/interruptible.h"
#include "cpp/io/record_format.h"

namespace mxlite::io {
namespace {

// Replaces std::shuffle, because its result differs between standard libraries.
void shuffle_order(std::vector<int64_t>& order, Random random) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

}  // namespace

ImagePipeline::Place ImagePipeline::place_of_offset(int64_t offset) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), offset);
  const auto file =
      std::clamp<int64_t>(next - begins_.begin() - 1, 0, static_cast<int64_t>(files_.size()) - 1);
  return {*files_[static_cast<size_t>(file)], offset - begins_[static_cast<size_t>(file)]};
}

std::vector<int64_t> ImagePipeline::scan(int64_t begin, int64_t end) const {
  std::vector<int64_t> offsets;
  ReadBuffer buffer;
  InterruptCheck check_interrupt;
  for (size_t i = 0; i < files_.size(); ++i) {
    const RecordFile& file = *files_[i];
    const int64_t first = begin - begins_[i], limit = std::min(end - begins_[i], file.size());
    if (first >= limit) continue;
    buffer.forget();
    for (int64_t at = file.find_head(first); at < limit; at = file.find_head(at + 4)) {
      check_interrupt();
      offsets.push_back(begins_[i] + at);
      // Skips the payload if its length is valid.
      const std::optional<PartHead> head = file.head_at(at, buffer);
      if (!head) break;  // the file was truncated during the scan
      const int64_t next = at + 8 + padded(head->length);
      if (next == file.size()) break;
      if (file.head_at(next, buffer)) at = next - 4;
    }
  }
  return offsets;
}

void ImagePipeline::choose_part() {
  const int64_t parts = options_.num_parts, part = options_.part_index;
  if (options_.offsets.empty()) {
    const int64_t step = padded((begins_.back() + parts - 1) / parts);
    offsets_ = scan(part * step, (part + 1) * step);
  } else {
    const auto n = static_cast<int64_t>(options_.offsets.size());
    std::sort(options_.offsets.begin(), options_.offsets.end());
    const int64_t step = (n + parts - 1) / parts;
    const int64_t begin = std::min(part * step, n), end = std::min(begin + step, n);
    offsets_.assign(options_.offsets.begin() + begin, options_.offsets.begin() + end);
  }
  MX_CHECK_KIND(!offsets_.empty(), ErrorKind::kRecord, "ImageRecordIter: record file '",
                options_.paths.front(), "' of ", begins_.back(), " bytes: part ", part, " of ",
                parts, " has no records");
}

// If shuffle_bytes is set, permutes blocks of that many file bytes. If `shuffle` is also set,
// permutes the records within each block. A hard disk then needs few seeks.
void ImagePipeline::choose_order() {
  std::iota(order_.begin(), order_.end(), 0);
  const uint64_t seed = mix(options_.seed, epoch_);
  if (options_.shuffle_bytes == 0) {
    if (options_.shuffle) shuffle_order(order_, Random(seed));
    return;
  }
  std::vector<int64_t> stretches;  // index of the first record of each block
  for (size_t i = 0; i < offsets_.size(); ++i)
    if (i == 0 || offsets_[i] / options_.shuffle_bytes != offsets_[i - 1] / options_.shuffle_bytes)
      stretches.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> places(stretches.size());
  std::iota(places.begin(), places.end(), 0);
  shuffle_order(places, Random(mix(options_.shuffle_bytes_seed, epoch_)));
  stretches.push_back(num_records());
  order_.clear();
  for (const int64_t place : places) {
    const auto slot = static_cast<size_t>(place);
    std::vector<int64_t> part(static_cast<size_t>(stretches[slot + 1] - stretches[slot]));
    std::iota(part.begin(), part.end(), stretches[slot]);
    if (options_.shuffle) shuffle_order(part, Random(mix(seed, static_cast<uint64_t>(place))));
    order_.insert(order_.end(), part.begin(), part.end());
  }
}

}  // namespace mxlite::io
