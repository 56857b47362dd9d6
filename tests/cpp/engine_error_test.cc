// Tests which waits raise the failure of a task.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "cpp/engine/naive_engine.h"
#include "cpp/engine/released_task.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr PushOptions kInline{.may_inline = true};

TEST(EngineError, EveryWaitRaisesTheSameError) {
  ThreadedEngine engine;
  Var x;
  push(engine, {}, {&x}, {}, failing("bad axis"));
  const std::string first = error_of([&] { engine.wait(x); });
  EXPECT_EQ(first, "bad axis\n    while running task");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { engine.wait(x); }), first);
}

TEST(EngineError, ReadersInheritAndDoNotRun) {
  ThreadedEngine engine;
  Var x, y, z;
  bool ran = false;
  push(engine, {}, {&x}, {}, failing("cause"));
  push(engine, {&x}, {&y}, {}, [&] { ran = true; });
  push(engine, {&y}, {&z}, {}, [&] { ran = true; });
  EXPECT_EQ(error_of([&] { engine.wait(z); }), "cause\n    while running task");
  EXPECT_FALSE(ran);
}

TEST(EngineError, ATaskThatDoesNotRunKnowsTheCauseWhenItsOperandsAreReleased) {
  struct Curious final : Task {
    explicit Curious(std::exception_ptr& found_cause) : cause(found_cause) {}
    void run() override {}
    void release_operands() noexcept override { cause = failure_of_released_task(); }
    std::exception_ptr& cause;
  };
  ThreadedEngine engine;
  Var x, y, z;
  std::exception_ptr without, with;
  push(engine, {}, {&x}, {}, failing("cause"));
  Var* const read = &x;
  Var *const first = &y, *const second = &z;
  engine.push(make_ref<Curious>(with), {{&read, 1}, {&first, 1}, {}}, {});
  engine.push(make_ref<Curious>(without), {{}, {&second, 1}, {}}, {});
  EXPECT_EQ(error_of([&] { engine.wait(y); }), "cause\n    while running task");
  engine.wait(z);
  ASSERT_TRUE(with);
  EXPECT_EQ(error_of([&] { std::rethrow_exception(with); }), "cause\n    while running task");
  EXPECT_FALSE(without);
  EXPECT_FALSE(failure_of_released_task());
}

TEST(EngineError, AnUnrelatedArrayIsNotPoisoned) {
  ThreadedEngine engine;
  Var x, y;
  int value = 0;
  push(engine, {}, {&x}, {}, failing("cause"));
  push(engine, {}, {&y}, {}, [&] { value = 7; });
  engine.wait(y);
  EXPECT_EQ(value, 7);
}

TEST(EngineError, OverwritingClearsUpdatingKeeps) {
  ThreadedEngine engine;
  Var x;
  bool updated = false, overwritten = false;
  push(engine, {}, {&x}, {}, failing("cause"));
  push(engine, {}, {}, {&x}, [&] { updated = true; });
  EXPECT_EQ(error_of([&] { engine.wait(x); }), "cause\n    while running task");
  EXPECT_FALSE(updated);
  push(engine, {}, {&x}, {}, [&] { overwritten = true; });
  engine.wait(x);
  EXPECT_TRUE(overwritten);
}

TEST(EngineError, WritingAfterAFailedReaderSucceeds) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, {&x}, {&y}, {}, failing("reader"));
  push(engine, {}, {}, {&x}, [] {});  // order only: x's value is sound
  engine.wait(x);
  EXPECT_NE(error_of([&] { engine.wait(y); }), "");
}

TEST(EngineError, OverwritingWhatIsAlsoReadKeepsTheError) {
  ThreadedEngine engine;
  Var x;
  push(engine, {}, {&x}, {}, failing("cause"));
  push(engine, {&x}, {&x}, {}, [] {});
  EXPECT_NE(error_of([&] { engine.wait(x); }), "");
}

TEST(EngineError, OfTwoCausesTheEarlierPushedIsRaised) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate gate;
  push(engine, {}, {&x}, {}, [&] {
    gate.pass();
    throw Error(ErrorKind::kValue, "pushed first, failed last");
  });
  push(engine, {}, {&y}, {}, failing("pushed last, failed first"), {.worker = WorkerKind::kComm});
  push(engine, {&y, &x}, {&z}, {}, [] {});
  EXPECT_NE(error_of([&] { engine.wait(y); }), "");
  gate.open();
  EXPECT_EQ(error_of([&] { engine.wait(z); }), "pushed first, failed last\n    while running task");
}

