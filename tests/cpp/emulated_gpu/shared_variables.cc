#include "tests/cpp/emulated_gpu/shared_variables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "cpp/base/error.h"
#include "tests/cpp/emulated_gpu/symbols.h"

// Returns the address of a thread-local variable. The function is part of the interface between
// compilers and libc.
extern "C" void* __tls_get_addr(size_t* module_and_offset);

namespace emulation {
namespace {

// Returns how the linker's names of a function's static variables begin: "_ZZ6kernelPfE" for the
// marker
// "_ZZ6kernelPfE19emulated_shared_108".
std::string prefix_of(const std::string& marker) {
  size_t end = marker.rfind("emulated_shared_");
  MX_ASSERT(end != std::string::npos);
  while (end > 0 && marker[end - 1] >= '0' && marker[end - 1] <= '9') --end;
  return marker.substr(0, end);
}

const FunctionVariables* find_variables(const void* marker) {
  thread_local std::map<std::pair<const LibrarySymbols*, std::string>, FunctionVariables> known;
  const LibrarySymbols& symbols = symbols_around(marker);
  const auto name = symbols.objects.find(marker);
  MX_CHECK(name != symbols.objects.end(),
           "emulated GPU: the library of a kernel with __shared__ variables has no symbol table");
  const std::string prefix = prefix_of(name->second);
  const auto [at, is_new] = known.try_emplace({&symbols, prefix});
  FunctionVariables& function = at->second;
  if (!is_new) return &function;
  for (auto v = symbols.thread_locals.lower_bound(prefix);
       v != symbols.thread_locals.end() && v->first.starts_with(prefix); ++v) {
    size_t module_and_offset[] = {symbols.tls_module, v->second.first};
    function.variables.push_back(
        {static_cast<char*>(__tls_get_addr(module_and_offset)), v->second.second});
    function.bytes += v->second.second;
  }
  return &function;
}

const FunctionVariables* variables_of(const void* marker) {
  thread_local std::unordered_map<const void*, const FunctionVariables*> known;
  if (const auto found = known.find(marker); found != known.end()) return found->second;
  return known[marker] = find_variables(marker);
}

}  // namespace

void SharedVariables::use(const void* marker) {
  if (std::find(markers_.begin(), markers_.end(), marker) != markers_.end()) return;
  const FunctionVariables* const function = variables_of(marker);
  markers_.push_back(marker);
  for (const Used& u : used_)
    if (u.function == function) return;
  used_.push_back({function, {}});
  bytes_ += function->bytes;
  for (const auto& v : function->variables) std::memset(v.data, kFreshShared, v.bytes);
}

void SharedVariables::save() {
  for (Used& u : used_) {
    u.values.resize(u.function->bytes);
    char* to = u.values.data();
    for (const auto& v : u.function->variables) {
      std::memcpy(to, v.data, v.bytes);
      to += v.bytes;
    }
  }
}

void SharedVariables::restore() {
  for (const Used& u : used_) {
    const char* from = u.values.data();
    for (const auto& v : u.function->variables) {
      std::memcpy(v.data, from, v.bytes);
      from += v.bytes;
    }
  }
}

void SharedVariables::clear() {
  markers_.clear();
  used_.clear();
  bytes_ = 0;
}

}  // namespace emulation
