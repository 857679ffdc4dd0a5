// Every command does its work on a tiny model, as its --json and its files show.
#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(Cli, HelpVersionAndWrongUsage) {
    const Workspace work;
    EXPECT_THAT(work.good("--version").output, HasSubstr("lathe "));
    const std::string help = work.good("--help").output;
    for (const char* command :
         {"demo",     "optimize", "export",      "inspect", "simplify",     "calibrate", "convert-ranges",
          "quantize", "autocast", "build",       "run",     "profile-data", "bench",     "trtexec-log",
          "eval",     "compare",  "sensitivity", "tune",    "plan",         "deploy",    "report",
          "show",     "doctor",   "completion",  "man"}) {
        EXPECT_THAT(help, HasSubstr(command));
        const std::string own = work.good(std::string(command) + " --help").output;
        EXPECT_THAT(own, HasSubstr("lathe " + std::string(command)));
        if (own.find("\n  --output ") != std::string::npos) ADD_FAILURE() << command << " has --output, but not -o";
    }
    struct Case {
        std::string arguments;
        std::string names;
    };
    for (const Case& each :
         {Case{"simplify m.onnx --frobnicate", "--frobnicate"}, Case{"frobnicate", "frobnicate"},
          Case{"quantise m.onnx", "quantise: did you mean quantize?"},
          Case{"calibrate m.onnx --dat=arrays.npy", "--dat: did you mean --data?"}, Case{"", "subcommand"},
          Case{"build m.onnx --out e", "--out: did you mean --output?"}, Case{"build m.onnx", "--output"},
          Case{"quantize m.onnx --target abacus", "abacus"}, Case{"build m.onnx -o e --precision int3", "int3"},
          Case{"build m.onnx -o e --lengths 8,x", "\"x\" is not a number above 0"},
          Case{"build m.onnx -o e --lengths 0", "\"0\" is not a number above 0"},
          Case{"build m.onnx -o e --devices -1", "\"-1\" is not a number from 0 up"},
          Case{"simplify m.onnx -o s.onnx --disable nothing", "nothing"},
          Case{"simplify m.onnx -o s.onnx --device abacus", "known devices: cpu, cuda, tensorrt"},
          Case{"calibrate m.onnx --data arrays.npy --method guess", "guess"}}) {
        const CommandResult result = work.lathe(each.arguments);
        EXPECT_EQ(result.exit_code, 2) << each.arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(each.names)) << each.arguments;
    }
}

TEST(Cli, Simplify) {
    const Workspace work;
    const Json passes = work.good_json("simplify --list-passes");
    EXPECT_GT(passes["passes"].size(), 10U);
    const Json all = work.good_json("simplify m.onnx -o s.onnx --dump steps");
    EXPECT_LT(all["after_nodes"], all["before_nodes"]);
    EXPECT_GT(all["verified_samples"], 0);
    const auto model = load_onnx(work.path("s.onnx"));
    ASSERT_TRUE(model);
    EXPECT_EQ(model->graph.nodes.size(), all["after_nodes"]);
    EXPECT_TRUE(std::ranges::none_of(model->graph.nodes, [](const auto& n) { return n->is("BatchNormalization"); }));
    std::size_t dumped = 0;
    for (const auto& entry : std::filesystem::directory_iterator(work.path("steps"))) {
        EXPECT_THAT(work.read("steps/" + entry.path().filename().string()), HasSubstr("opset 18"));
        ++dumped;
    }
    EXPECT_GT(dumped, 0U);

    std::string disable;
    for (const Json& pass : passes["passes"])
        disable += " --disable " + pass["name"].get<std::string>();
    const Json none = work.good_json("simplify m.onnx -o n.onnx" + disable);
    EXPECT_EQ(none["after_nodes"], none["before_nodes"]);
}

