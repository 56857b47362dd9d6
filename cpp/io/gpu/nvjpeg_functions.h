// nvJPEG's C interface as far as it is called, declared here so that a build needs no header of it.
// tests/cpp/cuda_plugin_nvjpeg_test.cc compares it with NVIDIA's.
#pragma once
#include <cstddef>

namespace mxlite::io::nvjpeg {

enum Status : int {
  kSuccess = 0,
  kBadJpeg = 3,
  kJpegNotSupported = 4,
  kImplementationNotSupported = 9,
  kIncompleteBitstream = 10
};
enum Backend : int { kDefaultBackend = 0, kHybrid = 1 };  // hybrid: the host decodes Huffman codes
enum OutputFormat : int { kLuminance = 2, kInterleavedRgb = 5 };
enum Property : int { kMajor = 0, kMinor = 1, kPatch = 2 };
// Interpolates chrominance as libjpeg-turbo does, instead of repeating it.
inline constexpr unsigned kInterpolateChrominance = 1U << 5;

struct Image {
  unsigned char* channel[4];
  size_t pitch[4];
};

// nvjpegStatus_t and the other enumerations are ints.
struct Functions {
  using Handle = struct HandleOfNvjpeg*;
  using Decoder = struct DecoderOfNvjpeg*;
  using State = struct StateOfNvjpeg*;
  using Pinned = struct PinnedOfNvjpeg*;
  using Device = struct DeviceOfNvjpeg*;
  using Parsed = struct StreamOfNvjpeg*;
  using Params = struct ParamsOfNvjpeg*;

  int (*property)(int which, int* value) = nullptr;
  int (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*create_decoder)(Handle, int backend, Decoder*) = nullptr;
  int (*destroy_decoder)(Decoder) = nullptr;
  int (*create_state)(Handle, Decoder, State*) = nullptr;
  int (*destroy_state)(State) = nullptr;
  int (*create_pinned)(Handle, void* allocator, Pinned*) = nullptr;
  int (*destroy_pinned)(Pinned) = nullptr;
  int (*create_device)(Handle, void* allocator, Device*) = nullptr;
  int (*destroy_device)(Device) = nullptr;
  int (*attach_pinned)(State, Pinned) = nullptr;
  int (*attach_device)(State, Device) = nullptr;
  int (*create_parsed)(Handle, Parsed*) = nullptr;
  int (*destroy_parsed)(Parsed) = nullptr;
  int (*parse)(Handle, const unsigned char*, size_t, int save_metadata, int save_stream,
               Parsed) = nullptr;
  int (*create_params)(Handle, Params*) = nullptr;
  int (*destroy_params)(Params) = nullptr;
  int (*set_format)(Params, int format) = nullptr;
  int (*supported)(Decoder, Parsed, Params, int* unsupported) = nullptr;
  int (*decode_host)(Handle, Decoder, State, Params, Parsed) = nullptr;
  int (*transfer)(Handle, Decoder, State, Parsed, void* stream) = nullptr;
  int (*decode_device)(Handle, Decoder, State, Image*, void* stream) = nullptr;

  // Sets the pointers from a library that dlopen has loaded. Returns the name of a function that it
  // lacks; null if it has all.
  const char* find_all(void* library);
};

}  // namespace mxlite::io::nvjpeg
