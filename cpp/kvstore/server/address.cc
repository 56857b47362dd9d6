#include "cpp/kvstore/server/address.h"

#include <fcntl.h>

#include "cpp/base/error.h"
#include "cpp/kvstore/server/asio.h"

namespace mxlite::server {
namespace {

constexpr int kBacklog = 1024;

}  // namespace

std::string address_text(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? str("[", address.host, "]:", address.port) : str(address.host, ":", address.port);
}

Address address_from_text(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address a;
  if (colon != std::string::npos && colon > 0) {
    a.host = text.substr(0, colon);
    if (a.host.size() > 2 && a.host.front() == '[') a.host = a.host.substr(1, a.host.size() - 2);
    for (const char c : text.substr(colon + 1)) {
      if (c < '0' || c > '9' || a.port > 65535) {
        a.port = 0;
        break;
      }
      a.port = a.port * 10 + (c - '0');
    }
  }
  MX_CHECK_KIND(a.port > 0 && a.port <= 65535 && !a.host.empty(), ErrorKind::kCommunicator,
                "parameter server: '", text, "' is no address host:port");
  return a;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

std::string route_address(const Address& address) {
  asio::io_context context;
  std::error_code error;
  for (const auto& entry : resolve(context, address)) {
    // Connecting a datagram socket only selects the route; it sends nothing.
    asio::ip::udp::socket socket(context);
    socket.connect({entry.endpoint().address(), entry.endpoint().port()}, error);
    if (!error) return socket.local_endpoint().address().to_string();
  }
  fail(ErrorKind::kCommunicator, "parameter server: no route to ", address_text(address), ": ",
       error.message(), "; set DMLC_NODE_HOST or DMLC_INTERFACE");
}

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

tcp::resolver::results_type resolve(asio::io_context& context, const Address& address,
                                    asio::ip::resolver_base::flags flags) {
  std::error_code error;
  auto found = tcp::resolver(context).resolve(address.host, std::to_string(address.port),
                                              flags | tcp::resolver::numeric_service, error);
  MX_CHECK_KIND(!error, ErrorKind::kCommunicator, "parameter server: host '", address.host,
                "' cannot be resolved: ", error.message());
  return found;
}

tcp::acceptor listen_on(asio::io_context& context, const Address& address) {
  std::error_code error;
  for (const auto& entry : resolve(context, address, tcp::resolver::passive)) {
    tcp::acceptor acceptor(context);
    acceptor.open(entry.endpoint().protocol(), error);
    if (error) continue;
    close_on_exec(acceptor.native_handle());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(entry.endpoint(), error);
    if (!error) acceptor.listen(kBacklog, error);
    if (!error) return acceptor;
  }
  if (error == asio::error::address_in_use)
    fail(ErrorKind::kCommunicator, "parameter server: port ", address.port, " of ", address.host,
         " is in use: another job or a process left behind listens on it; choose another "
         "DMLC_PS_ROOT_PORT (tools/launch.py does) or end that process");
  if (error == std::errc::address_not_available)
    fail(ErrorKind::kCommunicator, "parameter server: ", address.host,
         " is no address of this host: set DMLC_NODE_HOST or DMLC_INTERFACE, and start the "
         "scheduler on DMLC_PS_ROOT_URI");
  fail(ErrorKind::kCommunicator, "parameter server: cannot listen on ", address_text(address), ": ",
       error.message());
}

}  // namespace mxlite::server