TEST(Cli, CalibrateAndQuantize) {
    const Workspace work;
    work.make_simple();
    for (const char* method : {"minmax", "percentile", "entropy", "mse"}) {
        const std::string output = std::string(method) + ".ranges";
        const Json json = work.good_json("calibrate s.onnx --data arrays.npy --samples 20 --method " +
                                         std::string(method) + " -o " + output);
        EXPECT_EQ(json["method"], method);
        EXPECT_EQ(json["samples"], 20);
        EXPECT_FALSE(json["reused"]);
        EXPECT_GT(json["tensors"].size(), 1U);
    }
    EXPECT_TRUE(work.good_json("calibrate s.onnx --data arrays.npy --samples 20 -o mse.ranges")["reused"]);
    EXPECT_FALSE(work.good_json("calibrate s.onnx --data arrays.npy --samples 20 -o mse.ranges --force")["reused"]);
    const CommandResult other = work.lathe("calibrate s.onnx --data photos -o mse.ranges");
    EXPECT_EQ(other.exit_code, 3);
    EXPECT_THAT(other.errors, HasSubstr("mse.ranges"));
    EXPECT_THAT(other.errors, HasSubstr("--force"));

    for (const char* target : {"openvino", "onnxruntime", "tensorrt", "cuda"}) {
        const std::string output = std::string(target) + ".onnx";
        const Json json = work.good_json("quantize s.onnx --ranges mse.ranges --explain --target " +
                                         std::string(target) + " -o " + output);
        EXPECT_GT(json["quantized_nodes"], 0) << target;
        EXPECT_GT(json["decisions"].size(), 3U);
        const auto model = load_onnx(work.path(output));
        ASSERT_TRUE(model) << target;
        EXPECT_TRUE(std::ranges::any_of(model->graph.nodes, [](const auto& n) { return n->is("DequantizeLinear"); }));
        const Json judged = work.good_json("quantize --lint " + output + " --target " + target);
        EXPECT_EQ(judged["errors"], 0) << judged.dump(2);
    }
    const Json formats =
        work.good_json("quantize s.onnx --ranges mse.ranges --weights per-tensor --activations symmetric "
                       "-o formats.onnx");
    EXPECT_EQ(formats["weight_granularity"], "per-tensor");
    EXPECT_EQ(formats["activation_scheme"], "symmetric");
    EXPECT_EQ(work.good_json("quantize --lint formats.onnx --target openvino")["errors"], 0);
    EXPECT_EQ(work.good_json("quantize s.onnx --explain --weights per-tensor")["weight_granularity"], "per-tensor");
    const CommandResult refused = work.lathe("quantize s.onnx --ranges mse.ranges --target tensorrt --activations "
                                             "asymmetric -o refused.onnx");
    EXPECT_EQ(refused.exit_code, 4);
    EXPECT_THAT(refused.errors, HasSubstr("tensorrt has symmetric int8 activations only"));
    EXPECT_THAT(work.good("quantize s.onnx --explain").output, HasSubstr("second"));
    const Json without = work.good_json("quantize s.onnx --ranges mse.ranges --exclude second -o x.onnx");
    bool seen = false;
    for (const Json& decision : without["decisions"]) {
        if (decision["node"] != "second" || decision["role"] == "bias") continue;
        EXPECT_EQ(decision["reason"], "excluded_by_user");
        seen = true;
    }
    EXPECT_TRUE(seen);
}

