// `lathe sensitivity` and `lathe tune` as a user runs them: results, interruptions, wrong input.
#include <cmath>
#include <csignal>
#include <map>
#include <set>

#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

const std::string sensitivity = "sensitivity m.onnx --data photos --calibrate arrays.npy ";
const std::string tune_command =
    "tune m.onnx --data photos --calibrate arrays.npy --metric kl --max-drop 1 --time-budget 5 "
    "--time-limit 0.2 --sensitivity-samples 4 --output best.engine ";

TEST(SensitivityCommand, RanksLayersAndGivesAdvice) {
    const Workspace work;
    const Json result = work.good_json(sensitivity + "-o s.json --report s.html --batch-size 4");
    EXPECT_EQ(result["kind"], "sensitivity");
    EXPECT_EQ(result["samples"], 10);
    ASSERT_EQ(result["layers"].size(), 3U);
    EXPECT_EQ(result["layers"][0]["rank"], 1);
    EXPECT_GE(result["layers"][0]["damage"], result["layers"][1]["damage"]);
    EXPECT_TRUE(result["layers"][0]["top1"].is_number());
    EXPECT_FALSE(result["advice"].empty());
    EXPECT_EQ(work.json("s.json")["layers"], result["layers"]);
    EXPECT_FALSE(std::filesystem::exists(work.path("s.json.part"))) << "done: nothing to go on with";
    EXPECT_EQ(work.page("s.html")["sensitivity"], result);
    EXPECT_THAT(work.good("report s.json -o r.html").output, HasSubstr("r.html"));
    EXPECT_EQ(work.page("r.html")["sensitivity"], result);
    // Numbers of the GPU's quantisation, computed on the CPU: its stem stays float.
    const Json gpu = work.good_json(sensitivity + "--device cuda");
    EXPECT_EQ(gpu["target"], "cuda");
    EXPECT_FALSE(gpu["layers"].back()["quantized"].get<bool>());
}

TEST(SensitivityCommand, SaysWhatIsWrong) {
    const Workspace work;
    work.write("s.json.part", "{\"kind\": \"journal\", \"version\": 1, \"key\": \"other\", \"state\": {}}");
    const CommandResult other = work.lathe(sensitivity + "-o s.json");
    EXPECT_EQ(other.exit_code, 3) << other.errors;
    EXPECT_THAT(other.errors, HasSubstr("another model"));
    (void)work.good(sensitivity + "-o s.json --force");
    std::filesystem::create_directory(work.path("empty"));
    for (const auto& [arguments, code, words] :
         {std::tuple{"sensitivity m.onnx --data nowhere", 3, "no such file"},
          std::tuple{"sensitivity m.onnx --data arrays.npy --metric top1", 2, "needs labels"},
          std::tuple{"sensitivity m.onnx --data arrays.npy --metric beauty", 2, "beauty"},
          std::tuple{"sensitivity m.onnx --data arrays.npy -o no/such/folder/s.json", 3, "no/such/folder"},
          std::tuple{"sensitivity m.onnx --data arrays.npy --output-name nothing", 3, "nothing"},
          std::tuple{"sensitivity m.onnx --data empty --calibrate arrays.npy", 3, "empty"}}) {
        const CommandResult result = work.lathe(arguments);
        EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(words)) << arguments;
    }
    work.write("photos/labels.csv", "file,class_index\nrgb.png,99\n");
    const CommandResult label = work.lathe(sensitivity + "-o t.json");
    EXPECT_EQ(label.exit_code, 3) << label.errors;
    EXPECT_THAT(label.errors, HasSubstr("label 99"));
    EXPECT_FALSE(std::filesystem::exists(work.path("t.json.part"))) << "nothing was measured";
}

TEST(TuneCommand, HandsOutAnEngineThatItJudged) {
    const Workspace work;
    work.save_array("arrays.npy", {64, 3, 8, 8}); // enough to correct INT8 on before the search
    const CommandResult run = work.lathe(tune_command + "--results t.json --report t.html");
    // On so small a network any precision may be the fastest; what is told must be true either way.
    ASSERT_TRUE(run.exit_code == 0 || run.exit_code == 5) << run.exit_code << run.errors;
    const Json result = work.json("t.json");
    EXPECT_EQ(result["good"], run.exit_code == 0);
    EXPECT_EQ(result["search_samples"], 5);
    EXPECT_EQ(result["judged"]["samples"], 5) << "the other half";
    EXPECT_GE(result["trials"].size(), 2U);
    EXPECT_EQ(result["trials"][0]["name"], "FP32");
    EXPECT_EQ(result["layers"].size(), 3U);
    EXPECT_EQ(work.good_json("inspect best.engine")["hashes"].contains("mix"), true);
    EXPECT_FALSE(std::filesystem::exists(work.path("best.engine.journal")));
    std::set<std::string> corrections;
    for (const Json& step : result["corrections"]["steps"])
        corrections.insert(step["method"].get<std::string>());
    EXPECT_THAT(corrections, testing::IsSupersetOf({"equalize", "smooth", "rounding"}));
    EXPECT_EQ(work.page("t.html")["tune"], result);
}

