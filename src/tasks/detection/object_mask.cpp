#include "tasks/detection/object_mask.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "data/image.hpp"

namespace lathe {

namespace {

/// Of an outline: further out is no place in a picture.
constexpr double farthest = static_cast<double>(max_image_side);
/// The outline is drawn this much finer than pixels.
constexpr int fine = 5;
/// The fine column at a pixel column's centre.
constexpr int centre = 2;

Error damaged(const std::string& what) {
    return {ErrorCode::parse_error, "a segmentation " + what, "",
            "give COCO's polygons, or \"size\" and \"counts\" of its run-length encoding"};
}

/// A place of the outline, on the fine grid.
struct FinePoint {
    int x = 0;
    int y = 0;
};

/// Rounded, negative halves towards 0, as the mask API has it.
int rounded(double value) { return static_cast<int>(value + 0.5); }

/// Calls at(point) for each fine place from one corner to the next, both with them.
template <class At>
void walk(FinePoint from, FinePoint to, const At& at) {
    const int dx = std::abs(to.x - from.x);
    const int dy = std::abs(to.y - from.y);
    const bool by_x = dx >= dy;
    // Slopes are taken in one direction, so that an edge is the same from both of its sides.
    const bool turned = by_x ? from.x > to.x : from.y > to.y;
    if (turned) std::swap(from, to);
    const int steps = by_x ? dx : dy;
    const double slope = steps == 0 ? 0.0 : static_cast<double>(by_x ? to.y - from.y : to.x - from.x) / steps;
    for (int step = 0; step <= steps; ++step) {
        const int t = turned ? steps - step : step;
        if (by_x)
            at(FinePoint{from.x + t, rounded(from.y + slope * t)});
        else
            at(FinePoint{rounded(from.x + slope * t), from.y + t});
    }
}

Result<std::vector<double>> corners_of(const Json& list) {
    if (!list.is_array()) return damaged("has a polygon that is no list of numbers");
    std::vector<double> corners;
    for (const Json& value : list) {
        if (!value.is_number()) return damaged("has a polygon that is no list of numbers");
        corners.push_back(value.get<double>());
        if (!(std::fabs(corners.back()) <= farthest)) return damaged("has a corner that is in no picture");
    }
    if (corners.size() % 2 != 0) return damaged("has a polygon with an odd number of coordinates");
    return corners;
}

Result<ObjectMask> mask_of_polygons(const Json& polygons, std::size_t height, std::size_t width) {
    std::vector<ObjectMask> parts;
    for (const Json& each : polygons) {
        LATHE_TRY(const std::vector<double> corners, corners_of(each));
        // Beside others a line or a point is nothing, as pycocotools has it.
        if (corners.size() < (parts.empty() ? 6U : 2U)) return damaged("has a polygon of fewer than three corners");
        parts.push_back(ObjectMask::from_polygon(height, width, corners));
    }
    return ObjectMask::united(parts);
}

} // namespace

ObjectMask::ObjectMask(std::size_t height, std::size_t width) : height_(height), width_(width) {
    runs_.push_back(static_cast<std::uint32_t>(height * width));
}

void MaskWriter::add(bool inside, std::size_t count) {
    if (count == 0) return;
    if (inside != inside_) mask_.runs_.push_back(0);
    inside_ = inside;
    mask_.runs_.back() += static_cast<std::uint32_t>(count);
    if (inside) {
        if (mask_.area_ == 0) first_ = written_;
        last_ = written_ + count - 1;
        mask_.area_ += count;
    }
    written_ += count;
}

ObjectMask MaskWriter::finish() {
    add(false, mask_.height_ * mask_.width_ - written_);
    if (mask_.area_ > 0) {
        mask_.left_ = first_ / mask_.height_;
        mask_.right_ = last_ / mask_.height_;
    }
    return std::move(mask_);
}

Result<ObjectMask> ObjectMask::from_runs(std::size_t height, std::size_t width, std::span<const std::uint32_t> runs) {
    const std::uint64_t pixels = std::uint64_t{height} * width;
    MaskWriter writer(height, width);
    std::uint64_t sum = 0;
    bool inside = false;
    for (const std::uint32_t run : runs) {
        sum += run;
        if (sum > pixels) break;
        writer.add(inside, run);
        inside = !inside;
    }
    if (sum != pixels) {
        return damaged("has runs of " + std::string(sum > pixels ? "more" : "fewer") + " pixels than the " +
                       std::to_string(height) + " x " + std::to_string(width) + " of its picture");
    }
    return writer.finish();
}

Result<ObjectMask> ObjectMask::from_text(std::size_t height, std::size_t width, std::string_view text) {
    std::vector<std::uint32_t> runs;
    for (std::size_t at = 0; at < text.size();) {
        std::int64_t value = 0;
        bool more = true;
        for (int shift = 0; more; shift += 5) {
            const int group = at < text.size() ? text[at++] - 48 : -1;
            if (group < 0 || group > 63 || shift > 35) return damaged("has \"counts\" that are no run lengths");
            value |= static_cast<std::int64_t>(group & 31) << shift;
            more = (group & 32) != 0;
            if (!more && (group & 16) != 0) value -= std::int64_t{1} << (shift + 5);
        }
        if (runs.size() > 2) value += runs[runs.size() - 2];
        if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
            return damaged("has \"counts\" that are no run lengths");
        runs.push_back(static_cast<std::uint32_t>(value));
    }
    return from_runs(height, width, runs);
}

std::string ObjectMask::text() const {
    std::string text;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
        std::int64_t value = runs_[i];
        if (i > 2) value -= runs_[i - 2];
        for (bool more = true; more;) {
            auto group = static_cast<int>(value & 31);
            value >>= 5;
            more = (group & 16) != 0 ? value != -1 : value != 0;
            if (more) group |= 32;
            text += static_cast<char>(group + 48);
        }
    }
    return text;
}

