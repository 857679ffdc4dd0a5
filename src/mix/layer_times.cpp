#include "mix/layer_times.hpp"

#include <unordered_map>

#include "bench/engine_subject.hpp"
#include "bench/inputs.hpp"

namespace lathe {

namespace {

constexpr std::size_t warm_up_runs = 5;
constexpr std::size_t measured_runs = 30;

Result<std::vector<double>> measure(const Engine& engine, const std::vector<std::string>& layers,
                                    std::int64_t batch_size, Progress& progress) {
    LATHE_TRY(auto specs, engine_inputs(engine.info(), batch_size));
    LATHE_TRY(const InputSets inputs, InputSets::random(std::move(specs), 1, 1));
    std::vector<TensorView> views;
    for (HostTensor& tensor : inputs.set(0))
        views.push_back(tensor.view());
    LATHE_TRY(Session session, engine.make_session());
    std::vector<double> sums(layers.size(), 0.0);
    for (std::size_t run = 0; run < warm_up_runs + measured_runs; ++run) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const auto outputs, session.run(views));
        if (run < warm_up_runs) continue;
        auto executed = session.profile();
        if (!executed) {
            if (executed.error().code == ErrorCode::unsupported) return sums; // nobody tells
            return std::move(executed).error();
        }
        const std::vector<double> times = times_by_layer(*executed, layers);
        for (std::size_t layer = 0; layer < sums.size(); ++layer)
            sums[layer] += times[layer] / static_cast<double>(measured_runs);
    }
    return sums;
}

} // namespace

std::vector<double> times_by_layer(const std::vector<LayerInfo>& executed, const std::vector<std::string>& layers) {
    std::unordered_map<std::string, std::size_t> position;
    // Node::label() of a node without a name is "Conv -> output"; OpenVINO calls it by its output.
    constexpr std::string_view arrow = " -> ";
    for (std::size_t i = 0; i < layers.size(); ++i) {
        position.emplace(layers[i], i);
        if (const auto at = layers[i].find(arrow); at != std::string::npos)
            position.emplace(layers[i].substr(at + arrow.size()), i);
    }
    std::vector<double> times(layers.size(), 0.0);
    for (const LayerInfo& layer : executed) {
        std::vector<std::size_t> fused;
        const auto add = [&](const std::string& name) {
            const auto found = position.find(name);
            if (found == position.end()) return false;
            fused.push_back(found->second);
            return true;
        };
        for (const std::string& node : layer.nodes)
            add(node);
        if (fused.empty()) add(layer.name);
        for (const std::size_t i : fused)
            times[i] += layer.milliseconds / static_cast<double>(fused.size());
    }
    return times;
}

Result<std::vector<double>> layer_gains(const Engine& plain, const Engine& quantised,
                                        const std::vector<std::string>& layers, std::int64_t batch_size,
                                        Progress& progress) {
    LATHE_TRY(std::vector<double> gains, measure(plain, layers, batch_size, progress));
    LATHE_TRY(const std::vector<double> after, measure(quantised, layers, batch_size, progress));
    for (std::size_t i = 0; i < gains.size(); ++i)
        gains[i] -= after[i];
    return gains;
}

} // namespace lathe
