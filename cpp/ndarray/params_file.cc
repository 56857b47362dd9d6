#include "cpp/ndarray/params_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "cpp/base/file_error.h"
#include "cpp/base/utf8.h"
#include "cpp/ndarray/copy.h"
#include "cpp/ndarray/limits.h"
#include "cpp/ndarray/sparse.h"

namespace mxlite {
namespace {

constexpr uint64_t kListMagic = 0x112;
// Versions of the array format. Arrays of version 0 have no magic number and begin with ndim.
constexpr uint32_t kVersion1 = 0xF993FAC8, kVersion2 = 0xF993FAC9, kVersion3 = 0xF993FACA;
constexpr int32_t kLastType = static_cast<int32_t>(DType::kBFloat16);

// Reads a source from the current offset. Every read checks the remaining size.
class Reader {
 public:
  explicit Reader(const ByteSource& source) : source_(source) {}

  size_t left() const { return source_.size - offset_; }
  template <class... Args>
  [[noreturn]] void error(const Args&... args) const {
    throw FileError(str("load: ", source_.name, ", offset ", offset_, ": ", args...));
  }
  // Throws an error that contains the number that was just read and its offset.
  template <class T, class... Args>
  [[noreturn]] void error_about(T, const Args&... args) {
    offset_ -= sizeof(T);
    error(args...);
  }

  void require(size_t size, const std::string& what) const {
    if (size > left())
      error(what, " needs ", size, " bytes, ", left(),
            " are left (the file is truncated or damaged)");
  }
  // Reads small fields through a buffer, which saves system calls.
  void read(void* to, size_t size, const std::string& what) {
    require(size, what);
    if (size == 0) return;
    if (size > window_.size()) {
      source_.read(offset_, {static_cast<std::byte*>(to), size});
    } else {
      if (offset_ < window_begin_ || offset_ + size > window_begin_ + window_size_) {
        window_begin_ = offset_;
        window_size_ = std::min(window_.size(), left());
        source_.read(offset_, {window_.data(), window_size_});
      }
      std::memcpy(to, window_.data() + (offset_ - window_begin_), size);
    }
    offset_ += size;
  }
  template <class T>
  T number(const std::string& what) {
    T value;
    read(&value, sizeof value, what);
    return value;
  }
  // Reads a count of items that take at least `least` bytes each.
  size_t count(const std::string& what, size_t least) {
    const auto value = number<uint64_t>(what);
    if (value > left() / least)
      error_about(value, what, " is ", value, ", but ", left(),
                  " bytes follow (the file is truncated or damaged)");
    return value;
  }
  std::string text(const std::string& what) {
    std::string value(count("length of " + what, 1), '\0');
    read(value.data(), value.size(), what);
    if (!is_utf8(value)) {
      offset_ -= value.size();
      error(what, " is not UTF-8 text");
    }
    return value;
  }
  // Reads `ndim` dimensions, stored as type Extent.
  template <class Extent, class Count>
  Shape extents(Count ndim, const std::string& what) {
    if (static_cast<uint32_t>(ndim) > uint32_t{Shape::kMaxNdim})
      error_about(ndim, what, " must have 0 to ", Shape::kMaxNdim, " dimensions, got ", ndim,
                  " (the file is damaged or no .params file)");
    std::array<Extent, Shape::kMaxNdim> found;
    read(found.data(), static_cast<size_t>(ndim) * sizeof(Extent), "shape of " + what);
    Shape shape;
    for (size_t i = 0; i < static_cast<size_t>(ndim); ++i)
      shape.push_back(static_cast<int64_t>(found[i]));
    return shape;
  }
  Shape shape(const std::string& what) {
    return extents<int64_t>(number<int32_t>("shape of " + what), what);
  }
  DType type(const std::string& what) {
    const auto code = number<int32_t>("type of " + what);
    if (code < 0 || code > kLastType)
      error_about(code, "the type code of ", what, " must be in [0, ", kLastType, "], got ", code);
    return static_cast<DType>(code);
  }
  // Skips the device that the array was saved from, because arrays are loaded into host memory.
  void skip_context(const std::string& what) { number<uint64_t>("context of " + what); }

  NDArrayRef array(const std::string& what);

 private:
  void check_extents(const Shape& shape, const std::string& what) const;
  NDArrayRef values(DType dtype, const Shape& shape, const std::string& what);
  NDArrayRef sparse(StorageType stype, const std::string& what);
  NDArrayRef indices(DType dtype, const Shape& shape, const std::string& what);
  template <class Check>
  void check_sparse(const std::string& what, Check check) const;

