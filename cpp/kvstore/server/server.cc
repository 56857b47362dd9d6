#include "cpp/kvstore/server/server.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>

#include "cpp/base/json.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/core/threads.h"
#include "cpp/kvstore/server/snapshot.h"

namespace mxlite::server {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr const char* kPartSuffix = ".part";
constexpr int kUsualThreads = 4;

int thread_count(const Options& options) {
  return options.threads > 0 ? options.threads : std::clamp(cpu_threads(), 1, kUsualThreads);
}

const char* request_name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "request: hello";
    case FrameType::kInit:
      return "request: init";
    case FrameType::kPush:
      return "request: push";
    case FrameType::kPull:
      return "request: pull";
    case FrameType::kCommand:
      return "request: command";
    default:
      return "request";
  }
}

}  // namespace

Server::Server(const Options& options)
    : options_(options),
      context_(options.num_workers, options.timeout, options.staleness),
      member_(options),
      pool_(thread_count(options)) {
  // Each part is updated by one thread of pool_, so kernels must not start threads.
  set_cpu_threads(1);
  context_.snapshot_updates = options.snapshot_updates;
  context_.fail_job = [this](const std::string& why) {
    member_.fail(str(member_.self(), ": ", why));
  };
}

Server::~Server() {
  member_.stop(0);
  pool_.stop();
}

void Server::run(const ServerHooks& hooks) {
  // Workers connect only after start_afresh_or_restore. They get this server's address from the
  // state that the scheduler sends when all processes have registered. Until then, this server
  // refuses frames.
  JobMember::Events events;
  events.changed = [this](const JobState& now) { job_changed(now); };
  events.failed = [this](const std::string&) {
    std::lock_guard lock(mutex_);
    over_ = true;
    over_changed_.notify_all();
  };
  events.frame = [this](ConnectionId id, Frame f) { take_frame(id, std::move(f)); };
  events.closed = [this](ConnectionId id) { workers_.erase(id); };
  events.tick = [this] { tick(); };
  member_.set_events(std::move(events));
  start_afresh_or_restore(member_.join());
  if (options_.verbose) std::fprintf(stderr, "mxlite: %s runs\n", member_.self().c_str());
  std::unique_lock lock(mutex_);
  while (!over_) {
    over_changed_.wait_for(lock, std::chrono::milliseconds(100),
                           [this] { return over_ || !todo_.empty(); });
    if (over_) break;
    const auto todo = std::exchange(todo_, {});
    lock.unlock();
    for (const auto& work : todo) work(hooks);
    hooks.interrupted();
    lock.lock();
  }
  lock.unlock();
  const std::string failure = member_.failure();
  member_.stop(1);
  pool_.stop();
  if (!failure.empty()) fail(ErrorKind::kCommunicator, failure);
}

