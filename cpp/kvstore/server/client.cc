#include "cpp/kvstore/server/client.h"

#include <algorithm>
#include <cstring>

#include "cpp/base/suggest.h"
#include "cpp/engine/blocking.h"

namespace mxlite::server {
namespace {

// Returns a buffer that refers to a range of the array and keeps the array alive.
Buffer part_of(const NDArrayRef& array, int64_t first, int64_t count) {
  const size_t element = dtype_size(array->dtype());
  return {std::make_shared<NDArrayRef>(array),
          static_cast<const std::byte*>(array->data()) + static_cast<size_t>(first) * element,
          static_cast<size_t>(count) * element};
}

Buffer copied(const Buffer& buffer) {
  const OwnBuffer copy = OwnBuffer::allocate(buffer.bytes);
  if (copy.bytes > 0) std::memcpy(copy.data(), buffer.data, copy.bytes);
  return copy.shared();
}

std::span<const int64_t> ids_of(const NDArrayRef& rows) {
  return {static_cast<const int64_t*>(rows->data()), static_cast<size_t>(rows->size())};
}

void check_ids(const char* what, const StoredKey& stored, std::span<const int64_t> ids) {
  MX_CHECK_KIND(stored.layout.by_rows, ErrorKind::kNotSupported, what, ": key '", stored.key,
                "' of shape ", stored.spec.shape,
                ": single rows must fit into a part of the array, got longer rows");
  const int64_t rows = stored.spec.shape.ndim() > 0 ? stored.spec.shape[0] : 1;
  for (const int64_t id : ids)
    MX_CHECK_KIND(id >= 0 && id < rows, ErrorKind::kIndex, what, ": key '", stored.key,
                  "': row ids must be in [0, ", rows - 1, "], got ", id);
}

}  // namespace

struct Client::Progress {
  size_t left = 1;  // open requests, plus 1 until all are sent; used only on the reactor thread
  std::exception_ptr error;
  std::function<void(std::exception_ptr)> done;
  void answered(std::exception_ptr e) {
    if (e && !error) error = std::move(e);
    if (--left == 0) done(error);
  }
};

Client::Client(const Options& options) : options_(options), member_(options) {
  JobMember::Events events;
  events.restored = [this](int server) { replay(server); };
  member_.set_events(std::move(events));
  const engine::BlockingScope blocking;
  registered_ = member_.join();
  member_.wait_until_running();
}

Client::~Client() {
  try {
    close();
  } catch (...) {  // a signal handler has interrupted the wait
  }
}

void Client::check_open() const {
  MX_CHECK_KIND(!closed_, ErrorKind::kCommunicator, "kvstore: the store has been closed");
}

StoredKeyRef Client::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  check_open();
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, stored] : keys_) known.push_back(name);
  fail(ErrorKind::kValue, "kvstore: init must be called for key '", key, "' first",
       did_you_mean(key, known));
}

