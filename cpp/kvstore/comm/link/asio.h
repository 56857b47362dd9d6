// Asio without Boost, and the helpers that open sockets with it.
#pragma once
#define ASIO_STANDALONE 1
#define ASIO_NO_DEPRECATED 1
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "cpp/kvstore/comm/link/address.h"

namespace mxlite {

using AsioTcp = asio::ip::tcp;

// Throws a communicator error for a host that does not resolve.
AsioTcp::resolver::results_type resolve(asio::io_context& context, const Address& address,
                                        asio::ip::resolver_base::flags flags = {});
// Port 0 selects a free port. Throws a communicator error that says whether the port is in use.
AsioTcp::acceptor listen_on(asio::io_context& context, const Address& address);
// Sets FD_CLOEXEC, so that programs which this process starts do not inherit the socket.
void close_on_exec(int socket);

}  // namespace mxlite
