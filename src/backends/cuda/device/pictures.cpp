#include "backends/cuda/device/pictures.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/kernels/pictures.hpp"
#include "backends/cuda/plan/memory.hpp"

namespace lathe::cuda {

namespace {

Error misfit(const std::string& why) {
    return {ErrorCode::invalid_argument, "the pictures' tables do not fit: " + why, "pictures", "report this"};
}

/// Every output position reads inside of `size` input pixels.
bool fits(const PictureAxis& axis, std::size_t size) {
    if (axis.count.size() != axis.first.size() || axis.weights.size() != axis.first.size() * axis.taps) return false;
    for (std::size_t i = 0; i < axis.first.size(); ++i) {
        if (axis.first[i] < 0 || axis.count[i] < 0 || static_cast<std::size_t>(axis.count[i]) > axis.taps) return false;
        if (static_cast<std::size_t>(axis.first[i]) + static_cast<std::size_t>(axis.count[i]) > size) return false;
    }
    return true;
}

/// Where an axis lies in the table of all.
struct AxisPlace {
    std::int32_t first = 0, count = 0, weights = 0, taps = 0;
};

Result<void> check(const PictureBatch& batch) {
    for (const Picture& picture : batch.pictures) {
        if (picture.pixels == nullptr || picture.width == 0 || picture.height == 0) return misfit("no pixels");
        if (picture.columns >= batch.axes.size() || picture.rows >= batch.axes.size()) return misfit("no such axis");
        const PictureAxis& columns = batch.axes[picture.columns];
        const PictureAxis& rows = batch.axes[picture.rows];
        if (!fits(columns, picture.width) || !fits(rows, picture.height)) return misfit("an axis reads outside");
        if (picture.left + columns.first.size() > batch.width || picture.top + rows.first.size() > batch.height)
            return misfit("a region lies outside of the output");
    }
    return {};
}

} // namespace

Shape PictureStage::shape_of(const PictureBatch& batch) {
    const auto count = static_cast<std::int64_t>(batch.pictures.size());
    const auto height = static_cast<std::int64_t>(batch.height), width = static_cast<std::int64_t>(batch.width);
    return batch.channels_last ? Shape{count, height, width, 3} : Shape{count, 3, height, width};
}

Result<void> PictureStage::enqueue(const PictureBatch& batch, float* out, const Stream& stream, PinnedPool& pool) {
    LATHE_CHECK(check(batch));
    if (batch.pictures.empty()) return {};
    std::vector<std::int32_t> tables;
    std::vector<AxisPlace> places;
    for (const PictureAxis& axis : batch.axes) {
        AxisPlace place;
        const auto append = [&](const std::vector<std::int32_t>& values) {
            const std::size_t at = tables.size();
            tables.insert(tables.end(), values.begin(), values.end());
            return static_cast<std::int32_t>(at);
        };
        place.first = append(axis.first);
        place.count = append(axis.count);
        place.weights = append(axis.weights);
        place.taps = static_cast<std::int32_t>(axis.taps);
        places.push_back(place);
    }
    if (tables.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
        return Error{ErrorCode::out_of_range, "the pictures are too large for one batch", "pictures",
                     "use a smaller batch"};
    }
    std::vector<kernels::PictureOnDevice> pictures;
    std::size_t pixel_bytes = 0;
    for (const Picture& picture : batch.pictures) {
        const AxisPlace& x = places[picture.columns];
        const AxisPlace& y = places[picture.rows];
        kernels::PictureOnDevice there;
        there.pixels = pixel_bytes;
        there.width = static_cast<std::int32_t>(picture.width);
        there.x_first = x.first, there.x_count = x.count, there.x_weights = x.weights, there.x_taps = x.taps;
        there.y_first = y.first, there.y_count = y.count, there.y_weights = y.weights, there.y_taps = y.taps;
        there.region_width = static_cast<std::int32_t>(batch.axes[picture.columns].first.size());
        there.region_height = static_cast<std::int32_t>(batch.axes[picture.rows].first.size());
        there.left = static_cast<std::int32_t>(picture.left);
        there.top = static_cast<std::int32_t>(picture.top);
        there.rows_first = picture.rows_first ? 1 : 0;
        pictures.push_back(there);
        pixel_bytes += picture.width * picture.height * 3;
    }
    const std::size_t tables_at = aligned(pixel_bytes);
    const std::size_t pictures_at = tables_at + aligned(tables.size() * sizeof(std::int32_t));
    const std::size_t values_at = pictures_at + aligned(pictures.size() * sizeof(pictures[0]));
    const std::size_t bytes = values_at + sizeof(batch.values);
    if (bytes > staged_.size()) {
        pool.give(std::exchange(staged_, PinnedMemory()));
        LATHE_TRY(staged_, pool.take(bytes + bytes / 4, "pictures"));
    }
    if (bytes > memory_.size()) {
        memory_ = DeviceMemory();
        LATHE_TRY(memory_, DeviceMemory::allocate(bytes + bytes / 4, "pictures"));
    }
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const Picture& picture = batch.pictures[i];
        std::memcpy(staged_.data() + pictures[i].pixels, picture.pixels, picture.width * picture.height * 3);
    }
    std::memcpy(staged_.data() + tables_at, tables.data(), tables.size() * sizeof(std::int32_t));
    std::memcpy(staged_.data() + pictures_at, pictures.data(), pictures.size() * sizeof(pictures[0]));
    std::memcpy(staged_.data() + values_at, batch.values.data(), sizeof(batch.values));
    LATHE_CUDA(cudaMemcpyAsync(memory_.data(), staged_.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
               "copying pictures to the GPU");
    kernels::PicturesParams params;
    params.pixels = reinterpret_cast<const std::uint8_t*>(memory_.data());
    params.tables = reinterpret_cast<const std::int32_t*>(memory_.data() + tables_at);
    params.pictures = reinterpret_cast<const kernels::PictureOnDevice*>(memory_.data() + pictures_at);
    params.values = reinterpret_cast<const float*>(memory_.data() + values_at);
    params.out = out;
    params.count = static_cast<int>(pictures.size());
    params.height = static_cast<int>(batch.height);
    params.width = static_cast<int>(batch.width);
    params.channels_last = batch.channels_last;
    params.bgr = batch.bgr;
    LATHE_CUDA(kernels::launch_pictures(params, stream.get()), "turning pictures into an input");
    return {};
}

} // namespace lathe::cuda
