// Sends a few bytes from the first process to all others through one socket: groups of GPUs use it
// to find each other without MPI.
#pragma once
#include <cstddef>
#include <string>

namespace mxlite {

struct TcpAddress {
  std::string host;  // host name or number
  int port = 0;
};

// Process 0 listens at the address and sends `data` to each of the others, which retry until it
// accepts them. Throws a communicator error after MXLITE_COMM_TIMEOUT that names the processes
// which have not connected.
void tcp_broadcast(const TcpAddress& address, int process, int processes, void* data, size_t bytes);

}  // namespace mxlite
