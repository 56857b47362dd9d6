// Parameters of the collective operators.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "cpp/ops/attr.h"
#include "cpp/ops/collective/processes.h"

namespace mxlite {

template <>
struct EnumNames<collective::Reduction> {
  using E = collective::Reduction;
  static constexpr std::array<std::pair<const char*, E>, 5> names = {{{"sum", E::kSum},
                                                                      {"mean", E::kMean},
                                                                      {"min", E::kMin},
                                                                      {"max", E::kMax},
                                                                      {"product", E::kProduct}}};
};

namespace collective {

template <class P>
constexpr auto process_set_field() {
  return field("process_set", &P::process_set,
               "Number of the process set (`process_set_id`), to which this process must belong; 0 "
               "is the set of all ranks.")
      .at_least(0);
}

struct AllReduceParams {
  Reduction op = Reduction::kSum;
  int32_t process_set = 0;
  bool replicated = false;
  static constexpr auto fields() {
    using P = AllReduceParams;
    return std::tuple(
        field("op", &P::op, "How the arrays of the ranks are combined."), process_set_field<P>(),
        field("replicated", &P::replicated,
              "All ranks compute the same from the result and so have the same gradient of it, "
              "which is not summed over ranks: the gradient of data needs no communication."));
  }
};

struct SumGradientParams {
  int32_t process_set = 0;
  static constexpr auto fields() { return std::tuple(process_set_field<SumGradientParams>()); }
};

struct RootParams {
  int32_t root = 0;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = RootParams;
    return std::tuple(
        field("root", &P::root, "Rank in the job whose array all ranks get.").at_least(0),
        process_set_field<P>());
  }
};

struct AllGatherParams {
  int64_t axis = 0;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = AllGatherParams;
    return std::tuple(field("axis", &P::axis, "Axis along which the arrays are joined."),
                      process_set_field<P>());
  }
};

struct ReduceScatterParams {
  int64_t axis = 0;
  Reduction op = Reduction::kSum;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = ReduceScatterParams;
    return std::tuple(
        field("axis", &P::axis, "Axis that is divided; its size is a multiple of the ranks."),
        field("op", &P::op, "How the arrays of the ranks are combined."), process_set_field<P>());
  }
};

struct AllToAllParams {
  int64_t split_axis = 0;
  int64_t concat_axis = 0;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = AllToAllParams;
    return std::tuple(
        field("split_axis", &P::split_axis,
              "Axis that is divided; its size is a multiple of the ranks."),
        field("concat_axis", &P::concat_axis, "Axis along which the received parts are joined."),
        process_set_field<P>());
  }
};

struct SendParams {
  int32_t destination = 0;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = SendParams;
    return std::tuple(
        required_field("destination", &P::destination, "Rank in the job that receives.")
            .at_least(0),
        process_set_field<P>());
  }
};

struct ReceiveParams {
  int32_t source = 0;
  int32_t process_set = 0;
  static constexpr auto fields() {
    using P = ReceiveParams;
    return std::tuple(
        required_field("source", &P::source, "Rank in the job that sends.").at_least(0),
        process_set_field<P>());
  }
};

}  // namespace collective
}  // namespace mxlite
