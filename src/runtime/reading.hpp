#pragma once

// How a prompt is read by a decoder, and by the engine for prompts beside it, if there is one.

#include <cstdint>
#include <optional>
#include <span>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "runtime/decoder.hpp"

namespace lathe {

struct Reading {
    Decoder decoder;
    std::optional<Prefill> prefill;

    /// `prefill_info` may be null. Errors: those of Decoder::of and Prefill::of.
    static Result<Reading> of(const EngineInfo& decoder, const EngineInfo* prefill);

    /// Tokens of a prompt that are read at once, and the length that so many are filled up to.
    std::int64_t at_once(std::int64_t prompt) const;
    std::int64_t filled(std::int64_t tokens) const;
    /// How many tokens can follow a prompt of so many; less than 1 where it is too long by itself.
    std::int64_t most_after(std::int64_t prompt) const;
    /// Errors: invalid_argument (one that is not in the vocabulary), naming its place.
    Result<void> check_tokens(std::span<const std::int64_t> tokens) const;
    /// Errors: that; invalid_argument (no tokens), out_of_range (more than the engine takes).
    Result<void> check_prompt(std::span<const std::int64_t> prompt) const;
    /// Errors: invalid_argument (no tokens are asked for), out_of_range (prompt and tokens are more than it takes).
    Result<void> check_room(std::int64_t prompt, std::int64_t wanted) const;
};

} // namespace lathe
