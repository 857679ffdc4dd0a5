// Bad input of every kind: no crash, an exit code, and the file and cause named on standard error.
#include <functional>
#include <limits>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

struct BadInput {
    std::string name;
    std::function<void(const Workspace&)> prepare;
    std::string arguments;
    int exit_code;
    std::vector<std::string> words; ///< on standard error
};

void truncate(const Workspace& work, const std::string& from, const std::string& to, double part) {
    const std::string text = work.read(from);
    work.write(to, text.substr(0, static_cast<std::size_t>(static_cast<double>(text.size()) * part)));
}

void flip(const Workspace& work, const std::string& from, const std::string& to, double where) {
    std::string text = work.read(from);
    char& byte = text[static_cast<std::size_t>(static_cast<double>(text.size()) * where)];
    byte = static_cast<char>(byte ^ 0x40);
    work.write(to, text);
}

void save_custom(const Workspace& work) {
    Model model = model_from_text("opset 18\nopset \"com.example\" 1\ninput %x: float32[1, 3]\n"
                                  "%y = com.example::Foo(%x) {name = \"mystery\"}\noutput %y: float32[1, 3]\n");
    work.save(model, "custom.onnx");
}

void save_not_a_number(const Workspace& work) {
    Model model = tiny_classifier();
    std::vector<float> values = noise(16 * 16 * 9, 1);
    values[5] = std::numeric_limits<float>::quiet_NaN();
    model.graph.initializers.insert_or_assign("w2", Tensor::of_floats("w2", {16, 16, 3, 3}, values));
    work.save(model, "nan.onnx");
}

void save_external(const Workspace& work) {
    work.save(tiny_classifier(), "external.onnx", {.external_data = ExternalData::always});
    for (const auto& entry : std::filesystem::directory_iterator(work.path(""))) {
        if (entry.path().extension() == ".data") std::filesystem::remove(entry.path());
    }
}

void save_pictures(const Workspace& work, bool empty) {
    std::filesystem::create_directory(work.path("bad"));
    if (empty) {
        work.write("bad/one.png", "");
    } else {
        truncate(work, "photos/rgb.png", "bad/one.png", 0.5);
    }
}

const auto nothing = [](const Workspace&) {};
const auto engine = [](const Workspace& work) { work.make_engine(); };

