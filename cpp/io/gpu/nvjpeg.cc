#include "cpp/io/gpu/nvjpeg.h"

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/function_finder.h"
#include "cpp/core/plugin_loader.h"
#include "cpp/io/gpu/nvjpeg_functions.h"

namespace mxlite::io {

using namespace nvjpeg;  // the numbers of its interface

namespace {

constexpr int kMajorVersion = 13;

}  // namespace

const char* nvjpeg::Functions::find_all(void* library) {
  FunctionFinder find(library);
  find("nvjpegGetProperty", property);
  find("nvjpegCreateEx", create);
  find("nvjpegDestroy", destroy);
  find("nvjpegDecoderCreate", create_decoder);
  find("nvjpegDecoderDestroy", destroy_decoder);
  find("nvjpegDecoderStateCreate", create_state);
  find("nvjpegJpegStateDestroy", destroy_state);
  find("nvjpegBufferPinnedCreate", create_pinned);
  find("nvjpegBufferPinnedDestroy", destroy_pinned);
  find("nvjpegBufferDeviceCreate", create_device);
  find("nvjpegBufferDeviceDestroy", destroy_device);
  find("nvjpegStateAttachPinnedBuffer", attach_pinned);
  find("nvjpegStateAttachDeviceBuffer", attach_device);
  find("nvjpegJpegStreamCreate", create_parsed);
  find("nvjpegJpegStreamDestroy", destroy_parsed);
  find("nvjpegJpegStreamParse", parse);
  find("nvjpegDecodeParamsCreate", create_params);
  find("nvjpegDecodeParamsDestroy", destroy_params);
  find("nvjpegDecodeParamsSetOutputFormat", set_format);
  find("nvjpegDecoderJpegSupported", supported);
  find("nvjpegDecodeJpegHost", decode_host);
  find("nvjpegDecodeJpegTransferToDevice", transfer);
  find("nvjpegDecodeJpegDevice", decode_device);
  return find.missing();
}

Nvjpeg::Nvjpeg() : functions_(std::make_unique<nvjpeg::Functions>()) {}
Nvjpeg::~Nvjpeg() = default;  // the library stays loaded

std::unique_ptr<const Nvjpeg> Nvjpeg::load(const std::string& library, std::string* why_not) {
  void* const handle = load_library(library, *why_not);
  if (!handle) return nullptr;
  std::unique_ptr<Nvjpeg> result(new Nvjpeg);
  if (const char* missing = result->functions_->find_all(handle)) {
    *why_not = str(library, " has no ", missing);
    return nullptr;
  }
  int parts[3] = {};
  for (const int which : {kMajor, kMinor, kPatch})
    if (const int status = result->functions_->property(which, &parts[which]); status != kSuccess) {
      *why_not = str(library, ": nvjpegGetProperty failed with status ", status);
      return nullptr;
    }
  result->version_ = str(parts[0], '.', parts[1], '.', parts[2]);
  if (parts[0] != kMajorVersion) {
    *why_not = str(library, " is nvJPEG ", result->version_, ", ", kMajorVersion, ".x is needed");
    return nullptr;
  }
  return result;
}

const Nvjpeg* Nvjpeg::get(std::string* why_not) {
  struct Loaded {
    std::unique_ptr<const Nvjpeg> library;
    std::string why_not;
  };
  static const Loaded* const loaded = [] {
    auto* const result = new Loaded;  // leaked: images may be decoded until the process ends
    const std::string given = env_string("MXLITE_NVJPEG_LIBRARY", "");
    if (!given.empty()) {
      result->library = load(given, &result->why_not);
      result->why_not += " (MXLITE_NVJPEG_LIBRARY)";
      return result;
    }
    for (const char* library : {"libnvjpeg.so.13", "/usr/local/cuda/lib64/libnvjpeg.so.13"}) {
      std::string reason;
      if ((result->library = load(library, &reason))) return result;
      if (result->why_not.empty()) result->why_not = reason;
    }
    result->why_not += "; pip install \"mxlite[cuda,nvjpeg]\", or set MXLITE_NVJPEG_LIBRARY to it";
    return result;
  }();
  if (!loaded->library) *why_not = loaded->why_not;
  return loaded->library.get();
}

struct NvjpegDecoder::Objects {
  using Functions = nvjpeg::Functions;
  const Functions& f;
  Functions::Handle handle = nullptr;
  Functions::Decoder decoder = nullptr;
  Functions::State state = nullptr;
  Functions::Pinned pinned = nullptr;
  Functions::Device device = nullptr;
  Functions::Parsed parsed = nullptr;
  Functions::Params params = nullptr;

