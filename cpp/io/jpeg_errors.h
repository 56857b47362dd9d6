// Error handler for libjpeg: jumps to the caller's setjmp instead of ending the process.
#pragma once
#include <csetjmp>
#include <cstdio>
// libjpeg's headers must follow stdio. They define the name `boolean`.
#include <jerror.h>
#include <jpeglib.h>

namespace mxlite::io {

struct JpegErrorTrap {
  jpeg_error_mgr manager;  // must be the first member, because libjpeg passes its address back
  std::jmp_buf exit;
  char message[JMSG_LENGTH_MAX];
};

// Stores libjpeg's message and jumps to `exit`.
[[noreturn]] inline void leave_jpeg(j_common_ptr info) {
  auto* trap = reinterpret_cast<JpegErrorTrap*>(info->err);
  trap->manager.format_message(info, trap->message);
  std::longjmp(trap->exit, 1);
}

}  // namespace mxlite::io
