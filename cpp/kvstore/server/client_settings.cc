// Commands and queries that a worker sends to all servers.
#include <algorithm>

#include "cpp/base/json.h"
#include "cpp/engine/blocking.h"
#include "cpp/kvstore/server/client.h"
#include "cpp/kvstore/store/optimizer.h"

namespace mxlite::server {

void Client::tell_servers(int head, const std::string& name, const std::string& text) {
  const uint64_t number = uint64_t{registered_.incarnation} << 32 | ++commands_;
  std::vector<MemberRequest> requests;
  for (int s = 0; s < options_.num_servers; ++s)
    requests.push_back({s,
                        {FrameType::kCommand, 0, encode(Command{number, head, name, text}), {}},
                        str("command ", head),
                        nullptr});
  call_all(std::move(requests));
}

void Client::set_sync(bool sync) {
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  if (rank() == 0) tell_servers(kSetSync, "", sync ? "1" : "0");
}

void Client::set_optimizer(const std::string& name, const std::string& json,
                           const std::string& scope) {
  store::Optimizer::make(name, json);
  const engine::BlockingScope blocking;
  {
    std::lock_guard calls(call_mutex_);
    if (rank() == 0) tell_servers(kSetOptimizer, scope + name, json);
  }
  barrier();
}

void Client::update_optimizer(const std::string& json, const std::string& scope) {
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  if (rank() == 0) tell_servers(kUpdateOptimizer, scope, json);
}

void Client::set_compression(const Compression& how) {
  std::lock_guard lock(mutex_);
  compression_ = how;
}

void Client::command(int head, const std::string& text) {
  MX_CHECK(head >= 0, "command: head must be at least 0, got ", head);
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  tell_servers(head, "", text);
}

void Client::profile_servers(const std::string& name, const std::string& text) {
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  tell_servers(kProfiler, name, text);
}

void Client::barrier() {
  const engine::BlockingScope blocking;
  std::lock_guard calls(call_mutex_);
  const uint64_t count = ++barriers_;
  member_.set_progress(str("barrier ", count));
  member_.call(
      {kScheduler, {FrameType::kBarrier, 0, encode(count), {}}, str("barrier ", count), nullptr});
}

uint64_t Client::pushed(const std::string& key) {
  const StoredKeyRef stored = find(key);
  const engine::BlockingScope blocking;
  std::vector<MemberRequest> requests;
  for (uint32_t p = 0; p < stored->layout.parts.size(); ++p)
    requests.push_back({stored->layout.parts[p].server,
                        {FrameType::kStatus, 0, encode(PartName{key, p}), {}},
                        str("status of '", key, "'"),
                        nullptr});
  uint64_t least = ~uint64_t{0};
  for (const Reply& reply : call_all(std::move(requests)))
    least = std::min(least, decode<uint64_t>(reply.body));
  return least;
}

std::string Client::report() {
  const engine::BlockingScope blocking;
  std::vector<MemberRequest> requests;
  for (int s = 0; s < options_.num_servers; ++s)
    requests.push_back({s, {FrameType::kReport, 0, {}, {}}, "report", nullptr});
  Json servers = Json::array();
  for (const Reply& reply : call_all(std::move(requests)))
    servers.push_back(parse_json(decode<std::string>(reply.body), "report"));
  const Traffic t = member_.reactor().traffic();
  const MemberStats n = member_.stats();
  const Json worker = {{"rank", rank()},
                       {"requests", n.requests},
                       {"resends", n.resends},
                       {"reconnects", n.reconnects},
                       {"sent_bytes", t.sent_bytes},
                       {"received_bytes", t.received_bytes},
                       {"rejoined", registered_.rejoined}};
  return Json{{"worker", worker}, {"servers", servers}}.dump();
}

}  // namespace mxlite::server