ObjectMask ObjectMask::from_polygon(std::size_t height, std::size_t width, std::span<const double> corners) {
    std::vector<FinePoint> points;
    for (std::size_t i = 0; i + 1 < corners.size(); i += 2)
        points.push_back({rounded(fine * corners[i]), rounded(fine * corners[i + 1])});
    std::vector<std::size_t> changes; // pixels at which inside and outside change
    const auto last = static_cast<int>(width);
    FinePoint before = points.empty() ? FinePoint{} : points.front();
    for (std::size_t i = 0; i < points.size(); ++i) {
        walk(points[i], points[(i + 1) % points.size()], [&](const FinePoint& here) {
            const int column = std::min(before.x, here.x) - centre;
            if (here.x != before.x && column >= 0 && column % fine == 0 && column / fine < last) {
                const double row = std::ceil(static_cast<double>(std::min(before.y, here.y) - centre) / fine);
                changes.push_back(static_cast<std::size_t>(column / fine) * height +
                                  static_cast<std::size_t>(std::clamp(row, 0.0, static_cast<double>(height))));
            }
            before = here;
        });
    }
    std::ranges::sort(changes);
    MaskWriter writer(height, width);
    std::size_t at = 0;
    bool inside = false;
    for (const std::size_t change : changes) {
        writer.add(inside, change - at);
        at = change;
        inside = !inside;
    }
    return writer.finish();
}

ObjectMask ObjectMask::united(std::span<const ObjectMask> masks) {
    ObjectMask all = masks.front();
    for (const ObjectMask& other : masks.subspan(1)) {
        MaskWriter writer(all.height_, all.width_);
        std::size_t i = 0;
        std::size_t k = 0;
        std::uint32_t mine = all.runs_[0];
        std::uint32_t its = other.runs_[0];
        while (i < all.runs_.size() && k < other.runs_.size()) {
            const std::uint32_t both = std::min(mine, its);
            writer.add(i % 2 == 1 || k % 2 == 1, both);
            mine -= both;
            its -= both;
            if (mine == 0 && ++i < all.runs_.size()) mine = all.runs_[i];
            if (its == 0 && ++k < other.runs_.size()) its = other.runs_[k];
        }
        all = writer.finish();
    }
    return all;
}

std::uint64_t common_area(const ObjectMask& a, const ObjectMask& b) {
    if (a.height_ != b.height_ || a.width_ != b.width_ || a.area_ == 0 || b.area_ == 0 || a.left_ > b.right_ ||
        b.left_ > a.right_)
        return 0;
    std::uint64_t common = 0;
    std::uint64_t a_end = 0; // of the run inside that is looked at
    std::uint64_t b_end = 0;
    for (std::size_t i = 1, k = 1; i < a.runs_.size() && k < b.runs_.size();) {
        const std::uint64_t a_start = a_end + a.runs_[i - 1];
        const std::uint64_t b_start = b_end + b.runs_[k - 1];
        const std::uint64_t a_stop = a_start + a.runs_[i];
        const std::uint64_t b_stop = b_start + b.runs_[k];
        const std::uint64_t start = std::max(a_start, b_start);
        const std::uint64_t stop = std::min(a_stop, b_stop);
        if (start < stop) common += stop - start;
        if (a_stop <= b_stop) {
            a_end = a_stop;
            i += 2;
        } else {
            b_end = b_stop;
            k += 2;
        }
    }
    return common;
}

double overlap(const ObjectMask& detected, const ObjectMask& truth, bool crowd) {
    const std::uint64_t common = common_area(detected, truth);
    if (common == 0) return 0;
    const std::uint64_t all = crowd ? detected.area() : detected.area() + truth.area() - common;
    return static_cast<double>(common) / static_cast<double>(all);
}

Json to_json(const ObjectMask& mask) { return {{"size", {mask.height(), mask.width()}}, {"counts", mask.text()}}; }

Result<ObjectMask> mask_of_segmentation(const Json& segmentation, std::size_t height, std::size_t width) {
    if (segmentation.is_array() && !segmentation.empty()) return mask_of_polygons(segmentation, height, width);
    const auto size = segmentation.is_object() ? segmentation.find("size") : segmentation.end();
    const auto counts = segmentation.is_object() ? segmentation.find("counts") : segmentation.end();
    if (!segmentation.is_object() || size == segmentation.end() || counts == segmentation.end())
        return damaged("is neither polygons nor runs");
    if (*size != Json::array({height, width})) {
        return damaged("has the size " + size->dump() + ", its picture is of height " + std::to_string(height) +
                       " and width " + std::to_string(width));
    }
    if (counts->is_string()) return ObjectMask::from_text(height, width, counts->get<std::string>());
    if (!counts->is_array()) return damaged("has \"counts\" that are no run lengths");
    std::vector<std::uint32_t> runs;
    for (const Json& run : *counts) {
        if (!run.is_number_integer() || run.get<std::int64_t>() < 0 ||
            run.get<std::int64_t>() > std::numeric_limits<std::uint32_t>::max())
            return damaged("has \"counts\" that are no run lengths");
        runs.push_back(run.get<std::uint32_t>());
    }
    return ObjectMask::from_runs(height, width, runs);
}

} // namespace lathe
