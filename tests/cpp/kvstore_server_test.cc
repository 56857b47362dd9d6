// Tests parts of the parameter server: messages, layouts, values, and the workers' texts.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/server/slot.h"
#include "cpp/kvstore/server/snapshot.h"
#include "cpp/kvstore/store/compression.h"
#include "cpp/kvstore/store/placement.h"
#include "cpp/kvstore/store/schedule.h"
#include "tests/cpp/errors.h"

namespace mxlite::server {

using namespace store;
namespace {

Buffer floats(const std::vector<float>& values) {
  const OwnBuffer buffer = OwnBuffer::allocate(values.size() * sizeof(float));
  if (buffer.bytes > 0) std::memcpy(buffer.data(), values.data(), buffer.bytes);
  return buffer.shared();
}

std::vector<float> as_floats(const Buffer& buffer) {
  std::vector<float> values(buffer.bytes / sizeof(float));
  std::memcpy(values.data(), buffer.data, buffer.bytes);
  return values;
}

// Computes like the optimizer "sgd", because this library has no operators.
void plain_sgd(const std::string&, std::span<const UpdateParam> params,
               std::span<const UpdateArray> in, const UpdateArray& out) {
  double lr = 0, rescale = 1;
  for (const auto& [name, value] : params) {
    if (name == "lr") lr = value;
    if (name == "rescale_grad") rescale = value;
  }
  for (int64_t i = 0; i < out.count; ++i)
    static_cast<float*>(out.data)[i] =
        static_cast<float*>(in[0].data)[i] -
        static_cast<float>(lr * rescale) * static_cast<float*>(in[1].data)[i];
}

const char* const kSgd = R"({"operator": "sgd_update", "learning_rate": 1})";

UpdateOperator find_sgd(const std::string& op) {
  MX_CHECK_KIND(op == "sgd_update", ErrorKind::kNotSupported, "no operator ", op);
  return {0, false, {"lr", "wd", "rescale_grad"}};
}

// Bodies with a valid checksum are still checked.
TEST(Messages, RandomBodiesAreReadOrRefused) {
  std::mt19937 random(7);
  const Body samples[] = {
      encode(PushHeader{"key", 1, 2, PushForm::kRows, DType::kFloat16, 0.5F, {1, 2, 3}}),
      encode(PullHeader{"key", 1, 2, true, {4, 5}}),
      encode(PartSpec{"key", 1, {}, 6, 3, 2}),
      encode(Command{1, 2, "name", "text"}),
      encode(Hello{"1.0", Role::kWorker, 0, 1, 0}),
      encode(Registration{Role::kServer, 1, "host", 2, "a:1", true, 2, 1, 60, 5}),
      encode(PlaceRequest{{"a", "b"}, {1, 2}, {"float32(2,)", "int8()"}, true}),
      encode(members::Heartbeat{1, "push"})};
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    Body body = samples[random() % std::size(samples)];
    for (unsigned k = random() % 4; k > 0 && !body.empty(); --k)
      body[random() % body.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) body.resize(random() % (body.size() + 9));
    const auto attempt = [&]<class M>(M*) {
      try {
        decode<M>(body);
        ++read;
      } catch (const Error&) {
      }
    };
    attempt(static_cast<PushHeader*>(nullptr));
    attempt(static_cast<PullHeader*>(nullptr));
    attempt(static_cast<PartSpec*>(nullptr));
    attempt(static_cast<Command*>(nullptr));
    attempt(static_cast<Hello*>(nullptr));
    attempt(static_cast<Registration*>(nullptr));
    attempt(static_cast<PlaceRequest*>(nullptr));
    attempt(static_cast<JobState*>(nullptr));
  }
  EXPECT_GT(read, 1000u);
}

TEST(Messages, RepliesCarryErrors) {
  const Reply reply =
      members::reply_of(reply_frame(3, error_reply(ErrorKind::kShape, "wrong shape")));
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->kind(), ErrorKind::kShape);
  EXPECT_STREQ(reply.error->what(), "wrong shape");
}

