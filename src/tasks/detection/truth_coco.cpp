#include <algorithm>
#include <cmath>

#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/json.hpp"
#include "tasks/detection/truth_formats.hpp"

namespace lathe::detail {

namespace fs = std::filesystem;

namespace {

Error malformed(const fs::path& file, const std::string& place, const std::string& what) {
    return {ErrorCode::parse_error, place + " " + what, file.string(),
            "give COCO's format: images, annotations with image_id, category_id and bbox, categories"};
}

std::optional<std::int64_t> integer(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
}

std::optional<Box> box_of(const Json& annotation) {
    const auto found = annotation.find("bbox");
    if (found == annotation.end() || !found->is_array() || found->size() != 4) return std::nullopt;
    double values[4];
    for (std::size_t i = 0; i < 4; ++i) {
        if (!(*found)[i].is_number()) return std::nullopt;
        values[i] = (*found)[i].get<double>();
        if (!std::isfinite(values[i])) return std::nullopt;
    }
    if (values[2] < 0 || values[3] < 0) return std::nullopt;
    return Box{values[0], values[1], values[2], values[3]};
}

Result<void> read_categories(const Json& list, const fs::path& file, DetectionTruth& truth) {
    std::vector<std::pair<std::int64_t, std::string>> categories;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const auto id = integer(list[i], "id");
        const std::string place = "categories[" + std::to_string(i) + "]";
        if (!id) return malformed(file, place, "has no whole number \"id\"");
        const auto name = list[i].find("name");
        categories.emplace_back(*id, name != list[i].end() && name->is_string() ? name->get<std::string>()
                                                                                : std::to_string(*id));
    }
    std::ranges::sort(categories);
    for (auto& [id, name] : categories) {
        if (!truth.ids.empty() && truth.ids.back() == id)
            return malformed(file, "category " + std::to_string(id), "is there twice");
        truth.ids.push_back(id);
        truth.classes.push_back(std::move(name));
    }
    return {};
}

} // namespace

Result<std::optional<DetectionTruth>> read_coco(const fs::path& file) {
    LATHE_TRY(const Json json, read_json_file(file));
    const auto list = [&](const char* key) {
        const auto found = json.is_object() ? json.find(key) : json.end();
        return found != json.end() && found->is_array() ? &*found : nullptr;
    };
    const Json* images = list("images");
    const Json* annotations = list("annotations");
    const Json* categories = list("categories");
    if (images == nullptr || annotations == nullptr || categories == nullptr) return std::optional<DetectionTruth>();

    DetectionTruth truth;
    truth.format = "COCO";
    truth.source = file;
    truth.pictures = file.parent_path();
    LATHE_TRY(truth.digest, hash_file(file));
    LATHE_CHECK(read_categories(*categories, file, truth));

    std::map<std::int64_t, std::string> names;
    for (std::size_t i = 0; i < images->size(); ++i) {
        const Json& image = (*images)[i];
        const std::string place = "images[" + std::to_string(i) + "]";
        const auto id = integer(image, "id");
        if (!id) return malformed(file, place, "has no whole number \"id\"");
        const auto name = image.find("file_name");
        if (name == image.end() || !name->is_string()) return malformed(file, place, "has no text \"file_name\"");
        const std::string plain = fs::path(name->get<std::string>()).filename().string();
        if (!names.emplace(*id, plain).second || !truth.by_name.try_emplace(plain).second)
            return malformed(file, place, "is there twice");
    }
    for (std::size_t i = 0; i < annotations->size(); ++i) {
        const Json& annotation = (*annotations)[i];
        const std::string place = "annotations[" + std::to_string(i) + "]";
        const auto image = integer(annotation, "image_id");
        const auto category = integer(annotation, "category_id");
        if (!image || !category) return malformed(file, place, "has no whole numbers \"image_id\" and \"category_id\"");
        const auto picture = names.find(*image);
        if (picture == names.end())
            return malformed(file, place, "is of image " + std::to_string(*image) + ", which is not listed");
        const auto index = std::ranges::lower_bound(truth.ids, *category);
        if (index == truth.ids.end() || *index != *category)
            return malformed(file, place, "is of category " + std::to_string(*category) + ", which is not listed");
        const auto box = box_of(annotation);
        if (!box) return malformed(file, place, "has no \"bbox\" of left, top, width and height");
        TrueObject object{*box, static_cast<std::int32_t>(index - truth.ids.begin()), box->area()};
        if (const auto area = annotation.find("area"); area != annotation.end() && area->is_number())
            object.area = area->get<double>();
        if (const auto crowd = annotation.find("iscrowd"); crowd != annotation.end())
            object.crowd = crowd->is_boolean() ? crowd->get<bool>() : crowd->is_number() && crowd->get<double>() != 0;
        truth.by_name[picture->second].objects.push_back(object);
    }
    // Pictures beside the file, else in the usual folders.
    std::error_code ignored;
    const std::string first = truth.by_name.empty() ? std::string() : truth.by_name.begin()->first;
    for (const fs::path& folder : {file.parent_path(), file.parent_path() / "images",
                                   file.parent_path().parent_path() / "images", file.parent_path().parent_path()}) {
        if (!first.empty() && fs::is_regular_file(folder / first, ignored)) {
            truth.pictures = folder;
            break;
        }
    }
    return std::optional<DetectionTruth>(std::move(truth));
}

} // namespace lathe::detail
