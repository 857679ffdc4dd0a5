#include "correct/judge.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "evaluate/fidelity.hpp"
#include "evaluate/figures.hpp"
#include "quantize/edges.hpp"

namespace lathe {
namespace {

std::size_t samples_of(const HostTensor& output) {
    return output.shape.empty() ? 1 : static_cast<std::size_t>(output.shape[0]);
}

} // namespace

Json to_json(const Closeness& closeness) {
    Json json{{"error", finite_or_null(closeness.error)}, {"sqnr_db", finite_or_null(closeness.sqnr_db)}};
    if (closeness.classes) {
        json["mean_kl"] = closeness.mean_kl;
        json["agreement"] = closeness.agreement;
    }
    if (closeness.task) {
        json["metric"] = closeness.task->value;
        json["metric_name"] = closeness.task->name;
    }
    if (closeness.parts.size() > 1) {
        json["parts"] = Json::array();
        for (const JudgedPart& part : closeness.parts) {
            json["parts"].push_back({{"output", part.output}, {"error", finite(part.error())}});
            if (part.end > 0) json["parts"].back()["channels"] = {part.begin, part.end - 1};
        }
    }
    return json;
}

double JudgedPart::error() const {
    double sum = 0.0;
    for (const double each : errors)
        sum += each;
    return sum / static_cast<double>(std::max<std::size_t>(1, errors.size()));
}

const JudgedPart* Closeness::worse_part(const Closeness& other) const {
    const JudgedPart* worst = nullptr;
    double most = 1.0;
    for (std::size_t i = 0; i < std::min(parts.size(), other.parts.size()); ++i) {
        const std::vector<double>& now = parts[i].errors;
        const std::vector<double>& before = other.parts[i].errors;
        const auto count = static_cast<double>(now.size());
        if (now.size() != before.size() || now.size() < 2) continue;
        double sum = 0.0;
        double squares = 0.0;
        for (std::size_t k = 0; k < now.size(); ++k) {
            sum += now[k] - before[k];
            squares += (now[k] - before[k]) * (now[k] - before[k]);
        }
        const double mean = sum / count;
        const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean) / (count - 1.0));
        const double old = std::max(other.parts[i].error(), 1e-30);
        if (std::isnan(mean) || mean < 0.01 * old || mean < 1.96 * deviation) continue;
        if (worst != nullptr && mean / old <= most) continue;
        most = mean / old;
        worst = &parts[i];
    }
    return worst;
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
                        Progress& progress, bool answers) {
    if (real.graph.outputs.empty()) return Error{ErrorCode::invalid_argument, "the model has no output", "", ""};
    Judge judge(real, std::move(samples), threads, progress);
    if (judge.outputs_.empty()) {
        return Error{ErrorCode::unsupported, "none of the model's outputs is float32, so nothing tells how close it is",
                     real.graph.outputs.front().name, "give the model with its scores as an output, or --effort 0"};
    }
    LATHE_TRY(std::vector<Batches> expected, judge.run(real, Precision::float32));
    if (answers) judge.find_task(real, expected);
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
        judge.find_groups(output);
    }
    return judge;
}

void Judge::find_groups(Output& output) const {
    // Where there is padding, positions are tokens and channels those of one embedding.
    if (!masks_.empty()) return;
    std::vector<std::span<const float>> values;
    for (const HostTensor& batch : output.expected) {
        if (!std::ranges::equal(batch.shape.begin() + 1, batch.shape.end(), output.expected.front().shape.begin() + 1,
                                output.expected.front().shape.end()))
            return; // its size depends on the sample
        values.push_back(batch.as<float>());
    }
    output.groups = find_output_groups(output.expected.front().shape, values);
    if (output.groups.single()) {
        if (output.expected.front().shape.size() < 4) return; // no image: each sample's own size
        double power = 0.0;
        std::size_t samples = 0;
        for (std::size_t batch = 0; batch < values.size(); ++batch) {
            for (const float value : values[batch])
                power += static_cast<double>(value) * static_cast<double>(value);
            samples += samples_of(output.expected[batch]);
        }
        output.sizes = {std::sqrt(power / static_cast<double>(std::max<std::size_t>(1, samples)))};
        return;
    }
    for (const OutputGroups::Group& group : output.groups.groups) {
        const double channel = static_cast<double>(values.front().size()) /
                               static_cast<double>(samples_of(output.expected.front()) * output.groups.channels);
        output.sizes.push_back(std::sqrt(group.power * channel * static_cast<double>(group.end - group.begin)));
    }
}

