// Hosts and ports of the processes of a job.
#pragma once
#include <string>

namespace mxlite {

struct Address {
  std::string host;  // host name or IP address
  int port = 0;
};
std::string address_text(const Address& address);  // "10.0.0.3:9091", "[::1]:9091"
// Returns the address of a text "host:port". Throws a value error that begins with `source` for
// other texts.
Address address_from_text(const char* source, const std::string& text);

bool is_loopback(const std::string& host);  // "localhost", "127.*", "::1"
// Returns this host's address on the route to `address`. Sends nothing. Throws a communicator error
// if the host name cannot be resolved or no route exists.
std::string route_address(const Address& address);
// Returns the IPv4 address of one of this host's interfaces. Throws a value error that names
// DMLC_INTERFACE if the interface is unknown.
std::string interface_address(const std::string& name);
std::string host_name();

}  // namespace mxlite
