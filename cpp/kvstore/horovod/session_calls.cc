// Runs the calls that all ranks make in the same order.
#include <algorithm>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/kvstore/horovod/session.h"
#include "cpp/kvstore/horovod/validate.h"

namespace mxlite::horovod {
namespace {

std::string call_text(const Request& r) {
  return str(collective_name(r.kind), " of '", r.name, "' ", r.dtype, shape_text(r.shape));
}

}  // namespace

void Session::announce_call(OperationRef& operation) {
  const uint64_t number = operation->number;
  const Request& request = operation->request();
  const auto place = ordered_.try_emplace(number).first;
  calls_.announce({number, call_hash(request), !request.failure.empty()});
  place->second.swap(operation);
}

// Calls stay in ordered_ until their owners are notified: after an error the end of the session
// notifies the rest.
int64_t Session::carry_out_calls() {
  int64_t bytes_of_all = 0;
  // Fuses small all-reduces of one type, in the position where the bucket is full.
  struct Bucket {
    std::vector<OperationRef> operations;
    int64_t bytes = 0;
  };
  std::vector<Bucket> buckets;
  const NegotiationSettings& settings = negotiator_.settings();
  const int64_t fuse_below = std::min(settings.fuse_below, settings.fusion_bytes);
  for (const OrderedCalls::Due& due : calls_.take_due()) {
    const auto found = ordered_.find(due.number);
    MX_ASSERT(found != ordered_.end());
    OperationRef operation = found->second;
    const Request& request = operation->request();
    if (!due.same || !due.failed.empty()) {
      tell({&operation, 1}, as_exception(difference(*operation).c_str()));
      ordered_.erase(found);
      continue;
    }
    const auto bytes = static_cast<int64_t>(operation->asked->bytes);
    bytes_of_all += bytes;
    if (request.kind != CollectiveKind::kAllReduce || bytes >= fuse_below) {
      std::vector<OperationRef> one = {std::move(operation)};
      run_call(one);
      continue;
    }
    auto fits = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
      const Request& first = b.operations[0]->request();
      return first.dtype == request.dtype && first.op == request.op &&
             first.prescale == request.prescale && first.postscale == request.postscale;
    });
    if (fits == buckets.end()) fits = buckets.insert(fits, Bucket{});
    if (fits->bytes + bytes > settings.fusion_bytes) {
      run_call(fits->operations);
      fits->bytes = 0;
    }
    fits->operations.push_back(std::move(operation));
    fits->bytes += bytes;
  }
  for (Bucket& bucket : buckets) run_call(bucket.operations);
  return bytes_of_all;
}

void Session::run_call(std::vector<OperationRef>& operations) {
  const auto begin = Clock::now();
  size_t bytes = 0;
  for (const auto& o : operations) bytes += o->asked->bytes;
  try {
    std::vector<Request> requests;
    if (operations[0]->request().kind == CollectiveKind::kAllGather)
      requests = requests_of_all(*operations[0]);
    runner_.run(operations, requests, *groups_.at(0), negotiator_.members(0));
  } catch (const std::exception& e) {
    tell(operations, as_exception(e.what()));
    throw;
  }
  {
    std::lock_guard lock(mutex_);
    ++stats_.responses;
    stats_.tensors += operations.size();
    stats_.bytes += bytes;
    stats_.collective_ns += static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
  }
  tell(operations, {});
  for (const OperationRef& operation : operations) ordered_.erase(operation->number);
  operations.clear();
}

// Collective: collects each rank's request for the call.
std::vector<Request> Session::requests_of_all(const NamedOperation& call) {
  Communicator& world = *groups_.at(0);
  world.describe(call.request().name);
  FrameWriter writer;
  write_request(writer, call.request());
  const std::vector<std::byte> mine = writer.take();
  const uint64_t my_bytes = mine.size();
  std::vector<size_t> sizes(static_cast<size_t>(size));
  static_assert(sizeof(size_t) == sizeof my_bytes);
  world.all_gather(&my_bytes, sizes.data(), std::vector<size_t>(sizes.size(), sizeof my_bytes));
  std::vector<std::byte> all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
  world.all_gather(mine.data(), all.data(), sizes);
  FrameReader reader(all, kNegotiationFrame);
  std::vector<Request> requests;
  for (int r = 0; r < size; ++r) requests.push_back(read_request(reader));
  return requests;
}

// Collective: returns why the ranks cannot carry out a call.
std::string Session::difference(const NamedOperation& call) {
  const std::vector<Request> requests = requests_of_all(call);
  for (size_t r = 1; r < requests.size(); ++r)
    if (requests[r].name != requests[0].name || requests[r].kind != requests[0].kind)
      return str("the ranks do not make the same calls in the same order: call ", call.number,
                 " is ", call_text(requests[0]), " on rank 0 and ", call_text(requests[r]),
                 " on rank ", r, "; every rank must init, push and pull the same keys in the same ",
                 "order");
  const std::string text = mismatch(requests, negotiator_.members(0));
  return !text.empty()
             ? text
             : str("the ranks differ in ", call_text(requests[0]), ", call ", call.number);
}

}  // namespace mxlite::horovod
