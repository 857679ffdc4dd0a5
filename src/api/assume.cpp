#include "api/assume.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "api/fix_companions.hpp"
#include "api/model_data.hpp"
#include "api/picture_size.hpp"
#include "api/simplify.hpp"
#include "data/preprocess_presets.hpp"
#include "evaluate/engine_predictor.hpp"
#include "evaluate/fidelity.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t tried_samples = 48;
constexpr std::size_t tried_together = 8;
constexpr Preprocess::Size usual_for_classes{224, 224};
constexpr Preprocess::Size usual_otherwise{640, 640}; ///< a multiple of 32, as fully convolutional networks want it

/// Sums over samples from which both ways to judge a preset follow.
struct Trial {
    const PreprocessPreset* preset = nullptr;
    Preprocess preprocess;
    std::size_t samples = 0;
    std::size_t labelled = 0;
    std::size_t right = 0;
    bool foreign = false;              ///< some labels are of classes that the network does not have: others' labels
    double entropy = 0;                ///< of single answers, summed, nats
    std::vector<double> probability{}; ///< of each class, summed

    double accuracy() const { return labelled == 0 ? 0 : static_cast<double>(right) / static_cast<double>(labelled); }
    /// What a picture tells of the class, nats: entropy of the mean answer less the mean entropy of the answers. Small
    /// both for a network that is never certain and for one that always gives the same class, which is what inputs in
    /// a wrong range do.
    double information() const {
        if (samples == 0) return 0;
        double mixed = 0;
        for (const double sum : probability) {
            const double share = sum / static_cast<double>(samples);
            if (share > 0) mixed -= share * std::log(share);
        }
        return mixed - entropy / static_cast<double>(samples);
    }

    void add(std::span<const float> row, OutputKind kind, std::int64_t label) {
        if (!all_finite(row)) return;
        ++samples;
        probability.resize(row.size(), 0.0);
        const double largest = *std::ranges::max_element(row);
        double total = 0;
        const auto weight = [&](float value) {
            return kind == OutputKind::logits ? std::exp(static_cast<double>(value) - largest)
                                              : static_cast<double>(value);
        };
        for (const float value : row)
            total += weight(value);
        for (std::size_t i = 0; i < row.size() && total > 0; ++i) {
            const double share = weight(row[i]) / total;
            probability[i] += share;
            if (share > 0) entropy -= share * std::log(share);
        }
        foreign = foreign || (label >= 0 && static_cast<std::size_t>(label) >= row.size());
        if (label < 0 || foreign) return;
        ++labelled;
        if (top_class(row) == static_cast<std::size_t>(label)) ++right;
    }
};

/// Whether the only judged output is a row of scores a sample.
bool gives_classes(const Engine& engine) {
    const EngineInfo info = engine.info();
    return info.outputs.size() == 1 && info.outputs.front().range.opt.size() == 2 &&
           info.outputs.front().range.opt[1] > 1;
}

Result<Trial> try_preset(const PreprocessPreset& preset, const Preprocess& preprocess, Predictor& predictor,
                         const std::vector<InputSpec>& inputs, const fs::path& pictures, std::size_t samples,
                         Progress& progress) {
    Trial trial;
    trial.preset = &preset;
    trial.preprocess = preprocess;
    DatasetOptions options;
    options.samples = samples;
    LATHE_TRY(const auto data, open_dataset(pictures, preprocess, inputs, options));
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data->next(tried_together));
        if (!batch || batch->size() == 0) return trial;
        LATHE_TRY(const HostTensor scores, predictor.predict(*batch));
        const auto values = scores.as<float>();
        const std::size_t classes = values.size() / batch->size();
        const OutputKind kind = detect_output_kind(values, classes);
        for (std::size_t i = 0; i < batch->size(); ++i)
            trial.add(values.subspan(i * classes, classes), kind, batch->labels[i]);
        progress.advance(batch->size());
    }
}

/// As many as the time limit has room for, by how long the first takes; 0 where that are too few to tell presets apart.
Result<std::size_t> samples_to_try(Predictor& predictor, const std::vector<InputSpec>& inputs, const fs::path& pictures,
                                   const AssumeRequest& request) {
    if (request.preset_limit_s <= 0) return tried_samples;
    constexpr std::size_t looked_at = 1;
    constexpr std::size_t least = 4;
    LATHE_TRY(const Preprocess preprocess, make_preprocess(tried_presets().front(), inputs));
    const auto start = std::chrono::steady_clock::now();
    LATHE_TRY(const Trial trial, try_preset(tried_presets().front(), preprocess, predictor, inputs, pictures, looked_at,
                                            *request.progress));
    const double each = seconds_since(start) / static_cast<double>(std::max<std::size_t>(1, trial.samples));
    const double room = request.preset_limit_s / (each * static_cast<double>(tried_presets().size()));
    const auto samples = static_cast<std::size_t>(std::min(room, static_cast<double>(tried_samples)));
    return samples < least ? 0 : samples;
}

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

