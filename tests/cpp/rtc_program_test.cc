// Tests compiled code on disk, the loader of NVRTC, and the fake NVRTC.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/ops/rtc/code_store.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/fake_rtc/host_code.h"

namespace mxlite::rtc {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

CompiledCode code_of(const std::string& image) {
  CompiledCode code;
  const auto bytes = bytes_of(image);
  code.image.assign(bytes.begin(), bytes.end());
  code.names = {{"scale<float>", "_Z5scale"}, {"scale<double>", "_Z5scaled"}};
  return code;
}

class CodeStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / str("code_store.", getpid()) / info->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::filesystem::path folder_;
};

TEST_F(CodeStoreTest, AnotherStoreFindsTheCode) {
  EXPECT_TRUE(CodeStore(folder_.string()).add("key", code_of("image")));
  const auto found = CodeStore(folder_.string()).find("key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->image, code_of("image").image);
  EXPECT_EQ(found->names, code_of("image").names);
  EXPECT_FALSE(CodeStore(folder_.string()).find("another key"));
}

TEST_F(CodeStoreTest, LeavesNoOtherFile) {
  const CodeStore store(folder_.string());
  store.add("key", code_of("image"));
  store.add("key", code_of("another image"));
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    paths.insert(entry.path().string());
  EXPECT_EQ(paths, std::set<std::string>{store.path_of("key")});
  EXPECT_EQ(store.find("key")->image, code_of("another image").image);
}

// Two keys with equal hashes have the same file name.
TEST_F(CodeStoreTest, AFileOfAnotherKeyIsNotUsed) {
  const CodeStore store(folder_.string());
  store.add("key", code_of("image"));
  std::filesystem::rename(store.path_of("key"), store.path_of("other"));
  EXPECT_FALSE(store.find("other"));
}

TEST_F(CodeStoreTest, EveryDamageIsFound) {
  const CodeStore store(folder_.string());
  store.add("key", code_of("image"));
  const std::string path = store.path_of("key"), good = read(path);
  ASSERT_GT(good.size(), 40u);
  for (size_t length = 0; length < good.size(); ++length) {
    write(path, good.substr(0, length));
    EXPECT_FALSE(store.find("key")) << "cut after " << length << " bytes";
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(path, bad);
    EXPECT_FALSE(store.find("key")) << "byte " << i;
  }
  write(path, good + "x");
  EXPECT_FALSE(store.find("key"));
  write(path, good);
  EXPECT_TRUE(store.find("key"));
}

// Sizes are compared with the size of the file even if the checksum is right.
TEST_F(CodeStoreTest, SizesBeyondTheEndAreErrors) {
  const std::string good = encode_code("key", code_of("image"));
  EXPECT_TRUE(decode_code("key", bytes_of(good)));
  EXPECT_FALSE(decode_code("other", bytes_of(good)));
  EXPECT_THROW(decode_code("key", bytes_of(good.substr(0, good.size() - 1))), Error);
  CompiledCode nothing = code_of("image");
  nothing.image.clear();
  EXPECT_THROW(decode_code("key", bytes_of(encode_code("key", nothing))), Error);
}

TEST_F(CodeStoreTest, AFolderThatCannotBeWrittenCostsACompilation) {
  std::filesystem::create_directories(folder_.parent_path());
  write(folder_.string(), "a file where the folder should be");
  const CodeStore store(folder_.string());
  EXPECT_FALSE(store.add("key", code_of("image")));
  EXPECT_FALSE(store.find("key"));
  EXPECT_FALSE(CodeStore("").add("key", code_of("image")));
}

TEST_F(CodeStoreTest, WritersOfOneKeyLeaveAWholeFile) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        CodeStore(folder_.string())
            .add("key", code_of(std::string(1000, static_cast<char>('a' + t))));
    });
  for (int i = 0; i < 200; ++i) {
    const auto code = CodeStore(folder_.string()).find("key");
    if (!code) continue;
    EXPECT_EQ(code->image, std::vector<std::byte>(1000, code->image.at(0)));
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(CodeStore(folder_.string()).find("key"));
}

TEST(Nvrtc, AMissingLibraryIsNamed) {
  std::string why_not;
  EXPECT_FALSE(Nvrtc::load("libno_such_nvrtc.so.13", &why_not));
  EXPECT_HAS(why_not, "libno_such_nvrtc.so.13");
}

TEST(Nvrtc, AnotherLibraryIsRefused) {
  std::string why_not;
  EXPECT_FALSE(Nvrtc::load("libm.so.6", &why_not));
  EXPECT_HAS(why_not, "libm.so.6 has no nvrtc");
}

TEST(FakeNvrtc, KernelsRunInTheEmulator) {
  std::string why_not;
  const auto nvrtc = Nvrtc::load(FAKE_NVRTC, &why_not);
  ASSERT_TRUE(nvrtc) << why_not;
  const CompiledCode code = nvrtc->compile(
      {"template <class T> __global__ void scale(T* x, T a) {\n"
       "  x[blockIdx.x * blockDim.x + threadIdx.x] *= a;\n}\n"
       "extern \"C\" __global__ void reversed(const float* x, float* y) {\n"
       "  __shared__ float kept[64];\n  kept[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n"
       "  y[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];\n}\n",
       {},
       {"scale<float>"}},
      "0.0");
  CodeLoader::Module const module = test::load_host_code(code.image);
  float x[64], y[64];
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  void *from = x, *to = y;
  const float three = 3;
  const KernelArgument scale_arguments[] = {{&from, sizeof from}, {&three, sizeof three}};
  const auto scale = test::find_host_kernel(module, code.names.at("scale<float>"));
  ASSERT_TRUE(scale);
  test::HostLaunch(scale, {{4, 1, 1}, {16, 1, 1}, 0}, scale_arguments).run();
  const KernelArgument both[] = {{&from, sizeof from}, {&to, sizeof to}};
  test::HostLaunch(test::find_host_kernel(module, "reversed"), {{1, 1, 1}, {64, 1, 1}, 0}, both)
      .run();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 3.0f * static_cast<float>(63 - i));
  EXPECT_FALSE(test::find_host_kernel(module, "no_such_kernel"));
  EXPECT_THROW(test::HostLaunch(scale, {}, both), Error);  // a pointer instead of a float
}

}  // namespace
}  // namespace mxlite::rtc
