#include "cpp/kvstore/comm/members/registry.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "cpp/kvstore/comm/descriptors.h"

namespace mxlite::members {
namespace {

constexpr int kUrgent = 1 << 30;  // priority of states

}  // namespace

Registry::Registry(const JobKind& kind, const SealKey& key, std::string version, int num_workers,
                   int num_servers)
    : kind_(kind),
      workers_(static_cast<size_t>(num_workers)),
      servers_(static_cast<size_t>(num_servers)),
      reactor_(key, kind.scheduler),
      version_(std::move(version)) {
  std::random_device random;
  while (epoch_ == 0) epoch_ = random();
  for (Entry& e : servers_) e.role = Role::kServer;
  for (std::vector<Entry>* list : {&workers_, &servers_})
    for (size_t i = 0; i < list->size(); ++i) (*list)[i].rank = static_cast<int>(i);
  reactor_.set_handlers({[](ConnectionId) {},
                         [this](ConnectionId id, Frame f) { take(id, std::move(f)); },
                         [this](ConnectionId id, const std::string& why, bool is_invalid) {
                           if (Entry* e = entry_of(id)) {
                             e->connection = 0;
                             lose(*e, is_invalid ? why : "its connection was closed");
                           }
                         },
                         [this] { tick(); }});
  reactor_.set_epoch(epoch_);
  const int members = num_workers + num_servers;
  reserve_descriptors(str(kind.source, ": ", kind.scheduler, " of ", members, " processes"),
                      members + kOwnDescriptors, kMostStrangers);
}

Registry::Entry* Registry::entry_of(ConnectionId id) {
  for (std::vector<Entry>* list : {&workers_, &servers_})
    for (Entry& e : *list)
      if (e.connection == id && id != 0) return &e;
  return nullptr;
}

std::vector<Registry::Entry*> Registry::all() {
  std::vector<Entry*> list;
  for (Entry& e : workers_) list.push_back(&e);
  for (Entry& e : servers_) list.push_back(&e);
  return list;
}

void Registry::take(ConnectionId id, Frame frame) {
  if (frame.type == FrameType::kHello) {
    const auto hello = decode<Hello>(frame.body);
    if (hello.version != version_) {
      const std::string text =
          str("a ", kind_.name_of(hello.role), " runs mxlite ", hello.version, ", ",
              kind_.scheduler, " ", version_, ": all processes need the same version");
      return reactor_.send(id, {FrameType::kRefused, 0, encode(text), {}});
    }
    reactor_.trust(id);
    return reactor_.send(id, {FrameType::kWelcome, 0, encode(Welcome{}), {}});
  }
  if (frame.type == FrameType::kRegister) return take_registration(id, frame);
  Entry* entry = entry_of(id);
  if (!entry)
    throw FrameError(BadFrame::kOrder,
                     "the first frame must be a registration, got another type of frame");
  entry->seen = Clock::now();
  switch (frame.type) {
    case FrameType::kHeartbeat: {
      auto heartbeat = decode<Heartbeat>(frame.body);
      entry->progress = std::move(heartbeat.progress);
      if (heartbeat.state_version < state_.version)
        reactor_.send(id, {FrameType::kState, 0, encode(state_), {}, kUrgent});
      return;
    }
    case FrameType::kFail:
      fail_job(decode<std::string>(frame.body));
      return answer(id, frame.request, {});
    case FrameType::kLeave:
      answer(id, frame.request, {});
      if (entry->state.status != MemberStatus::kAlive) return;
      entry->state.status = MemberStatus::kLeft;
      return left(*entry);
    default:
      return take_frame(*entry, frame);
  }
}

void Registry::take_registration(ConnectionId id, const Frame& frame) {
  Entry* entry = entry_of(id);  // set if the process repeats a request because the answer was lost
  if (!entry) {
    auto r = decode<Registration>(frame.body);
    std::string why = state_.failure;
    if (why.empty() && state_.ended) why = str(kind_.source, ": the job has ended");
    if (why.empty()) entry = place_for(r, why);
    if (!why.empty()) return answer(id, frame.request, error_reply(ErrorKind::kCommunicator, why));
    if (!entry)
      return;  // the process retries until the registry has noticed the loss of a process
               // of its rank
    entry->rejoined = entry->state.status == MemberStatus::kLost;
    entry->connection = id;
    entry->progress.clear();
    entry->since = entry->seen = Clock::now();
    entry->state = {MemberStatus::kAlive, ++incarnations_, r.address, ""};
    entry->registration = std::move(r);
    if (entry->rejoined)
      std::fprintf(stderr, "mxlite: %s %d has been replaced (%s)\n", kind_.name_of(entry->role),
                   entry->rank, entry->registration.where().c_str());
  }
  answer(
      id, frame.request,
      {{}, encode(Registered{entry->rank, epoch_, entry->state.incarnation, entry->rejoined}), {}});
  const std::vector<Entry*> list = all();
  state_.running = state_.running || std::all_of(list.begin(), list.end(), [](const Entry* e) {
                     return e->state.status == MemberStatus::kAlive;
                   });
  if (state_.running) publish();
}

void Registry::answer(ConnectionId id, uint64_t request, Reply reply) {
  reactor_.send(id, reply_frame(request, std::move(reply)));
}

std::string Registry::lost_text(Entry& e, const std::string& why) {
  e.state.status = MemberStatus::kLost;
  e.lost = Clock::now();
  e.state.why = str(kind_.name_of(e.role), " ", e.rank, " is lost (", e.registration.where(),
                    "): ", why, e.progress.empty() ? "" : "; its last operation: ", e.progress);
  return e.state.why;
}

void Registry::fail_job(const std::string& why) {
  if (!state_.failure.empty() || state_.ended) return;
  state_.failure = why;
  publish();
}

void Registry::check_silence() {
  for (Entry* e : all()) {
    const double limit = e->registration.silence;
    if (e->state.status != MemberStatus::kAlive || seconds_since(e->seen) <= limit) continue;
    const ConnectionId id = e->connection;
    lose(*e, str("no heartbeat for ", limit, " s"));
    e->connection = 0;
    reactor_.finish(id);  // still sends the state, because the process may only have been suspended
  }
}

void Registry::publish() {
  ++state_.version;
  changed_ = Clock::now();
  state_.workers.clear();
  state_.servers.clear();
  for (const Entry& e : workers_) state_.workers.push_back(e.state);
  for (const Entry& e : servers_) state_.servers.push_back(e.state);
  send_all(FrameType::kState, encode(state_));
}

void Registry::publish(Entry& change) {
  if (!state_.running) return publish();
  ++state_.version;
  changed_ = Clock::now();
  state_.members(change.role)[static_cast<size_t>(change.rank)] = change.state;
  send_all(FrameType::kChange,
           encode(MemberChange{state_.version, change.role, static_cast<uint32_t>(change.rank),
                               change.state}));
}

void Registry::send_all(FrameType type, const Body& body) {
  for (const Entry* e : all())
    if (e->connection != 0) reactor_.send(e->connection, {type, 0, body, {}, kUrgent});
}

}  // namespace mxlite::members
