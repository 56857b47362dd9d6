// Divides an item of an attention plan into blocks of queries, and scratch memory into arrays.
// Included once per instruction set, before the loops.
#pragma once

namespace mxlite::cpu {
namespace {

template <class T>
class AttentionScratch {
 public:
  explicit AttentionScratch(T* memory) : next_(memory) {}

  T* take(int64_t count) {
    T* const taken = next_;
    next_ += count;
    return taken;
  }
  // Two 16-bit floats fit into one float element.
  bfloat16* take_halves(int64_t count) { return reinterpret_cast<bfloat16*>(take(count / 2)); }

 private:
  T* next_;
};

// An item is a part of the query blocks that use one key head. Calls `pack(b, key_head)` unless
// `packed` is this key head, and then `block(b, h, first, rows)` for each block, one query head of
// the group after the other.
template <class Pack, class Block>
void run_item(const AttentionCall& c, const AttentionPlan& plan, int64_t item, int64_t& packed,
              Pack&& pack, Block&& block) {
  const int64_t head = item / plan.parts, part = item % plan.parts;
  const int64_t b = head / c.key_heads, key_head = head % c.key_heads;
  if (head != packed) pack(b, key_head);
  packed = head;
  const int64_t blocks = c.group() * plan.blocks;
  for (int64_t i = blocks * part / plan.parts; i < blocks * (part + 1) / plan.parts; ++i) {
    const int64_t first = i % plan.blocks * plan.block_rows;
    block(b, key_head * c.group() + i / plan.blocks, first,
          std::min(plan.block_rows, c.q_length - first));
  }
}

}  // namespace
}  // namespace mxlite::cpu
