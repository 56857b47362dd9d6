// str("a", 1, shape) concatenates its arguments with operator<<, because libstdc++ 12 has no
// <format>.
#pragma once
#include <initializer_list>
#include <ostream>
#include <string>

namespace mxlite {

// Refers to a value and to the function that writes the value. All texts share one such function,
// and each other type has one. This keeps the many calls of str() and MX_CHECK() small.
class Printed {
 public:
  Printed(const char* text)  // NOLINT: converts
      : value_(text), print_([](std::ostream& out, const void* value) {
          out << static_cast<const char*>(value);
        }) {}
  template <class T>
  Printed(const T& value)  // NOLINT: converts
      : value_(&value),
        print_([](std::ostream& out, const void* v) { out << *static_cast<const T*>(v); }) {}

  friend std::ostream& operator<<(std::ostream& out, const Printed& printed) {
    printed.print_(out, printed.value_);
    return out;
  }

 private:
  const void* value_;
  void (*print_)(std::ostream&, const void*);
};

std::string concatenate(std::initializer_list<Printed> parts);

template <class... Args>
std::string str(const Args&... args) {
  return concatenate({args...});
}

}  // namespace mxlite
