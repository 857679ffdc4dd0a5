#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// Which pixels of a picture belong to an object, as COCO writes it: the lengths of runs over the pixels, column after
/// column from the top, outside and inside in turn. The first run is outside and may be empty, no other is.
class ObjectMask {
public:
    ObjectMask() = default;
    /// Without any pixel.
    ObjectMask(std::size_t height, std::size_t width);

    /// Of COCO's "counts": numbers; runs of no length are allowed. Errors: parse_error where they do not fill the
    /// picture.
    static Result<ObjectMask> from_runs(std::size_t height, std::size_t width, std::span<const std::uint32_t> runs);
    /// Of COCO's compressed "counts": each number, from the fourth on as the difference to the second before it, in
    /// groups of 5 bits, the lowest first, a character each (48 more than the group; 32 more where another follows; the
    /// last group's highest bit is the sign). Errors: as from_runs.
    static Result<ObjectMask> from_text(std::size_t height, std::size_t width, std::string_view text);
    /// The inside of a closed outline x, y, x, y, ..., in pixels, as COCO's mask API defines it. The outline is drawn
    /// on a grid five times as fine, corners rounded to it. Where it goes from one fine column to the next right of a
    /// pixel column's centre, the pixels of that column from that height on change sides; so what is crossed twice is
    /// outside.
    static ObjectMask from_polygon(std::size_t height, std::size_t width, std::span<const double> corners);
    /// What is in any of them; all are of one size, and there is one.
    static ObjectMask united(std::span<const ObjectMask> masks);

    std::size_t height() const { return height_; }
    std::size_t width() const { return width_; }
    const std::vector<std::uint32_t>& runs() const { return runs_; }
    std::uint64_t area() const { return area_; } ///< pixels
    /// Compressed, as from_text takes it.
    std::string text() const;
    bool operator==(const ObjectMask& other) const = default;

private:
    friend class MaskWriter;
    friend std::uint64_t common_area(const ObjectMask& a, const ObjectMask& b);

    std::size_t height_ = 0;
    std::size_t width_ = 0;
    std::vector<std::uint32_t> runs_;
    std::uint64_t area_ = 0;
    std::size_t left_ = 0; ///< columns that hold pixels: left_ .. right_
    std::size_t right_ = 0;
};

/// Writes a mask pixel after pixel, column after column.
class MaskWriter {
public:
    MaskWriter(std::size_t height, std::size_t width) : mask_(height, width) { mask_.runs_.assign(1, 0); }
    void add(bool inside, std::size_t count);
    /// What was not written is outside.
    ObjectMask finish();

private:
    ObjectMask mask_;
    std::size_t written_ = 0;
    std::size_t first_ = 0; ///< pixels inside
    std::size_t last_ = 0;
    bool inside_ = false;
};

/// Pixels of both.
std::uint64_t common_area(const ObjectMask& a, const ObjectMask& b);

/// Intersection over union; 0 where they have no pixel in common, or are of pictures of different sizes. `crowd`:
/// `truth` stands for many objects, and the share of `detected` that lies in it counts (pycocotools' rleIou).
double overlap(const ObjectMask& detected, const ObjectMask& truth, bool crowd = false);

/// COCO's form: {"size": [height, width], "counts": text}.
Json to_json(const ObjectMask& mask);

/// A "segmentation" of COCO's for a picture of that size: polygons, or {"size", "counts"} with numbers or text.
/// Errors: parse_error, saying what is wrong.
Result<ObjectMask> mask_of_segmentation(const Json& segmentation, std::size_t height, std::size_t width);

} // namespace lathe
