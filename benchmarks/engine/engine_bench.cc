// Cost of the engine's bookkeeping per task with two reads and one write; prints one JSON line.
//   push       pushing to the worker, without what the worker does
//   push_run   pushing and running a stream of dependent tasks
//   inline     push, run and completion in the caller
//   naive      the same on the naive engine
//   handover   push of one task to a sleeping worker and wait for it
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"

using namespace mxlite::engine;

namespace {

constexpr int kVars = 8;
constexpr int kRepeats = 15;

struct Vars {
  Var var[kVars];
  void push(Engine& engine, int i, const PushOptions& options) {
    Var* reads[] = {&var[i % kVars], &var[(i + 3) % kVars]};
    Var* writes[] = {&var[(i + 1) % kVars]};
    engine.push_fn("task", {reads, writes, {}}, options, [] {});
  }
};

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <class F>
double median_ns_per_task(int tasks, F&& run) {
  std::vector<double> samples;
  for (int r = 0; r < kRepeats; ++r) samples.push_back(run(tasks) / tasks);
  std::nth_element(samples.begin(), samples.begin() + kRepeats / 2, samples.end());
  return samples[kRepeats / 2];
}

double stream(Engine& engine, int tasks, const PushOptions& options, bool with_run) {
  Vars vars;
  const double begin = now_ns();
  for (int i = 0; i < tasks; ++i) vars.push(engine, i, options);
  const double pushed = now_ns();
  engine.wait_all();
  return (with_run ? now_ns() : pushed) - begin;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

int main() {
  ThreadedEngine engine;
  NaiveEngine naive;
  const PushOptions queued, may_inline{.may_inline = true};
  // Fewer than the limit of tasks in flight: push must not block here.
  const double push =
      median_ns_per_task(3000, [&](int n) { return stream(engine, n, queued, false); });
  const double push_run =
      median_ns_per_task(200000, [&](int n) { return stream(engine, n, queued, true); });
  const double inline_run =
      median_ns_per_task(200000, [&](int n) { return stream(engine, n, may_inline, true); });
  const double naive_run =
      median_ns_per_task(200000, [&](int n) { return stream(naive, n, queued, true); });
  const double handover = median_ns_per_task(2000, [&](int n) {
    Vars vars;
    const double begin = now_ns();
    for (int i = 0; i < n; ++i) {
      vars.push(engine, i, queued);
      engine.wait(vars.var[(i + 1) % kVars]);
    }
    return now_ns() - begin;
  });
  std::printf(
      "{\"benchmark\": \"engine\", \"machine\": \"%s, %u cores\", \"unit\": \"ns per task, median "
      "of %d\", \"push\": %.0f, "
      "\"push_run\": %.0f, \"inline\": %.0f, \"naive\": %.0f, \"handover\": %.0f}\n",
      cpu_model().c_str(), std::thread::hardware_concurrency(), kRepeats, push, push_run,
      inline_run, naive_run, handover);
}
