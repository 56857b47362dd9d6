// Starts and stops the profiler, and returns recorded events as columns.
#include <pybind11/numpy.h>

#include <chrono>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "cpp/base/str.h"
#include "cpp/core/profiler.h"
#include "cpp/ndarray/memory_profile.h"
#include "cpp/python/bind.h"

namespace mxlite::python {
namespace {

template <class T, class F>
py::array_t<T> column(const std::vector<ProfileEvent>& events, F&& value) {
  py::array_t<T> out(static_cast<py::ssize_t>(events.size()));
  T* const to = out.mutable_data();
  for (size_t i = 0; i < events.size(); ++i) to[i] = static_cast<T>(value(events[i]));
  return out;
}

py::dict take() {
  const ProfileRecord record = take_profile();
  py::list names;
  std::unordered_map<std::string, int32_t> known;
  std::vector<int32_t> ids;
  for (const ProfileEvent& e : record.events) {
    const auto [at, is_new] = known.emplace(e.name, static_cast<int32_t>(known.size()));
    if (is_new) names.append(e.name);
    ids.push_back(at->second);
  }
  size_t i = 0;
  py::dict out;
  out["names"] = names;
  out["dropped"] = record.dropped;
  out["name"] = column<int32_t>(record.events, [&](const ProfileEvent&) { return ids[i++]; });
  out["nanoseconds"] =
      column<int64_t>(record.events, [](const ProfileEvent& e) { return e.nanoseconds; });
  out["value"] = column<int64_t>(record.events, [](const ProfileEvent& e) { return e.value; });
  out["thread"] = column<uint32_t>(record.events, [](const ProfileEvent& e) { return e.thread; });
  out["kind"] = column<uint8_t>(record.events,
                                [](const ProfileEvent& e) { return static_cast<uint8_t>(e.kind); });
  out["phase"] = column<uint8_t>(record.events, [](const ProfileEvent& e) { return e.phase; });
  return out;
}

}  // namespace

void bind_profiler(py::module_& m) {
  m.def(
      "profiler_start",
      [](uint32_t kinds, bool memory) { start_profiler({.kinds = kinds, .memory = memory}); },
      py::arg("kinds"), py::arg("memory"),
      "Record events of the kinds (bits: operator, api, pass, io, comm) and memory in use.");
  m.def("profiler_stop", &stop_profiler, "Record nothing more; what was recorded stays.");
  m.def("profiler_runs", &profiler_runs, "Whether events are recorded.");
  m.def(
      "profiler_mark",
      [](const std::string& name, int kind, bool begin) {
        const ProfileListener* listener = profile_listener.load(std::memory_order_acquire);
        if (!listener) return;
        // The object is leaked, because recorded events refer to the names, and there are few
        // names.
        static auto* names = new std::unordered_set<std::string>;
        const char* kept = names->insert(name).first->c_str();
        (begin ? listener->begin : listener->end)(kept, static_cast<ProfileKind>(kind));
      },
      py::arg("name"), py::arg("kind"), py::arg("begin"),
      "Begin or end a scope of this thread, as the core's own.");
  m.def("memory_profile_start", &start_memory_profile,
        "Attribute the memory of new arrays to the block in whose call they are made.");
  m.def("memory_profile_stop", &stop_memory_profile, "Attribute no more; the rows stay.");
  m.def("memory_scope_enter", &enter_memory_scope, py::arg("block"),
        "This thread's allocations belong to a block until memory_scope_leave.");
  m.def("memory_scope_leave", &leave_memory_scope, "End the innermost scope of this thread.");
  m.def(
      "memory_by_block",
      [] {
        py::list rows;
        for (const MemoryOfBlock& row : memory_by_block())
          rows.append(py::make_tuple(str(row.device), row.block, row.bytes, row.peak_bytes,
                                     row.allocations));
        return rows;
      },
      "Rows of device, block, bytes in use, their peak, and the number of allocations.");
  m.def(
      "profiler_time_scopes",
      [](int64_t count) {
        const auto begin = std::chrono::steady_clock::now();
        for (int64_t i = 0; i < count; ++i) {
          const ProfileScope profile("scope", ProfileKind::kPass);
          asm volatile("" ::: "memory");
        }
        return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
            .count();
      },
      py::arg("count"), "Nanoseconds that so many empty scopes take; for benchmarks.");
  m.def("profiler_take", &take,
        "The events since the last call, as columns: names, name, nanoseconds, value, thread, "
        "kind, phase (66 begin, 69 end, 67 count), and how many were dropped.");
}

}  // namespace mxlite::python
