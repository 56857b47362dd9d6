#include "cpp/ops/plan_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cpp/base/env.h"
#include "cpp/base/str.h"

namespace mxlite {
namespace {

// Version 1 could hold engines that its problem's rules bar: they were excluded too early.
constexpr const char* kHeader = "mxlite plans 2";

// One writer per folder at a time, of all processes and of all stores of this one. Where a file
// system has no locks, writers that meet lose one another's plans, nothing else.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : file_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~FolderLock() {
    if (file_ >= 0) close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

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

// A file of another format is not read, and replaced by the next write. Lines without a tab (a disk
// was full) are skipped.
void PlanStore::read() {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line) || line != kHeader) return;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || tab + 1 == line.size()) continue;
    plans_.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
}

void PlanStore::write() const {
  static std::atomic<int> counter{0};  // two devices of one process may share a file
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
