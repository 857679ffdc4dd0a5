#include "tasks/detection/distances.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "tasks/detection/shapes.hpp"

namespace lathe {

namespace {

constexpr std::size_t nanodet_bins = 8;
constexpr std::size_t values_of_five_points = 10;

/// One output of a grid.
struct GridOutput {
    std::size_t index = 0;  ///< of the model's outputs
    std::size_t values = 0; ///< of each anchor
};
using GridOutputs = std::vector<GridOutput>;

/// How the outputs of grids are spelled.
struct Spelling {
    bool maps = false;
    bool sampled = true;
    std::size_t anchors_a_cell = 1;
};

/// The outputs of the grid of this stride.
GridOutputs outputs_of_grid(std::span<const OutputShape> outputs, std::size_t rows, std::size_t columns,
                            const Spelling& spelling) {
    GridOutputs found;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto& [name, shape, sampled] = outputs[i];
        if (spelling.maps) {
            if (shape.size() == 4 && known_size(shape, 2) == rows && known_size(shape, 3) == columns)
                found.push_back({i, known_size(shape, 1)});
            continue;
        }
        const std::size_t axis = spelling.sampled ? 1 : 0;
        if (shape.size() == axis + 2 && (spelling.sampled || !sampled) &&
            known_size(shape, axis) == rows * columns * spelling.anchors_a_cell)
            found.push_back({i, known_size(shape, axis + 1)});
    }
    return found;
}

bool tells_sides(std::size_t values) {
    static constexpr std::array<std::size_t, 4> usual{4, 32, 64, 68};
    return std::ranges::find(usual, values) != usual.end();
}

/// What a grid's outputs are.
struct GridRoles {
    GridOutput scores;
    GridOutput sides;
    std::optional<GridOutput> confidence{};
    bool centre_and_size = false;
};

/// Takes out of a grid's outputs the one that is a confidence, if there is one.
std::optional<GridOutput> take_confidence(GridOutputs& grid, std::span<const OutputShape> outputs, bool points) {
    const auto found = std::ranges::find_if(grid, [&](const GridOutput& each) {
        const OutputShape& output = outputs[each.index];
        return each.values == 1 &&
               (is_named(output, {"center", "centre", "ctr"}) || (points && is_named(output, {"obj"})));
    });
    if (grid.size() != 3 || found == grid.end()) return std::nullopt;
    const GridOutput confidence = *found;
    grid.erase(found);
    return confidence;
}

/// Nothing where they are others, or cannot be told apart.
std::optional<GridRoles> roles_in(GridOutputs grid, std::span<const OutputShape> outputs, const Spelling& spelling) {
    const std::size_t given = grid.size();
    if (given == 3 || given == 4) {
        std::erase_if(grid, [&](const GridOutput& each) {
            return each.values == values_of_five_points &&
                   (spelling.anchors_a_cell == 2 || is_named(outputs[each.index], {"kps", "kpt", "point", "landm"}));
        });
    }
    if (grid.size() == 3) {
        const bool bins = std::ranges::any_of(
            grid, [](const GridOutput& each) { return each.values > 4 && tells_sides(each.values); });
        std::erase_if(grid, [&](const GridOutput& each) { return bins && each.values == 1; });
    }
    GridRoles roles;
    const bool points = given == 4 && grid.size() == 3;
    roles.confidence = take_confidence(grid, outputs, points);
    // What else has four outputs a grid is not known.
    if (grid.size() != 2 || (given == 4) != (points && roles.confidence)) return std::nullopt;
    const auto named = [&](const GridOutput& each) {
        return is_named(outputs[each.index], {"box", "reg", "dist", "dfl"}) &&
               !is_named(outputs[each.index], {"score", "cls", "class", "conf", "prob"});
    };
    // Where names tell nothing, the values do.
    const bool by_name = named(grid[0]) != named(grid[1]);
    const auto sides = [&](const GridOutput& each) { return tells_sides(each.values) && (!by_name || named(each)); };
    if (sides(grid[0]) && sides(grid[1])) {
        // Scores of all grids and then distances of all is one order; scores beside distances has no order of its own.
        if (grid[1].index == grid[0].index + 1) return std::nullopt;
    } else if (sides(grid[0])) {
        std::swap(grid[0], grid[1]);
    } else if (!sides(grid[1])) {
        return std::nullopt;
    }
    roles.scores = grid[0];
    roles.sides = grid[1];
    roles.centre_and_size = points;
    const bool plain = roles.sides.values == 4;
    if (roles.confidence && (!plain || (points && roles.scores.values != 1))) return std::nullopt;
    return roles;
}

std::optional<DetectionHead> grids_spelled(std::span<const OutputShape> outputs, std::size_t height, std::size_t width,
                                           const Spelling& spelling) {
    DetectionHead head{HeadForm::distances, {}, 0, height, width, {}};
    std::vector<std::size_t> sides;
    std::vector<std::size_t> confidences;
    std::size_t used = 0;
    std::size_t values = 0;
    bool centre_and_size = false;
    for (const std::size_t stride : usual_strides) {
        const GridOutputs all =
            outputs_of_grid(outputs, cells_along(height, stride), cells_along(width, stride), spelling);
        if (all.empty() && head.strides.empty()) continue;
        if (all.empty()) break;
        const auto grid = roles_in(all, outputs, spelling);
        if (!grid || grid->scores.values == 0) return std::nullopt;
        const bool alike = grid->scores.values == head.classes && grid->sides.values == values &&
                           grid->confidence.has_value() == !confidences.empty() &&
                           grid->centre_and_size == centre_and_size;
        if (!head.strides.empty() && !alike) return std::nullopt;
        used += all.size();
        head.classes = grid->scores.values;
        values = grid->sides.values;
        centre_and_size = grid->centre_and_size;
        head.strides.push_back(stride);
        head.outputs.push_back(grid->scores.index);
        sides.push_back(grid->sides.index);
        if (grid->confidence) confidences.push_back(grid->confidence->index);
    }
    if (head.strides.size() < 2 || used != outputs.size()) return std::nullopt;
    head.outputs.insert(head.outputs.end(), sides.begin(), sides.end());
    head.outputs.insert(head.outputs.end(), confidences.begin(), confidences.end());
    head.one_sample = !spelling.sampled;
    // SCRFD, which alone has two anchors a cell, measures from the corner.
    head.distances = {values / 4,    spelling.anchors_a_cell, spelling.anchors_a_cell > 1,
                      spelling.maps, !confidences.empty(),    centre_and_size};
    return head;
}

/// The values of one grid's anchors for one sample: where `maps`, all of the first value, then of the next.
struct GridValues {
    std::span<const float> all;
    std::size_t anchor_step = 1;
    std::size_t value_step = 1;

