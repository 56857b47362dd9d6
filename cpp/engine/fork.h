// fork() with engine threads alive: the child starts with free locks and runs tasks in the caller.
#pragma once

namespace mxlite::engine {

class GraphEngine;

struct ForkHandlers {
  static void add(GraphEngine& engine);
  static void remove(GraphEngine& engine);

 private:
  static void prepare();
  static void in_parent();
  static void in_child();
};

}  // namespace mxlite::engine
