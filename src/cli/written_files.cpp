#include "cli/written_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "support/lost_inputs.hpp"

namespace lathe::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::array written_names{"output", "plan", "report",        "results",         "png",
                                   "draw",   "dump", "exportProfile", "exportLayerInfo", "timing-cache"};

/// What a value may name: it itself, the entries of a list, and what stands beside a name: pytorch=FILE, input:FILE.
std::vector<std::string> names_in(const std::string& value) {
    std::vector<std::string> names{value};
    for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        const std::string entry = value.substr(begin, end - begin);
        names.push_back(entry);
        for (const char separator : {'=', ':'}) {
            const auto first = entry.find(separator);
            if (first == std::string::npos) continue;
            names.push_back(entry.substr(first + 1));
            names.push_back(entry.substr(0, entry.rfind(separator)));
        }
        begin = end + 1;
    }
    return names;
}

std::vector<std::string> values_of(const CLI::Option& option) {
    if (option.count() > 0) return option.results();
    const std::string usual = option.get_default_str();
    return usual.empty() ? std::vector<std::string>() : std::vector{usual};
}

std::string normal(const std::string& path) {
    std::error_code failed;
    return fs::weakly_canonical(fs::absolute(path, failed), failed).string();
}

} // namespace

bool is_written(const CLI::Option& option) {
    return std::ranges::any_of(option.get_lnames(), [](const std::string& name) {
        return std::ranges::find(written_names, name) != written_names.end();
    });
}

Result<void> refuse_lost_inputs(const CLI::App& command) {
    std::vector<std::string> outputs;
    std::vector<std::string> inputs;
    std::error_code failed;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& value : values_of(*option)) {
            if (is_written(*option)) {
                outputs.push_back(value);
                continue;
            }
            for (std::string& name : names_in(value)) {
                if (!name.empty() && fs::exists(name, failed)) inputs.push_back(std::move(name));
            }
        }
    }
    LATHE_CHECK(lathe::refuse_lost_inputs(outputs, inputs));
    std::vector<std::string> seen;
    for (const std::string& output : outputs) {
        const bool special = fs::exists(output, failed) && !fs::is_regular_file(output, failed);
        if (output.empty() || special) continue;
        const std::string path = normal(output);
        if (std::ranges::find(seen, path) != seen.end()) {
            return Error{ErrorCode::invalid_argument, "two outputs are the same file", output, "name two files"};
        }
        seen.push_back(path);
    }
    return {};
}

} // namespace lathe::cli
