// NVRTC's interface, implemented with the host's compiler: the image is a shared library whose
// kernels run in the emulator of tests/cpp/emulated_gpu. Only extern "C" kernels and name
// expressions can be launched.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct FakeProgram {
  std::string source, log, image;
  std::vector<std::string> expressions, names;
};

namespace {

namespace fs = std::filesystem;
enum { kSuccess = 0, kCompilation = 6, kNoName = 10 };

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string launchers(const FakeProgram& p) {
  static const std::regex kernel(
      "extern\\s+\"C\"\\s+__global__\\s+void\\s+(?:__launch_bounds__\\([^)]*\\)\\s+)?(\\w+)\\s*"
      "\\(");
  std::string text = "\n#include \"tests/cpp/fake_rtc/launcher.h\"\n";
  for (std::sregex_iterator i(p.source.begin(), p.source.end(), kernel), end; i != end; ++i)
    text += "FAKE_RTC_LAUNCHER(" + (*i)[1].str() + ", " + (*i)[1].str() + ")\n";
  for (size_t i = 0; i < p.expressions.size(); ++i)
    text += "FAKE_RTC_LAUNCHER(" + p.names[i] + ", (" + p.expressions[i] + "))\n";
  return text;
}

}  // namespace

EXPORTED int nvrtcVersion(int* major, int* minor) {
  *major = 99;
  *minor = 1;  // Code that is kept on disk for another version is compiled again.
  return kSuccess;
}
EXPORTED int nvrtcGetNumSupportedArchs(int* count) { return *count = 1, kSuccess; }
EXPORTED int nvrtcGetSupportedArchs(int* archs) { return archs[0] = 0, kSuccess; }
EXPORTED const char* nvrtcGetErrorString(int status) {
  return status == kCompilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR of the stand-in";
}
EXPORTED int nvrtcCreateProgram(FakeProgram** p, const char* source, const char*, int,
                                const char* const*, const char* const*) {
  *p = new FakeProgram;
  (*p)->source = source;
  return kSuccess;
}
EXPORTED int nvrtcDestroyProgram(FakeProgram** p) {
  delete *p;
  *p = nullptr;
  return kSuccess;
}
EXPORTED int nvrtcAddNameExpression(FakeProgram* p, const char* expression) {
  p->names.push_back("expression_" + std::to_string(p->expressions.size()));
  p->expressions.push_back(expression);
  return kSuccess;
}

EXPORTED int nvrtcCompileProgram(FakeProgram* p, int, const char* const*) {
  std::string folder = (fs::temp_directory_path() / "fake_nvrtc.XXXXXX").string();
  if (!mkdtemp(folder.data())) return 1;
  const std::string source = folder + "/kernel.cc", library = folder + "/kernel.so",
                    log = folder + "/log";
  std::ofstream(source) << "#include \"cuda_runtime.h\"\n#line 1 \"source.cu\"\n"
                        << p->source << launchers(*p);
  // With -fsanitize=thread, code calls the emulator before every access. The sanitizer's library
  // must not be linked.
  const std::string object = folder + "/kernel.o", errors = " 2>>'" + log + "'";
  const std::string command =
      std::string("'" FAKE_RTC_COMPILER "' -std=c++20 -O1 -w -fsanitize=thread ") +
      "-march=x86-64-v3 -ffp-contract=off -fPIC -c " +
      "-I'" FAKE_RTC_ROOT "' -I'" FAKE_RTC_ROOT "/tests/cpp/emulated_gpu/include' '" + source +
      "' -o '" + object + "'" + errors + " && '" FAKE_RTC_COMPILER "' -shared '" + object +
      "' -o '" + library +
      "' -L'" FAKE_RTC_LIBRARIES "' -lmxlite_emulator -Wl,-rpath,'" FAKE_RTC_LIBRARIES "'" + errors;
  const int status = std::system(command.c_str());
  p->log = read_file(log);
  if (status == 0) p->image = read_file(library);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return status == 0 ? kSuccess : kCompilation;
}

EXPORTED int nvrtcGetProgramLogSize(FakeProgram* p, size_t* bytes) {
  return *bytes = p->log.size() + 1, kSuccess;
}
EXPORTED int nvrtcGetProgramLog(FakeProgram* p, char* log) {
  std::memcpy(log, p->log.c_str(), p->log.size() + 1);
  return kSuccess;
}
EXPORTED int nvrtcGetCUBINSize(FakeProgram* p, size_t* bytes) {
  return *bytes = p->image.size(), kSuccess;
}
EXPORTED int nvrtcGetCUBIN(FakeProgram* p, char* image) {
  std::memcpy(image, p->image.data(), p->image.size());
  return kSuccess;
}
EXPORTED int nvrtcGetPTXSize(FakeProgram*, size_t* bytes) { return *bytes = 0, kSuccess; }
EXPORTED int nvrtcGetPTX(FakeProgram*, char*) { return kSuccess; }
EXPORTED int nvrtcGetLoweredName(FakeProgram* p, const char* expression, const char** name) {
  for (size_t i = 0; i < p->expressions.size(); ++i)
    if (p->expressions[i] == expression) return *name = p->names[i].c_str(), kSuccess;
  return kNoName;
}
