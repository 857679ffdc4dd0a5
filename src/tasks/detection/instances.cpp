#include "tasks/detection/instances.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "data/image.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

/// A pixel belongs to an object from here on.
constexpr float least_probability = 0.5F;

/// A part of a grid of probabilities; beside it they are 0.
struct Grid {
    std::size_t rows = 0; ///< of the whole grid
    std::size_t columns = 0;
    std::size_t top = 0; ///< of the part
    std::size_t left = 0;
    std::size_t part_rows = 0;
    std::size_t part_columns = 0;
    std::vector<float> values; ///< of the part

    float at(std::size_t row, std::size_t column) const {
        // Before the part is far behind it.
        return row - top < part_rows && column - left < part_columns
                   ? values[(row - top) * part_columns + column - left]
                   : 0.0F;
    }
};

/// Between which two of a grid's rows or columns each pixel's centre lies.
struct Axis {
    std::size_t first = 0; ///< of the pixels; beside them there is nothing
    struct Place {
        std::size_t low = 0;
        std::size_t high = 0;
        float share = 0; ///< of high
    };
    std::vector<Place> places;

    /// `count` pixels from `first_pixel` on; place_of(i) is where the i-th's centre lies in the grid of `size`, of
    /// which begin .. end holds anything.
    template <class PlaceOf>
    Axis(std::size_t first_pixel, std::size_t count, std::size_t size, std::size_t begin, std::size_t end,
         const PlaceOf& place_of)
        : first(first_pixel) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto most = static_cast<float>(size - 1);
            const float where = std::clamp(static_cast<float>(place_of(i)), 0.0F, most);
            Place place;
            place.low = static_cast<std::size_t>(where);
            place.high = std::min(place.low + 1, size - 1);
            place.share = where - static_cast<float>(place.low);
            const bool outside = place.high < begin || place.low >= end;
            if (outside && places.empty()) ++first;
            if (outside && !places.empty()) break;
            if (!outside) places.push_back(place);
        }
    }
};

/// The pixels of a picture at which the interpolated probability is above a half.
ObjectMask interpolated(const Grid& grid, const Axis& vertical, const Axis& horizontal, const PictureSize& size) {
    MaskWriter writer(size.height, size.width);
    if (vertical.places.empty() || horizontal.places.empty()) return writer.finish();
    const std::size_t below = size.height - vertical.first - vertical.places.size();
    writer.add(false, horizontal.first * size.height);
    for (const Axis::Place& x : horizontal.places) {
        writer.add(false, vertical.first);
        for (const Axis::Place& y : vertical.places) {
            const auto between = [&](std::size_t row) {
                return (1 - x.share) * grid.at(row, x.low) + x.share * grid.at(row, x.high);
            };
            const float value = (1 - y.share) * between(y.low) + y.share * between(y.high);
            writer.add(value > least_probability, 1);
        }
        writer.add(false, below);
    }
    return writer.finish();
}

/// Of a grid that covers the model's input.
ObjectMask spread(const Grid& grid, const DetectionHead& head, const PicturePlace& place) {
    const auto axis = [](std::size_t pixels, std::size_t size, std::size_t begin, std::size_t count, double scale,
                         double shift, std::size_t input) {
        const double cells = static_cast<double>(size) / static_cast<double>(input);
        return Axis(0, pixels, size, begin, begin + count,
                    [=](std::size_t i) { return ((static_cast<double>(i) + 0.5) * scale + shift) * cells - 0.5; });
    };
    const Preprocess::Mapping& to = place.mapping;
    return interpolated(
        grid, axis(place.size.height, grid.rows, grid.top, grid.part_rows, to.scale_y, to.top, head.height),
        axis(place.size.width, grid.columns, grid.left, grid.part_columns, to.scale_x, to.left, head.width),
        place.size);
}

/// One edge to the other, made larger for the border and whole, as torchvision does in float32.
std::pair<std::int64_t, std::int64_t> widened(double low, double high, std::size_t cells) {
    const auto from = static_cast<float>(low);
    const auto to = static_cast<float>(high);
    const auto scale = static_cast<float>(static_cast<double>(cells + 2) / static_cast<double>(cells));
    const float half = (to - from) * 0.5F * scale;
    const float centre = (to + from) * 0.5F;
    constexpr float limit = 1e9F; // of pictures and of what float32 tells apart
    return {static_cast<std::int64_t>(std::clamp(centre - half, -limit, limit)),
            static_cast<std::int64_t>(std::clamp(centre + half, -limit, limit))};
}

