#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "support/byte_chain.hpp"
#include "support/json.hpp"

namespace lathe {

/// The frame of a backend's compiled form in an engine file, little-endian: eight bytes that name the backend's form,
/// u32 version, u32 zero, u64 length of the JSON header, the header, and from the next multiple of 256 on the body.
struct CompiledFormat {
    std::string_view magic; ///< eight bytes
    std::uint32_t version = 1;
};
struct CompiledForm {
    std::string_view header;
    std::span<const std::byte> body;
};
/// What is no text in the header is replaced.
ByteChain write_compiled(const CompiledFormat& format, const Json& header, ByteChain body);
/// Views into `blob`. Errors: corrupt (an empty body too), mismatch (another version of the form).
Result<CompiledForm> read_compiled(const CompiledFormat& format, std::span<const std::byte> blob);

/// Error corrupt: the compiled form is damaged, because ...
Error damaged_form(const std::string& why);

/// What every such header tells under "inputs", "outputs" and "profiles".
struct CompiledBindings {
    std::vector<IoInfo> inputs, outputs;
    std::vector<std::vector<ShapeRange>> profiles; ///< by profile and input
};
void add_bindings(Json& header, const CompiledBindings& bindings);
/// Errors: corrupt (something missing; a type that is none; a profile without a range an input).
Result<CompiledBindings> read_bindings(const Json& header);

} // namespace lathe
