#include "cli/trtexec_names.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "api/profile.hpp"
#include "bench/statistics.hpp"
#include "support/files.hpp"

namespace lathe::cli {

namespace {

/// "name:value,name:value"; a name may hold colons, and stand in single quotes.
Result<std::vector<std::pair<std::string, std::string>>> pairs_of(const std::string& list, const char* option,
                                                                  const char* example) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (std::string_view rest = list; !rest.empty();) {
        const std::size_t end = std::min(rest.find(','), rest.size());
        const std::string_view part = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const std::size_t colon = part.rfind(':');
        std::string name(part.substr(0, std::min(colon, part.size())));
        std::erase(name, '\'');
        if (colon == std::string_view::npos || name.empty() || colon + 1 == part.size()) {
            return Error{ErrorCode::invalid_argument, "\"" + std::string(part) + "\" is no NAME:VALUE", option,
                         example};
        }
        pairs.emplace_back(std::move(name), part.substr(colon + 1));
    }
    return pairs;
}

Result<std::map<std::string, std::string>> shape_texts(const std::string& list, const char* option) {
    LATHE_TRY(const auto pairs, pairs_of(list, option, "write input:1x3x224x224,other:1x128"));
    return std::map<std::string, std::string>(pairs.begin(), pairs.end());
}

/// The shape that this many elements fill.
Result<Shape> shape_for(const IoInfo& input, std::size_t bytes) {
    const auto elements = [&](const Shape& shape) {
        return byte_size(input.type, static_cast<std::size_t>(element_count(shape)));
    };
    Shape shape = input.range.opt;
    if (elements(shape) == bytes) return shape;
    std::vector<std::size_t> open;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (input.range.min[axis] != input.range.max[axis]) open.push_back(axis);
    }
    if (open.size() == 1) {
        shape[open[0]] = 1;
        const std::size_t one = elements(shape);
        if (one > 0 && bytes % one == 0) shape[open[0]] = static_cast<std::int64_t>(bytes / one);
    }
    if (elements(shape) == bytes && input.range.contains(shape)) return shape;
    return Error{ErrorCode::invalid_argument,
                 "the file's " + std::to_string(bytes) + " bytes fill no shape of the engine's " +
                     input.range.describe() + " " + to_string(input.type),
                 input.name, "give the tensor's bytes alone, row by row, or a .npy file without --loadInputs"};
}

} // namespace

void add_trtexec_shapes(CLI::App& command, TrtexecShapes& shapes) {
    command.add_option("--minShapes", shapes.min,
                       "As trtexec takes them: input:1x3x224x224,other:1x128; the same as --shape NAME:MIN..OPT..MAX");
    command.add_option("--optShapes", shapes.opt, "The shapes to tune for; alone: the only ones");
    command.add_option("--maxShapes", shapes.max, "The largest shapes");
}

Result<std::map<std::string, ShapeRange>> shapes_of(const TrtexecShapes& given) {
    const bool alone = given.min.empty() && given.max.empty();
    if (given.opt.empty() || (!alone && (given.min.empty() || given.max.empty()))) {
        return Error{ErrorCode::invalid_argument, "shapes are missing", "--minShapes, --optShapes, --maxShapes",
                     "give all three, or --optShapes alone"};
    }
    LATHE_TRY(const auto opt, shape_texts(given.opt, "--optShapes"));
    LATHE_TRY(const auto min, shape_texts(alone ? given.opt : given.min, "--minShapes"));
    LATHE_TRY(const auto max, shape_texts(alone ? given.opt : given.max, "--maxShapes"));
    std::map<std::string, ShapeRange> shapes;
    for (const auto& [name, shape] : opt) {
        const auto least = min.find(name), most = max.find(name);
        if (least == min.end() || most == max.end()) {
            return Error{ErrorCode::invalid_argument, "this input has no shape there", name,
                         "name it in --minShapes, --optShapes and --maxShapes"};
        }
        LATHE_TRY(auto range, parse_shape_range(name + ":" + least->second + ".." + shape + ".." + most->second));
        shapes.insert(std::move(range));
    }
    if (min.size() == opt.size() && max.size() == opt.size()) return shapes;
    return Error{ErrorCode::invalid_argument, "they do not name the same inputs",
                 "--minShapes, --optShapes, --maxShapes", "name every input in all three"};
}

Result<std::vector<HostTensor>> load_raw_inputs(const std::string& list, const std::vector<IoInfo>& inputs) {
    LATHE_TRY(const auto pairs, pairs_of(list, "--loadInputs", "write input:photo.bin,other:mask.bin"));
    const std::map<std::string, std::string> files(pairs.begin(), pairs.end());
    std::vector<HostTensor> tensors;
    for (const IoInfo& input : inputs) {
        const auto found = files.find(input.name);
        if (found == files.end()) {
            return Error{ErrorCode::invalid_argument, "no file was given for this input of the engine", input.name,
                         "add " + input.name + ":FILE to --loadInputs"};
        }
        LATHE_TRY(const std::string bytes, read_text_file(found->second));
        LATHE_TRY(Shape shape, shape_for(input, bytes.size()));
        HostTensor tensor(input.name, input.type, std::move(shape));
        std::ranges::copy(std::as_bytes(std::span(bytes)), tensor.bytes.begin());
        tensors.push_back(std::move(tensor));
    }
    for (const auto& [name, file] : files) {
        if (std::ranges::find(inputs, name, &IoInfo::name) != inputs.end()) continue;
        return Error{ErrorCode::invalid_argument, "the engine has no input of this name", name,
                     "lathe inspect names its inputs"};
    }
    return tensors;
}

Result<Json> trtexec_layer_info(const Engine& engine) {
    LATHE_TRY(const std::vector<LayerInfo> layers, engine.layers());
    Json list = Json::array(), bindings = Json::array();
    for (const LayerInfo& layer : layers) {
        list.push_back({{"Name", layer.name},
                        {"LayerType", layer.type},
                        {"TacticName", layer.implementation},
                        {"Precision", layer.precision},
                        {"Nodes", layer.nodes}});
    }
    for (const auto* io : {&engine.info().inputs, &engine.info().outputs}) {
        for (const IoInfo& each : *io)
            bindings.push_back(each.name);
    }
    return Json{{"Layers", std::move(list)}, {"Bindings", std::move(bindings)}};
}

Result<Json> trtexec_profile(const std::filesystem::path& engine, Progress& progress) {
    LATHE_TRY(const EngineProfile profile, profile_engine(engine, progress));
    double whole = 0;
    for (const auto& times : profile.milliseconds) {
        for (const double time : times)
            whole += time;
    }
    Json rows = Json::array({{{"count", profile.runs}}});
    for (std::size_t i = 0; i < profile.layers.size(); ++i) {
        const Summary summary = summarize(profile.milliseconds[i]);
        const double total = summary.mean * static_cast<double>(summary.count);
        rows.push_back({{"name", profile.layers[i].name},
                        {"timeMs", total},
                        {"averageMs", summary.mean},
                        {"medianMs", summary.median},
                        {"percentage", whole > 0 ? 100 * total / whole : 0.0}});
    }
    return rows;
}

} // namespace lathe::cli
