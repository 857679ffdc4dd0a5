#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/openvino/tokenizer.hpp"
#include "cli/commands.hpp"
#include "cli/generate.hpp"
#include "cli/numbers.hpp"
#include "cli/preprocess.hpp"
#include "cli/trtexec_names.hpp"
#include "data/convert.hpp"
#include "data/encode.hpp"
#include "data/npy.hpp"
#include "data/open_dataset.hpp"
#include "data/picture_batch.hpp"
#include "data/preprocess.hpp"
#include "data/text_dataset.hpp"
#include "evaluate/fidelity.hpp"
#include "evaluate/run.hpp"
#include "evaluate/similarity.hpp"
#include "runtime/engine.hpp"
#include "tasks/detection/draw.hpp"
#include "tasks/detection/instances.hpp"
#include "tasks/detection/keypoints.hpp"

namespace lathe::cli {

namespace {

struct RunArguments {
    std::filesystem::path engine;
    std::vector<std::filesystem::path> inputs;
    std::string raw_inputs; ///< as trtexec's --loadInputs has them
    std::vector<std::string> texts;
    std::vector<std::string> pairs; ///< second texts
    std::string columns;
    std::filesystem::path output;
    std::filesystem::path preprocess;
    std::string preprocess_on = "cpu";
    std::vector<int> devices;
    std::size_t top_k = 5;
    std::size_t batch_size = 0;
    std::size_t samples = 0;
    std::string task;
    std::string head;
    std::filesystem::path draw;
    GenerateOptions generate;
    DecodeOptions decode{0.25F, 0.45F, 300}; ///< as for people to look at, not as evaluations count
};

/// Outputs of all samples, one after another along axis 0. A number a sample becomes a row of them, unless there is
/// one.
class Collector {
public:
    Result<void> add(const std::vector<TensorView>& outputs) {
        if (all_.empty()) {
            for (const auto& view : outputs) {
                HostTensor tensor;
                tensor.name = view.name;
                tensor.type = view.type;
                tensor.shape = view.shape;
                if (!view.shape.empty()) tensor.shape[0] = 0;
                all_.push_back(std::move(tensor));
            }
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const TensorView& view = outputs[i];
            if (view.shape.empty()) {
                if (!all_[i].bytes.empty()) all_[i].shape = {all_[i].shape.empty() ? 2 : all_[i].shape[0] + 1};
                all_[i].bytes.insert(all_[i].bytes.end(), view.bytes.begin(), view.bytes.end());
                continue;
            }
            if (!std::equal(view.shape.begin() + 1, view.shape.end(), all_[i].shape.begin() + 1, all_[i].shape.end())) {
                return Error{ErrorCode::unsupported, "output changes its shape from batch to batch", view.name,
                             "run the samples in one batch (--batch-size)"};
            }
            all_[i].shape[0] += view.shape[0];
            all_[i].bytes.insert(all_[i].bytes.end(), view.bytes.begin(), view.bytes.end());
        }
        return {};
    }
    std::vector<HostTensor>& tensors() { return all_; }

private:
    std::vector<HostTensor> all_;
};

/// NaN among inputs or outputs: a network may answer of it as if it were sure (a Relu may make 0 of it).
class NanWatch {
public:
    void look(const TensorView& view, const Batch& batch) {
        if (!is_floating(view.type)) return;
        const std::vector<float> values = Tensor("", view.type, view.shape, view.bytes).to_floats();
        const bool rows = !view.shape.empty() && view.shape[0] == static_cast<std::int64_t>(batch.size());
        const std::size_t row = std::max<std::size_t>(1, rows ? values.size() / batch.size() : values.size());
        for (std::size_t first = 0; first < values.size(); first += row) {
            const auto count = std::ranges::count_if(std::span(values).subspan(first, row),
                                                     [](float value) { return value != value; });
            if (count == 0) continue;
            ++found_;
            if (text_.empty())
                text_ = view.name + " holds " + std::to_string(count) + " NaN in sample " + batch.names[first / row];
        }
    }
    std::size_t found() const { return found_; }
    std::string describe() const {
        return text_ + (found_ > 1 ? ", and " + std::to_string(found_ - 1) + " more like it" : "");
    }

private:
    std::size_t found_ = 0; ///< tensors of one sample
    std::string text_;      ///< of the first
};

struct Scored {
    std::size_t index;
    float score;
};

std::vector<float> softmax(std::span<const float> row) {
    std::vector<float> values(row.begin(), row.end());
    const float top = *std::max_element(values.begin(), values.end());
    double sum = 0;
    for (float& value : values) {
        value = std::exp(value - top);
        sum += static_cast<double>(value);
    }
    for (float& value : values)
        value = static_cast<float>(static_cast<double>(value) / sum);
    return values;
}

std::vector<Scored> best(std::span<const float> row, std::size_t count) {
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    count = std::min(count, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::size_t a, std::size_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
    std::vector<Scored> list;
    for (std::size_t i = 0; i < count; ++i)
        list.push_back({order[i], row[order[i]]});
    return list;
}

/// One float32 row a sample.
bool has_rows(const TensorView& view) {
    return view.type == DataType::float32 && view.shape.size() == 2 && view.shape[1] > 1;
}

bool has_word(const std::string& name, std::initializer_list<std::string_view> words) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::ranges::any_of(words, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

/// Whether a row of the output holds scores over classes although the model names none: by what the output is called,
/// by probabilities in it, or, where pictures go in, by there being no other output. An embedding is as flat a row of
/// numbers, and its largest say nothing.
bool holds_scores(const EngineInfo& info, const TensorView& view) {
    if (!has_rows(view) || has_word(view.name, {"embed", "feature", "hidden", "pool"})) return false;
    if (has_word(view.name, {"logit", "prob", "score", "softmax"})) return true;
    return (!info.preprocess.empty() && info.outputs.size() == 1) ||
           detect_output_kind(view.as<const float>(), static_cast<std::size_t>(view.shape[1])) ==
               OutputKind::probabilities;
}

bool has_names(const EngineInfo& info, const TensorView& view) {
    return has_rows(view) && static_cast<std::size_t>(view.shape[1]) == info.labels.size();
}

/// The output with a column for each class name, or else the first that holds scores; nullptr if there is none.
const TensorView* class_scores(const EngineInfo& info, const std::vector<TensorView>& outputs) {
    auto found = std::ranges::find_if(outputs, [&](const auto& view) { return has_names(info, view); });
    if (found == outputs.end())
        found = std::ranges::find_if(outputs, [&](const auto& view) { return holds_scores(info, view); });
    return found == outputs.end() ? nullptr : &*found;
}

class Runner {
public:
    Runner(const RunArguments& options, const Context& context) : options_(options), context_(context) {}

    Result<void> run() {
        EngineLoadOptions load;
        load.devices = options_.devices;
        LATHE_TRY(const Engine engine, Engine::load(options_.engine, load));
        LATHE_TRY(Session session, engine.make_session());
        info_ = &engine.info();
        embeds_ = gives_embeddings(*info_);
        LATHE_CHECK(find_head());
        LATHE_TRY(preprocess_, preprocess_to_use());
        const std::vector<InputSpec> specs = input_specs(*info_);
        DatasetOptions data_options;
        data_options.samples = options_.samples;
        data_options.pictures = options_.preprocess_on == "gpu";
        data_options.text.columns = options_.columns;
        data_options.text.make_tokenizer = openvino::make_tokenizer;
        data_options.text.labels = TextLabels::none;
        if (!options_.texts.empty()) {
            LATHE_TRY(const auto dataset,
                      dataset_of_texts(options_.texts, options_.pairs, specs, with_lengths(data_options, *info_)));
            LATHE_CHECK(run_dataset(*dataset, batch_size(), session));
        }
        for (const auto& path : options_.inputs) {
            LATHE_TRY(const std::unique_ptr<Dataset> dataset,
                      open_dataset(path, preprocess_, specs, with_lengths(data_options, *info_)));
            source_ = path;
            const bool whole = is_array_file(path) && is_one_request(dataset->size());
            LATHE_CHECK(run_dataset(*dataset, whole ? dataset->size() : batch_size(), session));
        }
        if (!options_.raw_inputs.empty()) LATHE_CHECK(run_raw(session));
        return finish();
    }

private:
    /// A detector is known by its outputs, or told; a network that finds poses is only told.
    Result<void> find_head() {
        if (options_.task == "keypoints") {
            LATHE_TRY(poses_, keypoint_head(*info_));
            return {};
        }
        if (options_.task == "instances") {
            LATHE_TRY(head_, instance_head(*info_, options_.head));
            return {};
        }
        auto head = detection_head(*info_, options_.head);
        if (head) {
            head_ = *std::move(head);
            if (options_.task == "detection") head_->masks.reset();
        } else if (!options_.head.empty() || !options_.draw.empty() || !options_.task.empty()) {
            return std::move(head).error();
        }
        return {};
    }

    Result<std::optional<Preprocess>> preprocess_to_use() const {
        return preprocess_for(PreprocessChoice(options_.preprocess), *info_);
    }

    /// The batch size asked for, or the profile's favourite.
    std::size_t batch_size() const {
        if (options_.batch_size > 0) return options_.batch_size;
        if (head_ && head_->one_sample) return 1;
        const bool has_axis = !info_->inputs.empty() && !info_->inputs[0].range.opt.empty();
        return has_axis ? static_cast<std::size_t>(std::max<std::int64_t>(1, info_->inputs[0].range.opt[0])) : 1;
    }

    /// Whether arrays of so many rows are given as they are where nothing is said: axis 0 may be time or points, which
    /// cannot be cut like samples.
    bool is_one_request(std::size_t rows) const {
        if (options_.batch_size > 0 || (head_ && head_->one_sample) || info_->inputs.empty()) return false;
        const ShapeRange& range = info_->inputs[0].range;
        const auto count = static_cast<std::int64_t>(rows);
        return !range.min.empty() && range.min[0] <= count && count <= range.max[0];
    }

    Result<void> run_dataset(Dataset& dataset, std::size_t batch_size, Session& session) {
        const std::size_t batch_limit = std::min(batch_size, std::max<std::size_t>(1, dataset.size()));
        if (dataset.size() > batch_limit) context_.progress().begin("running", dataset.size());
        while (true) {
            LATHE_CHECK(context_.progress().check());
            LATHE_TRY(std::optional<Batch> batch, dataset.next(batch_limit));
            if (!batch) break;
            LATHE_TRY(const std::vector<TensorView> outputs, run_batch(*batch, session));
            if (!options_.output.empty()) LATHE_CHECK(collector_.add(outputs));
            cut_.add(*batch);
            if (head_ || poses_) {
                LATHE_CHECK(show_detections(*batch, outputs));
            } else {
                show(*batch, outputs);
            }
            context_.progress().advance(batch->size());
        }
        context_.progress().end();
        return {};
    }

    /// One request, of bytes as they are.
    Result<void> run_raw(Session& session) {
        Batch batch;
        LATHE_TRY(batch.inputs, load_raw_inputs(options_.raw_inputs, info_->inputs));
        const Shape& first = batch.inputs.at(0).shape;
        for (std::int64_t i = 0; i < (first.empty() ? 1 : first[0]); ++i)
            batch.names.push_back("sample " + std::to_string(i));
        LATHE_TRY(const std::vector<TensorView> outputs, run_batch(batch, session));
        if (!options_.output.empty()) LATHE_CHECK(collector_.add(outputs));
        show(batch, outputs);
        return {};
    }

    Result<std::vector<TensorView>> run_batch(Batch& batch, Session& session) {
        if (!batch.pictures.empty() && preprocess_) {
            LATHE_TRY(const PictureBatch pictures, picture_batch(batch.pictures, *preprocess_));
            return session.run_pictures(pictures);
        }
        std::vector<TensorView> views;
        for (auto& input : batch.inputs) {
            views.push_back(input.view());
            nan_inputs_.look(views.back(), batch);
        }
        LATHE_TRY(std::vector<TensorView> outputs, session.run(views));
        for (const TensorView& output : outputs)
            nan_outputs_.look(output, batch);
        return outputs;
    }

    void show(const Batch& batch, const std::vector<TensorView>& outputs) {
        if (embeds_ && outputs[0].type == DataType::float32) {
            show_embeddings(batch, outputs[0]);
            return;
        }
        const TensorView* const scores = class_scores(*info_, outputs);
        const bool classified = scores != nullptr && scores->shape[0] == static_cast<std::int64_t>(batch.size());
        for (std::size_t sample = 0; sample < batch.size(); ++sample) {
            ++count_;
            if (classified) {
                show_classes(batch.names[sample], *scores, sample);
            } else {
                samples_.push_back({{"sample", batch.names[sample]}});
            }
        }
        if (classified || !options_.output.empty()) return;
        for (const auto& view : outputs) {
            context_.print(batch.names.front() + ": output " + view.name + " " + to_string(view.type) + " " +
                           to_string(view.shape) + " (write it with --output FILE.npz)");
        }
    }

    /// What one sample holds.
    struct Found {
        std::vector<Detection> detections;
        std::vector<Json> json; ///< of each, with its mask or points
        std::vector<ObjectMask> masks;
        std::vector<std::vector<Keypoint>> points;
    };

    Result<Found> found_in(const Batch& batch, const std::vector<HostTensor>& outputs, std::size_t sample) const {
        std::optional<PicturePlace> place;
        if (!batch.sizes.empty() && preprocess_) {
            const PictureSize& size = batch.sizes[sample];
            place = PicturePlace{preprocess_->mapping(size.width, size.height), size};
        }
        Found found;
        const auto take = [&](const auto& each, const Detection& detection) {
            found.detections.push_back(detection);
            found.json.push_back(to_json(each));
        };
        if (poses_) {
            LATHE_TRY(std::vector<Pose> poses, decode_poses(*poses_, outputs, sample, options_.decode));
            if (place) map_back(poses, place->mapping);
            for (Pose& pose : poses) {
                take(pose, pose.detection);
                found.points.push_back(std::move(pose.points));
            }
        } else if (head_->masks) {
            LATHE_TRY(std::vector<Instance> instances,
                      decode_instances(*head_, outputs, sample, options_.decode, place));
            for (Instance& instance : instances) {
                take(instance, instance.detection);
                found.masks.push_back(std::move(instance.mask));
            }
        } else {
            LATHE_TRY(std::vector<Detection> detections, decode(*head_, outputs, sample, options_.decode));
            if (place) map_back(detections, place->mapping);
            for (const Detection& detection : detections)
                take(detection, detection);
        }
        return found;
    }

    Result<void> show_detections(const Batch& batch, const std::vector<TensorView>& outputs) {
        std::vector<HostTensor> tensors;
        for (const TensorView& view : outputs) {
            HostTensor tensor(view.name, DataType::float32, view.shape);
            LATHE_CHECK(convert_elements(view.type, view.bytes, DataType::float32, tensor.bytes, view.name));
            tensors.push_back(std::move(tensor));
        }
        for (std::size_t sample = 0; sample < batch.size(); ++sample) {
            LATHE_TRY(const Found found, found_in(batch, tensors, sample));
            ++count_;
            context_.print(context_.bold(batch.names[sample]));
            Json list = Json::array();
            for (std::size_t i = 0; i < found.detections.size(); ++i) {
                const Detection& detection = found.detections[i];
                const std::string name = class_name(info_->labels, detection.class_index);
                const Box& box = detection.box;
                char text[160];
                std::snprintf(text, sizeof text, "  %6.2f %%  %-14s %.0f, %.0f to %.0f, %.0f",
                              static_cast<double>(detection.score) * 100.0, name.c_str(), box.left, box.top,
                              box.right(), box.bottom());
                context_.print(text);
                list.push_back(found.json[i]);
                list.back()["name"] = name;
            }
            samples_.push_back({{"sample", batch.names[sample]}, {"detections", std::move(list)}});
            if (!options_.draw.empty()) LATHE_CHECK(draw(batch, sample, found));
        }
        return {};
    }

    /// Into the file named, for one picture, else into a folder under the pictures' own names.
    Result<void> draw(const Batch& batch, std::size_t sample, const Found& found) const {
        if (batch.sizes.empty()) {
            return Error{ErrorCode::invalid_argument, "boxes are drawn into pictures, and the data are arrays",
                         source_.string(), "give pictures, or leave out --draw"};
        }
        std::error_code ignored;
        const bool folder = std::filesystem::is_directory(source_, ignored);
        const std::filesystem::path& name = batch.names[sample];
        const std::filesystem::path from = folder ? source_ / name : source_;
        const bool one = has_image_extension(options_.draw);
        if (one && (folder || options_.inputs.size() > 1)) {
            return Error{ErrorCode::invalid_argument, "one file for several pictures", options_.draw.string(),
                         "give --draw a folder"};
        }
        LATHE_TRY(Image image, read_image(from));
        // The best is drawn last.
        for (std::size_t i = found.masks.size(); i-- > 0;)
            draw_mask(image, found.masks[i], found.detections[i].class_index);
        for (const std::vector<Keypoint>& points : found.points)
            draw_points(image, points);
        draw_detections(image, found.detections, info_->labels);
        std::filesystem::path to = options_.draw;
        if (!one) {
            to /= from.filename();
            std::filesystem::create_directories(options_.draw, ignored);
        }
        std::error_code none;
        if (std::filesystem::equivalent(to, from, none) && !none) {
            return Error{ErrorCode::invalid_argument, "the picture itself would be overwritten", to.string(),
                         "give --draw another file or folder"};
        }
        LATHE_CHECK(write_image(to, image));
        context_.print(to.string() + ": " + std::to_string(found.detections.size()) + " boxes");
        return {};
    }

    /// How alike each text is to the first one.
    void show_embeddings(const Batch& batch, const TensorView& embeddings) {
        const std::span<const float> values = embeddings.as<const float>();
        const std::size_t width = values.size() / batch.size();
        for (std::size_t sample = 0; sample < batch.size(); ++sample) {
            const std::span<const float> row = values.subspan(sample * width, width);
            if (count_ == 0) first_embedding_.assign(row.begin(), row.end());
            ++count_;
            const double alike = cosine(first_embedding_, row);
            char text[32];
            std::snprintf(text, sizeof text, "%7.4f  ", alike);
            if (count_ == 1) {
                context_.print("embeddings of " + std::to_string(width) +
                               " values (--output FILE.npz writes them); cosine with the first text's:");
            }
            context_.print(text + batch.names[sample]);
            samples_.push_back({{"sample", batch.names[sample]}, {"cosine_to_first", alike}});
        }
    }

    void show_classes(const std::string& name, const TensorView& scores, std::size_t sample) {
        const auto classes = static_cast<std::size_t>(scores.shape[1]);
        const std::span<const float> row = scores.as<const float>().subspan(sample * classes, classes);
        const bool named = has_names(*info_, scores);
        const bool probabilities = detect_output_kind(row, classes) == OutputKind::probabilities;
        const std::vector<float> chances = probabilities ? std::vector<float>(row.begin(), row.end()) : softmax(row);
        if (!probabilities && !told_softmax_) {
            context_.print("output " + scores.name + " holds logits; probabilities are their softmax");
            told_softmax_ = true;
        }
        Json list = Json::array();
        context_.print(context_.bold(name));
        for (const auto& [index, chance] : best(chances, options_.top_k)) {
            const std::string label = named ? info_->labels[index] : "class " + std::to_string(index);
            char percent[32];
            std::snprintf(percent, sizeof percent, "%6.2f %%", static_cast<double>(chance) * 100.0);
            context_.print("  " + std::string(percent) + "  " + label);
            list.push_back({{"class", index}, {"name", label}, {"probability", chance}, {"score", row[index]}});
        }
        samples_.push_back({{"sample", name}, {"softmax_applied", !probabilities}, {"top", std::move(list)}});
    }

    Result<void> finish() {
        if (!options_.output.empty() && count_ > 0) {
            std::vector<TensorView> views;
            for (auto& tensor : collector_.tensors())
                views.push_back(tensor.view());
            LATHE_CHECK(write_npz(options_.output, views));
            context_.print(options_.output.string() + ": outputs of " + std::to_string(count_) + " samples");
        }
        if (cut_.cut > 0) context_.warn(cut_.describe());
        if (nan_inputs_.found() > 0) {
            context_.warn("input " + nan_inputs_.describe() + ": what the network answers of it means nothing");
        } else if (nan_outputs_.found() > 0) {
            context_.warn("output " + nan_outputs_.describe() + ", though no input does");
        }
        Json document{{"kind", "run"},
                      {"version", 1},
                      {"engine", options_.engine.string()},
                      {"precision", to_string(info_->precision)},
                      {"samples", samples_},
                      {"output", options_.output.string()}};
        if (cut_.limit > 0) {
            document["cut_samples"] = cut_.cut;
            document["token_limit"] = cut_.limit;
        }
        if (nan_inputs_.found() > 0) document["nan_inputs"] = nan_inputs_.found();
        if (nan_outputs_.found() > 0) document["nan_outputs"] = nan_outputs_.found();
        context_.print_json(std::move(document));
        return {};
    }

    const RunArguments& options_;
    const Context& context_;
    const EngineInfo* info_ = nullptr;
    std::optional<DetectionHead> head_;
    std::optional<PoseHead> poses_;
    std::filesystem::path source_; ///< of the samples being run
    bool embeds_ = false;          ///< rather than scores of classes
    std::optional<Preprocess> preprocess_;
    Collector collector_;
    Json samples_ = Json::array();
    std::size_t count_ = 0;
    CutTexts cut_;
    NanWatch nan_inputs_;
    NanWatch nan_outputs_;
    bool told_softmax_ = false;
    std::vector<float> first_embedding_;
};

} // namespace

void add_run(Commands& commands) {
    auto options = std::make_shared<RunArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"run",
         "Run an engine on images, arrays or texts: the likeliest classes, the objects found, or the outputs as .npz.",
         {"lathe run lite0.engine photo.jpg", "lathe run lite0.engine photos/ --top-k 3 --json",
          "lathe run lite0.engine inputs.npy --output outputs.npz --batch-size 16",
          "lathe run sentiment.engine --text 'a quiet, moving film'",
          "lathe run yolox.engine street.jpg --draw boxes.jpg",
          "lathe run pose.engine street.jpg --task keypoints --draw poses.jpg",
          "lathe run decode.engine --prefill prefill.engine --text 'the quiet' --max-tokens 20"}},
        [options, &context] {
            if (options->generate.max_tokens > 0) {
                if (!options->inputs.empty() || !options->raw_inputs.empty() || !options->output.empty()) {
                    return Result<void>(Error{ErrorCode::invalid_argument,
                                              "a text is continued from --text or --ids, and no file is written",
                                              "--max-tokens", "leave out files and --output"});
                }
                return run_generation(options->engine, options->generate, options->texts, options->devices, context);
            }
            if (options->inputs.empty() && options->texts.empty() && options->raw_inputs.empty()) {
                return Result<void>(Error{ErrorCode::invalid_argument, "there is nothing to run on", "",
                                          "name images, arrays or a text file, or give --text"});
            }
            Runner runner(*options, context);
            return runner.run();
        });
    command.add_option("engine", options->engine, "Engine file (see `lathe build`)")->required();
    command.add_option("inputs", options->inputs,
                       "Images, a folder of them, .npy/.npz arrays, or texts (.tsv, .csv, .jsonl)");
    command.add_option("--loadInputs", options->raw_inputs,
                       "One request of raw bytes, as trtexec takes it: NAME:FILE,NAME:FILE, one file an input");
    command.add_option("--text", options->texts, "A text for a model with a tokenizer; may be repeated")
        ->allow_extra_args(false);
    command.add_option("--text-pair", options->pairs, "The second text of each --text, where the model reads pairs")
        ->allow_extra_args(false);
    command.add_option("--columns", options->columns, columns_help);
    add_generate_options(command, options->generate);
    command.add_option("-o,--output", options->output, "Write the raw outputs to this .npz file");
    command.add_option(
        "--draw", options->draw,
        "Detectors: write the picture with its boxes, masks and keypoints to this .jpg or .png, several ones into this "
        "folder");
    command
        .add_option("--task", options->task,
                    "Detectors: what to look for in the outputs: boxes alone, masks (instances), or poses (keypoints, "
                    "which the outputs' shapes do not tell from a detector's). Default: instances or detection, as the "
                    "shapes tell")
        ->check(CLI::IsMember({"detection", "instances", "keypoints"}));
    command.add_option("--head", options->head,
                       "Detectors: how the outputs hold detections: " + head_form_names() +
                           " (default: recognised by their shapes)");
    command
        .add_option("--score-threshold", options->decode.score_threshold, "Detectors: the least score that is shown")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command.add_option("--top-k", options->top_k, "Classes to show a sample")
        ->check(positive_number())
        ->capture_default_str();
    command.add_option(
        "--batch-size", options->batch_size,
        "Samples a request; must be within the engine's range. Default: its favourite; arrays that fit the "
        "range go in as they are");
    command.add_option("--samples", options->samples, "Run only this many samples, evenly spread; 0 for all");
    command.add_option("--preprocess", options->preprocess, preprocess_help());
    command
        .add_option(
            "--preprocess-on", options->preprocess_on,
            "Who resizes, crops and normalises pictures: cpu, or gpu with a GPU engine (the same to the last bit)")
        ->check(CLI::IsMember({"cpu", "gpu"}))
        ->capture_default_str();
    command.add_option("--devices", options->devices, "GPU: index of the one to run on; else the first")
        ->expected(1)
        ->check(not_negative_number());
}

} // namespace lathe::cli
