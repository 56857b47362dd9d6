// box_nms; a second output has the indices that its gradient needs.
#pragma once
#include "cpp/ops/vision/box.h"

namespace mxlite {

struct BoxNmsParams {
  float overlap_thresh = 0.5f, valid_thresh = 0;
  int topk = -1, coord_start = 2, score_index = 1, id_index = -1, background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::kCorner, out_format = BoxFormat::kCorner;
  MX_FIELDS(
      BoxNmsParams,
      MX_FIELD(overlap_thresh,
               "A box whose intersection over union with a better one is above this is dropped."),
      MX_FIELD(valid_thresh, "Boxes whose score is not above this are dropped."),
      MX_FIELD(topk, "How many boxes are compared at most; negative: all. 0 copies."),
      MX_FIELD(coord_start, "Index of the first of four coordinates in a row."),
      MX_FIELD(score_index, "Index of the score in a row."),
      MX_FIELD(id_index, "Index of the class in a row; -1: no classes."),
      MX_FIELD(background_id, "Boxes of this class are dropped; needs id_index."),
      MX_FIELD(force_suppress, "Boxes of different classes compete too."),
      MX_FIELD(in_format, "Format of the boxes in data."),
      MX_FIELD(out_format, "Format of the boxes in the output."))
};

}  // namespace mxlite
