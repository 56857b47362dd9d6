// Handles fork() while engine threads exist: the child gets free locks and runs tasks in push.
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
