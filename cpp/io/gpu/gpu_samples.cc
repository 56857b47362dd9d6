#include "cpp/io/gpu/gpu_samples.h"

#include <future>
#include <optional>
#include <utility>

#include "cpp/core/accelerator.h"
#include "cpp/io/gpu/nvjpeg.h"
#include "cpp/io/gpu/sample_device.h"
#include "cpp/io/resize_plan.h"
#include "cpp/io/sample_writer.h"

namespace mxlite::io {
namespace {

// Memory of the stream `kind` is used by the stream of a decoder, which has to wait for it.
constexpr StreamKind kMemoryStream = StreamKind::kCopyIn;

SampleDevice& require_sample_device(int device) {
  require_accelerator("ImageRecordIter (MXLITE_NVJPEG=1)", device);
  SampleDevice* const found = sample_device();
  MX_CHECK_KIND(found, ErrorKind::kDevice,
                "ImageRecordIter: MXLITE_NVJPEG=1, but the CUDA part of this build decodes no "
                "images: build it with MXLITE_OPENCV=ON");
  return *found;
}

const Nvjpeg& require_nvjpeg() {
  std::string why_not;
  const Nvjpeg* const library = Nvjpeg::get(&why_not);
  MX_CHECK_KIND(library, ErrorKind::kDevice,
                "ImageRecordIter: MXLITE_NVJPEG=1, but nvJPEG cannot be loaded: ", why_not);
  return *library;
}

// Device memory that grows. Work that uses it must be done before it grows and before it goes.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int device) : device_(device) {}
  ~DeviceBuffer() { release(); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // The memory may be used by work that `user` is given from now on.
  void* get(size_t bytes, Stream& user) {
    if (bytes <= block_.bytes) return block_.data;
    release();
    block_ = accelerator()->allocate(device_, bytes, kMemoryStream);
    user.wait_for(accelerator()->stream(device_, kMemoryStream));
    return block_.data;
  }

 private:
  void release() {
    if (block_.data) accelerator()->free(device_, block_, kMemoryStream);
    block_ = {};
  }

  const int device_;
  Block block_;
};

// Page-locked memory of a fixed size.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes) : block_(accelerator()->pinned().allocate(bytes)) {}
  ~PinnedBuffer() { accelerator()->pinned().free(block_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return block_.data; }

 private:
  Block block_;
};

void write_taps(const LinearTaps& from, PixelTap* to) {
  for (size_t i = 0; i < from.first.size(); ++i)
    to[i] = {from.first[i], from.second[i], {from.weights[2 * i], from.weights[2 * i + 1]}};
}

// Calls a function that makes the GPU the thread's current one, which the caller's thread must not
// notice.
template <class F>
void on_another_thread(const F& function) {
  std::async(std::launch::async, function).get();
}

// A file that ends early may be decoded without a complaint; the CPU's decoder reports it.
bool has_end(std::span<const std::byte> bytes) {
  size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;  // padding
  return size >= 2 && bytes[size - 2] == std::byte{0xFF} && bytes[size - 1] == std::byte{0xD9};
}

}  // namespace

void check_gpu_options(const ImageParams& p, bool detection) {
  const auto check = [](bool is_default, const auto&... option) {
    MX_CHECK_KIND(is_default, ErrorKind::kNotSupported, "ImageRecordIter: ", option...,
                  " is not supported where MXLITE_NVJPEG=1 decodes on a GPU; leave it out, or "
                  "decode on the CPU (ctx='cpu')");
  };
  check(!detection, "ImageDetRecordIter");
  check(p.channels != 4, "data_shape of 4 channels");
  check(p.inter_method == 1, "inter_method=", p.inter_method);
  check(p.max_rotate_angle <= 0, "max_rotate_angle=", p.max_rotate_angle);
  check(p.rotate <= 0, "rotate=", p.rotate);
  check(p.rotate_list.ndim() == 0, "rotate_list=", p.rotate_list);
  check(p.max_shear_ratio <= 0, "max_shear_ratio=", p.max_shear_ratio);
  check(p.random_resized_crop || p.max_aspect_ratio == 0, "max_aspect_ratio=", p.max_aspect_ratio,
        " without random_resized_crop");
  check(p.max_random_scale == 1, "max_random_scale=", p.max_random_scale);
  check(p.min_random_scale == 1, "min_random_scale=", p.min_random_scale);
  check(p.max_img_size == 1e10F, "max_img_size=", p.max_img_size);
  check(p.min_img_size == 0, "min_img_size=", p.min_img_size);
  check(p.pad == 0, "pad=", p.pad);
  check(p.brightness <= 0, "brightness=", p.brightness);
  check(p.contrast <= 0, "contrast=", p.contrast);
  check(p.saturation <= 0, "saturation=", p.saturation);
  check(p.pca_noise <= 0, "pca_noise=", p.pca_noise);
  check(p.random_h <= 0, "random_h=", p.random_h);
  check(p.random_s <= 0, "random_s=", p.random_s);
  check(p.random_l <= 0, "random_l=", p.random_l);
  check(p.resize <= 0 || !p.random_resized_crop, "resize=", p.resize, " with random_resized_crop");
  check(p.resize <= 0 || p.max_crop_size <= 0, "resize=", p.resize, " with max_crop_size");
}

// Decodes and writes one sample at a time, on a stream of its own.
class GpuSamples::Decoder {
 public:
  Decoder(int device, const ImageParams& params, const float* means)
      : params_(params),
        means_(means),
        gpu_(require_sample_device(device)),
        stream_(gpu_.make_stream(device)),
        pixels_(device),
        taps_(device),
        host_taps_(tap_bytes()),
        host_sample_(sample_bytes()) {
    stream_->enter();
    nvjpeg_.emplace(require_nvjpeg());
  }
  // Work of a sample that failed may still run.
  ~Decoder() {
    try {
      stream_->enter();
      stream_->synchronize();
    } catch (const Error&) {  // the device is broken, and reports it to its other users
    }
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Submits the work of an image. The work of the image before must be done. Returns why nvJPEG
  // does not decode the image and nothing was drawn or written, or nothing.
  std::optional<std::string> decode(std::span<const std::byte> bytes, const ImageInfo& info,
                                    Random& random, void* output);
  // Memory of the host for one sample, and its copy to the device.
  void* host_sample() const { return host_sample_.data(); }
  void copy_host_sample(void* output) {
    enter();
    stream_->copy(output, host_sample_.data(), sample_bytes());
  }
  // Waits until all submitted work is done.
  void finish() { stream_->synchronize(); }

 private:
  size_t sample_bytes() const {
    return static_cast<size_t>(params_.channels) * static_cast<size_t>(params_.height) *
           static_cast<size_t>(params_.width) * dtype_size(params_.dtype);
  }
  size_t tap_bytes() const {
    return sizeof(PixelTap) * static_cast<size_t>(params_.width + params_.height);
  }
  // Lets this thread use the device, and the stream the memory of the output.
  void enter() {
    stream_->enter();
    stream_->wait_for(accelerator()->stream(stream_->device().index, kMemoryStream));
  }
  void set_resize(ResizePlan plan, SampleWork& work);
  void set_look(const SampleLook& look, SampleWork& work) const;

  const ImageParams& params_;
  const float* const means_;
  SampleDevice& gpu_;
  std::unique_ptr<Stream> stream_;
  DeviceBuffer pixels_, taps_;
  PinnedBuffer host_taps_, host_sample_;
  std::optional<NvjpegDecoder> nvjpeg_;
};

// Sets what the sample reads of the image, and copies the taps.
void GpuSamples::Decoder::set_resize(ResizePlan plan, SampleWork& work) {
  work.denominator = scaled_decode({plan.rectangle.width, plan.rectangle.height}, plan.size);
  if (halves(plan)) {  // OpenCV's blocks of four pixels begin at the rectangle
    work.left = std::exchange(plan.rectangle.x, 0);
    work.top = std::exchange(plan.rectangle.y, 0);
  }
  const ResizeAxes axes = resize_axes(plan, params_, work.denominator);
  auto* const taps = static_cast<PixelTap*>(host_taps_.data());
  write_taps(column_taps(axes.columns), taps);
  write_taps(row_taps(axes.rows), taps + params_.width);
  auto* const on_device = static_cast<PixelTap*>(taps_.get(tap_bytes(), *stream_));
  stream_->copy(on_device, taps, tap_bytes());
  work.columns = on_device;
  work.rows = on_device + params_.width;
}

void GpuSamples::Decoder::set_look(const SampleLook& look, SampleWork& work) const {
  const ImageParams& p = params_;
  work.channels = p.channels;
  work.sample_width = p.width;
  work.sample_height = p.height;
  work.dtype = p.dtype;
  work.flip = look.flip;
  work.means = means_;
  for (size_t c = 0; c < static_cast<size_t>(p.channels); ++c) {
    work.mean[c] = p.mean[c];
    work.factor[c] = look.contrast * p.scale / p.std[c];
    work.shift[c] = look.light * p.scale / p.std[c];
  }
}

std::optional<std::string> GpuSamples::Decoder::decode(std::span<const std::byte> bytes,
                                                       const ImageInfo& info, Random& random,
                                                       void* output) {
  if (!info.jpeg) return "it is no JPEG";
  if (!has_end(bytes)) return "it does not end with an end marker";
  Random drawing = random;
  const std::optional<ResizePlan> plan = plan_resize({info.width, info.height}, params_, drawing);
  if (!plan) return "it is resized twice";
  enter();
  const bool gray = info.channels == 1 || params_.channels == 1;
  if (auto reason = nvjpeg_->begin(bytes, gray)) return reason;
  SampleWork work;
  work.width = info.width;
  work.height = info.height;
  work.pixel_bytes = gray ? 1 : 3;
  const size_t pitch = static_cast<size_t>(info.width) * static_cast<size_t>(work.pixel_bytes);
  auto* const pixels =
      static_cast<unsigned char*>(pixels_.get(pitch * static_cast<size_t>(info.height), *stream_));
  work.pixels = pixels;
  work.output = output;
  set_resize(*plan, work);
  set_look(draw_look(params_, drawing), work);
  if (auto reason = nvjpeg_->submit(pixels, pitch, gpu_.native(*stream_))) {
    stream_->synchronize();
    return reason;
  }
  gpu_.write_sample(*stream_, work);
  random = drawing;
  return std::nullopt;
}

GpuSamples::GpuSamples(int device, const ImageParams& params, int threads)
    : device_(device), params_(params), stream_(require_sample_device(device).make_stream(device)) {
  require_nvjpeg();
  if (!params_.mean_image.empty()) {
    const std::vector<float>& mean = params_.mean_image;
    means_ = empty({{static_cast<int64_t>(mean.size())}, DType::kFloat32});
    copy(means_->data(), mean.data(), mean.size() * sizeof(float));
  }
  const auto* const means = means_ ? static_cast<const float*>(means_->data()) : nullptr;
  on_another_thread([&] {
    for (size_t i = 0; i < static_cast<size_t>(threads) * kSlots; ++i)
      decoders_.push_back(std::make_unique<Decoder>(device, params_, means));
  });
}

GpuSamples::~GpuSamples() {
  try {
    on_another_thread([this] { decoders_.clear(); });
  } catch (const std::exception&) {  // no thread starts: this one destroys them
  }
}

NDArrayRef GpuSamples::empty(const TensorSpec& spec) const {
  return NDArray::empty(spec, {DeviceType::kCUDA, device_}, kMemoryStream);
}

void GpuSamples::make(int thread, size_t slot, std::span<const std::byte> bytes, Random& random,
                      const std::string& name, TransformScratch& scratch, void* output) {
  const ImageInfo info = read_image_header(bytes, name);  // checks the number of pixels
  Decoder& used = decoder(thread, slot);
  const std::optional<std::string> reason = used.decode(bytes, info, random, output);
  if (!reason) return;
  transform_image(bytes, params_, random, name, scratch, used.host_sample());
  used.copy_host_sample(output);
  const std::lock_guard lock(mutex_);
  if (first_on_cpu_.empty()) first_on_cpu_ = name + ": " + *reason;
  ++decoded_on_cpu_;
}

void GpuSamples::finish(int thread, size_t slot) { decoder(thread, slot).finish(); }

void GpuSamples::copy(void* to, const void* from, size_t bytes) {
  stream_->wait_for(accelerator()->stream(device_, kMemoryStream));
  stream_->copy(to, from, bytes);
  stream_->synchronize();
}

void GpuSamples::clear(void* to, size_t bytes) {
  const std::vector<std::byte> zeros(bytes);
  copy(to, zeros.data(), bytes);
}

std::string GpuSamples::first_on_cpu() const {
  const std::lock_guard lock(mutex_);
  return first_on_cpu_;
}

}  // namespace mxlite::io
