#pragma once

// Which inputs and outputs of an engine are what, where it continues a text: as `lathe export gpt2`, Optimum and ONNX
// Runtime's generator call them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Keys or values of one layer, [batch, heads, tokens, width of a head].
struct PastTensor {
    std::string name;      ///< of its output, "present.I.key"
    std::size_t input = 0; ///< "past_key_values.I.key"; not used of a prefill engine, which has none
    std::size_t output = 0;
    DataType type = DataType::undefined;
    std::int64_t heads = 0;
    std::int64_t width = 0;
};

/// Reads tokens and gives the scores of the next.
struct TokenReader {
    std::size_t ids = 0;                  ///< input "input_ids" [batch, tokens]
    std::size_t mask = 0;                 ///< input "attention_mask" [batch, past and tokens]
    std::optional<std::size_t> positions; ///< input "position_ids" [batch, tokens]
    std::size_t logits = 0;               ///< output "logits", float32, the last position's scores last
    std::int64_t vocabulary = 0;          ///< 0: the engine does not say
    std::vector<PastTensor> past;         ///< of all layers
};

/// Reads one token and the keys and values of those before it.
struct Decoder : TokenReader {
    std::int64_t least = 0; ///< tokens of the past
    std::int64_t most = 0;

    /// It reads keys and values of a past, so `of` says what is missing if it is no decoder.
    static bool looks_like_one(const EngineInfo& info);
    /// Errors: invalid_argument, naming the tensor that is missing, of another type or shape, or not known.
    static Result<Decoder> of(const EngineInfo& info);
};

/// Reads a whole prompt at once.
struct Prefill : TokenReader {
    std::int64_t least = 0; ///< tokens
    std::int64_t most = 0;

    /// `past` is in the decoder's order. Errors: as Decoder::of; what the decoder takes and this does not give.
    static Result<Prefill> of(const EngineInfo& info, const Decoder& decoder);
};

} // namespace lathe
