#include "cpp/engine/engine.h"

#include <string>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"

namespace mxlite::engine {
namespace {

bool naive_is_asked_for() {
  const std::string own = env_string("MXLITE_ENGINE", "");
  if (!own.empty()) {
    MX_CHECK(own == "naive" || own == "threaded",
             "environment variable MXLITE_ENGINE must be naive or threaded, got '", own, "'");
    return own == "naive";
  }
  const std::string mxnet = env_string("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice");
  MX_CHECK(
      mxnet == "NaiveEngine" || mxnet == "ThreadedEngine" || mxnet == "ThreadedEnginePerDevice",
      "environment variable MXNET_ENGINE_TYPE must be NaiveEngine, ThreadedEngine or "
      "ThreadedEnginePerDevice, got '",
      mxnet, "'");
  return mxnet == "NaiveEngine";
}

}  // namespace

Engine& Engine::get() {
  // The engine is never destroyed, because static objects with arrays may be destroyed later.
  // Python's atexit stops the workers.
  static Engine& engine = naive_is_asked_for() ? static_cast<Engine&>(*new NaiveEngine)
                                               : static_cast<Engine&>(*new ThreadedEngine);
  return engine;
}

}  // namespace mxlite::engine
