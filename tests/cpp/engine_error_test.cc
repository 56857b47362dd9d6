// Tests which waits raise the failure of a task.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "cpp/engine/released_task.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

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
  push(engine, "later", {}, {&x}, {&y}, {}, [] {});
  EXPECT_EQ(error_of([&] { engine.wait(y); }),
            "softmax: primitive failed\n    while running softmax (2, 3) float32, axis=1, "
            "called at train.py:12");
}

template <class F>
ErrorKind kind_of_failure(F fn) {
  ThreadedEngine engine;
  Var x;
  push(engine, "dot", {}, {}, {&x}, {}, fn);
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

}  // namespace
}  // namespace mxlite::engine
