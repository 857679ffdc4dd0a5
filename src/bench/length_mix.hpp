#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/subject.hpp"
#include "data/tokenizer.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// How far requests are filled up before an engine runs them.
struct Padding {
    enum class Kind {
        own,     ///< not at all: each is as long as its longest sample
        longest, ///< all as long as the longest of them
        buckets  ///< to the smallest bucket that holds them
    };
    Kind kind = Kind::own;
    std::vector<std::size_t> buckets{}; ///< ascending
};

/// "own", "longest", or lengths: "16,32,64". Error: invalid_argument.
Result<Padding> parse_padding(std::string_view text);

/// What each request's length becomes. Errors: invalid_argument where no bucket is as long as a request.
Result<std::vector<std::size_t>> padded_lengths(const Padding& padding, std::span<const std::size_t> lengths);

/// Copies of the requests with rows of these lengths (at least their own): `pad_id` on one side of the tokens of
/// input_ids, zeros in the other inputs.
Requests fill_up(const Requests& requests, std::span<const std::size_t> lengths, std::int64_t pad_id,
                 PaddingSide side = PaddingSide::behind);

/// How lists of requests take turns.
struct MixTurns {
    std::size_t requests_a_turn = 16;
    double time_limit_s = 10; ///< a list; all of them together may take this times their number
    double pause_ms = 5;      ///< between turns
    /// Seconds on a clock that never goes back, and how to wait; replaced in tests.
    std::function<double()> now{};
    std::function<void(double)> sleep_ms{};
};

/// The calls of one list, in nanoseconds.
struct MixTimes {
    std::vector<double> call_ns; ///< passes x requests, in their order
    std::vector<double> turn_ns; ///< sums of a turn; those of two lists ran side by side
    std::vector<double> pass_ns; ///< sums of a pass
    std::optional<Error> failure{};
};

/// Runs `requests` requests through every list, in the same order and in turns A B A B ..., again from the start while
/// there is time for a whole pass; one pass at least. A list that fails drops out with its error.
/// Error: cancelled.
Result<std::vector<MixTimes>> run_mix(std::span<RequestList* const> lists, std::size_t requests,
                                      const MixTurns& options, Progress& progress);

struct LengthMixOptions {
    std::filesystem::path data; ///< a text file
    std::string columns;
    std::size_t samples = 0; ///< 0: all
    TokenizerFactory make_tokenizer;
    std::vector<Padding> paddings; ///< of engines that take several lengths; empty: own
    std::int64_t batch = 1;        ///< samples a request
    MixTurns turns{};
};

/// Times subjects on the requests that a dataset makes: every sample at its own length, or filled up as `paddings` say.
/// subjects[i] runs engines[i]; those after are frameworks, which always run requests at their own length. An engine of
/// one length has one row, filled up to it. Samples are cut where the engine that takes least tokens ends, for all
/// alike. Returns the keys "length_mix" and "unavailable" of the bench document.
/// Errors: cancelled; those of the data; not an error of a subject.
Result<Json> measure_length_mix(std::span<const std::unique_ptr<Subject>> subjects, std::span<const EngineInfo> engines,
                                const LengthMixOptions& options, Progress& progress);

} // namespace lathe
