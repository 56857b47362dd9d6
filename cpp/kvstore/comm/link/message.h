// Messages in the bodies of frames. A message is a struct whose `fields()` returns references to
// its members, in their order in the body. Members are numbers, bools, enumerators, texts, and
// vectors of these types or of such structs. If the struct has `check()`, decode calls it, and it
// throws for invalid values.
#pragma once
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/kvstore/comm/frame_bytes.h"

namespace mxlite {

using Body = std::vector<std::byte>;
inline constexpr const char* kFrameBody = "the body of a frame";  // start of error texts

// Every enum in a message has an overload in its own namespace. decode refuses values above the
// returned enumerator.
constexpr DType last_enumerator(DType) { return DType::kBFloat16; }
constexpr ErrorKind last_enumerator(ErrorKind) { return ErrorKind::kNotSupported; }

namespace message {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// Returns the smallest number of bytes that encode a T.
template <class T>
constexpr size_t least_bytes() {
  if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>)
    return 1;
  else if constexpr (std::is_arithmetic_v<T>)
    return sizeof(T);
  else if constexpr (std::is_same_v<T, std::string> || kIsVector<T>)
    return sizeof(uint32_t);
  else
    return []<class... Field>(std::tuple<Field&...>*) {
      return (least_bytes<Field>() + ...);
    }(static_cast<decltype(std::declval<T&>().fields())*>(nullptr));
}

template <class T>
void write(FrameWriter& w, T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
    w.number(static_cast<uint8_t>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    w.number(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    w.text(value);
  } else if constexpr (kIsVector<T>) {
    w.number(static_cast<uint32_t>(value.size()));
    for (auto& element : value) write(w, element);
  } else {
    std::apply([&w](auto&... field) { (write(w, field), ...); }, value.fields());
  }
}

template <class T>
void read(FrameReader& r, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = r.number<uint8_t>() != 0;
  } else if constexpr (std::is_enum_v<T>) {
    const auto number = r.number<uint8_t>();
    MX_CHECK_KIND(number <= static_cast<uint8_t>(last_enumerator(T{})), ErrorKind::kCommunicator,
                  kFrameBody, " must contain a known value, got ", int{number});
    value = static_cast<T>(number);
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = r.number<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = r.text();
  } else if constexpr (kIsVector<T>) {
    value.resize(r.count(least_bytes<typename T::value_type>()));
    for (auto& element : value) read(r, element);
  } else {
    std::apply([&r](auto&... field) { (read(r, field), ...); }, value.fields());
    if constexpr (requires { value.check(); }) value.check();
  }
}

}  // namespace message

template <class Message>
Body encode(Message message) {
  FrameWriter writer;
  message::write(writer, message);
  return writer.take();
}

// Decodes a message. Throws a communicator error unless the bytes are exactly one Message.
template <class Message>
Message decode(std::span<const std::byte> body) {
  FrameReader reader(body, kFrameBody);
  Message message{};
  message::read(reader, message);
  MX_CHECK_KIND(reader.at_end(), ErrorKind::kCommunicator, kFrameBody,
                " must end after its last value, got ", reader.left(), " more bytes");
  return message;
}

}  // namespace mxlite
