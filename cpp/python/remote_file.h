// Files at addresses such as "s3://bucket/file", which mxlite._files.remote reads.
#pragma once
#include <string>

#include "cpp/ndarray/params_file.h"
#include "cpp/python/bind.h"

namespace mxlite::python {

// Returns a source that reads from a RemoteFile on any thread. Requires the GIL.
ByteSource remote_source(const py::object& file, std::string name);
// Opens a RemoteFile. Takes the GIL. Throws the Python error if the file cannot be opened.
ByteSource open_remote(const std::string& address);

}  // namespace mxlite::python
