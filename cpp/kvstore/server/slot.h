// One part of an array on a server. It applies each push once, sums the pushes of a round, updates
// the value with the optimizer, and answers pulls once the value is recent enough. Only one thread
// may call its functions at a time.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/store/optimizer.h"

namespace mxlite::server {

using store::Gradient;
using store::Optimizer;
using store::Weight;

inline constexpr size_t kStalenessBins = 33;  // bins for staleness 0, 1, ..., and 32 or more

// Settings and counters that all parts of a server share. Any thread may use this object.
class SlotContext {
 public:
  SlotContext(int workers, double seconds, int64_t bound)
      : num_workers(workers),
        timeout(seconds),
        staleness(bound),
        gone(static_cast<size_t>(workers)) {}

  const int num_workers;
  const double timeout;
  const int64_t staleness;  // limit for async mode; -1 means no limit
  std::atomic<bool> sync{true};
  std::vector<std::atomic<bool>> gone;       // for each worker: whether it has left the job
  std::atomic<Clock::rep> patience_from{0};  // earliest time from which deadlines count
  std::string folder;                        // folder of snapshots; empty means no snapshots
  int64_t snapshot_updates = 10;
  uint32_t epoch = 0;
  std::function<void(const std::string&)> fail_job = [](const std::string&) {};

  std::shared_ptr<const Optimizer> optimizer(const std::string& scope);
  void set_optimizer(const std::string& scope, std::shared_ptr<const Optimizer> optimizer);

  std::atomic<uint64_t> pushes{0}, duplicates{0}, early{0}, updates{0}, pulls{0}, snapshots{0};
  std::array<std::atomic<uint64_t>, kStalenessBins> staleness_counts{};

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Optimizer>> optimizers_;  // guarded by mutex_
};

using Answer = std::function<void(Reply)>;

class Slot {
 public:
  Slot(SlotContext& context, std::string key, uint32_t part, std::string file)
      : context_(context),
        key_(std::move(key)),
        scope_(scope_of(key_)),
        part_(part),
        file_(std::move(file)) {}
  // Reads a snapshot. Returns null if the snapshot belongs to another run of the job. Throws a
  // record error if the snapshot is damaged.
  static std::unique_ptr<Slot> load(SlotContext& context, const std::string& file);

  void init(const PartSpec& spec, const Buffer& data, const Answer& answer);
  void push(int worker, PushHeader header, Buffer data, const Answer& answer);
  void pull(int worker, uint64_t request, PullHeader header, Answer answer);
  // Answers with the step of this worker's last accepted push.
  void status(int worker, const Answer& answer);
  void get_states(const Answer& answer);
  void set_states(const Body& body, const Buffer& data, const Answer& answer);
  // Checks deadlines, and whether workers have left.
  void look();
  // Writes the snapshot now.
  void save();

  bool waits() const {
    return waits_;
  }  // returns whether look must be called; any thread may call
     // this
  const std::string& key() const { return key_; }
  uint32_t part() const { return part_; }
  size_t bytes() const { return bytes_; }  // any thread may call this

 private:
  struct Contribution {
    PushHeader header;
    Buffer data;
  };
  struct Round {
    std::map<int, Contribution> pushes;  // the key is the worker; summed in the order of the keys
    Clock::time_point begun = Clock::now();
  };
  struct WaitingPull {
    uint64_t request;
    int worker;
    PullHeader header;
    Answer answer;
    Clock::time_point since = Clock::now();
  };

  std::string name() const;
  void check(const PushHeader& header, const Buffer& data) const;
  std::vector<int64_t> checked_rows(const std::vector<int64_t>& rows, const char* what) const;
  void apply(std::map<int, Contribution> pushes);
  Gradient merged(std::map<int, Contribution>& pushes, OwnBuffer& memory) const;
  OwnBuffer dense(const Contribution& c) const;
  void merge_rows(const std::map<int, Contribution>& pushes, Gradient& out,
                  OwnBuffer& memory) const;
  bool can_answer(const WaitingPull& pull) const;
  void answer_pulls();
  void answer_pull(WaitingPull& pull);
  std::string absent(const Round& round, bool only_gone) const;
  void note_staleness(int worker);
  Body progress(int worker) const;
  void complete_rounds();
  Clock::time_point since(Clock::time_point begun) const;
  void update_waits() { waits_ = !pulls_.empty() || !rounds_.empty(); }

  SlotContext& context_;
  const std::string key_, scope_;
  const uint32_t part_;
  const std::string file_;
  PartSpec spec_;
  Weight weight_;
  bool ready_ = false;    // whether the part has a value
  uint64_t version_ = 0;  // number of rounds in sync mode, or of pushes in async mode
  std::vector<uint64_t> taken_, durable_, pulled_version_;  // indexed by worker
  std::map<uint64_t, Round> rounds_;                        // the key is the step
  std::vector<WaitingPull> pulls_;
  int64_t since_snapshot_ = 0;
  std::string error_;  // error of the last update, which every pull reports
  std::atomic<bool> waits_{false};
  std::atomic<size_t> bytes_{0};
};

}  // namespace mxlite::server
