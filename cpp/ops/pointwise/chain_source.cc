#include "cpp/ops/pointwise/chain_source.h"

#include <algorithm>

#include "cpp/ops/pointwise/chain_functions.h"

namespace mxlite::pointwise {
namespace {

constexpr int64_t kLongestRowOfWarp = 1024;
constexpr int64_t kWarpThreads = 32;
constexpr size_t kMostValues = 200;  // keeps parameters below 4 KiB
// The compiler keeps arrays in registers only if all their indices are known.
constexpr const char* kEachElement = "#pragma unroll\n  for (int k = 0; k < kWidth; ++k)";

const char* type_name(DType dtype) {
  return dtype == DType::kFloat16    ? "mxlite::float16"
         : dtype == DType::kBFloat16 ? "mxlite::bfloat16"
                                     : "float";
}

// Access pattern with which the elements of a pack are read from an input.
enum class Access : uint8_t {
  kPack,     // adjacent elements in the order of the chain
  kOne,      // the single element of the input
  kRow,      // adjacent elements, at an offset that the index terms give
  kSame,     // one element for the whole pack
  kElement,  // a separate offset for each element
};

class Generator {
 public:
  Generator(const PointwiseChain& chain, std::string kernel) : chain_(chain) {
    code_.kernel = std::move(kernel);
  }

  std::optional<ChainCode> run(std::string* why_not) {
    if (chain_.values.size() > kMostValues) {
      *why_not = str(chain_.values.size(), " values, at most ", kMostValues, " expected");
      return std::nullopt;
    }
    for (const TensorSpec& v : chain_.values) {
      code_.count = std::max(code_.count, v.shape.size());
      if (v.dtype == DType::kFloat32 || is_half(v.dtype)) continue;
      *why_not = str("a value is ", v.dtype);
      return std::nullopt;
    }
    code_.num_inputs = chain_.num_inputs;
    if (chain_.row_end) {
      code_.length = chain_.row_end->length;
      code_.rows = code_.count / code_.length;
      code_.row_threads =
          static_cast<int>(code_.length <= kLongestRowOfWarp ? kWarpThreads : ChainCode::kThreads);
    }
    find_accesses();
    const size_t pointwise_steps = chain_.steps.size() - (chain_.row_end ? 1 : 0);
    for (size_t s = 0; s < pointwise_steps; ++s) {
      const PointwiseChain::Operation& step = chain_.steps[s];
      const auto f =
          find_chain_function(step, chain_.values[static_cast<size_t>(step.outputs.front())].dtype);
      if (!f) {
        *why_not = str(step.op->name, " has no function here");
        return std::nullopt;
      }
      add_step(step, *f);
    }
    if (chain_.row_end) {
      row_value_ = operand(chain_.steps.back().inputs.front());
      using Kind = PointwiseChain::RowEnd::Kind;
      const Kind kind = chain_.row_end->kind;
      if (kind == Kind::kSoftmax || kind == Kind::kLogSoftmax)
        row_factor_ = constant(chain_.row_end->factor);
    }
    write();
    return std::move(code_);
  }

 private:
  using Term = PointwiseChain::IndexTerm;

  bool is_output(int value) const {
    return std::find(chain_.outputs.begin(), chain_.outputs.end(), value) != chain_.outputs.end();
  }
  size_t output_index(int value) const {
    return static_cast<size_t>(std::find(chain_.outputs.begin(), chain_.outputs.end(), value) -
                               chain_.outputs.begin());
  }
  std::span<const Term> terms(size_t input) const {
    if (input >= chain_.broadcast.size()) return {};
    return chain_.broadcast[input];
  }

  // Returns whether packs begin at multiples of the width, which may not hold for rows of other
  // lengths.
  bool packs_are_regular() const {
    return !chain_.row_end || code_.length % ChainCode::kWidth == 0;
  }

