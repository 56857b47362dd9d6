// nvJPEG's interface over libjpeg-turbo, for the simulated GPU. The host's part decodes into the
// pinned buffer; the device's parts copy from there in the order of a FakeStream, so that a buffer
// that is used again too early shows in the pixels. The transfer reads the file's bytes again,
// which must not have changed. Four-component images are not supported.
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

// Needs what <cstdio> declares.
#include <jpeglib.h>

#include "tests/cpp/fake_stream.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

enum { kSuccess = 0, kInvalid = 2, kBadJpeg = 3, kNotSupported = 4 };
enum { kLuminance = 2, kInterleavedRgb = 5 };

struct Handle {};
struct Decoder {};
struct Buffer {
  std::vector<unsigned char> bytes;
};
struct State {
  Buffer *pinned = nullptr, *device = nullptr;
  int width = 0, height = 0, channels = 0;
};
struct Parsed {
  const unsigned char* data = nullptr;
  size_t size = 0;
  int components = 0;
};
struct Params {
  int format = kInterleavedRgb;
};
struct Image {
  unsigned char* channel[4];
  size_t pitch[4];
};

// FNV-1a.
uint32_t checksum(const Parsed& from) {
  uint32_t sum = 2166136261U;
  for (size_t i = 0; i < from.size; ++i) sum = (sum ^ from.data[i]) * 16777619U;
  return sum;
}

// Lets a test see that the host begins an image while the device decodes another one.
class Overlap {
 public:
  // From now on the device's part of each image waits for the host's part of the next one, at most
  // that long. Forgets what was counted.
  void hold(int milliseconds) {
    const std::lock_guard lock(mutex_);
    hold_ = std::chrono::milliseconds(milliseconds);
    overlapped_ = 0;
  }
  int overlapped() {
    const std::lock_guard lock(mutex_);
    return overlapped_;
  }
  void add_host_part() {
    const std::lock_guard lock(mutex_);
    ++host_parts_;
    changed_.notify_all();
  }
  int64_t host_parts() {
    const std::lock_guard lock(mutex_);
    return host_parts_;
  }
  // Called by the device's part of an image that was submitted after `host_parts` host parts.
  void wait_for_next(int64_t host_parts) {
    std::unique_lock lock(mutex_);
    if (hold_.count() == 0) return;
    if (changed_.wait_for(lock, hold_, [&] { return host_parts_ > host_parts; })) ++overlapped_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::milliseconds hold_{0};
  int64_t host_parts_ = 0;
  int overlapped_ = 0;
};

Overlap& overlap() {
  static auto* const made = new Overlap;  // streams may run until the process ends
  return *made;
}

struct ErrorTrap {
  jpeg_error_mgr manager;
  std::jmp_buf exit;
};

// Calls work(info) with a decompressor that has read the header. Returns whether libjpeg is
// satisfied. work must have no objects with destructors: errors leave it by longjmp.
template <class F>
bool with_header(const Parsed& from, const F& work) {
  jpeg_decompress_struct info{};
  ErrorTrap trap{};
  info.err = jpeg_std_error(&trap.manager);
  trap.manager.error_exit = [](j_common_ptr failed) {
    std::longjmp(reinterpret_cast<ErrorTrap*>(failed->err)->exit, 1);
  };
  trap.manager.emit_message = [](j_common_ptr, int) {};
  const bool good = setjmp(trap.exit) == 0;
  if (good) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, from.data, static_cast<unsigned long>(from.size));  // NOLINT: its type
    jpeg_read_header(&info, TRUE);
    work(info);
  }
  jpeg_destroy_decompress(&info);
  return good;
}

void decode(jpeg_decompress_struct& info, State& state, bool gray) {
  info.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  state.width = static_cast<int>(info.output_width);
  state.height = static_cast<int>(info.output_height);
  state.channels = info.output_components;
  const size_t row = static_cast<size_t>(state.width) * static_cast<size_t>(state.channels);
  state.pinned->bytes.resize(row * static_cast<size_t>(state.height));
  while (info.output_scanline < info.output_height) {
    JSAMPROW line = state.pinned->bytes.data() + info.output_scanline * row;
    jpeg_read_scanlines(&info, &line, 1);
  }
  jpeg_finish_decompress(&info);
}

template <class T>
int make(T** object) {
  *object = new T;
  return kSuccess;
}
template <class T>
int destroy(T* object) {
  delete object;
  return kSuccess;
}

}  // namespace

EXPORTED void mxlite_fake_nvjpeg_hold(int milliseconds) { overlap().hold(milliseconds); }
// Returns how many images the device decoded after the host's part of a later one.
EXPORTED int mxlite_fake_nvjpeg_overlapped() { return overlap().overlapped(); }

