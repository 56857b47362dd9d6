#include "cpp/ops/rtc/device_program.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/ops/plan_store.h"
#include "cpp/ops/rtc/code_store.h"

namespace mxlite::rtc {
namespace {

// Increment if equal keys may mean different code.
constexpr const char* kKeyVersion = "1";

// Returns everything on which the machine code depends. Sizes separate adjacent texts.
std::string key_of(const SourceProgram& program, const std::string& versions) {
  std::string key = str("mxlite ", kKeyVersion, "\n", versions, "\n");
  for (const auto* texts : {&program.options, &program.expressions}) {
    key += str(texts->size(), "\n");
    for (const std::string& text : *texts) key += str(text.size(), " ", text, "\n");
  }
  return key + program.source;
}

const CodeStore& store() {
  static const auto* const files = new CodeStore([] {
    const std::string folder = cache_folder();
    return folder.empty() ? folder : folder + "/kernels";
  }());
  return *files;
}

CompiledCode compile(const SourceProgram& program, const std::string& architecture) {
  std::string why_not;
  const Nvrtc* const nvrtc = Nvrtc::get(&why_not);
  MX_CHECK_KIND(nvrtc, ErrorKind::kNotSupported,
                "compiling kernels at run time needs NVRTC, which cannot be loaded: ", why_not);
  const std::string key =
      key_of(program, str("NVRTC ", nvrtc->version(), ", architecture ", architecture));
  if (auto found = store().find(key)) {
    if (is_verbose())
      std::fprintf(stderr, "mxlite: rtc: %s holds the compiled code\n",
                   store().path_of(key).c_str());
    return *std::move(found);
  }
  const auto begin = std::chrono::steady_clock::now();
  CompiledCode code = nvrtc->compile(program, architecture);
  const bool kept = store().add(key, code);
  if (is_verbose()) {
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "mxlite: rtc: NVRTC %s compiled for %s in %.0f ms, %s\n",
                 nvrtc->version().c_str(), architecture.c_str(), time.count(),
                 kept ? ("kept in " + store().path_of(key)).c_str() : "not kept on disk");
  }
  return code;
}

}  // namespace

bool is_verbose() {
  static const bool on = env_string("MXLITE_VERBOSE", "").find("rtc") != std::string::npos;
  return on;
}

DeviceProgram& DeviceProgram::get(SourceProgram program) {
  static auto* const mutex = new std::mutex;
  static auto* const programs = new std::map<std::string, std::unique_ptr<DeviceProgram>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<DeviceProgram>& known = (*programs)[key_of(program, "")];
  if (!known) known.reset(new DeviceProgram(std::move(program)));
  return *known;
}

void DeviceProgram::compile_for(int device) {
  const std::lock_guard lock(mutex_);
  code_for(device);
}

const CompiledCode& DeviceProgram::code_for(int device) {
  Accelerator& accelerator = require_accelerator("compiling kernels at run time", device);
  const std::string architecture = accelerator.info(device).architecture;
  const auto known = code_.find(architecture);
  if (known != code_.end()) return known->second;
  return code_[architecture] = compile(program_, architecture);
}

DeviceProgram::Kernel DeviceProgram::find(int device, const std::string& kernel) {
  const std::lock_guard lock(mutex_);
  const auto result = [&](const auto& of_kernel, CodeLoader::Function function) {
    return Kernel{of_kernel->first.c_str(), function};
  };
  if (const auto by_name = functions_.find(kernel); by_name != functions_.end())
    if (const auto on = by_name->second.find(device); on != by_name->second.end())
      return result(by_name, on->second);
  const CompiledCode& code = code_for(device);
  CodeLoader* const loader = code_loader();
  MX_CHECK_KIND(loader, ErrorKind::kNotSupported,
                "this CUDA plug-in cannot load code that is compiled at run time");
  CodeLoader::Module& module = modules_[device];
  if (!module) module = loader->load(device, code.image);
  const auto lowered = code.names.find(kernel);
  CodeLoader::Function const function =
      loader->find(device, module, lowered == code.names.end() ? kernel : lowered->second);
  MX_CHECK(function, "the program has no kernel '", kernel,
           "'; declare it extern \"C\", or name it in exports");
  const auto by_name = functions_.try_emplace(kernel).first;
  by_name->second[device] = function;
  return result(by_name, function);
}

}  // namespace mxlite::rtc
