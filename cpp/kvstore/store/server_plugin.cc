#include <dlfcn.h>

#include "cpp/base/own_folder.h"
#include "cpp/kvstore/store/server_client.h"

namespace mxlite::store {
namespace {

ServerPlugin& load() {
  const std::string path = own_folder() + "libmxlite_server.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    fail(ErrorKind::kCommunicator, "the parameter server cannot be loaded: ", why ? why : path);
  }
  using Entry = ServerPlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "mxlite_server_plugin"));
  MX_CHECK_KIND(entry, ErrorKind::kCommunicator, path,
                " must be of this version of mxlite, got a file without an entry point");
  return *entry();
}

}  // namespace

ServerPlugin& server_plugin() {
  static ServerPlugin& plugin = load();  // never unloaded
  return plugin;
}

}  // namespace mxlite::store
