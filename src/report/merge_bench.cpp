#include "report/merge_bench.hpp"

#include <utility>

#include "report/fields.hpp"

namespace lathe::report {
namespace {

bool from_logs(const Json& bench) { return text(bench, "source") == "trtexec"; }

} // namespace

Result<void> merge_bench(Json& bench, Json added, const std::string& names) {
    if (!from_logs(bench) && !from_logs(added)) {
        return Error{ErrorCode::invalid_argument, "two results of kind \"bench\"", names,
                     "times of separate runs must not be compared: bench all subjects in one run"};
    }
    if (from_logs(bench) && !from_logs(added)) std::swap(bench, added);
    for (const Json& subject : items(added, "subjects")) {
        const std::string name = text(subject, "name");
        if (find_item(items(bench, "subjects"), "name", name) == nullptr) continue;
        return Error{ErrorCode::invalid_argument, "both benchmarks have a subject \"" + name + "\"", names,
                     "leave one out, or rename the model or log file that it is called after"};
    }
    for (const char* list : {"subjects", "latency", "throughput", "unavailable", "notes"}) {
        for (const Json& item : items(added, list)) {
            if (!bench.contains(list) || !bench[list].is_array()) bench[list] = Json::array();
            bench[list].push_back(item);
        }
    }
    if (const Json* libraries = member(added, "libraries"); libraries != nullptr && libraries->is_object()) {
        if (!bench.contains("libraries") || !bench["libraries"].is_object()) bench["libraries"] = Json::object();
        bench["libraries"].update(*libraries);
    }
    return {};
}

} // namespace lathe::report
