#include "api/profile.hpp"

#include <chrono>
#include <numeric>
#include <utility>

#include "bench/inputs.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

constexpr std::size_t warm_up_runs = 5;
constexpr std::size_t measured_runs = 30;

} // namespace

Result<EngineProfile> profile_engine(const std::filesystem::path& file, Progress& progress, double limit_s) {
    EngineLoadOptions options;
    options.profiling = true;
    LATHE_TRY(const Engine engine, Engine::load(file, options));
    return profile_engine(engine, file, progress, limit_s);
}

Result<EngineProfile> profile_engine(const Engine& engine, const std::filesystem::path& file, Progress& progress,
                                     double limit_s) {
    LATHE_TRY(Session session, engine.make_session());
    std::vector<InputSpec> specs;
    for (const IoInfo& input : session.inputs())
        specs.push_back({input.name, input.type, input.range.min});
    LATHE_TRY(const InputSets inputs, InputSets::random(std::move(specs), 1, 0)); // the same every time
    std::vector<TensorView> views;
    for (HostTensor& tensor : inputs.set(0))
        views.push_back(tensor.view());

    EngineProfile profile;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t run = 0, warm = 0; run < warm_up_runs + measured_runs; ++run) {
        const bool late = seconds_since(start) > limit_s;
        if (late && profile.runs > 0) break;
        LATHE_CHECK(progress.check());
        LATHE_TRY(const auto outputs, session.run(views));
        if (warm < warm_up_runs && !(late && warm > 0)) {
            ++warm;
            continue;
        }
        LATHE_TRY(const std::vector<LayerInfo> layers, session.profile());
        if (profile.runs == 0) {
            profile.layers = layers;
            profile.milliseconds.resize(layers.size());
        }
        if (layers.size() != profile.layers.size()) {
            return Error{ErrorCode::internal, "the executed layers changed between two runs", file.string(), ""};
        }
        ++profile.runs;
        for (std::size_t i = 0; i < layers.size(); ++i)
            profile.milliseconds[i].push_back(layers[i].milliseconds);
    }
    for (std::size_t i = 0; i < profile.layers.size(); ++i) {
        const auto& times = profile.milliseconds[i];
        profile.layers[i].milliseconds =
            std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    }
    return profile;
}

Result<Json> profile_engines(const std::vector<std::filesystem::path>& engines, Progress& progress, double limit_s) {
    Json document{{"kind", "layers"}, {"version", 1}, {"subjects", Json::array()}};
    progress.begin("profile", engines.size());
    for (const auto& file : engines) {
        LATHE_TRY(const EngineProfile profile, profile_engine(file, progress, limit_s));
        Json rows = Json::array();
        for (const LayerInfo& layer : profile.layers)
            rows.push_back(to_json(layer));
        document["subjects"].push_back({{"name", file.stem().string()}, {"layers", std::move(rows)}});
        progress.advance();
    }
    progress.end();
    return document;
}

} // namespace lathe