void Client::init(const std::vector<std::string>& keys, const std::vector<NDArrayRef>& values) {
  MX_CHECK(keys.size() == values.size(),
           "init: the number of values must equal the number of keys, ", keys.size(), ", got ",
           values.size());
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  PlaceRequest place;
  std::vector<StoredKeyRef> fresh;
  for (size_t i = 0; i < keys.size(); ++i) {
    {
      std::lock_guard lock(mutex_);
      check_open();
      MX_CHECK(!keys_.count(keys[i]), "init: each key must be initialized only once, got '",
               keys[i], "' again");
    }
    fresh.push_back(std::make_shared<StoredKey>(keys[i], values[i]->spec()));
    place.keys.push_back(keys[i]);
    place.specs.push_back(str(values[i]->spec()));
    // Arrays that are split over all servers count 0 bytes when servers are chosen.
    place.bytes.push_back(values[i]->size() >= options_.big_array
                              ? 0
                              : static_cast<int64_t>(values[i]->spec().bytes()));
  }
  const Reply placed = member_.call({kScheduler,
                                     {FrameType::kPlace, 0, encode(place), {}},
                                     str("init of '", keys.empty() ? "" : keys[0], "'"),
                                     nullptr});
  FrameReader reader(placed.body, kFrameBody);
  const std::vector<int64_t> servers = reader.numbers();
  MX_CHECK_KIND(servers.size() == keys.size(), ErrorKind::kCommunicator,
                "init: the scheduler must name one server for each of ", keys.size(), " keys, got ",
                servers.size(), " servers");
  std::vector<MemberRequest> requests;
  for (size_t i = 0; i < keys.size(); ++i) {
    StoredKey& stored = *fresh[i];
    stored.layout = make_layout(stored.spec, options_.num_servers, static_cast<int>(servers[i]),
                                options_.big_array);
    if (rank() != 0) continue;
    values[i]->wait_to_read();
    for (uint32_t p = 0; p < stored.layout.parts.size(); ++p) {
      const ServerPart& part = stored.layout.parts[p];
      const PartSpec spec{stored.key,
                          p,
                          stored.spec.dtype,
                          part.count,
                          stored.layout.row_size,
                          part.first / stored.layout.row_size};
      requests.push_back(
          {part.server,
           {FrameType::kInit, 0, encode(spec), part_of(values[i], part.first, part.count)},
           str("init of '", stored.key, "'"),
           nullptr});
    }
  }
  call_all(std::move(requests));
  if (registered_.rejoined) {
    requests.clear();
    std::vector<size_t> owner;
    for (size_t i = 0; i < fresh.size(); ++i)
      for (uint32_t p = 0; p < fresh[i]->layout.parts.size(); ++p) {
        requests.push_back({fresh[i]->layout.parts[p].server,
                            {FrameType::kStatus, 0, encode(PartName{keys[i], p}), {}},
                            str("init of '", keys[i], "'"),
                            nullptr});
        owner.push_back(i);
      }
    const std::vector<Reply> replies = call_all(std::move(requests));
    for (const StoredKeyRef& stored : fresh) stored->step = ~uint64_t{0};
    for (size_t k = 0; k < replies.size(); ++k) {
      auto& step = fresh[owner[k]]->step;
      step = std::min<uint64_t>(step, decode<uint64_t>(replies[k].body));
    }
  }
  const std::string what = str("init of '", keys.empty() ? "" : keys[0], "'");
  member_.call({kScheduler, {FrameType::kBarrier, 0, encode(++barriers_), {}}, what, nullptr});
  place.settled = true;
  member_.call({kScheduler, {FrameType::kPlace, 0, encode(place), {}}, what, nullptr});
  std::lock_guard lock(mutex_);
  for (const StoredKeyRef& stored : fresh) keys_[stored->key] = stored;
}

std::vector<Reply> Client::call_all(std::vector<MemberRequest> requests) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Reply> replies;
    size_t left;
  };
  auto shared = std::make_shared<Shared>();
  shared->left = requests.size();
  shared->replies.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].done = [shared, i](Reply reply) {
      std::lock_guard lock(shared->mutex);
      shared->replies[i] = std::move(reply);
      if (--shared->left == 0) shared->changed.notify_all();
    };
    member_.request(std::move(requests[i]));
  }
  std::unique_lock lock(shared->mutex);
  engine::wait_interruptibly(lock, shared->changed, [&] { return shared->left == 0; });
  for (const Reply& reply : shared->replies)
    if (reply.error) throw *reply.error;
  return std::move(shared->replies);
}

void Client::submit(ServerOperation operation) {
  auto progress = std::make_shared<Progress>();
  {
    std::lock_guard lock(mutex_);
    ++under_way_;
  }
  progress->done = [this, done = std::move(operation.done)](std::exception_ptr error) {
    done(std::move(error));
    std::lock_guard lock(mutex_);
    if (--under_way_ == 0) idle_.notify_all();
  };
  std::exception_ptr error;
  try {
    if (operation.push) send_push(operation, progress);
    if (operation.pull && operation.pull_rows)
      send_pull_rows(operation, progress);
    else if (operation.pull)
      send_pull(operation, progress);
  } catch (...) {
    error = std::current_exception();
  }
  member_.reactor().run([progress, error] { progress->answered(error); });
}

void Client::request(int server, Frame frame, std::string what,
                     const std::shared_ptr<Progress>& progress, std::function<void(Reply&)> use) {
  member_.reactor().run([progress] { ++progress->left; });
  member_.request(
      {server, std::move(frame), std::move(what), [progress, use = std::move(use)](Reply reply) {
         std::exception_ptr error;
         try {
           if (reply.error) throw *reply.error;
           use(reply);
         } catch (...) {
           error = std::current_exception();
         }
         progress->answered(error);
       }});
}

void Client::send_part(const StoredKey& stored, uint32_t part, PushHeader header, Buffer data,
                       int priority, const std::shared_ptr<Progress>& progress) {
  const int server = stored.layout.parts[part].server;
  const PartKey name{stored.key, part};
  const uint64_t step = header.step;
  Frame frame{FrameType::kPush, 0, encode(header), std::move(data), priority};
  if (member_.servers_keep_snapshots()) {
    frame.data = copied(frame.data);
    member_.reactor().run([this, name, step, frame] { kept_[name].push_back({step, frame}); });
  }
  request(server, std::move(frame), str("push of '", stored.key, "', step ", step), progress,
          [this, name](Reply& reply) {
            FrameReader r(reply.body, kFrameBody);
            r.number<uint64_t>();
            note_durable(name, r.number<uint64_t>());
          });
}

