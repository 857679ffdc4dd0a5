#pragma once

#include <cmath>
#include <initializer_list>
#include <string>

#include "support/interval.hpp"
#include "support/json.hpp"

namespace lathe {

inline Json interval_pair(const Interval& interval) { return Json::array({interval.low, interval.high}); }
/// NaN, where there is nothing to judge, is null; so is infinity.
inline Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
/// COCO's evaluation says -1 where there is nothing to judge.
inline Json known_or_null(double value) { return value <= -1 ? Json(nullptr) : Json(value); }

/// How a figure of an evaluation is written.
enum class FigureFormat {
    share,  ///< 0..1, as per cent
    points, ///< a difference of shares, in percentage points with its sign
    number, ///< as it is
    count,
    decibel, ///< null: the outputs are equal
};

/// One figure that an evaluation's tables show, on the command line and in the report, beside its interval where the
/// document has one ("<key>_ci95").
struct Figure {
    const char* title;
    const char* key;
    FigureFormat format = FigureFormat::share;
    int digits = 2;
};

/// What says how good a subject is: subjects have `key`, and where there is a reference vs_reference has
/// "<key>_delta" with "<key>_delta_ci95" (paired). More is better, 1 is perfect.
struct MetricName {
    const char* name; ///< "mAP", in sentences
    const char* key;
};

/// Writes "metric", "heading" and "columns" into an eval document: all that its readers need to know of the task.
void describe_figures(Json& document, const MetricName& metric, const std::string& heading,
                      std::initializer_list<Figure> of_subjects, std::initializer_list<Figure> against_reference);

/// [low, high].
Json to_json(const Interval& interval);

} // namespace lathe