  const ByteSource& source_;
  size_t offset_ = 0;
  std::array<std::byte, 256> window_;
  size_t window_begin_ = 0, window_size_ = 0;
};

void Reader::check_extents(const Shape& shape, const std::string& what) const {
  int64_t bytes = kWidestElement;
  bool fits = true;
  for (const int64_t extent : shape) {
    if (extent < 0) error(what, " has shape ", shape, " with a negative dimension");
    fits = fits && !__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes);
  }
  if (!fits) error(what, " has the impossible shape ", shape);
}

NDArrayRef Reader::values(DType dtype, const Shape& shape, const std::string& what) {
  check_extents(shape, what);
  const TensorSpec spec{shape, dtype};
  const std::string data = str("data of ", what, " with shape ", shape);
  require(spec.bytes(), data);
  NDArrayRef array = NDArray::empty(spec, {});
  read(array->data(), spec.bytes(), data);
  if (dtype == DType::kBool) {  // bytes other than 0 and 1 would give wrong sums
    auto* bytes = static_cast<uint8_t*>(array->data());
    std::transform(bytes, bytes + array->size(), bytes, [](uint8_t b) { return b != 0; });
  }
  return array;
}

NDArrayRef Reader::array(const std::string& what) {
  const auto magic = number<uint32_t>(what);
  Shape shape;
  if (magic == kVersion2 || magic == kVersion3) {
    const auto stype = number<int32_t>("storage type of " + what);
    if (magic == kVersion2 && (stype == 1 || stype == 2))
      return sparse(static_cast<StorageType>(stype), what);
    if (stype != 0)
      error_about(stype, "the storage type of ", what,
                  " must be 0 (dense), 1 (row_sparse) or 2 (csr), got ", stype);
    const auto ndim = number<int32_t>("shape of " + what);
    if (magic == kVersion3 && ndim == -1) return nullptr;
    shape = extents<int64_t>(ndim, what);
  } else if (magic == kVersion1) {
    shape = this->shape(what);
  } else {
    shape = extents<uint32_t>(magic, what);
  }
  if (shape.ndim() == 0 && magic != kVersion3) return nullptr;
  skip_context(what);
  const DType dtype = type(what);
  return values(dtype, shape, what);
}

NDArrayRef Reader::indices(DType dtype, const Shape& shape, const std::string& what) {
  const NDArrayRef stored = values(dtype, shape, what);
  if (dtype == DType::kInt64) return stored;
  if (is_floating(dtype)) error(what, " must be of an integer type, got ", dtype);
  const NDArrayRef whole = NDArray::empty({shape, DType::kInt64}, {});
  copy_strided(shape, {stored->data(), dtype, stored->strides()},
               {whole->data(), DType::kInt64, whole->strides()});
  return whole;
}

std::span<int64_t> integers(const NDArrayRef& vector) {
  return {static_cast<int64_t*>(vector->data()), static_cast<size_t>(vector->size())};
}

// Throws a value error unless the numbers are distinct and in [0, extent). Returns whether they are
// sorted.
bool check_distinct(std::span<const int64_t> numbers, int64_t extent) {
  for (const int64_t n : numbers)
    MX_CHECK(n >= 0 && n < extent, "numbers must be in [0, ", extent - 1, "], got ", n);
  if (std::ranges::adjacent_find(numbers, std::greater_equal()) == numbers.end()) return true;
  std::vector<int64_t> sorted(numbers.begin(), numbers.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  MX_CHECK(twice == sorted.end(), "numbers must be distinct, got ", *twice, " twice");
  return false;
}

// Throws a value error if the parts do not match the shape. Returns whether the rows are sorted.
bool check_row_sparse(const Shape& shape, const NDArrayRef& values, const NDArrayRef& rows) {
  const Shape& stored = values->shape();
  MX_CHECK(stored.ndim() == shape.ndim() && rows->shape() == Shape{stored[0]} &&
               std::equal(stored.begin() + 1, stored.end(), shape.begin() + 1),
           "parts of a row_sparse array must match its shape, got values of shape ", stored,
           " and indices of shape ", rows->shape(), " for shape ", shape);
  return check_distinct(integers(rows), shape[0]);
}

// Accepts rows whose columns are not sorted, because MXNet 1.9.1 writes such rows (after csr +
// csr).
void check_csr(const Shape& shape, const NDArrayRef& values, const NDArrayRef& columns,
               const NDArrayRef& indptr) {
  MX_CHECK(shape.ndim() == 2 && values->shape().ndim() == 1 &&
               columns->shape() == values->shape() && indptr->shape() == Shape{shape[0] + 1},
           "parts of a csr array must match its shape, got values of shape ", values->shape(),
           ", indices of shape ", columns->shape(), " and indptr of shape ", indptr->shape(),
           " for shape ", shape);
  const std::span<const int64_t> begins = integers(indptr), all = integers(columns);
  MX_CHECK(
      begins.front() == 0 && begins.back() == columns->size() && std::ranges::is_sorted(begins),
      "indptr must be ascending numbers from 0 to the number of values, ", all.size(), ", got ",
      begins.front(), " to ", begins.back());
  for (size_t row = 0; row + 1 < begins.size(); ++row) {
    const auto begin = static_cast<size_t>(begins[row]), end = static_cast<size_t>(begins[row + 1]);
    check_distinct(all.subspan(begin, end - begin), shape[1]);
  }
}

template <class Check>
void Reader::check_sparse(const std::string& what, Check check) const {
  try {
    check();
  } catch (const Error& problem) {
    error(what, " is sparse with indices that do not fit: ", problem.what());
  }
}

NDArrayRef Reader::sparse(StorageType stype, const std::string& what) {
  const Shape stored = shape("values of " + what);
  const Shape whole = shape(what);
  if (whole.ndim() == 0) return nullptr;
  check_extents(whole, what);
  if (stored.ndim() == 0) error("values of ", what, " have no dimensions");
  skip_context(what);
  const TensorSpec spec{whole, type(what)};
  // In the file of a csr array, indptr (the first position of each row) precedes the columns.
  struct Indices {
    DType dtype;
    Shape shape;
    std::string what;
  };
  std::vector<Indices> described;
  for (int i = 0; i < (stype == StorageType::kCSR ? 2 : 1); ++i) {
    const std::string label = str("index array ", i, " of ", what);
    const DType dtype = type(label);
    described.push_back({dtype, shape(label), label});
  }
  const NDArrayRef found = values(spec.dtype, stored, what);
  std::vector<NDArrayRef> lists;
  for (const Indices& d : described) lists.push_back(indices(d.dtype, d.shape, d.what));
  if (stype == StorageType::kCSR) {
    check_sparse(what, [&] { check_csr(whole, found, lists[1], lists[0]); });
    return make_csr(spec, found, lists[1], lists[0]);
  }
  SparseForm form = SparseForm::kNormal;
  check_sparse(what, [&] {
    if (!check_row_sparse(whole, found, lists[0])) form = SparseForm::kRows;
  });
  return make_row_sparse(spec, found, lists[0], form);
}

void check_names(const Reader& reader, const std::vector<std::string>& names) {
  std::set<std::string> known, twice;
  for (const std::string& name : names)
    if (!known.insert(name).second) twice.insert(name);
  if (twice.empty()) return;
  std::string list;
  for (const std::string& name : twice) list += (list.empty() ? "" : ", ") + name;
  reader.error("names must be distinct, got twice: ", list);
}

void check_magic(const ByteSource& source) {
  std::array<unsigned char, 8> first{};
  const size_t size = std::min(first.size(), source.size);
  source.read(0, std::as_writable_bytes(std::span(first)).first(size));
  uint64_t magic = 0;
  std::memcpy(&magic, first.data(), sizeof magic);
  if (size == first.size() && magic == kListMagic) return;
  std::string found;
  for (size_t i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i > 0) found += ' ';
    found += {kDigits[first[i] >> 4], kDigits[first[i] & 15]};
  }
  throw FileError(str("load: ", source.name,
                      " is no .params file: at offset 0 the bytes must be 12 01 00 00 00 00 00 00, "
                      "got ",
                      found.empty() ? "nothing" : found, " (", source.size, " bytes in all)"));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor& operator=(Descriptor&&) = delete;  // neither copied nor moved
  int number() const { return number_; }

 private:
  int number_;
};

// Builds the bytes of a header.
class Head {
 public:
  template <class... T>
  explicit Head(T... fields) {
    add(fields...);
  }
  template <class... T>
  void add(T... fields) {
    (bytes_.append(reinterpret_cast<const char*>(&fields), sizeof fields), ...);
  }
  void add_extents(const Shape& shape) {
    for (const int64_t extent : shape) add(extent);
  }
  void add_shape(const Shape& shape) {
    add(static_cast<int32_t>(shape.ndim()));
    add_extents(shape);
  }
  // Adds the device cpu(0) and the dtype.
  void add_context_and_type(DType dtype) {
    add(int32_t{1}, int32_t{0}, static_cast<int32_t>(dtype));
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

using Write = std::function<void(std::span<const std::byte>)>;

void write_values(const NDArrayRef& array, const Write& write) {
  if (array->size() == 0) return;
  array->wait_to_read();
  NDArrayRef whole = array;
  if (!array->contiguous()) {
    whole = NDArray::empty(array->spec(), {});
    copy_strided(array->shape(), {array->data(), array->dtype(), array->strides()},
                 {whole->data(), array->dtype(), whole->strides()});
  }
  write({static_cast<const std::byte*>(whole->data()), array->spec().bytes()});
}

void write_array(const NDArrayRef& array, const Write& write) {
  const Shape& shape = array->shape();
  if (!array->is_sparse()) {
    // MXNet 1.x writes version 3 in numpy mode and reads version 3 only in that mode. Scalars and
    // empty arrays exist only in numpy mode.
    const bool numpy = array->is_numpy() || array->size() == 0 || shape.ndim() == 0;
    Head head(numpy ? kVersion3 : kVersion2, int32_t{0});
    head.add_shape(shape);
    head.add_context_and_type(array->dtype());
    write(head.bytes());
    return write_values(array, write);
  }
  const SparseParts& parts = sparse_parts(*array);
  MX_ASSERT(parts.form == SparseForm::kNormal);
  std::vector<NDArrayRef> lists;
  if (parts.stype == StorageType::kCSR) lists.push_back(parts.indptr);
  lists.push_back(parts.indices);
  Head head(kVersion2, static_cast<int32_t>(parts.stype));
  head.add_shape(parts.values->shape());
  head.add_shape(shape);
  head.add_context_and_type(array->dtype());
  for (const NDArrayRef& list : lists) {
    head.add(static_cast<int32_t>(list->dtype()));
    head.add_shape(list->shape());
  }
  write(head.bytes());
  write_values(parts.values, write);
  for (const NDArrayRef& list : lists) write_values(list, write);
}

}  // namespace

ByteSource bytes_in_memory(std::span<const std::byte> bytes, std::string name) {
  const auto read = [bytes](size_t offset, std::span<std::byte> to) {
    if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
  };
  return {bytes.size(), read, std::move(name)};
}

ByteSource bytes_of_file(int descriptor, size_t size, std::string name) {
  const auto read = [descriptor, size, name](size_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t n = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw FileReadError(str("load: cannot read ", name, ": ", std::strerror(errno)));
      if (n == 0)
        throw FileError(str("load: ", name, ", offset ", offset, ": the file of ", size,
                            " bytes was truncated while it was read"));
      offset += static_cast<size_t>(n);
      to = to.subspan(static_cast<size_t>(n));
    }
  };
  return {size, read, std::move(name)};
}

NamedArrays read_params(const ByteSource& source) {
  check_magic(source);
  Reader reader(source);
  reader.number<uint64_t>("header");
  reader.number<uint64_t>("header");
  NamedArrays found;
  const size_t count = reader.count("number of arrays", 4);
  for (size_t i = 0; i < count; ++i)
    found.arrays.push_back(reader.array(str("array ", i, " of ", count)));
  const size_t named = reader.count("number of names", 8);
  if (named != 0 && named != count)
    reader.error("the number of names must be ", count, " or 0, got ", named);
  for (size_t i = 0; i < named; ++i)
    found.names.push_back(reader.text(str("name ", i, " of ", count)));
  if (reader.left() != 0)
    reader.error("the file must end here, got ", reader.left(), " more bytes");
  check_names(reader, found.names);
  return found;
}

NamedArrays load_params(const std::string& path) {
  const Descriptor file(path);
  struct stat info {};
  const std::string name = str("file '", path, "'");
  if (file.number() < 0 || ::fstat(file.number(), &info) != 0)
    throw FileReadError(str("load: cannot read ", name, ": ", std::strerror(errno)));
  if (!S_ISREG(info.st_mode))
    throw FileReadError(str("load: cannot read ", name, ": it is not a regular file"));
  return read_params(bytes_of_file(file.number(), static_cast<size_t>(info.st_size), name));
}

NDArrayRef read_array(const ByteSource& source) { return Reader(source).array("array"); }

void write_params(std::span<const NDArrayRef> arrays, std::span<const std::string> names,
                  const Write& write) {
  MX_ASSERT(names.empty() || names.size() == arrays.size());
  write(Head(kListMagic, uint64_t{0}, uint64_t{arrays.size()}).bytes());
  for (const NDArrayRef& array : arrays) write_array(array, write);
  write(Head(uint64_t{names.size()}).bytes());
  for (const std::string& name : names) {
    write(Head(uint64_t{name.size()}).bytes());
    write(std::as_bytes(std::span(name)));
  }
}

}  // namespace mxlite