TEST(Layout, BigArraysAreSharedEvenlyInWholeRows) {
  const Layout layout = make_layout({Shape{1001, 1000}, DType::kFloat32}, 3, 1, 1000000);
  std::vector<int64_t> load(3);
  int64_t next = 0;
  for (const ServerPart& part : layout.parts) {
    EXPECT_EQ(part.first, next);
    EXPECT_EQ(part.count % 1000, 0);
    load[static_cast<size_t>(part.server)] += part.count;
    next += part.count;
  }
  EXPECT_EQ(next, 1001000);
  for (const int64_t l : load) EXPECT_NEAR(static_cast<double>(l), 1001000 / 3.0, 1000);
}

TEST(Layout, SmallAndEmptyArraysAreOnePart) {
  EXPECT_EQ(make_layout({Shape{999, 1000}, DType::kFloat32}, 3, 2, 1000000).parts.size(), 1u);
  EXPECT_EQ(make_layout({Shape{999, 1000}, DType::kFloat32}, 3, 2, 1000000).parts[0].server, 2);
  const Layout empty = make_layout({Shape{0, 5}, DType::kFloat32}, 3, 1, 1000000);
  ASSERT_EQ(empty.parts.size(), 1u);
  EXPECT_EQ(empty.parts[0].count, 0);
  EXPECT_EQ(make_layout({Shape{}, DType::kFloat64}, 2, 0, 10).parts[0].count, 1);
  EXPECT_FALSE(make_layout({Shape{2, 5000000}, DType::kFloat32}, 2, 0, 1000000).by_rows);
}

TEST(Placement, IsBalancedBySizeAndStays) {
  Placement placement(4);
  std::mt19937 random(3);
  std::vector<int> first;
  for (int i = 0; i < 400; ++i)
    first.push_back(placement.place(std::to_string(i), 1 + random() % 3600000));
  for (int i = 0; i < 400; ++i) EXPECT_EQ(placement.place(std::to_string(i), 5), first[i]);
  const auto [least, most] = std::minmax_element(placement.load().begin(), placement.load().end());
  EXPECT_LT(static_cast<double>(*most - *least), 0.05 * static_cast<double>(*most));
}

TEST(Placement, KnowsWhoDisagrees) {
  Placement placement(2);
  placement.place("w", 8);
  placement.note("w", 1, "float32(2,)");
  placement.note("w", 0, "float32(2,)");
  placement.note("w", 1, "float32(2,)");  // asked again
  EXPECT_EQ(placement.conflict("w"), "");
  EXPECT_EQ(placement.conflict("other"), "");
  placement.note("w", 2, "int32(2,)");
  EXPECT_EQ(placement.conflict("w"), "worker 1 gives float32(2,), worker 2 gives int32(2,)");
}

class SlotTest : public testing::Test {
 protected:
  void SetUp() override {
    set_update_operators({plain_sgd, find_sgd});
    make(2);
  }
  void make(int workers, int64_t staleness = -1) {
    context = std::make_unique<SlotContext>(workers, 60, staleness);
    slot = std::make_unique<Slot>(*context, "w", 0, "");
  }
  void init(const std::vector<float>& values, int64_t row_size = 1) {
    slot->init({"w", 0, DType::kFloat32, static_cast<int64_t>(values.size()), row_size, 0},
               floats(values), keep());
  }
  Answer keep() {
    return [this](Reply reply) { replies.push_back(std::move(reply)); };
  }
  void push(int worker, uint64_t step, const std::vector<float>& values) {
    slot->push(worker, {"w", 0, step, PushForm::kDense, DType::kFloat32, 0, {}}, floats(values),
               keep());
  }
  void push_rows(int worker, uint64_t step, std::vector<int64_t> rows,
                 const std::vector<float>& values) {
    slot->push(worker, {"w", 0, step, PushForm::kRows, DType::kFloat32, 0, std::move(rows)},
               floats(values), keep());
  }
  // The result is empty if the server does not answer.
  std::vector<float> pull(int worker, uint64_t step) {
    std::vector<float> values;
    slot->pull(worker, ++requests, {"w", 0, step, false, {}}, [&values](Reply reply) {
      if (reply.error) throw *reply.error;
      values = as_floats(reply.data);
    });
    return values;
  }

