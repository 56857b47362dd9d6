// Parameters of the collective operators.
#pragma once
#include "cpp/ops/attr.h"
#include "cpp/ops/collective/processes.h"

namespace mxlite {

MX_ENUM_NAMES(collective::Reduction, {"sum", E::kSum}, {"mean", E::kMean}, {"min", E::kMin},
              {"max", E::kMax}, {"product", E::kProduct})

namespace collective {

template <class P>
constexpr auto process_set_field() {
  return MX_FIELD(
             process_set,
             "Number of the process set (`process_set_id`), to which this process must belong; 0 "
             "is the set of all ranks.")
      .at_least(0);
}

struct AllReduceParams {
  Reduction op = Reduction::kSum;
  int32_t process_set = 0;
  bool replicated = false;
  MX_FIELDS(
      AllReduceParams,
      MX_FIELD(op, "Operation that combines the arrays of the ranks, element by element."),
      process_set_field<P>(),
      MX_FIELD(replicated,
               "Whether all ranks compute the same values from the result. Its gradient is then "
               "the same on all ranks and is passed to data as it is, without communication."))
};

struct SumGradientParams {
  int32_t process_set = 0;
  MX_FIELDS(SumGradientParams, process_set_field<P>())
};

struct RootParams {
  int32_t root = 0;
  int32_t process_set = 0;
  MX_FIELDS(
      RootParams,
      MX_FIELD(root, "Rank, counted in the whole job, whose array all ranks get.").at_least(0),
      process_set_field<P>())
};

struct AllGatherParams {
  int64_t axis = 0;
  int32_t process_set = 0;
  MX_FIELDS(AllGatherParams, MX_FIELD(axis, "Axis along which the arrays are joined."),
            process_set_field<P>())
};

struct ReduceScatterParams {
  int64_t axis = 0;
  Reduction op = Reduction::kSum;
  int32_t process_set = 0;
  MX_FIELDS(ReduceScatterParams,
            MX_FIELD(axis,
                     "Axis that is divided; its size must be a multiple of the number of ranks."),
            MX_FIELD(op, "Operation that combines the arrays of the ranks, element by element."),
            process_set_field<P>())
};

struct AllToAllParams {
  int64_t split_axis = 0;
  int64_t concat_axis = 0;
  int32_t process_set = 0;
  MX_FIELDS(AllToAllParams,
            MX_FIELD(split_axis,
                     "Axis that is divided; its size must be a multiple of the number of ranks."),
            MX_FIELD(concat_axis, "Axis along which the received parts are joined."),
            process_set_field<P>())
};

struct SendParams {
  int32_t destination = 0;
  int32_t process_set = 0;
  MX_FIELDS(SendParams,
            MX_REQUIRED_FIELD(destination,
                              "Rank, counted in the whole job, that receives the array.")
                .at_least(0),
            process_set_field<P>())
};

struct ReceiveParams {
  int32_t source = 0;
  int32_t process_set = 0;
  MX_FIELDS(ReceiveParams,
            MX_REQUIRED_FIELD(source, "Rank, counted in the whole job, that sends the array.")
                .at_least(0),
            process_set_field<P>())
};

}  // namespace collective
}  // namespace mxlite
