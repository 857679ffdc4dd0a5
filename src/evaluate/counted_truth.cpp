#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "data/convert.hpp"
#include "data/csv.hpp"
#include "data/npy.hpp"
#include "data/pixel_values.hpp"
#include "data/text_pieces.hpp"
#include "evaluate/counted.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "tasks/text_recognition.hpp"

namespace lathe {

namespace fs = std::filesystem;

namespace {

/// The file of the truth of a sample: of its name but for the extension.
std::optional<fs::path> companion(const fs::path& folder, const std::string& sample,
                                  std::initializer_list<const char*> extensions) {
    for (const char* extension : extensions) {
        fs::path file = folder / fs::path(sample).filename().replace_extension(extension);
        if (is_file(file)) return file;
    }
    return std::nullopt;
}

/// Of a folder's files, names and content, in order of name.
Result<std::string> digest_of(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
        if (is_file(entry->path())) files.push_back(entry->path());
    if (failed) return Error{ErrorCode::io, "cannot list the folder: " + failed.message(), folder.string(), ""};
    std::ranges::sort(files);
    Hasher hasher;
    for (const fs::path& file : files) {
        LATHE_TRY(const std::string content, hash_file(file));
        hasher.update(std::string_view(file.filename().string()));
        hasher.update(std::string_view(content));
    }
    return hasher.hex();
}

/// The mask's class at the centre of each pixel of a map of `like`'s size.
Result<LabelMap> mask_for(const fs::path& file, const LabelMap& like, const std::optional<PictureSize>& picture,
                          const Preprocess& preprocess, const CountedOptions& options, std::size_t classes) {
    LATHE_TRY(const PixelValues mask, read_pixel_values(file));
    if (mask.channels != 1) {
        return Error{ErrorCode::unsupported, "the mask is in colour, which names no classes", file.string(),
                     "give masks in PNG with a palette or in grey: a pixel's value is its class"};
    }
    if (picture && (mask.width != picture->width || mask.height != picture->height)) {
        return Error{ErrorCode::mismatch,
                     "the mask is " + std::to_string(mask.width) + "x" + std::to_string(mask.height) +
                         " pixels, its picture " + std::to_string(picture->width) + "x" +
                         std::to_string(picture->height),
                     file.string(), ""};
    }
    // Without a picture the mask covers what the network is given.
    Preprocess::Mapping mapping;
    Preprocess::Size input{mask.height, mask.width};
    if (picture) {
        mapping = preprocess.mapping(picture->width, picture->height);
        input = preprocess.place(picture->width, picture->height).canvas;
    }
    LabelMap truth{like.height, like.width, std::vector<std::int32_t>(like.height * like.width, -1)};
    for (std::size_t row = 0; row < like.height; ++row) {
        const double y =
            ((static_cast<double>(row) + 0.5) * static_cast<double>(input.height) / static_cast<double>(like.height) -
             mapping.top) /
            mapping.scale_y;
        if (!(y >= 0 && y < static_cast<double>(mask.height))) continue;
        for (std::size_t column = 0; column < like.width; ++column) {
            const double x = ((static_cast<double>(column) + 0.5) * static_cast<double>(input.width) /
                                  static_cast<double>(like.width) -
                              mapping.left) /
                             mapping.scale_x;
            if (!(x >= 0 && x < static_cast<double>(mask.width))) continue;
            const std::int64_t stored =
                mask.values[static_cast<std::size_t>(y) * mask.width + static_cast<std::size_t>(x)];
            const std::int64_t label = stored - options.first_label;
            if (stored == options.ignored_label || label < 0) continue;
            if (classes > 0 && label >= static_cast<std::int64_t>(classes)) {
                return Error{ErrorCode::out_of_range,
                             "the mask has the value " + std::to_string(stored) + ", but the model has " +
                                 std::to_string(classes) + " classes",
                             file.string(), "--first-label and --ignore-label say what the masks' values mean"};
            }
            truth.labels[row * like.width + column] = static_cast<std::int32_t>(label);
        }
    }
    return truth;
}

/// An array of any numbers as float32.
Result<Numbers> numbers_of(const HostTensor& array, const fs::path& file) {
    Numbers numbers{array.shape, {}};
    numbers.values.resize(static_cast<std::size_t>(element_count(array.shape)));
    LATHE_CHECK(convert_elements(array.type, array.bytes, DataType::float32,
                                 std::as_writable_bytes(std::span(numbers.values)), file.string()));
    return numbers;
}

Result<Numbers> target_of(const fs::path& file, double scale) {
    if (file.extension() == ".npy") {
        LATHE_TRY(const HostTensor array, read_npy(file));
        return numbers_of(array, file);
    }
    LATHE_TRY(const PixelValues pixels, read_pixel_values(file));
    const std::size_t plane = pixels.width * pixels.height;
    Numbers numbers{{static_cast<std::int64_t>(pixels.channels), static_cast<std::int64_t>(pixels.height),
                     static_cast<std::int64_t>(pixels.width)},
                    std::vector<float>(pixels.values.size())};
    for (std::size_t i = 0; i < plane; ++i)
        for (std::size_t c = 0; c < pixels.channels; ++c)
            numbers.values[c * plane + i] =
                static_cast<float>(static_cast<double>(pixels.values[i * pixels.channels + c]) * scale);
    return numbers;
}

/// Lines of "file<tab>text".
Result<std::map<std::string, std::u32string>> read_tabbed(const std::string& text, const fs::path& file) {
    std::map<std::string, std::u32string> texts;
    std::size_t number = 0;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        std::string line = text.substr(start, end - start);
        start = end + 1;
        ++number;
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty()) continue;
        const std::size_t tab = line.find('\t');
        if (tab == std::string::npos) {
            return Error{ErrorCode::parse_error, "line " + std::to_string(number) + " has no tab", file.string(),
                         "each line is a picture's file, a tab, its text"};
        }
        texts[fs::path(line.substr(0, tab)).filename().string()] = code_points(std::string_view(line).substr(tab + 1));
    }
    return texts;
}

