#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Converts numbers of one type to another, element by element. Any number converts to floating point (rounded to
/// nearest even); integers and booleans convert to integers that hold their value. `in` and `out` are packed arrays of
/// the same number of elements.
/// Errors, with `where`: mismatch (floating point to integer), out_of_range (a value that does not fit),
/// unsupported (sub-byte, 8-bit floating, complex and string types).
Result<void> convert_elements(DataType from, std::span<const std::byte> in, DataType to, std::span<std::byte> out,
                              std::string_view where);

} // namespace lathe
