// Takes descriptors away from the test's process.
#pragma once
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

// Skips a test without descriptors in builds where the undefined-behaviour sanitizer checks objects
// with virtual functions. The sanitizer opens a pipe for each class that it meets, and reports the
// object as broken if it cannot. The test runs in the other builds.
#ifdef __SANITIZE_ADDRESS__
#define MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS() GTEST_SKIP() << "the sanitizer needs descriptors"
#else
#define MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS() static_cast<void>(0)
#endif

namespace mxlite {

// Returns the numbers of this process's open descriptors.
inline std::vector<int> open_descriptors() {
  std::vector<int> numbers;
  DIR* const list = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(list))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(list))
      numbers.push_back(std::atoi(entry->d_name));
  closedir(list);
  return numbers;
}

inline rlim_t soft_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Restores the soft limit of open files when it is destroyed.
class SoftLimit {
 public:
  explicit SoftLimit(rlim_t limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower{limit, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lower);
  }
  ~SoftLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  rlimit before_{};
};

// Leaves the given number of descriptors to this process until the object is destroyed.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t left) : limit_(highest() + 1 + left) {
    for (int number; (number = dup(STDERR_FILENO)) >= 0;) taken_.push_back(number);
    for (; left > 0; --left, taken_.pop_back()) close(taken_.back());
  }
  ~FewDescriptors() {
    for (const int number : taken_) close(number);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  static rlim_t highest() {
    const std::vector<int> numbers = open_descriptors();
    return static_cast<rlim_t>(*std::max_element(numbers.begin(), numbers.end()));
  }
  SoftLimit limit_;
  std::vector<int> taken_;
};

// Connects a socket, which needs no further descriptor, to a port of this host.
inline int connect_here(int socket, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

// Returns the processor time of all threads of this process.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace mxlite
