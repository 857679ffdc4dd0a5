#include "lathe/data.hpp"

#include "api/model_data.hpp"
#include "backends/openvino/tokenizer.hpp"
#include "data/image.hpp"
#include "support/json.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

std::vector<InputSpec> input_specs(const Model& model) {
    std::vector<InputSpec> specs;
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        specs.push_back({input.name, input.type, input.shape().value_or(Shape{})});
    }
    return specs;
}

Result<std::optional<Preprocess>> preprocess_of(const Model& model) {
    const std::string* stored = model.find_metadata("lathe.preprocess");
    if (stored == nullptr) return std::optional<Preprocess>{};
    LATHE_TRY(const Json json, parse_json(*stored, "metadata lathe.preprocess"));
    LATHE_TRY(const Preprocess preprocess, Preprocess::from_json(json, "metadata lathe.preprocess"));
    return std::optional<Preprocess>(preprocess);
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

Result<std::optional<Preprocess>> preprocess_from_text(std::string_view text) {
    if (text.empty()) return std::optional<Preprocess>{};
    LATHE_TRY(const Json json, parse_json(text, "preprocessing"));
    LATHE_TRY(const Preprocess preprocess, Preprocess::from_json(json, "preprocessing"));
    return std::optional<Preprocess>(preprocess);
}

std::string preprocess_json(const Model& model) {
    const std::string* stored = model.find_metadata("lathe.preprocess");
    return stored == nullptr ? std::string() : *stored;
}

Result<HostTensor> load_images(std::span<const std::filesystem::path> files, std::string_view preprocess,
                               std::string name) {
    if (files.empty()) return Error{ErrorCode::invalid_argument, "no image files", "", "name at least one image"};
    LATHE_TRY(const auto settings, preprocess_from_text(preprocess));
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
