#include "cpp/kvstore/comm/link/address.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <charconv>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/link/asio.h"

namespace mxlite {
namespace {

constexpr int kBacklog = 1024;

}  // namespace

std::string address_text(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? str('[', address.host, "]:", address.port) : str(address.host, ':', address.port);
}

Address address_from_text(const char* source, const std::string& text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos && colon > 0) {
    address.host = text.substr(0, colon);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, address.port);
    if (read.ec != std::errc() || read.ptr != end) address.port = 0;
  }
  MX_CHECK(address.port > 0 && address.port <= 65535, source,
           ": address must be 'host:port', got '", text.substr(0, 100), "'");
  return address;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string route_address(const Address& address) {
  asio::io_context context;
  std::error_code error;
  for (const auto& entry : resolve(context, address)) {
    // Connecting a datagram socket only selects the route and sends no packet.
    asio::ip::udp::socket socket(context);
    socket.connect({entry.endpoint().address(), entry.endpoint().port()}, error);
    if (!error) return socket.local_endpoint().address().to_string();
  }
  fail(ErrorKind::kCommunicator, "no route to ", address_text(address), ": ", error.message(),
       "; set DMLC_NODE_HOST or DMLC_INTERFACE");
}

std::string interface_address(const std::string& name) {
  ifaddrs* list = nullptr;
  std::string found, known;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
      known += str(known.empty() ? "" : ", ", i->ifa_name);
      char host[NI_MAXHOST] = {};
      if (name == i->ifa_name && found.empty() &&
          getnameinfo(i->ifa_addr, sizeof(sockaddr_in), host, sizeof host, nullptr, 0,
                      NI_NUMERICHOST) == 0)
        found = host;
    }
    freeifaddrs(list);
  }
  MX_CHECK(!found.empty(),
           "environment variable DMLC_INTERFACE must be one of this host's interfaces (", known,
           "), got '", name, "'");
  return found;
}

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

AsioTcp::resolver::results_type resolve(asio::io_context& context, const Address& address,
                                        asio::ip::resolver_base::flags flags) {
  std::error_code error;
  auto found =
      AsioTcp::resolver(context).resolve(address.host, std::to_string(address.port),
                                         flags | AsioTcp::resolver::numeric_service, error);
  MX_CHECK_KIND(!error, ErrorKind::kCommunicator, "host '", address.host,
                "' cannot be resolved: ", error.message());
  return found;
}

AsioTcp::acceptor listen_on(asio::io_context& context, const Address& address) {
  std::error_code error;
  for (const auto& entry : resolve(context, address, AsioTcp::resolver::passive)) {
    AsioTcp::acceptor acceptor(context);
    acceptor.open(entry.endpoint().protocol(), error);
    if (error) continue;
    close_on_exec(acceptor.native_handle());
    acceptor.set_option(AsioTcp::acceptor::reuse_address(true));
    acceptor.bind(entry.endpoint(), error);
    if (!error) acceptor.listen(kBacklog, error);
    if (!error) return acceptor;
  }
  const char* advice = "";
  if (error == asio::error::address_in_use)
    advice =
        ": another job or a process left behind listens on it; choose another DMLC_PS_ROOT_PORT "
        "(tools/launch.py does) or end that process";
  else if (error == std::errc::address_not_available)
    advice =
        ": it is no address of this host; set DMLC_NODE_HOST or DMLC_INTERFACE, and start the "
        "scheduler on DMLC_PS_ROOT_URI";
  fail(ErrorKind::kCommunicator, "cannot listen at ", address_text(address), ": ",
       error == asio::error::address_in_use ? "the port is in use" : error.message(), advice);
}

}  // namespace mxlite
