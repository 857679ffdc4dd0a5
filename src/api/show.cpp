#include "lathe/show.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "api/profile.hpp"
#include "api/summary.hpp"
#include "onnx/onnx.hpp"
#include "report/fields.hpp"
#include "report/graph_page.hpp"
#include "runtime/engine.hpp"
#include "support/files.hpp"
#include "support/lost_inputs.hpp"

namespace lathe {
namespace {

/// Lists and texts beyond this are told by their beginning.
constexpr std::size_t longest_text = 200;
constexpr std::size_t longest_list = 16;

template <class T>
std::string list_text(const std::vector<T>& values) {
    std::string text = "[";
    for (std::size_t i = 0; i < std::min(values.size(), longest_list); ++i)
        text += (i == 0 ? "" : ", ") + Json(values[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (values.size() > longest_list) text += ", … " + std::to_string(values.size()) + " in all";
    return text + "]";
}

std::string attribute_text(const AttributeValue& value) {
    return std::visit(
        [](const auto& held) -> std::string {
            using T = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, float>) {
                return Json(held).dump();
            } else if constexpr (std::is_same_v<T, std::string>) {
                return held.size() > longest_text ? held.substr(0, longest_text) + "…" : held;
            } else if constexpr (std::is_same_v<T, Tensor>) {
                return std::string("tensor of ") + to_string(held.type()) + " " + list_text(held.shape());
            } else if constexpr (std::is_same_v<T, GraphBox>) {
                return "graph of " + std::to_string(held->nodes.size()) + " nodes";
            } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                                 std::is_same_v<T, std::vector<float>> || std::is_same_v<T, std::vector<std::string>>) {
                return list_text(held);
            } else {
                return "(not shown)";
            }
        },
        value);
}

/// The graph as the page takes it. Nodes of subgraphs stay within the node that holds them.
class Drawing {
public:
    explicit Drawing(const Model& model) : summary_(summarize_resolved(model)) {
        for (const auto& layer : summary_.layers)
            layers_.emplace(layer.name, &layer);
        for (const auto& node : model.graph.nodes)
            add(*node, model.graph);
    }

    std::size_t nodes() const { return nodes_.size(); }
    std::size_t timed() const { return timed_; }
    std::size_t explained() const { return explained_.size(); }

    /// The time of a layer stands at the node of most work that is fused into it; the others say where they run.
    void add_layer(const std::string& name, const std::string& implementation, double milliseconds,
                   const std::vector<std::string>& fused) {
        std::vector<std::size_t> found;
        for (const auto& node : fused)
            if (const auto at = index_.find(node); at != index_.end()) found.push_back(at->second);
        if (const auto at = index_.find(name); at != index_.end() && found.empty()) found.push_back(at->second);
        if (found.empty() || milliseconds <= 0) return;
        const auto work = [&](std::size_t i) { return nodes_[i]["macs"].get<std::int64_t>(); };
        const std::size_t main =
            *std::max_element(found.begin(), found.end(), [&](auto a, auto b) { return work(a) < work(b); });
        Json& node = nodes_[main];
        if (!node.contains("time_ms")) ++timed_;
        node["time_ms"] = node.value("time_ms", 0.0) + milliseconds;
        if (!implementation.empty()) node["reasons"].push_back("runs as " + name + " (" + implementation + ")");
        for (const std::size_t other : found) {
            if (other != main) nodes_[other]["reasons"].push_back("runs within " + node["name"].get<std::string>());
        }
    }

    void add_reason(const std::string& node, const std::string& reason) {
        const auto at = index_.find(node);
        if (at == index_.end()) return;
        nodes_[at->second]["reasons"].push_back(reason);
        explained_.insert(node);
    }

    Json page(const std::string& title) const {
        const auto values = [](const std::vector<ValueInfo>& infos) {
            Json list = Json::array();
            for (const auto& info : infos)
                list.push_back(to_json(info));
            return list;
        };
        return {{"title", title},
                {"inputs", values(summary_.inputs)},
                {"outputs", values(summary_.outputs)},
                {"nodes", nodes_}};
    }

private:
    void add(const Node& node, const Graph& graph) {
        const auto known = layers_.find(node.label());
        const LayerSummary* layer = known == layers_.end() ? nullptr : known->second;
        const auto values = [&](const std::vector<std::string>& names, const std::vector<ValueInfo>* infos) {
            Json list = Json::array();
            for (const std::string& name : names) {
                if (name.empty()) continue; // an optional one that is left out
                std::optional<ValueInfo> info = graph.info(name);
                if (infos != nullptr) {
                    const auto inferred = std::ranges::find(*infos, name, &ValueInfo::name);
                    if (inferred != infos->end()) info = *inferred;
                }
                list.push_back(info ? to_json(*info) : Json{{"name", name}});
            }
            return list;
        };
        Json attributes = Json::object();
        for (const auto& attribute : node.attributes)
            attributes[attribute.name] = attribute_text(attribute.value);
        index_.emplace(node.label(), nodes_.size());
        nodes_.push_back({{"name", node.label()},
                          {"op", node.domain.empty() ? node.op_type : node.domain + "." + node.op_type},
                          {"precision", layer == nullptr ? "" : layer->precision},
                          {"in", values(node.inputs, layer == nullptr ? nullptr : &layer->inputs)},
                          {"out", values(node.outputs, layer == nullptr ? nullptr : &layer->outputs)},
                          {"attributes", std::move(attributes)},
                          {"macs", layer == nullptr ? 0 : layer->macs},
                          {"parameters", layer == nullptr ? 0 : layer->parameters},
                          {"reasons", Json::array()}});
    }

