// Whatever a file's names hold, the terminal gets none of it as a command, and JSON spells it out.
#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

/// ESC (a title, a colour), BEL, CR, backspace, DEL, C1's CSI, an order from right to left, an isolate, a tag.
const std::string hostile = "a\x1b]0;owned\x07\x1b[31m\r\b\x7f\xc2\x9b"
                            "2J\xe2\x80\xae"
                            "gnp\xe2\x81\xa6\xf3\xa0\x81\x81z";

/// The first character that is not to be shown, as a position; npos where there is none. Tables and paragraphs have
/// line feeds.
std::size_t find_hidden(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) return i;
        const std::string_view rest = std::string_view(text).substr(i);
        for (const std::string_view sequence : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\xf3\xa0\x81\x81"})
            if (rest.starts_with(sequence)) return i;
    }
    return std::string::npos;
}

void expect_plain(const CommandResult& result, const std::string& arguments) {
    for (const std::string& text : {result.output, result.errors}) {
        const std::size_t at = find_hidden(text);
        EXPECT_EQ(at, std::string::npos) << arguments << ", at " << at << " of:\n" << text;
    }
}

/// tiny_classifier with the hostile text in the name of every value and node.
Model hostile_model() {
    Model model = tiny_classifier();
    Graph& graph = model.graph;
    const auto renamed = [](std::string& name) {
        if (!name.empty()) name += hostile;
    };
    for (auto* values : {&graph.inputs, &graph.outputs}) {
        for (ValueInfo& value : *values)
            renamed(value.name);
    }
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : graph.initializers)
        tensors.push_back(tensor.renamed(name + hostile));
    graph.initializers.clear();
    for (const Tensor& tensor : tensors)
        graph.initializers.insert_or_assign(tensor.name, tensor);
    graph.value_infos.clear();
    for (const auto& node : graph.nodes) {
        renamed(node->name);
        for (auto* names : {&node->inputs, &node->outputs}) {
            for (std::string& name : *names)
                renamed(name);
        }
    }
    model.set_metadata("lathe.labels", Json{hostile, "b", "c", "d", "e"}.dump());
    return model;
}

TEST(Terminal, NamesSendNothingInAnyCommand) {
    const Workspace work;
    work.save(hostile_model(), "h.onnx");
    const std::vector<std::string> commands{
        "inspect h.onnx", "inspect h.onnx --layers", "simplify h.onnx -o s.onnx",
        "calibrate h.onnx --data arrays.npy -o h.ranges", "quantize h.onnx --ranges h.ranges --explain",
        "quantize h.onnx --ranges h.ranges -o q.onnx", "convert-ranges h.ranges -o h.cache",
        "autocast h.onnx --ranges h.ranges --explain", "build h.onnx -o h.engine", "build q.onnx -o q.engine",
        "run h.engine photos", "eval q.engine --data photos --reference h.engine",
        "bench h.engine --batch-sizes 1 --duration 0 --time-limit 0.1", "compare h.onnx m.onnx",
        "compare h.onnx q.onnx", "sensitivity h.onnx --data arrays.npy --samples 8 -o sens.json",
        // Errors name what is wrong.
        "build h.onnx -o e --shape 'a" + hostile + ":1'",
        "quantize h.onnx --ranges h.ranges -o x --exclude '" + hostile + "'", "inspect '" + hostile + "'",
        "'" + hostile + "'", "inspect h.onnx '--" + hostile + "'"};
    for (const std::string& arguments : commands) {
        expect_plain(work.lathe(arguments), arguments);
        if (!arguments.starts_with("'")) expect_plain(work.lathe(arguments + " --json --quiet"), arguments + " --json");
    }
}

TEST(Terminal, JsonStillHoldsTheName) {
    const Workspace work;
    work.save(hostile_model(), "h.onnx");
    const Json document = work.good_json("inspect h.onnx");
    EXPECT_THAT(document.dump(), HasSubstr(Json("input" + hostile).dump().substr(1, 20)));
}

TEST(Terminal, ALineFeedInANameMakesNoNewLine) {
    const Workspace work;
    work.write("b.json", R"({"kind": "bench"})");
    Model model = tiny_classifier();
    model.graph.nodes[0]->name = "conv\nlathe: all is well";
    work.save(model, "h.onnx");
    EXPECT_THAT(work.good("inspect h.onnx --layers").output, testing::Not(HasSubstr("\nlathe: all is well")));
}

} // namespace
} // namespace lathe::test
