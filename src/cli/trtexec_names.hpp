#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "lathe/engine.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe::cli {

/// What trtexec's users give as --minShapes, --optShapes and --maxShapes: "input:1x3x224x224,ids:1x128", each.
struct TrtexecShapes {
    std::string min, opt, max;
    bool given() const { return !(min.empty() && opt.empty() && max.empty()); }
};
void add_trtexec_shapes(CLI::App& command, TrtexecShapes& shapes);
/// By input name; --optShapes alone is one shape, else all three are needed, as in trtexec.
/// Errors: invalid_argument, naming the option.
Result<std::map<std::string, ShapeRange>> shapes_of(const TrtexecShapes& given);

/// What trtexec's users give as --loadInputs: "NAME:FILE,NAME:FILE", each file a tensor's bytes and nothing else, as
/// tensors for an engine with these inputs. Open sizes are the favourite's, where the file is as long as that, or
/// follow from the file's length, where one size is open. Errors: invalid_argument (no such input, one missing, a
/// length that fits no shape), not_found.
Result<std::vector<HostTensor>> load_raw_inputs(const std::string& list, const std::vector<IoInfo>& inputs);

/// The engine's layers as trtexec's --exportLayerInfo calls them: {"Layers": [{"Name", "LayerType", "TacticName",
/// "Precision", "Nodes"}], "Bindings": [...]}. Precision and Nodes are Lathe's own.
Result<Json> trtexec_layer_info(const Engine& engine);

/// Times by layer as trtexec's --exportProfile has them: [{"count"}, {"name", "timeMs" (of all runs), "averageMs",
/// "medianMs", "percentage"}, ...].
Result<Json> trtexec_profile(const std::filesystem::path& engine, Progress& progress);

} // namespace lathe::cli