/// The best trial, and in words why. An earlier preset gives way only to one that is clearly better.
const Trial& best_of(const std::vector<Trial>& trials, std::string& why) {
    const bool labelled = trials.front().labelled > 0 && !trials.front().foreign;
    const auto figure = [&](const Trial& trial) { return labelled ? trial.accuracy() : trial.information(); };
    constexpr double clearly = 0.03; // of accuracy; of information relative
    const Trial* best = &trials.front();
    for (const Trial& trial : trials) {
        const double least = labelled ? figure(*best) + clearly : figure(*best) * (1 + clearly);
        if (figure(trial) > least) best = &trial;
    }
    const std::string samples = std::to_string(best->samples) + " pictures";
    why = labelled ? "with which the network gets " + percent(best->accuracy()) + " of " + samples + " right"
                   : "with which the network tells " + samples + " apart best";
    return *best;
}

/// Whether the only output is a row of scores for each step along the width, as readers of lines of text give them.
bool reads_lines(const Engine& engine, const Model& model, const Preprocess& sized) {
    const EngineInfo info = engine.info();
    if (info.outputs.size() != 1 || info.outputs.front().range.opt.size() != 3) return false;
    const Shape& output = info.outputs.front().range.opt;
    const auto stride = static_cast<std::int64_t>(picture_strides(model).width);
    const auto steps = static_cast<std::int64_t>(sized.output_size().width) / stride;
    const auto fits = [&](std::int64_t size) { return std::abs(size - steps) <= 1; };
    return stride > 1 && output[2] > 2 && (fits(output[1]) || (fits(output[0]) && output[1] < 0)); // NxTxC, TxNxC
}

/// As PaddleOCR and most readers of text are fed: the line as high as the input, what is left of the width grey, values
/// -1..1.
Preprocess usual_for_lines(const Preprocess& sized) {
    Preprocess preprocess;
    preprocess.layout = sized.layout;
    preprocess.letterbox = sized.output_size();
    preprocess.align = Alignment::top_left;
    preprocess.pad = 128;
    preprocess.scale = 1.0 / 127.5;
    preprocess.mean = {1, 1, 1};
    return preprocess;
}

/// The one input of pictures with 3 channels and a known size.
bool takes_pictures(const std::vector<InputSpec>& inputs) {
    return inputs.size() == 1 && make_preprocess(tried_presets().front(), inputs).has_value();
}

/// `head`: of a detector whose head does not tell.
Result<std::optional<Preprocess>> guess_preset(const Model& model, const std::optional<DetectionHead>& head,
                                               const AssumeRequest& request) {
    const std::vector<InputSpec> inputs = input_specs(model);
    if (!takes_pictures(inputs)) return std::optional<Preprocess>();
    const PreprocessPreset& usual = tried_presets().front();
    const auto told = [&](const Preprocess& preprocess, const std::string& why) {
        request.tell("assumed, " + why + " (--preprocess says otherwise): " + preprocess.to_json().dump());
        return std::optional(preprocess);
    };
    if (head) {
        // A classifier's crop would leave out what is to be found.
        LATHE_TRY(Preprocess preprocess, make_preprocess(usual, inputs));
        preprocess.resize = preprocess.output_size();
        preprocess.short_side.reset();
        preprocess.crop.reset();
        return told(preprocess, std::string("as is most usual (") + usual.name +
                                    ", the picture stretched), since a head " + to_string(head->form) +
                                    " does not tell");
    }
    BuildOptions build;
    build.progress = request.progress;
    build.tune = TuneEffort::fast; // it runs a few pictures
    LATHE_TRY(const Engine engine, Engine::build(model, build));
    if (!gives_classes(engine)) {
        LATHE_TRY(const Preprocess preprocess, make_preprocess(usual, inputs));
        if (reads_lines(engine, model, preprocess))
            return told(usual_for_lines(preprocess), "as is usual for a network that reads a line of text");
        return told(preprocess, std::string("as is most usual (") + usual.name + "), since the outputs do not tell");
    }
    LATHE_TRY(const auto predictor, make_engine_predictor(engine, "float"));
    const fs::path& pictures = holds_pictures(request.evaluate) ? request.evaluate : request.calibrate;
    std::vector<Trial> trials;
    LATHE_TRY(const std::size_t samples, samples_to_try(*predictor, inputs, pictures, request));
    if (samples == 0) {
        LATHE_TRY(const Preprocess preprocess, make_preprocess(usual, inputs));
        return told(preprocess,
                    std::string("as is most usual (") + usual.name + "), since trying others would take too long");
    }
    request.progress->begin("preprocessing", samples * tried_presets().size());
    for (const PreprocessPreset& preset : tried_presets()) {
        LATHE_TRY(const Preprocess preprocess, make_preprocess(preset, inputs));
        LATHE_TRY(Trial trial,
                  try_preset(preset, preprocess, *predictor, inputs, pictures, samples, *request.progress));
        trials.push_back(std::move(trial));
    }
    request.progress->end();
    std::string why;
    const Trial& best = best_of(trials, why);
    return told(best.preprocess, std::string(best.preset->name) + ", " + why);
}

