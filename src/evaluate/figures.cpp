#include "evaluate/figures.hpp"

namespace lathe {

namespace {

const char* to_string(FigureFormat format) {
    switch (format) {
        case FigureFormat::share: return "share";
        case FigureFormat::points: return "points";
        case FigureFormat::number: return "number";
        case FigureFormat::count: return "count";
        case FigureFormat::decibel: return "decibel";
    }
    return "";
}

Json columns_of(std::initializer_list<Figure> figures) {
    Json columns = Json::array();
    for (const Figure& figure : figures) {
        columns.push_back({{"title", figure.title},
                           {"key", figure.key},
                           {"format", to_string(figure.format)},
                           {"digits", figure.digits}});
    }
    return columns;
}

} // namespace

void describe_figures(Json& document, const MetricName& metric, const std::string& heading,
                      std::initializer_list<Figure> of_subjects, std::initializer_list<Figure> against_reference) {
    document["metric"] = {{"name", metric.name}, {"key", metric.key}};
    document["heading"] = heading;
    document["columns"] = {{"subjects", columns_of(of_subjects)}, {"vs_reference", columns_of(against_reference)}};
}

Json to_json(const Interval& interval) { return Json::array({interval.low, interval.high}); }

} // namespace lathe
