#pragma once

// What a model's config.pbtxt says, as the server hands it over: a ModelConfig of model_config.proto as JSON.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "triton/batch.hpp"
#include "triton/generation.hpp"
#include "triton/pictures.hpp"
#include "triton/pixels.hpp"
#include "triton/texts.hpp"

namespace lathe::triton {

/// The part of a config that is needed before the engine is loaded.
struct LoadConfig {
    std::string file;        ///< default_model_filename; may be empty
    std::size_t threads = 0; ///< parameter "threads": of each instance on the CPU; 0: as the engine was built
    std::vector<int> gpus;   ///< that its instances run on, each once
    bool on_cpu = false;     ///< some instance group is of KIND_CPU
    bool on_gpu = false;     ///< some instance group is of KIND_GPU
};
/// Errors: invalid_argument, naming the field.
Result<LoadConfig> read_load_config(const Json& config);

/// The instance groups suit the engine's device. Errors: invalid_argument.
Result<void> check_instances(const LoadConfig& config, const EngineInfo& info);

/// The config with what the engine tells where it says nothing: inputs and outputs; where it has neither,
/// max_batch_size too, and dynamic batching. Errors: unsupported (an element type that the server lacks).
Result<Json> complete_config(Json config, const EngineInfo& info);

/// An engine as it is served, and what comes before it.
struct ServedAs : Serving {
    std::optional<PictureStage> pictures;
    std::optional<PixelStage> pixels;
    std::optional<TextStage> texts;
    std::optional<GenerationStage> generation; ///< then the rest is not used

    /// A request's one input is strings, which become the engine's inputs here.
    bool takes_strings() const { return pictures || texts; }
    bool on_gpu = false;
    /// The config's inputs are not the engine's own.
    bool has_own_input() const { return takes_strings() || pixels; }
    /// What that input is called.
    std::string string_input() const { return texts ? TextStage::input_name : inputs.front().name; }
};

/// What the engine is served as. Errors: invalid_argument for a config that contradicts the engine (names, types,
/// sizes, max_batch_size), naming tensor and cure. `prefill`: of the engine beside it that reads prompts, or null.
Result<ServedAs> serving_of(const Json& config, const EngineInfo& info, const EngineInfo* prefill = nullptr);

} // namespace lathe::triton
