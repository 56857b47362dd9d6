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
  // Makes `threads` decoders. Throws a device error if the GPU, nvJPEG or its library is missing.
  GpuSamples(int device, const ImageParams& params, int threads);
  ~GpuSamples();
  GpuSamples(const GpuSamples&) = delete;
  GpuSamples& operator=(const GpuSamples&) = delete;

  // Returns an array on the GPU, not initialized.
  NDArrayRef empty(const TensorSpec& spec) const;
  // Makes one sample at `output` on the GPU with decoder `thread`; its work is done when this
  // returns. Images that nvJPEG does not decode are decoded by the CPU. Throws as
  // transform_image.
  void make(int thread, std::span<const std::byte> bytes, Random& random, const std::string& name,
            TransformScratch& scratch, void* output);
  // Copy and clear memory of the GPU; one thread at a time. The work is done when they return.
  void copy(void* to, const void* from, size_t bytes);
  void clear(void* to, size_t bytes);

  // Number of samples that the CPU has decoded.
  int64_t decoded_on_cpu() const { return decoded_on_cpu_; }
  // Names the first such sample and says why; empty if there is none.
  std::string first_on_cpu() const;

 private:
  class Decoder;

  const int device_;
  const ImageParams params_;
  std::unique_ptr<Stream> stream_;  // used by copy and clear
  NDArrayRef means_;                // params_.mean_image on the GPU; null if that is empty
  std::vector<std::unique_ptr<Decoder>> decoders_;
  std::atomic<int64_t> decoded_on_cpu_ = 0;
  mutable std::mutex mutex_;
  std::string first_on_cpu_;  // guarded by mutex_
};

}  // namespace mxlite::io
