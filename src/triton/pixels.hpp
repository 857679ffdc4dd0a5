#pragma once

// Decoded pictures in a request, a quarter of the bytes of what the network reads: resized and normalised here, on a
// GPU by itself.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/preprocess.hpp"
#include "lathe/engine.hpp"
#include "lathe/pictures.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/thread_pool.hpp"
#include "triton/batch.hpp"

namespace lathe::triton {

/// Pictures of uint8 [samples, height, width, 3], RGB, of any size, become what the engine's metadata says.
class PixelStage {
public:
    /// Of a model whose config gives the engine's only input as TYPE_UINT8, while the engine's is float32; nothing for
    /// others. Errors: invalid_argument (an engine that takes no pictures, or does not say how; other dims).
    static Result<std::optional<PixelStage>> of(const Json& config, const EngineInfo& info);

    /// The GPU can do it (picture_batch says what not).
    bool on_device() const { return on_device_; }
    /// Fills in `samples`. Errors: invalid_argument, out_of_range, naming the input.
    Result<void> check(RequestInputs& request, std::int64_t most) const;
    /// The pictures of a run on the GPU, the last one repeated up to `samples`. `kept` is memory for those that lie in
    /// pieces; it and the requests outlive the batch.
    Result<PictureBatch> batch(std::span<const RequestInputs* const> requests, std::int64_t samples,
                               std::vector<std::byte>& kept) const;
    /// The engine's input of one request, on the processor.
    Result<HostTensor> convert(const RequestInputs& request, ThreadPool& pool) const;
    /// A run of so many black pictures of the network's own size: what warms up a session.
    Result<PictureBatch> blank(std::int64_t samples, std::vector<std::byte>& kept) const;

private:
    PixelStage(const Preprocess& preprocess, const IoInfo& input)
        : preprocess_(preprocess), name_(input.name), type_(input.type) {}

    Preprocess preprocess_;
    std::string name_;
    DataType type_;
    bool on_device_ = false;
};

} // namespace lathe::triton
