// ImageRecordIter needs more of a GPU than nvJPEG: streams of its own, and the kernel that turns a
// decoded image into a sample. The accelerator plug-in implements both.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "cpp/core/dtype.h"
#include "cpp/core/stream.h"

namespace mxlite::io {

// One output position of a bilinear resize: two source pixels and their weights in 2048ths.
struct PixelTap {
  int32_t first, second;
  int16_t weights[2];
};

// The work of one sample. All pointers are to memory of the device.
struct SampleWork {
  const unsigned char* pixels = nullptr;  // rows of width * pixel_bytes, without gaps
  int width = 0, height = 0;              // size of the decoded image
  int pixel_bytes = 3;                    // 3: RGB; 1: gray, for every channel of the sample
  // Taps count in blocks of denominator x denominator averaged pixels, the first of which begins at
  // (left, top). Blocks end at the border of the image.
  int denominator = 1, left = 0, top = 0;
  const PixelTap* columns = nullptr;  // sample_width of them
  const PixelTap* rows = nullptr;     // sample_height of them

  int channels = 3, sample_width = 0, sample_height = 0;
  DType dtype = DType::kFloat32;  // float32, uint8 or int8
  bool flip = false;
  // Value of channel c: (pixel - mean[c]) * factor[c] + shift[c] for float32, the pixel itself for
  // uint8, pixel - mean[c] within the limits for int8.
  std::array<float, 3> mean{}, factor{}, shift{};
  const float* means = nullptr;  // (channels, sample_height, sample_width); replaces mean
  void* output = nullptr;        // (channels, sample_height, sample_width)
};

// There is one per process; any thread may call any function, but of a stream only one at a time.
class SampleDevice {
 public:
  virtual ~SampleDevice() = default;
  virtual std::unique_ptr<Stream> make_stream(int device) = 0;
  // Returns the driver's handle of the stream, for nvJPEG.
  virtual void* native(Stream& stream) = 0;
  // Submits the kernel.
  virtual void write_sample(Stream& stream, const SampleWork& work) = 0;
};

// The plug-in calls this once, while it is loaded. The object is never destroyed.
void set_sample_device(SampleDevice* device);
SampleDevice* sample_device();  // null without a plug-in

}  // namespace mxlite::io
