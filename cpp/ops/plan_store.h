// Results of tuning, kept between processes: a file of lines `problem <tab> plan` for one
// device and library version. Without the file, processes repeat the tuning. `plan` is the
// library's name of an algorithm and its options; every process builds the named algorithm.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace mxlite {

class PlanStore {
 public:
  // Reads the existing file. If the file or some of its lines are not valid, prints a line to
  // standard error and ignores them.
  explicit PlanStore(std::string path);
  std::optional<std::string> find(const std::string& problem) const;
  // Stores the plan and rewrites the file, merged with plans that other processes have written.
  // Writes a temporary file and renames it, so that readers never see a partial file.
  void add(const std::string& problem, const std::string& plan);
  const std::string& path() const { return path_; }

 private:
  void read();
  void write() const;

  const std::string path_;
  mutable std::mutex mutex_;
  bool warned_ = false;                                 // guarded by mutex_
  std::unordered_map<std::string, std::string> plans_;  // guarded by mutex_
};

// Returns MXLITE_CACHE_DIR, else XDG_CACHE_HOME/mxlite or ~/.cache/mxlite; "" without a home.
std::string cache_folder();
// Returns the path for plans of a library on a device; replaces characters unfit for file names
// by '_'. Returns "" if `folder` is empty: plans are then kept in memory only.
std::string plan_store_path(const std::string& folder, const std::string& library,
                            const std::string& version, const std::string& device);

}  // namespace mxlite