  explicit Objects(const Functions& functions) : f(functions) {}
  ~Objects() {
    if (params) f.destroy_params(params);
    if (parsed) f.destroy_parsed(parsed);
    if (state) f.destroy_state(state);
    if (device) f.destroy_device(device);
    if (pinned) f.destroy_pinned(pinned);
    if (decoder) f.destroy_decoder(decoder);
    if (handle) f.destroy(handle);
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
};

namespace {

void require(int status, const char* call) {
  MX_CHECK_KIND(status == kSuccess, ErrorKind::kDevice, call, " failed with status ", status);
}

// Returns why an image was refused; throws if the image is not the reason.
std::optional<std::string> refusal(int status, const char* call) {
  switch (status) {
    case kSuccess:
      return std::nullopt;
    case kBadJpeg:
      return "nvJPEG finds it damaged";
    case kIncompleteBitstream:
      return "nvJPEG finds it incomplete";
    case kJpegNotSupported:
    case kImplementationNotSupported:
      return "nvJPEG does not support its kind of JPEG";
    default:
      require(status, call);
      return std::nullopt;
  }
}

}  // namespace

NvjpegDecoder::NvjpegDecoder(const Nvjpeg& library)
    : objects_(std::make_unique<Objects>(*library.functions_)) {
  Objects& o = *objects_;
  require(o.f.create(kDefaultBackend, nullptr, nullptr, kInterpolateChrominance, &o.handle),
          "nvjpegCreateEx");
  require(o.f.create_decoder(o.handle, kHybrid, &o.decoder), "nvjpegDecoderCreate");
  require(o.f.create_state(o.handle, o.decoder, &o.state), "nvjpegDecoderStateCreate");
  require(o.f.create_pinned(o.handle, nullptr, &o.pinned), "nvjpegBufferPinnedCreate");
  require(o.f.create_device(o.handle, nullptr, &o.device), "nvjpegBufferDeviceCreate");
  require(o.f.attach_pinned(o.state, o.pinned), "nvjpegStateAttachPinnedBuffer");
  require(o.f.attach_device(o.state, o.device), "nvjpegStateAttachDeviceBuffer");
  require(o.f.create_parsed(o.handle, &o.parsed), "nvjpegJpegStreamCreate");
  require(o.f.create_params(o.handle, &o.params), "nvjpegDecodeParamsCreate");
}

NvjpegDecoder::~NvjpegDecoder() = default;

std::optional<std::string> NvjpegDecoder::begin(std::span<const std::byte> bytes, bool gray) {
  Objects& o = *objects_;
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (auto reason = refusal(o.f.parse(o.handle, data, bytes.size(), /*save_metadata=*/0,
                                      /*save_stream=*/0, o.parsed),
                            "nvjpegJpegStreamParse"))
    return reason;
  require(o.f.set_format(o.params, gray ? kLuminance : kInterleavedRgb),
          "nvjpegDecodeParamsSetOutputFormat");
  int unsupported = 0;
  if (auto reason = refusal(o.f.supported(o.decoder, o.parsed, o.params, &unsupported),
                            "nvjpegDecoderJpegSupported"))
    return reason;
  if (unsupported != 0) return refusal(kJpegNotSupported, "");
  return refusal(o.f.decode_host(o.handle, o.decoder, o.state, o.params, o.parsed),
                 "nvjpegDecodeJpegHost");
}

std::optional<std::string> NvjpegDecoder::submit(unsigned char* pixels, size_t pitch,
                                                 void* stream) {
  Objects& o = *objects_;
  if (auto reason = refusal(o.f.transfer(o.handle, o.decoder, o.state, o.parsed, stream),
                            "nvjpegDecodeJpegTransferToDevice"))
    return reason;
  Image image{};
  image.channel[0] = pixels;
  image.pitch[0] = pitch;
  return refusal(o.f.decode_device(o.handle, o.decoder, o.state, &image, stream),
                 "nvjpegDecodeJpegDevice");
}

}  // namespace mxlite::io
