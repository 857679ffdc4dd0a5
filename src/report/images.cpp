#include "report/images.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <unistd.h>

#include "report/fields.hpp"
#include "report/process.hpp"
#include "support/files.hpp"

namespace lathe::report {

namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
    std::error_code failure;
    return fs::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
}

/// The JSON that main.js leaves in the page when it is opened with #export-png.
Result<Json> exported_charts(const std::string& page) {
    constexpr std::string_view open = "id=\"lathe-export\">";
    const std::size_t start = page.rfind(open);
    const std::size_t end = start == std::string::npos ? start : page.find("</script>", start);
    if (end == std::string::npos) {
        return Error{ErrorCode::internal, "the page did not draw its charts", "Chromium",
                     "try another version of Chromium (set LATHE_CHROMIUM)"};
    }
    return parse_json(std::string_view(page).substr(start + open.size(), end - start - open.size()),
                      "Chromium's output");
}

bool safe_name(const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
}

} // namespace

Result<fs::path> find_chromium() {
    if (const char* chosen = std::getenv("LATHE_CHROMIUM"); chosen != nullptr && *chosen != '\0') {
        if (is_program(chosen)) return fs::path(chosen);
        return Error{ErrorCode::not_found, "LATHE_CHROMIUM names no program", chosen,
                     "set it to the path of chromium, or unset it to search the PATH"};
    }
    const char* path = std::getenv("PATH");
    const std::string folders = path != nullptr ? path : "";
    for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}) {
        for (std::size_t start = 0; start <= folders.size();) {
            const std::size_t end = std::min(folders.find(':', start), folders.size());
            const fs::path candidate = fs::path(folders.substr(start, end - start)) / name;
            if (candidate.is_absolute() && is_program(candidate)) return candidate;
            start = end + 1;
        }
    }
    return Error{ErrorCode::unsupported, "no Chromium was found to draw the charts with", "",
                 "install it (apt-get install chromium) or set LATHE_CHROMIUM to its path; the report itself has a PNG "
                 "button at every chart"};
}

std::vector<std::string> chromium_arguments(const fs::path& program, const fs::path& profile) {
    std::vector<std::string> arguments{program.string(),
                                       "--headless",
                                       "--disable-gpu",
                                       "--disable-dev-shm-usage",
                                       "--disable-extensions",
                                       "--disable-background-networking",
                                       "--disable-component-update",
                                       "--disable-sync",
                                       "--no-first-run",
                                       "--no-default-browser-check",
                                       "--hide-scrollbars",
                                       "--user-data-dir=" + profile.string()};
    if (::geteuid() == 0) arguments.emplace_back("--no-sandbox");
    return arguments;
}

Result<std::vector<fs::path>> write_images(const std::string& html, const fs::path& folder, Progress& progress,
                                           std::chrono::milliseconds limit) {
    LATHE_TRY(const fs::path chromium, find_chromium());
    LATHE_TRY(const ScratchFolder scratch, ScratchFolder::create());
    const fs::path page = scratch.path() / "report.html";
    LATHE_CHECK(write_file(page, std::string_view(html)));
    auto arguments = chromium_arguments(chromium, scratch.path() / "profile");
    arguments.insert(arguments.end(), {"--virtual-time-budget=20000", "--window-size=1280,900", "--dump-dom",
                                       "file://" + page.string() + "#export-png"});
    progress.begin("drawing charts", 0);
    const auto ran = run_process(arguments, limit, progress);
    progress.end();
    if (!ran) return ran.error();
    if (ran->exit_code != 0) {
        const std::string tail =
            ran->errors.substr(ran->errors.size() - std::min<std::size_t>(ran->errors.size(), 400));
        return Error{ErrorCode::io, "Chromium ended with code " + std::to_string(ran->exit_code) + ": " + tail,
                     chromium.string(), "run it by hand to see what it lacks, or set LATHE_CHROMIUM to another"};
    }
    LATHE_TRY(const Json charts, exported_charts(ran->output));

    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) return Error{ErrorCode::io, "cannot make the folder: " + failure.message(), folder.string(), ""};
    std::vector<fs::path> files;
    for (const Json& chart : charts) {
        constexpr std::string_view prefix = "data:image/png;base64,";
        const std::string name = text(chart, "id");
        const std::string url = text(chart, "png");
        if (!safe_name(name) || !url.starts_with(prefix)) {
            return Error{ErrorCode::internal, "Chromium gave no picture of chart \"" + name + "\"", chromium.string(),
                         ""};
        }
        LATHE_TRY(const std::string bytes, decode_base64(std::string_view(url).substr(prefix.size())));
        files.push_back(folder / (name + ".png"));
        LATHE_CHECK(write_file(files.back(), std::string_view(bytes)));
    }
    return files;
}

Result<std::string> decode_base64(std::string_view text) {
    const Error malformed{ErrorCode::parse_error, "not base64", "", ""};
    if (text.size() % 4 != 0) return malformed;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        int value = 0;
        if (c >= 'A' && c <= 'Z')
            value = c - 'A';
        else if (c >= 'a' && c <= 'z')
            value = c - 'a' + 26;
        else if (c >= '0' && c <= '9')
            value = c - '0' + 52;
        else if (c == '+')
            value = 62;
        else if (c == '/')
            value = 63;
        else if (c != '=' || i < text.size() - padding)
            return malformed;
        bits = (bits << 6) | static_cast<std::uint32_t>(value);
        if (i % 4 == 3) {
            for (const int shift : {16, 8, 0})
                bytes += static_cast<char>((bits >> shift) & 0xFFU);
            bits = 0;
        }
    }
    bytes.resize(bytes.size() - padding);
    return bytes;
}

} // namespace lathe::report
