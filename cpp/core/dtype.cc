#include "cpp/core/dtype.h"

#include <array>
#include <utility>

namespace mxlite {
namespace {

struct DTypeRow {
  const char* name;
  uint8_t size;
};
// Indexed by dtype code.
constexpr std::array<DTypeRow, 13> kRows = {{{"float32", 4},
                                             {"float64", 8},
                                             {"float16", 2},
                                             {"uint8", 1},
                                             {"int32", 4},
                                             {"int8", 1},
                                             {"int64", 8},
                                             {"bool", 1},
                                             {"int16", 2},
                                             {"uint16", 2},
                                             {"uint32", 4},
                                             {"uint64", 8},
                                             {"bfloat16", 2}}};

}  // namespace

size_t dtype_size(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }
const char* dtype_name(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (name == kRows[i].name) return static_cast<DType>(i);
  // Other names of the same types in NumPy.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 47> kAliases = {{
      {"int", "int64"},      {"float", "float64"},  {"bool_", "bool"},  {"half", "float16"},
      {"single", "float32"}, {"double", "float64"}, {"long", "int64"},  {"byte", "int8"},
      {"ubyte", "uint8"},    {"f2", "float16"},     {"f4", "float32"},  {"f8", "float64"},
      {"i1", "int8"},        {"i2", "int16"},       {"i4", "int32"},    {"i8", "int64"},
      {"u1", "uint8"},       {"u2", "uint16"},      {"u4", "uint32"},   {"u8", "uint64"},
      {"?", "bool"},         {"e", "float16"},      {"f", "float32"},   {"d", "float64"},
      {"b", "int8"},         {"h", "int16"},        {"i", "int32"},     {"l", "int64"},
      {"q", "int64"},        {"B", "uint8"},        {"H", "uint16"},    {"I", "uint32"},
      {"L", "uint64"},       {"Q", "uint64"},       {"short", "int16"}, {"intc", "int32"},
      {"int_", "int64"},     {"intp", "int64"},     {"p", "int64"},     {"longlong", "int64"},
      {"ushort", "uint16"},  {"uintc", "uint32"},   {"uint", "uint64"}, {"ulonglong", "uint64"},
      {"uintp", "uint64"},   {"P", "uint64"},       {"b1", "bool"},
  }};
  if (name.starts_with('<') || name.starts_with('=') || name.starts_with('|'))
    name.remove_prefix(1);  // ignores a byte order that equals the machine's
  for (const auto& [alias, full] : kAliases)
    if (name == alias) return dtype_from_name(full);
  return std::nullopt;
}

}  // namespace mxlite