TEST(Cli, CorrectsWhatInt8Costs) {
    const Workspace work;
    work.make_ranges();
    work.save_array("more.npy", {64, 3, 8, 8}); // correcting wants 32
    const std::string quantize = "quantize s.onnx --ranges s.ranges -o q.onnx ";
    const auto methods_of = [](const Json& document) {
        std::vector<std::string> methods;
        for (const Json& step : document["corrections"]["steps"])
            methods.push_back(step["method"]);
        return methods;
    };
    const auto with = [&](const std::string& options) {
        return methods_of(work.good_json(quantize + "--data more.npy " + options));
    };
    using Methods = std::vector<std::string>;
    EXPECT_EQ(with("--effort 1"), (Methods{"smooth", "bias-correction"}));
    EXPECT_EQ(with("--method auto"), Methods{"ranges"});
    EXPECT_EQ(with("--rounding output-error --bias-correction fast"), (Methods{"bias-correction", "rounding"}));
    EXPECT_EQ(with("--effort 3"),
              (Methods{"last-layers", "equalize", "smooth", "ranges", "bias-correction", "rounding"}));
    EXPECT_EQ(with("--effort 3 --method entropy --last-layers int8 --smooth off --bias-correction none"),
              (Methods{"equalize", "rounding"}));
    const Json given = work.good_json(quantize + "--data more.npy --equalize on --range r1=0,3");
    EXPECT_THAT(given["corrections"]["steps"][0]["detail"].get<std::string>(), HasSubstr("1 left: a range is given"));
    for (const char* options : {"--effort 1", "--method auto", "--equalize on"}) {
        const CommandResult no_data = work.lathe(quantize + options);
        EXPECT_EQ(no_data.exit_code, 2) << options;
        EXPECT_THAT(no_data.errors, HasSubstr("--data"));
    }
    const CommandResult few = work.lathe(quantize + "--effort 1 --data arrays.npy");
    EXPECT_NE(few.exit_code, 0);
    EXPECT_THAT(few.errors, HasSubstr("at least 32 samples"));
}

// Not every flat row of floats is scores over classes: the model has to say so.
TEST(Cli, RunNamesClassesOfScoresAlone) {
    const Workspace work;
    work.save_array("rows.npy", {2, 4});
    struct Case {
        std::string output;
        const char* labels; ///< nullptr: none
        std::string name;   ///< how that of the first class begins; empty: no classes are named
    };
    for (const Case& each : {Case{"sentence_embedding", nullptr, ""}, Case{"y", nullptr, ""},
                             Case{"logits", nullptr, "class "}, Case{"y", R"(["one","one","one","one"])", "one"},
                             Case{"y", R"(["one","one","one"])", ""}, Case{"logits", R"(["one"])", "class "}}) {
        Model model = model_from_text("opset 18\ninput %input: float32[N, 4]\n%" + each.output +
                                      " = Neg(%input)\noutput %" + each.output + ": float32[N, 4]\n");
        if (each.labels != nullptr) model.set_metadata("lathe.labels", each.labels);
        work.save(model, "flat.onnx");
        (void)work.good("build flat.onnx -o flat.engine");
        const Json sample = work.good_json("run flat.engine rows.npy")["samples"][0];
        ASSERT_EQ(sample.contains("top"), !each.name.empty()) << each.output << "\n" << sample;
        if (each.name.empty()) continue;
        EXPECT_THAT(sample["top"][0]["name"].get<std::string>(), testing::StartsWith(each.name));
    }
}

// Axis 0 of arrays may be time: it is cut where it must be or where that is asked for, and not because the engine was
// built with another favourite.
TEST(Cli, RunGivesArraysThatFitAsTheyAre) {
    const Workspace work;
    work.save(model_from_text("opset 18\ninput %steps: float32[T, 2]\n%axis = Constant() {value_int = 0}\n"
                              "%sums = CumSum(%steps, %axis)\noutput %sums: float32[T, 2]\n"),
              "sums.onnx");
    (void)work.good("build sums.onnx -o sums.engine --shape steps:1x2..2x2..6x2");
    HostTensor steps("steps", DataType::float32, {5, 2});
    std::ranges::fill(steps.as<float>(), 1.0F);
    ASSERT_TRUE(write_npy(work.path("steps.npy"), steps.view()));
    const auto last = [&](const std::string& options) {
        (void)work.good("run sums.engine steps.npy -o sums.npz " + options);
        const auto outputs = read_npz(work.path("sums.npz"));
        return outputs && outputs->at(0).shape == Shape{5, 2} ? outputs->at(0).as<const float>()[9] : -1.0F;
    };
    EXPECT_EQ(last(""), 5.0F);
    EXPECT_EQ(last("--batch-size 2"), 1.0F) << "the last request holds one step";
}

