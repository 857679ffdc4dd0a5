#include "triton/model.hpp"

#include <utility>

#include "backends/openvino/tokenizer.hpp"
#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "support/files.hpp"

namespace lathe::triton {

namespace {

Result<std::filesystem::path> find_engine(const std::filesystem::path& folder, const std::string& configured) {
    // model.lathe is what the server names where there is no config.pbtxt, and the model NAME.lathe.
    const bool named = !configured.empty() && configured != "model.lathe";
    std::filesystem::path file = folder / (named ? configured : "model.engine");
    if (named || std::filesystem::exists(file)) return file;
    return Error{ErrorCode::not_found, "there is no engine", file.string(),
                 "lathe deploy triton writes it; or copy one there"};
}

/// What the file tells before anything is loaded.
Result<EngineInfo> read_info(const std::filesystem::path& file) {
    LATHE_TRY(const auto mapped, MappedFile::open(file));
    LATHE_TRY(const EngineContents contents, parse_engine(mapped->bytes(), file.string()));
    LATHE_TRY(EngineInfo info, engine_info_from_json(contents.info));
    if (contents.has(tokenizer_section)) {
        LATHE_TRY(const auto text, contents.section(tokenizer_section));
        info.tokenizer.assign(reinterpret_cast<const char*>(text.data()), text.size());
    }
    return info;
}

EngineLoadOptions load_options(const LoadConfig& config) {
    EngineLoadOptions options;
    options.threads = config.threads;
    options.devices = config.gpus;
    return options;
}

Result<void> complete(TRITONBACKEND_Model* model, Json& config, const EngineInfo& info) {
    bool wanted = false;
    LATHE_CHECK(taken(TRITONBACKEND_ModelAutoCompleteConfig(model, &wanted)));
    if (!wanted) return {};
    LATHE_TRY(config, complete_config(std::move(config), info));
    return set_config(model, config);
}

} // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::load(TRITONBACKEND_Model* model) {
    const char* model_name = nullptr;
    std::uint64_t version = 0;
    TRITONBACKEND_ArtifactType type{};
    const char* location = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ModelName(model, &model_name)));
    LATHE_CHECK(taken(TRITONBACKEND_ModelVersion(model, &version)));
    LATHE_CHECK(taken(TRITONBACKEND_ModelRepository(model, &type, &location)));
    const std::string name = std::string("model ") + model_name + ", version " + std::to_string(version);
    auto served = load(model, name, std::filesystem::path(location) / std::to_string(version));
    if (!served) return std::move(served).error().in(name);
    return served;
}

Result<std::unique_ptr<ServedModel>> ServedModel::load(TRITONBACKEND_Model* model, std::string name,
                                                       const std::filesystem::path& folder) {
    LATHE_TRY(Json config, config_of(model));
    LATHE_TRY(LoadConfig load, read_load_config(config));
    Loaded main;
    LATHE_TRY(main.file, find_engine(folder, load.file));
    LATHE_TRY(const EngineInfo info, read_info(main.file));
    LATHE_CHECK(check_instances(load, info));
    LATHE_CHECK(complete(model, config, info));
    std::optional<Loaded> prefill;
    std::optional<EngineInfo> prefill_info;
    if (const auto beside = folder / "prefill.engine"; std::filesystem::exists(beside)) {
        LATHE_TRY(prefill_info, read_info(beside));
        LATHE_CHECK(check_instances(load, *prefill_info));
        prefill.emplace(Loaded{beside, std::nullopt});
    }
    LATHE_TRY(ServedAs serving, serving_of(config, info, prefill_info ? &*prefill_info : nullptr));
    LATHE_TRY(main.engine, Engine::load(main.file, load_options(load)));
    if (prefill) {
        LATHE_TRY(prefill->engine, Engine::load(prefill->file, load_options(load)));
    }
    const bool other = info.tokenizer.empty() && prefill_info;
    return std::unique_ptr<ServedModel>(new ServedModel(std::move(name), std::move(load), std::move(main),
                                                        std::move(prefill), std::move(serving),
                                                        other ? prefill_info->tokenizer : info.tokenizer));
}

Result<std::shared_ptr<Tokenizer>> ServedModel::make_tokenizer() const {
    // A text that is to be continued is not cut, but refused.
    return openvino::make_tokenizer(tokenizer_, serving_.texts ? serving_.texts->limit() : 0);
}

Result<std::vector<Session>> ServedModel::sessions_of(Loaded& loaded, int gpu, std::size_t count) {
    std::vector<Session> sessions;
    const auto make = [&](const Engine& engine) -> Result<void> {
        while (sessions.size() < count) {
            LATHE_TRY(Session session, config_.gpus.empty() ? engine.make_session() : engine.make_session_on(gpu));
            sessions.push_back(std::move(session));
        }
        return {};
    };
    std::optional<Engine> own;
    {
        const std::lock_guard lock(mutex_);
        if (config_.threads == 0) {
            LATHE_CHECK(make(*loaded.engine));
            return sessions;
        }
        own = std::exchange(loaded.engine, std::nullopt); // each instance on threads of its own
    }
    if (!own) {
        LATHE_TRY(own, Engine::load(loaded.file, load_options(config_)));
    }
    LATHE_CHECK(make(*own));
    return sessions;
}

Result<Session> ServedModel::make_session(int gpu) {
    LATHE_TRY(std::vector<Session> sessions, sessions_of(main_, gpu, 1));
    return std::move(sessions[0]);
}

Result<ServedModel::Continuing> ServedModel::make_continuing(int gpu) {
    LATHE_TRY(std::vector<Session> sessions, sessions_of(main_, gpu, 2));
    LATHE_TRY(EngineInfo info, read_info(main_.file));
    std::optional<Generator::Prompting> prompting;
    if (prefill_) {
        LATHE_TRY(std::vector<Session> reading, sessions_of(*prefill_, gpu, 1));
        LATHE_TRY(EngineInfo reads, read_info(prefill_->file));
        prompting.emplace(Generator::Prompting{std::move(reads), std::move(reading[0])});
    }
    return Continuing{{std::move(info), std::move(sessions[0]), std::move(sessions[1])}, std::move(prompting)};
}

Result<Generator> ServedModel::make_generator(int gpu) {
    LATHE_TRY(Continuing parts, make_continuing(gpu));
    return Generator::make(std::move(parts.decoding), std::move(parts.prompting));
}

Result<std::shared_ptr<JoinedGenerator>> ServedModel::joined_generator(int gpu) {
    const std::lock_guard lock(joined_mutex_); // instances are made side by side
    const int place = config_.gpus.empty() ? 0 : gpu;
    if (auto there = joined_[place].lock()) return there;
    LATHE_TRY(const EngineInfo info, read_info(main_.file));
    if (JoinedGenerator::most_texts(info) < 2) return std::shared_ptr<JoinedGenerator>();
    LATHE_TRY(Continuing parts, make_continuing(gpu));
    LATHE_TRY(auto made, JoinedGenerator::make(std::move(parts.decoding), std::move(parts.prompting)));
    std::shared_ptr<JoinedGenerator> shared = std::move(made);
    joined_[place] = shared;
    return shared;
}

} // namespace lathe::triton
