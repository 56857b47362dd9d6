// Messages between the members of a group that travel at the same time. Every message has a header,
// by which its receiver sees whether the sender is in the same call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpp/kvstore/comm/link/socket.h"

namespace mxlite::tcp {

// Leads a message.
struct MessageHeader {
  uint64_t signature = 0;  // The call's kind, dtype and sizes
  uint64_t number = 0;     // Counts calls of the group
  uint64_t bytes = 0;      // after the header
};

class Transfers {
 public:
  struct Events {
    // Called while nothing moves; throws to end the wait. `peers`: members that are waited for.
    std::function<void(std::span<const int> peers)> waiting;
    std::function<void()> moved;           // called after a byte has been sent or has come
    std::function<void(int peer)> closed;  // throws
    std::function<void(int peer, const MessageHeader& came)> unexpected;  // throws
  };

  // The sockets do not wait; one for each member.
  Transfers(std::span<const Socket> sockets, const Events& events, const MessageHeader& call)
      : sockets_(sockets), events_(events), call_(call) {}

  // The memory must stay until run returns. Messages between two members keep their order.
  void send(int peer, const void* data, size_t bytes);
  void receive(int peer, void* data, size_t bytes);
  // Returns when all messages have been sent and have come; then more can be added.
  void run();

 private:
  struct Message {
    int peer;
    bool outgoing;
    std::byte* data;
    MessageHeader header;  // for an incoming one: the header received so far
    size_t bytes;
    size_t moved = 0;  // Bytes of header and data
    bool done() const { return moved == sizeof header + bytes; }
  };
  void add(int peer, bool outgoing, std::byte* data, size_t bytes);
  bool advance(Message& m);  // returns whether a byte has moved

  const std::span<const Socket> sockets_;
  const Events& events_;
  const MessageHeader call_;
  std::vector<Message> messages_;
};

}  // namespace mxlite::tcp
