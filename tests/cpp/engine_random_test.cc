// Random programs of tasks must leave the same values, failures and versions as their tasks run one
// after the other. Seeds are fixed. A failure names the seed, and MXLITE_TEST_SEED=<n> repeats it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite::engine {
namespace {

constexpr int kVars = 6;

struct Cell {
  Var var;
  uint64_t value = 0;
};
using CellRef = std::shared_ptr<Cell>;

struct Step {
  enum Kind { kTask, kWait, kHostWrite, kReplace } kind = kTask;
  std::vector<int> reads, overwrites, updates;
  WorkerKind worker = WorkerKind::kCpu;
  int device = 0;
  bool may_inline = false;
  bool fails = false;
  int spin = 0;
  int var = 0;  // variable of the other kinds
  size_t bytes = 0;
};

std::vector<Step> make_program(uint64_t seed, bool with_streams) {
  std::mt19937_64 rng(seed);
  const auto below = [&](uint64_t n) { return static_cast<int>(rng() % n); };
  const auto some_vars = [&](int limit) {
    std::vector<int> vars(below(limit + 1));
    for (int& v : vars) v = below(kVars);
    return vars;
  };
  const int fail_percent = below(4) == 0 ? 25 : 3;
  std::vector<Step> program(4 + below(24));
  for (Step& s : program) {
    const int kind = below(100);
    s.var = below(kVars);
    if (kind < 6) s.kind = Step::kWait;
    if (kind == 6 || kind == 7) s.kind = Step::kHostWrite;
    if (kind == 8 || kind == 9) s.kind = Step::kReplace;
    s.reads = some_vars(3);
    s.overwrites = some_vars(below(8) == 0 ? 3 : 1);
    s.updates = some_vars(below(4) == 0 ? 2 : 0);
    s.worker = below(5) == 0 ? WorkerKind::kComm : WorkerKind::kCpu;
    s.may_inline = below(3) == 0;
    s.fails = below(100) < fail_percent;
    s.spin = below(3) == 0 ? below(400) : 0;
    s.bytes = below(1000);
    if (with_streams && s.worker == WorkerKind::kCpu && below(4) > 0) {
      constexpr WorkerKind kinds[] = {WorkerKind::kCompute, WorkerKind::kCopyIn,
                                      WorkerKind::kCopyOut};
      s.worker = kinds[below(3)];
      s.device = below(2);
    }
  }
  return program;
}

uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15u + (h >> 29); }

// Results of a program. A failure is the number of the step that caused it, or 0.
struct Outcome {
  std::array<uint64_t, kVars> values{};
  std::array<uint64_t, kVars> failures{};
  std::array<uint64_t, kVars> versions{};
  std::vector<uint64_t> waits;       // failure that each wait raised
  std::vector<uint64_t> comm_order;  // steps that ran on the comm worker
  uint64_t unseen = 0;               // failure that wait_all raised
  bool operator==(const Outcome&) const = default;
};

std::string text(const Outcome& o) {
  std::string out;
  const auto add = [&](const char* name, const auto& list) {
    out.append(name).append(":");
    for (uint64_t v : list) out.append(" ").append(std::to_string(v));
    out.append("\n");
  };
  add("values", o.values);
  add("failures", o.failures);
  add("versions", o.versions);
  add("waits", o.waits);
  add("comm order", o.comm_order);
  return out + "unseen: " + std::to_string(o.unseen) + "\n";
}

Outcome run_serially(const std::vector<Step>& program) {
  Outcome o;
  std::set<uint64_t> unseen;
  for (uint64_t id = 1; id <= program.size(); ++id) {
    const Step& s = program[id - 1];
    if (s.kind == Step::kWait) {
      o.waits.push_back(o.failures[s.var]);
      // Earlier ones are seen, too.
      unseen.erase(unseen.begin(), unseen.upper_bound(o.failures[s.var]));
    } else if (s.kind != Step::kTask) {
      o.values[s.var] = id;
      o.failures[s.var] = 0;
      o.versions[s.var] = s.kind == Step::kReplace ? 0 : o.versions[s.var] + 1;
    } else {
      uint64_t failure = 0;
      const auto inherit = [&](int v) {
        if (o.failures[v] && (!failure || o.failures[v] < failure)) failure = o.failures[v];
      };
      for (int v : s.reads) inherit(v);
      for (int v : s.updates) inherit(v);
      if (!failure && s.worker == WorkerKind::kComm) o.comm_order.push_back(id);
      if (!failure && s.fails) unseen.insert(failure = id);
      uint64_t h = id;
      for (int v : s.reads) h = mix(h, o.values[v]);
      for (int v : s.updates) h = mix(h, o.values[v]);
      std::set<int> written(s.overwrites.begin(), s.overwrites.end());
      written.insert(s.updates.begin(), s.updates.end());
      for (int v : written) {
        if (!failure) o.values[v] = mix(h, v);
        o.failures[v] = failure;
        ++o.versions[v];
      }
    }
  }
  o.unseen = unseen.empty() ? 0 : *unseen.begin();
  return o;
}

