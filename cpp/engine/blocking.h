// Gives up the GIL (or what set_blocking_hooks names) while this thread blocks or runs foreign
// work. Never let it end while holding an engine lock: taking the GIL back may need another
// thread's push.
#pragma once

namespace mxlite::engine {

class BlockingScope {
 public:
  BlockingScope();
  ~BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  void* token_ = nullptr;
  void (*acquire_)(void*) = nullptr;
};

}  // namespace mxlite::engine