std::vector<BadInput> bad_inputs() {
    return {
        {"MissingModel", nothing, "inspect none.onnx", 3, {"none.onnx"}},
        {"FolderForModel", nothing, "inspect photos", 2, {"photos"}},
        {"TruncatedModel",
         [](const Workspace& w) { truncate(w, "m.onnx", "cut.onnx", 0.6); },
         "simplify cut.onnx -o s.onnx",
         3,
         {"cut.onnx"}},
        {"EmptyModel",
         [](const Workspace& w) { w.write("empty.onnx", ""); },
         "build empty.onnx -o e",
         3,
         {"empty.onnx", "empty"}},
        {"TextForModel",
         [](const Workspace& w) { w.write("text.onnx", "a shopping list: eggs, flour"); },
         "inspect text.onnx",
         3,
         {"text.onnx"}},
        {"MissingExternalData", save_external, "simplify external.onnx -o s.onnx", 3, {"external.onnx", ".data"}},
        {"UnsupportedOperator", save_custom, "build custom.onnx -o e", 4, {"Foo"}},
        {"NotANumberWeights", save_not_a_number, "calibrate nan.onnx --data arrays.npy -o r", 3, {"w2", "NaN"}},
        {"WrongShapeOfData",
         [](const Workspace& w) {
             w.save_array("wide.npy", {4, 3, 9, 9});
         },
         "calibrate m.onnx --data wide.npy -o r",
         3,
         {"wide.npy", "8"}},
        {"WrongTypeOfData",
         [](const Workspace& w) {
             const std::string header = "{'descr': '<U3', 'fortran_order': False, 'shape': (4, 3), }\n";
             const char size = static_cast<char>(header.size());
             w.write("words.npy", std::string("\x93NUMPY\x01\x00", 8) + size + '\0' + header + std::string(144, 'a'));
         },
         "calibrate m.onnx --data words.npy -o r",
         4,
         {"words.npy"}},
        {"TruncatedArray",
         [](const Workspace& w) { truncate(w, "arrays.npy", "cut.npy", 0.5); },
         "calibrate m.onnx --data cut.npy -o r",
         3,
         {"cut.npy"}},
        {"NoData",
         [](const Workspace& w) { std::filesystem::create_directory(w.path("void")); },
         "calibrate m.onnx --data void -o r",
         3,
         {"void"}},
        {"MissingData", nothing, "calibrate m.onnx --data nowhere -o r", 3, {"nowhere"}},
        {"EmptyPicture",
         [](const Workspace& w) { save_pictures(w, true); },
         "calibrate m.onnx --data bad -o r",
         3,
         {"one.png"}},
        {"CorruptPicture",
         [](const Workspace& w) { save_pictures(w, false); },
         "calibrate m.onnx --data bad -o r",
         3,
         {"one.png"}},
        {"RangesOfAnotherModel",
         [](const Workspace& w) {
             w.make_ranges();
             w.save(tiny_classifier(9), "other.onnx");
         },
         "quantize other.onnx --ranges s.ranges -o q",
         3,
         {"other.onnx", "model"}},
        {"DamagedRanges",
         [](const Workspace& w) {
             w.make_ranges();
             flip(w, "s.ranges", "bad.ranges", 0.5);
         },
         "quantize s.onnx --ranges bad.ranges -o q",
         3,
         {"bad.ranges"}},
        {"QuantisedTwice",
         [](const Workspace& w) { w.make_int8(); },
         "quantize q.onnx --ranges s.ranges -o x",
         3,
         {"q.onnx"}},
        {"ArrayThatNothingReads",
         [](const Workspace& w) {
             w.make_engine();
             HostTensor input("input", DataType::float32, {2, 3, 8, 8});
             HostTensor weights("w1", DataType::float32, {16, 3, 3, 3});
             const auto written = write_npz(w.path("two.npz"), std::vector<TensorView>{input.view(), weights.view()});
             if (!written) ADD_FAILURE() << written.error().describe();
         },
         "run m.engine two.npz",
         3,
         {"two.npz", "no input \"w1\"", "its inputs: input"}},
        {"MissingEngine", nothing, "run none.engine photos", 3, {"none.engine"}},
        {"ModelForEngine", nothing, "run m.onnx photos", 3, {"m.onnx"}},
        {"TruncatedEngine",
         [](const Workspace& w) {
             w.make_engine();
             truncate(w, "m.engine", "cut.engine", 0.9);
         },
         "run cut.engine photos",
         3,
         {"cut.engine"}},
        {"EmptyEngine",
         [](const Workspace& w) { w.write("empty.engine", ""); },
         "run empty.engine photos",
         3,
         {"empty.engine"}},
        {"WrongShapeOfInput",
         [](const Workspace& w) {
             w.make_engine();
             w.save_array("wide.npy", {4, 3, 9, 9});
         },
         "run m.engine wide.npy",
         3,
         {"wide.npy"}},
        {"ShapeOfNoInput", nothing, "build m.onnx -o e --shape photo:1x3x8x8", 2, {"photo", "input"}},
        {"ShapeOutOfOrder", nothing, "build m.onnx -o e --shape input:4x3x8x8..2x3x8x8..1x3x8x8", 2, {"input"}},
        {"FloatAsInt8", nothing, "build m.onnx -o e --precision int8", 2, {"quantise"}},
        {"MissingDevice", nothing, "build m.onnx -o e --device abacus", 2, {"abacus"}},
        {"NumberedCpuInBuild", nothing, "build m.onnx -o e --devices 0,1", 2, {"--devices", "cpu"}},
        {"NumberedCpuInRun", engine, "run m.engine photos --devices 1", 2, {"m.engine", "--devices"}},
        {"NumberedCpuInBench", engine, "bench m.engine --devices 0,1 --scaling", 2, {"m.engine", "--devices"}},
        {"ScalingOfACpu", engine, "bench m.engine --scaling", 2, {"--scaling", "--device cuda"}},
        {"OutputFolderMissing", nothing, "simplify m.onnx -o no/such/s.onnx", 3, {"no/such"}},
        {"OutputFolderMissingForEngine", nothing, "build m.onnx -o no/such/m.engine", 3, {"no/such"}},
        {"BadPreprocess",
         [](const Workspace& w) { w.write("p.json", "{\"resize\": \"small\"}"); },
         "calibrate m.onnx --data photos --preprocess p.json -o r",
         3,
         {"p.json", "resize"}},
        {"BrokenJson",
         [](const Workspace& w) { w.write("b.json", "{\"kind\": "); },
         "report b.json -o r.html",
         3,
         {"b.json"}},
        {"MoreDimensionsThanOpenVinoTakes",
         [](const Workspace& w) {
             std::string ones;
             for (int i = 0; i < 40; ++i)
                 ones += ", 1";
             w.save(model_from_text("opset 18\ninput %x: float32[2, 4]\nconst %shape: int64[42] = {2, 4" + ones +
                                    "}\n%y = Reshape(%x, %shape)\noutput %y: float32[2, 4" + ones + "]\n"),
                    "deep.onnx");
         },
         "build deep.onnx -o e",
         4,
         {"42 dimensions", "at most 32"}},
        {"UnlabelledData", engine, "eval m.engine --data arrays.npy", 2, {"label"}},
    };
}

void PrintTo(const BadInput& each, std::ostream* out) { *out << each.arguments; }

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsRefusedByName) {
    const BadInput& each = GetParam();
    const Workspace work;
    each.prepare(work);
    const CommandResult result = work.lathe(each.arguments, "timeout 60");
    EXPECT_EQ(result.exit_code, each.exit_code) << each.arguments << "\n" << result.output << result.errors;
    for (const std::string& word : each.words)
        EXPECT_THAT(result.errors, HasSubstr(word)) << each.arguments;
    EXPECT_EQ(result.errors.find("unexpected failure"), std::string::npos) << result.errors;
}

INSTANTIATE_TEST_SUITE_P(All, BadInputTest, testing::ValuesIn(bad_inputs()),
                         [](const auto& tested) { return tested.param.name; });

// A flipped byte anywhere is either refused by name, or changes nothing (padding, which no digest covers).
TEST(BadInput, FlippedByteOfAnEngine) {
    const Workspace work;
    work.make_engine();
    const std::string expected = work.good("run m.engine photos/rgb.png").output;
    int refused = 0;
    for (const double where : {0.0, 0.0005, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999}) {
        flip(work, "m.engine", "bad.engine", where);
        const CommandResult result = work.lathe("run bad.engine photos/rgb.png", "timeout 60");
        if (result.exit_code == 0) {
            EXPECT_EQ(result.output, expected) << where;
            continue;
        }
        ++refused;
        EXPECT_EQ(result.exit_code, 3) << where << result.errors;
        EXPECT_THAT(result.errors, HasSubstr("bad.engine")) << where;
    }
    EXPECT_GE(refused, 7);
}

} // namespace
} // namespace lathe::test