/// "NAME:?x?x224x224", for set_input_shapes: the open axes behind the first as `size_of(axis)` says, below 0: still
/// open. Nothing where all stay as they are.
template <class SizeOf>
std::optional<std::string> fixed_axes(const InputSpec& input, const SizeOf& size_of) {
    std::string text = input.name + ":?";
    bool fixes = false;
    for (std::size_t axis = 1; axis < input.shape.size(); ++axis) {
        const std::int64_t size = input.shape[axis] < 0 ? size_of(axis) : -1;
        fixes = fixes || size >= 0;
        text += size >= 0 ? "x" + std::to_string(size) : "x?";
    }
    return fixes ? std::optional(std::move(text)) : std::nullopt;
}

/// Sizes that stay open are those of what the arrays hold.
Result<void> take_sizes_of_arrays(Model& model, const AssumeRequest& request) {
    const std::vector<InputSpec> inputs = input_specs(model);
    const auto is_open = [](const InputSpec& input) {
        return std::ranges::any_of(input.shape.begin() + (input.shape.empty() ? 0 : 1), input.shape.end(),
                                   [](std::int64_t size) { return size < 0; });
    };
    if (std::ranges::none_of(inputs, is_open) || model.find_metadata("lathe.tokenizer") != nullptr) return {};
    const fs::path& arrays = request.calibrate.empty() ? request.evaluate : request.calibrate;
    if (arrays.empty()) return {};
    DatasetOptions one;
    one.samples = 1;
    const auto data = open_dataset(arrays, std::nullopt, inputs, one);
    if (!data) return {}; // what is wrong with them is told when they are read for their own sake
    LATHE_TRY(const std::optional<Batch> first, (*data)->next(1));
    if (!first) return {};
    std::vector<std::string> shapes;
    std::string told;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        auto text = fixed_axes(inputs[i], [&](std::size_t axis) { return first->inputs[i].shape[axis]; });
        if (!text) continue;
        shapes.push_back(std::move(*text));
        told += (told.empty() ? "" : ", ") + shapes.back();
    }
    LATHE_CHECK(set_input_shapes(model, shapes));
    request.tell("sizes that the model leaves open are those of the data: " + told + " (--shape says otherwise)");
    return {};
}

/// Fixes the open axes behind the first of which the user's ranges leave one size.
Result<bool> take_given_sizes(Model& model, const std::map<std::string, ShapeRange>& given) {
    std::vector<std::string> shapes;
    const std::vector<InputSpec> inputs = input_specs(model);
    for (const InputSpec& input : inputs) {
        auto found = given.find(input.name);
        if (found == given.end() && inputs.size() == 1) found = given.find(""); // an only input needs no name
        if (found == given.end()) continue;
        const ShapeRange& range = found->second;
        if (range.min.size() != input.shape.size() || range.max.size() != input.shape.size()) continue;
        auto text = fixed_axes(input, [&](std::size_t axis) -> std::int64_t {
            return range.min[axis] == range.max[axis] ? range.min[axis] : -1;
        });
        if (text) shapes.push_back(std::move(*text));
    }
    if (shapes.empty()) return false;
    LATHE_CHECK(set_input_shapes(model, shapes));
    return true;
}

