// box_nms; a second output has the indices that its gradient needs.
#pragma once
#include <tuple>

#include "cpp/ops/vision/box.h"

namespace mxlite {

struct BoxNmsParams {
  float overlap_thresh = 0.5f, valid_thresh = 0;
  int topk = -1, coord_start = 2, score_index = 1, id_index = -1, background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::kCorner, out_format = BoxFormat::kCorner;
  static constexpr auto fields() {
    using P = BoxNmsParams;
    return std::tuple(
        field("overlap_thresh", &P::overlap_thresh,
              "A box whose intersection over union with a better one is above this is dropped."),
        field("valid_thresh", &P::valid_thresh, "Boxes whose score is not above this are dropped."),
        field("topk", &P::topk, "How many boxes are compared at most; negative: all. 0 copies."),
        field("coord_start", &P::coord_start, "Index of the first of four coordinates in a row."),
        field("score_index", &P::score_index, "Index of the score in a row."),
        field("id_index", &P::id_index, "Index of the class in a row; -1: no classes."),
        field("background_id", &P::background_id,
              "Boxes of this class are dropped; needs id_index."),
        field("force_suppress", &P::force_suppress, "Boxes of different classes compete too."),
        field("in_format", &P::in_format, "Format of the boxes in data."),
        field("out_format", &P::out_format, "Format of the boxes in the output."));
  }
};

}  // namespace mxlite