  std::unique_ptr<SlotContext> context;
  std::unique_ptr<Slot> slot;
  std::vector<Reply> replies;
  uint64_t requests = 0;
};

TEST_F(SlotTest, SyncWaitsForAllWorkersAndBecomesTheirSum) {
  init({9, 9, 9});
  EXPECT_EQ(pull(0, 0), (std::vector<float>{9, 9, 9}));
  push(1, 1, {1, 2, 3});
  std::vector<float> early;
  slot->pull(1, 99, {"w", 0, 1, false, {}}, [&](Reply r) { early = as_floats(r.data); });
  EXPECT_TRUE(early.empty());
  push(0, 1, {10, 20, 30});
  EXPECT_EQ(early, (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(pull(0, 1), early);
}

TEST_F(SlotTest, EachPushCountsOnceHoweverOftenItComes) {
  init({0});
  for (uint64_t step = 1; step <= 20; ++step) {
    for (int again = 0; again < 3; ++again) push(0, step, {static_cast<float>(step)});
    for (int again = 0; again < 2; ++again) push(1, step, {100});
    push(0, step, {1000});  // the step is repeated with other bytes
    EXPECT_EQ(pull(0, step), (std::vector<float>{static_cast<float>(step) + 100}));
  }
  EXPECT_EQ(context->pushes, 40u);
  EXPECT_EQ(context->duplicates, 20u * 4);
}

TEST_F(SlotTest, APushAheadOfALostOneIsNotTaken) {
  init({0});
  replies.clear();
  push(0, 2, {5});
  EXPECT_TRUE(replies.empty());
  EXPECT_EQ(context->early, 1u);
  push(0, 1, {3});
  push(0, 2, {5});
  push(1, 1, {1});
  push(1, 2, {1});
  EXPECT_EQ(pull(1, 2), (std::vector<float>{6}));
}

TEST(Scopes, AreTheNumberOfAStoreBeforeAColon) {
  for (const char* name : {"1:w", "1:w:2", "1:"}) EXPECT_EQ(scope_of(name), "1:") << name;
  EXPECT_EQ(scope_of("12:sgd"), "12:");
  for (const char* name : {"", "w", "1", ":w", "1w:2", "a:1:w", "0:1:w"})
    EXPECT_EQ(scope_of(name), "") << name;
}

TEST_F(SlotTest, TheOrderOfArrivalDoesNotChangeTheBits) {
  std::mt19937 random(5);
  std::vector<std::vector<float>> results;
  std::vector<std::vector<float>> grads(5, std::vector<float>(1000));
  for (auto& g : grads)
    for (float& v : g) v = static_cast<float>(random()) * 1e-6F;
  for (const auto& order : {std::vector{0, 1, 2, 3, 4}, std::vector{4, 2, 0, 3, 1}}) {
    make(5);
    init(std::vector<float>(1000));
    for (const int w : order) push(w, 1, grads[static_cast<size_t>(w)]);
    results.push_back(pull(0, 1));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(SlotTest, RowsAreAddedAlsoUnsortedAndTwice) {
  context->set_optimizer(
      "", Optimizer::make("test", R"({"operator": "sgd_update", "params": {"lr": -1}})"));
  init({1, 1, 2, 2, 3, 3}, 2);
  push_rows(0, 1, {2, 0, 2}, {1, 1, 10, 10, 1, 1});
  push_rows(1, 1, {}, {});
  EXPECT_EQ(pull(0, 1), (std::vector<float>{11, 11, 2, 2, 5, 5}));
  push_rows(0, 2, {1}, {5, 5});
  push(1, 2, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(pull(0, 2), (std::vector<float>{12, 12, 8, 8, 6, 6}));
}

TEST_F(SlotTest, CompressedPushesAreReadAsTheWorkerMeantThem) {
  init(std::vector<float>(37));
  const Compression how{CompressionType::kTwoBit, 0.5F};
  std::vector<float> expected(37);
  for (int w = 0; w < 2; ++w) {
    std::vector<float> grad(37), residual(37), sent(37);
    for (size_t i = 0; i < grad.size(); ++i) grad[i] = (static_cast<float>(i) - 18.0F) * 0.05F;
    std::vector<uint32_t> words(static_cast<size_t>(compressed_words(how.type, 37)));
    compress(how, grad, residual.data(), words.data());
    decompress(how, words.data(), sent);
    for (size_t i = 0; i < sent.size(); ++i) expected[i] += sent[i];
    const OwnBuffer data = OwnBuffer::allocate(words.size() * 4);
    std::memcpy(data.data(), words.data(), data.bytes);
    slot->push(w, {"w", 0, 1, PushForm::kTwoBit, DType::kFloat32, 0.5F, {}}, data.shared(), keep());
  }
  EXPECT_EQ(pull(0, 1), expected);
}

TEST_F(SlotTest, WrongPushesAreRefusedWithWords) {
  init({1, 2, 3, 4}, 2);
  EXPECT_THROW(push(0, 1, {1, 2}), Error);
  EXPECT_THROW(push_rows(0, 2, {2}, {1, 2}), Error);
  EXPECT_THROW(
      slot->push(0, {"w", 0, 3, PushForm::kDense, DType::kFloat16, 0, {}}, floats({1, 2}), keep()),
      Error);
}

TEST_F(SlotTest, AsyncUpdatesWithEachPushAndReportsStaleness) {
  context->sync = false;
  context->set_optimizer("", Optimizer::make("sgd", kSgd));
  init({0});
  push(0, 1, {1});
  EXPECT_EQ(pull(0, 1), (std::vector<float>{-1}));
  push(1, 1, {2});  // worker 1 has not seen the first push
  EXPECT_EQ(pull(1, 1), (std::vector<float>{-3}));
  EXPECT_EQ(context->staleness_counts[0], 1u);
  EXPECT_EQ(context->staleness_counts[1], 1u);
}

TEST_F(SlotTest, AsyncHoldsUpWorkersThatAreTooFarAhead) {
  make(2, 1);
  context->sync = false;
  context->set_optimizer("", Optimizer::make("sgd", kSgd));
  init({0});
  push(0, 1, {1});
  EXPECT_FALSE(pull(0, 1).empty());
  push(0, 2, {1});
  std::vector<float> late;
  slot->pull(0, 500, {"w", 0, 2, false, {}}, [&](Reply r) { late = as_floats(r.data); });
  EXPECT_TRUE(late.empty());
  push(1, 1, {1});
  EXPECT_FALSE(late.empty());
  push(0, 3, {1});
  late.clear();
  slot->pull(0, 501, {"w", 0, 3, false, {}}, [&](Reply r) { late = as_floats(r.data); });
  EXPECT_TRUE(late.empty());
  context->gone[1] = true;  // a worker that has left delays no other
  slot->look();
  EXPECT_FALSE(late.empty());
}

TEST_F(SlotTest, AsyncNeedsAnOptimizer) {
  context->sync = false;
  init({0});
  EXPECT_THROW(push(0, 1, {1}), Error);
}

TEST_F(SlotTest, APullOfAWorkerThatWaitsForOneThatHasLeftFails) {
  init({0});
  push(0, 1, {1});
  std::string text;
  slot->pull(0, 1, {"w", 0, 1, false, {}}, [&](Reply r) { text = r.error->what(); });
  slot->look();
  EXPECT_EQ(text, "");
  context->gone[1] = true;
  slot->look();
  EXPECT_HAS(text, "worker 1 has left the job");
}

TEST_F(SlotTest, ASnapshotGoesOnWhereItWas) {
  const auto folder = std::filesystem::temp_directory_path() / "mxlite_slot_test";
  std::filesystem::create_directories(folder);
  context->folder = folder;
  context->epoch = 8;
  context->snapshot_updates = 2;
  context->set_optimizer("", Optimizer::make("sgd", kSgd));
  const std::string file = folder / "0.part";
  slot = std::make_unique<Slot>(*context, "w", 0, file);
  init({0, 0});
  for (uint64_t step = 1; step <= 3; ++step)
    for (int w = 0; w < 2; ++w) push(w, step, {1, 2});
  auto again = Slot::load(*context, file);
  ASSERT_TRUE(again);
  slot = std::move(again);  // after two rounds; the third is repeated by the workers
  EXPECT_EQ(pull(0, 2), (std::vector<float>{-4, -8}));
  for (uint64_t step = 1; step <= 3; ++step)
    for (int w = 0; w < 2; ++w) push(w, step, {1, 2});
  EXPECT_EQ(pull(0, 3), (std::vector<float>{-6, -12}));
  context->epoch = 9;  // another run of the job
  EXPECT_FALSE(Slot::load(*context, file));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THROW(Slot::load(*context, file), Error);
  std::filesystem::remove_all(folder);
}

TEST(Schedules, FollowTheFormulasOfPython) {
  const auto at = [](const char* json, int64_t update) {
    return make_schedule(parse_json(json, "test"))->rate(update);
  };
  const char* factor = R"({"name": "FactorScheduler", "base_lr": 1, "step": 10, "factor": 0.5})";
  EXPECT_EQ(at(factor, 10), 1);
  EXPECT_EQ(at(factor, 11), 0.5);
  EXPECT_EQ(at(factor, 31), 0.125);
  const char* multi =
      R"({"name": "MultiFactorScheduler", "base_lr": 1, "step": [5, 8], "factor": 0.1,
          "warmup_steps": 4, "warmup_begin_lr": 0, "warmup_final_lr": 1})";
  EXPECT_EQ(at(multi, 2), 0.5);
  EXPECT_EQ(at(multi, 5), 1);
  EXPECT_EQ(at(multi, 9), 1 * 0.1 * 0.1);
  EXPECT_EQ(at(R"({"name": "PolyScheduler", "base_lr": 2, "max_update": 10, "power": 2})", 5), 0.5);
  EXPECT_NEAR(at(R"({"name": "CosineScheduler", "base_lr": 2, "max_update": 10})", 5), 1, 1e-15);
  EXPECT_THROW(at(R"({"name": "MyScheduler"})", 1), Error);
}

TEST(Optimizers, UnknownOperatorsAndOptionsAreRefused) {
  set_update_operators({plain_sgd, find_sgd});
  for (const char* json : {"{}", R"({"operator": 3})", R"({"operator": "sdg_update"})",
                           R"({"operator": "sgd_update", "momentum": 0.9})",
                           R"({"operator": "sgd_update", "wd": "much"})",
                           R"({"operator": "sgd_update", "params": {"momentum": 0.9}})",
                           R"({"operator": "sgd_update", "params": {"wd": "much"}})",
                           R"({"operator": "sgd_update", "params": [1]})"})
    EXPECT_THROW(Optimizer::make("sgd", json), Error) << json;
  const auto sgd = Optimizer::make(
      "sgd", R"({"operator": "sgd_update", "learning_rate": 0.5, "lr_mult": {"a": 2}})");
  EXPECT_EQ(sgd->learning_rate("a", 1), 1.0);
  EXPECT_EQ(sgd->changed(R"({"learning_rate": 0.1})")->learning_rate("b", 1), 0.1);
}

}  // namespace
}  // namespace mxlite::server
