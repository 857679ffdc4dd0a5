#include "correct/judge.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/fidelity.hpp"

namespace lathe {
namespace {

std::size_t samples_of(const HostTensor& output) {
    return output.shape.empty() ? 1 : static_cast<std::size_t>(output.shape[0]);
}

} // namespace

Json to_json(const Closeness& closeness) {
    const bool finite = std::isfinite(closeness.sqnr_db);
    Json json{{"error", closeness.error}, {"sqnr_db", finite ? Json(closeness.sqnr_db) : Json(nullptr)}};
    if (closeness.classes) {
        json["mean_kl"] = closeness.mean_kl;
        json["agreement"] = closeness.agreement;
    }
    return json;
}

Judge::Judge(const Model& real, std::map<std::string, Batches> samples, std::size_t threads, Progress& progress)
    : samples_(std::move(samples)), threads_(threads), progress_(&progress), masks_(masks_of(samples_)) {
    const ValueInfo* mask = real.graph.find_input("attention_mask");
    if (mask == nullptr || !mask->dims || mask->dims->size() != 2 || real.graph.outputs.empty()) return;
    const auto& dims = real.graph.outputs.front().dims;
    const std::string& name = mask->dims->back().symbol;
    by_position_ = dims && dims->size() == 2 && !name.empty() && dims->back().symbol == name;
}

std::vector<float> Judge::own_values(const HostTensor& output, std::size_t batch, std::size_t sample) const {
    const std::span<const float> values = output.as<float>();
    const std::size_t size = values.size() / samples_of(output);
    const auto here = values.subspan(sample * size, size);
    const PositionMask* mask = batch < masks_.size() && masks_[batch] ? &*masks_[batch] : nullptr;
    Shape shape = output.shape;
    if (by_position_) shape.push_back(1);
    const auto layout = mask == nullptr || shape.size() < 3 ? std::nullopt : mask->layout_of(shape);
    if (!layout) return {here.begin(), here.end()};
    std::vector<float> own;
    for (std::size_t i = 0; i < size; ++i) {
        if (mask->is_own(*layout, sample * size + i)) own.push_back(here[i]);
    }
    return own;
}

Result<Judge> Judge::of(const Model& real, std::map<std::string, Batches> samples, std::size_t threads,
                        Progress& progress) {
    Judge judge(real, std::move(samples), threads, progress);
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
        const std::size_t count = samples_of(expected_[batch]);
        if (expected_[batch].as<float>().size() != actual.at(batch).as<float>().size() || count == 0) {
            return Error{ErrorCode::internal, "the quantised model's output has another size", "", ""};
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<float> x = own_values(expected_[batch], batch, i);
            const std::vector<float> y = own_values(actual[batch], batch, i);
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
            for (std::size_t k = 0; k < x.size(); ++k) {
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