    float at(std::size_t anchor, std::size_t value) const { return all[anchor * anchor_step + value * value_step]; }
};

/// The values from `first` on of `anchors` anchors that come after `before` others in their output.
Result<GridValues> values_of_grid(const DetectionHead& head, const HostTensor& output, std::size_t sample,
                                  std::size_t before, std::size_t anchors, std::size_t first, std::size_t values,
                                  const Shape& wanted) {
    const std::size_t axes = head.one_sample ? 0 : 1;
    const bool fits = output.type == DataType::float32 && output.shape.size() == wanted.size() + axes &&
                      std::ranges::equal(wanted, std::span(output.shape).subspan(std::min(axes, output.shape.size())));
    if (!fits) {
        return unlike_head(output, "float32 " + to_string(wanted) + (head.one_sample ? "" : " for each sample"));
    }
    const auto count = static_cast<std::size_t>(element_count(wanted));
    const std::size_t samples = head.one_sample ? 1 : static_cast<std::size_t>(output.shape[0]);
    if (sample >= samples) return unlike_head(output, "with a sample " + std::to_string(sample));
    const auto own = output.as<float>().subspan(sample * count, count);
    if (head.distances.maps) return GridValues{own, 1, anchors};
    return GridValues{own.subspan(before * values + first), values, 1};
}

/// A grid's scores and sides.
struct CellGrid {
    std::size_t stride = 0;
    std::size_t rows = 0;
    std::size_t columns = 0;
    GridValues scores;
    GridValues sides;
    GridValues confidence{};
};

/// Whether `values` an anchor are logits, told by values that no probability has, nor what int8 makes of one.
bool are_logits(std::span<const CellGrid> grids, GridValues CellGrid::*part, std::size_t values,
                const DetectionHead& head) {
    for (const CellGrid& grid : grids) {
        const std::size_t anchors = grid.rows * grid.columns * head.distances.anchors_a_cell;
        for (std::size_t i = 0; i < anchors; ++i) {
            for (std::size_t c = 0; c < values; ++c) {
                const float score = (grid.*part).at(i, c);
                if (std::isfinite(score) && (score < -0.5F || score > 1.5F)) return true;
            }
        }
    }
    return false;
}

/// Whether plain distances are in pixels: on average they then pass their grid's stride; in strides they are a few, far
/// below 8.
bool are_pixels(std::span<const CellGrid> grids, const DetectionHead& head) {
    double sum = 0;
    double count = 0;
    for (const CellGrid& grid : grids) {
        const std::size_t anchors = grid.rows * grid.columns * head.distances.anchors_a_cell;
        for (std::size_t i = 0; i < 4 * anchors; ++i) {
            const float distance = grid.sides.at(i / 4, i % 4);
            if (!std::isfinite(distance)) continue;
            sum += std::fabs(distance) / static_cast<double>(grid.stride);
            ++count;
        }
    }
    return sum > count;
}

/// The mean of 0, 1, ... under the softmax of `bins` values from `first` on; NaN where one of them is not finite.
double expectation(const GridValues& values, std::size_t anchor, std::size_t first, std::size_t bins) {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < bins; ++i) {
        const float value = values.at(anchor, first + i);
        if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
        most = std::max(most, static_cast<double>(value));
    }
    double sum = 0;
    double weighted = 0;
    for (std::size_t i = 0; i < bins; ++i) {
        const double share = std::exp(static_cast<double>(values.at(anchor, first + i)) - most);
        sum += share;
        weighted += share * static_cast<double>(i);
    }
    return weighted / sum;
}

