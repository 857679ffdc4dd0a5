#pragma once

#include <filesystem>
#include <string>

#include "report/document.hpp"
#include "support/json.hpp"

namespace lathe::test {

/// The made-up results beside this file.
inline Json sample() {
    auto json = read_json_file(std::filesystem::path(LATHE_SOURCE_DIR) / "tests/report/sample.json");
    return json ? std::move(*json) : Json();
}

inline Result<Json> document_of(Json json, const report::DocumentOptions& options = {}) {
    std::vector<report::Input> inputs;
    inputs.push_back({"sample.json", std::move(json)});
    return report::make_document(std::move(inputs), options);
}

} // namespace lathe::test
