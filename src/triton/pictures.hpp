#pragma once

// Pictures as files in a request, turned into the network's input here: no client needs to know how the model was
// trained.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/preprocess.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/thread_pool.hpp"

namespace lathe::triton {

/// The files in an input of strings, as the server hands them over: each a length (four bytes, little-endian) and so
/// many bytes, one behind the other. Errors: parse_error (no `count` of them).
Result<std::vector<std::span<const std::byte>>> split_strings(std::span<const std::byte> bytes, std::size_t count);

/// A picture of a request and where its row of the network's input goes.
struct PictureJob {
    std::span<const std::byte> file; ///< JPEG or PNG
    std::span<float> out;
    Result<void> done{};
};

/// Decodes and preprocesses as the engine's metadata says.
class PictureStage {
public:
    /// Of a model whose config gives the engine's only input as TYPE_STRING with dims [1]; nothing for others.
    /// Errors: invalid_argument (an engine that takes no pictures, or does not say how).
    static Result<std::optional<PictureStage>> of(const Json& config, const EngineInfo& info);

    std::size_t floats_each() const { return preprocess_.output_count(); }
    /// [samples, 3, height, width], or channels last.
    Shape shape(std::int64_t samples) const;

    /// All side by side on `pool`. Each has its own result: parse_error (damaged), unsupported (another format).
    void run(std::span<PictureJob> jobs, ThreadPool& pool) const;

private:
    explicit PictureStage(const Preprocess& preprocess) : preprocess_(preprocess) {}

    Preprocess preprocess_;
};

} // namespace lathe::triton
