#include "cpp/core/device_code.h"

#include <atomic>

namespace mxlite {
namespace {

std::atomic<CodeLoader*> loader_of_plugin{nullptr};

}  // namespace

void set_code_loader(CodeLoader* loader) { loader_of_plugin = loader; }

CodeLoader* code_loader() { return loader_of_plugin; }

}  // namespace mxlite
