#include "data/picture_batch.hpp"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace lathe {

namespace {

PictureAxis axis_of(const ResizeWeights& weights) {
    PictureAxis axis;
    axis.taps = weights.taps;
    axis.weights = weights.values;
    for (std::size_t i = 0; i < weights.first.size(); ++i) {
        axis.first.push_back(static_cast<std::int32_t>(weights.first[i]));
        axis.count.push_back(static_cast<std::int32_t>(weights.count[i]));
    }
    return axis;
}

} // namespace

Result<void> check_picture_batch(const Preprocess& preprocess) {
    LATHE_CHECK(preprocess.validate("preprocess"));
    if (preprocess.interpolation == Interpolation::bilinear_opencv || preprocess.pad != 0) {
        return Error{ErrorCode::unsupported, "the device does not resize as OpenCV does, nor pad with other than 0",
                     "preprocess", "leave preprocessing to the CPU"};
    }
    return {};
}

Result<PictureBatch> picture_batch(std::span<const Image> images, const Preprocess& preprocess) {
    std::vector<PixelView> views;
    views.reserve(images.size());
    for (const Image& image : images)
        views.push_back({image.pixels.data(), image.width, image.height});
    return picture_batch(views, preprocess);
}

Result<PictureBatch> picture_batch(std::span<const PixelView> pictures, const Preprocess& preprocess) {
    LATHE_CHECK(check_picture_batch(preprocess));
    PictureBatch batch;
    batch.height = preprocess.output_size().height;
    batch.width = preprocess.output_size().width;
    for (std::size_t c = 0; c < batch.values.size(); ++c)
        batch.values[c] = preprocess.channel_values(c);
    batch.channels_last = preprocess.layout == Layout::nhwc;
    batch.bgr = preprocess.color == ColorOrder::bgr;
    std::map<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>, std::size_t> known;
    const auto axis = [&](std::size_t input, std::size_t output, std::size_t begin, std::size_t size) {
        const auto [place, is_new] = known.try_emplace({input, output, begin, size}, batch.axes.size());
        if (is_new) batch.axes.push_back(axis_of(resize_weights(input, output, begin, size, preprocess.interpolation)));
        return place->second;
    };
    for (const PixelView& image : pictures) {
        if (image.width == 0 || image.height == 0)
            return Error{ErrorCode::invalid_argument, "the image has no pixels", "preprocess", ""};
        const Preprocess::Placement place = preprocess.place(image.width, image.height);
        Picture picture;
        picture.pixels = image.pixels;
        picture.width = image.width;
        picture.height = image.height;
        picture.columns = axis(image.width, place.full.width, place.region.left, place.region.width);
        picture.rows = axis(image.height, place.full.height, place.region.top, place.region.height);
        picture.rows_first = resizes_rows_first(image.width, image.height, place.full.width, place.full.height);
        picture.left = place.left;
        picture.top = place.top;
        batch.pictures.push_back(picture);
    }
    return batch;
}

} // namespace lathe
