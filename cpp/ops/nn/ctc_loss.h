// Connectionist temporal classification (Graves et al., 2006). data (length, batch, classes) is
// normalized by softmax in the operator. label (batch, labels) holds classes; its padding is 0 if
// the blank is class 0 (blank_label 'first'), or -1 if the blank is the last class.
#pragma once
#include <array>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class BlankLabel : uint8_t { kFirst, kLast };
template <>
struct EnumNames<BlankLabel> {
  static constexpr std::array<std::pair<const char*, BlankLabel>, 2> names = {
      {{"first", BlankLabel::kFirst}, {"last", BlankLabel::kLast}}};
};

// Outputs: loss (batch,) and, hidden, its gradient for data.
struct CTCLossParams {
  bool use_data_lengths = false, use_label_lengths = false;
  BlankLabel blank_label = BlankLabel::kFirst;
  static constexpr auto fields() {
    using P = CTCLossParams;
    return std::tuple(
        field("use_data_lengths", &P::use_data_lengths, "Take the input data_lengths."),
        field("use_label_lengths", &P::use_label_lengths, "Take the input label_lengths."),
        field("blank_label", &P::blank_label, "Class of the blank: 0 or the last one."));
  }
};

}  // namespace mxlite