  Access access_of(size_t input) const {
    const auto all = terms(input);
    if (all.empty())
      return chain_.values[input].shape.size() == code_.count ? Access::kPack : Access::kOne;
    const auto in_packs = [](int64_t n) { return n % ChainCode::kWidth == 0; };
    if (!packs_are_regular()) return Access::kElement;
    if (std::all_of(all.begin(), all.end(), [&](const Term& t) { return in_packs(t.divisor); }))
      return Access::kSame;
    const Term& inner = all.front();
    const bool neighbors =
        inner.divisor == 1 && inner.stride == 1 && in_packs(inner.extent) &&
        std::all_of(all.begin() + 1, all.end(), [&](const Term& t) { return in_packs(t.divisor); });
    return neighbors ? Access::kRow : Access::kElement;
  }

  void find_accesses() {
    for (size_t i = 0; i < chain_.num_inputs; ++i) {
      accesses_.push_back(access_of(i));
      if (accesses_[i] == Access::kPack || accesses_[i] == Access::kRow)
        code_.packed_inputs.push_back(i);
      offsets_.push_back(offset_text(i));
    }
    loaded_.assign(chain_.num_inputs, false);
  }

  // Returns the expression for the offset of element `x` in a broadcast input. Its numbers become
  // arguments; a modulo without effect is omitted.
  std::string offset_text(size_t input) {
    std::string text;
    for (const Term& t : terms(input)) {
      std::string at = "x";
      if (t.divisor != 1) at = str("(x / ", number(t.divisor), ")");
      if (t.divisor * t.extent < code_.count) at = str("(", at, " % ", number(t.extent), ")");
      if (t.stride != 1) at = str(at, " * ", number(t.stride));
      text += (text.empty() ? "" : " + ") + at;
    }
    return text;
  }
  std::string number(int64_t value) {
    code_.numbers.push_back(value);
    return str("n", code_.numbers.size() - 1);
  }
  std::string constant(float value) {
    code_.constants.push_back(value);
    return str("c", code_.constants.size() - 1);
  }

  // Returns the value as an expression for element k of the pack. Inputs are loaded on first use.
  std::string operand(int value) {
    const auto v = static_cast<size_t>(value);
    if (v < chain_.num_inputs) load(v);
    const bool one =
        v < chain_.num_inputs && (accesses_[v] == Access::kOne || accesses_[v] == Access::kSame);
    return str("v", value, one ? "" : "[k]");
  }

  void load(size_t v) {
    if (loaded_[v]) return;
    loaded_[v] = true;
    const char* const type = type_name(chain_.values[v].dtype);
    switch (accesses_[v]) {
      case Access::kPack:
        body_ += str("  float v", v, "[kWidth];\n  load<", type, ">(i", v, ", at, n, packed, v", v,
                     ");\n");
        return;
      case Access::kOne:
        before_ += str("  const float v", v, " = one<", type, ">(i", v, ", 0);\n");
        return;
      case Access::kRow:
        body_ += str("  float v", v, "[kWidth];\n  {\n    const Index x = at;\n    load<", type,
                     ">(i", v, ", ", offsets_[v], ", n, packed, v", v, ");\n  }\n");
        return;
      case Access::kSame:
        body_ += str("  float v", v, ";\n  {\n    const Index x = at;\n    v", v, " = one<", type,
                     ">(i", v, ", ", offsets_[v], ");\n  }\n");
        return;
      case Access::kElement:
        body_ += str("  float v", v, "[kWidth];\n", kEachElement, " {\n",
                     "    const Index x = at + k;\n    v", v, "[k] = k < n ? one<", type, ">(i", v,
                     ", ", offsets_[v], ") : 0.0f;\n  }\n");
        return;
    }
  }

