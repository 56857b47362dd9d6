#include "cpp/ops/plan_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cpp/base/env.h"
#include "cpp/base/str.h"

namespace mxlite {
namespace {

// Files of version 1 are ignored: they could contain engines that the problem's rules exclude.
constexpr const char* kHeader = "mxlite plans 2";
// Larger files are ignored. A plan takes about 200 bytes.
constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;

// Lock for one writer per folder, across all processes and all stores of a process. On file systems
// without locks, concurrent writers may lose each other's plans, but files stay valid.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }
  FolderLock& operator=(FolderLock&&) = delete;  // neither copied nor moved

 private:
  const int file_;
};

bool fits_a_line(const std::string& problem, const std::string& plan) {
  return problem.find_first_of("\t\n") == std::string::npos &&
         plan.find('\n') == std::string::npos && !plan.empty();
}

}  // namespace

PlanStore::PlanStore(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(mutex_);
  read();
}

std::optional<std::string> PlanStore::find(const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  const auto it = plans_.find(problem);
  return it == plans_.end() ? std::nullopt : std::optional(it->second);
}

void PlanStore::add(const std::string& problem, const std::string& plan) {
  const std::lock_guard lock(mutex_);
  plans_[problem] = plan;
  if (path_.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const FolderLock folder_lock(folder);
  read();
  write();
}

// The next write replaces a file of another format.
void PlanStore::read() {
  std::error_code failed;
  const uintmax_t bytes = std::filesystem::file_size(path_, failed);
  if (failed) return;  // for example, there is no file
  std::ifstream file(path_);
  if (!file) return;
  std::string line;
  const bool has_plans = bytes <= kMostBytes && std::getline(file, line) && line == kHeader;
  bool valid = has_plans;
  while (has_plans && std::getline(file, line)) {
    const size_t tab = line.find('\t');
    const bool is_plan = tab != std::string::npos && tab + 1 < line.size();
    if (is_plan) plans_.emplace(line.substr(0, tab), line.substr(tab + 1));
    valid &= is_plan;
  }
  if (!valid && !std::exchange(warned_, true))
    std::fprintf(stderr, "mxlite: %s: lines that are not plans of this version are ignored\n",
                 path_.c_str());
}

void PlanStore::write() const {
  static std::atomic<int> counter{0};  // temporary names must differ: devices may share a file
  const std::string beside = str(path_, ".", getpid(), ".", counter++);
  {
    std::ofstream file(beside, std::ios::trunc);
    file << kHeader << '\n';
    for (const auto& [problem, plan] : plans_)
      if (fits_a_line(problem, plan)) file << problem << '\t' << plan << '\n';
    file.flush();
    if (!file) {
      std::remove(beside.c_str());
      return;
    }
  }
  if (std::rename(beside.c_str(), path_.c_str()) != 0) std::remove(beside.c_str());
}

std::string cache_folder() {
  if (const std::string folder = env_string("MXLITE_CACHE_DIR", ""); !folder.empty()) return folder;
  if (const std::string base = env_string("XDG_CACHE_HOME", ""); !base.empty())
    return base + "/mxlite";
  const std::string home = env_string("HOME", "");
  return home.empty() ? "" : home + "/.cache/mxlite";
}

std::string plan_store_path(const std::string& folder, const std::string& library,
                            const std::string& version, const std::string& device) {
  if (folder.empty()) return "";
  std::string name = str(library, "-", version, "-", device);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return str(folder, "/", name, ".plans");
}

}  // namespace mxlite
