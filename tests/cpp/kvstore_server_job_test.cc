// Tests whole jobs of a parameter server in one process. Scheduler, servers and workers are
// threads, and their connections are real. The sums are of integers, so they are exact even if
// frames are lost.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "cpp/engine/engine.h"
#include "cpp/kvstore/comm/link/asio.h"
#include "cpp/kvstore/server/client.h"
#include "cpp/kvstore/server/job_scheduler.h"
#include "cpp/kvstore/server/server.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/few_descriptors.h"
#include "tests/cpp/lossy_frames.h"

namespace mxlite::server {
namespace {

int free_port() {
  asio::io_context context;
  return listen_on(context, {"127.0.0.1", 0}).local_endpoint().port();
}

struct Job {
  explicit Job(int workers, int servers) {
    options.num_workers = workers;
    options.num_servers = servers;
    options.root_port = free_port();
    options.key = {5, 6};
    options.timeout = 20;
    options.heartbeat = 0.2;
    options.silence = 10;
    options.resend = 0.1;
    options.big_array = 1000;
    options.threads = 2;
    options.version = "test";
  }
  Options of(Role role) const {
    Options o = options;
    o.role = role;
    return o;
  }
  // Calls the function with the client of each worker. Returns the texts of the errors that
  // scheduler and servers threw.
  std::vector<std::string> run(const std::function<void(Client&)>& worker) {
    std::vector<std::future<std::string>> others;
    others.push_back(std::async(std::launch::async, [&, this] {
      return error_of([&] { JobScheduler(of(Role::kScheduler)).run([] {}); });
    }));
    for (int s = 0; s < options.num_servers; ++s)
      others.push_back(std::async(std::launch::async, [&, this] {
        return error_of([&] { Server(of(Role::kServer)).run(hooks); });
      }));
    std::vector<std::thread> workers;
    for (int w = 0; w < options.num_workers; ++w)
      workers.emplace_back([&, this] {
        Client client(of(Role::kWorker));
        worker(client);
        client.close();
      });
    for (auto& thread : workers) thread.join();
    std::vector<std::string> texts;
    for (auto& other : others) texts.push_back(other.get());
    return texts;
  }
  Options options;
  ServerHooks hooks;
};

// Reactors that are made while this object lives have an unreliable network.
class Lossy {
 public:
  explicit Lossy(const FaultRates& r) { rates() = r; }
  ~Lossy() { rates() = {}; }
  static FaultRates& rates() {
    static FaultRates rates;
    return rates;
  }
  Lossy(const Lossy&) = delete;
  Lossy& operator=(const Lossy&) = delete;
};

NDArrayRef filled(int64_t count, float value) {
  auto array = NDArray::empty({Shape{count}, DType::kFloat32}, {});
  std::fill_n(static_cast<float*>(array->data()), count, value);
  return array;
}

void wait_for(Client& client, ServerOperation operation) {
  std::promise<void> done;
  operation.done = [&done](std::exception_ptr error) {
    if (error)
      done.set_exception(error);
    else
      done.set_value();
  };
  client.submit(std::move(operation));
  done.get_future().get();
}

// Each worker pushes rank + step; every sum must be right.
void exact_sums(Client& client, int steps) {
  const std::vector<std::string> keys = {"small", "big"};
  const std::vector<int64_t> sizes = {5, 5003};
  client.init(keys, {filled(sizes[0], 0), filled(sizes[1], 0)});
  const int n = client.num_workers();
  for (int step = 1; step <= steps; ++step)
    for (size_t k = 0; k < keys.size(); ++k) {
      const auto stored = client.find(keys[k]);
      wait_for(client, {stored, filled(sizes[k], static_cast<float>(client.rank() + step)), nullptr,
                        nullptr, nullptr, 0, nullptr});
      const auto out = filled(sizes[k], -1);
      wait_for(client, {stored, nullptr, out, nullptr, nullptr, 0, nullptr});
      const auto expected = static_cast<float>(n * step + n * (n - 1) / 2);
      for (int64_t i = 0; i < sizes[k]; ++i)
        ASSERT_EQ(static_cast<float*>(out->data())[i], expected) << keys[k] << " step " << step;
    }
}

TEST(ServerJob, SumsAreExact) {
  Job job(3, 2);
  for (const std::string& text : job.run([](Client& c) { exact_sums(c, 20); })) EXPECT_EQ(text, "");
}

TEST(ServerJob, SumsAreExactWhereFramesAreLostDoubledAndLate) {
  Job job(2, 2);
  const Lossy lossy({10, 10, 10, 20, 3});
  for (const std::string& text : job.run([](Client& c) { exact_sums(c, 15); })) EXPECT_EQ(text, "");
}

TEST(ServerJob, RowsGoToTheServersThatHaveThem) {
  Job job(2, 2);
  const auto texts = job.run([](Client& c) {
    auto table = NDArray::empty({Shape{700, 2}, DType::kFloat32}, {});
    std::fill_n(static_cast<float*>(table->data()), 1400, 0.0F);
    c.init({"table"}, {table});
    auto ids = NDArray::empty({Shape{3}, DType::kInt64}, {});
    auto rows = filled(6, 1);
    for (int64_t i = 0; i < 3; ++i) static_cast<int64_t*>(ids->data())[i] = 699 - i * 300;
    wait_for(c, {c.find("table"), rows, nullptr, ids, nullptr, 0, nullptr});
    auto wanted = NDArray::empty({Shape{4}, DType::kInt64}, {});
    const std::array<int64_t, 4> order = {99, 5, 699, 99};
    std::copy(order.begin(), order.end(), static_cast<int64_t*>(wanted->data()));
    auto out = filled(8, -1);
    wait_for(c, {c.find("table"), nullptr, out, nullptr, wanted, 0, nullptr});
    const auto* v = static_cast<float*>(out->data());
    EXPECT_EQ(std::vector<float>(v, v + 8), (std::vector<float>{2, 2, 0, 0, 2, 2, 2, 2}));
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

// Commands for the profiler take a while, and are lost and repeated. Every server carries out each
// of them once.
TEST(ServerJob, ProfilerCommandsAreDoneOnceAndTellWhatFailed) {
  Job job(2, 2);
  const Lossy lossy({.drop = 10, .duplicate = 20, .delay = 10, .delay_ms = 30, .seed = 7});
  std::mutex mutex;
  std::map<std::pair<int, std::string>, int> done;  // by server and command
  job.hooks.profile = [&](int rank, const std::string& name, const std::string& text) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (name == "dump") fail(ErrorKind::kRecord, text, ": no such folder");
    std::lock_guard lock(mutex);
    ++done[{rank, name + " " + text}];
  };
  const int repeats = 5;
  const auto texts = job.run([&](Client& c) {
    for (int i = 0; i < repeats; ++i) {
      c.profile_servers("config", str(c.rank(), "-", i));
      c.profile_servers("state", str(c.rank(), "-", i));
      const std::string text =
          error_of([&] { c.profile_servers("dump", "file"); }, ErrorKind::kRecord);
      EXPECT_HAS(text, ": file: no such folder");
      EXPECT_EQ(text.find("server "), 0U) << text;
    }
    exact_sums(c, 3);
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
  std::lock_guard lock(mutex);
  EXPECT_EQ(done.size(), static_cast<size_t>(2 * 2 * 2 * repeats));
  for (const auto& [what, times] : done)
    EXPECT_EQ(times, 1) << "server " << what.first << ": " << what.second;
}

TEST(ServerJob, AProgramWithoutProfilerSaysSo) {
  Job job(1, 1);
  const auto texts = job.run([](Client& c) {
    EXPECT_EQ(error_of([&] { c.profile_servers("state", "run"); }, ErrorKind::kNotSupported),
              "server 0: this program has no profiler");
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

TEST(ServerJob, AWorkerThatVanishesFailsTheOthersByName) {
  Job job(2, 1);
  std::atomic<int> failures{0};
  std::future<std::string> scheduler = std::async(std::launch::async, [&] {
    try {
      JobScheduler(job.of(Role::kScheduler)).run([] {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  });
  std::future<void> server = std::async(
      std::launch::async, [&] { EXPECT_THROW(Server(job.of(Role::kServer)).run({}), Error); });
  // One worker registers and goes away, and the other one waits for its push.
  std::thread lost([&] {
    JobMember node(job.of(Role::kWorker));
    node.join();
    node.wait_until_running();
    node.call({kScheduler, {FrameType::kBarrier, 0, encode(uint64_t{1}), {}}, "barrier", nullptr});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    node.stop(0);
  });
  Client client(job.of(Role::kWorker));
  client.barrier();
  try {
    client.barrier();
  } catch (const Error& e) {
    ++failures;
    EXPECT_NE(std::string(e.what()).find(client.rank() == 0 ? "worker 1" : "worker 0"),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("is lost"), std::string::npos) << e.what();
  }
  client.close();
  lost.join();
  EXPECT_EQ(failures, 1);
  EXPECT_NE(scheduler.get().find("is lost"), std::string::npos);
  server.get();
}

TEST(ServerJob, APortInUseIsAnError) {
  asio::io_context context;
  const AsioTcp::acceptor other = listen_on(context, {"127.0.0.1", 0});
  Job job(1, 1);
  job.options.root_port = other.local_endpoint().port();
  try {
    JobScheduler scheduler(job.of(Role::kScheduler));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("in use"), std::string::npos) << e.what();
  }
}

TEST(ServerJob, ASchedulerThatIsNotThereIsAnErrorInTime) {
  Job job(1, 1);
  job.options.timeout = 0.5;
  const auto begin = Clock::now();
  try {
    Client client(job.of(Role::kWorker));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cannot reach"), std::string::npos) << e.what();
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST(ServerJob, MissingProcessesAreCounted) {
  Job job(2, 1);
  job.options.timeout = 0.5;
  std::string text;
  try {
    JobScheduler scheduler(job.of(Role::kScheduler));
    scheduler.run([] {});
  } catch (const Error& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("0 of 2 workers, 0 of 1 servers"), std::string::npos) << text;
}

// Foreign bytes arrive at every port, before, in and after a header. The job continues with right
// results.
TEST(ServerJob, ForeignBytesDisturbNobody) {
  Job job(2, 1);
  std::atomic<bool> stop{false};
  std::thread foreigner([&] {
    std::mt19937 random(4);
    while (!stop) {
      asio::io_context context;
      AsioTcp::socket socket(context);
      std::error_code error;
      asio::connect(socket, resolve(context, {"127.0.0.1", job.options.root_port}), error);
      std::vector<std::byte> bytes(random() % 500);
      for (auto& b : bytes) b = static_cast<std::byte>(random());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      socket.write_some(asio::buffer(bytes), error);
    }
  });
  const auto texts = job.run([](Client& c) { exact_sums(c, 10); });
  stop = true;
  foreigner.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

// A server ends, and another one continues from its snapshots. The workers repeat the pushes that
// it lacks.
TEST(ServerJob, AServerThatComesBackHasEverything) {
  Job job(2, 1);
  const auto folder = std::filesystem::temp_directory_path() / "mxlite_server_job_test";
  std::filesystem::remove_all(folder);
  job.options.snapshot_dir = folder;
  job.options.snapshot_updates = 4;
  job.options.rejoin = 10;
  std::atomic<bool> kill{false}, killed{false};
  std::atomic<int> half{0};
  auto scheduler =
      std::async(std::launch::async, [&] { JobScheduler(job.of(Role::kScheduler)).run([] {}); });
  auto servers = std::async(std::launch::async, [&] {
    try {
      Server(job.of(Role::kServer)).run({.interrupted = [&] {
        if (kill) throw std::runtime_error("killed");
      }});
    } catch (const std::runtime_error&) {
    }
    killed = true;
    Server(job.of(Role::kServer)).run({});
  });
  std::vector<std::thread> workers;
  for (int w = 0; w < 2; ++w)
    workers.emplace_back([&] {
      Client client(job.of(Role::kWorker));
      client.init({"w"}, {filled(100, 0)});
      for (int step = 1; step <= 40; ++step) {
        const auto stored = client.find("w");
        wait_for(client, {stored, filled(100, static_cast<float>(step)), nullptr, nullptr, nullptr,
                          0, nullptr});
        if (step == 20) {
          if (++half == 2) kill = true;
          while (!killed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const auto out = filled(100, -1);
        wait_for(client, {stored, nullptr, out, nullptr, nullptr, 0, nullptr});
        EXPECT_EQ(static_cast<float*>(out->data())[99], static_cast<float>(2 * step));
      }
      client.close();
    });
  for (auto& thread : workers) thread.join();
  scheduler.get();
  servers.get();
  std::filesystem::remove_all(folder);
}

TEST(ServerJob, ASchedulerWithoutDescriptorsWaitsAndSaysSo) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  Job job(1, 1);
  job.options.timeout = 1.5;
  JobScheduler scheduler(job.of(Role::kScheduler));
  testing::internal::CaptureStderr();
  std::string text;
  double seconds = 0;
  {
    const FewDescriptors few(1);
    const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect_here(socket.get(), scheduler.port()), 0);
    const double before = processor_seconds();
    text = error_of([&] { scheduler.run([] {}); });
    seconds = processor_seconds() - before;
  }
  const std::string what = "connections wait, because the scheduler has no descriptor for them: ";
  EXPECT_HAS(text, "0 of 1 workers, 0 of 1 servers have joined within 1.5 s (MXLITE_PS_TIMEOUT); " +
                       what + "Too many open files");
  // The error is reported once, although the listener retries.
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find(what), said.rfind(what)) << said;
  EXPECT_HAS(said, what);
  EXPECT_LT(seconds, 0.5);  // the job waits for 1.5 s at least
}

}  // namespace
}  // namespace mxlite::server

mxlite::FrameFilter* mxlite_make_frame_filter() {
  using namespace mxlite;
  using server::Lossy;
  return Lossy::rates().any() ? new LossyFrames(Lossy::rates()) : nullptr;
}
