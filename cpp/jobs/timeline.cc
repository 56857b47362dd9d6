#include "cpp/jobs/timeline.h"

#include <cstdio>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/shm/heartbeat.h"

namespace mxlite::jobs {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

void Timeline::start(const std::string& path, bool mark_cycles) {
  std::lock_guard lock(mutex_);
  if (file_.is_open()) return;
  file_.open(path, std::ios::trunc);
  MX_CHECK_KIND(file_.is_open(), ErrorKind::kRecord, "timeline: file '", path,
                "' cannot be written");
  mark_cycles_ = mark_cycles;
  first_ = true;
  origin_ns_ = monotonic_ns();
  rows_.clear();
  file_ << "[";
  runs_ = true;
}

void Timeline::stop() {
  std::lock_guard lock(mutex_);
  if (!file_.is_open()) return;
  runs_ = false;
  file_ << "\n]\n";
  file_.close();
}

void Timeline::begin(const std::string& tensor, const std::string& activity) {
  event(tensor, 'B', activity);
}

void Timeline::end(const std::string& tensor) { event(tensor, 'E', ""); }

void Timeline::instant(const std::string& tensor, const std::string& text) {
  event(tensor, 'X', text);
}

void Timeline::cycle() {
  if (mark_cycles_) event("", 'i', "CYCLE_START");
}

int Timeline::row(const std::string& tensor) {
  const auto [place, fresh] = rows_.try_emplace(tensor, static_cast<int>(rows_.size()) + 1);
  if (fresh) {
    file_ << (first_ ? "\n" : ",\n") << R"({"name":"process_name","ph":"M","pid":)" << place->second
          << R"(,"args":{"name":)" << quoted(tensor.empty() ? "cycles" : tensor) << "}}";
    first_ = false;
  }
  return place->second;
}

void Timeline::event(const std::string& tensor, char phase, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (!file_.is_open()) return;
  const int pid = row(tensor);
  const double us = static_cast<double>(monotonic_ns() - origin_ns_) * 1e-3;
  char time[40];
  std::snprintf(time, sizeof time, "%.3f", us);
  file_ << ",\n{\"ph\":\"" << phase << "\",\"pid\":" << pid << ",\"tid\":0,\"ts\":" << time;
  if (phase != 'E') file_ << ",\"name\":" << quoted(name);
  if (phase == 'X') file_ << ",\"dur\":0";
  if (phase == 'i') file_ << ",\"s\":\"g\"";
  file_ << "}";
}

}  // namespace mxlite::jobs
