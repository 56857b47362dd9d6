// pybind11 writes signatures only into docstrings, with types that Python cannot parse.
#include "cpp/python/text_signatures.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace mxlite::python {
namespace {

namespace py = pybind11;

constexpr std::string_view kOpening = "([{", kClosing = ")]}", kQuotes = "'\"";

bool holds(std::string_view characters, char c) {
  return characters.find(c) != std::string_view::npos;
}

// Splits the argument list that starts at `begin` at its commas. Ignores commas in brackets and
// strings. Returns an empty list if the closing parenthesis is missing.
std::vector<std::string_view> parts_of(std::string_view text, size_t begin) {
  std::vector<std::string_view> parts;
  int depth = 0;
  char quote = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (holds(kQuotes, c)) {
      quote = c;
    } else if (holds(kOpening, c)) {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ')')) {
      parts.push_back(text.substr(begin, i - begin));
      if (c == ')') return parts;
      begin = i + 1;
    } else if (holds(kClosing, c)) {
      --depth;
    }
  }
  return {};
}

// Returns whether the text is a Python literal, which contains no names other than None, True and
// False.
bool is_literal(std::string_view text) {
  if (text == "None" || text == "True" || text == "False" || text == "()" || text == "[]")
    return true;
  if (text.size() > 1 && holds(kQuotes, text.front())) return text.back() == text.front();
  return !text.empty() && text.find_first_not_of("0123456789.e+-") == std::string_view::npos &&
         text.front() != 'e';
}

// Converts "b: str = 'x'" to "b='x'".
std::string without_type(std::string_view part) {
  part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
  std::string result(part.substr(0, part.find_first_of(":= ")));
  const size_t equals = part.find(" = ");
  if (equals == std::string_view::npos) return result;
  const std::string_view value = part.substr(equals + 3);
  return result + "=" + (is_literal(value) ? std::string(value) : "...");
}

// Converts pybind11's "name(a: int, b: str = 'x') -> float" to the prefix that CPython expects in a
// docstring, "name(a, b='x')\n--\n\n". Returns "" if the docstring has no such first line.
std::string text_signature(std::string_view name, std::string_view doc) {
  if (!doc.starts_with(name) || doc.substr(name.size(), 1) != "(") return {};
  const auto parts = parts_of(doc, name.size() + 1);
  if (parts.empty()) return {};
  std::string result(name);
  const char* separator = "(";
  for (const std::string_view part : parts) {
    result += separator + without_type(part);
    separator = ", ";
  }
  return result + ")\n--\n\n";
}

void sign_function(PyObject* function) {
  if (PyInstanceMethod_Check(function)) function = PyInstanceMethod_GET_FUNCTION(function);
  if (!PyCFunction_Check(function)) return;
  PyObject* const self = PyCFunction_GET_SELF(function);
  const bool by_pybind = self && std::string_view(Py_TYPE(self)->tp_name).starts_with("pybind11");
  PyMethodDef* const method = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  if (!by_pybind || !method->ml_doc) return;
  const std::string signature = text_signature(method->ml_name, method->ml_doc);
  if (signature.empty()) return;
  const char* const old = method->ml_doc;
  if (char* const text = ::strdup((signature + old).c_str())) {
    method->ml_doc = text;  // pybind11 frees the text
    std::free(const_cast<char*>(old));
  }
}

void sign_members(const py::handle& members, const std::string& module) {
  for (const py::handle item : members.attr("values")()) {
    const py::object function = py::isinstance<py::staticmethod>(item)
                                    ? py::object(item.attr("__func__"))
                                    : py::reinterpret_borrow<py::object>(item);
    if (PyType_Check(function.ptr())) {
      if (py::cast<std::string>(function.attr("__module__")) == module)
        sign_members(function.attr("__dict__"), module);
    } else {
      sign_function(function.ptr());
    }
  }
}

}  // namespace

void add_text_signatures(const py::module_& m) {
  sign_members(m.attr("__dict__"), py::cast<std::string>(m.attr("__name__")));
}

}  // namespace mxlite::python
