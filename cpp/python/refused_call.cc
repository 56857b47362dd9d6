#include "cpp/python/refused_call.h"

#include <algorithm>
#include <string>

#include "cpp/base/error.h"

namespace mxlite::python {
namespace {

constexpr size_t kMaxCause = 3000;  // bytes of a text that all ranks get

// Returns why an input could not be computed, without the lines that say where: they are those of
// this rank. A cause that has passed several ranks ends with the first one's.
std::string cause_text(const std::exception_ptr& failure) {
  std::string text;
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    text = e.what();
  }
  text.resize(std::min(text.size(), text.find("\n    while running ")));
  if (text.size() > kMaxCause) text.replace(0, text.size() - kMaxCause, "...");
  return text;
}

}  // namespace

horovod::RequestRef refused(const horovod::Request& request, const std::exception_ptr& cause) {
  const std::string why = cause_text(cause);
  horovod::Request failed = request;
  failed.failure = "an operation before it has failed";
  if (!why.empty()) failed.failure += ": " + why;
  return make_ref<const horovod::SharedRequest>(std::move(failed));
}

}  // namespace mxlite::python
