#include <algorithm>
#include <numeric>

#include "cpp/base/str.h"
#include "cpp/jobs/request.h"

namespace mxlite::jobs {
namespace {

std::string placement(const Request& r) { return r.device < 0 ? "the CPU" : "a GPU"; }

std::string compare(const Request& a, const Request& b) {
  const auto differ = [](const char* what, const auto& first, const auto& second) {
    return str("Mismatched ", what, ": ", first, " and ", second);
  };
  const char* kind = collective_name(a.kind);
  if (a.kind != b.kind) return differ("operations", kind, collective_name(b.kind));
  if (a.group != b.group || a.group_size != b.group_size)
    return differ("groups", str(a.group_size, " tensors in ", a.group),
                  str(b.group_size, " tensors in ", b.group));
  if (a.dtype != b.dtype) return differ("data types", a.dtype, b.dtype);
  if ((a.device < 0) != (b.device < 0)) return differ("devices", placement(a), placement(b));
  if (a.op != b.op) return differ("reduce operations", reduce_op_name(a.op), reduce_op_name(b.op));
  if (a.prescale != b.prescale) return differ("prescale factors", a.prescale, b.prescale);
  if (a.postscale != b.postscale) return differ("postscale factors", a.postscale, b.postscale);
  if (a.root != b.root) return differ("root ranks", a.root, b.root);
  const bool rows_may_differ =
      a.kind == CollectiveKind::kAllGather || a.kind == CollectiveKind::kAllToAll;
  const bool same_shape =
      a.shape.size() == b.shape.size() &&
      std::equal(a.shape.begin() + (rows_may_differ && !a.shape.empty()), a.shape.end(),
                 b.shape.begin() + (rows_may_differ && !b.shape.empty()));
  if (!same_shape)
    return differ(str(kind, " tensor shapes").c_str(), shape_text(a.shape), shape_text(b.shape));
  if ((a.kind == CollectiveKind::kAddSet || a.kind == CollectiveKind::kRemoveSet) &&
      a.splits != b.splits)
    return differ("ranks of the process set", shape_text(a.splits), shape_text(b.splits));
  return {};
}

std::string own_mistake(const Request& r, size_t ranks) {
  switch (r.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      if (r.shape.empty()) return "the tensor must have at least 1 dimension, got none";
      return {};
    case CollectiveKind::kAllToAll: {
      if (r.shape.empty()) return "the tensor must have at least 1 dimension, got none";
      if (r.splits.size() != ranks)
        return str("the number of splits must be ", ranks, ", got ", r.splits.size());
      if (std::any_of(r.splits.begin(), r.splits.end(), [](int64_t n) { return n < 0; }))
        return str("splits must not be negative, got ", shape_text(r.splits));
      const int64_t sum = std::accumulate(r.splits.begin(), r.splits.end(), int64_t{0});
      if (sum > r.shape[0])
        return str("the sum of splits must be at most ", r.shape[0], ", got splits ",
                   shape_text(r.splits));
      return {};
    }
    case CollectiveKind::kAddSet:
      for (const int64_t rank : r.splits)
        if (rank < 0 || rank >= static_cast<int64_t>(ranks))
          return str("ranks of a process set must be in [0, ", ranks - 1, "], as the job has ",
                     ranks, " processes, got ", shape_text(r.splits));
      return {};
    default:
      return {};
  }
}

}  // namespace

std::string mismatch(std::span<const Request> requests, std::span<const int> members) {
  const Request& first = requests[0];
  const char* kind = collective_name(first.kind);
  for (size_t i = 0; i < requests.size(); ++i)
    if (!requests[i].failure.empty())
      return str(kind, " of '", first.name, "': rank ", members[i],
                 " could not compute its tensor: ", requests[i].failure);
  for (size_t i = 1; i < requests.size(); ++i)
    if (const std::string text = compare(first, requests[i]); !text.empty())
      return str(text, " (", kind, " of '", first.name, "', ranks ", members[0], " and ",
                 members[i], ")");
  for (size_t i = 0; i < requests.size(); ++i)
    if (const std::string text = own_mistake(requests[i], requests.size()); !text.empty())
      return str(kind, " of '", first.name, "' on rank ", members[i], ": ", text);
  const bool rooted = first.kind == CollectiveKind::kBroadcast;
  if (rooted && std::find(members.begin(), members.end(), first.root) == members.end())
    return str("broadcast of '", first.name, "': root must be a rank of process set ", first.set,
               ", got ", first.root);
  return {};
}

}  // namespace mxlite::jobs
