#include "triton/pictures.hpp"

#include <exception>
#include <string>

#include "data/image.hpp"

namespace lathe::triton {

Result<std::vector<std::span<const std::byte>>> split_strings(std::span<const std::byte> bytes, std::size_t count) {
    constexpr std::size_t prefix = 4;
    std::vector<std::span<const std::byte>> strings;
    while (bytes.size() >= prefix && strings.size() < count) {
        std::size_t length = 0;
        for (std::size_t i = 0; i < prefix; ++i)
            length |= std::to_integer<std::size_t>(bytes[i]) << (8 * i);
        bytes = bytes.subspan(prefix);
        if (length > bytes.size()) break;
        strings.push_back(bytes.first(length));
        bytes = bytes.subspan(length);
    }
    if (strings.size() == count && bytes.empty()) return strings;
    return Error{ErrorCode::parse_error, "the input does not hold " + std::to_string(count) + " strings", "",
                 "send elements of type BYTES, each with its length before it"};
}

Result<std::optional<PictureStage>> PictureStage::of(const Json& config, const EngineInfo& info) {
    const Json inputs = config.value("input", Json::array());
    if (!inputs.is_array() || inputs.size() != 1 || inputs[0].value("data_type", Json()) != "TYPE_STRING")
        return std::optional<PictureStage>();
    const std::string where = "config.pbtxt: input";
    if (info.inputs.size() != 1 || info.inputs[0].type != DataType::float32) {
        return Error{ErrorCode::invalid_argument, "TYPE_STRING is for models with one input of float32, a picture",
                     where, "write the engine's own type"};
    }
    LATHE_TRY(const auto preprocess, Preprocess::from_text(info.preprocess, "the engine's metadata"));
    if (!preprocess) {
        return Error{ErrorCode::invalid_argument, "the engine does not say how a picture becomes its input", where,
                     "build it from a model with the metadata lathe.preprocess"};
    }
    PictureStage stage(*preprocess);
    const ShapeRange& range = info.inputs[0].range;
    if (range.max.empty() || !range.contains(stage.shape(range.min[0]))) {
        return Error{ErrorCode::invalid_argument,
                     "the engine's preprocessing gives " + to_string(stage.shape(1)) + ", and it takes " +
                         range.describe(),
                     where, "build the engine with a --shape that covers this one"};
    }
    return std::optional<PictureStage>(stage);
}

Shape PictureStage::shape(std::int64_t samples) const {
    Shape shape = preprocess_.output_shape();
    shape[0] = samples;
    return shape;
}

void PictureStage::run(std::span<PictureJob> jobs, ThreadPool& pool) const {
    pool.for_each(jobs.size(), [&](std::size_t i) {
        PictureJob& job = jobs[i];
        try {
            const auto image = decode_image(job.file, "the picture");
            if (image) {
                job.done = preprocess_.apply(*image, job.out);
            } else {
                job.done = image.error();
            }
        } catch (const std::exception& failure) { // no memory
            job.done = Error{ErrorCode::out_of_memory, failure.what(), "the picture", ""};
        }
    });
}

} // namespace lathe::triton
