// Snapshots of a part. They are written every few updates. A server that replaces another server
// reads them.
#include "cpp/core/profile_hooks.h"
#include "cpp/kvstore/server/slot.h"
#include "cpp/kvstore/server/snapshot.h"
#include "cpp/kvstore/server/trace_name.h"

namespace mxlite::server {
namespace {

std::vector<uint64_t> read_counts(FrameReader& reader) {
  const std::vector<int64_t> numbers = reader.numbers();
  return {numbers.begin(), numbers.end()};
}

void put_counts(FrameWriter& writer, const std::vector<uint64_t>& counts) {
  writer.numbers(std::vector<int64_t>(counts.begin(), counts.end()));
}

}  // namespace

// No pushes are lost, because workers keep pushes until a snapshot contains them, and repeat them
// for a replacement server.
void Slot::save() {
  if (context_.folder.empty() || !ready_) return;
  const ProfileScope profile(trace_name("snapshot", key_), ProfileKind::kIo);
  FrameWriter w;
  w.number(context_.epoch);
  const Body spec = encode(spec_);
  w.text(std::string(reinterpret_cast<const char*>(spec.data()), spec.size()));
  w.number(version_);
  w.number(weight_.updates);
  const std::vector<uint64_t> inside =
      context_.sync ? std::vector<uint64_t>(taken_.size(), version_) : taken_;
  put_counts(w, inside);
  w.number(uint8_t{weight_.master.memory != nullptr});
  w.number(static_cast<uint32_t>(weight_.states.size()));
  const Body head = w.take();
  std::vector<std::span<const std::byte>> parts = {head,
                                                   {weight_.value.data(), weight_.value.bytes}};
  if (weight_.master.memory) parts.emplace_back(weight_.master.data(), weight_.master.bytes);
  for (const OwnBuffer& state : weight_.states) parts.emplace_back(state.data(), state.bytes);
  try {
    write_snapshot(file_, parts);
  } catch (const Error& e) {
    return context_.fail_job(e.what());
  }
  durable_ = inside;
  since_snapshot_ = 0;
  ++context_.snapshots;
}

std::unique_ptr<Slot> Slot::load(SlotContext& context, const std::string& file) {
  const std::vector<std::byte> bytes = read_snapshot(file);
  FrameReader r(bytes, kSnapshot);
  if (r.number<uint32_t>() != context.epoch) return nullptr;
  const std::string text = r.text();
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  const auto spec = decode<PartSpec>(std::span(p, text.size()));
  auto slot = std::make_unique<Slot>(context, spec.key, spec.part, file);
  slot->spec_ = spec;
  slot->version_ = r.number<uint64_t>();
  Weight& w = slot->weight_;
  w.dtype = spec.dtype;
  w.count = spec.count;
  w.row_size = spec.row_size;
  w.updates = r.number<uint64_t>();
  slot->durable_ = slot->taken_ = read_counts(r);
  slot->pulled_version_.assign(slot->taken_.size(), slot->version_);
  const bool master = r.number<uint8_t>() != 0;
  const auto states = r.number<uint32_t>();
  MX_CHECK_KIND(slot->taken_.size() == static_cast<size_t>(context.num_workers) && states <= 8,
                ErrorKind::kRecord, "parameter server: the snapshot ", file,
                " must belong to this job, got another number of workers or states");
  const auto buffer = [&r](size_t n) {
    MX_CHECK_KIND(n <= r.left(), ErrorKind::kRecord,
                  "parameter server: an array in a snapshot must have at most the ", r.left(),
                  " bytes that follow, got ", n);
    const OwnBuffer b = OwnBuffer::allocate(n);
    r.bytes(b.data(), n);
    return b;
  };
  w.value = buffer(spec.bytes());
  if (master) w.master = buffer(static_cast<size_t>(spec.count) * sizeof(float));
  for (uint32_t i = 0; i < states; ++i)
    w.states.push_back(buffer(static_cast<size_t>(spec.count) * dtype_size(w.exact())));
  slot->bytes_ = spec.bytes();
  slot->ready_ = true;
  return slot;
}

}  // namespace mxlite::server
