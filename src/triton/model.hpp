#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "triton/batch.hpp"
#include "triton/model_config.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

/// One version of a model that the server loaded. Its instances make their sessions from it, several at once.
class ServedModel {
public:
    /// Reads the engine VERSION/model.engine of the model's folder, and completes the config from it if the server asks
    /// for that. Errors: those of Engine::load; invalid_argument where config and engine contradict each other.
    static Result<std::unique_ptr<ServedModel>> load(TRITONBACKEND_Model* model);

    /// "model resnet50, version 1"
    const std::string& name() const { return name_; }
    const ServedAs& serving() const { return serving_; }

    /// For an instance of a model that continues texts, on this GPU; on the CPU the number is not read.
    Result<Generator> make_generator(int gpu);
    /// For an instance of a model that takes texts, of its own. Errors: not_found (the library of OpenVINO Tokenizers).
    Result<std::shared_ptr<Tokenizer>> make_tokenizer() const;
    /// For an instance on this GPU; on the CPU the number is not read.
    Result<Session> make_session(int gpu);

private:
    static Result<std::unique_ptr<ServedModel>> load(TRITONBACKEND_Model* model, std::string name,
                                                     const std::filesystem::path& folder);
    /// An engine file, and the engine until an instance has it to itself.
    struct Loaded {
        std::filesystem::path file;
        std::optional<Engine> engine;
    };
    ServedModel(std::string name, LoadConfig config, Loaded main, std::optional<Loaded> prefill, ServedAs serving,
                std::string tokenizer)
        : name_(std::move(name)), config_(std::move(config)), main_(std::move(main)), prefill_(std::move(prefill)),
          serving_(std::move(serving)), tokenizer_(std::move(tokenizer)) {}

    /// So many sessions of one engine.
    Result<std::vector<Session>> sessions_of(Loaded& loaded, int gpu, std::size_t count);

    std::string name_;
    LoadConfig config_;
    std::mutex mutex_;
    Loaded main_;
    std::optional<Loaded> prefill_; ///< reads prompts at once, of a model that continues texts
    ServedAs serving_;
    std::string tokenizer_; ///< its description
};

} // namespace lathe::triton
