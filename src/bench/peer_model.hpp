#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lathe/result.hpp"
#include "runtime/engine.hpp"
#include "support/json.hpp"

namespace lathe {

/// Whether an ONNX file rounds values as it runs (`rounds_values`; an OpenVINO .xml: holds FakeQuantize): an int8
/// model.
Result<bool> is_quantized_model(const std::filesystem::path& file);

/// The floating-point model that frameworks run beside our engines, found in this order: the one the user names; the
/// file that an engine was built from, if it is still there, unchanged and not quantised; the graph in an FP32 engine.
class PeerModel {
public:
    /// Takes note of where an engine came from.
    Result<void> offer(const Engine& engine);
    /// Decides. `named` may be empty; a graph taken from an engine is written into `scratch`.
    Result<void> choose(const std::filesystem::path& named, const std::filesystem::path& scratch);

    /// Empty if there is none.
    const std::filesystem::path& file() const { return file_; }
    /// Its metadata `lathe.source`, if it has any.
    const std::optional<Json>& source() const { return source_; }
    /// Whether that says that the module is made by code in a file.
    bool source_is_code() const;

private:
    Result<void> take(const std::filesystem::path& file);

    struct Origin {
        std::filesystem::path file;
        std::string hash;
    };
    std::vector<Origin> origins_;
    ModelPtr fp32_graph_; ///< of the first engine in FP32
    std::filesystem::path file_;
    std::optional<Json> source_;
};

} // namespace lathe
