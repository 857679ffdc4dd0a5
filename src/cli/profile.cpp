#include "cli/profile.hpp"

#include <algorithm>
#include <random>

#include "runtime/engine.hpp"

namespace lathe::cli {

namespace {

constexpr std::size_t warm_up_runs = 5;
constexpr std::size_t measured_runs = 30;

/// Normal values for floating-point inputs, small counting values for the others.
HostTensor random_input(const IoInfo& input, std::mt19937& generator) {
    HostTensor tensor(input.name, input.type, input.range.min);
    if (input.type == DataType::float32) {
        std::normal_distribution<float> normal;
        for (float& value : tensor.as<float>())
            value = normal(generator);
    } else if (input.type == DataType::int64) {
        std::int64_t next = 0;
        for (std::int64_t& value : tensor.as<std::int64_t>())
            value = next++ % 100;
    } else {
        for (std::byte& byte : tensor.bytes)
            byte = static_cast<std::byte>(generator() % 2);
    }
    return tensor;
}

Result<std::vector<LayerInfo>> profile_engine(const std::filesystem::path& file, Progress& progress) {
    EngineLoadOptions options;
    options.profiling = true;
    LATHE_TRY(const Engine engine, Engine::load(file, options));
    LATHE_TRY(Session session, engine.make_session());
    std::mt19937 generator(1); // NOLINT: the same inputs every time
    std::vector<HostTensor> tensors;
    for (const IoInfo& input : session.inputs())
        tensors.push_back(random_input(input, generator));
    std::vector<TensorView> views;
    for (HostTensor& tensor : tensors)
        views.push_back(tensor.view());

    std::vector<LayerInfo> mean;
    for (std::size_t run = 0; run < warm_up_runs + measured_runs; ++run) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const auto outputs, session.run(views));
        if (run < warm_up_runs) continue;
        LATHE_TRY(std::vector<LayerInfo> layers, session.profile());
        if (mean.empty()) {
            mean = std::move(layers);
            continue;
        }
        if (layers.size() != mean.size()) {
            return Error{ErrorCode::internal, "the executed layers changed between two runs", file.string(), ""};
        }
        for (std::size_t i = 0; i < mean.size(); ++i)
            mean[i].milliseconds += layers[i].milliseconds;
    }
    for (LayerInfo& layer : mean)
        layer.milliseconds /= static_cast<double>(measured_runs);
    return mean;
}

} // namespace

Result<Json> profile_engines(const std::vector<std::filesystem::path>& engines, Progress& progress) {
    Json document{{"kind", "layers"}, {"version", 1}, {"subjects", Json::array()}};
    progress.begin("profile", engines.size());
    for (const auto& file : engines) {
        LATHE_TRY(const auto layers, profile_engine(file, progress));
        Json rows = Json::array();
        for (const LayerInfo& layer : layers)
            rows.push_back(to_json(layer));
        document["subjects"].push_back({{"name", file.stem().string()}, {"layers", std::move(rows)}});
        progress.advance();
    }
    progress.end();
    return document;
}

} // namespace lathe::cli
