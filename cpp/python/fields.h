// Reads options (base/fields.h) from Python dictionaries.
#pragma once
#include <string>

#include "cpp/ops/op_schema.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"

namespace mxlite::python {

// Sets the fields that `given` contains and returns the number of these fields. None keeps the
// default. Throws a type or value error that names `owner` and the field.
template <class P>
size_t read_fields(const py::dict& given, const std::string& owner, P& target) {
  size_t found = 0;
  for_each_field<P>([&](const auto& f) {
    if (!given.contains(f.name)) return;
    ++found;
    const AttrValue value = attr_from_python(given[f.name].ptr(), owner, f.name);
    if (std::holds_alternative<std::monostate>(value)) return;
    auto& member = target.*(f.member);
    using Traits = AttrTraits<std::remove_cvref_t<decltype(member)>>;
    try {
      member = Traits::from(value);
      if (f.range.is_bounded()) check_attr_range(Traits::to(member), f.range);
    } catch (const AttrMismatch& mismatch) {
      throw_attr_mismatch(owner, f.name, value, mismatch);
    }
  });
  return found;
}

// Returns the default and documentation of every field. The keys are the names of the fields, in
// their order.
template <class P>
py::dict describe_fields() {
  const P defaults{};
  py::dict result;
  for_each_field<P>([&](const auto& f) {
    const auto& member = defaults.*(f.member);
    using Traits = AttrTraits<std::remove_cvref_t<decltype(member)>>;
    result[f.name] = py::make_tuple(attr_to_python(Traits::to(member)), f.doc);
  });
  return result;
}

}  // namespace mxlite::python
