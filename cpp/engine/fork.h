// Handles fork() while engine threads exist: in the child, locks are free and tasks run inside
// push.
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
