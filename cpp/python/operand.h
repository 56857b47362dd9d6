// Classifies arguments of an operator's call as arrays, symbols and other objects.
#pragma once
#include <cstdint>

#include "cpp/python/py_array.h"
#include "cpp/python/py_symbol.h"

namespace mxlite::python {

enum class OperandKind : uint8_t { kArray, kSymbol, kOther };

// Returns whether an argument is an array or a symbol. The first operand of a list determines the
// result for the list.
inline OperandKind operand_kind(PyObject* o) {
  if (is_any_array(o)) return OperandKind::kArray;
  if (is_symbol(o)) return OperandKind::kSymbol;
  if (!PyList_Check(o) && !PyTuple_Check(o)) return OperandKind::kOther;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (PyObject* item = PySequence_Fast_GET_ITEM(o, i); is_any_array(item) || is_symbol(item))
      return operand_kind(item);
  return OperandKind::kOther;
}

}  // namespace mxlite::python
