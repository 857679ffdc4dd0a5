#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "lathe/result.hpp"
#include "tasks/detection/detection.hpp"

namespace lathe {

/// What is in some pictures, as people drew it.
class DetectionTruth {
public:
    std::string format;               ///< "COCO", "YOLO" or "Pascal VOC"
    std::filesystem::path source;     ///< the file or folder it was read from
    std::filesystem::path pictures;   ///< the folder with the pictures
    std::vector<std::string> classes; ///< names by class index; empty for YOLO without classes.txt
    std::vector<std::int64_t> ids;    ///< COCO: the category of each class index, ascending
    std::string digest;               ///< of the files read

    struct Picture {
        std::vector<TrueObject> objects;
        bool shares = false; ///< boxes and areas are shares of the picture's size, not pixels
    };
    std::map<std::string, Picture> by_name; ///< by the picture's file name, without folders

    /// The objects in a picture, in pixels. Nothing where the truth does not speak of the picture (for YOLO every
    /// picture is spoken of: one without a file holds nothing).
    std::optional<std::vector<TrueObject>> of(const std::string& name, const PictureSize& size) const;
    std::size_t objects() const;
};

/// The truth at `path`, or nothing where there is none:
///  - COCO: a JSON file with images, annotations and categories, or a folder with one (instances.json,
///  annotations.json,
///    or the only such file there or in annotations/); pictures lie in the file's folder, or in images/ beside it;
///  - YOLO: a folder with images/ and labels/, or with a .txt file beside each picture: "class x y width height" a
///  line,
///    centre and size as shares of the picture; names in classes.txt;
///  - Pascal VOC: a folder with Annotations/ and JPEGImages/, or with an .xml file beside each picture. Classes are
///    numbered in order of their names; objects marked difficult count for nothing.
/// Errors: parse_error, naming file and place; io.
Result<std::optional<DetectionTruth>> find_detection_truth(const std::filesystem::path& path);

/// The model's class for each class of the truth; -1 where the model has none. `names` are the model's, if known;
/// `classes` their number, 0 if not known. By name where all of the truth's are among the model's; else by index where
/// there are as many, or fewer without names to differ; else COCO's category numbers where the model has room for them.
/// Errors: mismatch, saying both.
Result<std::vector<std::int32_t>> map_classes(const DetectionTruth& truth, const std::vector<std::string>& names,
                                              std::size_t classes);

} // namespace lathe
