#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "support/files.hpp"
#include "support/hash.hpp"
#include "tasks/detection/truth_formats.hpp"

namespace lathe::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t text_limit = std::size_t{16} << 20;
constexpr std::int32_t most_classes = 65'536;

/// Files with an extension, in order of name.
Result<std::vector<fs::path>> files_in(const fs::path& folder, const std::string& extension) {
    std::vector<fs::path> found;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
        if (entry->path().extension() == extension) found.push_back(entry->path());
    }
    if (failed) return Error{ErrorCode::io, "cannot read the folder: " + failed.message(), folder.string(), ""};
    std::ranges::sort(found);
    return found;
}

/// Stem of a picture to its file name.
Result<std::map<std::string, std::string>> pictures_in(const fs::path& folder) {
    std::map<std::string, std::string> names;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
        if (has_image_extension(entry->path()))
            names[entry->path().stem().string()] = entry->path().filename().string();
    }
    if (failed) return Error{ErrorCode::io, "cannot read the folder: " + failed.message(), folder.string(), ""};
    return names;
}

std::vector<std::string_view> split(std::string_view text, std::string_view marks) {
    std::vector<std::string_view> parts;
    for (std::size_t start = text.find_first_not_of(marks); start != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(marks, start), text.size());
        parts.push_back(text.substr(start, end - start));
        start = text.find_first_not_of(marks, end);
    }
    return parts;
}

std::optional<double> number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

/// "class x y width height": a box in shares of the picture.
std::optional<TrueObject> yolo_object(std::string_view line) {
    const auto parts = split(line, " \t\r");
    if (parts.size() < 5) return std::nullopt;
    double values[5];
    for (std::size_t i = 0; i < 5; ++i) {
        const auto value = number(parts[i]);
        if (!value) return std::nullopt;
        values[i] = *value;
    }
    const bool whole = values[0] >= 0 && values[0] < most_classes && values[0] == std::floor(values[0]);
    if (!whole || values[3] < 0 || values[4] < 0) return std::nullopt;
    // More numbers are the corners of an outline, not a box.
    if (parts.size() > 6) return std::nullopt;
    for (std::size_t i = 1; i < 5; ++i)
        if (values[i] < -1 || values[i] > 2) return std::nullopt; // pixels, not shares
    TrueObject object;
    object.box = {values[1] - values[3] / 2, values[2] - values[4] / 2, values[3], values[4]};
    object.class_index = static_cast<std::int32_t>(values[0]);
    object.area = object.box.area();
    return object;
}

