#pragma once

// Requests of a Triton server put together into one run of an engine, and its outputs taken apart again. Knows neither
// server nor session, so that the tests put numbers there directly.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "deploy/text_filling.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"

namespace lathe::triton {

/// One input of one request, as the server holds it: in pieces that follow one another.
struct InputPieces {
    Shape shape;
    std::vector<std::span<const std::byte>> pieces;

    std::size_t bytes() const;
};

/// A request's inputs in the engine's order.
struct RequestInputs {
    std::vector<InputPieces> inputs;
    /// Its rows in a run: the first size of its inputs; 1 of a model that does not batch.
    std::int64_t samples = 1;
    /// Of its inputs that are filled up: their second size. 0 where none is.
    std::int64_t length = 0;
};

/// What an engine is served as.
struct Serving {
    std::vector<IoInfo> inputs;
    std::vector<IoInfo> outputs;
    bool batched = false;   ///< the first axis of all inputs and outputs is the samples, and requests share a run
    std::int64_t least = 1; ///< samples of a run; without `batched` 1
    std::int64_t most = 1;
    std::optional<TextFilling> filling;

    /// Fills in `samples` and `length`. Errors: invalid_argument, out_of_range, naming the input.
    Result<void> check(RequestInputs& request) const;
    /// Both may be in one run, as far as their shapes say.
    bool can_share(const RequestInputs& one, const RequestInputs& other) const;
    /// Into `group`, in order: the first request that waits, and those behind it that fit into its run. A request that
    /// does not wait (it was refused, or ran) is null. Empty where none waits. Asks for no memory where `group` has
    /// room.
    void next_run(std::span<const RequestInputs* const> waiting, std::vector<std::size_t>& group) const;
    /// The length to fill up to for a run of so many samples of which the longest is `longest`.
    std::int64_t length_for(std::int64_t samples, std::int64_t longest) const;
};

/// The inputs of one run. Its memory is kept from run to run.
class BatchInputs {
public:
    /// The session's memory for an input; empty where it has none.
    using Memory = std::function<std::span<std::byte>(std::size_t index)>;

    /// One view an input. `requests` can share a run and are not empty. A single request in one piece that needs no
    /// filling is viewed in place; others are written once, into `memory` where there is some.
    std::span<const TensorView> join(const Serving& serving, std::span<const RequestInputs* const> requests,
                                     const Memory& memory);
    std::int64_t samples() const { return samples_; } ///< of the run, with those added to reach the engine's least
    std::int64_t length() const { return length_; }   ///< that inputs were filled up to; 0 where none is

private:
    std::vector<std::vector<std::byte>> own_;
    std::vector<TensorView> views_;
    std::int64_t samples_ = 0;
    std::int64_t length_ = 0;
};

/// What a request gets of one output of its run.
class OutputPart {
public:
    /// Rows `first` to `first + request.samples`, of `length` positions those that are the request's own.
    /// Errors: mismatch, where the output's first axis is not the samples.
    static Result<OutputPart> of(const Serving& serving, std::size_t output, const TensorView& whole,
                                 const BatchInputs& run, const RequestInputs& request, std::int64_t first);
    const Shape& shape() const { return shape_; }
    std::size_t bytes() const { return rows_ * row_bytes_; }
    /// `to` has `bytes()` bytes.
    void write(std::byte* to) const;

private:
    Shape shape_;
    const std::byte* from_ = nullptr;
    std::size_t rows_ = 1;
    std::size_t row_bytes_ = 0; ///< that are written
    std::size_t stride_ = 0;    ///< bytes from row to row in the run's output
};

} // namespace lathe::triton
