#include "cpp/core/plugin_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <optional>

#include "cpp/base/own_folder.h"
#include "cpp/base/str.h"

namespace mxlite {
namespace {

namespace fs = std::filesystem;

constexpr int kMostMissing = 32;  // maximum number of missing libraries that one library may need

std::mutex mutex;
std::vector<std::string>& package_folders() {  // guarded by mutex
  static auto* const folders = new std::vector<std::string>;
  return *folders;
}

// Returns the library's name in a message such as "libcudnn.so.9: cannot open shared object file:
// ...".
std::optional<std::string> missing_library(const std::string& why_not) {
  const size_t colon = why_not.find(": cannot open shared object file");
  if (colon == std::string::npos) return std::nullopt;
  return why_not.substr(0, colon);
}

std::optional<std::string> find_in_packages(const std::string& library) {
  const std::lock_guard lock(mutex);
  for (const std::string& folder : package_folders()) {
    std::error_code failed;
    for (const auto& package : fs::directory_iterator(fs::path(folder) / "nvidia", failed)) {
      const fs::path path = package.path() / "lib" / library;
      if (fs::exists(path, failed)) return path.string();
    }
  }
  return std::nullopt;
}

// First loads the libraries that the library needs. The system's loader then finds them by name in
// the process.
void* load(const std::string& path, int mode, int depth, std::string& why_not) {
  for (int i = 0; i < kMostMissing; ++i) {
    if (void* handle = dlopen(path.c_str(), mode)) return handle;
    const char* error = dlerror();
    why_not = error ? error : path;
    const auto missing = missing_library(why_not);
    if (!missing || depth == 0) return nullptr;
    const auto found = find_in_packages(*missing);
    if (*missing == path) return found ? load(*found, mode, depth - 1, why_not) : nullptr;
    std::string why_not_this;
    if (!found || !load(*found, RTLD_NOW | RTLD_GLOBAL, depth - 1, why_not_this)) return nullptr;
  }
  return nullptr;
}

std::string text_of(const LibraryVersion& v) { return str(v[0], '.', v[1], '.', v[2]); }

}  // namespace

void set_package_folders(std::vector<std::string> folders) {
  const std::lock_guard lock(mutex);
  package_folders() = std::move(folders);
}

std::string cuda_library() {
  const char* const file = "libmxlite_cuda.so";
  std::error_code failed;
  const std::string beside = own_folder() + file;
  if (fs::exists(beside, failed)) return beside;
  const std::lock_guard lock(mutex);
  for (const std::string& folder : package_folders()) {
    const fs::path path = fs::path(folder) / "mxlite_cuda13" / file;
    if (fs::exists(path, failed)) return path.string();
  }
  return "";
}

void* load_plugin(const std::string& path, std::string& why_not) {
  constexpr int kDepth = 8;
  return load(path, RTLD_NOW | RTLD_LOCAL, kDepth, why_not);
}

void* load_library(const std::string& name, std::string& why_not) {
  if (void* handle = load_plugin(name, why_not)) return handle;
  const auto found = find_in_packages(name);
  return found ? load_plugin(*found, why_not) : nullptr;
}

std::string version_problem(const char* library, LibraryVersion found, LibraryVersion built,
                            const std::string& path) {
  if (found[0] == built[0] && found[1] >= built[1]) return "";
  return str(path, " is ", library, " ", text_of(found), ", but this build was compiled for ",
             text_of(built), "; install ", library, " ", built[0], ".", built[1], " or a later ",
             built[0], ".x (pip install --upgrade \"mxlite[cuda]\")");
}

}  // namespace mxlite
