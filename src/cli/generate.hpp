#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "lathe/result.hpp"

namespace lathe::cli {

/// `lathe run` of a decoder: texts are continued.
struct GenerateOptions {
    std::int64_t max_tokens = 0;  ///< 0: nothing is continued
    std::vector<std::string> ids; ///< prompts, "3,4,5"
    std::filesystem::path prefill;
    std::optional<std::int64_t> eos;
    float temperature = 0;
    std::size_t top_tokens = 0;
    std::uint64_t seed = 0;
};
void add_generate_options(CLI::App& command, GenerateOptions& options);

/// Continues the tokens given, and each text, and shows what came. Errors: those of engines and Generator;
/// invalid_argument (no prompt; no tokenizer for texts), out_of_range (a text that the tokenizer would cut).
Result<void> run_generation(const std::filesystem::path& engine, const GenerateOptions& options,
                            const std::vector<std::string>& texts, const std::vector<int>& devices,
                            const Context& context);

} // namespace lathe::cli
