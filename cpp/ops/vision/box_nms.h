// box_nms; a second output has the indices that its gradient needs.
#pragma once
#include "cpp/ops/vision/box.h"

namespace mxlite {

struct BoxNmsParams {
  float overlap_thresh = 0.5f, valid_thresh = 0;
  int topk = -1, coord_start = 2, score_index = 1, id_index = -1, background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::kCorner, out_format = BoxFormat::kCorner;
  MX_FIELDS(BoxNmsParams,
            MX_FIELD(overlap_thresh,
                     "Boxes whose intersection over union with a box of higher score is larger "
                     "than this value are dropped."),
            MX_FIELD(valid_thresh, "Boxes whose score is not above this value are dropped."),
            MX_FIELD(topk,
                     "Largest number of boxes that are compared; negative: all, 0: data is "
                     "returned unchanged."),
            MX_FIELD(coord_start, "Index of the first of the four coordinates in a row."),
            MX_FIELD(score_index, "Index of the score in a row."),
            MX_FIELD(id_index, "Index of the class in a row; -1: rows have no class."),
            MX_FIELD(background_id,
                     "Class whose boxes are dropped, if id_index is given; -1: none."),
            MX_FIELD(force_suppress, "Whether boxes also suppress boxes of other classes."),
            MX_FIELD(in_format,
                     "Format of the boxes in data; corner: (xmin, ymin, xmax, ymax), center: (x, "
                     "y, width, height)."),
            MX_FIELD(out_format,
                     "Format of the boxes in the output; corner or center as for in_format."))
};

}  // namespace mxlite