void Judge::find_task(const Model& real, const std::vector<Batches>& expected) {
    if (samples_.size() != 1 || samples_.begin()->second.empty()) return;
    const Shape& input = samples_.begin()->second.front().shape;
    if (input.size() != 4) return;
    const std::size_t first = input[1] == 3 || input[3] != 3 ? 2 : 1;
    std::vector<OutputShape> shapes;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
        Shape shape = expected[i].front().shape;
        if (shape.empty()) return;
        const bool sampled = is_sampled(shape[0], input[0]);
        if (sampled) shape[0] = -1;
        shapes.push_back({outputs_[i].name, std::move(shape), sampled});
    }
    // What is not judged is part of an answer too: a head that is not whole is none.
    if (outputs_.size() != real.graph.outputs.size()) return;
    task_ = recognise_task(shapes, static_cast<std::size_t>(input[first]), static_cast<std::size_t>(input[first + 1]));
    if (task_ == nullptr) return;
    answers_ = task_->judge();
    // A task that was guessed wrongly, or that finds nothing in these samples, says nothing.
    if (!answer(expected) || answers_->metric(0) < 0) {
        answers_.reset();
        task_.reset();
    }
}

Result<void> Judge::answer(const std::vector<Batches>& values) {
    for (std::size_t batch = 0; batch < values.front().size(); ++batch) {
        std::vector<HostTensor> outputs;
        for (const Batches& each : values)
            outputs.push_back(each.at(batch));
        LATHE_CHECK(answers_->add(networks_, outputs));
    }
    ++networks_;
    return {};
}

Interval Judge::task_difference(const Closeness& a, const Closeness& b) const {
    return answers_->difference(a.task.value().network, b.task.value().network);
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
    for (const OutputGroups::Group& group : output.groups.groups)
        result.parts.push_back(
            {output.name, output.groups.single() ? 0 : group.begin, output.groups.single() ? 0 : group.end, {}});
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
                for (JudgedPart& part : result.parts)
                    part.errors.push_back(std::numeric_limits<double>::infinity());
                continue;
            }
            if (result.classes) agree += top_class(x) == top_class(y) ? 1U : 0U;
            if (result.classes && kind == OutputKind::probabilities) {
                result.parts.front().errors.push_back(std::sqrt(std::max(0.0, *divergence)));
                continue;
            }
            double signal = 0.0;
            std::vector<double> noise(result.parts.size(), 0.0);
            for (std::size_t k = 0; k < x.size(); ++k) {
                signal += static_cast<double>(x[k]) * static_cast<double>(x[k]);
                noise[output.groups.group_at(k)] +=
                    std::pow(static_cast<double>(x[k]) - static_cast<double>(y[k]), 2.0);
            }
            for (std::size_t part = 0; part < noise.size(); ++part) {
                const double size = output.sizes.empty() ? std::sqrt(signal) : output.sizes[part];
                result.parts[part].errors.push_back(std::sqrt(noise[part]) / std::max(size, 1e-15));
            }
        }
    }
    for (const JudgedPart& part : result.parts)
        result.error += part.error() / static_cast<double>(result.parts.size());
    const auto samples = static_cast<double>(std::max<std::size_t>(1, result.samples));
    result.mean_kl = result.classes ? fidelity.mean_kl() : 0.0;
    result.sqnr_db = fidelity.sqnr_db();
    result.agreement = result.classes ? static_cast<double>(agree) / samples : 1.0;
    return result;
}

Result<Closeness> Judge::judge(const Model& quantized) {
    LATHE_TRY(const std::vector<Batches> actual, run(quantized, Precision::int8));
    LATHE_TRY(Closeness result, compare(outputs_.front(), actual.front()));
    for (std::size_t i = 1; i < outputs_.size(); ++i) {
        LATHE_TRY(Closeness other, compare(outputs_[i], actual[i]));
        result.error += other.error;
        std::ranges::move(other.parts, std::back_inserter(result.parts));
    }
    result.error /= static_cast<double>(outputs_.size());
    if (task_ != nullptr) {
        LATHE_CHECK(answer(actual));
        const std::size_t network = networks_ - 1;
        result.task = JudgedFigure{std::string(task_->metric_name()), answers_->metric(network), network};
    }
    return result;
}

} // namespace lathe
