#include "correct/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluate/fidelity.hpp"
#include "quantize/edges.hpp"

namespace lathe {
namespace {

std::size_t samples_of(const HostTensor& output) {
    return output.shape.empty() ? 1 : static_cast<std::size_t>(output.shape[0]);
}

} // namespace

Json to_json(const Closeness& closeness) {
    const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
    Json json{{"error", finite(closeness.error)}, {"sqnr_db", finite(closeness.sqnr_db)}};
    if (closeness.classes) {
        json["mean_kl"] = closeness.mean_kl;
        json["agreement"] = closeness.agreement;
    }
    return json;
}

std::vector<std::string> judged_outputs(const Graph& graph) {
    const EdgeIndex index(graph);
    std::vector<std::string> ends;
    std::string first;
    for (const ValueInfo& output : graph.outputs) {
        if (output.type != DataType::float32 && output.type != DataType::undefined) continue;
        if (first.empty()) first = output.name;
        if (index.readers(output.name).empty()) ends.push_back(output.name);
    }
    if (ends.empty() && !first.empty()) ends.push_back(first);
    return ends;
}

Judge::Judge(const Model& real, std::map<std::string, Batches> samples, std::size_t threads, Progress& progress)
    : samples_(std::move(samples)), threads_(threads), progress_(&progress), masks_(masks_of(samples_)) {
    const ValueInfo* mask = real.graph.find_input("attention_mask");
    const bool has_length = mask != nullptr && mask->dims && mask->dims->size() == 2;
    const std::string length = has_length ? mask->dims->back().symbol : "";
    for (const std::string& name : judged_outputs(real.graph)) {
        const auto info = std::ranges::find(real.graph.outputs, name, &ValueInfo::name);
        const auto& dims = info->dims;
        outputs_.push_back({name, dims && dims->size() == 2 && !length.empty() && dims->back().symbol == length, {}});
    }
}

std::vector<float> Judge::own_values(const Output& output, const HostTensor& values, std::size_t batch,
                                     std::size_t sample) const {
    const std::span<const float> all = values.as<float>();
    const std::size_t size = all.size() / samples_of(values);
    const auto here = all.subspan(sample * size, size);
    const PositionMask* mask = batch < masks_.size() && masks_[batch] ? &*masks_[batch] : nullptr;
    Shape shape = values.shape;
    if (output.by_position) shape.push_back(1);
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
    if (real.graph.outputs.empty()) return Error{ErrorCode::invalid_argument, "the model has no output", "", ""};
    Judge judge(real, std::move(samples), threads, progress);
    if (judge.outputs_.empty()) {
        return Error{ErrorCode::unsupported, "none of the model's outputs is float32, so nothing tells how close it is",
                     real.graph.outputs.front().name, "give the model with its scores as an output, or --effort 0"};
    }
    LATHE_TRY(std::vector<Batches> expected, judge.run(real, Precision::float32));
    for (std::size_t i = 0; i < expected.size(); ++i) {
        Output& output = judge.outputs_[i];
        output.expected = std::move(expected[i]);
        for (std::size_t batch = 0; batch < output.expected.size(); ++batch) {
            const HostTensor& values = output.expected[batch];
            for (std::size_t sample = 0; sample < samples_of(values); ++sample) {
                if (all_finite(judge.own_values(output, values, batch, sample))) continue;
                return Error{ErrorCode::out_of_range, "the float model's output holds NaN or infinity", output.name,
                             "check the model and the samples: lathe run"};
            }
        }
    }
    return judge;
}

Result<std::vector<Batches>> Judge::run(Model model, Precision precision) const {
    std::vector<ValueInfo> outputs;
    for (const Output& output : outputs_) {
        const auto found = std::ranges::find(model.graph.outputs, output.name, &ValueInfo::name);
        if (found == model.graph.outputs.end()) {
            return Error{ErrorCode::internal, "the quantised model has lost an output", output.name, ""};
        }
        outputs.push_back(*found);
    }
    model.graph.outputs = std::move(outputs);
    model.graph.inputs.clear();
    std::vector<Given> given;
    for (const auto& [name, batches] : samples_)
        given.emplace_back(name, batches);
    LATHE_TRY(std::vector<Batches> values,
              run_batches(std::move(model), given, {threads_, precision, nullptr, *progress_}));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i].front().type == DataType::float32) continue;
        return Error{ErrorCode::unsupported, "the output is not float32", outputs_[i].name, ""};
    }
    return values;
}

Result<Closeness> Judge::compare(const Output& output, const Batches& actual) const {
    Closeness result;
    const HostTensor& sample = output.expected.front();
    result.classes = sample.shape.size() == 2 && sample.shape[1] > 1;
    Fidelity fidelity;
    OutputKind kind = OutputKind::logits;
    if (result.classes) kind = detect_output_kind(sample.as<float>(), static_cast<std::size_t>(sample.shape[1]));
    std::size_t agree = 0;
    for (std::size_t batch = 0; batch < output.expected.size(); ++batch) {
        const HostTensor& expected = output.expected[batch];
        const std::size_t count = samples_of(expected);
        if (expected.shape != actual.at(batch).shape) {
            return Error{ErrorCode::unsupported,
                         "the output's size depends on values: " + to_string(expected.shape) + " in float, " +
                             to_string(actual[batch].shape) + " quantised",
                         output.name, "give the model without what selects among its results, or --effort 0"};
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::vector<float> x = own_values(output, expected, batch, i);
            const std::vector<float> y = own_values(output, actual[batch], batch, i);
            ++result.samples;
            const auto divergence = fidelity.add(x, y, kind);
            if (!divergence) {
                result.error = std::numeric_limits<double>::infinity();
                continue;
            }
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

Result<Closeness> Judge::judge(const Model& quantized) const {
    LATHE_TRY(const std::vector<Batches> actual, run(quantized, Precision::int8));
    LATHE_TRY(Closeness result, compare(outputs_.front(), actual.front()));
    for (std::size_t i = 1; i < outputs_.size(); ++i) {
        LATHE_TRY(const Closeness other, compare(outputs_[i], actual[i]));
        result.error += other.error;
    }
    result.error /= static_cast<double>(outputs_.size());
    return result;
}

} // namespace lathe