/// Inputs that only say how large the picture was become constants. Detections of all samples in one list are those of
/// one sample then, where the user's shapes do not say how many there are.
Result<std::optional<FixedCompanions>> take_companions(Model& model, const AssumeRequest& request) {
    LATHE_TRY(auto fixed, fix_companions(model));
    if (!fixed) return std::optional<FixedCompanions>();
    request.tell(
        "assumed, as their names say: " + fixed->told +
        ", so that boxes are in its pixels and go back to the picture from there (arrays for all inputs, .npz, "
        "say otherwise)");
    const InputSpec picture = input_specs(model).front();
    if (request.fix_sizes && picture.shape[0] < 0 && lists_all_samples(model.graph)) {
        LATHE_CHECK(set_input_shapes(model, {picture.name + ":1x?x?x?"}));
        request.tell("one sample at a time, since the outputs hold the detections of all in one list (--shape says "
                     "otherwise)");
    }
    return fixed;
}

/// How pictures become the input of a detector with companions, once its size is known.
std::optional<Preprocess> preprocess_beside(const FixedCompanions& fixed, const Model& model,
                                            const AssumeRequest& request) {
    const std::vector<InputSpec> inputs = input_specs(model);
    if (!takes_pictures(inputs)) return std::nullopt;
    const Shape& shape = inputs.front().shape;
    const Layout layout = shape[1] == 3 ? Layout::nchw : Layout::nhwc;
    const std::size_t height = layout == Layout::nchw ? 2 : 1;
    const Preprocess preprocess = usual_preprocess(
        fixed.detector, {static_cast<std::size_t>(shape[height]), static_cast<std::size_t>(shape[height + 1])}, layout);
    request.tell("assumed, as usual for a detector with such inputs (--preprocess says otherwise): " +
                 preprocess.to_json().dump());
    return preprocess;
}

} // namespace

Result<std::optional<Preprocess>> assume_inputs(Model& model, const AssumeRequest& request) {
    std::optional<Preprocess> preprocess = request.preprocess;
    bool fixed = false;
    std::string why;
    const bool pictures = holds_pictures(request.calibrate) || holds_pictures(request.evaluate);
    std::optional<FixedCompanions> companions;
    if (pictures) {
        LATHE_TRY(companions, take_companions(model, request));
    }
    if (request.fix_sizes) {
        LATHE_TRY(auto size, fix_picture_size(model, preprocess));
        if (!size && pictures && !preprocess) {
            const auto& outputs = model.graph.outputs;
            const bool classes = outputs.size() == 1 && outputs.front().dims && outputs.front().dims->size() == 2;
            OpenSize open{classes ? usual_for_classes : usual_otherwise};
            open.pictures = holds_pictures(request.calibrate) ? request.calibrate : request.evaluate;
            open.time_limit_s = request.size_limit_s;
            open.progress = request.progress;
            LATHE_TRY(const auto guess, guess_picture_size(model, open));
            if (guess) {
                LATHE_TRY(size, set_picture_size(model, guess->size));
                why = " (" + guess->why + ")";
            }
        }
        fixed = size.has_value();
        if (fixed)
            request.tell("pictures of " + *size + ", which the model leaves open" + why +
                         "; --shape or --preprocess NAME@" + *size + " says otherwise");
    }
    if (preprocess) return preprocess;
    if (pictures && !request.shapes.empty()) {
        LATHE_TRY(const bool taken, take_given_sizes(model, request.shapes));
        fixed = fixed || taken;
    }
    if (companions) preprocess = preprocess_beside(*companions, model, request);
    if (preprocess) {
        model.set_metadata("lathe.preprocess", preprocess->to_json().dump());
        return preprocess;
    }
    // Detectors rarely say how pictures become their input, but their heads tell how that is usually done.
    auto head = head_of(model);
    preprocess = assumed_preprocess(model);
    if (!preprocess && fixed) {
        // Sizes of outputs that were computed from the input's become known by folding.
        Model folded = model;
        SimplifyOptions options;
        options.progress = request.progress;
        options.time_limit_s = request.preset_limit_s;
        LATHE_CHECK(simplify_model(folded, options));
        head = head_of(folded);
        preprocess = assumed_preprocess(folded);
    }
    if (preprocess) {
        request.tell("assumed, as usual for a " + std::string(to_string(head->form)) +
                     " head (--preprocess says otherwise): " + preprocess->to_json().dump());
    } else if (pictures) {
        LATHE_TRY(preprocess, guess_preset(model, head, request));
    } else if (request.fix_sizes) {
        LATHE_CHECK(take_sizes_of_arrays(model, request));
    }
    if (preprocess) model.set_metadata("lathe.preprocess", preprocess->to_json().dump());
    return preprocess;
}

} // namespace lathe
