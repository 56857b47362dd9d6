// Hosts and ports of the processes of a job. Communicator errors name the address.
#pragma once
#include <string>

namespace mxlite::server {

struct Address {
  std::string host;
  int port = 0;
};
std::string address_text(const Address& address);    // "10.0.0.3:9091", "[::1]:9091"
Address address_from_text(const std::string& text);  // communicator error for invalid texts

bool is_loopback(const std::string& host);  // "localhost", "127.*", "::1"
// Returns this host's address on the route to `address`; sends nothing. Throws a communicator error
// if the host does not resolve or no route leads there.
std::string route_address(const Address& address);

}  // namespace mxlite::server
