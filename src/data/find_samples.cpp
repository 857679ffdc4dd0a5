#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "data/csv.hpp"
#include "data/image.hpp"
#include "data/labels.hpp"
#include "data/sources.hpp"
#include "support/files.hpp"

namespace lathe::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t list_limit = std::size_t{256} << 20;
constexpr const char* image_hint = "give a folder with labels.csv (file,class_index), with class subfolders, or with "
                                   ".jpg/.png images; or a .npy or .npz file";

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

/// Entries of a folder in order of name (bytes, as Python sorts), hidden ones left out.
Result<std::vector<fs::path>> sorted_entries(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    fs::directory_iterator it(folder, error);
    for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
        if (!is_hidden(it->path())) entries.push_back(it->path());
    }
    if (error) return Error{ErrorCode::io, "cannot list the folder: " + error.message(), folder.string(), ""};
    std::sort(entries.begin(), entries.end(),
              [](const fs::path& a, const fs::path& b) { return a.filename().string() < b.filename().string(); });
    return entries;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

/// All images below a folder, subfolders too, in order of name. Links to folders are not followed, so no loop.
Result<void> collect_images(const fs::path& folder, std::vector<fs::path>& images, int depth) {
    if (depth > 32) return Error{ErrorCode::invalid_argument, "folders nested too deeply", folder.string(), ""};
    LATHE_TRY(const auto entries, sorted_entries(folder));
    for (const fs::path& entry : entries) {
        std::error_code ignored;
        if (is_folder(entry)) {
            if (!fs::is_symlink(entry, ignored)) LATHE_CHECK(collect_images(entry, images, depth + 1));
        } else if (has_image_extension(entry)) {
            images.push_back(entry);
        }
    }
    return {};
}

/// classes.csv in the folder or beside it.
Result<Classes> find_classes(const fs::path& folder) {
    const fs::path normal = fs::absolute(folder).lexically_normal();
    const fs::path parent = normal.has_filename() ? normal.parent_path() : normal.parent_path().parent_path();
    for (const fs::path& place : {normal, parent}) {
        if (is_there(place / "classes.csv")) return read_classes_csv(place / "classes.csv");
    }
    return Classes{};
}

Result<SampleFiles> read_label_list(const fs::path& list) {
    LATHE_TRY(const std::string text, read_text_file(list, list_limit));
    LATHE_TRY(const auto rows, parse_csv(text, list.string()));
    const auto refuse = [&](const std::string& message) {
        return Error{ErrorCode::parse_error, message, list.string(), "the first line is \"file,class_index\""};
    };
    if (rows.empty()) return refuse("the label list is empty");
    const auto& heading = rows[0];
    const auto column = [&](std::string_view name) {
        return static_cast<std::size_t>(std::find(heading.begin(), heading.end(), name) - heading.begin());
    };
    const std::size_t file_column = column("file");
    const std::size_t label_column = column("class_index");
    if (file_column == heading.size()) return refuse("the label list lacks the column file");
    if (label_column == heading.size()) return refuse("the label list lacks the column class_index");

    SampleFiles samples;
    samples.labelled = true;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const auto& row = rows[i];
        const std::string place = "row " + std::to_string(i + 1);
        if (row.size() != heading.size()) return refuse(place + " has not as many fields as the header");
        SampleFile sample{list.parent_path() / row[file_column], row[file_column], -1};
        const std::string& number = row[label_column];
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), sample.label);
        if (error != std::errc{} || end != number.data() + number.size() || sample.label < 0) {
            return refuse(place + ": \"" + number + "\" is not a class index");
        }
        samples.files.push_back(std::move(sample));
    }
    LATHE_TRY(Classes classes, find_classes(list.parent_path()));
    samples.class_names = std::move(classes.names);
    return samples;
}

Result<SampleFiles> read_file_list(const fs::path& list) {
    LATHE_TRY(const std::string text, read_text_file(list, list_limit));
    SampleFiles samples;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        std::string line = text.substr(start, end - start);
        if (line.ends_with('\r')) line.pop_back();
        if (!line.empty()) samples.files.push_back({list.parent_path() / line, line, -1});
        start = end + 1;
    }
    return samples;
}

Result<SampleFiles> read_class_folders(const fs::path& folder, const std::vector<fs::path>& class_folders) {
    LATHE_TRY(Classes classes, find_classes(folder));
    const bool known = !classes.index_of.empty() &&
                       std::all_of(class_folders.begin(), class_folders.end(), [&](const fs::path& class_folder) {
                           return classes.index_of.contains(class_folder.filename().string());
                       });
    SampleFiles samples;
    samples.labelled = true;
    for (std::size_t i = 0; i < class_folders.size(); ++i) {
        const std::string name = class_folders[i].filename().string();
        const std::int64_t label = known ? classes.index_of.find(name)->second : static_cast<std::int64_t>(i);
        if (!known) samples.class_names.push_back(name);
        std::vector<fs::path> images;
        LATHE_CHECK(collect_images(class_folders[i], images, 0));
        for (const fs::path& image : images)
            samples.files.push_back({image, image.lexically_relative(folder).string(), label});
    }
    if (known) samples.class_names = std::move(classes.names);
    return samples;
}

Result<SampleFiles> search_folder(const fs::path& folder) {
    if (is_there(folder / "labels.csv")) return read_label_list(folder / "labels.csv");
    LATHE_TRY(const auto entries, sorted_entries(folder));
    std::vector<fs::path> folders;
    SampleFiles images;
    SampleFiles arrays;
    arrays.arrays = true;
    for (const fs::path& entry : entries) {
        const std::string name = entry.filename().string();
        if (is_folder(entry))
            folders.push_back(entry);
        else if (has_image_extension(entry))
            images.files.push_back({entry, name, -1});
        else if (entry.extension() == ".npy")
            arrays.files.push_back({entry, name, -1});
    }
    if (!images.files.empty() && !arrays.files.empty()) {
        return Error{ErrorCode::invalid_argument, "the folder holds both images and .npy files", folder.string(),
                     "separate them"};
    }
    if (!images.files.empty()) return images;
    if (!arrays.files.empty()) return arrays;
    if (!folders.empty()) return read_class_folders(folder, folders);
    return SampleFiles{};
}

} // namespace

Result<SampleFiles> find_samples(const fs::path& path) {
    if (!is_there(path)) return Error{ErrorCode::not_found, "no such file or folder", path.string(), "check the path"};
    Result<SampleFiles> found = [&]() -> Result<SampleFiles> {
        if (is_folder(path)) return search_folder(path);
        if (path.extension() == ".csv") return read_label_list(path);
        if (path.extension() == ".txt") return read_file_list(path);
        SampleFiles one;
        one.files.push_back({path, path.filename().string(), -1});
        return one;
    }();
    if (found && found->files.empty()) {
        return Error{ErrorCode::not_found, "no samples here", path.string(), image_hint};
    }
    return found;
}

} // namespace lathe::detail