void Client::send_push(const ServerOperation& o, const std::shared_ptr<Progress>& progress) {
  StoredKey& stored = *o.stored;
  if (o.push_rows) check_ids("push", stored, ids_of(o.push_rows));
  const uint64_t step = ++stored.step;
  member_.set_progress(str("push of '", stored.key, "', step ", step));
  if (o.push_rows) return send_push_rows(o, step, progress);
  Compression how;
  {
    std::lock_guard lock(mutex_);
    how = compression_;
  }
  const bool compressed =
      how.type != CompressionType::kNone && stored.spec.dtype == DType::kFloat32;
  if (compressed && stored.residual.empty())
    stored.residual.resize(static_cast<size_t>(o.push->size()));
  for (uint32_t p = 0; p < stored.layout.parts.size(); ++p) {
    const ServerPart& part = stored.layout.parts[p];
    PushHeader header{stored.key, p, step, PushForm::kDense, stored.spec.dtype, 0, {}};
    Buffer data = part_of(o.push, part.first, part.count);
    if (compressed) {
      header.form = how.type == CompressionType::kTwoBit ? PushForm::kTwoBit : PushForm::kOneBit;
      header.threshold = how.threshold;
      const auto words = static_cast<size_t>(compressed_words(how.type, part.count));
      const OwnBuffer packed = OwnBuffer::allocate(words * sizeof(uint32_t));
      compress(
          how,
          {static_cast<const float*>(o.push->data()) + part.first, static_cast<size_t>(part.count)},
          stored.residual.data() + part.first, reinterpret_cast<uint32_t*>(packed.data()));
      data = packed.shared();
    }
    send_part(stored, p, std::move(header), std::move(data), o.priority, progress);
  }
}

// Sends a frame for every part, even for a part without rows, because a round needs a push of every
// worker.
void Client::send_push_rows(const ServerOperation& o, uint64_t step,
                            const std::shared_ptr<Progress>& progress) {
  StoredKey& stored = *o.stored;
  const std::span<const int64_t> ids = ids_of(o.push_rows);
  const size_t width = static_cast<size_t>(stored.layout.row_size) * dtype_size(stored.spec.dtype);
  const auto* rows = static_cast<const std::byte*>(o.push->data());
  for (uint32_t p = 0; p < stored.layout.parts.size(); ++p) {
    const ServerPart& part = stored.layout.parts[p];
    const int64_t first = part.first / stored.layout.row_size;
    const int64_t last = first + part.count / stored.layout.row_size;
    PushHeader header{stored.key, p, step, PushForm::kRows, stored.spec.dtype, 0, {}};
    std::vector<size_t> sources;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= first && ids[i] < last) {
        header.rows.push_back(ids[i] - first);
        sources.push_back(i);
      }
    const OwnBuffer data = OwnBuffer::allocate(sources.size() * width);
    for (size_t i = 0; i < sources.size(); ++i)
      std::memcpy(data.data() + i * width, rows + sources[i] * width, width);
    send_part(stored, p, std::move(header), data.shared(), o.priority, progress);
  }
}

void Client::send_pull(const ServerOperation& o, const std::shared_ptr<Progress>& progress) {
  const StoredKey& stored = *o.stored;
  const uint64_t step = stored.step;
  const size_t element = dtype_size(stored.spec.dtype);
  for (uint32_t p = 0; p < stored.layout.parts.size(); ++p) {
    const ServerPart& part = stored.layout.parts[p];
    const PullHeader header{stored.key, p, step, false, {}};
    std::byte* target =
        static_cast<std::byte*>(o.pull->data()) + static_cast<size_t>(part.first) * element;
    const size_t bytes = static_cast<size_t>(part.count) * element;
    request(part.server, {FrameType::kPull, 0, encode(header), {}, o.priority},
            str("pull of '", stored.key, "', step ", step), progress,
            [this, target, bytes, name = PartKey{stored.key, p}, out = o.pull](Reply& reply) {
              MX_CHECK_KIND(reply.data.bytes == bytes, ErrorKind::kCommunicator, "pull of '",
                            name.first, "': the reply must have ", bytes, " bytes, got ",
                            reply.data.bytes);
              if (bytes > 0) std::memcpy(target, reply.data.data, bytes);
              FrameReader r(reply.body, kFrameBody);
              r.number<uint64_t>();
              note_durable(name, r.number<uint64_t>());
            });
  }
}