TEST(EngineError, WaitAllRaisesTheFirstThatNobodyHasSeen) {
  ThreadedEngine engine;
  Var x, y, z;
  push(engine, {}, {&x}, {}, failing("one"));
  push(engine, {}, {&y}, {}, failing("two"));
  push(engine, {}, {&z}, {}, failing("three"));
  error_of([&] { engine.wait(x); });
  EXPECT_EQ(error_of([&] { engine.wait_all(); }), "two\n    while running task");
  EXPECT_EQ(error_of([&] { engine.wait_all(); }), "");
  EXPECT_NE(error_of([&] { engine.wait(z); }), "") << "the value itself keeps its failure";
  push(engine, {}, {&x, &y, &z}, {}, [] {});
  engine.wait_all();
  engine.wait(z);
}

TEST(EngineError, InheritedErrorsDoNotCountAsNew) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, {}, {&x}, {}, failing("cause"));
  push(engine, {&x}, {&y}, {}, [] {});
  error_of([&] { engine.wait(y); });
  EXPECT_EQ(error_of([&] { engine.wait_all(); }), "");
}

TEST(EngineError, InlineTasksKeepTheirErrorForTheWait) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, {}, {&x}, {}, failing("inline"), kInline);
  push(
      engine, {&x}, {&y}, {}, [] {}, kInline);
  EXPECT_EQ(engine.stats().run_by_caller, 2u);
  EXPECT_EQ(error_of([&] { engine.wait(y); }), "inline\n    while running task");
}

TEST(EngineError, TheNaiveEngineRaisesAtPushAndKeepsTheErrorToo) {
  NaiveEngine engine;
  Var x, y;
  const std::string text = "bad\n    while running task";
  EXPECT_EQ(error_of([&] { push(engine, {}, {&x}, {}, failing("bad")); }), text);
  EXPECT_EQ(error_of([&] { push(engine, {&x}, {&y}, {}, [] {}); }), text);
  EXPECT_EQ(error_of([&] { engine.wait(y); }), text);
  push(engine, {}, {&x}, {}, [] {});
  engine.wait(x);
  engine.wait_all();
}

class Described final : public Task {
 public:
  Described() : Task("softmax", {"train.py", 12}) {}
  void run() override { throw std::runtime_error("primitive failed"); }
  void release_operands() noexcept override {}
  void describe(std::string& out) const override { out += "softmax (2, 3) float32, axis=1"; }
};

TEST(EngineError, NamesTheOpItsShapesAndTheLineOfTheCall) {
  ThreadedEngine engine;
  Var x, y;
  Var* writes[] = {&x};
  engine.push(make_ref<Described>(), {{}, writes, {}}, {});
  push(
      engine, {&x}, {&y}, {}, [] {}, {}, "later");
  EXPECT_EQ(error_of([&] { engine.wait(y); }),
            "softmax: primitive failed\n    while running softmax (2, 3) float32, axis=1, "
            "called at train.py:12");
}

template <class F>
ErrorKind kind_of_failure(F fn) {
  ThreadedEngine engine;
  Var x;
  push(engine, {}, {&x}, {}, fn, {}, "dot");
  try {
    engine.wait(x);
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).rfind("dot: ", 0), 0u) << e.what();
    return e.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kError;
}

TEST(EngineError, ForeignExceptionsBecomeOurs) {
  EXPECT_EQ(kind_of_failure([] { throw std::bad_alloc(); }), ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of_failure([] { throw std::runtime_error("x"); }), ErrorKind::kError);
  EXPECT_EQ(kind_of_failure([] { throw 5; }), ErrorKind::kError);
  EXPECT_EQ(kind_of_failure([] { throw Error(ErrorKind::kShape, "dot: (2, 3)"); }),
            ErrorKind::kShape);
}

TEST(EngineError, AHostWriteClearsTheError) {
  ThreadedEngine engine;
  Var x;
  push(engine, {}, {&x}, {}, failing("cause"));
  engine.wait_for_write(x);
  const uint64_t before = x.version();
  engine.host_wrote(x);
  EXPECT_EQ(x.version(), before + 1);
  engine.wait(x);
}

TEST(EngineError, ATaskMayFailAfterItsVariableIsGone) {
  ThreadedEngine engine;
  Gate gate;
  Var y;
  {
    Var x;
    push(engine, {}, {&x}, {}, [&] {
      gate.pass();
      throw Error(ErrorKind::kValue, "late");
    });
    push(engine, {&x}, {&y}, {}, [] {});
  }
  gate.open();
  EXPECT_EQ(error_of([&] { engine.wait(y); }), "late\n    while running task");
}

TEST(EngineError, AProcessThatNeverWaitsKeepsABoundedNumberOfErrors) {
  ThreadedEngine engine;
  Var x;
  for (int i = 0; i < 1000; ++i) push(engine, {}, {&x}, {}, failing("again"), kInline);
  EXPECT_NE(error_of([&] { engine.wait_all(); }), "");
  EXPECT_EQ(error_of([&] { engine.wait_all(); }), "");
}

}  // namespace
}  // namespace mxlite::engine