/// A mask of a box of the picture.
ObjectMask pasted(std::span<const float> values, std::size_t rows, std::size_t columns, const Box& box,
                  const PictureSize& size) {
    Grid grid{rows + 2, columns + 2, 1, 1, rows, columns, {values.begin(), values.end()}};
    const auto axis = [](std::pair<std::int64_t, std::int64_t> edges, std::size_t cells, std::size_t pixels) {
        const std::int64_t extent = std::max<std::int64_t>(edges.second - edges.first + 1, 1);
        const float scale = static_cast<float>(cells + 2) / static_cast<float>(extent);
        const std::int64_t first = std::clamp<std::int64_t>(edges.first, 0, static_cast<std::int64_t>(pixels));
        const std::int64_t last = std::clamp<std::int64_t>(edges.second + 1, first, static_cast<std::int64_t>(pixels));
        return Axis(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first), cells + 2, 1, cells + 1,
                    [=](std::size_t i) {
                        const auto pixel = static_cast<float>(first - edges.first + static_cast<std::int64_t>(i));
                        return scale * (pixel + 0.5F) - 0.5F;
                    });
    };
    return interpolated(grid, axis(widened(box.top, box.bottom(), columns), rows, size.height),
                        axis(widened(box.left, box.right(), columns), columns, size.width), size);
}

/// Which cells of a grid over `input` pixels lie in a box.
std::pair<std::size_t, std::size_t> cells_within(double low, double high, std::size_t cells, std::size_t input) {
    const double scale = static_cast<double>(cells) / static_cast<double>(input);
    const auto edge = [&](double value) {
        return static_cast<std::size_t>(std::clamp(std::ceil(value * scale), 0.0, static_cast<double>(cells)));
    };
    return {edge(low), std::max(edge(low), edge(high))};
}

/// The part of a grid that is not 0.
Grid trimmed(std::span<const float> values, std::size_t rows, std::size_t columns) {
    Grid grid{rows, columns, rows, columns, 0, 0, {}};
    std::size_t bottom = 0;
    std::size_t right = 0;
    for (std::size_t y = 0; y < rows; ++y) {
        for (std::size_t x = 0; x < columns; ++x) {
            if (values[y * columns + x] == 0) continue;
            grid.top = std::min(grid.top, y);
            grid.left = std::min(grid.left, x);
            bottom = std::max(bottom, y + 1);
            right = std::max(right, x + 1);
        }
    }
    if (bottom == 0) return grid;
    grid.part_rows = bottom - grid.top;
    grid.part_columns = right - grid.left;
    for (std::size_t y = grid.top; y < bottom; ++y) {
        const auto row = values.subspan(y * columns, columns);
        grid.values.insert(grid.values.end(), row.begin() + static_cast<std::ptrdiff_t>(grid.left),
                           row.begin() + static_cast<std::ptrdiff_t>(right));
    }
    return grid;
}

/// Makes the mask of each row of one sample.
class Masks {
public:
    static Result<Masks> of(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample) {
        if (!head.masks || *head.masks >= outputs.size() || head.outputs.front() >= outputs.size())
            return Error{ErrorCode::mismatch, "the head reads masks of an output that is not there", "instances", ""};
        const HostTensor& output = outputs[*head.masks];
        const Shape& shape = output.shape;
        const std::size_t axes = shape.size();
        if (output.type != DataType::float32 || axes < 3 || axes > 5) return unlike_head(output, "masks in float32");
        Masks masks(head);
        masks.rows_ = static_cast<std::size_t>(shape[axes - 2]);
        masks.columns_ = static_cast<std::size_t>(shape[axes - 1]);
        const std::size_t samples = head.one_sample ? 1 : static_cast<std::size_t>(shape[0]);
        const auto all = output.as<float>();
        if (sample >= samples) return unlike_head(output, "with a sample " + std::to_string(sample));
        masks.values_ = all.subspan(sample * (all.size() / samples), all.size() / samples);
        if (head.coefficients == 0) {
            // Of no detection the sizes say nothing.
            if (all.empty()) return masks;
        } else if (axes != 4 || shape[1] != static_cast<std::int64_t>(head.coefficients)) {
            return unlike_head(output, std::to_string(head.coefficients) + " prototypes");
        }
        if (masks.rows_ * masks.columns_ == 0) return unlike_head(output, "masks with pixels");
        masks.anchors_ = &outputs[head.outputs.front()];
        masks.sample_ = sample;
        return masks;
    }

