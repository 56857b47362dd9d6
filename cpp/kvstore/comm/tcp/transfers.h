// Concurrent messages between the members of a group. Every message has a header, from which the
// receiver sees whether the sender is in the same call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpp/kvstore/comm/link/socket.h"

namespace mxlite::tcp {

// The first bytes of a message.
struct MessageHeader {
  uint64_t signature = 0;  // kind, dtype and sizes of the call
  uint64_t number = 0;     // number of the call in the group
  uint64_t bytes = 0;      // size of the data after the header
};

class Transfers {
 public:
  struct Events {
    // Called while no byte is transferred. Throws to end the wait. `peers` are the members whose
    // data is missing.
    std::function<void(std::span<const int> peers)> waiting;
    std::function<void()> moved;           // called after a byte was transferred
    std::function<void(int peer)> closed;  // must throw
    std::function<void(int peer, const MessageHeader& came)> unexpected;  // must throw
  };

  // `sockets` has an element for each member.
  Transfers(std::span<const Socket> sockets, const Events& events, const MessageHeader& call)
      : sockets_(sockets), events_(events), call_(call) {}

  // The memory must stay valid until `run` returns. Messages between two members keep their order.
  void send(int peer, const void* data, size_t bytes);
  void receive(int peer, void* data, size_t bytes);
  // Returns when all messages have been transferred. More messages can be added afterwards.
  void run();

 private:
  struct Message {
    int peer;
    bool outgoing;
    std::byte* data;
    MessageHeader header;  // for an incoming message: the bytes received so far
    size_t bytes;
    size_t moved = 0;  // bytes of header and data transferred so far
    bool done() const { return moved == sizeof header + bytes; }
  };
  void add(int peer, bool outgoing, std::byte* data, size_t bytes);
  bool advance(Message& m);  // returns whether a byte was transferred

  const std::span<const Socket> sockets_;
  const Events& events_;
  const MessageHeader call_;
  std::vector<Message> messages_;
};

}  // namespace mxlite::tcp
