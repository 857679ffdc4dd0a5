#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/csv.hpp"
#include "data/labels.hpp"
#include "data/text_table.hpp"
#include "fuzz_file.hpp"
#include "plan/arrivals.hpp"

// Tables of text: classes, class names, texts with labels in each form, arrival times.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    (void)lathe::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const char* suffix : {".csv", ".tsv", ".jsonl", ".txt"}) {
        const lathe::fuzz::File file(data, size, suffix);
        const auto table = lathe::TextTable::open(file.path(), {});
        for (std::size_t row = 0; table && row < std::min<std::size_t>(table->rows(), 20); ++row)
            (void)table->read(row);
        if (std::string_view(suffix) == ".csv") (void)lathe::read_classes_csv(file.path());
        if (std::string_view(suffix) == ".txt") {
            (void)lathe::read_class_names(file.path());
            (void)lathe::read_arrival_times(file.path());
        }
    }
    return 0;
}