/// The box of anchor `index` of a grid: where its sides are, or its centre and size.
Box box_at(const CellGrid& grid, std::size_t index, const DistanceHead& distances, bool pixels) {
    const auto stride = static_cast<double>(grid.stride);
    const std::size_t cell = index / distances.anchors_a_cell;
    const auto along = static_cast<double>(cell % grid.columns);
    const auto down = static_cast<double>(cell / grid.columns);
    std::array<double, 4> values{};
    for (std::size_t side = 0; side < 4; ++side) {
        values[side] = distances.bins == 1 ? static_cast<double>(grid.sides.at(index, side))
                                           : expectation(grid.sides, index, side * distances.bins, distances.bins);
    }
    if (distances.centre_and_size) {
        const double width = std::exp(values[2]) * stride;
        const double height = std::exp(values[3]) * stride;
        return {(along + values[0]) * stride - width / 2, (down + values[1]) * stride - height / 2, width, height};
    }
    if (!pixels) {
        for (double& value : values)
            value *= stride;
    }
    const double offset = distances.from_corner ? 0 : 0.5;
    const double x = (along + offset) * stride;
    const double y = (down + offset) * stride;
    return {x - values[0], y - values[1], values[0] + values[2], values[1] + values[3]};
}

Result<std::vector<CellGrid>> grids_of(const DetectionHead& head, std::span<const HostTensor> outputs,
                                       std::size_t sample) {
    const std::size_t count = head.strides.size();
    const bool in_one = head.outputs.size() == 1;
    const std::size_t each = head.distances.confidence ? 3 : 2; // outputs of a grid
    if ((!in_one && head.outputs.size() != each * count) ||
        std::ranges::any_of(head.outputs, [&](std::size_t index) { return index >= outputs.size(); }))
        return Error{ErrorCode::mismatch, "the head reads more outputs than there are", "decode", ""};
    const std::size_t sides = 4 * head.distances.bins;
    std::size_t all = 0; // anchors of all grids
    for (const std::size_t stride : head.strides)
        all += cells_along(head.height, stride) * cells_along(head.width, stride) * head.distances.anchors_a_cell;
    std::vector<CellGrid> grids;
    std::size_t before = 0;
    for (std::size_t i = 0; i < count; ++i) {
        CellGrid grid;
        grid.stride = head.strides[i];
        grid.rows = cells_along(head.height, grid.stride);
        grid.columns = cells_along(head.width, grid.stride);
        const std::size_t anchors = grid.rows * grid.columns * head.distances.anchors_a_cell;
        const auto shape = [&](std::size_t values) {
            const auto size = [](std::size_t value) { return static_cast<std::int64_t>(value); };
            if (head.distances.maps) return Shape{size(values), size(grid.rows), size(grid.columns)};
            return Shape{size(in_one ? all : anchors), size(values)};
        };
        const HostTensor& scores = outputs[head.outputs[in_one ? 0 : i]];
        const HostTensor& distances = outputs[head.outputs[in_one ? 0 : count + i]];
        const std::size_t row = in_one ? head.classes + sides : 0; // values a row, where it holds both
        LATHE_TRY(grid.scores, values_of_grid(head, scores, sample, before, anchors, 0, in_one ? row : head.classes,
                                              shape(in_one ? row : head.classes)));
        LATHE_TRY(grid.sides, values_of_grid(head, distances, sample, before, anchors, in_one ? head.classes : 0,
                                             in_one ? row : sides, shape(in_one ? row : sides)));
        if (head.distances.confidence) {
            LATHE_TRY(grid.confidence, values_of_grid(head, outputs[head.outputs[2 * count + i]], sample, before,
                                                      anchors, 0, 1, shape(1)));
        }
        if (in_one) before += anchors;
        grids.push_back(grid);
    }
    return grids;
}

} // namespace