Result<std::map<std::string, std::u32string>> read_table(const std::string& text, const fs::path& file) {
    LATHE_TRY(const auto rows, parse_csv(text, file.string()));
    const auto refuse = [&](const std::string& what) {
        return Error{ErrorCode::parse_error, what, file.string(), "the first line is \"file,text\""};
    };
    if (rows.empty() || rows[0] != std::vector<std::string>{"file", "text"}) return refuse("no header file,text");
    std::map<std::string, std::u32string> texts;
    for (std::size_t i = 1; i < rows.size(); ++i) {
        if (rows[i].size() != 2) return refuse("row " + std::to_string(i + 1) + " has not two fields");
        texts[fs::path(rows[i][0]).filename().string()] = code_points(rows[i][1]);
    }
    return texts;
}

} // namespace

Result<std::optional<CountedTruth>> find_masks(const fs::path& path, const CountedOptions& options,
                                               const Preprocess& preprocess, std::size_t classes) {
    for (const auto& [pictures, masks] : {std::pair("images", "masks"), std::pair("JPEGImages", "SegmentationClass")}) {
        if (!is_folder(path / pictures) || !is_folder(path / masks)) continue;
        CountedTruth truth;
        truth.samples = path / pictures;
        truth.source = path / masks;
        truth.format = "masks";
        LATHE_TRY(truth.digest, digest_of(truth.source));
        const fs::path folder = truth.source;
        truth.of = [=](const std::string& sample, const std::optional<PictureSize>& picture,
                       const Answer& given) -> Result<std::optional<Answer>> {
            const auto file = companion(folder, sample, {".png"});
            if (!file) return std::optional<Answer>();
            LATHE_TRY(LabelMap map, mask_for(*file, std::get<LabelMap>(given), picture, preprocess, options, classes));
            return std::optional<Answer>(std::move(map));
        };
        return std::optional(std::move(truth));
    }
    return std::optional<CountedTruth>();
}