  void add_step(const PointwiseChain::Operation& step, const ChainFunction& f) {
    const int made = step.outputs.front();
    const auto term = [&](int which) {
      return which == ChainFunction::kConstant ? constant(f.p[0])
                                               : operand(step.inputs[static_cast<size_t>(which)]);
    };
    const std::string a = term(f.a);
    std::string second = "none";
    if (f.b != ChainFunction::kNone) {
      second = term(f.b);
    } else if (f.has_parameters) {
      second = str("p", made);
      const std::string low = constant(f.p[0]), high = constant(f.p[1]);
      before_ += str("  const float ", second, "[2] = {", low, ", ", high, "};\n");
    }
    std::string value =
        str("DeviceFunction<", chain_functor(f.number), ">::apply(", a, ", ", second, ")");
    const DType dtype = chain_.values[static_cast<size_t>(made)].dtype;
    if (dtype != DType::kFloat32) value = str("rounded<", type_name(dtype), ">(", value, ")");
    body_ +=
        str("  float v", made, "[kWidth];\n", kEachElement, " v", made, "[k] = ", value, ";\n");
    if (!is_output(made)) return;
    body_ += str(chain_.row_end ? "  if (kStores) " : "  ", "store<", type_name(dtype), ">(o",
                 output_index(made), ", at, n, packed, v", made, ");\n");
  }

  std::string parameters() const {
    std::string text;
    for (size_t i = 0; i < chain_.num_inputs; ++i) text += str("const void* i", i, ", ");
    for (size_t i = 0; i < chain_.outputs.size(); ++i) text += str("void* o", i, ", ");
    for (size_t i = 0; i < code_.constants.size(); ++i) text += str("float c", i, ", ");
    for (size_t i = 0; i < code_.numbers.size(); ++i) text += str("long long m", i, ", ");
    return text;
  }
  std::string numbers() const {
    std::string text;
    for (size_t i = 0; i < code_.numbers.size(); ++i)
      text += str("  const Index n", i, " = static_cast<Index>(m", i, ");\n");
    return text;
  }

  // 32-bit indices are used if possible, because their division is several times faster.
  const char* index_type() const {
    return code_.count < int64_t{1} << 31 ? "unsigned" : "long long";
  }

  void write() {
    code_.source = str("extern \"C\" __global__ void __launch_bounds__(256) ", code_.kernel, "(",
                       parameters(), "int packed, long long count, long long length) {\n",
                       "  using namespace mxlite::chain;\n  using namespace mxlite::pointwise;\n",
                       "  using Index = ", index_type(),
                       ";\n  const float* const none = nullptr;\n", numbers(), before_);
    code_.source += chain_.row_end ? rows_text() : flat_text();
    code_.source += "}\n";
  }

  std::string flat_text() const {
    return str("  for (long long at = first_pack(); at < count; at += pack_step()) {\n",
               "  const int n = width_at(count - at);\n", body_, "  }\n");
  }

  // Returns one sweep over the row. Each sweep computes the body once; only the last sweep stores.
  std::string sweep(const char* stores, const std::string& use) const {
    return str(
        "    for (long long j = T::rank() * kWidth; j < length; j += T::size() * kWidth) {\n",
        "  constexpr bool kStores = ", stores, ";\n  const long long at = row * length + j;\n",
        "  const int n = width_at(length - j);\n", body_, use, "    }\n");
  }