std::optional<DetectionHead> distances_by_grid(std::span<const OutputShape> outputs, std::size_t height,
                                               std::size_t width) {
    for (const Spelling& spelling : {Spelling{false, true, 1}, Spelling{true, true, 1}, Spelling{false, true, 2},
                                     Spelling{false, false, 1}, Spelling{false, false, 2}}) {
        if (auto head = grids_spelled(outputs, height, width, spelling)) return head;
    }
    return std::nullopt;
}

std::optional<DetectionHead> distances_in_one(std::span<const OutputShape> outputs, std::size_t height,
                                              std::size_t width) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Shape& shape = outputs[i].shape;
        if (shape.size() != 3 || known_size(shape, 2) <= 4 * nanodet_bins) continue;
        std::vector<std::size_t> strides = strides_for(known_size(shape, 1), height, width);
        if (strides.empty()) continue;
        DetectionHead head{HeadForm::distances, {i}, known_size(shape, 2) - 4 * nanodet_bins, height, width, {}};
        head.distances = {nanodet_bins, 1, strides.size() > 3};
        head.strides = std::move(strides);
        return head;
    }
    return std::nullopt;
}

std::vector<OutputPart> parts_of_distances(const DetectionHead& head) {
    const std::size_t sides = 4 * head.distances.bins;
    const Meaning meaning = head.distances.bins > 1 ? Meaning::box_bins : Meaning::box_edges;
    if (head.outputs.size() == 1) {
        return {{head.outputs.front(), 2, 0, head.classes, Meaning::class_score},
                {head.outputs.front(), 2, head.classes, head.classes + sides, meaning}};
    }
    const std::size_t axis = head.distances.maps || head.one_sample ? 1 : 2;
    const std::size_t count = head.strides.size();
    std::vector<OutputPart> parts;
    for (std::size_t i = 0; i < count; ++i) {
        parts.push_back({head.outputs[i], axis, 0, head.classes, Meaning::class_score});
        const std::size_t boxes = head.outputs[count + i];
        if (head.distances.centre_and_size) {
            parts.push_back({boxes, axis, 0, 2, Meaning::box_centre});
            parts.push_back({boxes, axis, 2, 4, Meaning::box_size});
        } else {
            parts.push_back({boxes, axis, 0, sides, meaning});
        }
        if (head.distances.confidence) parts.push_back({head.outputs[2 * count + i], axis, 0, 1, Meaning::objectness});
    }
    return parts;
}

Result<Candidates> decode_distances(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                    float threshold) {
    LATHE_TRY(const std::vector<CellGrid> grids, grids_of(head, outputs, sample));
    const DistanceHead& distances = head.distances;
    const bool logits = are_logits(grids, &CellGrid::scores, head.classes, head);
    const bool confidence_logits = distances.confidence && are_logits(grids, &CellGrid::confidence, 1, head);
    const bool pixels = distances.bins == 1 && !distances.centre_and_size && are_pixels(grids, head);
    Candidates found;
    std::size_t row = 0;
    for (const CellGrid& grid : grids) {
        const std::size_t anchors = grid.rows * grid.columns * distances.anchors_a_cell;
        for (std::size_t i = 0; i < anchors; ++i, ++row) {
            std::optional<Box> box; // made for anchors that find something
            float confidence = 1;
            if (distances.confidence) {
                const float value = grid.confidence.at(i, 0);
                confidence = confidence_logits ? logistic(value) : std::clamp(value, 0.0F, 1.0F);
                if (!std::isfinite(value)) continue;
            }
            for (std::size_t c = 0; c < head.classes; ++c) {
                const float value = grid.scores.at(i, c);
                float score = logits ? logistic(value) : value;
                if (distances.confidence) score = std::sqrt(std::clamp(score, 0.0F, 1.0F) * confidence);
                if (!std::isfinite(value) || !(score >= threshold)) continue;
                if (!box) box = box_at(grid, i, distances, pixels);
                add_candidate(found, row, *box, score, c, threshold);
            }
        }
    }
    return found;
}

} // namespace lathe
