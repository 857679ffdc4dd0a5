#include "triton/pixels.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "data/image.hpp"
#include "data/picture_batch.hpp"

namespace lathe::triton {

namespace {

constexpr std::size_t channels = 3;

std::size_t size_at(const RequestInputs& request, std::size_t axis) {
    return static_cast<std::size_t>(request.inputs[0].shape[axis]);
}

std::size_t picture_bytes(const RequestInputs& request) { return size_at(request, 1) * size_at(request, 2) * channels; }

bool may_be(const Json& size, std::int64_t wanted) {
    const auto number = size.is_number_integer() ? size.get<std::int64_t>()
                        : size.is_string()       ? std::atoll(size.get_ref<const std::string&>().c_str())
                                                 : 0;
    return number == -1 || (wanted > 0 ? number == wanted : number > 0);
}

} // namespace

Result<std::optional<PixelStage>> PixelStage::of(const Json& config, const EngineInfo& info) {
    const Json inputs = config.value("input", Json::array());
    if (!inputs.is_array() || inputs.size() != 1 || inputs[0].value("data_type", Json()) != "TYPE_UINT8" ||
        info.inputs.size() != 1 || info.inputs[0].type == DataType::uint8)
        return std::optional<PixelStage>();
    const std::string where = "config.pbtxt: input";
    if (info.inputs[0].type != DataType::float32 || inputs[0].value("name", Json()) != info.inputs[0].name) {
        return Error{ErrorCode::invalid_argument,
                     "TYPE_UINT8 is for models with one input of float32, a picture, and has its name", where,
                     "write the engine's own type and name"};
    }
    const Json dims = inputs[0].value("dims", Json::array());
    if (!dims.is_array() || dims.size() != 3 || !may_be(dims[0], 0) || !may_be(dims[1], 0) ||
        !may_be(dims[2], static_cast<std::int64_t>(channels))) {
        return Error{ErrorCode::invalid_argument, "the dims of pictures are " + dims.dump(), where,
                     "write dims: [-1, -1, 3] for height, width and colours, or sizes in their place"};
    }
    LATHE_TRY(const auto preprocess, Preprocess::from_text(info.preprocess, "the engine's metadata"));
    if (!preprocess) {
        return Error{ErrorCode::invalid_argument, "the engine does not say how a picture becomes its input", where,
                     "build it from a model with the metadata lathe.preprocess"};
    }
    PixelStage stage(*preprocess, info.inputs[0]);
    Shape shape = preprocess->output_shape();
    const ShapeRange& range = info.inputs[0].range;
    if (!range.max.empty()) shape[0] = range.min[0];
    if (range.max.empty() || !range.contains(shape)) {
        return Error{ErrorCode::invalid_argument,
                     "the engine's preprocessing gives " + to_string(preprocess->output_shape()) + ", and it takes " +
                         range.describe(),
                     where, "build the engine with a --shape that covers this one"};
    }
    stage.on_device_ = info.device == "cuda" && check_picture_batch(*preprocess);
    return std::optional<PixelStage>(std::move(stage));
}

Result<void> PixelStage::check(RequestInputs& request, std::int64_t most) const {
    const InputPieces& given = request.inputs[0];
    const Shape& shape = given.shape;
    const bool fits = shape.size() == 4 && shape[3] == static_cast<std::int64_t>(channels) && shape[0] >= 1 &&
                      shape[0] <= most && shape[1] >= 1 && shape[2] >= 1 &&
                      shape[1] <= static_cast<std::int64_t>(max_image_side) &&
                      shape[2] <= static_cast<std::int64_t>(max_image_side) &&
                      shape[1] * shape[2] <= static_cast<std::int64_t>(max_image_pixels);
    if (!fits) {
        return Error{ErrorCode::out_of_range,
                     "shape " + to_string(shape) + " is not 1 to " + std::to_string(most) +
                         " pictures of [height, width, 3]",
                     name_, "send RGB pictures of one size in a request"};
    }
    const std::size_t wanted = size_at(request, 0) * picture_bytes(request);
    if (given.bytes() != wanted) {
        return Error{ErrorCode::invalid_argument,
                     "the input holds " + std::to_string(given.bytes()) + " bytes, and " + to_string(shape) +
                         " of uint8 takes " + std::to_string(wanted),
                     name_, ""};
    }
    request.samples = shape[0];
    request.length = 0;
    return {};
}

Result<PictureBatch> PixelStage::batch(std::span<const RequestInputs* const> requests, std::int64_t samples,
                                       std::vector<std::byte>& kept) const {
    std::size_t torn = 0;
    for (const RequestInputs* request : requests)
        torn += request->inputs[0].pieces.size() == 1 ? 0 : request->inputs[0].bytes();
    if (kept.size() < torn) kept.resize(torn);
    std::byte* to = kept.data();
    std::vector<PixelView> views;
    for (const RequestInputs* request : requests) {
        const auto& pieces = request->inputs[0].pieces;
        const std::byte* pixels = pieces.size() == 1 ? pieces[0].data() : to;
        if (pieces.size() != 1) {
            for (const auto& piece : pieces) {
                if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
                to += piece.size();
            }
        }
        for (std::size_t i = 0; i < size_at(*request, 0); ++i) {
            views.push_back({reinterpret_cast<const std::uint8_t*>(pixels) + i * picture_bytes(*request),
                             size_at(*request, 2), size_at(*request, 1)});
        }
    }
    LATHE_TRY(PictureBatch batch, picture_batch(views, preprocess_));
    batch.pictures.resize(std::max(batch.pictures.size(), static_cast<std::size_t>(samples)), batch.pictures.back());
    return batch;
}

Result<HostTensor> PixelStage::convert(const RequestInputs& request, ThreadPool& pool) const {
    const std::size_t samples = size_at(request, 0);
    const std::size_t bytes = picture_bytes(request);
    std::vector<std::byte> whole;
    for (const auto& piece : request.inputs[0].pieces)
        whole.insert(whole.end(), piece.begin(), piece.end());
    Shape shape = preprocess_.output_shape();
    shape[0] = request.samples;
    HostTensor made(name_, type_, shape);
    const std::size_t floats = preprocess_.output_count();
    std::vector<std::optional<Error>> failures(samples);
    pool.for_each(samples, [&](std::size_t i) {
        try {
            Image image(size_at(request, 2), size_at(request, 1));
            std::memcpy(image.pixels.data(), whole.data() + i * bytes, bytes);
            if (auto done = preprocess_.apply(image, made.as<float>().subspan(i * floats, floats)); !done)
                failures[i] = std::move(done).error();
        } catch (const std::exception& failure) { // no memory
            failures[i] = Error{ErrorCode::out_of_memory, failure.what(), "", ""};
        }
    });
    for (std::size_t i = 0; i < samples; ++i) {
        if (failures[i]) return std::move(*failures[i]).in(name_ + " " + std::to_string(i));
    }
    return made;
}

Result<PictureBatch> PixelStage::blank(std::int64_t samples, std::vector<std::byte>& kept) const {
    const Preprocess::Size size = preprocess_.output_size();
    kept.assign(size.height * size.width * channels, std::byte{0});
    const PixelView view{reinterpret_cast<const std::uint8_t*>(kept.data()), size.width, size.height};
    const std::vector<PixelView> views(static_cast<std::size_t>(samples), view);
    return picture_batch(views, preprocess_);
}

} // namespace lathe::triton
