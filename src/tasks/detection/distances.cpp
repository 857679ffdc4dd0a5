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

/// Scores, then distances, of a grid's outputs; empty where they are others, or cannot be told apart.
GridOutputs scores_and_sides(GridOutputs grid, std::span<const OutputShape> outputs, const Spelling& spelling) {
    if (grid.size() == 3) {
        const bool bins = std::ranges::any_of(
            grid, [](const GridOutput& each) { return each.values > 4 && tells_sides(each.values); });
        std::erase_if(grid, [&](const GridOutput& each) {
            const bool points =
                each.values == values_of_five_points &&
                (spelling.anchors_a_cell == 2 || is_named(outputs[each.index], {"kps", "kpt", "point", "landm"}));
            return points || (bins && each.values == 1);
        });
    }
    if (grid.size() != 2) return {};
    const auto named = [&](const GridOutput& each) {
        return is_named(outputs[each.index], {"box", "reg", "dist", "dfl"}) &&
               !is_named(outputs[each.index], {"score", "cls", "class", "conf", "prob"});
    };
    // Where names tell nothing, the values do.
    const bool by_name = named(grid[0]) != named(grid[1]);
    const auto sides = [&](const GridOutput& each) { return tells_sides(each.values) && (!by_name || named(each)); };
    if (sides(grid[0]) && sides(grid[1])) {
        // Scores of all grids and then distances of all is one order; scores beside distances has no order of its own.
        if (grid[1].index == grid[0].index + 1) return {};
        return grid;
    }
    if (!sides(grid[0]) && !sides(grid[1])) return {};
    if (sides(grid[0])) std::swap(grid[0], grid[1]);
    return grid;
}

std::optional<DetectionHead> grids_spelled(std::span<const OutputShape> outputs, std::size_t height, std::size_t width,
                                           const Spelling& spelling) {
    static constexpr std::array<std::size_t, 5> usual{8, 16, 32, 64, 128};
    DetectionHead head{HeadForm::distances, {}, 0, height, width, {}};
    std::vector<std::size_t> sides;
    std::size_t used = 0;
    std::size_t values = 0;
    for (const std::size_t stride : usual) {
        const GridOutputs all =
            outputs_of_grid(outputs, cells_along(height, stride), cells_along(width, stride), spelling);
        if (all.empty() && head.strides.empty()) continue;
        if (all.empty()) break;
        const GridOutputs grid = scores_and_sides(all, outputs, spelling);
        if (grid.empty() || grid[0].values == 0) return std::nullopt;
        if (!head.strides.empty() && (grid[0].values != head.classes || grid[1].values != values)) return std::nullopt;
        used += all.size();
        head.classes = grid[0].values;
        values = grid[1].values;
        head.strides.push_back(stride);
        head.outputs.push_back(grid[0].index);
        sides.push_back(grid[1].index);
    }
    if (head.strides.size() < 2 || used != outputs.size()) return std::nullopt;
    head.outputs.insert(head.outputs.end(), sides.begin(), sides.end());
    head.one_sample = !spelling.sampled;
    // SCRFD, which alone has two anchors a cell, measures from the corner.
    head.distances = {values / 4, spelling.anchors_a_cell, spelling.anchors_a_cell > 1, spelling.maps};
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
};

/// Whether scores are logits, told by values that no probability has, nor what int8 makes of one.
bool are_logits(std::span<const CellGrid> grids, const DetectionHead& head) {
    for (const CellGrid& grid : grids) {
        const std::size_t anchors = grid.rows * grid.columns * head.distances.anchors_a_cell;
        for (std::size_t i = 0; i < anchors; ++i) {
            for (std::size_t c = 0; c < head.classes; ++c) {
                const float score = grid.scores.at(i, c);
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

Result<std::vector<CellGrid>> grids_of(const DetectionHead& head, std::span<const HostTensor> outputs,
                                       std::size_t sample) {
    const std::size_t count = head.strides.size();
    const bool in_one = head.outputs.size() == 1;
    if ((!in_one && head.outputs.size() != 2 * count) ||
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
        head.distances = {nanodet_bins, 1, strides.size() > 3, false};
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
    std::vector<OutputPart> parts;
    for (std::size_t i = 0; i < head.strides.size(); ++i) {
        parts.push_back({head.outputs[i], axis, 0, head.classes, Meaning::class_score});
        parts.push_back({head.outputs[head.strides.size() + i], axis, 0, sides, meaning});
    }
    return parts;
}

Result<Candidates> decode_distances(const DetectionHead& head, std::span<const HostTensor> outputs, std::size_t sample,
                                    float threshold) {
    LATHE_TRY(const std::vector<CellGrid> grids, grids_of(head, outputs, sample));
    const auto& [bins, anchors_a_cell, from_corner, maps] = head.distances;
    const bool logits = are_logits(grids, head);
    const bool pixels = bins == 1 && are_pixels(grids, head);
    const double offset = from_corner ? 0 : 0.5;
    Candidates found;
    std::size_t row = 0;
    for (const CellGrid& grid : grids) {
        const auto stride = static_cast<double>(grid.stride);
        const std::size_t anchors = grid.rows * grid.columns * anchors_a_cell;
        for (std::size_t i = 0; i < anchors; ++i, ++row) {
            std::optional<Box> box; // made for anchors that find something
            for (std::size_t c = 0; c < head.classes; ++c) {
                const float value = grid.scores.at(i, c);
                const float score = logits ? logistic(value) : value;
                if (!std::isfinite(value) || !(score >= threshold)) continue;
                if (!box) {
                    std::array<double, 4> sides{};
                    for (std::size_t side = 0; side < 4; ++side) {
                        sides[side] = bins == 1 ? static_cast<double>(grid.sides.at(i, side))
                                                : expectation(grid.sides, i, side * bins, bins);
                        if (!pixels) sides[side] *= stride;
                    }
                    const std::size_t cell = i / anchors_a_cell;
                    const std::size_t down = cell / grid.columns;
                    const std::size_t along = cell % grid.columns;
                    const double x = (static_cast<double>(along) + offset) * stride;
                    const double y = (static_cast<double>(down) + offset) * stride;
                    box = Box{x - sides[0], y - sides[1], sides[0] + sides[2], sides[1] + sides[3]};
                }
                add_candidate(found, row, *box, score, c, threshold);
            }
        }
    }
    return found;
}

} // namespace lathe
