#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe show` does: a network as a picture that one can walk about in, one self-contained HTML file.
struct ShowRequest {
    std::filesystem::path model; ///< ONNX file, or an engine file: then its layers are timed as well
    std::filesystem::path output = "graph.html";
    /// JSON of `lathe quantize` (reasons of each edge), `lathe optimize` or profiles (times of layers).
    std::vector<std::filesystem::path> results = {};
    Progress* progress = nullptr; ///< nullptr: silent
};

struct ShowResult {
    std::filesystem::path output;
    std::size_t nodes = 0;
    std::size_t timed = 0;     ///< of them, nodes with a time
    std::size_t explained = 0; ///< of them, nodes with reasons
};

/// Errors: not_found, parse_error, corrupt (an engine), invalid_argument (the output is an input), mismatch (results
/// that speak of no node of this model), io, cancelled.
LATHE_API Result<ShowResult> show(const ShowRequest& request);

} // namespace lathe