// Returns the step that a wait's error names.
template <class F>
uint64_t failed_step(F&& wait) {
  try {
    wait();
    return 0;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kValue);
    const std::string message = e.what();
    EXPECT_HAS(message, "while running step");
    EXPECT_EQ(message.find("while"), message.rfind("while")) << "decorated twice: " << message;
    return std::stoull(message.substr(message.find(' ')));
  }
}

Outcome run_on(Engine& engine, const std::vector<Step>& program) {
  Outcome o;
  std::array<CellRef, kVars> cells;
  for (CellRef& c : cells) c = std::make_shared<Cell>();
  auto comm_order = std::make_shared<std::vector<uint64_t>>();
  for (uint64_t id = 1; id <= program.size(); ++id) {
    const Step& s = program[id - 1];
    if (s.kind == Step::kWait) {
      o.waits.push_back(failed_step([&] { engine.wait(cells[s.var]->var); }));
    } else if (s.kind == Step::kHostWrite) {
      engine.wait_for_write(cells[s.var]->var);
      cells[s.var]->value = id;
      engine.host_wrote(cells[s.var]->var);
    } else if (s.kind == Step::kReplace) {
      cells[s.var] = std::make_shared<Cell>();  // the old one may still be in use
      cells[s.var]->value = id;
    } else {
      std::vector<CellRef> sources, targets;
      std::vector<uint64_t> target_ids;
      std::vector<Var*> reads, overwrites, updates;
      const auto add = [&](int v, std::vector<Var*>& list, std::vector<CellRef>& operands) {
        list.push_back(&cells[v]->var);
        operands.push_back(cells[v]);
      };
      for (int v : s.reads) add(v, reads, sources);
      for (int v : s.updates) add(v, updates, sources);
      for (int v : s.overwrites) add(v, overwrites, targets);
      for (int v : s.updates) targets.push_back(cells[v]);
      target_ids.assign(s.overwrites.begin(), s.overwrites.end());
      target_ids.insert(target_ids.end(), s.updates.begin(), s.updates.end());
      const auto body = [=] {
        if (s.worker == WorkerKind::kComm) comm_order->push_back(id);
        for (int i = 0; i < s.spin; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
        if (s.spin % 16 == 1) std::this_thread::yield();
        if (s.fails) throw Error(ErrorKind::kValue, "step " + std::to_string(id) + " failed");
        const auto compute = [=] {
          uint64_t h = id;
          for (const CellRef& c : sources) h = mix(h, c->value);
          for (size_t i = 0; i < targets.size(); ++i) targets[i]->value = mix(h, target_ids[i]);
        };
        if (auto* stream = static_cast<FakeStream*>(current_stream()))
          stream->give(compute);
        else
          compute();
      };
      const PushOptions options{
          .worker = s.worker, .device = s.device, .may_inline = s.may_inline, .bytes = s.bytes};
      const uint64_t raised = failed_step([&] {
        engine.push_fn("step", {reads, overwrites, updates}, options, body);
      });
      EXPECT_TRUE(raised == 0 || engine.runs_in_caller()) << "a push must not raise";
    }
  }
  if (!engine.runs_in_caller()) o.unseen = failed_step([&] { engine.wait_all(); });
  EXPECT_EQ(failed_step([&] { engine.wait_all(); }), 0u) << "wait_all leaves nothing unseen";
  for (int v = 0; v < kVars; ++v) {
    for (int repeat = 0; repeat < 2; ++repeat)
      o.failures[v] = failed_step([&] { engine.wait(cells[v]->var); });
    o.values[v] = cells[v]->value;
    o.versions[v] = cells[v]->var.version();
  }
  o.comm_order = *comm_order;
  return o;
}

uint64_t num_programs() { return static_cast<uint64_t>(env_int("MXLITE_TEST_PROGRAMS", 100000)); }

template <class MakeEngine>
void compare(MakeEngine&& make_engine, uint64_t count, uint64_t programs_per_engine,
             bool with_streams = false) {
  const int64_t only = env_int("MXLITE_TEST_SEED", -1);
  auto engine = make_engine();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t seed = only >= 0 ? static_cast<uint64_t>(only) : i;
    if (i % programs_per_engine == 0) engine = make_engine();
    const std::vector<Step> program = make_program(seed, with_streams);
    Outcome expected = run_serially(program);
    if (engine->runs_in_caller()) expected.unseen = 0;  // raised by push
    const Outcome outcome = run_on(*engine, program);
    ASSERT_TRUE(outcome == expected && !::testing::Test::HasFailure())
        << "repeat with MXLITE_TEST_SEED=" << seed << "\nexpected\n"
        << text(expected) << "outcome\n"
        << text(outcome);
    EXPECT_EQ(engine->stats().in_flight, 0u);
    EXPECT_EQ(engine->stats().bytes_in_flight, 0u);
  }
}