/// What is between <name> and </name> from `from` on; `from` moves behind it. No nesting of one name, as VOC has none.
std::optional<std::string_view> element(std::string_view xml, std::string_view name, std::size_t& from) {
    const std::string open = "<" + std::string(name) + ">";
    const std::string close = "</" + std::string(name) + ">";
    const std::size_t start = xml.find(open, from);
    if (start == std::string_view::npos) return std::nullopt;
    const std::size_t end = xml.find(close, start + open.size());
    if (end == std::string_view::npos) return std::nullopt;
    from = end + close.size();
    std::string_view inner = xml.substr(start + open.size(), end - start - open.size());
    const std::size_t first = inner.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return std::string_view();
    return inner.substr(first, inner.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<std::string_view> element(std::string_view xml, std::string_view name) {
    std::size_t from = 0;
    return element(xml, name, from);
}

struct NamedObject {
    std::string name;
    TrueObject object;
};

/// One <object>. Corners are whole pixels from 1 on, both inside the box.
std::optional<NamedObject> voc_object(std::string_view xml) {
    const auto box = element(xml, "bndbox");
    const auto name = element(xml, "name");
    if (!box || !name || name->empty()) return std::nullopt;
    double corners[4];
    std::size_t next = 0;
    for (const char* key : {"xmin", "ymin", "xmax", "ymax"}) {
        const auto text = element(*box, key);
        const auto value = text ? number(*text) : std::nullopt;
        if (!value) return std::nullopt;
        corners[next++] = *value;
    }
    NamedObject found{std::string(*name), {}};
    found.object.box = {corners[0] - 1, corners[1] - 1, corners[2] - corners[0] + 1, corners[3] - corners[1] + 1};
    if (found.object.box.width < 0 || found.object.box.height < 0) return std::nullopt;
    found.object.area = found.object.box.area();
    const auto difficult = element(xml, "difficult");
    found.object.difficult = difficult && *difficult == "1";
    return found;
}

} // namespace

Result<DetectionTruth> read_yolo(const fs::path& labels, const fs::path& pictures) {
    DetectionTruth truth;
    truth.format = "YOLO";
    truth.source = labels;
    truth.pictures = pictures;
    LATHE_TRY(const auto names, pictures_in(pictures));
    LATHE_TRY(const auto files, files_in(labels, ".txt"));
    Hasher hasher;
    std::int32_t last = -1;
    for (const fs::path& file : files) {
        const auto picture = names.find(file.stem().string());
        if (picture == names.end()) continue; // classes.txt, train.txt
        LATHE_TRY(const std::string text, read_text_file(file, text_limit));
        hasher.update(std::string_view(picture->second));
        hasher.update(std::string_view(text));
        DetectionTruth::Picture& entry = truth.by_name[picture->second];
        entry.shares = true;
        std::size_t line_number = 0;
        for (std::size_t start = 0; start < text.size();) {
            const std::size_t end = std::min(text.find('\n', start), text.size());
            const std::string_view line = std::string_view(text).substr(start, end - start);
            ++line_number;
            start = end + 1;
            if (split(line, " \t\r").empty()) continue;
            const auto object = yolo_object(line);
            if (!object) {
                return Error{ErrorCode::parse_error, "line " + std::to_string(line_number) + " is no box",
                             file.string(),
                             "a line is: class x y width height, centre and size as shares of the picture"};
            }
            last = std::max(last, object->class_index);
            entry.objects.push_back(*object);
        }
    }
    for (const fs::path& list : {labels / "classes.txt", labels.parent_path() / "classes.txt"}) {
        std::error_code ignored;
        if (!fs::is_regular_file(list, ignored)) continue;
        LATHE_TRY(const std::string text, read_text_file(list, text_limit));
        for (const std::string_view name : split(text, "\r\n"))
            truth.classes.emplace_back(name);
        break;
    }
    for (auto next = static_cast<std::int32_t>(truth.classes.size()); next <= last; ++next)
        truth.classes.push_back(std::to_string(next));
    truth.digest = hasher.hex();
    return truth;
}

Result<DetectionTruth> read_voc(const fs::path& annotations, const fs::path& pictures) {
    DetectionTruth truth;
    truth.format = "Pascal VOC";
    truth.source = annotations;
    truth.pictures = pictures;
    LATHE_TRY(const auto names, pictures_in(pictures));
    LATHE_TRY(const auto files, files_in(annotations, ".xml"));
    Hasher hasher;
    std::map<std::string, std::vector<NamedObject>> found;
    std::set<std::string> classes;
    for (const fs::path& file : files) {
        const auto picture = names.find(file.stem().string());
        if (picture == names.end()) continue;
        LATHE_TRY(const std::string text, read_text_file(file, text_limit));
        hasher.update(std::string_view(picture->second));
        hasher.update(std::string_view(text));
        const auto whole = element(text, "annotation");
        if (!whole)
            return Error{ErrorCode::parse_error, "there is no <annotation>", file.string(), "give Pascal VOC's XML"};
        auto& objects = found[picture->second];
        std::size_t from = 0;
        while (const auto each = element(*whole, "object", from)) {
            auto object = voc_object(*each);
            if (!object) {
                return Error{ErrorCode::parse_error,
                             "<object> " + std::to_string(objects.size() + 1) + " has no <name> and <bndbox>",
                             file.string(), "give Pascal VOC's XML"};
            }
            classes.insert(object->name);
            objects.push_back(*std::move(object));
        }
    }
    truth.classes.assign(classes.begin(), classes.end());
    for (auto& [name, objects] : found) {
        DetectionTruth::Picture& entry = truth.by_name[name];
        for (NamedObject& each : objects) {
            each.object.class_index =
                static_cast<std::int32_t>(std::ranges::lower_bound(truth.classes, each.name) - truth.classes.begin());
            entry.objects.push_back(each.object);
        }
    }
    truth.digest = hasher.hex();
    return truth;
}

} // namespace lathe::detail