  std::string rows_text() const {
    using Kind = PointwiseChain::RowEnd::Kind;
    const PointwiseChain::Operation& last = chain_.steps.back();
    const int made = last.outputs.front();
    const std::string& in = row_value_;
    const char* const type = type_name(chain_.values[static_cast<size_t>(made)].dtype);
    const std::string out = str("o", output_index(made));
    const Kind kind = chain_.row_end->kind;
    std::string text =
        str("  using T = Team<", code_.row_threads, ">;\n",
            "  const long long rows = count / length;\n",
            "  for (long long row = T::first_row(); row < rows; row += T::row_step()) {\n");
    if (kind == Kind::kSum || kind == Kind::kMean) {
      text += "    float total = 0.0f;\n" +
              sweep("true", str(kEachElement, "\n    if (k < n) total += ", in, ";\n"));
      text += str("    total = T::sum(total);\n    if (T::rank() == 0) put<", type, ">(", out,
                  ", row, total", kind == Kind::kMean ? " / static_cast<float>(length)" : "",
                  ");\n  }\n");
      return text;
    }
    const bool logarithm = kind == Kind::kLogSoftmax;
    const std::string& factor = row_factor_;
    text += "    float top = -mxlite::standard::numeric_limits<float>::infinity(), total = 0.0f;\n";
    text += sweep("false", str(kEachElement, "\n    if (k < n) top = larger(top, ", in, " * ",
                               factor, ");\n"));
    text += "    top = T::max(top);\n";
    text += sweep("false", str(kEachElement, "\n    if (k < n) total += exp_of_negative(", in,
                               " * ", factor, " - top);\n"));
    text += str("    total = T::sum(total);\n    const float scale = ",
                logarithm ? "mxlite::standard::log(total)" : "1.0f / total", ";\n");
    text += sweep("true",
                  str("  float y[kWidth];\n", kEachElement, " {\n    const float shifted = ", in,
                      " * ", factor, " - top;\n    y[k] = ",
                      logarithm ? "shifted - scale" : "exp_of_negative(shifted) * scale",
                      ";\n  }\n  store<", type, ">(", out, ", at, n, packed, y);\n"));
    return text + "  }\n";
  }

  const PointwiseChain& chain_;
  ChainCode code_;
  std::vector<Access> accesses_;      // by input, like the following members
  std::vector<std::string> offsets_;  // expressions of `x`
  std::vector<bool> loaded_;
  std::string before_, body_;  // statements before the loop, and statements for a pack
  std::string row_value_, row_factor_;
};

// The functors' headers without their #include lines; cmake/ChainPrelude.cmake writes the file.
constexpr const char* kHeaders =
#include <chain_headers.inc>
    ;
constexpr const char* kBeforeHeaders =
#include "cpp/ops/pointwise/chain_standard.inc"
    ;
constexpr const char* kAfterHeaders =
#include "cpp/ops/pointwise/chain_device.inc"
    ;

}  // namespace

unsigned ChainCode::blocks(int64_t most) const {
  int64_t wanted = 0;
  if (row_threads)
    wanted = (rows * row_threads + kThreads - 1) / kThreads;
  else
    wanted = (count + kThreads * kWidth - 1) / (kThreads * kWidth);
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, most));
}

std::optional<ChainCode> generate_chain(const PointwiseChain& chain, const std::string& kernel,
                                        std::string* why_not) {
  return Generator(chain, kernel).run(why_not);
}

const std::string& chain_prelude() {
  static const std::string* const text =
      new std::string(str(kBeforeHeaders, kHeaders, "#endif\n", kAfterHeaders));
  return *text;
}

std::vector<std::string> chain_options() { return {"--std=c++20", "-default-device"}; }

ChainArguments::ChainArguments(const ChainCode& code, std::span<void* const> in,
                               std::span<void* const> out) {
  const auto is_aligned = [](const void* data) {
    return reinterpret_cast<uintptr_t>(data) % 16 == 0;
  };
  for (void* p : in) pointers_.push_back(p);
  for (void* p : out) {
    pointers_.push_back(p);
    packed_ &= is_aligned(p);
  }
  for (const size_t i : code.packed_inputs) packed_ &= is_aligned(in[i]);
  if (code.length % ChainCode::kWidth != 0) packed_ = 0;
  for (void*& p : pointers_) arguments_.push_back({&p, sizeof p});
  for (const float& c : code.constants) arguments_.push_back({&c, sizeof c});
  for (const int64_t& n : code.numbers) arguments_.push_back({&n, sizeof n});
  arguments_.push_back({&packed_, sizeof packed_});
  arguments_.push_back({&code.count, sizeof code.count});
  arguments_.push_back({&code.length, sizeof code.length});
}

}  // namespace mxlite::pointwise