    /// `box` is the detection's, in the model's input's pixels, `placed` in the picture's.
    Result<ObjectMask> at(std::size_t row, const Box& box, const Box& placed, const PicturePlace& place) const {
        if (head_->coefficients > 0) return spread(combined(row, box), *head_, place);
        const std::size_t pixels = rows_ * columns_;
        if ((row + 1) * pixels > values_.size()) {
            return Error{ErrorCode::mismatch, "there are fewer masks than detections", "instances",
                         "decode what the head was recognised from"};
        }
        const auto own = values_.subspan(row * pixels, pixels);
        if (rows_ == head_->height && columns_ == head_->width)
            return spread(trimmed(own, rows_, columns_), *head_, place);
        return pasted(own, rows_, columns_, placed, place.size);
    }

private:
    explicit Masks(const DetectionHead& head) : head_(&head) {}

    float coefficient(std::size_t row, std::size_t index) const {
        const Shape& shape = anchors_->shape;
        const auto rows = static_cast<std::size_t>(shape[1]);
        const auto columns = static_cast<std::size_t>(shape[2]);
        const auto values = anchors_->as<float>().subspan(sample_ * rows * columns, rows * columns);
        return head_->anchors_last ? values[(rows - head_->coefficients + index) * columns + row]
                                   : values[row * columns + columns - head_->coefficients + index];
    }

    Grid combined(std::size_t row, const Box& box) const {
        const auto [top, bottom] = cells_within(box.top, box.bottom(), rows_, head_->height);
        const auto [left, right] = cells_within(box.left, box.right(), columns_, head_->width);
        Grid grid{rows_, columns_, top, left, bottom - top, right - left, {}};
        grid.values.resize(grid.part_rows * grid.part_columns);
        for (std::size_t k = 0; k < head_->coefficients; ++k) {
            const float share = coefficient(row, k);
            for (std::size_t y = 0; y < grid.part_rows; ++y) {
                const float* const from = &values_[(k * rows_ + top + y) * columns_ + left];
                for (std::size_t x = 0; x < grid.part_columns; ++x)
                    grid.values[y * grid.part_columns + x] += share * from[x];
            }
        }
        for (float& value : grid.values)
            value = 1 / (1 + std::exp(-value));
        return grid;
    }

    const DetectionHead* head_;
    std::span<const float> values_; ///< of masks or prototypes
    std::size_t rows_ = 0;
    std::size_t columns_ = 0;
    const HostTensor* anchors_ = nullptr; ///< with the coefficients
    std::size_t sample_ = 0;
};

/// Null where the annotation has none.
const Json* segmentation_of(const Json& annotation) {
    const auto found = annotation.find("segmentation");
    return found == annotation.end() || found->empty() ? nullptr : &*found;
}

Error in_annotation(Error error, const std::filesystem::path& file, std::size_t index) {
    return std::move(error).in("annotations[" + std::to_string(index) + "]").in(file.string());
}

/// Height and width that an image of COCO's says of itself.
std::optional<PictureSize> size_of(const Json& image) {
    PictureSize size;
    for (const auto& [key, value] : {std::pair("height", &size.height), std::pair("width", &size.width)}) {
        const auto found = image.find(key);
        if (found == image.end() || !found->is_number_integer()) return std::nullopt;
        const auto side = found->get<std::int64_t>();
        if (side < 1 || side > static_cast<std::int64_t>(max_image_side)) return std::nullopt;
        *value = static_cast<std::size_t>(side);
    }
    if (size.height * size.width > max_image_pixels) return std::nullopt;
    return size;
}

} // namespace

DetectionMatches match_instances(std::span<const InstancePicture> pictures) {
    MatchRules rules;
    rules.overlap = [pictures](std::size_t picture, std::size_t instance, std::size_t object) {
        const TrueInstance& truth = pictures[picture].truth[object];
        return overlap(pictures[picture].instances[instance].mask, truth.mask, truth.object.crowd);
    };
    rules.area = [pictures](std::size_t picture, std::size_t instance) {
        return static_cast<double>(pictures[picture].instances[instance].mask.area());
    };
    return {plain_pictures(pictures), rules};
}

