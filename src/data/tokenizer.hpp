#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// Where a row's padding stands: behind its tokens, or in front of them, as models want it that continue a text.
enum class PaddingSide { behind, in_front };

/// Some samples as token ids, a row each, filled up to the longest.
struct Tokens {
    std::size_t count = 0;  ///< rows
    std::size_t length = 0; ///< columns
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> mask;  ///< 1 a token, 0 padding
    std::vector<std::int64_t> types; ///< 0 in the first text, 1 in the second; empty where the model has none
};

/// Cuts texts into a model's tokens. One thread at a time.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    /// Longer samples are cut: of a pair the longer text first.
    virtual std::size_t max_length() const = 0;
    /// The id that fills up.
    virtual std::int64_t pad_id() const = 0;
    /// A pair of texts is two samples (to compare their embeddings), not one.
    virtual bool separates_pairs() const = 0;
    /// Equal where the tokens of all texts are equal.
    virtual std::string digest() const = 0;
    /// `second` is empty or as long as `first`. Errors: unsupported (pairs), parse_error for a text that is not UTF-8,
    /// what the library tells.
    virtual Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string> second) = 0;
    /// How many of the samples are longer than `max_length` and were cut to the `tokens` that `encode` made of them.
    virtual Result<std::size_t> count_cut(std::span<const std::string> first, std::span<const std::string> second,
                                          const Tokens& tokens) = 0;
    virtual PaddingSide padding_side() const { return PaddingSide::behind; }
};

/// A tokenizer from a model's metadata `lathe.tokenizer`; `limit` is the most tokens that the engine takes, 0 for no
/// limit but the model's own. Errors: parse_error, not_found (the library that it needs), unsupported.
using TokenizerFactory =
    std::function<Result<std::shared_ptr<Tokenizer>>(std::string_view description, std::size_t limit)>;

} // namespace lathe
