#include "backends/api/speed_limit.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace lathe {

namespace {

std::string fixed(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

} // namespace

const TacticTiming* chosen_of(const BuildReport::Op& op) {
    const auto found = std::ranges::find_if(op.candidates, [](const TacticTiming& timing) { return timing.chosen; });
    return found == op.candidates.end() ? nullptr : &*found;
}

std::vector<ShapeLimit> limits_by_shape(const BuildReport& report) {
    std::vector<ShapeLimit> shapes;
    for (const BuildReport::Op& op : report.ops) {
        const TacticTiming* chosen = chosen_of(op);
        if (chosen == nullptr || chosen->mixed_us <= 0) continue;
        auto shape = std::ranges::find_if(shapes, [&](const ShapeLimit& one) { return one.shape == op.shape; });
        if (shape == shapes.end()) {
            shapes.push_back({op.shape, 0, 0, 0, {}, {}});
            shape = shapes.end() - 1;
        }
        const ShapeLimit::Beyond row{op.name, chosen->mixed_us, op.limit_us};
        shape->us += row.us;
        shape->limit_us += row.limit_us;
        shape->beyond.push_back(row);
        if (!chosen->tactic.starts_with("reference:")) continue;
        shape->reference_us += row.us;
        shape->reference.push_back(row);
    }
    for (ShapeLimit& shape : shapes) {
        std::ranges::stable_sort(shape.beyond, std::greater{},
                                 [](const ShapeLimit::Beyond& row) { return row.us - row.limit_us; });
        std::ranges::stable_sort(shape.reference, std::greater{}, [](const ShapeLimit::Beyond& row) { return row.us; });
    }
    return shapes;
}

std::string describe(const ShapeLimit& limit, std::size_t most) {
    if (limit.limit_us <= 0) return "";
    std::string text = "speed of light " + fixed(limit.limit_us * 1e-3, 3) + " ms, reached " +
                       fixed(100 * limit.limit_us / limit.us, 0) + " % (" + fixed(limit.us * 1e-3, 3) + " ms)";
    for (std::size_t i = 0; i < std::min(most, limit.beyond.size()); ++i) {
        const ShapeLimit::Beyond& row = limit.beyond[i];
        if (row.us <= row.limit_us) break;
        text += (i == 0 ? "; most beyond it: " : ", ") + row.name + " +" + fixed(row.us - row.limit_us, 1) + " us";
    }
    return text;
}

} // namespace lathe
