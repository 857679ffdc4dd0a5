#include "tasks/detection/truth.hpp"

#include <algorithm>
#include <set>

#include "support/files.hpp"
#include "tasks/detection/truth_formats.hpp"

namespace lathe {

namespace fs = std::filesystem;

namespace {

/// Whether a folder holds files with this extension beside pictures of the same name.
bool has_companions(const fs::path& folder, const std::string& extension) {
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
        if (!has_image_extension(entry->path())) continue;
        if (is_file(fs::path(entry->path()).replace_extension(extension))) return true;
    }
    return false;
}

/// JSON files in a folder, instances*.json first: the usual name of COCO's boxes.
std::vector<fs::path> json_files(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
        if (entry->path().extension() == ".json" && is_file(entry->path())) found.push_back(entry->path());
    }
    std::ranges::sort(found, {}, [](const fs::path& file) {
        const std::string name = file.filename().string();
        return std::pair(!name.starts_with("instances"), name);
    });
    return found;
}

} // namespace

std::optional<std::vector<TrueObject>> DetectionTruth::of(const std::string& name, const PictureSize& size) const {
    const auto found = by_name.find(fs::path(name).filename().string());
    if (found == by_name.end()) {
        if (format == "YOLO") return std::vector<TrueObject>{};
        return std::nullopt;
    }
    std::vector<TrueObject> objects = found->second.objects;
    if (!found->second.shares) return objects;
    const auto width = static_cast<double>(size.width);
    const auto height = static_cast<double>(size.height);
    for (TrueObject& object : objects) {
        Box& box = object.box;
        box = {box.left * width, box.top * height, box.width * width, box.height * height};
        object.area = box.area();
    }
    return objects;
}

std::size_t DetectionTruth::objects() const {
    std::size_t count = 0;
    for (const auto& [name, picture] : by_name)
        count += picture.objects.size();
    return count;
}

Result<std::optional<DetectionTruth>> find_detection_truth(const fs::path& path) {
    using Found = std::optional<DetectionTruth>;
    const auto found = [](Result<DetectionTruth> truth) -> Result<Found> {
        if (!truth) return std::move(truth).error();
        return Found(std::move(*truth));
    };
    if (is_file(path)) {
        if (path.extension() != ".json") return Found();
        return detail::read_coco(path);
    }
    if (!is_folder(path)) return Found();
    for (const fs::path& folder : {path, path / "annotations"}) {
        for (const fs::path& file : json_files(folder)) {
            LATHE_TRY(Found truth, detail::read_coco(file));
            if (truth) return truth;
        }
    }
    if (is_folder(path / "labels") && is_folder(path / "images"))
        return found(detail::read_yolo(path / "labels", path / "images"));
    if (is_folder(path / "Annotations") && is_folder(path / "JPEGImages"))
        return found(detail::read_voc(path / "Annotations", path / "JPEGImages"));
    if (is_file(path / "labels.csv")) return Found(); // of classes, whatever texts lie beside the pictures
    if (has_companions(path, ".xml")) return found(detail::read_voc(path, path));
    if (has_companions(path, ".txt")) return found(detail::read_yolo(path, path));
    return Found();
}

Result<std::vector<std::int32_t>> map_classes(const DetectionTruth& truth, const std::vector<std::string>& names,
                                              std::size_t classes) {
    const std::size_t count = truth.classes.size();
    std::vector<std::int32_t> mapped(count);
    const bool named = !names.empty() && count > 0 && std::ranges::all_of(truth.classes, [&](const std::string& name) {
        return std::ranges::find(names, name) != names.end();
    });
    if (named) {
        std::ranges::transform(truth.classes, mapped.begin(), [&](const std::string& name) {
            return static_cast<std::int32_t>(std::ranges::find(names, name) - names.begin());
        });
        return mapped;
    }
    const auto by_index = [&] {
        for (std::size_t i = 0; i < count; ++i)
            mapped[i] = static_cast<std::int32_t>(i);
        return mapped;
    };
    if (classes == 0 || classes == count || (truth.ids.empty() && count <= classes)) return by_index();
    if (!truth.ids.empty() && truth.ids.front() >= 0) {
        // Category numbers with gaps: COCO's go to 90, so models have 91 classes, or 90 without a background.
        const auto last = static_cast<std::size_t>(truth.ids.back());
        if (last <= classes &&
            truth.ids.front() + static_cast<std::int64_t>(classes) > static_cast<std::int64_t>(last)) {
            const std::int64_t shift = last == classes ? 1 : 0;
            for (std::size_t i = 0; i < count; ++i)
                mapped[i] = static_cast<std::int32_t>(truth.ids[i] - shift);
            return mapped;
        }
    }
    return Error{ErrorCode::mismatch,
                 "the truth has " + std::to_string(count) + " classes, the model " + std::to_string(classes),
                 truth.source.string(), "give data with the classes that the model was trained on"};
}

} // namespace lathe
