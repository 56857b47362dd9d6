// Results of tuning, kept between processes: a file of lines `problem <tab> plan` for one
// device and library version. A file that cannot be read or written costs a repeated search,
// nothing else.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace mxlite {

class PlanStore {
 public:
  // Reads the existing file.
  explicit PlanStore(std::string path);
  std::optional<std::string> find(const std::string& problem) const;
  // Stores the plan and rewrites the file, with what other processes wrote meanwhile: first a
  // temporary file first, then renamed, so that a reader never sees half a file.
  void add(const std::string& problem, const std::string& plan);
  const std::string& path() const { return path_; }

 private:
  void read();
  void write() const;

  const std::string path_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> plans_;  // guarded by mutex_
};

// Returns MXLITE_CACHE_DIR, else mxlite under XDG_CACHE_HOME or ~/.cache; empty without a home.
std::string cache_folder();
// Path for the plans of a library on a device: characters that files should not have become '_'.
// Empty, which keeps plans in memory only, without a folder.
std::string plan_store_path(const std::string& folder, const std::string& library,
                            const std::string& version, const std::string& device);

}  // namespace mxlite
