#include "cpp/kvstore/comm/shm/shared_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <sstream>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"

namespace mxlite::shm {
namespace {

constexpr uint64_t kMagic = 0x31636d6d68736d78;  // "xmshmmc1"
constexpr uint32_t kVersion = 1;
constexpr size_t kMinBuffer = size_t{16} << 10;

size_t states_offset() { return sizeof(Header); }
size_t buffers_offset(int ranks) {
  const size_t end = states_offset() + static_cast<size_t>(ranks) * sizeof(RankState);
  return (end + 4095) / 4096 * 4096;
}
size_t segment_bytes(int ranks, size_t buffer_bytes) {
  return buffers_offset(ranks) + static_cast<size_t>(ranks) * kBuffers * buffer_bytes;
}

std::string fresh_name() {
  std::random_device random;
  char name[48];
  std::snprintf(name, sizeof name, "/mxlite-%d-%08x%08x", static_cast<int>(getpid()), random(),
                random());
  return name;
}

void* map(int fd, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// State and start time (field 22) of /proc/<pid>/stat. Parsing starts after the last parenthesis,
// because the name in parentheses may contain any text.
struct ProcessStat {
  char state = 0;
  int64_t start_time = 0;
};
std::optional<ProcessStat> process_stat(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(after_name + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  return stat;
}

double seconds_since(int64_t ns) { return static_cast<double>(monotonic_ns() - ns) * 1e-9; }

}  // namespace

// PIDs of another namespace have no meaning in this process, so processes of other namespaces are
// checked only by heartbeats.
uint64_t pid_namespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

std::shared_ptr<SharedSegment> SharedSegment::create(int ranks, size_t buffer_bytes,
                                                     SegmentName& name) {
  const std::string path = fresh_name();
  const int fd = shm_open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  int error = errno;
  void* memory = nullptr;
  if (fd >= 0) {
    // Reserves the memory, because after ftruncate alone a full /dev/shm would later cause SIGBUS.
    while ((error = posix_fallocate(
                fd, 0, static_cast<off_t>(segment_bytes(ranks, buffer_bytes)))) == ENOSPC &&
           buffer_bytes > kMinBuffer)
      buffer_bytes /= 2;
    if (error == 0) memory = map(fd, segment_bytes(ranks, buffer_bytes));
    if (error == 0 && !memory) error = errno;
    close(fd);
  }
  if (!memory) {
    if (fd >= 0) shm_unlink(path.c_str());
    std::snprintf(name.error, sizeof name.error, "shared memory of %zu bytes under /dev/shm: %s",
                  segment_bytes(ranks, buffer_bytes), std::strerror(error));
    return nullptr;
  }
  std::strncpy(name.name, path.c_str(), sizeof name.name - 1);
  name.buffer_bytes = buffer_bytes;
  return construct(memory, ranks, buffer_bytes, path);
}

std::shared_ptr<SharedSegment> SharedSegment::create_unnamed(int ranks, size_t buffer_bytes) {
  const size_t bytes = segment_bytes(ranks, buffer_bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(ErrorKind::kOutOfMemory, "shared memory of ", bytes, " bytes: ", std::strerror(errno));
  return construct(memory, ranks, buffer_bytes, "");
}

std::shared_ptr<SharedSegment> SharedSegment::construct(void* memory, int ranks,
                                                        size_t buffer_bytes,
                                                        const std::string& name) {
  auto* header = new (memory) Header;
  header->magic = kMagic;
  header->version = kVersion;
  header->ranks = static_cast<uint32_t>(ranks);
  header->buffer_bytes = buffer_bytes;
  std::shared_ptr<SharedSegment> segment(
      new SharedSegment(memory, segment_bytes(ranks, buffer_bytes), ranks, name));
  for (int r = 0; r < ranks; ++r) new (&segment->rank(r)) RankState;
  return segment;
}

std::shared_ptr<SharedSegment> SharedSegment::open(const SegmentName& name, int ranks) {
  MX_CHECK_KIND(name.error[0] == 0, ErrorKind::kCommunicator, name.error);
  const size_t bytes = segment_bytes(ranks, name.buffer_bytes);
  const int fd = shm_open(name.name, O_RDWR | O_CLOEXEC, 0600);
  void* memory = nullptr;
  if (fd >= 0) {
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(bytes)) memory = map(fd, bytes);
    close(fd);
  }
  if (!memory)
    fail(ErrorKind::kCommunicator, "shared memory ", name.name, " of ", bytes,
         " bytes cannot be opened: ", std::strerror(errno),
         "; the processes of one host must share /dev/shm");
  const auto* header = static_cast<const Header*>(memory);
  if (header->magic != kMagic || header->version != kVersion ||
      header->ranks != static_cast<uint32_t>(ranks)) {
    munmap(memory, bytes);
    fail(ErrorKind::kCommunicator, "shared memory ", name.name,
         " was created by another version of mxlite; all ranks must run the same version");
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(memory, bytes, ranks, ""));
}

SharedSegment::SharedSegment(void* memory, size_t bytes, int ranks, std::string name)
    : memory_(memory),
      bytes_(bytes),
      name_(std::move(name)),
      states_(reinterpret_cast<RankState*>(static_cast<std::byte*>(memory) + states_offset())),
      buffers_(static_cast<std::byte*>(memory) + buffers_offset(ranks)) {}

SharedSegment::~SharedSegment() {
  unlink();
  munmap(memory_, bytes_);
}

void SharedSegment::unlink() noexcept {
  if (!name_.empty()) shm_unlink(name_.c_str());
  name_.clear();
}

void SharedSegment::expect(int r, int64_t process, uint64_t process_namespace) noexcept {
  RankState& state = rank(r);
  int64_t unset = 0;
  state.namespace_.store(process_namespace);
  int64_t silent = 0;
  state.heartbeat.compare_exchange_strong(silent, monotonic_ns());
  state.process.compare_exchange_strong(unset, process);
}

void SharedSegment::fail_all(const char* text) noexcept {
  Header& h = header();
  uint32_t expected = 0;
  if (h.failing.compare_exchange_strong(expected, 1)) {
    std::strncpy(h.text, text, kTextBytes - 1);
    h.failed.store(1);
  } else {
    // Another rank is writing its error text, which all ranks must report. That rank may be killed
    // before it finishes.
    const Deadline deadline(/*seconds=*/1);
    while (!h.failed.load() && !deadline.over()) sched_yield();
  }
  for (uint32_t r = 0; r < h.ranks; ++r) futex_wake_all(rank(static_cast<int>(r)).progress.step);
}

std::optional<std::string> SharedSegment::failure() const {
  if (!header().failed.load()) return std::nullopt;
  return std::string(header().text);
}

Membership::Membership(std::shared_ptr<SharedSegment> segment, int rank)
    : segment_(std::move(segment)), rank_(rank), process_(getpid()) {
  RankState& state = segment_->rank(rank);
  heartbeat_ = std::make_unique<Heartbeat>(state.heartbeat);
  const auto status = process_stat(process_);
  state.start_time.store(status ? status->start_time : 0);
  state.namespace_.store(pid_namespace());
  state.process.store(process_);
  segment_->header().arrived.fetch_add(1);
  futex_wake_all(segment_->header().arrived);
}

Membership::~Membership() {
  if (process_ != getpid()) {  // in a fork, the parent is the member and owns the thread
    static_cast<void>(heartbeat_.release());
    return;
  }
  heartbeat_.reset();
  RankState& state = segment_->rank(rank_);
  state.left.store(1);
  futex_wake_all(state.progress.step);
}

Life life_of(const RankState& state) {
  if (state.left.load()) return Life::kLeft;
  const int64_t process = state.process.load();
  if (process == 0) return Life::kAlive;
  if (state.namespace_.load() == pid_namespace()) {
    if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return Life::kDead;
    const auto status = process_stat(process);
    if (status && (status->state == 'Z' || status->state == 'X')) return Life::kDead;
    if (status && state.start_time.load() != 0 && status->start_time != state.start_time.load())
      return Life::kDead;
  }
  return seconds_since(state.heartbeat.load()) > silence_limit() ? Life::kSilent : Life::kAlive;
}

std::string life_text(const RankState& state) {
  const int64_t process = state.process.load();
  if (process == 0) return "it has not started";
  switch (life_of(state)) {
    case Life::kLeft:
      return str("process ", process, " has shut down");
    case Life::kDead:
      return str("process ", process, " has ended");
    case Life::kSilent:
    case Life::kAlive:
      break;
  }
  const double silent = seconds_since(state.heartbeat.load());
  if (silent < 1) return str("process ", process, " is alive but has not come");
  return str("process ", process, " is stopped or hangs: no heartbeat for ", silent, " s");
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t value, double seconds) {
  timespec limit;
  limit.tv_sec = static_cast<time_t>(seconds);
  limit.tv_nsec = static_cast<long>((seconds - static_cast<double>(limit.tv_sec)) * 1e9);
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace mxlite::shm
