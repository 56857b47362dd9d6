#include "cpp/ops/rtc/nvrtc.h"

#include <algorithm>
#include <filesystem>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/function_finder.h"
#include "cpp/core/plugin_loader.h"

namespace mxlite::rtc {

// NVRTC's C interface; nvrtcResult is an int, 0 is success.
struct Nvrtc::Functions {
  using Program = struct ProgramOfNvrtc*;
  int (*version)(int* major, int* minor) = nullptr;
  int (*count_architectures)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int num_headers,
                const char* const* headers, const char* const* header_names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*add_expression)(Program, const char*) = nullptr;
  int (*compile)(Program, int num_options, const char* const* options) = nullptr;
  int (*log_bytes)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_bytes)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_bytes)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*lowered_name)(Program, const char* expression, const char** name) = nullptr;

  // Returns the name of a function that the library lacks, or null if no function is missing.
  const char* find_all(void* library) {
    FunctionFinder find(library);
    find("nvrtcVersion", version);
    find("nvrtcGetNumSupportedArchs", count_architectures);
    find("nvrtcGetSupportedArchs", architectures);
    find("nvrtcGetErrorString", error_text);
    find("nvrtcCreateProgram", create);
    find("nvrtcDestroyProgram", destroy);
    find("nvrtcAddNameExpression", add_expression);
    find("nvrtcCompileProgram", compile);
    find("nvrtcGetProgramLogSize", log_bytes);
    find("nvrtcGetProgramLog", log);
    find("nvrtcGetCUBINSize", cubin_bytes);
    find("nvrtcGetCUBIN", cubin);
    find("nvrtcGetPTXSize", ptx_bytes);
    find("nvrtcGetPTX", ptx);
    find("nvrtcGetLoweredName", lowered_name);
    return find.missing();
  }
  void check(int status, const char* call) const {
    if (status != 0) fail(ErrorKind::kError, call, " failed: ", error_text(status));
  }
};

namespace {

bool names_architecture(const std::string& option) {
  return option.starts_with("--gpu-architecture") || option.starts_with("-arch");
}

// Returns the include folder, which is next to the libraries of a toolkit or Python package.
std::string find_include_folder(void* function) {
  namespace fs = std::filesystem;
  Dl_info info{};
  if (!dladdr(function, &info) || !info.dli_fname) return "";
  std::error_code failed;
  const fs::path library = fs::canonical(info.dli_fname, failed);
  for (fs::path folder = library.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "include" / "cuda_fp16.h", failed)) return folder / "include";
    if (folder.filename() != "lib" && folder.filename() != "lib64" &&
        folder.filename() != "x86_64-linux" && folder.filename() != "targets")
      break;
  }
  return "";
}

}  // namespace

Nvrtc::Nvrtc() : functions_(std::make_unique<Functions>()) {}
Nvrtc::~Nvrtc() = default;  // the library stays loaded

std::unique_ptr<const Nvrtc> Nvrtc::load(const std::string& library, std::string* why_not) {
  void* const handle = load_library(library, *why_not);
  if (!handle) return nullptr;
  std::unique_ptr<Nvrtc> result(new Nvrtc);
  if (const char* missing = result->functions_->find_all(handle)) {
    *why_not = str(library, " has no ", missing, "; NVRTC of CUDA 12 or later is needed");
    return nullptr;
  }
  int major = 0, minor = 0;
  result->functions_->check(result->functions_->version(&major, &minor), "nvrtcVersion");
  result->version_ = str(major, '.', minor);
  result->include_folder_ =
      find_include_folder(reinterpret_cast<void*>(result->functions_->version));
  return result;
}

const Nvrtc* Nvrtc::get(std::string* why_not) {
  struct Loaded {
    std::unique_ptr<const Nvrtc> nvrtc;
    std::string why_not;
  };
  static const Loaded* const loaded = [] {
    auto* const result = new Loaded;  // leaked, because kernels may be compiled until the process
                                      // ends
    const std::string given = env_string("MXLITE_NVRTC_LIBRARY", "");
    if (!given.empty()) {
      result->nvrtc = load(given, &result->why_not);
      return result;
    }
    for (const char* library : {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"}) {
      std::string reason;
      if ((result->nvrtc = load(library, &reason))) return result;
      if (result->why_not.empty()) result->why_not = reason;
    }
    result->why_not += " (pip install mxlite[cuda])";
    return result;
  }();
  if (!loaded->nvrtc) *why_not = loaded->why_not;
  return loaded->nvrtc.get();
}

std::string Nvrtc::architecture_option(const std::string& architecture) const {
  const size_t dot = architecture.find('.');
  MX_ASSERT(dot != std::string::npos);
  const int wanted = std::stoi(architecture) * 10 + std::stoi(architecture.substr(dot + 1));
  int count = 0;
  functions_->check(functions_->count_architectures(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<size_t>(count));
  functions_->check(functions_->architectures(known.data()), "nvrtcGetSupportedArchs");
  int best = -1;
  for (const int a : known)
    if (a <= wanted) best = std::max(best, a);
  MX_CHECK_KIND(best >= 0, ErrorKind::kNotSupported, "NVRTC ", version_,
                " cannot compile for GPUs of architecture ", architecture);
  return str("--gpu-architecture=", best == wanted ? "sm_" : "compute_", best);
}

CompiledCode Nvrtc::compile(const SourceProgram& program, const std::string& architecture) const {
  const Functions& f = *functions_;
  struct Owner {
    const Functions& f;
    Functions::Program program = nullptr;
    ~Owner() {
      if (program) f.destroy(&program);
    }
  } owner{f};
  f.check(f.create(&owner.program, program.source.c_str(), "source.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  for (const std::string& e : program.expressions)
    f.check(f.add_expression(owner.program, e.c_str()), "nvrtcAddNameExpression");

  std::vector<std::string> options = program.options;
  if (std::none_of(options.begin(), options.end(), names_architecture))
    options.push_back(architecture_option(architecture));
  if (!include_folder_.empty()) options.push_back("--include-path=" + include_folder_);
  std::vector<const char*> texts;
  for (const std::string& o : options) texts.push_back(o.c_str());
  const int status = f.compile(owner.program, static_cast<int>(texts.size()), texts.data());
  if (status != 0) {
    size_t bytes = 0;
    f.check(f.log_bytes(owner.program, &bytes), "nvrtcGetProgramLogSize");
    std::string log(bytes, '\0');
    f.check(f.log(owner.program, log.data()), "nvrtcGetProgramLog");
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    fail(ErrorKind::kValue, "NVRTC ", version_, ": ", f.error_text(status), "\n", log);
  }

  CompiledCode code;
  const auto fetch = [&](auto size_of, auto read, const char* call) {
    size_t bytes = 0;
    if (size_of(owner.program, &bytes) != 0 || bytes == 0) return false;
    code.image.resize(bytes);
    f.check(read(owner.program, reinterpret_cast<char*>(code.image.data())), call);
    return true;
  };
  // A cubin exists only if an architecture sm_N was given.
  if (!fetch(f.cubin_bytes, f.cubin, "nvrtcGetCUBIN") && !fetch(f.ptx_bytes, f.ptx, "nvrtcGetPTX"))
    fail(ErrorKind::kError, "NVRTC ", version_, " reported success, but returned no code");
  for (const std::string& e : program.expressions) {
    const char* name = nullptr;
    f.check(f.lowered_name(owner.program, e.c_str(), &name), "nvrtcGetLoweredName");
    code.names[e] = name;
  }
  return code;
}

}  // namespace mxlite::rtc
