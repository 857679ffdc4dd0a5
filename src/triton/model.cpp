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
    LATHE_TRY(std::filesystem::path file, find_engine(folder, load.file));
    LATHE_TRY(const EngineInfo info, read_info(file));
    LATHE_CHECK(check_instances(load, info));
    LATHE_CHECK(complete(model, config, info));
    LATHE_TRY(ServedAs serving, serving_of(config, info));
    LATHE_TRY(Engine engine, Engine::load(file, load_options(load)));
    return std::unique_ptr<ServedModel>(new ServedModel(std::move(name), std::move(file), std::move(load),
                                                        std::move(engine), std::move(serving), info.tokenizer));
}

Result<std::shared_ptr<Tokenizer>> ServedModel::make_tokenizer() const {
    return openvino::make_tokenizer(tokenizer_, serving_.texts->limit());
}

Result<Session> ServedModel::make_session(int gpu) {
    const bool own_engine = config_.threads > 0; // each instance on threads of its own
    std::optional<Engine> loaded;
    {
        const std::lock_guard lock(mutex_);
        if (!own_engine) return config_.gpus.empty() ? engine_->make_session() : engine_->make_session_on(gpu);
        loaded = std::exchange(engine_, std::nullopt);
    }
    if (!loaded) {
        LATHE_TRY(loaded, Engine::load(file_, load_options(config_)));
    }
    return loaded->make_session();
}

} // namespace lathe::triton
