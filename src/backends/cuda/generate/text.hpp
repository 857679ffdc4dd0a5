#pragma once
// Words of the sources that are generated.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "backends/cuda/plan/ir.hpp"

namespace lathe::cuda::generated {

/// A float as a literal that reads back to the same bits.
std::string literal(float value);
/// "u16": what the sources call an element's storage.
const char* storage(ElementType type);
/// An expression of type float for a stored element; scales are left out.
std::string to_float(ElementType type, const std::string& stored);
/// An expression of the storage for a float: rounded to nearest even, int8 bounded.
std::string from_float(ElementType type, const std::string& value);
/// " * 0.5f", or nothing for 1.
std::string times(float factor);

inline std::string text_of(std::string_view piece) { return std::string(piece); }
inline std::string text_of(float value) { return literal(value); }
template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
std::string text_of(Integer value) {
    return std::to_string(value);
}
/// Pieces of text and numbers side by side.
template <class... Pieces>
std::string join(const Pieces&... pieces) {
    return (std::string() + ... + text_of(pieces));
}

/// A source that grows by lines.
class Source {
public:
    template <class... Pieces>
    void line(const Pieces&... pieces) {
        (text_ += ... += text_of(pieces)) += '\n';
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

} // namespace lathe::cuda::generated