Result<std::vector<Instance>> decode_instances(const DetectionHead& head, std::span<const HostTensor> outputs,
                                               std::size_t sample, const DecodeOptions& options,
                                               const std::optional<PicturePlace>& place) {
    LATHE_TRY(const auto rows, decode_rows(head, outputs, sample, options));
    LATHE_TRY(const Masks masks, Masks::of(head, outputs, sample));
    const PicturePlace there = place.value_or(PicturePlace{{}, {head.width, head.height}});
    std::vector<Instance> instances;
    for (const DecodedRow& each : rows) {
        std::vector<Detection> placed{each.detection};
        map_back(placed, there.mapping);
        LATHE_TRY(ObjectMask mask, masks.at(each.row, each.detection.box, placed.front().box, there));
        if (mask.area() > 0) instances.push_back({placed.front(), std::move(mask)});
    }
    return instances;
}

Result<std::optional<std::vector<TrueInstance>>> InstanceTruth::of(const std::string& name,
                                                                   const PictureSize& size) const {
    const std::string plain = std::filesystem::path(name).filename().string();
    const auto objects = boxes.by_name.find(plain);
    std::optional<std::vector<TrueInstance>> truth;
    if (objects == boxes.by_name.end()) return truth;
    truth.emplace();
    const auto own = by_name.find(plain);
    for (std::size_t i = 0; i < objects->second.objects.size(); ++i) {
        const ObjectMask& mask = own->second.at(i);
        if (mask.height() != size.height || mask.width() != size.width) {
            return Error{ErrorCode::mismatch,
                         plain + " is " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                             " pixels, its truth is of " + std::to_string(mask.width()) + " x " +
                             std::to_string(mask.height()),
                         boxes.source.string(), "give the pictures that the truth was drawn on, as they were"};
        }
        truth->push_back({objects->second.objects[i], mask});
    }
    return truth;
}

Result<bool> has_outlines(const DetectionTruth& truth) {
    if (truth.format != "COCO") return false;
    // Its form was checked when the boxes were read.
    LATHE_TRY(const Json json, read_json_file(truth.source));
    return std::ranges::any_of(json["annotations"], segmentation_of);
}

Result<std::optional<InstanceTruth>> find_instance_truth(const std::filesystem::path& path) {
    LATHE_TRY(auto boxes, find_detection_truth(path));
    if (!boxes || boxes->format != "COCO") return std::optional<InstanceTruth>();
    InstanceTruth truth;
    truth.boxes = *std::move(boxes);
    const std::filesystem::path& file = truth.boxes.source;
    // Its form was checked when the boxes were read.
    LATHE_TRY(const Json json, read_json_file(file));
    const Json& annotations = json["annotations"];
    if (std::ranges::none_of(annotations, segmentation_of)) return std::optional<InstanceTruth>();
    std::map<std::int64_t, const Json*> images;
    for (const Json& image : json["images"])
        images[image["id"].get<std::int64_t>()] = &image;
    for (std::size_t i = 0; i < annotations.size(); ++i) {
        const Json& image = *images.at(annotations[i]["image_id"].get<std::int64_t>());
        const Json* const segmentation = segmentation_of(annotations[i]);
        const auto size = size_of(image);
        if (segmentation == nullptr || !size) {
            return in_annotation({ErrorCode::parse_error,
                                  segmentation == nullptr ? "has no segmentation, and others have one"
                                                          : "is of an image without \"height\" and \"width\"",
                                  "", "give COCO's instances.json with a segmentation of every object"},
                                 file, i);
        }
        auto mask = mask_of_segmentation(*segmentation, size->height, size->width);
        if (!mask) return in_annotation(std::move(mask).error(), file, i);
        const std::string name = std::filesystem::path(image["file_name"].get<std::string>()).filename().string();
        auto& masks = truth.by_name[name];
        const auto area = annotations[i].find("area");
        if (area == annotations[i].end() || !area->is_number())
            truth.boxes.by_name.at(name).objects.at(masks.size()).area = static_cast<double>(mask->area());
        masks.push_back(*std::move(mask));
    }
    return std::optional<InstanceTruth>(std::move(truth));
}

Json to_json(const Instance& instance) {
    Json json = to_json(instance.detection);
    json["mask"] = to_json(instance.mask);
    return json;
}

std::vector<TrueInstance> as_truth(const std::vector<Instance>& instances, float least_score) {
    std::vector<TrueInstance> truth;
    for (const auto& [detection, mask] : instances) {
        if (detection.score < least_score || mask.area() == 0) continue;
        truth.push_back({{detection.box, detection.class_index, static_cast<double>(mask.area())}, mask});
    }
    return truth;
}

} // namespace lathe
