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
    return Preprocess::from_text(preprocess_json(model), "metadata lathe.preprocess");
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
