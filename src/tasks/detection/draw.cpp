#include "tasks/detection/draw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

namespace lathe {

namespace {

using Colour = std::array<std::uint8_t, 3>;
using Glyph = std::array<std::uint8_t, 7>; ///< rows from the top, five bits each, the highest on the left

constexpr std::string_view characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%-._";
constexpr std::array<Glyph, characters.size()> glyphs{{
    {0x0E, 0x11, 0x11, 0x1F, 0x11, 0x11, 0x11}, {0x1E, 0x11, 0x11, 0x1E, 0x11, 0x11, 0x1E},
    {0x0E, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0E}, {0x1E, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1E},
    {0x1F, 0x10, 0x10, 0x1E, 0x10, 0x10, 0x1F}, {0x1F, 0x10, 0x10, 0x1E, 0x10, 0x10, 0x10},
    {0x0E, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0F}, {0x11, 0x11, 0x11, 0x1F, 0x11, 0x11, 0x11},
    {0x0E, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0E}, {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0C},
    {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11}, {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1F},
    {0x11, 0x1B, 0x15, 0x15, 0x11, 0x11, 0x11}, {0x11, 0x19, 0x15, 0x13, 0x11, 0x11, 0x11},
    {0x0E, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0E}, {0x1E, 0x11, 0x11, 0x1E, 0x10, 0x10, 0x10},
    {0x0E, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0D}, {0x1E, 0x11, 0x11, 0x1E, 0x14, 0x12, 0x11},
    {0x0F, 0x10, 0x10, 0x0E, 0x01, 0x01, 0x1E}, {0x1F, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04},
    {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0E}, {0x11, 0x11, 0x11, 0x11, 0x11, 0x0A, 0x04},
    {0x11, 0x11, 0x11, 0x15, 0x15, 0x1B, 0x11}, {0x11, 0x11, 0x0A, 0x04, 0x0A, 0x11, 0x11},
    {0x11, 0x11, 0x0A, 0x04, 0x04, 0x04, 0x04}, {0x1F, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1F},
    {0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E}, {0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E},
    {0x0E, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1F}, {0x1F, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0E},
    {0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02}, {0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E},
    {0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E}, {0x1F, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E}, {0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C},
    {0x18, 0x19, 0x02, 0x04, 0x08, 0x13, 0x03}, {0x00, 0x00, 0x00, 0x1F, 0x00, 0x00, 0x00},
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x0C, 0x0C}, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1F},
}};

/// Hues far apart for neighbouring classes (multiples of the golden angle), all bright.
Colour colour_of(std::int32_t class_index) {
    const double hue = std::fmod(static_cast<double>(class_index) * 137.508, 360.0) / 60.0;
    const auto channel = [&](double shift) {
        const double place = std::fmod(hue + shift, 6.0);
        const double value = std::clamp(std::fabs(place - 3.0) - 1.0, 0.0, 1.0);
        return static_cast<std::uint8_t>(55 + 200 * value);
    };
    return {channel(0), channel(4), channel(2)};
}

void fill(Image& image, double left, double top, double right, double bottom, const Colour& colour) {
    const auto inside = [](double value, std::size_t most) {
        return static_cast<std::size_t>(std::clamp(std::nearbyint(value), 0.0, static_cast<double>(most)));
    };
    for (std::size_t y = inside(top, image.height); y < inside(bottom, image.height); ++y) {
        for (std::size_t x = inside(left, image.width); x < inside(right, image.width); ++x)
            std::ranges::copy(colour, &image.pixels[(y * image.width + x) * 3]);
    }
}

/// How many times as thick as in a small picture lines and letters are.
double line_scale(const Image& image) {
    return std::max(1.0, std::nearbyint(static_cast<double>(std::min(image.width, image.height)) / 400.0));
}

/// Of COCO's 17 points: between which ones lines are drawn.
constexpr std::array<std::pair<std::size_t, std::size_t>, 18> limbs{{{15, 13},
                                                                     {13, 11},
                                                                     {16, 14},
                                                                     {14, 12},
                                                                     {11, 12},
                                                                     {5, 11},
                                                                     {6, 12},
                                                                     {5, 6},
                                                                     {5, 7},
                                                                     {7, 9},
                                                                     {6, 8},
                                                                     {8, 10},
                                                                     {0, 1},
                                                                     {0, 2},
                                                                     {1, 3},
                                                                     {2, 4},
                                                                     {3, 5},
                                                                     {4, 6}}};

