#include "tasks/detection/average_precision.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "support/bootstrap.hpp"

namespace lathe {

namespace {

constexpr std::size_t most_detections = 100; ///< a class and picture, at most
constexpr std::size_t recall_steps = 100;
constexpr std::array<std::pair<double, double>, 4> size_ranges{
    {{0, 1e10}, {0, 32.0 * 32}, {32.0 * 32, 96.0 * 96}, {96.0 * 96, 1e10}}};

/// As numpy.linspace(0.5, 0.95, 10) computes it, to the last bit: comparisons at exactly 0.75 depend on it.
double overlap_threshold(std::size_t index) {
    return index == 9 ? 0.95 : 0.5 + static_cast<double>(index) * ((0.95 - 0.5) / 9.0);
}

double recall_threshold(std::size_t index) {
    return index == recall_steps ? 1.0 : static_cast<double>(index) * (1.0 / static_cast<double>(recall_steps));
}

bool outside(double area, const std::pair<double, double>& range) { return area < range.first || area > range.second; }

/// One class in one picture.
struct Content {
    std::vector<const TrueObject*> truth;
    std::vector<const Detection*> detections;
};

/// Mean of those above -1; -1 without any.
class DefinedMean {
public:
    void add(double value) {
        if (value <= -1) return;
        sum_ += value;
        ++count_;
    }
    double value() const { return count_ == 0 ? -1 : sum_ / static_cast<double>(count_); }

private:
    double sum_ = 0;
    std::size_t count_ = 0;
};

/// What a detection got at one overlap: the index of a true object, or none.
constexpr std::size_t none = static_cast<std::size_t>(-1);

} // namespace

DetectionMatches::DetectionMatches(std::span<const DetectedPicture> pictures)
    : DetectionMatches(pictures, {most_detections,
                                  [pictures](std::size_t picture, std::size_t detection, std::size_t object) {
                                      const TrueObject& truth = pictures[picture].truth[object];
                                      return overlap(pictures[picture].detections[detection].box, truth.box,
                                                     truth.crowd);
                                  },
                                  [pictures](std::size_t picture, std::size_t detection) {
                                      return pictures[picture].detections[detection].box.area();
                                  }}) {}

DetectionMatches::DetectionMatches(std::span<const DetectedPicture> pictures, const MatchRules& rules)
    : pictures_(pictures.size()) {
    for (std::size_t i = 0; i < pictures.size(); ++i)
        match_picture(static_cast<std::uint32_t>(i), pictures[i], rules);
    for (auto& by_class : classes_) {
        for (ClassMatches& each : by_class)
            std::ranges::stable_sort(each.matches, std::greater<>(), &Match::score);
    }
}

void DetectionMatches::match_picture(std::uint32_t picture, const DetectedPicture& content, const MatchRules& rules) {
    std::map<std::int32_t, Content> by_class;
    for (const TrueObject& object : content.truth)
        by_class[object.class_index].truth.push_back(&object);
    for (const Detection& detection : content.detections)
        by_class[detection.class_index].detections.push_back(&detection);

    for (auto& [class_index, each] : by_class) {
        if (class_index < 0) continue; // what the model has no class for cannot be found
        std::ranges::stable_sort(each.detections, std::greater<>(), &Detection::score);
        if (each.detections.size() > rules.most) each.detections.resize(rules.most);
        const std::size_t objects = each.truth.size();
        std::vector<double> areas;
        for (const Detection* detection : each.detections)
            areas.push_back(rules.area(picture, static_cast<std::size_t>(detection - content.detections.data())));
        std::vector<double> overlaps(each.detections.size() * objects);
        for (std::size_t d = 0; d < each.detections.size(); ++d) {
            for (std::size_t t = 0; t < objects; ++t)
                overlaps[d * objects + t] =
                    rules.overlap(picture, static_cast<std::size_t>(each.detections[d] - content.detections.data()),
                                  static_cast<std::size_t>(each.truth[t] - content.truth.data()));
        }
        for (std::size_t size = 0; size < size_count; ++size) {
            const auto& range = size_ranges[size];
            auto& classes = classes_[size];
            if (classes.size() <= static_cast<std::size_t>(class_index))
                classes.resize(static_cast<std::size_t>(class_index) + 1);
            ClassMatches& found = classes[static_cast<std::size_t>(class_index)];

            // Those that count first: they are preferred to the others.
            std::vector<bool> ignored(objects);
            std::vector<std::size_t> order;
            for (std::size_t t = 0; t < objects; ++t) {
                ignored[t] = each.truth[t]->crowd || each.truth[t]->difficult || outside(each.truth[t]->area, range);
                if (!ignored[t]) order.push_back(t);
            }
            const std::size_t counting = order.size();
            for (std::size_t t = 0; t < objects; ++t)
                if (ignored[t]) order.push_back(t);
            if (counting > 0) found.truth.push_back({picture, static_cast<std::uint32_t>(counting)});

            const std::size_t first = found.matches.size();
            for (std::size_t d = 0; d < each.detections.size(); ++d) {
                Match match;
                match.score = each.detections[d]->score;
                match.picture = picture;
                match.rank = static_cast<std::uint16_t>(d);
                found.matches.push_back(match);
            }
            for (std::size_t step = 0; step < overlap_count; ++step) {
                const auto bit = static_cast<std::uint16_t>(1U << step);
                std::vector<bool> taken(objects);
                for (std::size_t d = 0; d < each.detections.size(); ++d) {
                    double best = std::min(overlap_threshold(step), 1 - 1e-10);
                    std::size_t partner = none;
                    for (const std::size_t t : order) {
                        if (taken[t] && !each.truth[t]->crowd) continue;
                        if (partner != none && !ignored[partner] && ignored[t]) break;
                        if (overlaps[d * objects + t] < best) continue;
                        best = overlaps[d * objects + t];
                        partner = t;
                    }
                    Match& match = found.matches[first + d];
                    if (partner == none) {
                        if (!outside(areas[d], range)) match.wrong |= bit;
                        continue;
                    }
                    taken[partner] = true;
                    if (!ignored[partner]) match.right |= bit;
                }
            }
        }
    }
}

DetectionMatches::Curve DetectionMatches::curve(const ClassMatches& matches, std::size_t overlap_index,
                                                std::size_t most, std::span<const std::uint32_t> weights) {
    const auto weight = [&](std::uint32_t picture) { return weights.empty() ? 1U : weights[picture]; };
    double objects = 0;
    for (const Count& count : matches.truth)
        objects += static_cast<double>(count.objects) * weight(count.picture);
    if (objects == 0) return {};

    // Only where recall rises can precision be the greatest to the right of a recall.
    struct Point {
        double recall;
        double precision;
    };
    std::vector<Point> points;
    const auto bit = static_cast<std::uint16_t>(1U << overlap_index);
    double right = 0;
    double wrong = 0;
    for (const Match& match : matches.matches) {
        if (match.rank >= most) continue;
        const std::uint32_t times = weight(match.picture);
        if (times == 0) continue;
        if ((match.wrong & bit) != 0) {
            wrong += times;
        } else if ((match.right & bit) != 0) {
            right += times;
            points.push_back({right / objects, right / (right + wrong)});
        }
    }
    Curve curve;
    curve.recall = right / objects;
    curve.precision = 0;
    double greatest = 0;
    std::size_t next = points.size();
    for (std::size_t step = recall_steps + 1; step-- > 0;) {
        while (next > 0 && points[next - 1].recall >= recall_threshold(step))
            greatest = std::max(greatest, points[--next].precision);
        curve.precision += greatest;
    }
    curve.precision /= static_cast<double>(recall_steps + 1);
    return curve;
}

double DetectionMatches::average_precision(std::span<const std::uint32_t> weights, OverlapRange range) const {
    DefinedMean mean;
    const std::size_t steps = range == OverlapRange::coco ? overlap_count : 1;
    for (const ClassMatches& each : classes_[0]) {
        for (std::size_t step = 0; step < steps; ++step)
            mean.add(curve(each, step, most_detections, weights).precision);
    }
    return mean.value();
}

double DetectionMatches::average_precision(OverlapRange range) const { return average_precision({}, range); }

AveragePrecision DetectionMatches::figures() const {
    AveragePrecision figures;
    DefinedMean at_half, at_three_quarters, recall_1, recall_10;
    std::array<DefinedMean, size_count> precision, recall;
    for (std::size_t size = 0; size < size_count; ++size) {
        for (const ClassMatches& each : classes_[size]) {
            DefinedMean of_class;
            for (std::size_t step = 0; step < overlap_count; ++step) {
                const Curve found = curve(each, step, most_detections, {});
                precision[size].add(found.precision);
                recall[size].add(found.recall);
                if (size > 0) continue;
                of_class.add(found.precision);
                if (step == 0) at_half.add(found.precision);
                if (step == 5) at_three_quarters.add(found.precision);
                recall_1.add(curve(each, step, 1, {}).recall);
                recall_10.add(curve(each, step, 10, {}).recall);
            }
            if (size == 0) figures.class_ap.push_back(of_class.value());
        }
    }
    figures.ap = precision[0].value();
    figures.ap50 = at_half.value();
    figures.ap75 = at_three_quarters.value();
    figures.ap_small = precision[1].value();
    figures.ap_medium = precision[2].value();
    figures.ap_large = precision[3].value();
    figures.recall_1 = recall_1.value();
    figures.recall_10 = recall_10.value();
    figures.recall_100 = recall[0].value();
    figures.recall_small = recall[1].value();
    figures.recall_medium = recall[2].value();
    figures.recall_large = recall[3].value();
    return figures;
}

Interval bootstrap_interval(const DetectionMatches& matches, OverlapRange range, std::size_t resamples,
                            std::uint64_t seed) {
    return bootstrap(matches.pictures(), resamples, seed,
                     [&](auto weights) { return matches.average_precision(weights, range); });
}

Interval bootstrap_difference(const DetectionMatches& subject, const DetectionMatches& reference, OverlapRange range,
                              std::size_t resamples, std::uint64_t seed) {
    return bootstrap(subject.pictures(), resamples, seed, [&](auto weights) {
        return subject.average_precision(weights, range) - reference.average_precision(weights, range);
    });
}

} // namespace lathe