TEST(EngineRandom, ThreadedEngineEqualsSerialExecution) {
  compare([] { return std::make_unique<ThreadedEngine>(); }, num_programs(), 200);
}

TEST(EngineRandom, NewThreadsEveryFewProgramsChangeNothing) {
  compare([] { return std::make_unique<ThreadedEngine>(); }, num_programs() / 50, 2);
}

TEST(EngineRandom, NaiveEngineEqualsSerialExecution) {
  compare([] { return std::make_unique<NaiveEngine>(); }, num_programs() / 10, 200);
}

TEST(EngineRandom, TinyLimitsChangeNothing) {
  ::setenv("MXLITE_ENGINE_MAX_TASKS", "3", 1);
  ::setenv("MXLITE_ENGINE_MAX_BYTES", "1200", 1);
  compare([] { return std::make_unique<ThreadedEngine>(); }, num_programs() / 10, 200);
  ::unsetenv("MXLITE_ENGINE_MAX_TASKS");
  ::unsetenv("MXLITE_ENGINE_MAX_BYTES");
}

Stream& fake_source(int device, StreamKind kind) {
  static auto* const streams = [] {  // leaked: engines point to them
    auto* all = new std::vector<std::unique_ptr<FakeStream>>;
    for (int i = 0; i < 2 * kNumStreamKinds; ++i)
      all->push_back(std::make_unique<FakeStream>(i / kNumStreamKinds, static_cast<uint64_t>(i)));
    return all;
  }();
  return *(*streams)[static_cast<size_t>(device * kNumStreamKinds + static_cast<int>(kind))];
}

TEST(EngineRandom, StreamsOfTwoDevicesEqualSerialExecution) {
  set_stream_source(&fake_source);
  compare([] { return std::make_unique<ThreadedEngine>(); }, num_programs() / 20, 200, true);
  compare([] { return std::make_unique<ThreadedEngine>(); }, num_programs() / 500, 2, true);
  compare([] { return std::make_unique<NaiveEngine>(); }, num_programs() / 500, 200, true);
  set_stream_source(nullptr);
}

// Several threads push: each uses its own variables and reads shared ones that no thread writes.
TEST(EngineRandom, SeveralPushingThreadsEachSeeSerialExecution) {
  constexpr int kThreads = 3;
  ThreadedEngine engine;
  Cell shared;
  shared.value = 5;
  const uint64_t steps = std::max<uint64_t>(100, num_programs() / 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      Cell own;
      uint64_t expected = 0;
      for (uint64_t i = 0; i < steps; ++i) {
        Var* reads[] = {&shared.var};
        Var* updates[] = {&own.var};
        const PushOptions options{.worker = rng() % 8 ? WorkerKind::kCpu : WorkerKind::kComm,
                                  .may_inline = rng() % 2 == 0};
        engine.push_fn("step", {reads, {}, updates}, options,
                       [&own, &shared, i] { own.value = mix(own.value, shared.value + i); });
        expected = mix(expected, 5 + i);
        if (rng() % 64 == 0) {
          engine.wait(own.var);
          wrong += own.value != expected;
        }
      }
      engine.wait(own.var);
      wrong += own.value != expected;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mxlite::engine
