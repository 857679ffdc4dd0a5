#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "support/byte_chain.hpp"

namespace lathe {

/// A part in the compiled form of a SplitModel.
struct SplitFormPart {
    bool gpu = false;
    std::span<const std::byte> bytes; ///< the GPU backend's form, or ONNX
    std::vector<std::string> reasons; ///< of a part of the host
};
struct SplitForm {
    std::vector<IoInfo> inputs, outputs;
    std::vector<SplitFormPart> parts;
};

/// Whether the bytes begin as such a form does.
bool is_split_form(std::span<const std::byte> blob);
/// `bytes` of the parts is not looked at: their forms come beside them.
ByteChain write_split_form(const std::vector<IoInfo>& inputs, const std::vector<IoInfo>& outputs,
                           std::vector<std::pair<SplitFormPart, ByteChain>> parts);
/// Views into `blob`. Errors: corrupt, mismatch.
Result<SplitForm> read_split_form(std::span<const std::byte> blob);

} // namespace lathe
