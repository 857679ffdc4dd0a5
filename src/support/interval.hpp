#pragma once

namespace lathe {

/// A closed interval. Unit of whatever it was computed from.
struct Interval {
    double low = 0;
    double high = 0;
    double width() const { return high - low; }
    bool contains(double value) const { return low <= value && value <= high; }
};

} // namespace lathe
