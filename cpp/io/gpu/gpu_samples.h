// Samples of ImageRecordIter that nvJPEG decodes on a GPU. Random values, rectangles and
// interpolation are those of the CPU.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/io/image_transform.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

// Throws kNotSupported, naming an option that samples made on a GPU do not have.
void check_gpu_options(const ImageParams& params, bool detection);

class GpuSamples {
 public:
  // Samples of one thread that the GPU may work on while that thread prepares another one.
  static constexpr size_t kSlots = 2;

  // Makes kSlots decoders for each of `threads`. Throws a device error if the GPU, nvJPEG or its
  // library is missing.
  GpuSamples(int device, const ImageParams& params, int threads);
  ~GpuSamples();
  GpuSamples(const GpuSamples&) = delete;
  GpuSamples& operator=(const GpuSamples&) = delete;

  // Returns an array on the GPU, not initialized.
  NDArrayRef empty(const TensorSpec& spec) const;
  // Does the host's part of one sample and submits the GPU's, which writes to `output`. The slot's
  // previous sample must be finished. `bytes` and `output` must stay valid until finish(), also if
  // this throws. Images that nvJPEG does not decode are decoded by the CPU. Throws as
  // transform_image.
  void make(int thread, size_t slot, std::span<const std::byte> bytes, Random& random,
            const std::string& name, TransformScratch& scratch, void* output);
  // Waits for the GPU's part of the sample that the slot was given last. Throws what the GPU
  // reports.
  void finish(int thread, size_t slot);
  // Copy and clear memory of the GPU; one thread at a time. The work is done when they return.
  void copy(void* to, const void* from, size_t bytes);
  void clear(void* to, size_t bytes);

  // Number of samples that the CPU has decoded.
  int64_t decoded_on_cpu() const { return decoded_on_cpu_; }
  // Names the first such sample and says why; empty if there is none.
  std::string first_on_cpu() const;

 private:
  class Decoder;
  Decoder& decoder(int thread, size_t slot) const {
    return *decoders_[static_cast<size_t>(thread) * kSlots + slot];
  }

  const int device_;
  const ImageParams params_;
  std::unique_ptr<Stream> stream_;  // used by copy and clear
  NDArrayRef means_;                // params_.mean_image on the GPU; null if that is empty
  std::vector<std::unique_ptr<Decoder>> decoders_;  // by thread, then by slot
  std::atomic<int64_t> decoded_on_cpu_ = 0;
  mutable std::mutex mutex_;
  std::string first_on_cpu_;  // guarded by mutex_
};

}  // namespace mxlite::io
