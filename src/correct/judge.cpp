#include "correct/judge.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/fidelity.hpp"

namespace lathe {

Json to_json(const Closeness& closeness) {
    const bool finite = std::isfinite(closeness.sqnr_db);
    Json json{{"error", closeness.error}, {"sqnr_db", finite ? Json(closeness.sqnr_db) : Json(nullptr)}};
    if (closeness.classes) {
        json["mean_kl"] = closeness.mean_kl;
        json["agreement"] = closeness.agreement;
    }
    return json;
}

Result<Judge> Judge::of(const Model& real, std::map<std::string, Batches> samples, std::size_t threads,
                        Progress& progress) {
    Judge judge(std::move(samples), threads, progress);
    LATHE_TRY(judge.expected_, judge.first_output(real, Precision::float32));
    return judge;
}

Result<Batches> Judge::first_output(Model model, Precision precision) const {
    if (model.graph.outputs.empty()) return Error{ErrorCode::invalid_argument, "the model has no output", "", ""};
    model.graph.outputs.resize(1);
    model.graph.inputs.clear();
    std::vector<Given> given;
    for (const auto& [name, batches] : samples_)
        given.emplace_back(name, batches);
    LATHE_TRY(std::vector<Batches> outputs,
              run_batches(std::move(model), given, {threads_, precision, nullptr, *progress_}));
    if (outputs.front().front().type != DataType::float32) {
        return Error{ErrorCode::unsupported, "the model's first output is not float32", "", ""};
    }
    return std::move(outputs.front());
}

Result<Closeness> Judge::judge(const Model& quantized) const {
    LATHE_TRY(const Batches actual, first_output(quantized, Precision::int8));
    Closeness result;
    const HostTensor& sample = expected_.front();
    result.classes = sample.shape.size() == 2 && sample.shape[1] > 1;
    Fidelity fidelity;
    OutputKind kind = OutputKind::logits;
    if (result.classes) kind = detect_output_kind(sample.as<float>(), static_cast<std::size_t>(sample.shape[1]));
    std::size_t agree = 0;
    for (std::size_t batch = 0; batch < expected_.size(); ++batch) {
        const auto count = expected_[batch].shape.empty() ? 1U : static_cast<std::size_t>(expected_[batch].shape[0]);
        const std::span<const float> wanted = expected_[batch].as<float>();
        const std::span<const float> given = actual.at(batch).as<float>();
        if (wanted.size() != given.size() || count == 0) {
            return Error{ErrorCode::internal, "the quantised model's output has another size", "", ""};
        }
        const std::size_t size = wanted.size() / count;
        for (std::size_t i = 0; i < count; ++i) {
            const auto x = wanted.subspan(i * size, size);
            const auto y = given.subspan(i * size, size);
            const auto divergence = fidelity.add(x, y, kind);
            if (!divergence) {
                return Error{ErrorCode::out_of_range, "the output holds NaN or infinity", "", "check the model"};
            }
            ++result.samples;
            if (result.classes) agree += top_class(x) == top_class(y) ? 1U : 0U;
            if (result.classes && kind == OutputKind::probabilities) {
                result.error += std::sqrt(std::max(0.0, *divergence));
                continue;
            }
            double signal = 0.0;
            double noise = 0.0;
            for (std::size_t k = 0; k < size; ++k) {
                signal += static_cast<double>(x[k]) * static_cast<double>(x[k]);
                noise += std::pow(static_cast<double>(x[k]) - static_cast<double>(y[k]), 2.0);
            }
            result.error += std::sqrt(noise / std::max(signal, 1e-30));
        }
    }
    const auto samples = static_cast<double>(std::max<std::size_t>(1, result.samples));
    result.error /= samples;
    result.mean_kl = result.classes ? fidelity.mean_kl() : 0.0;
    result.sqnr_db = fidelity.sqnr_db();
    result.agreement = result.classes ? static_cast<double>(agree) / samples : 1.0;
    return result;
}

} // namespace lathe
