#include "lathe/data.hpp"

#include "api/model_data.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "data/image.hpp"
#include "onnx/onnx.hpp"
#include "support/json.hpp"
#include "support/thread_pool.hpp"
#include "tasks/detection/usual_preprocess.hpp"

namespace lathe {

std::vector<InputSpec> input_specs(const Model& model) {
    std::vector<InputSpec> specs;
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        Shape shape = input.shape().value_or(Shape{});
        const std::int64_t first = shape.empty() ? -1 : shape[0];
        specs.push_back({input.name, input.type, std::move(shape), first});
    }
    return specs;
}

Result<std::optional<Preprocess>> preprocess_of(const Model& model) {
    return Preprocess::from_text(preprocess_json(model), "metadata lathe.preprocess");
}

std::optional<DetectionHead> head_of(const Model& model) {
    const std::vector<InputSpec> inputs = input_specs(model);
    if (inputs.size() != 1 || inputs.front().shape.size() != 4) return std::nullopt;
    const Shape& shape = inputs.front().shape;
    const std::size_t first = shape[1] == 3 || shape[3] != 3 ? 2 : 1;
    if (shape[first] <= 0 || shape[first + 1] <= 0) return std::nullopt;
    std::vector<OutputShape> outputs;
    for (const ValueInfo& output : model.graph.outputs) {
        Shape own = output.shape().value_or(Shape{});
        const bool sampled = own.empty() || is_sampled(own[0], shape[0]);
        outputs.push_back({output.name, std::move(own), sampled});
    }
    return recognise_head(outputs, static_cast<std::size_t>(shape[first]), static_cast<std::size_t>(shape[first + 1]));
}

std::optional<Preprocess> assumed_preprocess(const Model& model) {
    const auto head = head_of(model);
    if (!head) return std::nullopt;
    const bool last = input_specs(model).front().shape[1] != 3;
    return usual_preprocess(*head, last ? Layout::nhwc : Layout::nchw);
}

namespace {

/// Height and width that Ultralytics' exports tell.
std::optional<Preprocess::Size> trained_size(const Model& model) {
    const std::string* told = model.find_metadata("imgsz");
    if (told == nullptr) return std::nullopt;
    const auto json = parse_json(*told, "metadata imgsz");
    if (!json || !json->is_array() || json->size() != 2) return std::nullopt;
    for (const Json& side : *json)
        if (!side.is_number_integer() || side.get<std::int64_t>() < 1 || side.get<std::int64_t>() > 65536)
            return std::nullopt;
    return Preprocess::Size{json->at(0).get<std::size_t>(), json->at(1).get<std::size_t>()};
}

} // namespace

Result<std::optional<std::string>> fix_picture_size(Model& model, const std::optional<Preprocess>& preprocess) {
    const std::vector<InputSpec> inputs = input_specs(model);
    if (inputs.size() != 1 || inputs.front().shape.size() != 4) return std::optional<std::string>();
    const Shape& shape = inputs.front().shape;
    const std::size_t first = shape[3] == 3 && shape[1] != 3 ? 1 : 2;
    if (shape[first] > 0 && shape[first + 1] > 0) return std::optional<std::string>();
    std::optional<Preprocess::Size> size = trained_size(model);
    if (preprocess) {
        const Shape made = preprocess->output_shape();
        const std::size_t at = preprocess->layout == Layout::nhwc ? 1 : 2;
        size = {static_cast<std::size_t>(made[at]), static_cast<std::size_t>(made[at + 1])};
    }
    if (!size) return std::optional<std::string>();
    LATHE_TRY(std::string sides, set_picture_size(model, *size));
    return std::optional(std::move(sides));
}

Result<std::string> set_picture_size(Model& model, Preprocess::Size size) {
    const std::vector<InputSpec> inputs = input_specs(model);
    std::string sides = std::to_string(size.height) + "x" + std::to_string(size.width);
    const bool last = inputs.front().shape[3] == 3 && inputs.front().shape[1] != 3;
    LATHE_CHECK(set_input_shapes(model, {last ? "?x" + sides + "x?" : "?x?x" + sides}));
    return sides;
}

TextOptions text_options(const Model& model, std::string columns) {
    TextOptions options;
    options.columns = std::move(columns);
    if (const std::string* stored = model.find_metadata("lathe.tokenizer"); stored != nullptr) {
        options.tokenizer = *stored;
    }
    options.make_tokenizer = openvino::make_tokenizer;
    options.labels = TextLabels::none;
    return options;
}

std::string preprocess_json(const Model& model) {
    const std::string* stored = model.find_metadata("lathe.preprocess");
    return stored == nullptr ? std::string() : *stored;
}

Result<HostTensor> load_images(std::span<const std::filesystem::path> files, std::string_view preprocess,
                               std::string name) {
    if (files.empty()) return Error{ErrorCode::invalid_argument, "no image files", "", "name at least one image"};
    LATHE_TRY(const auto settings, Preprocess::from_text(preprocess, "preprocessing"));
    if (!settings) {
        return Error{ErrorCode::invalid_argument, "images need preprocessing, and none was given", "",
                     "export the model with lathe export, which writes it down, or give JSON such as "
                     "{\"resize\": [224, 224], \"scale\": 0.00392}"};
    }
    Shape shape = settings->output_shape();
    shape[0] = static_cast<std::int64_t>(files.size());
    HostTensor images(std::move(name), DataType::float32, std::move(shape));
    const std::size_t one = settings->output_count();
    const auto values = images.as<float>();
    std::vector<Result<void>> results(files.size());
    ThreadPool().for_each(files.size(), [&](std::size_t i) {
        const auto load = [&]() -> Result<void> {
            LATHE_TRY(const Image image, read_image(files[i]));
            return settings->apply(image, values.subspan(i * one, one));
        };
        results[i] = load();
    });
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (!results[i]) return std::move(results[i]).error();
    }
    return images;
}

} // namespace lathe
