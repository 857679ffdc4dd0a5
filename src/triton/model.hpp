#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/detokenizer.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "runtime/joined_generator.hpp"
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

    /// For an instance of a model that continues texts one at a time, on this GPU; on the CPU the number is not read.
    Result<Generator> make_generator(int gpu);
    /// For all instances on this GPU, whose texts share runs; null where the decoder's engine takes one sample.
    Result<std::shared_ptr<JoinedGenerator>> joined_generator(int gpu);
    /// For an instance of a model that takes texts, of its own. Errors: not_found (the library of OpenVINO Tokenizers).
    Result<std::shared_ptr<Tokenizer>> make_tokenizer() const;
    /// Of a model whose answers are texts, too. Errors: those of Detokenizer::of.
    Result<std::shared_ptr<const Detokenizer>> detokenizer() const { return Detokenizer::of(tokenizer_); }
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

    struct Continuing {
        Generator::Decoding decoding;
        std::optional<Generator::Prompting> prompting;
    };
    Result<Continuing> make_continuing(int gpu);
    /// So many sessions of one engine.
    Result<std::vector<Session>> sessions_of(Loaded& loaded, int gpu, std::size_t count);

    std::string name_;
    LoadConfig config_;
    std::mutex mutex_;
    Loaded main_;
    std::optional<Loaded> prefill_; ///< reads prompts at once, of a model that continues texts
    ServedAs serving_;
    std::string tokenizer_; ///< its description
    std::mutex joined_mutex_;
    std::map<int, std::weak_ptr<JoinedGenerator>> joined_; ///< by GPU
};

} // namespace lathe::triton
