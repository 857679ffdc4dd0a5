#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

#include "data/tokenizer.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// The shared library of OpenVINO Tokenizers: $LATHE_TOKENIZERS, else beside OpenVINO's own, else where the two Python
/// packages put it. Error: not_found, with what to install.
Result<std::filesystem::path> tokenizers_library();

/// See TokenizerFactory. The graphs in the description run in OpenVINO with the operators of that library.
Result<std::shared_ptr<Tokenizer>> make_tokenizer(std::string_view description, std::size_t limit);

} // namespace lathe::openvino