EXPORTED int nvjpegGetProperty(int which, int* value) {
  static constexpr int kVersion[] = {13, 0, 0};
  if (which < 0 || which > 2) return kInvalid;
  *value = kVersion[which];
  return kSuccess;
}
EXPORTED int nvjpegCreateEx(int, void*, void*, unsigned, Handle** handle) { return make(handle); }
EXPORTED int nvjpegDestroy(Handle* handle) { return destroy(handle); }
EXPORTED int nvjpegDecoderCreate(Handle*, int, Decoder** decoder) { return make(decoder); }
EXPORTED int nvjpegDecoderDestroy(Decoder* decoder) { return destroy(decoder); }
EXPORTED int nvjpegDecoderStateCreate(Handle*, Decoder*, State** state) { return make(state); }
EXPORTED int nvjpegJpegStateDestroy(State* state) { return destroy(state); }
EXPORTED int nvjpegBufferPinnedCreate(Handle*, void*, Buffer** buffer) { return make(buffer); }
EXPORTED int nvjpegBufferPinnedDestroy(Buffer* buffer) { return destroy(buffer); }
EXPORTED int nvjpegBufferDeviceCreate(Handle*, void*, Buffer** buffer) { return make(buffer); }
EXPORTED int nvjpegBufferDeviceDestroy(Buffer* buffer) { return destroy(buffer); }
EXPORTED int nvjpegStateAttachPinnedBuffer(State* state, Buffer* buffer) {
  state->pinned = buffer;
  return kSuccess;
}
EXPORTED int nvjpegStateAttachDeviceBuffer(State* state, Buffer* buffer) {
  state->device = buffer;
  return kSuccess;
}
EXPORTED int nvjpegJpegStreamCreate(Handle*, Parsed** parsed) { return make(parsed); }
EXPORTED int nvjpegJpegStreamDestroy(Parsed* parsed) { return destroy(parsed); }
EXPORTED int nvjpegJpegStreamParse(Handle*, const unsigned char* data, size_t size, int, int,
                                   Parsed* parsed) {
  parsed->data = data;
  parsed->size = size;
  const bool good = with_header(
      *parsed, [&](jpeg_decompress_struct& info) { parsed->components = info.num_components; });
  return good ? kSuccess : kBadJpeg;
}
EXPORTED int nvjpegDecodeParamsCreate(Handle*, Params** params) { return make(params); }
EXPORTED int nvjpegDecodeParamsDestroy(Params* params) { return destroy(params); }
EXPORTED int nvjpegDecodeParamsSetOutputFormat(Params* params, int format) {
  if (format != kLuminance && format != kInterleavedRgb) return kInvalid;
  params->format = format;
  return kSuccess;
}
EXPORTED int nvjpegDecoderJpegSupported(Decoder*, Parsed* parsed, Params*, int* unsupported) {
  *unsupported = parsed->components == 4;
  return kSuccess;
}
EXPORTED int nvjpegDecodeJpegHost(Handle*, Decoder*, State* state, Params* params, Parsed* parsed) {
  if (parsed->components == 4) return kNotSupported;
  overlap().add_host_part();
  const bool good = with_header(*parsed, [&](jpeg_decompress_struct& info) {
    decode(info, *state, params->format == kLuminance);
  });
  return good ? kSuccess : kBadJpeg;
}
EXPORTED int nvjpegDecodeJpegTransferToDevice(Handle*, Decoder*, State* state, Parsed* parsed,
                                              void* stream) {
  static_cast<mxlite::FakeStream*>(stream)->give(
      [state, parsed, sum = checksum(*parsed), host_parts = overlap().host_parts()] {
        overlap().wait_for_next(host_parts);
        state->device->bytes = state->pinned->bytes;
        if (checksum(*parsed) != sum)
          for (unsigned char& pixel : state->device->bytes) pixel = 0xff - pixel;
      });
  return kSuccess;
}
EXPORTED int nvjpegDecodeJpegDevice(Handle*, Decoder*, State* state, Image* image, void* stream) {
  const size_t row = static_cast<size_t>(state->width) * static_cast<size_t>(state->channels);
  static_cast<mxlite::FakeStream*>(stream)->give(
      [state, row, height = state->height, to = image->channel[0], pitch = image->pitch[0]] {
        for (int y = 0; y < height; ++y)
          std::memcpy(to + static_cast<size_t>(y) * pitch,
                      state->device->bytes.data() + static_cast<size_t>(y) * row, row);
      });
  return kSuccess;
}