TEST(Cli, RunTellsOfNan) {
    const Workspace work;
    work.save(model_from_text("opset 18\ninput %x: float32[N, 4]\n%y = Relu(%x)\n%z = Log(%x)\n"
                              "output %y: float32[N, 4]\noutput %z: float32[N, 4]\n"),
              "relu.onnx");
    (void)work.good("build relu.onnx -o relu.engine");
    const auto run_of = [&](float value, const std::string& options) {
        HostTensor x("x", DataType::float32, {2, 4});
        std::ranges::fill(x.as<float>(), 1.0F);
        x.as<float>()[6] = value;
        EXPECT_TRUE(write_npy(work.path("x.npy"), x.view()));
        return work.good("run relu.engine x.npy -o y.npz" + options);
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(run_of(nan, "").errors, HasSubstr("input x holds 1 NaN in sample 1"));
    EXPECT_THAT(run_of(-1, "").errors, HasSubstr("output z holds 1 NaN in sample 1, though no input does"));
    EXPECT_THAT(run_of(2, "").errors, testing::Not(HasSubstr("NaN")));
    EXPECT_THAT(run_of(-std::numeric_limits<float>::infinity(), "").errors, testing::Not(HasSubstr("input x")));
    EXPECT_THAT(run_of(nan, " --json").output, HasSubstr("\"nan_inputs\": 1"));
}

TEST(Cli, BuildInspectRun) {
    const Workspace work;
    const Json built = work.good_json("build m.onnx -o m.engine --shape input:1x3x8x8..2x3x8x8..4x3x8x8");
    EXPECT_EQ(built["precision"], "fp32");
    work.make_int8_engine();

    const Json model = work.good_json("inspect m.onnx --layers");
    EXPECT_EQ(model["inputs"][0]["name"], "input");
    EXPECT_GT(model["parameters"], 1000);
    const Json engine = work.good_json("inspect m.engine --layers");
    EXPECT_EQ(engine["kind"], "engine");
    EXPECT_GT(engine["layers"].size(), 1U);
    const Json int8 = work.good_json("inspect q.engine --layers");
    EXPECT_EQ(int8["precision"], "int8");
    EXPECT_TRUE(std::ranges::any_of(int8["layers"], [](const Json& l) { return l["precision"] == "int8"; }));

    EXPECT_THAT(work.good("run m.engine photos/rgb.png").output,
                testing::AnyOf(HasSubstr("ant"), HasSubstr("bee"), HasSubstr("cat")));
    const Json top = work.good_json("run m.engine photos --top-k 2");
    ASSERT_EQ(top["samples"].size(), 10U);
    EXPECT_EQ(top["samples"][0]["top"].size(), 2U);
    (void)work.good("run m.engine arrays.npy -o out.npz --batch-size 3");
    const auto outputs = read_npz(work.path("out.npz"));
    ASSERT_TRUE(outputs);
    EXPECT_EQ((*outputs)[0].shape, (Shape{24, 5}));
    (void)work.good("run q.engine arrays.npy -o int8.npz --batch-size 8");
    auto rounded = read_npz(work.path("int8.npz"));
    ASSERT_TRUE(rounded);
    HostTensor exact = (*outputs)[0];
    float largest = 0;
    for (const float value : exact.as<float>())
        largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < exact.as<float>().size(); ++i)
        EXPECT_NEAR((*rounded)[0].as<float>()[i], exact.as<float>()[i], 0.1F * largest);

    const CommandResult outside = work.lathe("run m.engine arrays.npy --batch-size 5");
    EXPECT_EQ(outside.exit_code, 3);
    EXPECT_THAT(outside.errors, HasSubstr("1x3x8x8..2x3x8x8..4x3x8x8"));
}