TEST(TuneCommand, RanksByNoiseWhereThatIsLimited) {
    const Workspace work;
    (void)work.good(sensitivity + "-o s.json");
    const CommandResult run =
        work.lathe("tune m.onnx --data photos --calibrate arrays.npy --metric sqnr --max-drop 100 --effort 0 "
                   "--time-budget 0 --time-limit 0.1 --sensitivity s.json --results t.json --output best.engine");
    ASSERT_TRUE(run.exit_code == 0 || run.exit_code == 5) << run.exit_code << run.errors;
    EXPECT_THAT(run.output, HasSubstr("ranked by noise/signal"));
    const Json result = work.json("t.json");
    EXPECT_EQ(result["ranked_by"], "sqnr");
    std::map<std::string, double> noise;
    const Json measured = work.json("s.json");
    for (const Json& layer : measured["layers"])
        noise[layer["node"]] = std::pow(10, -layer["sqnr_db"].get<double>() / 10);
    for (const Json& layer : result["layers"])
        EXPECT_DOUBLE_EQ(layer["damage"], noise.at(layer["node"])) << layer["node"];
    for (const Json& trial : result["trials"]) {
        if (trial.contains("failed")) continue;
        EXPECT_NEAR(trial["drop"].get<double>(), 100 * trial["loss"].get<double>(), 1e-9);
    }
}

/// Trials that the journal beside best.engine holds; 0 where there is none.
std::size_t kept_trials(const Workspace& work) {
    if (!std::filesystem::exists(work.path("best.engine.journal"))) return 0;
    return work.json("best.engine.journal")["state"]["trials"].size();
}

/// Starts tune and kills it once its journal holds this many trials. Whether it was killed before its end.
bool killed_after(const Workspace& work, std::size_t trials) {
    const std::string kill =
        "until [ $(grep -o '\"phase\"' best.engine.journal 2>/dev/null | wc -l) -ge " + std::to_string(trials) +
        " ] || grep -q '^State:.Z' /proc/$p/status; do sleep 0.02; done; " + "kill -KILL $p; wait $p";
    const CommandResult result = run_command("cd '" + work.path("").string() + "' && { '" + test::lathe_binary() +
                                             "' " + tune_command + " >/dev/null 2>&1 & p=$!; " + kill + "; }");
    return result.exit_code == 128 + SIGKILL;
}

TEST(TuneCommand, KilledItGoesOn) {
    const Workspace work;
    Json journal;
    for (const std::size_t wanted : {1, 3}) {
        ASSERT_TRUE(killed_after(work, wanted)) << "it ended before " << wanted << " trials were kept";
        ASSERT_GE(kept_trials(work), wanted);
        // What was measured before the first kill is not measured again.
        const Json now = work.json("best.engine.journal");
        for (std::size_t i = 0; !journal.is_null() && i < journal["state"]["trials"].size(); ++i)
            EXPECT_EQ(now["state"]["trials"][i], journal["state"]["trials"][i]);
        journal = now;
        (void)work.good("inspect best.engine"); // whole at every moment
    }
    const CommandResult other = work.lathe(tune_command + "--slack 0.1");
    EXPECT_EQ(other.exit_code, 3) << other.errors;
    EXPECT_THAT(other.errors, HasSubstr("other options"));
    const std::size_t trials = kept_trials(work);
    const CommandResult rest = work.lathe(tune_command + "--results t.json");
    ASSERT_TRUE(rest.exit_code == 0 || rest.exit_code == 5) << rest.errors;
    EXPECT_THAT(rest.output, HasSubstr("going on after " + std::to_string(trials) + " trials"));
    const Json result = work.json("t.json");
    ASSERT_GE(result["trials"].size(), trials);
    for (std::size_t i = 0; i < trials; ++i) {
        const Json& kept = journal["state"]["trials"][i];
        const char* figure = kept["failed"] == "" ? "latency_ms" : "failed"; // a precision that this processor lacks
        EXPECT_EQ(result["trials"][i][figure], kept[figure]) << "not again";
    }
}

/// The corrections of a real model take most of a minute.
TEST(TuneCommand, TellsOfOpenSizesBeforeTheCorrections) {
    const Workspace work;
    Model open = tiny_classifier();
    (*open.graph.inputs[0].dims)[2] = Dimension::named("height");
    work.save(open, "open.onnx");
    const CommandResult result =
        work.lathe("tune open.onnx --data photos --calibrate arrays.npy --effort 1 --metric kl -o e");
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("not of the batch, that is open"));
    EXPECT_THAT(result.output, testing::Not(HasSubstr("held-back"))) << "after them";
    EXPECT_FALSE(std::filesystem::exists(work.path("e")));
}

TEST(TuneCommand, SaysWhatIsWrong) {
    const Workspace work;
    work.save_array("one.npy", {1, 3, 8, 8});
    for (const auto& [arguments, code, words] :
         {std::tuple{"tune m.onnx --data photos --time-budget soon -o e", 2, "soon"},
          std::tuple{"tune m.onnx --data photos --metric beauty -o e", 2, "beauty"},
          std::tuple{"tune m.onnx --data photos --device abacus -o e", 2, "abacus"},
          std::tuple{"tune m.onnx --data photos -o no/such/folder/e", 3, "no/such/folder"},
          std::tuple{"tune m.onnx --data arrays.npy -o e", 2, "needs labels"},
          std::tuple{"tune m.onnx --data one.npy --metric kl -o e", 2, "too few"},
          std::tuple{"tune m.onnx --data photos --judge nowhere -o e", 3, "nowhere"},
          std::tuple{"tune m.onnx --data photos --sensitivity photos/labels.csv -o e", 3, "labels.csv"}}) {
        const CommandResult result = work.lathe(arguments);
        EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(words)) << arguments;
    }
    EXPECT_FALSE(std::filesystem::exists(work.path("e")));
}

} // namespace
} // namespace lathe::test
