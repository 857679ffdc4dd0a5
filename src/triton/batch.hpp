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
#include "runtime/device_run.hpp"

namespace lathe::triton {

/// One input of one request, as the server holds it: in pieces that follow one another.
struct InputPieces {
    Shape shape;
    std::vector<std::span<const std::byte>> pieces;
    std::vector<bool> in_gpu{}; ///< by piece: it lies in a GPU's memory; empty: none does

    std::size_t bytes() const;
    bool any_in_gpu() const;
};

/// A request's inputs in the engine's order.
struct RequestInputs {
    std::vector<InputPieces> inputs;
    /// Its rows in a run: the first size of its inputs; 1 of a model that does not batch.
    std::int64_t samples = 1;
    /// Of its inputs that are filled up: their second size. 0 where none is.
    std::int64_t length = 0;
};

/// What a run computes, with what was added.
struct RunSize {
    std::int64_t samples = 0;
    std::int64_t length = 0; ///< that inputs were filled up to; 0 where none is
};

/// What an engine is served as.
struct Serving {
    std::vector<IoInfo> inputs;
    std::vector<IoInfo> outputs;
    bool batched = false;   ///< the first axis of all inputs and outputs is the samples, and requests share a run
    std::int64_t least = 1; ///< samples of a run; without `batched` 1
    std::int64_t most = 1;
    std::optional<TextFilling> filling;
    /// Samples that a run may have, ascending, the last of them `most`: what is less is filled up to the next. Empty:
    /// any. A GPU's session prepares each size once and keeps a few.
    std::vector<std::int64_t> sizes;

    /// The view of an input of a run of this size, without its memory.
    TensorView view_of(std::size_t input, const Shape& like, const RunSize& size) const;
    /// The size of a run of these requests.
    RunSize size_of(std::span<const RequestInputs* const> requests) const;

    /// Fills in `samples` and `length`. Errors: invalid_argument, out_of_range, naming the input.
    Result<void> check(RequestInputs& request) const;
    /// Both may be in one run, as far as their shapes say.
    bool can_share(const RequestInputs& one, const RequestInputs& other) const;
    /// Into `group`, in order: the first request that waits, and those behind it that fit into its run. A request that
    /// does not wait (it was refused, or ran) is null. Empty where none waits. Asks for no memory where `group` has
    /// room.
    void next_run(std::span<const RequestInputs* const> waiting, std::vector<std::size_t>& group) const;
    /// Samples of the run for so many, with those added to reach the engine's least and one of `sizes`.
    std::int64_t run_size(std::int64_t samples) const;
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
    const RunSize& size() const { return size_; }

private:
    std::vector<std::vector<std::byte>> own_;
    std::vector<TensorView> views_;
    RunSize size_;
};

/// The inputs of one run in a GPU's memory, from requests that lie there in part or as a whole. Nothing that lies there
/// goes through the host.
class DeviceInputs {
public:
    explicit DeviceInputs(DeviceCopies& copies) : copies_(copies) {}

    /// One view an input, in the GPU's memory, with all copies done; otherwise as BatchInputs::join. What comes from
    /// the host is put together in `memory` first, if that is large enough. Errors: those of the copies.
    Result<std::span<const TensorView>> join(const Serving& serving, std::span<const RequestInputs* const> requests,
                                             const BatchInputs::Memory& memory);
    const RunSize& size() const { return size_; }

private:
    Result<void> join_input(const Serving& serving, std::size_t input, std::span<const RequestInputs* const> requests,
                            std::span<std::byte> there, std::span<std::byte> host);

    DeviceCopies& copies_;
    std::vector<std::vector<std::byte>> own_;
    std::vector<TensorView> views_;
    RunSize size_;
};

/// What a request gets of one output of its run.
class OutputPart {
public:
    /// Rows `first` to `first + request.samples`, of `length` positions those that are the request's own.
    /// Errors: mismatch, where the output's first axis is not the samples.
    static Result<OutputPart> of(const Serving& serving, std::size_t output, const TensorView& whole,
                                 const RunSize& run, const RequestInputs& request, std::int64_t first);
    const Shape& shape() const { return shape_; }
    std::size_t bytes() const { return rows_ * row_bytes_; }
    /// `to` has `bytes()` bytes.
    void write(std::byte* to) const;
    /// The same by `copies`, where the whole output or `to` lies in a GPU's memory. Done once they waited.
    Result<void> write(std::byte* to, DeviceCopies& copies) const;

private:
    Shape shape_;
    const std::byte* from_ = nullptr;
    std::size_t rows_ = 1;
    std::size_t row_bytes_ = 0; ///< that are written
    std::size_t stride_ = 0;    ///< bytes from row to row in the run's output
};

} // namespace lathe::triton