void Client::send_pull_rows(const ServerOperation& o, const std::shared_ptr<Progress>& progress) {
  const StoredKey& stored = *o.stored;
  const std::span<const int64_t> ids = ids_of(o.pull_rows);
  check_ids("pull", stored, ids);
  const size_t width = static_cast<size_t>(stored.layout.row_size) * dtype_size(stored.spec.dtype);
  for (uint32_t p = 0; p < stored.layout.parts.size(); ++p) {
    const ServerPart& part = stored.layout.parts[p];
    const int64_t first = part.first / stored.layout.row_size;
    const int64_t last = first + part.count / stored.layout.row_size;
    PullHeader header{stored.key, p, stored.step, true, {}};
    std::vector<size_t> places;  // output positions of the rows on this server
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= first && ids[i] < last) {
        header.rows.push_back(ids[i] - first);
        places.push_back(i);
      }
    if (places.empty()) continue;
    std::sort(header.rows.begin(), header.rows.end());
    header.rows.erase(std::unique(header.rows.begin(), header.rows.end()), header.rows.end());
    std::vector<size_t> sources;
    for (const size_t i : places)
      sources.push_back(static_cast<size_t>(
          std::lower_bound(header.rows.begin(), header.rows.end(), ids[i] - first) -
          header.rows.begin()));
    const size_t bytes = header.rows.size() * width;
    request(part.server, {FrameType::kPull, 0, encode(header), {}, o.priority},
            str("pull of rows of '", stored.key, "', step ", header.step), progress,
            [places = std::move(places), sources = std::move(sources), width, bytes,
             key = stored.key, out = o.pull](Reply& reply) {
              MX_CHECK_KIND(reply.data.bytes == bytes, ErrorKind::kCommunicator, "pull of '", key,
                            "': the reply must have ", bytes, " bytes, got ", reply.data.bytes);
              auto* target = static_cast<std::byte*>(out->data());
              for (size_t i = 0; i < places.size(); ++i)
                std::memcpy(target + places[i] * width, reply.data.data + sources[i] * width,
                            width);
            });
  }
}

void Client::note_durable(const PartKey& part, uint64_t step) {
  const auto found = kept_.find(part);
  if (found == kept_.end()) return;
  while (!found->second.empty() && found->second.front().step <= step) found->second.pop_front();
}

// Repeats pushes to a restarted server, because this server may have only its last snapshot. The
// server ignores pushes that the snapshot contains.
void Client::replay(int server) {
  for (const auto& [name, pushes] : kept_) {
    StoredKeyRef stored;
    {
      std::lock_guard lock(mutex_);
      const auto found = keys_.find(name.first);
      if (found == keys_.end()) continue;
      stored = found->second;
    }
    if (stored->layout.parts[name.second].server != server) continue;
    for (const KeptPush& push : pushes) {
      auto progress = std::make_shared<Progress>();
      progress->left = 0;
      progress->done = [](std::exception_ptr) {};
      request(server, push.frame, str("push of '", name.first, "', step ", push.step, ", again"),
              progress, [this, name = name](Reply& reply) {
                FrameReader r(reply.body, kFrameBody);
                r.number<uint64_t>();
                note_durable(name, r.number<uint64_t>());
              });
    }
  }
}

void Client::report_missing_push(const StoredKey& stored, const std::string& why) noexcept {
  try {
    member_.fail(
        str(member_.self(), ": push of '", stored.key, "', step ", stored.step + 1, ": ", why));
  } catch (...) {
  }
}

void Client::say_goodbye() {
  {
    std::unique_lock lock(mutex_);
    // The wait cannot hang, because every request has a deadline.
    engine::wait_interruptibly(lock, idle_, [this] { return under_way_ == 0; });
  }
  if (!member_.failed() && member_.servers_keep_snapshots()) {
    // Makes servers save all pushes, because this process cannot repeat pushes after its end.
    std::vector<MemberRequest> requests;
    for (int s = 0; s < options_.num_servers; ++s)
      requests.push_back({s, {FrameType::kFlush, 0, {}, {}}, "flush", nullptr});
    call_all(std::move(requests));
  }
  if (!member_.failed())
    member_.call({kScheduler, {FrameType::kLeave, 0, {}, {}}, "leaving", nullptr});
}

void Client::close(bool at_once) {
  {
    std::unique_lock lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  std::exception_ptr interrupt;
  try {
    if (!at_once) say_goodbye();
  } catch (const Error&) {
    // If a signal handler throws, the scheduler notices the end of the connection.
  } catch (...) {  // thrown by a signal handler
    interrupt = std::current_exception();
  }
  {
    const engine::BlockingScope blocking;
    member_.stop(1);
  }
  if (interrupt) std::rethrow_exception(interrupt);
}

}  // namespace mxlite::server
