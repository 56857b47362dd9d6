// Asio without Boost, and helpers that open sockets with Asio.
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

// Throws a communicator error if the host name cannot be resolved.
AsioTcp::resolver::results_type resolve(asio::io_context& context, const Address& address,
                                        asio::ip::resolver_base::flags flags = {});
// Port 0 selects a free port. Throws a communicator error that says if the port is already in use.
AsioTcp::acceptor listen_on(asio::io_context& context, const Address& address);
// Sets FD_CLOEXEC, so that programs started by this process do not inherit the socket.
void close_on_exec(int socket);

}  // namespace mxlite