Result<std::optional<CountedTruth>> find_targets(const fs::path& path, const CountedOptions& options) {
    CountedTruth truth;
    truth.format = "targets";
    if (is_file(path / "inputs.npy") && is_file(path / "targets.npy")) {
        truth.samples = path / "inputs.npy";
        truth.source = path / "targets.npy";
        LATHE_TRY(truth.digest, hash_file(truth.source));
        LATHE_TRY(const HostTensor array, read_npy(truth.source));
        LATHE_TRY(Numbers read, numbers_of(array, truth.source));
        const auto all = std::make_shared<const Numbers>(std::move(read));
        truth.of = [all, file = truth.source](const std::string& sample, const std::optional<PictureSize>&,
                                              const Answer& given) -> Result<std::optional<Answer>> {
            // Samples of one array are named by their number.
            const std::size_t index = std::stoul(sample);
            const std::size_t rows = all->shape.empty() ? 0 : static_cast<std::size_t>(all->shape[0]);
            const std::size_t size = std::get<Numbers>(given).values.size();
            if (index >= rows || all->values.size() != rows * size) {
                return Error{ErrorCode::mismatch,
                             "targets of " + to_string(all->shape) + " have no " + std::to_string(size) +
                                 " values for sample " + sample,
                             file.string(), "give a row for each sample, of the output's size"};
            }
            const auto first = all->values.begin() + static_cast<std::ptrdiff_t>(index * size);
            return std::optional<Answer>(
                Numbers{{static_cast<std::int64_t>(size)}, {first, first + static_cast<std::ptrdiff_t>(size)}});
        };
        return std::optional(std::move(truth));
    }
    if (!is_folder(path / "inputs") || !is_folder(path / "targets")) return std::optional<CountedTruth>();
    truth.samples = path / "inputs";
    truth.source = path / "targets";
    LATHE_TRY(truth.digest, digest_of(truth.source));
    std::error_code failed;
    for (fs::directory_iterator entry(truth.source, failed), end; !failed && entry != end; entry.increment(failed))
        truth.pictures = truth.pictures || entry->path().extension() == ".png";
    truth.of = [folder = truth.source,
                scale = options.target_scale](const std::string& sample, const std::optional<PictureSize>&,
                                              const Answer& given) -> Result<std::optional<Answer>> {
        const auto file = companion(folder, sample, {".npy", ".png"});
        if (!file) return std::optional<Answer>();
        LATHE_TRY(Numbers target, target_of(*file, scale));
        const Numbers& mine = std::get<Numbers>(given);
        if (target.values.size() != mine.values.size()) {
            return Error{ErrorCode::mismatch,
                         "the target is " + to_string(target.shape) + ", the model's output " + to_string(mine.shape),
                         file->string(), "give targets of the output's own size"};
        }
        return std::optional<Answer>(std::move(target));
    };
    return std::optional(std::move(truth));
}

Result<std::optional<CountedTruth>> find_texts(const fs::path& path) {
    CountedTruth truth;
    truth.samples = path;
    truth.format = "texts";
    for (const char* name : {"texts.csv", "rec_gt.txt"}) {
        truth.source = path / name;
        if (!is_file(truth.source)) continue;
        LATHE_TRY(const std::string text, read_text_file(truth.source));
        if (const auto at = first_not_utf8(text)) return not_utf8(text, *at, truth.source.string());
        LATHE_TRY(truth.digest, hash_file(truth.source));
        auto read =
            truth.source.extension() == ".csv" ? read_table(text, truth.source) : read_tabbed(text, truth.source);
        if (!read) return std::move(read).error();
        const auto texts = std::make_shared<const std::map<std::string, std::u32string>>(*std::move(read));
        truth.of = [texts](const std::string& sample, const std::optional<PictureSize>&,
                           const Answer&) -> Result<std::optional<Answer>> {
            const auto found = texts->find(fs::path(sample).filename().string());
            if (found == texts->end()) return std::optional<Answer>();
            return std::optional<Answer>(found->second);
        };
        return std::optional(std::move(truth));
    }
    return std::optional<CountedTruth>();
}

} // namespace lathe
