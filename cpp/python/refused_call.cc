#include "cpp/python/refused_call.h"

#include <algorithm>
#include <string>

#include "cpp/base/error.h"

namespace mxlite::python {
namespace {

constexpr size_t kMaxCause = 3000;  // bytes of a text that all ranks get

std::string text_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

std::string cause_text(std::string text) {
  for (const char* place : {"\n    while running ", "\n\nAt:\n"})
    text.resize(std::min(text.size(), text.find(place)));
  // If several ranks have passed on a cause, the text of the first rank is at the end.
  if (text.size() > kMaxCause) text.replace(0, text.size() - kMaxCause, "...");
  return text;
}

horovod::RequestRef refused(const horovod::Request& request, const std::exception_ptr& cause) {
  const std::string why = cause_text(text_of(cause));
  horovod::Request failed = request;
  failed.failure = "an operation before it has failed";
  if (!why.empty()) failed.failure += ": " + why;
  return make_ref<const horovod::SharedRequest>(std::move(failed));
}

}  // namespace mxlite::python
