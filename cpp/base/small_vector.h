// A vector that stores its first N elements inside the object. Most operators have few inputs, and
// a heap allocation per list would take as long as the rest of the call.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace mxlite {

template <class T, size_t N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> init) { append(init.begin(), init.end()); }
  explicit SmallVector(size_t n) { resize(n); }
  SmallVector(size_t n, const T& value) {
    reserve(n);
    for (size_t i = 0; i < n; ++i) push_back(value);
  }
  template <class It>
  requires(!std::is_integral_v<It>) SmallVector(It first, It last) { append(first, last); }
  SmallVector(std::span<const T> values) { append(values.begin(), values.end()); }  // NOLINT
  SmallVector(const SmallVector& o) { append(o.begin(), o.end()); }
  SmallVector(SmallVector&& o) noexcept { take(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) {
      clear();
      append(o.begin(), o.end());
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      destroy();
      take(o);
    }
    return *this;
  }
  ~SmallVector() {
    std::destroy_n(data_, size_);
    free_memory();
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return capacity_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  operator std::span<T>() { return {data_, size_}; }              // NOLINT
  operator std::span<const T>() const { return {data_, size_}; }  // NOLINT

  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {
      T value(std::forward<Args>(args)...);  // the argument may be an element of this vector
      grow(capacity_ * 2);
      return *new (data_ + size_++) T(std::move(value));
    }
    return *new (data_ + size_++) T(std::forward<Args>(args)...);
  }
  void push_back(const T& v) { emplace_back(v); }
  void push_back(T&& v) { emplace_back(std::move(v)); }
  void pop_back() { data_[--size_].~T(); }
  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  void resize(size_t n) {
    reserve(n);
    while (size_ > n) pop_back();
    while (size_ < n) emplace_back();
  }
  template <class It>
  void append(It first, It last) {
    for (; first != last; ++first) emplace_back(*first);
  }
  iterator erase(iterator first, iterator last) {
    iterator tail = std::move(last, end(), first);
    while (end() != tail) pop_back();
    return first;
  }
  bool operator==(const SmallVector& o) const {
    return std::equal(begin(), end(), o.begin(), o.end());
  }

 private:
  void grow(size_t n) {
    n = std::max(n, capacity_ * 2);
    T* fresh = std::allocator<T>().allocate(n);
    std::uninitialized_move_n(data_, size_, fresh);
    std::destroy_n(data_, size_);
    free_memory();
    data_ = fresh;
    capacity_ = n;
  }
  void free_memory() {
    if (data_ != inline_data()) [[unlikely]]
      std::allocator<T>().deallocate(data_, capacity_);
  }
  void destroy() {
    clear();
    free_memory();
    data_ = inline_data();
    capacity_ = N;
  }
  void take(SmallVector& o) {
    if (o.data_ == o.inline_data()) {
      std::uninitialized_move_n(o.data_, o.size_, data_);
      size_ = o.size_;
      o.clear();
    } else {
      data_ = std::exchange(o.data_, o.inline_data());
      size_ = std::exchange(o.size_, 0);
      capacity_ = std::exchange(o.capacity_, N);
    }
  }
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  const T* inline_data() const { return reinterpret_cast<const T*>(inline_); }

  alignas(T) std::byte inline_[sizeof(T) * N];
  T* data_ = inline_data();
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace mxlite