/// Dark letters on a strip of the colour; what has no letter is left blank.
void write(Image& image, const std::string& text, double left, double top, double scale, const Colour& colour) {
    constexpr Colour ink{0, 0, 0};
    fill(image, left, top, left + scale * (6.0 * static_cast<double>(text.size()) + 1), top + 9 * scale, colour);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char upper = text[i] >= 'a' && text[i] <= 'z' ? static_cast<char>(text[i] - 32) : text[i];
        const std::size_t at = characters.find(upper);
        if (at == std::string_view::npos) continue;
        for (std::size_t row = 0; row < 7; ++row) {
            for (std::size_t column = 0; column < 5; ++column) {
                if ((glyphs[at][row] >> (4 - column) & 1) == 0) continue;
                const double x = left + scale * (1.0 + 6.0 * static_cast<double>(i) + static_cast<double>(column));
                const double y = top + scale * (1.0 + static_cast<double>(row));
                fill(image, x, y, x + scale, y + scale, ink);
            }
        }
    }
}

} // namespace

std::string class_name(const std::vector<std::string>& names, std::int32_t class_index) {
    const auto index = static_cast<std::size_t>(class_index);
    return class_index >= 0 && index < names.size() ? names[index] : "class " + std::to_string(class_index);
}

void draw_mask(Image& image, const ObjectMask& mask, std::int32_t class_index) {
    if (mask.height() != image.height || mask.width() != image.width) return;
    const Colour colour = colour_of(class_index);
    std::size_t pixel = 0; // column after column
    for (std::size_t run = 0; run < mask.runs().size(); ++run) {
        for (std::size_t i = 0; i < mask.runs()[run]; ++i, ++pixel) {
            if (run % 2 == 0) continue;
            std::uint8_t* const at = &image.pixels[(pixel % mask.height() * image.width + pixel / mask.height()) * 3];
            for (std::size_t c = 0; c < 3; ++c)
                at[c] = static_cast<std::uint8_t>((at[c] + colour[c]) / 2);
        }
    }
}

void draw_points(Image& image, std::span<const Keypoint> points) {
    const double radius = 2 * line_scale(image);
    const auto is_there = [](const Keypoint& point) { return point.score >= 0.5F; };
    for (std::size_t i = 0; points.size() == 17 && i < limbs.size(); ++i) {
        const Keypoint& from = points[limbs[i].first];
        const Keypoint& to = points[limbs[i].second];
        if (!is_there(from) || !is_there(to)) continue;
        // No more steps than a line through the picture has.
        const double steps = std::clamp(std::ceil(std::hypot(to.x - from.x, to.y - from.y)), 1.0,
                                        2.0 * static_cast<double>(image.width + image.height));
        for (double step = 0; step <= steps; ++step) {
            const double x = from.x + (to.x - from.x) * step / steps;
            const double y = from.y + (to.y - from.y) * step / steps;
            fill(image, x - radius / 2, y - radius / 2, x + radius / 2, y + radius / 2, {255, 255, 0});
        }
    }
    for (const Keypoint& point : points) {
        if (!is_there(point)) continue;
        fill(image, point.x - radius, point.y - radius, point.x + radius, point.y + radius, {255, 0, 0});
    }
}

void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& names) {
    const double scale = line_scale(image);
    const double line = 2 * scale;
    std::vector<const Detection*> order;
    for (const Detection& detection : detections)
        order.push_back(&detection);
    std::ranges::stable_sort(order, {}, [](const Detection* each) { return each->score; });
    for (const Detection* const each : order) {
        const Box& box = each->box;
        const Colour colour = colour_of(each->class_index);
        fill(image, box.left, box.top, box.right(), box.top + line, colour);
        fill(image, box.left, box.bottom() - line, box.right(), box.bottom(), colour);
        fill(image, box.left, box.top, box.left + line, box.bottom(), colour);
        fill(image, box.right() - line, box.top, box.right(), box.bottom(), colour);
        const auto percent = static_cast<int>(std::nearbyint(100 * static_cast<double>(each->score)));
        const std::string label = class_name(names, each->class_index) + " " + std::to_string(percent) + "%";
        const double above = box.top - 9 * scale;
        write(image, label, std::max(0.0, box.left), above >= 0 ? above : std::max(0.0, box.top), scale, colour);
    }
}

} // namespace lathe
