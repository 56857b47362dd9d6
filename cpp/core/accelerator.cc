#include "cpp/core/accelerator.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <atomic>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/plugin_loader.h"

namespace mxlite {
namespace {

struct Loaded {
  Accelerator* accelerator = nullptr;
  std::string absence;
};

Loaded load() {
  // MXLITE_CUDA_LIBRARY serves tests and installations of several CUDA versions side by side.
  const std::string given = env_string("MXLITE_CUDA_LIBRARY", "");
  const std::string path = given.empty() ? cuda_library() : given;
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    return {nullptr, given.empty() ? "this build has no CUDA (MXLITE_CUDA=OFF): pip install "
                                     "\"mxlite[cuda]\", build mxlite from its sources with "
                                     "-C cmake.define.MXLITE_CUDA=ON, or use mx.cpu()"
                                   : "there is no MXLITE_CUDA_LIBRARY=" + given};
  if (given.empty() && !dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    return {nullptr,
            "this machine has no NVIDIA driver (libcuda.so.1); install one for CUDA 13 or "
            "later, or use mx.cpu()"};
  std::string why_not;
  void* library = load_plugin(path, why_not);
  if (!library)
    return {nullptr,
            str("the CUDA libraries cannot be loaded (pip install mxlite[cuda]): ", why_not)};
  const auto load_plugin = reinterpret_cast<PluginLoadFn>(dlsym(library, "mxlite_plugin_load"));
  if (!load_plugin) return {nullptr, str(path, " is no plug-in of mxlite")};
  Loaded result;
  result.accelerator = load_plugin(&result.absence);
  return result;
}

std::atomic<Accelerator*> in_use{nullptr};

const Loaded& loaded() {
  static const Loaded& result = []() -> const Loaded& {
    const Loaded& made = *new Loaded(load());  // leaked, like all objects that the plug-in creates
    in_use = made.accelerator;
    return made;
  }();
  return result;
}

}  // namespace

Accelerator* accelerator() { return loaded().accelerator; }

Accelerator* accelerator_in_use() { return in_use.load(std::memory_order_acquire); }

const std::string& accelerator_absence() { return loaded().absence; }

Accelerator& require_accelerator(const char* who, int gpu) {
  Accelerator* const a = accelerator();
  MX_CHECK_KIND(a, ErrorKind::kDevice, who, ": gpu(", gpu,
                ") cannot be used: ", accelerator_absence());
  MX_CHECK_KIND(gpu >= 0 && gpu < a->count(), ErrorKind::kDevice, who, ": gpu(", gpu,
                ") does not exist, this machine has ", a->count(),
                a->count() == 1 ? " GPU" : " GPUs");
  a->check_usable(gpu);
  return *a;
}

}  // namespace mxlite
