#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/labels.hpp"
#include "data/preprocess.hpp"
#include "data/squad.hpp"
#include "fuzz_file.hpp"
#include "plan/latency_curve.hpp"
#include "plan/prices.hpp"
#include "plan/served.hpp"
#include "plan/stages.hpp"
#include "report/document.hpp"
#include "support/json.hpp"
#include "tasks/detection/truth_formats.hpp"

// Each kind of JSON that is read, of the same bytes: results, plans, preprocessing, class names, COCO, SQuAD.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = lathe::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!json) return 0;
    (void)lathe::Preprocess::from_json(*json, "fuzz");
    (void)lathe::class_names_from_json(*json, "fuzz");
    (void)lathe::report::make_document({{"fuzz.json", *json}});
    const auto curve = lathe::read_latency_curve(*json, "", "fuzz");
    if (curve) (void)curve->batches(curve->max_batch(), 1);
    (void)lathe::ServedTimes::read(*json, "fuzz");
    const lathe::fuzz::File file(data, size, ".json");
    (void)lathe::read_stages(file.path());
    (void)lathe::PriceTable::read(file.path());
    (void)lathe::detail::read_coco(file.path());
    (void)lathe::load_squad(file.path());
    (void)lathe::read_class_names(file.path());
    return 0;
}
