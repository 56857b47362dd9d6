// Writes a trace of named collectives in the format of chrome://tracing. Each tensor has a row.
#pragma once
#include <atomic>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_map>

namespace mxlite::jobs {

class Timeline {
 public:
  // Begins a new file. Throws a record error if the file cannot be written.
  void start(const std::string& path, bool mark_cycles);
  void stop();
  bool runs() const { return runs_.load(std::memory_order_relaxed); }

  void begin(const std::string& tensor, const std::string& activity);
  void end(const std::string& tensor);
  // Marks a point in time on the tensor's row.
  void instant(const std::string& tensor, const std::string& text);
  void cycle();

 private:
  void event(const std::string& tensor, char phase, const std::string& name);
  int row(const std::string& tensor);

  std::atomic<bool> runs_{false};  // read once per tensor without locking mutex_
  std::mutex mutex_;               // guards all members below
  std::ofstream file_;
  bool mark_cycles_ = false, first_ = true;
  int64_t origin_ns_ = 0;
  std::unordered_map<std::string, int> rows_;
};

}  // namespace mxlite::jobs
