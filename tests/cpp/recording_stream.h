// A stream that keeps its work instead of running it, as in a capture of a fake stream.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "cpp/core/random.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite {

class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(FakeStream& owner) : owner_(owner) {}
  Device device() const override { return owner_.device(); }
  void enter() override {}
  void wait_for(Stream&) override { fail(ErrorKind::kDevice, "wait in a recording"); }
  void synchronize() override { fail(ErrorKind::kDevice, "synchronize in a recording"); }
  void copy(void* to, const void* from, size_t bytes) override {
    keep([=](RandomState) { std::memcpy(to, from, bytes); });
  }
  void* scratch(size_t bytes) override { return owner_.scratch(bytes); }
  std::unique_ptr<Attachment>& attachment() override { return owner_.attachment(); }

  using Work = std::function<void(RandomState)>;
  void keep(Work work) { works.push_back(std::move(work)); }
  std::vector<Work> works;

 private:
  FakeStream& owner_;
};

// Gives work to a fake stream or to a recording of one.
inline void give_to(Stream& stream, std::function<void()> work) {
  if (auto* recording = dynamic_cast<RecordingStream*>(&stream))
    recording->keep([work = std::move(work)](RandomState) { work(); });
  else
    static_cast<FakeStream&>(stream).give(std::move(work));
}

}  // namespace mxlite