    ModelSummary summary_;
    std::map<std::string, const LayerSummary*> layers_;
    std::map<std::string, std::size_t> index_;
    std::vector<Json> nodes_;
    std::set<std::string> explained_;
    std::size_t timed_ = 0;
};

std::vector<std::string> texts(const Json& object, const char* key) {
    std::vector<std::string> found;
    for (const Json& item : report::items(object, key)) {
        if (item.is_string()) found.push_back(item.get<std::string>());
    }
    return found;
}

void add_decisions(Drawing& drawing, const Json& quantization) {
    for (const Json& each : report::items(quantization, "decisions")) {
        std::string reason = report::text(each, "tensor") +
                             (report::flag(each, "quantized") ? " is int8: " : " stays float: ") +
                             report::text(each, "explanation");
        if (const std::string detail = report::text(each, "detail"); !detail.empty()) reason += " (" + detail + ")";
        drawing.add_reason(report::text(each, "node"), reason);
    }
}

void add_times(Drawing& drawing, const Json& profile, const std::string& subject) {
    const Json& subjects = report::items(profile, "subjects");
    for (const Json& each : subjects) {
        // Of several engines' times those of the one that is shown, else of the first.
        if (report::find_item(subjects, "name", subject) != nullptr && report::text(each, "name") != subject) continue;
        for (const Json& layer : report::items(each, "layers")) {
            drawing.add_layer(report::text(layer, "name"), report::text(layer, "implementation"),
                              report::number(layer, "ms").value_or(0), texts(layer, "nodes"));
        }
        return;
    }
}

Result<void> add_results(Drawing& drawing, const std::filesystem::path& file, const std::string& subject) {
    LATHE_TRY(const Json json, read_json_file(file));
    const std::size_t before = drawing.timed() + drawing.explained();
    add_decisions(drawing, json);
    if (const Json* part = report::member(json, "quantization"); part != nullptr) add_decisions(drawing, *part);
    const Json* layers = report::member(json, "layers");
    add_times(drawing, layers != nullptr && layers->is_object() ? *layers : json, subject);
    if (drawing.timed() + drawing.explained() > before) return {};
    return Error{ErrorCode::mismatch, "the file holds neither reasons nor times of this model's nodes", file.string(),
                 "give the JSON of lathe quantize or lathe optimize for this model"};
}

} // namespace

Result<ShowResult> show(const ShowRequest& request) {
    std::vector<std::string> inputs{request.model.string()};
    for (const auto& file : request.results)
        inputs.push_back(file.string());
    LATHE_CHECK(refuse_lost_inputs({request.output.string()}, inputs));
    Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
    const std::string name = request.model.stem().string();
    std::optional<Drawing> drawing;
    if (is_engine_file(request.model)) {
        EngineLoadOptions options;
        options.profiling = true;
        LATHE_TRY(const Engine engine, Engine::load(request.model, options));
        LATHE_TRY(const EngineProfile profile, profile_engine(engine, request.model, progress));
        LATHE_TRY(const ModelPtr model, engine.model());
        drawing.emplace(*model);
        for (const LayerInfo& layer : profile.layers)
            drawing->add_layer(layer.name, layer.implementation, layer.milliseconds, layer.nodes);
    } else {
        LATHE_TRY(const Model model, load_onnx(request.model));
        drawing.emplace(model);
    }
    for (const auto& file : request.results)
        LATHE_CHECK(add_results(*drawing, file, name));
    LATHE_CHECK(progress.check());
    const std::string html = report::render_graph_html(drawing->page(name));
    LATHE_CHECK(write_file(request.output, std::string_view(html)));
    return ShowResult{request.output, drawing->nodes(), drawing->timed(), drawing->explained()};
}

} // namespace lathe