void Server::start_afresh_or_restore(const Registered& registered) {
  std::promise<void> done;
  member_.reactor().post([&] {
    try {
      registered_ = registered;
      context_.epoch = registered.epoch;
      if (!options_.snapshot_dir.empty()) {
        context_.folder = str(options_.snapshot_dir, "/server-", registered.rank);
        make_folder(context_.folder);
        if (registered.rejoined) {
          restore();
        } else {
          for (const std::string& file : files_in(context_.folder, kPartSuffix))
            std::filesystem::remove(file);
          save_settings();
        }
      }
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

void Server::restore() {
  for (const std::string& file : files_in(context_.folder, kPartSuffix)) {
    auto slot = Slot::load(context_, file);
    if (!slot) continue;
    const std::string number = std::filesystem::path(file).stem();
    next_file_ = std::max<uint64_t>(next_file_, std::strtoull(number.c_str(), nullptr, 10) + 1);
    const std::pair name{slot->key(), slot->part()};
    slots_[name] = std::make_unique<SlotQueue>(std::move(slot));
  }
  const std::vector<std::byte> bytes = read_snapshot(context_.folder + "/settings");
  FrameReader r(bytes, kSnapshot);
  if (r.number<uint32_t>() == registered_.epoch) {
    const uint32_t workers = r.count(12);
    for (uint32_t i = 0; i < workers; ++i) {
      const auto worker = r.number<int32_t>();
      commands_done_[worker] = r.number<uint64_t>();
    }
    const uint32_t count = r.count(16);
    for (uint32_t i = 0; i < count; ++i) {
      Command c;
      c.head = r.number<int32_t>();
      c.name = r.text();
      c.text = r.text();
      obey(c);
    }
  }
  std::fprintf(stderr, "mxlite: %s continues from its snapshots of %zu parts\n",
               member_.self().c_str(), slots_.size());
}

void Server::save_settings() {
  if (context_.folder.empty()) return;
  FrameWriter w;
  w.number(registered_.epoch);
  w.number(static_cast<uint32_t>(commands_done_.size()));
  for (const auto& [worker, number] : commands_done_) {
    w.number(static_cast<int32_t>(worker));
    w.number(number);
  }
  w.number(static_cast<uint32_t>(settings_.size()));
  for (const Command& c : settings_) {
    w.number(c.head);
    w.text(c.name);
    w.text(c.text);
  }
  const Body body = w.take();
  const std::span<const std::byte> part = body;
  write_snapshot(context_.folder + "/settings", {&part, 1});
}

Answer Server::answer_to(ConnectionId id, uint64_t request) {
  return [this, id, request](Reply reply) {
    member_.reactor().send(id, reply_frame(request, std::move(reply)));
  };
}

void Server::take_hello(ConnectionId id, const Hello& hello) {
  // Closes the connection if this server is not registered yet. The worker will connect again.
  if (registered_.epoch == 0) return member_.reactor().close(id, "not ready yet");
  if (hello.role != Role::kWorker || hello.rank < 0 || hello.rank >= options_.num_workers ||
      hello.version != options_.version)
    throw FrameError(
        BadFrame::kOrder,
        "parameter server: the first frame of a connection must be a worker's greeting");
  // Closes the connection of a lost process that had the same rank, because that process must not
  // send further frames.
  for (auto& [other, worker] : workers_)
    if (worker.rank == hello.rank && worker.incarnation < hello.incarnation)
      member_.reactor().close(other, "replaced");
  workers_[id] = {hello.rank, hello.incarnation};
  member_.reactor().trust(id);
  member_.reactor().send(
      id, {FrameType::kWelcome, 0, encode(Welcome{!options_.snapshot_dir.empty()}), {}});
}

void Server::take_frame(ConnectionId id, Frame frame) {
  const ProfileScope profile(request_name(frame.type), ProfileKind::kComm);
  if (frame.type == FrameType::kHello) return take_hello(id, decode<Hello>(frame.body));
  const auto found = workers_.find(id);
  if (found == workers_.end())
    throw FrameError(
        BadFrame::kOrder,
        "parameter server: only the first frame must be a greeting, got another greeting");
  const int worker = found->second.rank;
  const uint64_t request = frame.request;
  switch (frame.type) {
    case FrameType::kInit: {
      auto spec = decode<PartSpec>(frame.body);
      const PartName name{spec.key, spec.part};
      if (!find(name)) create(name);
      return to_slot(id, name, request, [spec, data = frame.data](Slot& s, const Answer& answer) {
        s.init(spec, data, answer);
      });
    }
    case FrameType::kPush: {
      auto h = std::make_shared<PushHeader>(decode<PushHeader>(frame.body));
      return to_slot(id, {h->key, h->part}, request,
                     [h, worker, data = frame.data](Slot& s, const Answer& answer) {
                       s.push(worker, std::move(*h), data, answer);
                     });
    }
    case FrameType::kPull: {
      auto h = std::make_shared<PullHeader>(decode<PullHeader>(frame.body));
      return to_slot(id, {h->key, h->part}, request,
                     [h, worker, request](Slot& s, const Answer& answer) {
                       s.pull(worker, request, std::move(*h), answer);
                     });
    }
    case FrameType::kStatus:
      return to_slot(id, decode<PartName>(frame.body), request,
                     [worker](Slot& s, const Answer& answer) { s.status(worker, answer); });
    case FrameType::kGetStates:
      return to_slot(id, decode<PartName>(frame.body), request,
                     [](Slot& s, const Answer& answer) { s.get_states(answer); });
    case FrameType::kSetStates: {
      FrameReader r(frame.body, kFrameBody);
      PartName name;
      name.key = r.text();
      name.part = r.number<uint32_t>();
      const std::string rest = r.text();
      const auto* p = reinterpret_cast<const std::byte*>(rest.data());
      return to_slot(id, name, request,
                     [body = Body(p, p + rest.size()), data = frame.data](
                         Slot& s, const Answer& answer) { s.set_states(body, data, answer); });
    }
    case FrameType::kCommand:
      return command(id, worker, frame);
    case FrameType::kReport:
      return answer_to(id, request)({{}, encode(report()), {}});
    case FrameType::kFlush:
      return answer_all_saved(id, request);
    default:
      throw FrameError(
          BadFrame::kOrder,
          "parameter server: a server must get requests of workers, got another frame");
  }
}

SlotQueue* Server::find(const PartName& name) {
  const auto found = slots_.find({name.key, name.part});
  return found == slots_.end() ? nullptr : found->second.get();
}

SlotQueue& Server::create(const PartName& name) {
  char number[24];
  std::snprintf(number, sizeof number, "%08llu", static_cast<unsigned long long>(next_file_++));
  const std::string file =
      context_.folder.empty() ? std::string() : str(context_.folder, "/", number, kPartSuffix);
  auto& place = slots_[{name.key, name.part}];
  place = std::make_unique<SlotQueue>(std::make_unique<Slot>(context_, name.key, name.part, file));
  return *place;
}

void Server::to_slot(ConnectionId id, const PartName& name, uint64_t request,
                     std::function<void(Slot&, const Answer&)> work) {
  SlotQueue* queue = find(name);
  if (!queue)
    return answer_to(id, request)(
        error_reply(ErrorKind::kValue, str("init must be called for '", name.key, "' first")));
  pool_.post(*queue, [work = std::move(work), answer = answer_to(id, request)](Slot& slot) {
    try {
      work(slot, answer);
    } catch (const Error& e) {
      answer({e, {}, {}});
    } catch (const std::exception& e) {
      answer(error_reply(ErrorKind::kError, e.what()));
    }
  });
}

void Server::command(ConnectionId id, int worker, const Frame& frame) {
  const auto c = decode<Command>(frame.body);
  Reply reply;
  uint64_t& done = commands_done_[worker];
  if (c.head == kProfiler && c.number > done) return profile(id, worker, frame.request, c);
  if (c.number > done) {
    try {
      obey(c);
      done = c.number;
      save_settings();
    } catch (const Error& e) {
      reply.error = e;
    }
  }
  answer_to(id, frame.request)(std::move(reply));
}

void Server::obey(const Command& c) {
  switch (c.head) {
    case kSetSync:
      context_.sync = c.text == "1";
      std::erase_if(settings_, [](const Command& old) { return old.head == kSetSync; });
      break;
    case kSetOptimizer: {
      const std::string scope = scope_of(c.name);
      context_.set_optimizer(scope, Optimizer::make(c.name.substr(scope.size()), c.text));
      std::erase_if(settings_, [&](const Command& old) {
        return old.head == kSetOptimizer && scope_of(old.name) == scope;
      });
      break;
    }
    case kProfiler:  // repeats a command to the server that this one replaces
      on_run_thread([this, c](const ServerHooks& hooks) {
        try {
          hooks.profile(registered_.rank, c.name, c.text);
        } catch (const Error& e) {
          std::fprintf(stderr, "mxlite: %s: profiler: %s\n", member_.self().c_str(), e.what());
        }
      });
      break;
    case kUpdateOptimizer: {
      const auto now = context_.optimizer(c.name);
      MX_CHECK(now, "update_optimizer: call set_optimizer first");
      const auto next = now->changed(c.text);
      context_.set_optimizer(c.name, next);
      std::erase_if(settings_, [&](const Command& old) {
        return old.head == kSetOptimizer && scope_of(old.name) == c.name;
      });
      settings_.push_back({0, kSetOptimizer, c.name + next->name(), next->json()});
      return;
    }
    default:
      MX_CHECK(c.head != 0,
               "command 0 must not be used, because it would send an optimizer as code; "
               "call set_optimizer");
      std::printf("server %d, unknown command (%d, %s)\n", registered_.rank, c.head,
                  c.text.c_str());
      std::fflush(stdout);
      return;
  }
  settings_.push_back(c);
}

// Saves all parts. Answers when every part has been written.
void Server::answer_all_saved(ConnectionId id, uint64_t request) {
  auto left = std::make_shared<std::atomic<size_t>>(slots_.size() + 1);
  const auto done = [left, answer = answer_to(id, request)] {
    if (--*left == 0) answer({});
  };
  for (auto& [name, queue] : slots_)
    pool_.post(*queue, [done](Slot& slot) {
      slot.save();
      done();
    });
  done();
}

std::string Server::report() {
  const Traffic t = member_.reactor().traffic();
  Json bad = Json::object(), staleness = Json::array();
  for (size_t i = 0; i < kNumBadFrames; ++i)
    bad[bad_frame_name(static_cast<BadFrame>(i))] = t.bad[i];
  size_t bins = kStalenessBins;
  while (bins > 0 && context_.staleness_counts[bins - 1] == 0) --bins;
  for (size_t i = 0; i < bins; ++i) staleness.push_back(context_.staleness_counts[i].load());
  size_t bytes = 0;
  for (const auto& [name, queue] : slots_) bytes += queue->slot->bytes();
  return Json{{"rank", registered_.rank},
              {"sync", context_.sync.load()},
              {"parts", slots_.size()},
              {"bytes", bytes},
              {"pushes", context_.pushes.load()},
              {"duplicate_pushes", context_.duplicates.load()},
              {"early_pushes", context_.early.load()},
              {"updates", context_.updates.load()},
              {"pulls", context_.pulls.load()},
              {"snapshots", context_.snapshots.load()},
              {"sent_bytes", t.sent_bytes},
              {"received_bytes", t.received_bytes},
              {"sent_frames", t.sent_frames},
              {"received_frames", t.received_frames},
              {"refused_connections", t.refused_connections},
              {"bad_frames", bad},
              {"staleness", staleness}}
      .dump();
}

void Server::job_changed(const JobState& now) {
  context_.patience_from = Clock::now().time_since_epoch().count();
  for (size_t i = 0; i < now.workers.size() && i < context_.gone.size(); ++i)
    context_.gone[i] = now.workers[i].status == MemberStatus::kLeft;
  if (now.ended) {
    std::lock_guard lock(mutex_);
    over_ = true;
    over_changed_.notify_all();
  }
}

void Server::tick() {
  if (Clock::now() - looked_ < kLook) return;
  looked_ = Clock::now();
  for (auto& [name, queue] : slots_)
    if (queue->slot->waits()) pool_.post(*queue, [](Slot& slot) { slot.look(); });
}

}  // namespace mxlite::server