TEST(Cli, EvalBenchReportDoctor) {
    const Workspace work;
    work.make_engine();
    work.make_int8_engine();
    const Json eval = work.good_json("eval q.engine --reference m.engine --data photos --output eval.json");
    EXPECT_EQ(eval["kind"], "eval");
    EXPECT_EQ(work.json("eval.json")["subjects"], eval["subjects"]);
    const auto judged =
        std::ranges::find_if(eval["subjects"], [](const Json& subject) { return subject["precision"] == "int8"; });
    ASSERT_NE(judged, eval["subjects"].end()) << eval.dump(2);
    EXPECT_EQ((*judged)["samples"], 10);
    EXPECT_GE((*judged)["vs_reference"]["agreement"], 0.0);

    const Json bench = work.good_json("bench q.engine m.engine --batch-sizes 1,4 --duration 0.2 --time-limit 0.2 "
                                      "--output bench.json");
    EXPECT_EQ(bench["latency"].size(), 4U);
    EXPECT_EQ(bench["throughput"].size(), 4U);
    for (const Json& row : bench["latency"])
        EXPECT_GT(row["median_ms"], 0.0);

    (void)work.good("report bench.json eval.json -o report.html");
    const std::string page = work.read("report.html");
    EXPECT_THAT(page, HasSubstr("</html>"));
    EXPECT_EQ(page.find("src=\"http"), std::string::npos);
    EXPECT_THAT(work.good("doctor").output, HasSubstr("openvino"));
    EXPECT_TRUE(work.good_json("doctor").is_object());
}

TEST(Cli, DoctorSaysWhatIsMissingOfTensorRtAndWhatIsInstalled) {
    const Workspace work;
    std::filesystem::create_directories(work.path("sdk/lib"));
    work.write("sdk/lib/libnvinfer.so.97", "made up");
    const Json document = Workspace::as_json(work.lathe("doctor --json", "LATHE_TENSORRT_LIBRARIES=sdk").output);
    const auto tensorrt =
        std::ranges::find_if(document["backends"], [](const Json& backend) { return backend["device"] == "tensorrt"; });
    ASSERT_NE(tensorrt, document["backends"].end()) << document.dump(2);
    const auto cause = (*tensorrt)["cause"].get<std::string>(), cure = (*tensorrt)["cure"].get<std::string>();
    if ((*tensorrt)["available"] == true) { // headers and the libraries that fit them are on this machine
        EXPECT_EQ(cause + cure, "");
        return;
    }
    EXPECT_THAT(cause, HasSubstr("TensorRT 97 (sdk/lib/libnvinfer.so.97)"));
    EXPECT_THAT(cure, HasSubstr("-DTENSORRT_ROOT"));
}

TEST(Cli, ComparesModels) {
    const Workspace work;
    work.make_simple();
    EXPECT_EQ(work.good_json("compare m.onnx s.onnx --shape 2x3x8x8")["equal"], true);
    // Models of IR 3 list their weights among the inputs; nobody gives those.
    Model old = tiny_classifier();
    for (const auto& [name, tensor] : old.graph.initializers) {
        ValueInfo info;
        info.name = name;
        info.type = tensor.type();
        info.dims.emplace();
        for (const std::int64_t size : tensor.shape())
            info.dims->push_back(Dimension::of(size));
        old.graph.inputs.insert(old.graph.inputs.begin(), info);
    }
    work.save(old, "old.onnx");
    EXPECT_EQ(work.good_json("compare old.onnx m.onnx --data arrays.npy")["equal"], true);
    EXPECT_EQ(work.good_json("compare old.onnx m.onnx --shape 2x3x8x8")["equal"], true);
    work.save(tiny_classifier(9), "other.onnx");
    const CommandResult different = work.lathe("compare m.onnx other.onnx --data arrays.npy --reduce small.onnx");
    EXPECT_EQ(different.exit_code, 5);
    EXPECT_THAT(different.errors, HasSubstr("made by Conv first"));
    EXPECT_EQ(load_onnx(work.path("small.onnx"))->graph.nodes.size(), 1U);
    EXPECT_EQ(work.lathe("compare m.onnx other.onnx --data arrays.npy --min-sqnr -300").exit_code, 0);
}

} // namespace
} // namespace lathe::test
