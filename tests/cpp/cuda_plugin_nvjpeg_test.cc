// Our declarations of nvJPEG's functions against NVIDIA's header, and the library itself. Needs
// the package nvidia-nvjpeg, but no driver and no GPU. Skipped without it, unless
// MXLITE_REQUIRE_NVJPEG is set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "cpp/io/gpu/nvjpeg.h"
#include "cpp/io/gpu/nvjpeg_functions.h"

#if __has_include(<nvjpeg.h>)
#include <nvjpeg.h>
#define HAS_NVJPEG 1
#else
#define HAS_NVJPEG 0
#endif

namespace mxlite::io::nvjpeg {
namespace {

#if HAS_NVJPEG
// Handles are pointers to unknown types, and enumerations are ints: both are passed alike.
template <class A, class B>
constexpr bool passed_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class R, class... A, class R2, class... B>
constexpr bool alike(R (*)(A...), R2 (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B))
    return passed_alike<R, R2> && (passed_alike<A, B> && ...);
  return false;
}

constexpr Functions kOurs;
static_assert(alike(kOurs.property, &nvjpegGetProperty));
static_assert(alike(kOurs.create, &nvjpegCreateEx));
static_assert(alike(kOurs.destroy, &nvjpegDestroy));
static_assert(alike(kOurs.create_decoder, &nvjpegDecoderCreate));
static_assert(alike(kOurs.destroy_decoder, &nvjpegDecoderDestroy));
static_assert(alike(kOurs.create_state, &nvjpegDecoderStateCreate));
static_assert(alike(kOurs.destroy_state, &nvjpegJpegStateDestroy));
static_assert(alike(kOurs.create_pinned, &nvjpegBufferPinnedCreate));
static_assert(alike(kOurs.destroy_pinned, &nvjpegBufferPinnedDestroy));
static_assert(alike(kOurs.create_device, &nvjpegBufferDeviceCreate));
static_assert(alike(kOurs.destroy_device, &nvjpegBufferDeviceDestroy));
static_assert(alike(kOurs.attach_pinned, &nvjpegStateAttachPinnedBuffer));
static_assert(alike(kOurs.attach_device, &nvjpegStateAttachDeviceBuffer));
static_assert(alike(kOurs.create_parsed, &nvjpegJpegStreamCreate));
static_assert(alike(kOurs.destroy_parsed, &nvjpegJpegStreamDestroy));
static_assert(alike(kOurs.parse, &nvjpegJpegStreamParse));
static_assert(alike(kOurs.create_params, &nvjpegDecodeParamsCreate));
static_assert(alike(kOurs.destroy_params, &nvjpegDecodeParamsDestroy));
static_assert(alike(kOurs.set_format, &nvjpegDecodeParamsSetOutputFormat));
static_assert(alike(kOurs.supported, &nvjpegDecoderJpegSupported));
static_assert(alike(kOurs.decode_host, &nvjpegDecodeJpegHost));
static_assert(alike(kOurs.transfer, &nvjpegDecodeJpegTransferToDevice));
static_assert(alike(kOurs.decode_device, &nvjpegDecodeJpegDevice));

static_assert(int{kSuccess} == int{NVJPEG_STATUS_SUCCESS});
static_assert(int{kBadJpeg} == int{NVJPEG_STATUS_BAD_JPEG});
static_assert(int{kJpegNotSupported} == int{NVJPEG_STATUS_JPEG_NOT_SUPPORTED});
static_assert(int{kImplementationNotSupported} == int{NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED});
static_assert(int{kIncompleteBitstream} == int{NVJPEG_STATUS_INCOMPLETE_BITSTREAM});
static_assert(int{kDefaultBackend} == int{NVJPEG_BACKEND_DEFAULT});
static_assert(int{kHybrid} == int{NVJPEG_BACKEND_HYBRID});
static_assert(int{kLuminance} == int{NVJPEG_OUTPUT_Y});
static_assert(int{kInterleavedRgb} == int{NVJPEG_OUTPUT_RGBI});
static_assert(kMajor == int{MAJOR_VERSION} && kMinor == int{MINOR_VERSION} &&
              kPatch == int{PATCH_LEVEL});
static_assert(kInterpolateChrominance == (NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION));
static_assert(sizeof(Image) == sizeof(nvjpegImage_t));
static_assert(offsetof(Image, pitch) == offsetof(nvjpegImage_t, pitch));
#endif

bool is_required() { return std::getenv("MXLITE_REQUIRE_NVJPEG") != nullptr; }

TEST(CudaPluginNvjpegTest, DeclarationsAreThoseOfTheHeader) {
  if (HAS_NVJPEG) return;  // compared above
  if (is_required()) FAIL() << "compiled without nvjpeg.h";
  GTEST_SKIP() << "no nvjpeg.h: pip install -r tools/requirements-cuda.txt";
}

TEST(CudaPluginNvjpegTest, TheLibraryHasAllFunctions) {
  const char* const library = std::getenv("MXLITE_NVJPEG_LIBRARY");
  if (!library || !*library) {
    if (is_required()) FAIL() << "MXLITE_NVJPEG_LIBRARY names no library";
    GTEST_SKIP() << "MXLITE_NVJPEG_LIBRARY names no library";
  }
  std::string why_not;
  const auto found = Nvjpeg::load(library, &why_not);
  ASSERT_TRUE(found) << why_not;
  EXPECT_EQ(found->version().substr(0, 3), "13.");
}

TEST(CudaPluginNvjpegTest, OtherLibrariesAreRefused) {
  std::string why_not;
  EXPECT_FALSE(Nvjpeg::load("libm.so.6", &why_not));
  EXPECT_NE(why_not.find("libm.so.6 has no nvjpeg"), std::string::npos) << why_not;
}

}  // namespace
}  // namespace mxlite::io::nvjpeg
